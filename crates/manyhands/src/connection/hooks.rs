//! The application's authorizer, progress handler and tracer.
//!
//! They are called by the thread that compiles or steps a statement, under the connection's mutex: they
//! must not use their own connection, and must not wait for a lock whose holder may wait for it. A panic
//! counts as "no".
//!
//! A connection also executes statements of its own: it begins and ends what the application's
//! transaction has become, replays a log, asks for new ids. The application is neither asked about these nor told of
//! them.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use manyhands_sqlite::authorizer::{Action, Verdict};
use manyhands_sqlite::{Progress, RowChange, Traced};

use crate::Error;
use crate::connection::Connection;
use crate::statement::hooks::{ApplicationStatements, Authorizer, OwnStatements};

impl Connection {
    /// Until the guard is dropped, statements are not the application's.
    pub(crate) fn own_statements(&self) -> OwnStatements {
        self.session().own_statements()
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
        self.session().compiler.hooks.set_authorizer(authorizer);
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
            None => self.session().check_while_running(),
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
        let hooks = Arc::clone(&self.session().compiler.hooks);
        hooks.set_traced(tracer.is_some());
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

    /// Sets or unsets a closure that is told of each row of a rowid table that a statement inserts, updates or deletes
    /// (<https://sqlite.org/c3ref/update_hook.html>). What a statement is told of happens: a connection that has such a closure
    /// executes its writes itself, and its transactions take their turn when they begin, also optimistic ones, unless they
    /// only read.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// use manyhands::{ChangeKind, RowChange};
    /// let mut connection = database.connect()?;
    /// connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY)", ())?;
    /// let (send, changes) = std::sync::mpsc::channel();
    /// connection.set_update_hook(Some(move |change: &RowChange<'_>| {
    ///     let _ = send.send((change.kind, change.table.to_string(), change.rowid));
    /// }))?;
    /// connection.execute("INSERT INTO item VALUES (7)", ())?;
    /// assert_eq!(changes.try_recv()?, (ChangeKind::Insert, "item".to_string(), 7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// In a transaction that has to move to its turn first: as [`Connection::execute`].
    pub fn set_update_hook(
        &mut self,
        hook: Option<impl Fn(&RowChange<'_>) + Send + 'static>,
    ) -> Result<(), Error> {
        self.before_hearing_changes()?;
        let hooks = Arc::clone(&self.session().compiler.hooks);
        self.sqlite().set_update_hook(hook.map(|hook| {
            move |change: &RowChange<'_>| {
                if hooks.are_for_application() {
                    hook(change);
                }
            }
        }));
        self.after_change(true);
        Ok(())
    }

    /// Sets or unsets a closure that is asked before each commit of this connection that has written something, or that holds
    /// the turn, as after `BEGIN IMMEDIATE` in SQLite, whether to go on. When it answers [`Progress::Stop`], the transaction is rolled back, and its COMMIT, or the statement that would
    /// have committed by itself, fails with `SQLITE_CONSTRAINT_COMMITHOOK`. It has the price of
    /// [`Connection::set_update_hook`].
    ///
    /// # Errors
    /// See [`Connection::set_update_hook`].
    pub fn set_commit_hook(
        &mut self,
        hook: Option<impl Fn() -> Progress + Send + 'static>,
    ) -> Result<(), Error> {
        self.before_hearing_changes()?;
        let hooks = Arc::clone(&self.session().compiler.hooks);
        self.sqlite().set_commit_hook(hook.map(|hook| {
            move || if hooks.are_for_application() { hook() } else { Progress::Continue }
        }));
        self.after_change(true);
        Ok(())
    }

    /// Sets or unsets a closure that is told when a transaction of this connection was rolled back, by ROLLBACK or by an
    /// error; not when the connection is closed. It has the price of [`Connection::set_update_hook`].
    ///
    /// # Errors
    /// See [`Connection::set_update_hook`].
    pub fn set_rollback_hook(
        &mut self,
        hook: Option<impl Fn() + Send + 'static>,
    ) -> Result<(), Error> {
        self.before_hearing_changes()?;
        let hooks = Arc::clone(&self.session().compiler.hooks);
        self.sqlite().set_rollback_hook(hook.map(|hook| {
            move || {
                if hooks.are_for_application() {
                    hook();
                }
            }
        }));
        self.after_change(true);
        Ok(())
    }

    /// See [`ConnectionExt::hear_changes`](crate::driver::ConnectionExt::hear_changes).
    pub(crate) fn hear_changes<T>(&mut self, change: impl FnOnce() -> T) -> Result<T, Error> {
        self.before_hearing_changes()?;
        let done = change();
        self.after_change(true);
        Ok(done)
    }

    /// See [`ConnectionExt::set_wal_hook`](crate::driver::ConnectionExt::set_wal_hook).
    pub(crate) fn set_wal_hook(
        &mut self,
        hook: Option<impl Fn(u32) -> i32 + Send + 'static>,
    ) -> Result<(), Error> {
        self.before_change()?;
        let frames = Arc::clone(&self.session().frames);
        let hooks = Arc::clone(&self.session().compiler.hooks);
        let is_set = hook.is_some();
        self.sqlite().set_wal_hook(Some(move |count| {
            frames.store(count, Ordering::Relaxed);
            let hook = hook.as_ref().filter(|_| hooks.are_for_application());
            hook.map_or(0, |hook| hook(count))
        }));
        self.after_change(is_set);
        Ok(())
    }

    /// See [`ConnectionExt::application_statements`](crate::driver::ConnectionExt::application_statements).
    pub(crate) fn application_statements(&self) -> ApplicationStatements {
        ApplicationStatements(Arc::clone(&self.session().compiler.hooks))
    }

    /// From now on each write of this connection is to be told, once. A speculative transaction moves to its turn.
    fn before_hearing_changes(&mut self) -> Result<(), Error> {
        self.before_change()?;
        if !self.reads_only && self.optimistic.as_ref().is_some_and(|it| !it.auto) {
            self.escalate_first()?;
        }
        self.additions.hears_changes = true;
        Ok(())
    }
}
