//! A connection: where an application's statements come in.

pub(crate) mod attached;
pub(crate) mod auto_mode;
pub(crate) mod backup;
pub(crate) mod blob;
pub(crate) mod checkpoint;
pub(crate) mod commit;
pub(crate) mod compile;
pub(crate) mod compiled;
pub(crate) mod cursor;
pub(crate) mod db_config;
pub(crate) mod deferred;
pub(crate) mod entrance;
pub(crate) mod escalate;
pub(crate) mod extensions;
pub(crate) mod functions;
pub(crate) mod guard;
pub(crate) mod hooks;
pub(crate) mod infallible;
pub(crate) mod interrupt;
pub(crate) mod lazy_begin;
pub(crate) mod local_replay;
pub(crate) mod nothing_to_do;
pub(crate) mod own_answers;
pub(crate) mod retry;
pub(crate) mod rows;
pub(crate) mod speculative;
pub(crate) mod statement;
pub(crate) mod synchronous;
pub(crate) mod turn;
pub(crate) mod write;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use manyhands_queue::Queue;
use manyhands_sqlite::{self as sqlite, Value};

use crate::Error;
use crate::commit::registry::FileHandle;
use crate::commit::request::SessionSettings;
use crate::commit::turns::Turns;
use crate::connection::blob::OpenBlobs;
use crate::connection::entrance::Entrance;
use crate::connection::functions::Additions;
use crate::connection::lazy_begin::LazyTransaction;
use crate::connection::own_answers::OwnAnswers;
use crate::connection::speculative::Optimistic;
use crate::connection::synchronous::SynchronousLevels;
use crate::connection::turn::fails_in_transaction;
use crate::error::{Conflict, ErrorKind};
use crate::options::Settings;
use crate::params::{Given, Params};
use crate::row::{Outcome, Row, Tally};
use crate::session::Session;
use crate::session::interrupt::Interrupt;
use crate::session::open_cursors::OpenCursors;
use crate::statement::observe::Observer;
use crate::statement::prepared::Prepared;
use crate::statement::routing::{Facts, Route, TransactionStatement};
use crate::statement::rowid::GivenIds;
use crate::transaction::log::Log;
use crate::transaction::prediction::Path;
use crate::transaction::savepoints::Savepoints;

/// A connection to a [`crate::Database`], for one thread at a time.
///
/// It behaves as a connection of SQLite: statements outside a transaction commit by themselves,
/// `BEGIN`, `COMMIT`, `ROLLBACK` and savepoints work as SQL too. Compiled statements are kept, and found
/// again by their text.
#[derive(Debug)]
pub struct Connection {
    /// `None` only while it is dropped.
    session: Option<Session>,
    pub(crate) settings: Settings,
    /// `None` for a database without a queue, and before it has joined its queue.
    pub(crate) file: Option<FileHandle>,
    /// How it joins its queue.
    pub(crate) entrance: Option<Arc<Entrance>>,
    /// Attached databases that have a queue, by schema name.
    pub(crate) attached: BTreeMap<String, FileHandle>,
    pub(crate) turns: Turns,
    /// A transaction that has not begun for SQLite.
    pub(crate) lazy: Option<Box<LazyTransaction>>,
    /// The open transaction, while it is speculative.
    pub(crate) optimistic: Option<Box<Optimistic>>,
    /// An empty log, with the memory of an earlier one.
    pub(crate) log_memory: Log,
    /// Observes one statement after the other, and keeps its memory.
    pub(crate) observer: Observer,
    pub(crate) savepoints: Savepoints,
    /// See [`Connection::defer_writes`].
    pub(crate) defers_writes: bool,
    /// The driver steps statements that read, see `compiled.rs`.
    pub(crate) driver_steps: bool,
    /// What the open transaction of mode Auto has executed.
    pub(crate) path: Path,
    /// The open transaction was begun to read only.
    pub(crate) reads_only: bool,
    /// The rowids that the last statement was given.
    pub(crate) given_ids: GivenIds,
    /// Those that the next one is to be given.
    pub(crate) ids_to_give: Vec<i64>,
    pub(crate) cursors: OpenCursors,
    pub(crate) blobs: OpenBlobs,
    /// The last transaction ended in this conflict.
    pub(crate) conflict: Option<Conflict>,
    /// See [`Connection::guard`].
    pub(crate) guarded: bool,
    pub(crate) session_settings: SessionSettings,
    pub(crate) synchronous: SynchronousLevels,
    pub(crate) own_answers: OwnAnswers,
    /// Other connections would execute this session's writes differently: it executes them itself.
    pub(crate) connection_local: bool,
    /// Nothing was changed that the next user of the connection would notice.
    pub(crate) pristine: bool,
    pub(crate) additions: Additions,
    pub(crate) interrupt: Arc<Interrupt>,
    /// Where other processes cancel what it does.
    cancels: Option<Arc<Queue>>,
}

