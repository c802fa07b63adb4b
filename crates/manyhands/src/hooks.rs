//! What the application has SQLite ask and tell it: authorizer, progress handler, tracer.
//!
//! They are called by the thread that compiles or steps a statement, under the connection's mutex: they
//! must not use their own connection, and must not wait for a lock whose holder may wait for it. A panic
//! counts as "no".
//!
//! A connection also executes statements of its own: it begins and ends what the application's
//! transaction has become, replays a log, asks for new ids. Of these the application is neither asked
//! nor told.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use manyhands_sqlite::authorizer::{Action, Verdict};
use manyhands_sqlite::{Progress, Statement, Traced, Value};

use crate::Error;
use crate::connection::Connection;
use crate::mutex::lock;

type Authorizer = dyn Fn(&Action<'_>) -> Verdict + Send + Sync;

/// The application's authorizer, and whether it is to be asked now.
#[derive(Default)]
pub(crate) struct Hooks {
    /// How many guards say that a statement is the connection's own.
    own: AtomicU32,
    authorizer: Mutex<Option<Arc<Authorizer>>>,
    /// Asked for each action, and so before the mutex.
    has_authorizer: AtomicBool,
    is_traced: AtomicBool,
    /// What is told in the place of the statement that runs, which the application did not write so.
    shown: Mutex<Option<(String, Option<String>)>>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").field("own", &self.own).finish_non_exhaustive()
    }
}

impl Hooks {
    /// What is compiled and stepped on this connection until the guard is dropped is not the application's.
    pub(crate) fn own(self: &Arc<Hooks>) -> OwnStatements {
        self.own.fetch_add(1, Ordering::Relaxed);
        OwnStatements(Arc::clone(self))
    }

    /// What is compiled by `work` is the application's all the same.
    pub(crate) fn ask<T>(&self, work: impl FnOnce() -> T) -> T {
        let own = self.own.swap(0, Ordering::Relaxed);
        let done = work();
        self.own.store(own, Ordering::Relaxed);
        done
    }

    fn are_for_application(&self) -> bool {
        self.own.load(Ordering::Relaxed) == 0
    }

    /// Tells the application, until the guard is dropped, of the statement that it wrote, while one that was
    /// made of it runs.
    pub(crate) fn show(
        self: &Arc<Hooks>,
        written: &mut Statement,
        sql: &str,
        values: &[Value],
    ) -> Option<ShownStatement> {
        if !self.is_traced.load(Ordering::Relaxed) {
            return None;
        }
        written.bind_all(values.iter().map(Value::as_ref)).ok()?;
        *lock(&self.shown) = Some((sql.to_string(), written.expanded_sql()));
        Some(ShownStatement(Arc::clone(self)))
    }

    /// What the application is told.
    fn told(&self, traced: &Traced<'_>) -> Traced<'static> {
        let Some((sql, expanded)) = lock(&self.shown).clone() else {
            return Traced {
                sql: traced.sql.to_string().into(),
                expanded: traced.expanded.clone(),
            };
        };
        // A trigger shows as what it is.
        let comment = traced.sql.starts_with("--");
        Traced { sql: if comment { traced.sql.to_string() } else { sql }.into(), expanded }
    }

    /// The application is told of each statement that it wrote.
    pub(crate) fn is_traced(&self) -> bool {
        self.is_traced.load(Ordering::Relaxed)
    }

    /// The application is asked about each action of a statement that it wrote.
    pub(crate) fn has_authorizer(&self) -> bool {
        self.has_authorizer.load(Ordering::Relaxed)
    }

    /// What the application says of an action.
    pub(crate) fn verdict(&self, action: &Action<'_>) -> Verdict {
        if !self.has_authorizer() || !self.are_for_application() {
            return Verdict::Allow;
        }
        let authorizer = lock(&self.authorizer).clone();
        authorizer.map_or(Verdict::Allow, |authorizer| authorizer(action))
    }
}

/// See [`Hooks::own`].
#[derive(Debug)]
#[must_use = "statements are the application's when the guard is dropped"]
pub(crate) struct OwnStatements(Arc<Hooks>);

impl Drop for OwnStatements {
    fn drop(&mut self) {
        self.0.own.fetch_sub(1, Ordering::Relaxed);
    }
}

/// See [`Hooks::show`].
#[derive(Debug)]
pub(crate) struct ShownStatement(Arc<Hooks>);

impl Drop for ShownStatement {
    fn drop(&mut self) {
        *lock(&self.0.shown) = None;
    }
}

impl Connection {
    /// Until the guard is dropped, statements are not the application's.
    pub(crate) fn own_statements(&self) -> OwnStatements {
        self.open().compiler.hooks.own()
    }

    /// Sets or unsets the authorizer, which is asked about everything that a statement will touch while
    /// it is compiled (<https://sqlite.org/c3ref/set_authorizer.html>). A connection that has one executes
    /// its writes itself.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// use manyhands::{Action, ActionKind, Verdict, params};
    /// let mut connection = database.connect()?;
    /// connection.execute("CREATE TABLE secret (word)", params![])?;
    /// connection.set_authorizer(Some(|action: &Action<'_>| match action.kind {
    ///     ActionKind::Read if action.first == Some("secret") => Verdict::Deny,
    ///     _ => Verdict::Allow,
    /// }))?;
    /// assert!(connection.query("SELECT word FROM secret", params![]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// In a transaction that has to move to its turn first: as [`Connection::execute`].
    pub fn set_authorizer(
        &mut self,
        authorizer: Option<impl Fn(&Action<'_>) -> Verdict + Send + Sync + 'static>,
    ) -> Result<(), Error> {
        self.before_change()?;
        let authorizer = authorizer.map(|it| Arc::new(it) as Arc<Authorizer>);
        let hooks = &self.open().compiler.hooks;
        hooks.has_authorizer.store(authorizer.is_some(), Ordering::Relaxed);
        *lock(&hooks.authorizer) = authorizer;
        self.after_change(true);
        Ok(())
    }

    /// Sets or unsets a closure that is asked every `instructions` instructions of a running statement
    /// whether to go on; one that must stop fails with `SQLITE_INTERRUPT`. A connection that has one
    /// executes its writes itself.
    ///
    /// # Errors
    /// As [`Connection::set_authorizer`].
    pub fn set_progress_handler(
        &mut self,
        instructions: u32,
        handler: Option<impl Fn() -> Progress + Send + 'static>,
    ) -> Result<(), Error> {
        self.before_change()?;
        match handler {
            Some(handler) => self.check_and_ask(instructions, handler),
            None => self.open().check_while_running(),
        }
        self.after_change(true);
        Ok(())
    }

    /// Sets or unsets a closure that is told of each statement, and of each trigger, that begins to run.
    /// A connection that has one executes its writes itself.
    ///
    /// # Errors
    /// As [`Connection::set_authorizer`].
    pub fn set_tracer(
        &mut self,
        tracer: Option<impl Fn(&Traced<'_>) + Send + 'static>,
    ) -> Result<(), Error> {
        self.before_change()?;
        let hooks = Arc::clone(&self.open().compiler.hooks);
        hooks.is_traced.store(tracer.is_some(), Ordering::Relaxed);
        let tracer = tracer.map(|tracer| {
            move |traced: &Traced<'_>| {
                if hooks.are_for_application() {
                    tracer(&hooks.told(traced));
                }
            }
        });
        self.sqlite().set_tracer(tracer);
        self.after_change(true);
        Ok(())
    }
}
