//! The process's connection for other people's writes: it executes requests inside a batch.
//!
//! What always holds: between requests the transaction holds exactly what the requests so far have
//! done. A single statement needs no savepoint for that, since SQLite undoes a statement that fails;
//! several statements get one. Whatever would touch the neighbours spoils the batch instead: it is
//! rolled back whole, the offender goes to its own turn, and the neighbours are executed again.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use manyhands_queue::{Deadline, Queue, crash, planted};
use manyhands_sqlite::authorizer::Action;
use manyhands_sqlite::vfs::{CommitObserver, CommitStage};
use manyhands_sqlite::{
    self as sqlite, Limit, Progress, SessionCounters, Setting, Statement, Step, WalIndexHeader,
};

use crate::commit::authority::{Control, authorize};
use crate::commit::external_writers::lock_ahead;
use crate::commit::request::{self, Origin, Request, SessionSettings, StatementRequest};
use crate::limits;
use crate::mutex::lock;
use crate::options::Durability;
use crate::session::busy::BusyWait;
use crate::statement::cache::StatementCache;
use crate::statement::prepared;
use crate::statement::routing::{Facts, may_read_untold};
use crate::statement::rowid::{Again, IdFunction, Recorded, Rewriting};
use crate::statement::tables::{TableSet, Touches, VirtualTables};

/// What became of one request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Executed {
    /// The answer is ready, an error of the statement's own included.
    Answered,
    /// The request wants other session settings than this batch has.
    OtherSession,
    /// Only its owner's connection can execute it. The transaction is untouched.
    NotHere,
    /// The transaction holds something that must not be committed, or is gone.
    Spoiled,
}

/// A connection that executes batches.
#[derive(Debug)]
pub(crate) struct Executor {
    connection: sqlite::Connection,
    busy: BusyWait,
    statements: StatementCache<Box<Known>>,
    /// The executor's own, which a request must not get by their text.
    own_statements: HashMap<&'static str, Box<Known>>,
    virtual_tables: VirtualTables,
    session: Option<SessionSettings>,
    pub(crate) counters: Arc<SessionCounters>,
    ids: IdFunction,
    pub(crate) queue: Arc<Queue>,
    control: Arc<Control>,
    origin: Instant,
    /// Frames in the WAL after the batch's commit; 0 before it, and when it wrote nothing.
    frames: Arc<AtomicU32>,
    /// The wal-index header when the batch began.
    before: Option<WalIndexHeader>,
    /// The tables that the batch has written so far.
    pub(crate) written: TableSet,
    /// The rowids that it has been given, with the keys of their tables.
    given: Vec<(u64, i64)>,
    /// How long the batch has replayed transactions so far.
    pub(crate) replaying: Duration,
    /// How long the last commit took that wrote something; zero before the first.
    pub(crate) commit_time: Duration,
}

/// A compiled statement and what is known of it.
#[derive(Debug)]
pub(crate) struct Known {
    sql: Arc<str>,
    pub(crate) statement: Statement,
    pub(crate) touches: Touches,
    /// It answers about the session: its result depends on more than tables.
    pub(crate) session_function: bool,
    /// A savepoint statement: only in a transaction's log.
    pub(crate) is_savepoint: bool,
    pub(crate) changes_rows: bool,
    /// Keys of the tables whose rows it writes.
    pub(crate) written: Box<[u64]>,
    /// How it takes new rowids from others than SQLite.
    rewriting: Rewriting,
    /// Of the columns' names, as of `recompilations`.
    pub(crate) columns: u32,
    recompilations: u32,
    facts: Facts,
    /// `touches` is exact,
    is_exact: bool,
    /// in the schema of this number.
    schema: Option<i64>,
}

impl Known {
    /// True when SQLite has compiled it again since: then it may touch other tables than is known.
    pub(crate) fn is_stale(&self) -> bool {
        self.statement.recompilations() != self.recompilations || self.rewriting.is_stale()
    }
}

/// The statements of a request, by the number of their text.
#[derive(Debug, Default)]
pub(crate) struct Taken(Vec<Option<Box<Known>>>);

/// Passes SQLite's news of a commit on to the queue, where a successor finds them.
struct CommitNews(Arc<Queue>);

impl CommitObserver for CommitNews {
    fn on_commit(&self, stage: CommitStage) {
        match stage {
            CommitStage::Announced(frame) => self.0.announce(&manyhands_queue::CommitFrame {
                offset: frame.offset,
                header: frame.header,
                change: frame.change,
            }),
            CommitStage::Written => crash::point("frame-written"),
            CommitStage::Synced => crash::point("synced"),
            CommitStage::HalfPublished => self.0.publishing(),
            CommitStage::Sealed => self.0.seal(),
        }
    }
}