impl Connection {
    pub(crate) fn new(
        session: Session,
        file: Option<FileHandle>,
        settings: Settings,
    ) -> Connection {
        let interrupt = Arc::<Interrupt>::default();
        session.wait.set(settings.timeout);
        session.wait.ends_with(Arc::downgrade(&interrupt));
        let session_settings = SessionSettings::of(&settings);
        Connection {
            session: Some(session),
            settings,
            file,
            entrance: None,
            attached: BTreeMap::new(),
            turns: Turns::none(),
            lazy: None,
            optimistic: None,
            log_memory: Log::default(),
            observer: Observer::default(),
            savepoints: Savepoints::default(),
            defers_writes: false,
            driver_steps: false,
            path: Path::default(),
            reads_only: false,
            given_ids: GivenIds::default(),
            ids_to_give: Vec::new(),
            cursors: OpenCursors::default(),
            blobs: OpenBlobs::default(),
            conflict: None,
            guarded: false,
            session_settings,
            synchronous: SynchronousLevels::default(),
            own_answers: OwnAnswers::default(),
            connection_local: false,
            pristine: true,
            additions: Additions::default(),
            interrupt,
            cancels: None,
        }
    }

    pub(crate) fn session(&self) -> &Session {
        self.session.as_ref().expect("there until it is dropped")
    }

    pub(crate) fn session_mut(&mut self) -> &mut Session {
        self.session.as_mut().expect("there until it is dropped")
    }

    pub(crate) fn sqlite(&self) -> &sqlite::Connection {
        &self.session().sqlite
    }

    /// Executes one statement, to its end.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// use manyhands::params;
    /// let mut connection = database.connect()?;
    /// connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)", params![])?;
    /// let done = connection.execute("INSERT INTO item (name) VALUES (?1)", params!["lamp"])?;
    /// assert_eq!((done.changes(), done.last_insert_rowid()), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As SQLite fails, with its extended code and message. A write that waits longer than the timeout
    /// fails with [`Error::is_timeout`] and has written nothing.
    pub fn execute(&mut self, sql: &str, params: impl Params) -> Result<Outcome, Error> {
        self.execute_given(sql, &params.given())
    }

    fn execute_given(&mut self, sql: &str, given: &Given<'_>) -> Result<Outcome, Error> {
        let (mut prepared, values) = self.begin_statement(sql, given)?;
        let result = self.carry_out(&mut prepared, &values);
        self.put_back_after(prepared, result.is_err());
        result
    }

    /// Executes one statement and returns its rows.
    ///
    /// # Errors
    /// See [`Connection::execute`].
    pub fn query(&mut self, sql: &str, params: impl Params) -> Result<Vec<Row>, Error> {
        self.execute(sql, params).map(|outcome| outcome.rows)
    }

    /// Executes all statements of `sql`, whose parameters are NULL. Rows are passed over.
    ///
    /// # Errors
    /// See [`Connection::execute`]; those before the one that failed have been executed.
    pub fn execute_script(&mut self, sql: &str) -> Result<(), Error> {
        self.begin_operation()?;
        let mut rest = sql;
        while !rest.is_empty() {
            let (prepared, used) =
                self.compile(rest).inspect_err(|error| self.log_uncompiled(rest, &[], error))?;
            if let Some(mut prepared) = prepared {
                let values = vec![Value::Null; prepared.statement.parameter_count()];
                let result = self.carry_out(&mut prepared, &values);
                self.end_after(prepared.facts.transaction.is_some(), result.is_err());
                result?;
            }
            rest = &rest[used..];
        }
        Ok(())
    }

    /// The rowid of the last insert of this connection, wherever it was executed.
    pub fn last_insert_rowid(&self) -> i64 {
        self.note_question(Tally::LAST_INSERT_ROWID);
        self.counts().last_insert_rowid
    }

    /// Rows changed by the last INSERT, UPDATE or DELETE of this connection.
    pub fn changes(&self) -> i64 {
        self.note_question(Tally::CHANGES);
        self.counts().changes
    }

