//! The executor: the connection with which a process, when it leads, executes the requests of a batch.
//!
//! What always holds: between requests the transaction contains exactly what the requests so far have
//! done. A single statement needs no savepoint for that, since SQLite undoes a statement that fails;
//! several statements get one. A request that would hurt its neighbours spoils the batch: the batch is
//! rolled back whole, the offender goes to its own turn, and the neighbours are executed again.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use manyhands_queue::{Deadline, Queue, crash, planted};
use manyhands_sqlite::authorizer::Action;
use manyhands_sqlite::vfs::{CommitObserver, CommitStage};
use manyhands_sqlite::{self as sqlite, Limit, Progress, Setting, Statement, Step, WalIndexHeader};

use crate::commit::authority::{Control, authorize};
use crate::commit::external_writers::lock_ahead;
use crate::commit::request::{self, Origin, Request, SessionSettings, StatementRequest};
use crate::limits;
use crate::options::Durability;
use crate::session::Session;
use crate::statement::prepared::{Prepared, Spared};
use crate::statement::rowid::Recorded;
use crate::statement::tables::TableSet;
use crate::statement::text::is_blank;

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
    pub(crate) session: Session,
    /// The executor's own, which a request must not get by their text.
    own_statements: HashMap<&'static str, Box<Prepared>>,
    settings: Option<SessionSettings>,
    pub(crate) queue: Arc<Queue>,
    control: Arc<Control>,
    origin: Instant,
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

/// The statements of a request, by the number of their text.
#[derive(Debug, Default)]
pub(crate) struct Taken(Vec<Option<Box<Prepared>>>);