impl Executor {
    /// Closes it, and leaves the WAL as it is.
    pub(crate) fn leave_wal(self) {
        self.connection().set(Setting::NoCheckpointOnClose, true);
    }

    /// Makes the executor of a process out of a connection that nobody else uses.
    pub(crate) fn new(
        connection: sqlite::Connection,
        busy: BusyWait,
        queue: &Arc<Queue>,
    ) -> Result<Executor, sqlite::Error> {
        // The first read makes the connection a user of the WAL. Without it, every other connection of
        // this process that is closed would be the last one to SQLite, which then removes the WAL.
        connection.query_integer("PRAGMA schema_version")?;
        let control = Arc::new(Control::default());
        let origin = Instant::now();
        connection.set_authorizer(Some({
            let control = Arc::clone(&control);
            move |action: &Action<'_>| authorize(&control, action)
        }));
        connection.set_progress_handler(
            limits::INSTRUCTIONS_PER_LOOK,
            Some({
                let control = Arc::clone(&control);
                move || {
                    let end = control.request_end_ns.load(Ordering::Relaxed);
                    let over = end != 0 && origin.elapsed().as_nanos() as u64 > end;
                    if over { Progress::Stop } else { Progress::Continue }
                }
            }),
        );
        connection.set_limit(Limit::Length, limits::REQUEST_VALUE_BYTES_MAX);
        let frames = Arc::new(AtomicU32::new(0));
        connection.set_wal_hook(Some({
            let frames = Arc::clone(&frames);
            move |count| frames.store(count, Ordering::Relaxed)
        }));
        connection.observe_commits(Arc::new(CommitNews(Arc::clone(queue))))?;
        connection.make_repeatable()?;
        let counters = Arc::new(SessionCounters::default());
        connection.count_session(&counters)?;
        let ids = IdFunction::install(&connection, Arc::default())?;
        Ok(Executor {
            connection,
            busy,
            statements: StatementCache::new(),
            own_statements: HashMap::new(),
            virtual_tables: VirtualTables::default(),
            session: None,
            counters,
            ids,
            queue: Arc::clone(queue),
            control,
            origin,
            frames,
            before: None,
            written: TableSet::NONE,
            given: Vec::new(),
            replaying: Duration::ZERO,
            commit_time: Duration::ZERO,
        })
    }

    /// True when it announces its commits in this queue.
    pub(crate) fn is_of(&self, queue: &Arc<Queue>) -> bool {
        Arc::ptr_eq(&self.queue, queue)
    }

    pub(crate) fn connection(&self) -> &sqlite::Connection {
        &self.connection
    }

    /// True when ids of a table that the statement writes are reserved.
    pub(crate) fn has_reservations(&self, known: &Known) -> bool {
        known.written.iter().any(|&key| self.queue.has_reservations(key))
    }

    /// Frames in the WAL after the batch's commit; 0 when it wrote nothing.
    pub(crate) fn frames(&self) -> u32 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Runs SQL of the executor's own.
    pub(crate) fn internal(&mut self, sql: &'static str) -> Result<(), sqlite::Error> {
        self.control.internal.store(true, Ordering::Relaxed);
        let known = match self.own_statements.remove(sql) {
            Some(known) => Ok(known),
            None => self.compile(sql).map(Box::new),
        };
        let result = known.and_then(|mut known| {
            while known.statement.step()? == Step::Row {}
            known.statement.reset();
            self.own_statements.insert(sql, known);
            Ok(())
        });
        self.control.internal.store(false, Ordering::Relaxed);
        result
    }

    /// The compiled statement for `sql`, to be put back.
    fn take(&mut self, sql: &str) -> Result<Box<Known>, sqlite::Error> {
        match self.statements.take(sql).filter(|known| !known.statement.is_expired()) {
            Some(mut known) => {
                self.know_tables(&mut known);
                Ok(known)
            }
            None => self.compile(sql).map(Box::new),
        }
    }

    fn put_back(&mut self, known: Box<Known>) {
        if !known.is_stale() {
            self.statements.put_back(Arc::clone(&known.sql), known);
        }
    }