    /// Rows changed by this connection since it was made, by triggers and foreign key actions too. What a
    /// full-text index (FTS5) writes into its own tables at the commit counts only if the statement ran
    /// on this connection.
    pub fn total_changes(&self) -> i64 {
        self.note_question_of_all();
        self.counts().total_changes
    }

    /// See [`ConnectionExt::stay_in_thread`](crate::driver::ConnectionExt::stay_in_thread).
    pub(crate) fn stay_in_thread(&mut self) {
        self.turns.stay_in_thread = true;
    }

    /// True while nobody else can write, since this connection holds the turn.
    pub fn holds_turn(&self) -> bool {
        !self.turns.is_empty()
    }

    /// See [`ConnectionExt::is_plain`](crate::driver::ConnectionExt::is_plain).
    pub(crate) fn is_plain(&self) -> bool {
        self.lazy.is_none() && self.is_plain_but_for_durability() && self.has_default_durability()
    }

    /// True outside a transaction.
    pub fn is_autocommit(&self) -> bool {
        self.sqlite().is_autocommit()
    }

    /// Refuses a connection from before a fork, a connection whose descriptors were closed, and a guard whose transaction is over. Forgets
    /// interrupts of earlier operations. A lazy transaction begins.
    pub(crate) fn begin_operation(&mut self) -> Result<(), Error> {
        self.interrupt.forget();
        if self.sqlite().is_inherited() {
            return Err(Error::new(ErrorKind::Forked));
        }
        if let Some(file) = &self.file {
            file.refuse_lost()?;
        }
        self.note_cancels();
        // A cursor that failed may have ended its transaction.
        let in_transaction = self.optimistic.is_some() || !self.turns.is_empty();
        if in_transaction && !self.cursors.is_empty() {
            self.end_with_transaction();
        }
        self.check_guard()?;
        self.follow()?;
        self.begin_lazy(None)
    }

    /// What other processes have cancelled until now was another operation.
    fn note_cancels(&mut self) {
        let Some(file) = &self.file else { return };
        // Not the file's own reference: all threads of a process would count its users.
        if !self.cancels.as_ref().is_some_and(|queue| queue.is_sound()) {
            let queue = file.queue();
            self.interrupt.watch_cancels(Some(Arc::clone(&queue)));
            self.cancels = Some(queue);
        }
        if let Some(queue) = &self.cancels {
            self.interrupt.begin_after_cancels(queue.cancels());
        }
    }

    /// Keeps a statement that was carried out, and notices whether the transaction ended with it.
    pub(crate) fn put_back_after(&mut self, prepared: Box<Prepared>, failed: bool) {
        let may_end = prepared.facts.transaction.is_some();
        self.put_back(prepared);
        self.end_after(may_end, failed);
    }

    /// A statement was carried out, which the transaction may have ended with.
    pub(crate) fn end_after(&mut self, may_end: bool, failed: bool) {
        if may_end || failed {
            self.end_with_transaction();
        }
        self.guarded &= failed || !self.is_autocommit();
    }

    /// SQLite may have ended the transaction by itself after an error: then its speculation and its turn end, too.
    pub(crate) fn end_with_transaction(&mut self) {
        if self.sqlite().is_autocommit() {
            if let Some(ended) = self.end_optimistic() {
                self.give_ids_back(&ended.log);
            }
            self.note_end();
            self.reads_only = false;
            self.let_go_after_transaction();
        }
    }

    /// The transaction has ended, in whatever way.
    pub(crate) fn note_end(&mut self) {
        self.savepoints.clear();
        if self.path.is_to_learn() {
            let queue = self.file.as_ref().map(|file| file.queue());
            self.path.end(queue.as_deref());
        }
    }

