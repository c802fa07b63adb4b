//! What the connections of a process to one database file share.

mod lost;
mod others;
mod place;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use manyhands_queue::{Deadline, Queue};
use manyhands_sqlite::{self as sqlite, OpenMode};

use crate::Error;
use crate::commit::checkpoint::Checkpointer;
use crate::commit::contention::Contention;
use crate::commit::executor::Executor;
use crate::commit::external_writers::ExternalWriters;
use crate::commit::holder::TurnHolder;
use crate::commit::joining::{FirstConnection, Opener, join};
use crate::commit::registry::{self, FileHandle, Users};
use crate::commit::wal_reader;
use crate::error::ErrorKind;
use crate::limits;
use crate::mutex::lock;
use crate::options::Settings;
use crate::session::Session;
use crate::session::busy::BusyWait;
use crate::session::idle::IdleSessions;
use crate::session::schema::KnownSchema;
use crate::statistics::TransactionCounts;

/// Which file on this machine.
pub(crate) type FileId = (u64, u64);

/// What the connections of this process to one database file share: membership in the queue, and the
/// connection that executes batches.
#[derive(Debug)]
pub(crate) struct DatabaseFile {
    path: PathBuf,
    id: FileId,
    /// That of `locks::generation` in which it was opened.
    generation: u64,
    pub(crate) users: Users,
    /// Replaced when the queue file was damaged or deleted.
    queue: RwLock<Arc<Queue>>,
    /// Used by the leader only, so nobody ever waits for this lock. `None` until the first batch,
    /// and after an error that may have left it in an unknown state.
    executor: Mutex<Option<Executor>>,
    /// Until the first user connects.
    first: Mutex<Option<FirstConnection>>,
    /// A sync failed: this process writes no more to this file until it is opened anew.
    failed: AtomicBool,
    /// Somebody in this process has closed descriptors of it: see [`DatabaseFile::is_lost`].
    lost: AtomicBool,
    /// `locks::losses` when it was opened.
    losses: u64,
    origin: Instant,
    /// When the path was last seen to lead to the file, when the queue file was last seen in its place, and
    /// when it was last looked for other SQLite programs: in nanoseconds since `origin`; 0 for never.
    in_place_ns: AtomicU64,
    queue_in_place_ns: AtomicU64,
    external_ns: AtomicU64,
    /// Another SQLite program had the database open then.
    external: AtomicBool,
    pub(crate) checkpoint: Checkpointer,
    pub(crate) idle: IdleSessions,
    pub(crate) transactions: TransactionCounts,
    pub(crate) contention: Contention,
    pub(crate) holder: TurnHolder,
    pub(crate) external_writers: ExternalWriters,
}

impl DatabaseFile {
    /// The process's shared part for the file that `opener` has open. It waits for no lock of SQLite's where the
    /// database is in WAL mode: a process that closes it may hold one for a while.
    pub(crate) fn open(
        path: PathBuf,
        opener: Opener<'_>,
        timeout: Duration,
    ) -> Result<FileHandle, Error> {
        let found = std::fs::metadata(&path)
            .map_err(|_| Error::new(ErrorKind::Replaced { path: path.clone() }))?;
        let id = (found.dev(), found.ino());
        registry::open(id, || {
            let losses = sqlite::locks::losses(id.0, id.1);
            let queue = join(&path, &found, opener.connection(timeout), Deadline::after(timeout))?;
            Ok(DatabaseFile {
                path,
                id,
                generation: sqlite::locks::generation(),
                users: Users::new(0),
                queue: RwLock::new(queue),
                executor: Mutex::new(None),
                first: Mutex::new(opener.given()),
                failed: AtomicBool::new(false),
                lost: AtomicBool::new(false),
                losses,
                origin: Instant::now(),
                in_place_ns: AtomicU64::new(0),
                queue_in_place_ns: AtomicU64::new(0),
                external_ns: AtomicU64::new(0),
                external: AtomicBool::new(false),
                checkpoint: Checkpointer::default(),
                idle: IdleSessions::default(),
                transactions: TransactionCounts::default(),
                contention: Contention::default(),
                holder: TurnHolder::default(),
                external_writers: ExternalWriters::default(),
            })
        })
    }