    /// The compiled statement for one of a request's, kept in `taken` until the request is done.
    pub(crate) fn known<'t>(
        &mut self,
        request: &Request<'_>,
        statement: &StatementRequest,
        taken: &'t mut Taken,
    ) -> Result<&'t mut Known, sqlite::Error> {
        let index = statement.text as usize;
        let unknown = || sqlite::Error::misuse("a request names a text that it does not have");
        let sql = request.sql(statement).ok_or_else(unknown)?;
        taken.0.resize_with(request.texts.len(), || None);
        let place = &mut taken.0[index];
        if place.as_ref().is_none_or(|known| known.is_stale()) {
            *place = Some(self.take(sql)?);
        }
        Ok(place.as_mut().expect("there, or taken above"))
    }

    fn compile(&mut self, sql: &str) -> Result<Known, sqlite::Error> {
        let (statement, mut facts) = hear(&self.connection, &self.control, sql)?;
        facts.reads_untold = may_read_untold(sql);
        Ok(Known {
            sql: sql.into(),
            touches: Touches::at_first(&facts),
            session_function: facts.session_function,
            is_savepoint: facts.transaction.is_some(),
            changes_rows: facts.changes_rows(),
            written: facts.keys_written(),
            rewriting: Rewriting::default(),
            columns: prepared::columns_digest(&prepared::column_names(&statement)),
            recompilations: statement.recompilations(),
            statement,
            facts,
            is_exact: false,
            schema: None,
        })
    }

    /// A statement is used again: now it is worth to know exactly what it touches.
    fn know_tables(&mut self, known: &mut Known) {
        if core::mem::replace(&mut known.is_exact, true) {
            return;
        }
        let internal = self.control.internal.swap(true, Ordering::Relaxed);
        if known.facts.touches_tables() {
            known.touches = Touches::ALL;
            if let Ok((tables, number)) = self.virtual_tables.now(&self.connection) {
                (known.touches, known.schema) = (Touches::of(&known.facts, tables), number);
            }
        }
        self.control.internal.store(internal, Ordering::Relaxed);
    }

    fn schema_number(&mut self) -> Option<i64> {
        let internal = self.control.internal.swap(true, Ordering::Relaxed);
        let number = self.virtual_tables.schema_number(&self.connection);
        self.control.internal.store(internal, Ordering::Relaxed);
        number.ok()?
    }

    /// Takes SQLite's write lock, waiting for other SQLite programs until the deadline.
    pub(crate) fn begin(&mut self, deadline: Deadline) -> Result<(), sqlite::Error> {
        // A leader that panicked left its transaction open.
        self.rollback()?;
        self.take_write_lock(deadline)?;
        self.ids.leave_snapshot(true);
        self.before = self.connection.wal_index();
        self.written = TableSet::NONE;
        self.replaying = Duration::ZERO;
        self.frames.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn take_write_lock(&mut self, deadline: Deadline) -> Result<(), sqlite::Error> {
        self.busy.set(Duration::ZERO);
        let mut is_ahead = false;
        loop {
            let begun = self.internal("BEGIN IMMEDIATE");
            self.connection.give_lock_back();
            let Err(error) = begun else { return Ok(()) };
            if !error.code.is_busy() || deadline.has_passed() {
                return Err(error);
            }
            if is_ahead {
                // It was another lock.
                std::thread::sleep(limits::BUSY_SLEEP);
            }
            is_ahead = lock_ahead(&self.connection, deadline);
        }
    }

    pub(crate) fn commit(&mut self) -> Result<(), sqlite::Error> {
        let began = Instant::now();
        self.internal("COMMIT")?;
        if self.frames() != 0 {
            self.commit_time = began.elapsed();
        }
        if planted("visible-before-durable") {
            let mut wal = self.connection.path().into_os_string();
            wal.push("-wal");
            let _ = std::fs::File::open(wal).and_then(|wal| wal.sync_data());
        }
        self.given.clear();
        Ok(())
    }

    /// The wal-index header when the batch began.
    pub(crate) fn before(&self) -> Option<&WalIndexHeader> {
        self.before.as_ref()
    }

    /// Undoes the transaction, if there still is one.
    pub(crate) fn rollback(&mut self) -> Result<(), sqlite::Error> {
        for (table, id) in self.given.drain(..).rev() {
            self.queue.give_back_id(table, id);
        }
        if self.connection.is_autocommit() { Ok(()) } else { self.internal("ROLLBACK") }
    }

    /// Adopts the settings of the first request of a batch. Called outside a transaction.
    pub(crate) fn adopt(&mut self, session: SessionSettings) -> Result<(), sqlite::Error> {
        let before = self.session.replace(session);
        if before == Some(session) {
            return Ok(());
        }
        let too_early = planted("visible-before-durable");
        let durability = if too_early { Durability::Normal } else { session.durability() };
        // Not through the cache: SQLite applies these when it compiles them.
        self.control.internal.store(true, Ordering::Relaxed);
        let mut result = self.connection.execute(durability.pragma());
        if !before.is_some_and(|before| SessionSettings { full: session.full, ..before } == session)
        {
            self.ids.note_setting();
            self.connection.set(Setting::ForeignKeys, session.foreign_keys);
            let recursive = if session.recursive_triggers { "ON" } else { "OFF" };
            let pragma = format!("PRAGMA recursive_triggers={recursive}");
            result = result.and_then(|()| self.connection.execute(&pragma));
        }
        self.control.internal.store(false, Ordering::Relaxed);
        if result.is_err() {
            self.session = None;
        }
        result
    }

    /// Executes one request inside the batch's transaction. `budget` is how long it may take; `since`
    /// tells which tables were written since a transaction's snapshot.
    pub(crate) fn execute(
        &mut self,
        bytes: &[u8],
        budget: Duration,
        since: impl FnOnce(&Origin) -> TableSet,
        answer: &mut Vec<u8>,
    ) -> Executed {
        let Some(request) = request::decode(bytes) else { return Executed::NotHere };
        if request.session.zone != sqlite::zone_digest() {
            return Executed::NotHere;
        }
        let fits = self.session.is_some_and(|batch| batch.executes(request.session));
        if !fits && !planted("anybodys-settings") {
            return Executed::OtherSession;
        }
        self.limit((self.origin.elapsed() + budget).as_nanos() as u64);
        self.counters.set_counters(
            request.before.changes,
            request.before.total_changes,
            self.connection.total_changes(),
        );
        self.connection.set_last_insert_rowid(request.before.last_insert_rowid);
        let mut taken = Taken::default();
        let executed = match &request.origin {
            Some(origin) => {
                let began = Instant::now();
                self.control.savepoints.store(true, Ordering::Relaxed);
                let replayed = self.replay(&request, origin, since(origin), &mut taken);
                self.control.savepoints.store(false, Ordering::Relaxed);
                self.replaying += began.elapsed();
                replayed
            }
            None => self.execute_decoded(&request, &mut taken),
        };
        taken.0.into_iter().flatten().for_each(|known| self.put_back(known));
        self.limit(0);
        match executed {
            Ok(done) => {
                let room = manyhands_queue::Lead::answer_room(bytes.len());
                // An answer without room is no reason to undo others' work, but its own must go.
                request::encode_answer(&done, room, answer)
                    .map_or(Executed::Spoiled, |()| Executed::Answered)
            }
            Err(executed) => executed,
        }
    }

    fn limit(&self, end_ns: u64) {
        self.control.request_end_ns.store(end_ns, Ordering::Relaxed);
    }

    /// Steps a statement by `run`. With `ids` it is one that may insert, and is given those first.
    pub(crate) fn run<T>(
        &mut self,
        known: &mut Known,
        ids: Option<Recorded<'_>>,
        run: impl FnOnce(&mut Statement) -> T,
    ) -> T {
        if let Some(ids) = ids {
            let internal = self.control.internal.swap(true, Ordering::Relaxed);
            let again = || {
                let now = hear(&self.connection, &self.control, &known.sql).ok()?;
                let columns = prepared::columns_digest(&prepared::column_names(&now.0));
                let is_newer = now.1 != known.facts || columns != known.columns;
                Some(Again { is_newer, has_trigger: now.1.has_trigger })
            };
            let (rewriting, connection) = (&mut known.rewriting, &self.connection);
            let insert = self.ids.rewritten(rewriting, connection, &known.sql, false, again);
            self.control.internal.store(internal, Ordering::Relaxed);
            if let Some(insert) = insert {
                let (result, given) = self.ids.run(&self.queue, insert, ids, None, run);
                // Recorded ones are their owner's, who gives them back or asks for them again.
                let table = insert.key();
                let fresh = given.into_iter().filter(|id| !ids.ids.contains(id));
                self.given.extend(fresh.map(|id| (table, id)));
                return result;
            }
        }
        *lock(&self.control.facts) = Facts::default();
        let result = run(&mut known.statement);
        let heard = core::mem::take(&mut *lock(&self.control.facts));
        let Known { statement, recompilations, facts, .. } = &*known;
        // It is not stale if it has another plan, and nothing else: see `Listener::accept_plan`.
        if prepared::has_only_another_plan(statement, *recompilations, facts, heard)
            && prepared::columns_digest(&prepared::column_names(statement)) == known.columns
            && (known.schema.is_none() || known.schema == self.schema_number())
        {
            known.recompilations += 1;
        }
        result
    }
}

/// Compiles a statement, and listens to the authorizer meanwhile.
fn hear(
    connection: &sqlite::Connection,
    control: &Control,
    sql: &str,
) -> Result<(Statement, Facts), sqlite::Error> {
    *lock(&control.facts) = Facts::default();
    let statement = connection.prepare_one(sql)?;
    Ok((statement, core::mem::take(&mut *lock(&control.facts))))
}

#[cfg(test)]
mod tests;