    pub(crate) fn carry_out(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Result<Outcome, Error> {
        self.enter_for(prepared)?;
        let ends = prepared.facts.transaction.is_some();
        let writes = matches!(prepared.route, Route::Request | Route::Turn);
        if self.reads_only && !ends && (writes || !prepared.facts.changes_nothing()) {
            return Err(Error::refused(
                "this transaction only reads; end it, and begin another one to write",
            ));
        }
        let done = if self.checkpoints(prepared) {
            self.checkpoint(prepared, values)
        } else if self.optimistic.is_some() {
            self.notice_names(&prepared.facts);
            self.carry_out_speculatively(prepared, values)
        } else {
            self.carry_out_here(prepared, values)
        };
        if let Err(error) = &done
            && prepared.facts.changes_rows()
            && (error.is_timeout() || error.is_stale_snapshot())
        {
            self.count_refused();
        }
        done
    }

    /// Executes a statement outside a transaction, in one that holds its turn, or in a speculative transaction if it leaves
    /// no trace in the database.
    pub(crate) fn carry_out_here(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Result<Outcome, Error> {
        let outside = self.sqlite().is_autocommit();
        let writes = matches!(prepared.route, Route::Request | Route::Turn);
        if outside && (writes || prepared.facts.transaction.is_some()) {
            self.let_go_of_snapshots();
        }
        self.notice_names(&prepared.facts);
        if !outside && fails_in_transaction(prepared) {
            return self.fail_in_transaction(prepared, values);
        }
        match &prepared.route {
            Route::Refuse(reason) if self.is_shared() => Err(Error::refused(reason)),
            Route::Request if outside && self.may_travel() => self.write(prepared, values),
            Route::Request | Route::Turn => self.step_in_turn(prepared, values),
            Route::Setting => {
                let outcome = self.step(prepared, values)?;
                self.notice_setting(&prepared.facts)?;
                Ok(outcome)
            }
            Route::Own if prepared.facts.transaction.is_some() => self.step_transaction(prepared),
            Route::Own | Route::Refuse(_) => {
                let outcome = self.step(prepared, values)?;
                self.notice_or_detach(prepared)?;
                Ok(outcome)
            }
        }
    }

    /// A transaction begins, however the last one ended, or a name may mean another table now.
    fn notice_names(&mut self, facts: &Facts) {
        if facts.transaction.is_some() || facts.schema || facts.temp_schema || facts.silent {
            let outside = self.is_autocommit();
            let ids = &mut self.session_mut().ids;
            ids.leave_snapshot(outside);
            if !outside && (facts.schema || facts.silent) {
                ids.note_schema_change();
            }
        }
    }

    /// BEGIN, COMMIT, ROLLBACK and savepoint statements, but for those that SQLite's own lock needs.
    fn step_transaction(&mut self, prepared: &mut Prepared) -> Result<Outcome, Error> {
        let outside = self.sqlite().is_autocommit();
        let statement = prepared.facts.transaction.clone();
        if outside && self.begins_in_turn(prepared) {
            let _own = self.own_statements();
            let begun = self.begin_with_lock(Connection::step_in_turn);
            if !matches!(statement, Some(TransactionStatement::Savepoint(_))) || begun.is_err() {
                return begun;
            }
            self.savepoints.begin(statement.as_ref());
            return self.step(prepared, &[]);
        }
        if let Some(TransactionStatement::Release(name)) = &statement
            && self.savepoints.is_transaction(name)
        {
            return self.commit_in_turn();
        }
        let result = self.step_past_interrupts(prepared);
        if outside && !self.sqlite().is_autocommit() {
            self.savepoints.begin(statement.as_ref());
            self.conflict = None;
            if !self.adopt_turns_of_blobs()
                && let Some(file) = self.file.clone()
                && let Some(auto) = self.begins_auto_mode(&prepared.sql)
            {
                self.begin_optimistic(prepared, &file, auto);
            }
        } else if result.is_ok() {
            self.savepoints.note(statement.as_ref());
        }
        // A COMMIT that fails may nevertheless have ended the transaction.
        self.let_go_after_transaction();
        result
    }

    pub(crate) fn describe(&self, error: sqlite::Error) -> Error {
        match &self.file {
            // The wait for the lock ended early.
            Some(_) if error.code.is_lock_held() && self.interrupt.forget() => {
                self.interrupt.error()
            }
            Some(_) if error.code.is_interrupt() && self.interrupt.was_cancelled() => {
                self.interrupt.error()
            }
            Some(file) => file.describe_busy(error, self.settings.timeout),
            None => Error::from(error),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.session().sqlite.is_inherited() {
            return;
        }
        self.blobs.close();
        while let Some(prepared) = self.cursors.take_returned() {
            self.put_back(prepared);
        }
        self.interrupt.close();
        self.cancels = None;
        self.unguard();
        // Rolled back, and the session goes on to its next user.
        self.lazy = None;
        self.session().wait.ends_with(Weak::new());
        if self.is_asked_for_deferred() {
            self.count_deferred();
        }
        self.roll_back_here();
        let _own = self.own_statements();
        if self.optimistic.take().is_some() && self.is_autocommit() {
            self.sqlite().arm_speculation(false);
        }
        self.release_turns();
        self.turns.comeback.stay_away();
        if self.restore_durability()
            && self.is_plain()
            && let (Some(file), Some(session)) = (&self.file, self.session.take())
        {
            file.idle.keep(&self.settings, session);
        }
    }
}