    /// A connection with these settings: a kept one, or a new one.
    pub(crate) fn connect(&self, settings: &Settings) -> Result<Session, Error> {
        if self.is_inherited() {
            return Err(Error::new(ErrorKind::Forked));
        }
        if self.is_lost() {
            return Err(self.lost_error());
        }
        if !self.was_in_place(limits::LOOK_EVERY) {
            return Err(self.replaced());
        }
        if let Some(session) = self.idle.take(settings) {
            return Ok(session);
        }
        let first = lock(&self.first).take();
        let (connection, first) = match first {
            Some(FirstConnection { connection, is_plain: true }) => (connection, None),
            // ATTACH creates a file that does not exist only if the connection itself was opened so.
            first => (self.open_sqlite(OpenMode::ReadWriteCreate)?, first),
        };
        let mut session = Session::new(connection, settings)?;
        session.take_over_checkpoints();
        // SQLite opens the WAL and reads the schema here: otherwise the connection's first write would do so. What fails here
        // fails there again, and is reported there.
        session.schema = KnownSchema::read(&session.sqlite).unwrap_or_default();
        self.share_with_group();
        // Not before: were it the last one, SQLite would remove the WAL, which the new one would make again.
        drop(first);
        Ok(session)
    }

    /// Opens an SQLite connection to this very file. If another database has taken its place at the path, the last connection
    /// to that one would take our WAL for its own when it closes.
    pub(crate) fn open_sqlite(&self, mode: OpenMode) -> Result<sqlite::Connection, Error> {
        let connection = sqlite::Connection::open(&self.path, mode, false)?;
        connection.set(sqlite::Setting::NoCheckpointOnClose, true);
        if !self.is_in_place() {
            return Err(self.replaced());
        }
        connection.set(sqlite::Setting::NoCheckpointOnClose, false);
        Ok(connection)
    }

    /// False for what a child inherited by `fork()`, after a failed sync, and after the loss of its descriptors.
    pub(crate) fn is_usable(&self) -> bool {
        !self.is_inherited() && !self.failed.load(Ordering::Relaxed) && !self.has_lost()
    }

