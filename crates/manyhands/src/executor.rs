//! The process's connection for other people's writes: it executes requests inside a batch.
//!
//! What always holds: between requests the transaction holds exactly what the requests so far have
//! done. A single statement needs no savepoint for that, since SQLite undoes a statement that fails;
//! several statements get one. Whatever would touch the neighbours spoils the batch instead: it is
//! rolled back whole, the offender goes to its own turn, and the neighbours are executed again.

use core::cell::Cell;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use lru::LruCache;
use manyhands_queue::{Deadline, Queue, crash};
use manyhands_sqlite::authorizer::{Action, ActionKind, Verdict};
use manyhands_sqlite::vfs::{CommitObserver, CommitStage};
use manyhands_sqlite::{self as sqlite, Progress, Setting, Statement, Step};

use crate::busy::BusyWait;
use crate::limits;
use crate::prepared;
use crate::request::{
    self, Answer, Counts, Failure, Request, Session, StatementAnswer, StatementRequest,
};

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
    statements: LruCache<String, Statement>,
    session: Option<Session>,
    control: Arc<Control>,
    origin: Instant,
    /// Frames in the WAL after the last commit.
    frames: Arc<AtomicU32>,
}

/// What the callbacks of the connection look at.
#[derive(Debug, Default)]
struct Control {
    /// The executor's own BEGIN, COMMIT and SAVEPOINT are allowed, a request's are not.
    internal: AtomicBool,
    /// When the current request must have ended, in nanoseconds since `origin`; 0 for no limit.
    request_end_ns: AtomicU64,
}

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
            CommitStage::Sealed => {
                crash::point("half-published");
                self.0.seal();
            }
        }
    }
}

fn authorize(control: &Control, action: &Action<'_>) -> Verdict {
    let allowed = match action.kind {
        ActionKind::Select | ActionKind::Read | ActionKind::Write => true,
        ActionKind::Function => {
            !action.second.is_some_and(|name| name.eq_ignore_ascii_case("load_extension"))
        }
        ActionKind::Transaction | ActionKind::Savepoint => control.internal.load(Ordering::Relaxed),
        // The full-text index asks for these two itself.
        ActionKind::Pragma => {
            control.internal.load(Ordering::Relaxed)
                || action.second.is_none()
                    && matches!(action.first, Some("data_version" | "page_size"))
        }
        ActionKind::Attach | ActionKind::Detach | ActionKind::TempSchema | ActionKind::Schema => {
            false
        }
    };
    if allowed { Verdict::Allow } else { Verdict::Deny }
}