/// Notes in the queue how far SQLite's commit has come. If this leader dies, the next one reads it there.
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

    /// Makes the executor of a process from a connection that nobody else uses.
    ///
    /// # Errors
    /// As SQLite fails.
    pub(crate) fn new(
        connection: sqlite::Connection,
        queue: &Arc<Queue>,
    ) -> Result<Executor, sqlite::Error> {
        let session = Session::equip(connection)?;
        let connection = &session.sqlite;
        session.wait.set(limits::TIMEOUT);
        // The first read makes the connection a user of the WAL. Without it, every other connection of
        // this process that is closed would be the last one to SQLite, which then removes the WAL.
        connection.query_integer("PRAGMA schema_version")?;
        let control = Arc::new(Control::default());
        session.compiler.hooks.set_authority({
            let control = Arc::clone(&control);
            Arc::new(move |action: &Action<'_>| authorize(&control, action))
        });
        let origin = Instant::now();
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
        session.take_over_checkpoints();
        connection.observe_commits(Arc::new(CommitNews(Arc::clone(queue))))?;
        Ok(Executor {
            session,
            own_statements: HashMap::new(),
            settings: None,
            queue: Arc::clone(queue),
            control,
            origin,
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
        &self.session.sqlite
    }

    /// True when ids of a table that the statement writes are reserved.
    pub(crate) fn has_reservations(&self, known: &Prepared) -> bool {
        known.written.iter().any(|&key| self.queue.has_reservations(key))
    }

    /// Frames in the WAL after the batch's commit; 0 when it wrote nothing.
    pub(crate) fn frames(&self) -> u32 {
        self.session.frames.load(Ordering::Relaxed)
    }

    /// Runs SQL of the executor's own.
    pub(crate) fn internal(&mut self, sql: &'static str) -> Result<(), sqlite::Error> {
        let _own = self.session.own_statements();
        let mut known = match self.own_statements.remove(sql) {
            Some(known) => known,
            None => self.compile(sql)?,
        };
        while known.statement.step()? == Step::Row {}
        known.statement.reset();
        self.own_statements.insert(sql, known);
        Ok(())
    }

    /// The compiled statement for `sql`, to be put back.
    fn take(&mut self, sql: &str) -> Result<Box<Prepared>, sqlite::Error> {
        let mut known = match self.session.statements.take(sql) {
            Some(known) => known,
            None => self.compile(sql)?,
        };
        known.note_use();
        self.session.know_tables(&mut known);
        Ok(known)
    }

    fn put_back(&mut self, known: Box<Prepared>) {
        if !known.is_stale() {
            self.session.statements.put_back(known);
        }
    }

    /// The compiled statement for one of a request's, kept in `taken` until the request is done.
    pub(crate) fn known<'t>(
        &mut self,
        request: &Request<'_>,
        statement: &StatementRequest,
        taken: &'t mut Taken,
    ) -> Result<&'t mut Prepared, sqlite::Error> {
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

    fn compile(&self, sql: &str) -> Result<Box<Prepared>, sqlite::Error> {
        let (compiled, used) = self.session.compile(sql, Spared::None)?;
        let Some(mut one) = compiled.filter(|_| is_blank(&sql[used..])) else {
            return Err(sqlite::Error::misuse("a text of a request is not one statement"));
        };
        // It is found again by the whole of it.
        one.sql = sql.into();
        Ok(one)
    }

    /// Takes SQLite's write lock, waiting for other SQLite programs until the deadline.
    pub(crate) fn begin(&mut self, deadline: Deadline) -> Result<(), sqlite::Error> {
        // A leader that panicked left its transaction open.
        self.rollback()?;
        self.take_write_lock(deadline)?;
        self.session.ids.leave_snapshot(true);
        self.before = self.connection().wal_index();
        self.written = TableSet::NONE;
        self.replaying = Duration::ZERO;
        self.session.frames.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn take_write_lock(&mut self, deadline: Deadline) -> Result<(), sqlite::Error> {
        self.session.wait.set(Duration::ZERO);
        let mut is_ahead = false;
        loop {
            let begun = self.internal("BEGIN IMMEDIATE");
            self.connection().give_lock_back();
            let Err(error) = begun else { return Ok(()) };
            if !error.code.is_busy() || deadline.has_passed() {
                return Err(error);
            }
            if is_ahead {
                // It was another lock.
                std::thread::sleep(limits::BUSY_SLEEP);
            }
            is_ahead = lock_ahead(self.connection(), deadline);
        }
    }

    pub(crate) fn commit(&mut self) -> Result<(), sqlite::Error> {
        let began = Instant::now();
        self.internal("COMMIT")?;
        if self.frames() != 0 {
            self.commit_time = began.elapsed();
        }
        if planted("visible-before-durable") {
            let mut wal = self.connection().path().into_os_string();
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
        if self.connection().is_autocommit() { Ok(()) } else { self.internal("ROLLBACK") }
    }

    /// Adopts the settings of the first request of a batch. Called outside a transaction.
    pub(crate) fn adopt(&mut self, settings: SessionSettings) -> Result<(), sqlite::Error> {
        let before = self.settings.replace(settings);
        if before == Some(settings) {
            return Ok(());
        }
        let too_early = planted("visible-before-durable");
        let durability = if too_early { Durability::Normal } else { settings.durability() };
        // Not through the cache: SQLite applies these when it compiles them.
        let own = self.session.own_statements();
        let mut result = self.connection().execute(durability.pragma());
        let is_like = |before| SessionSettings { full: settings.full, ..before } == settings;
        if !before.is_some_and(is_like) {
            self.session.ids.note_setting();
            self.connection().set(Setting::ForeignKeys, settings.foreign_keys);
            let recursive = if settings.recursive_triggers { "ON" } else { "OFF" };
            let pragma = format!("PRAGMA recursive_triggers={recursive}");
            result = result.and_then(|()| self.connection().execute(&pragma));
        }
        drop(own);
        if result.is_err() {
            self.settings = None;
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
        let fits = self.settings.is_some_and(|batch| batch.executes(request.session));
        if !fits && !planted("anybodys-settings") {
            return Executed::OtherSession;
        }
        self.limit((self.origin.elapsed() + budget).as_nanos() as u64);
        self.session.counters.set_counters(
            request.before.changes,
            request.before.total_changes,
            self.connection().total_changes(),
        );
        self.connection().set_last_insert_rowid(request.before.last_insert_rowid);
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
                // An answer without room is no reason to undo the work of others, but the request's own work must go.
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
        known: &mut Prepared,
        ids: Option<Recorded<'_>>,
        run: impl FnOnce(&mut Statement) -> T,
    ) -> T {
        if let Some(ids) = ids {
            let own = self.session.own_statements();
            let facts = (&known.facts, &*known.columns);
            let insert = self.session.insert_with_ids(&mut known.rewriting, &known.sql, facts);
            drop(own);
            if let Some(insert) = insert {
                let (result, given) = self.session.ids.run(&self.queue, insert, ids, None, run);
                // Recorded ids belong to their owner, which gives them back or asks for them again.
                let table = insert.key();
                let fresh = given.into_iter().filter(|id| !ids.ids.contains(id));
                self.given.extend(fresh.map(|id| (table, id)));
                return result;
            }
        }
        let heard = self.session.listen(known);
        let result = run(&mut known.statement);
        self.session.accept_plan(heard, known, || true);
        result
    }
}

#[cfg(test)]
mod tests;
