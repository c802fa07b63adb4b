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
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use manyhands_sqlite::authorizer::{Action, Verdict};
use manyhands_sqlite::{Progress, Traced};

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

    fn are_for_application(&self) -> bool {
        self.own.load(Ordering::Relaxed) == 0
    }

    /// What the application says of an action.
    pub(crate) fn verdict(&self, action: &Action<'_>) -> Verdict {
        if !self.are_for_application() {
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
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// use manyhands::{Action, ActionKind, Verdict, params};
    /// let mut connection = database.connect()?;
    /// connection.execute("CREATE TABLE secret (word)", params![])?;
    /// connection.set_authorizer(Some(|action: &Action<'_>| match action.kind {
    ///     ActionKind::Read if action.first == Some("secret") => Verdict::Deny,
    ///     _ => Verdict::Allow,
    /// }))?;
    /// assert!(connection.query("SELECT word FROM secret", params![]).is_err());
    /// # Ok::<(), manyhands::Error>(())
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
        *lock(&self.open().compiler.hooks.authorizer) = authorizer;
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
            None => self.check_while_running(),
        }
        self.after_change(true);
        Ok(())
    }

    /// Sets or unsets a closure that is told of each statement, and of each trigger, that begins to run.
    /// A connection that has one executes its writes itself. In an optimistic transaction an INSERT that
    /// leaves its new id to SQLite shows as it is executed, with the place that the id is taken from.
    ///
    /// # Errors
    /// As [`Connection::set_authorizer`].
    pub fn set_tracer(
        &mut self,
        tracer: Option<impl Fn(&Traced<'_>) + Send + 'static>,
    ) -> Result<(), Error> {
        self.before_change()?;
        let hooks = Arc::clone(&self.open().compiler.hooks);
        let tracer = tracer.map(|tracer| {
            move |traced: &Traced<'_>| {
                if hooks.are_for_application() {
                    tracer(traced);
                }
            }
        });
        self.sqlite().set_tracer(tracer);
        self.after_change(true);
        Ok(())
    }
}
