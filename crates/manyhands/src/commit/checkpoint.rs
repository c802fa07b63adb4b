//! Checkpoints: the frames of the WAL are copied into the database file, so that the WAL can be used from its beginning again.
//!
//! A checkpoint is complete when all frames are copied and nobody commits meanwhile. So the leader makes it, between batches. But
//! to copy a full WAL takes as long as ten commits. Where others wait, the leader first gives the leadership back. When its
//! caller's own write is answered, the caller's thread copies the WAL beside the commits of others ([`Checkpointer::copy_beside`]).
//! They add little meanwhile, and the next leader copies that. If they add faster than it is copied, the leader copies
//! everything at twice the limit.
//!
//! After a complete checkpoint the next writer starts the WAL at its beginning: the file is kept and overwritten. It is seldom longer
//! than the limit plus what is committed during the copying, and never much longer than twice the limit plus a step of zeros
//! (`wal_appends.rs`, in the fence).
//!
//! What can go wrong: *checkpoint starvation*. A reader, or a stopped process that checkpoints, keeps the WAL from being reused, and it grows. The
//! leader tries again each time the WAL has grown by another quarter of the limit, and tells all members how much cannot be reused. A
//! connection with a limit ([`crate::Builder::wal_bytes_limit`]) then waits until the reader is gone ([`QueueClient::wait_for_room`]).

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use manyhands_queue::{Queue, crash, planted};
use manyhands_sqlite::vfs::CHECKPOINT_LOCK_BYTE;
use manyhands_sqlite::{CheckpointMode, Checkpointed, Connection, OpenMode, Setting};

use crate::Error;
use crate::commit::file::DatabaseFile;
use crate::commit::queue_client::QueueClient;
use crate::commit::recover;
use crate::commit::wal_reader;
use crate::error::ErrorKind;
use crate::limits;
use crate::mutex::lock;

/// Decides when, and remembers what came of it.
#[derive(Debug, Default)]
pub(crate) struct Checkpointer {
    /// WAL frames at which to try next; 0 for the usual limit.
    next_at: AtomicU32,
    /// How many bytes of the WAL must be held back for the reader to be named in the log again; 0 for the
    /// first time.
    named_at: AtomicU64,
    count: AtomicU64,
    /// The WAL is to be copied beside the commits of others, by a client that has led.
    copying_is_due: AtomicBool,
    /// The last time that was done a reader held something back: the leader finds out what.
    copying_was_starved: AtomicBool,
    /// How many connections of this process execute a checkpoint of the application, which may wait for readers.
    asked: Arc<AtomicU32>,
    /// For that: the executor is in use by the next leader.
    connection: Mutex<Option<Connection>>,
    last_error: Mutex<Option<String>>,
}