    /// True for what a child inherited by `fork()`. It takes no lock: another thread of the parent may
    /// have held it, and in the child nobody gives it back.
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation != sqlite::locks::generation()
    }

    fn now_ns(&self) -> u64 {
        (self.origin.elapsed().as_nanos() as u64).max(1)
    }

    /// True when closing leaves the database tidier than keeping it open: nobody else has it open, or
    /// it is not to be used again.
    pub(crate) fn may_close(&self) -> bool {
        let queue = self.queue();
        self.failed.load(Ordering::Relaxed)
            || self.has_lost()
            || !self.was_in_place(limits::LOOK_BEFORE_CLOSING)
            || !(queue.is_led_by_another() || queue.has_other_members())
    }

    /// Closes the connections: when the last of all processes is closed, SQLite checkpoints the WAL and
    /// removes it. By its name: where another database has come to the path, and has a queue of its own, the
    /// WAL there is not ours to remove.
    pub(crate) fn close(&self) {
        let tidies = !self.is_lost() && (self.is_in_place() || self.queue().is_in_place());
        self.idle.clear(tidies);
        self.checkpoint.close(tidies);
        if let Some(first) = lock(&self.first).take()
            && !tidies
        {
            first.connection.set(sqlite::Setting::NoCheckpointOnClose, true);
        }
        if let Some(executor) = lock(&self.executor).take()
            && !tidies
        {
            executor.leave_wal();
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The queue, joined anew if the old one was damaged or deleted.
    ///
    /// # Errors
    /// When it must not be used, or cannot be joined anew.
    pub(crate) fn sound_queue(&self, deadline: Deadline) -> Result<Arc<Queue>, Error> {
        if self.is_inherited() {
            return Err(Error::new(ErrorKind::Forked));
        }
        let queue = self.queue();
        self.refuse_lost()?;
        if self.failed.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::FailedSync { path: self.path.clone() }));
        }
        self.look_around(&queue)?;
        if queue.is_sound() {
            return Ok(queue);
        }
        // Not below: it looks at the queue, too.
        if self.is_lost() {
            return Err(self.lost_error());
        }
        let mut place = self.queue.write().unwrap_or_else(PoisonError::into_inner);
        if place.is_sound() {
            return Ok(Arc::clone(&place));
        }
        // The same error for all, whatever was overwritten: a process that joins must not take the file for another version's.
        place.retire();
        tracing::warn!(path = %self.path.display(), "the queue file was damaged or deleted: joining a new one");
        let connection = self.open_sqlite(OpenMode::ReadWrite)?;
        BusyWait::install(&connection, deadline.remaining());
        let found = std::fs::metadata(&self.path).map_err(|_| self.replaced())?;
        let queue = join(&self.path, &found, &connection, deadline)?;
        // It holds the old queue.
        drop(lock(&self.executor).take());
        *place = Arc::clone(&queue);
        Ok(queue)
    }

    /// The executor. Only for the leader.
    pub(crate) fn executor(&self, queue: &Arc<Queue>) -> Result<ExecutorGuard<'_>, Error> {
        let mut guard = lock(&self.executor);
        // The queue may just have been joined anew, and its executor made: a commit is announced where it is led.
        if !guard.as_ref().is_some_and(|executor| executor.is_of(queue)) {
            let connection = self.open_sqlite(OpenMode::ReadWrite)?;
            *guard = Some(Executor::new(connection, queue)?);
        }
        Ok(ExecutorGuard { guard })
    }

    /// Adds to `error` who holds the write lock, if that is the error; or that the descriptors were closed, if that is so.
    pub(crate) fn describe_busy(&self, error: sqlite::Error, waited: Duration) -> Error {
        if error.code.is_io_error() && self.is_lost() {
            return self.lost_error();
        }
        // A statement in the way of a COMMIT has the same code, and a message that says so.
        let general = sqlite::Error::from_code(sqlite::Code::BUSY.0).message;
        if !error.code.is_lock_held() || error.message != general {
            return Error::from(error);
        }
        let holder = self.lock_holder(sqlite::vfs::WRITE_LOCK_BYTE).and_then(|holder| holder.pid);
        Error::new(ErrorKind::Busy { waited, holder })
    }

    /// Stops all writes of this process: what the disk holds is no longer known.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn statistics(&self) -> crate::Statistics {
        let queue = self.queue();
        let [batches, requests, turns, successions] = queue.counters();
        let wal_bytes_starved = queue.starved_bytes();
        let is_starved = wal_bytes_starved > 0 && !self.is_inherited();
        crate::Statistics {
            batches,
            requests,
            turns,
            successions,
            checkpoints: self.checkpoint.count(),
            promotions: self.transactions.promotions.load(Ordering::Relaxed),
            replays: self.transactions.replays.load(Ordering::Relaxed),
            conflicts: self.transactions.conflicts.load(Ordering::Relaxed),
            escalations: self.transactions.escalations.load(Ordering::Relaxed),
            retries: self.transactions.retries.load(Ordering::Relaxed),
            wal_bytes_starved,
            wal_reader: is_starved.then(|| wal_reader::find(self, &queue)).flatten(),
            checkpoint_error: self.checkpoint.last_error(),
        }
    }
}

/// True when something was looked at so lately that it need not be looked at again.
fn is_recent(at_ns: &AtomicU64, now_ns: u64, moment: Duration) -> bool {
    let at_ns = at_ns.load(Ordering::Relaxed);
    at_ns != 0 && now_ns.saturating_sub(at_ns) < moment.as_nanos() as u64
}

/// The executor, in the hands of the leader.
pub(crate) struct ExecutorGuard<'a> {
    guard: MutexGuard<'a, Option<Executor>>,
}

impl ExecutorGuard<'_> {
    pub(crate) fn get(&mut self) -> &mut Executor {
        self.guard.as_mut().expect("made when the guard was")
    }

    /// Throws the executor away, so that the next leader starts with a new one.
    pub(crate) fn discard(mut self) {
        *self.guard = None;
    }
}