impl Executor {
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
        let frames = Arc::new(AtomicU32::new(0));
        connection.set_wal_hook(Some({
            let frames = Arc::clone(&frames);
            move |count| frames.store(count, Ordering::Relaxed)
        }));
        connection.observe_commits(Arc::new(CommitNews(Arc::clone(queue))))?;
        let statements =
            LruCache::new(NonZeroUsize::new(limits::STATEMENTS_CACHED).expect("not zero"));
        Ok(Executor { connection, busy, statements, session: None, control, origin, frames })
    }

    pub(crate) fn connection(&self) -> &sqlite::Connection {
        &self.connection
    }

    /// Frames in the WAL after the last commit.
    pub(crate) fn frames(&self) -> u32 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Runs SQL of the executor's own.
    fn internal(&mut self, sql: &str) -> Result<(), sqlite::Error> {
        self.control.internal.store(true, Ordering::Relaxed);
        let result = self.with_statement(sql, |statement| {
            while statement.step()? == Step::Row {}
            statement.reset();
            Ok(())
        });
        self.control.internal.store(false, Ordering::Relaxed);
        result
    }

    fn with_statement<T>(
        &mut self,
        sql: &str,
        use_it: impl FnOnce(&mut Statement) -> Result<T, sqlite::Error>,
    ) -> Result<T, sqlite::Error> {
        if let Some(statement) = self.statements.get_mut(sql) {
            return use_it(statement);
        }
        let mut statement = self.connection.prepare_one(sql)?;
        let result = use_it(&mut statement);
        self.statements.put(sql.to_string(), statement);
        result
    }

    /// Takes SQLite's write lock, waiting for other SQLite programs until the deadline.
    pub(crate) fn begin(&mut self, deadline: Deadline) -> Result<(), sqlite::Error> {
        // A leader that panicked left its transaction open.
        self.rollback()?;
        self.busy.set(deadline.remaining());
        self.internal("BEGIN IMMEDIATE")
    }

    pub(crate) fn commit(&mut self) -> Result<(), sqlite::Error> {
        self.internal("COMMIT")
    }

    /// Undoes the transaction, if there still is one.
    pub(crate) fn rollback(&mut self) -> Result<(), sqlite::Error> {
        if self.connection.is_autocommit() { Ok(()) } else { self.internal("ROLLBACK") }
    }

    /// Adopts the settings of the first request of a batch. Called outside a transaction.
    pub(crate) fn adopt(&mut self, session: Session) -> Result<(), sqlite::Error> {
        let before = self.session.replace(session);
        if before == Some(session) {
            return Ok(());
        }
        self.connection.set(Setting::ForeignKeys, session.foreign_keys);
        let recursive = if session.recursive_triggers { "ON" } else { "OFF" };
        // Not through the cache: SQLite applies these when it compiles them.
        self.control.internal.store(true, Ordering::Relaxed);
        let result = self
            .connection
            .execute(&format!("PRAGMA recursive_triggers={recursive}"))
            .and_then(|()| self.connection.execute(session.durability().pragma()));
        self.control.internal.store(false, Ordering::Relaxed);
        if result.is_err() {
            self.session = None;
        }
        result
    }

    /// Executes one request inside the batch's transaction. `budget` is how long it may take.
    pub(crate) fn execute(
        &mut self,
        bytes: &[u8],
        budget: Option<Duration>,
        answer: &mut Vec<u8>,
    ) -> Executed {
        let Some(request) = request::decode(bytes) else { return Executed::NotHere };
        if self.session != Some(request.session) {
            return Executed::OtherSession;
        }
        self.limit(budget.map_or(0, |budget| (self.origin.elapsed() + budget).as_nanos() as u64));
        let executed = self.execute_decoded(&request);
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

    fn execute_decoded(&mut self, request: &Request<'_>) -> Result<Answer, Executed> {
        self.connection.set_last_insert_rowid(request.last_insert_rowid);
        let total_before = self.connection.total_changes();
        let several = request.statements.len() > 1;
        if several {
            self.internal("SAVEPOINT request").map_err(|_| Executed::Spoiled)?;
        }
        let mut done = Vec::with_capacity(request.statements.len());
        for (index, statement) in request.statements.iter().enumerate() {
            match self.execute_statement(statement) {
                Ok(answer) => done.push(answer),
                Err(StatementError::Own(error)) => {
                    if several {
                        self.internal("ROLLBACK TO request").map_err(|_| Executed::Spoiled)?;
                        self.internal("RELEASE request").map_err(|_| Executed::Spoiled)?;
                    }
                    return Ok(Err(Failure::new(index, Some(self.counts(total_before)), &error)));
                }
                Err(StatementError::NotHere) if index == 0 && !several => {
                    return Err(Executed::NotHere);
                }
                Err(StatementError::NotHere | StatementError::Spoiled) => {
                    return Err(Executed::Spoiled);
                }
            }
        }
        // In a transaction of its own, the request would now fail to commit.
        if self.connection.violates_deferred_foreign_keys() {
            return Err(Executed::Spoiled);
        }
        if several {
            self.internal("RELEASE request").map_err(|_| Executed::Spoiled)?;
        }
        Ok(Ok(done))
    }

    fn execute_statement(
        &mut self,
        request: &StatementRequest<'_>,
    ) -> Result<StatementAnswer, StatementError> {
        let before = self.connection.total_changes();
        let (stepped, same_columns) = (Cell::new(false), Cell::new(true));
        let rows = self.with_statement(request.sql, |statement| {
            statement.bind_all(request.values.iter().copied())?;
            stepped.set(true);
            let mut rows = Vec::new();
            while statement.step()? == Step::Row {
                let row = (0..statement.column_count())
                    .map(|column| statement.column(column).to_owned())
                    .collect();
                rows.push(row);
            }
            statement.reset();
            if request.columns != 0 || statement.column_count() != 0 {
                let names = prepared::column_names(statement);
                same_columns.set(prepared::columns_digest(&names) == request.columns);
            }
            Ok(rows)
        });
        let rows = match rows {
            Ok(_) if !same_columns.get() => return Err(StatementError::Spoiled),
            Ok(rows) => rows,
            // Not compiled or not bound: whatever is wrong, the owner's connection shall say it.
            Err(_) if !stepped.get() => return Err(StatementError::NotHere),
            Err(error) if error.code.is_constraint() && !self.connection.is_autocommit() => {
                return Err(StatementError::Own(error));
            }
            Err(_) => return Err(StatementError::Spoiled),
        };
        Ok(StatementAnswer { counts: self.counts(before), rows })
    }

    /// What SQLite counts now, for a session that began when the total was `total_before`.
    fn counts(&self, total_before: i64) -> Counts {
        Counts {
            changes: self.connection.changes(),
            total_changes: self.connection.total_changes() - total_before,
            last_insert_rowid: self.connection.last_insert_rowid(),
        }
    }
}

enum StatementError {
    /// The statement failed by itself and left the transaction as it was, or as it should be.
    Own(sqlite::Error),
    NotHere,
    Spoiled,
}