/// A checkpoint of the application, until it is dropped.
#[derive(Debug)]
pub(crate) struct Asked(Arc<AtomicU32>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Checkpointer {
    /// The application checkpoints: who waits with a snapshot gives way.
    pub(crate) fn ask(&self) -> Asked {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Asked(Arc::clone(&self.asked))
    }

    /// True while the application checkpoints, in this process.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed) != 0
    }

    /// Checkpoints through `connection` if the WAL, of `frames`, is due. Where `others` wait, only if that is
    /// short; otherwise [`Checkpointer::copy_beside`] is due. Only for the leader, outside a transaction.
    pub(crate) fn after_commit(
        &self,
        file: &DatabaseFile,
        queue: &Queue,
        connection: &Connection,
        frames: u32,
        others: bool,
    ) {
        if frames == 0 {
            // Nothing was written: that tells nothing of the WAL.
            return;
        }
        let next_at = match self.next_at.load(Ordering::Relaxed) {
            0 => limits::CHECKPOINT_FRAMES,
            frames => frames,
        };
        if frames < limits::CHECKPOINT_FRAMES {
            if self.next_at.swap(0, Ordering::Relaxed) != 0 {
                queue.note_no_starvation();
            }
            return;
        }
        if frames < next_at || planted("no-checkpoints") {
            return;
        }
        let is_short = frames.saturating_sub(copied(connection)) <= limits::CHECKPOINT_FRAMES_SHORT;
        let was_starved = self.copying_was_starved.swap(false, Ordering::Relaxed);
        let is_large = frames >= 2 * limits::CHECKPOINT_FRAMES;
        if others && !is_short && !was_starved && !is_large {
            self.copying_is_due.store(true, Ordering::Relaxed);
        } else {
            self.checkpoint(file, queue, connection, frames);
        }
    }

    /// Copies the WAL, if that is due, while others commit. Called by a client that may have led, and leads no more, when its
    /// write is answered: only its own caller waits for this. If the copying fails, the next leader tries again, and reports it.
    pub(crate) fn copy_beside(&self, file: &DatabaseFile) {
        if !self.copying_is_due.swap(false, Ordering::Relaxed) || !file.is_usable() {
            return;
        }
        // Otherwise another thread or process copies already: to open a connection only to learn that costs too much.
        let Ok(mut connection) = self.connection.try_lock() else { return };
        if file.lock_holder(CHECKPOINT_LOCK_BYTE).is_some() {
            return;
        }
        if connection.is_none() {
            *connection = open(file);
        }
        let Some(connection) = connection.as_ref() else { return };
        if let Ok(done) = connection.checkpoint(CheckpointMode::Beside) {
            let checkpoint_starvation = done.frames_done < done.frames;
            self.copying_was_starved.store(checkpoint_starvation, Ordering::Relaxed);
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Closes its connection; `tidies` says whether the last one of the database removes its WAL.
    pub(crate) fn close(&self, tidies: bool) {
        if let Some(connection) = lock(&self.connection).take()
            && !tidies
        {
            connection.set(Setting::NoCheckpointOnClose, true);
        }
    }

    /// False when it failed for another reason than that somebody has the file in use.
    fn checkpoint(
        &self,
        file: &DatabaseFile,
        queue: &Queue,
        connection: &Connection,
        frames: u32,
    ) -> bool {
        crash::point("before-checkpoint");
        let result = connection.checkpoint(CheckpointMode::Passive);
        crash::point("after-checkpoint");
        self.count.fetch_add(1, Ordering::Relaxed);
        let error = match result {
            Ok(done) if done.frames_done >= done.frames => {
                self.next_at.store(0, Ordering::Relaxed);
                self.named_at.store(0, Ordering::Relaxed);
                queue.note_no_starvation();
                None
            }
            Ok(done) => {
                self.next_at.store(done.frames + limits::CHECKPOINT_FRAMES / 4, Ordering::Relaxed);
                self.note_reader(file, queue, connection, &done);
                None
            }
            // Another connection checkpoints. If that takes so long that the WAL grows, its process may have been stopped.
            Err(error) if error.code.is_busy() => {
                if frames >= 2 * limits::CHECKPOINT_FRAMES {
                    self.next_at.store(frames + limits::CHECKPOINT_FRAMES / 4, Ordering::Relaxed);
                    let done = Checkpointed { frames, frames_done: copied(connection) };
                    self.note_reader(file, queue, connection, &done);
                }
                None
            }
            Err(error) => {
                tracing::warn!(%error, frames, "the checkpoint failed; the WAL grows until one succeeds");
                let frames = frames.max(limits::CHECKPOINT_FRAMES);
                self.next_at.store(frames + limits::CHECKPOINT_FRAMES / 4, Ordering::Relaxed);
                Some(error.to_string())
            }
        };
        let works = error.is_none();
        *lock(&self.last_error) = error;
        works
    }

    /// Tells all members how much a reader holds back, and the log who it is, each time that it is twice as much.
    fn note_reader(
        &self,
        file: &DatabaseFile,
        queue: &Queue,
        connection: &Connection,
        done: &Checkpointed,
    ) {
        let Some(header) = connection.wal_index() else { return };
        let bytes = u64::from(done.frames) * header.frame_bytes();
        queue.note_starvation(bytes, u64::from(done.frames_done));
        if bytes < self.named_at.load(Ordering::Relaxed).max(limits::WAL_BYTES_NOTABLE) {
            return;
        }
        self.named_at.store(bytes.saturating_mul(2), Ordering::Relaxed);
        if let Some(reader) = wal_reader::find(file, queue) {
            tracing::warn!(%reader, bytes, "a reader keeps the WAL from being reused: it grows");
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }
}

/// How many frames of the WAL checkpoints have copied.
fn copied(connection: &Connection) -> u32 {
    connection.checkpoint_info().map_or(0, |info| info.backfilled)
}

/// A connection that reads nothing but the WAL. What fails here is left to the leaders.
fn open(file: &DatabaseFile) -> Option<Connection> {
    let connection = file.open_sqlite(OpenMode::ReadWrite).ok()?;
    // The first read makes it a user of the WAL.
    connection.query_integer("PRAGMA schema_version").ok()?;
    Some(connection)
}

/// False while a reader holds back more of the WAL than `bytes_limit`.
pub(crate) fn has_room(queue: &Queue, bytes_limit: u64) -> bool {
    // Without a limit nobody touches the shared line.
    bytes_limit == u64::MAX || queue.starved_bytes() <= bytes_limit
}

impl QueueClient<'_> {
    pub(crate) fn lacks_room(&self, queue: &Queue) -> bool {
        !has_room(queue, self.wal_bytes_limit)
    }

    /// Waits until the WAL can be reused, or is short enough. A reader that ends wakes nobody: so a waiter leads now and then, and
    /// tries to checkpoint.
    ///
    /// # Errors
    /// The deadline passed, or the application interrupted.
    pub(crate) fn wait_for_room(&self, queue: &Arc<Queue>) -> Result<(), Error> {
        let mut pause = limits::WAL_PAUSE_MIN;
        while self.lacks_room(queue) && queue.is_sound() {
            if self.interrupt.ends_wait() {
                return Err(self.interrupt.error());
            }
            let lead = queue.try_lead(self.label).or_else(|| queue.try_take_over(self.label));
            if let Some(mut lead) = lead {
                recover::resolve_orphan(self.file, &mut lead, self.deadline)?;
                let mut executor = self.file.executor(queue)?;
                let connection = executor.get().connection();
                let works = self.file.checkpoint.checkpoint(self.file, queue, connection, 0);
                drop(executor);
                lead.release();
                // A failed checkpoint is not a reader for which one could wait.
                if !works || !self.lacks_room(queue) {
                    break;
                }
            }
            if self.deadline.has_passed() {
                return Err(Error::new(ErrorKind::WalFull {
                    waited: self.began.elapsed(),
                    bytes: queue.starved_bytes(),
                    limit: self.wal_bytes_limit,
                    reader: wal_reader::find(self.file, queue),
                }));
            }
            std::thread::sleep(
                pause.min(self.deadline.remaining()).max(Duration::from_micros(100)),
            );
            pause = (pause * 2).min(limits::WAL_PAUSE_MAX);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;
    use crate::commit::registry::FileHandle;

    /// A database whose WAL nobody checkpoints but who is told to.
    struct Scene {
        _directory: tempfile::TempDir,
        /// Keeps the queue.
        _connection: crate::Connection,
        file: FileHandle,
        writer: Connection,
    }

    impl Scene {
        fn new() -> Scene {
            let directory = tempfile::tempdir().expect("a directory");
            let path = directory.path().join("app.db");
            let database = Database::open(&path).expect("opens");
            let mut connection = database.connect().expect("a connection");
            connection.execute("CREATE TABLE t (a)", &[]).expect("a table");
            let file = connection.file.clone().expect("it has a queue");
            let writer = Connection::open(&path, OpenMode::ReadWrite, false).expect("opens");
            writer.execute("PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=OFF").expect("is set");
            Scene { _directory: directory, _connection: connection, file, writer }
        }

        /// Lets the WAL grow to more than so many frames, of as many pages.
        fn write(&self, frames: u32) {
            while self.frames().0 <= frames {
                self.writer.execute("INSERT INTO t VALUES (zeroblob(40000))").expect("writes");
            }
        }

        fn tell(&self, others: bool) {
            let (checkpoint, queue) = (&self.file.checkpoint, self.file.queue());
            let frames = self.frames().0;
            checkpoint.after_commit(&self.file, &queue, &self.writer, frames, others);
        }

        /// Does both, and returns how many frames there are, and how many are copied.
        fn grow(&self, frames: u32, others: bool) -> (u32, u32) {
            self.write(frames);
            self.tell(others);
            self.frames()
        }

        /// Reads what is there now, until it is dropped.
        fn reader(&self) -> Connection {
            let reader = Connection::open(self.file.path(), OpenMode::ReadWrite, false);
            let reader = reader.expect("opens");
            reader.execute("BEGIN; SELECT count(*) FROM t").expect("reads");
            reader
        }

        fn frames(&self) -> (u32, u32) {
            let header = self.writer.wal_index().expect("it has read");
            (header.frame_last, copied(&self.writer))
        }
    }

    #[test]
    fn the_leader_copies_all_where_nobody_waits() {
        let scene = Scene::new();
        assert_eq!(scene.grow(limits::CHECKPOINT_FRAMES - 50, false).1, 0);
        let (frames, copied) = scene.grow(limits::CHECKPOINT_FRAMES, false);
        assert_eq!(frames, copied);
        scene.file.checkpoint.copy_beside(&scene.file);
        assert_eq!(scene.file.checkpoint.count(), 1, "nothing is left to do");
    }

    #[test]
    fn where_others_wait_the_leader_copies_only_what_is_left() {
        let scene = Scene::new();
        let checkpoint = &scene.file.checkpoint;
        let (frames, copied) = scene.grow(limits::CHECKPOINT_FRAMES, true);
        assert_eq!(copied, 0, "of {frames}");
        let reader = scene.reader();
        checkpoint.copy_beside(&scene.file);
        assert_eq!(scene.frames(), (frames, frames));
        // As if they had added something meanwhile: for the reader's sake it goes behind what is there.
        scene.writer.execute("INSERT INTO t VALUES (zeroblob(200000))").expect("writes");
        drop(reader);
        let (all, copied) = scene.grow(frames, true);
        assert!(frames < all && all == copied, "{copied} of {all}");
        scene.writer.execute("INSERT INTO t VALUES (1)").expect("writes");
        assert!(scene.frames().0 < 10, "the next writer begins at the beginning");
    }

    /// They write faster than somebody copies.
    #[test]
    fn at_twice_the_limit_the_leader_copies_all() {
        let scene = Scene::new();
        for frames in [limits::CHECKPOINT_FRAMES, 2 * limits::CHECKPOINT_FRAMES - 50] {
            assert_eq!(scene.grow(frames, true).1, 0);
        }
        let (frames, copied) = scene.grow(2 * limits::CHECKPOINT_FRAMES, true);
        assert_eq!(frames, copied);
    }

    /// Whoever writes with a limit must learn of it.
    #[test]
    fn a_reader_that_holds_something_back_is_noticed_by_the_leader() {
        let scene = Scene::new();
        let queue = scene.file.queue();
        assert_eq!(scene.grow(limits::CHECKPOINT_FRAMES / 2, true).1, 0);
        let reader =
            Connection::open(scene.file.path(), OpenMode::ReadWrite, false).expect("opens");
        reader.execute("BEGIN; SELECT count(*) FROM t").expect("reads");
        scene.grow(limits::CHECKPOINT_FRAMES, true);
        scene.file.checkpoint.copy_beside(&scene.file);
        let (frames, copied) = scene.frames();
        assert!(0 < copied && copied < frames, "{copied} of {frames}");
        assert_eq!(queue.starved_bytes(), 0);
        scene.grow(frames, true);
        assert_ne!(queue.starved_bytes(), 0);
    }

    /// It is looked for once, and not at the next full WAL.
    #[test]
    fn a_reader_that_has_ended_is_forgotten() {
        let scene = Scene::new();
        scene.write(limits::CHECKPOINT_FRAMES);
        let reader = scene.reader();
        scene.writer.execute("INSERT INTO t VALUES (1)").expect("writes");
        scene.tell(true);
        scene.file.checkpoint.copy_beside(&scene.file);
        drop(reader);
        scene.tell(true);
        let (frames, copied) = scene.frames();
        assert_eq!(frames, copied);
        scene.writer.execute("INSERT INTO t VALUES (1)").expect("writes");
        assert!(scene.frames().0 < 10, "the next writer begins at the beginning");
        assert_eq!(scene.grow(limits::CHECKPOINT_FRAMES, true).1, 0);
    }

    /// Somebody has restored a backup, and renamed it to the path. It was opened, found to be another file, and closed:
    /// as its last connection, which copied the old WAL into it, and deleted that.
    #[test]
    fn another_file_at_the_path_is_left_alone() {
        let scene = Scene::new();
        let path = scene.file.path();
        scene.grow(limits::CHECKPOINT_FRAMES, true);
        let backup = path.with_file_name("backup.db");
        let other = Connection::open(&backup, OpenMode::ReadWriteCreate, false).expect("opens");
        other.execute("PRAGMA journal_mode=WAL; CREATE TABLE restored (a)").expect("a table");
        drop(other);
        std::fs::rename(&backup, path).expect("renamed");
        let before = std::fs::read(path).expect("reads");
        scene.file.checkpoint.copy_beside(&scene.file);
        assert_eq!(std::fs::read(path).expect("reads"), before);
        assert!(path.with_file_name("app.db-wal").exists());
    }

    /// Somebody else checkpoints, and does not come to an end.
    #[test]
    fn a_checkpoint_that_does_not_end_is_noticed() {
        let scene = Scene::new();
        let queue = scene.file.queue();
        scene.write(2 * limits::CHECKPOINT_FRAMES);
        let reader = scene.reader();
        let other = open(&scene.file).expect("opens");
        other.execute("PRAGMA busy_timeout=60000").expect("is set");
        std::thread::scope(|scope| {
            // Between two tries of the leader it begins, and waits for the reader.
            scope.spawn(|| while other.checkpoint(CheckpointMode::Truncate).is_err() {});
            let began = std::time::Instant::now();
            while queue.starved_bytes() == 0 {
                assert!(began.elapsed() < Duration::from_secs(30), "nobody is told");
                scene.tell(true);
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(reader);
        });
        // It has ended, and the WAL was truncated: nobody need wait any more.
        scene.writer.execute("INSERT INTO t VALUES (1)").expect("writes");
        scene.tell(true);
        assert_eq!(queue.starved_bytes(), 0);
    }
}
