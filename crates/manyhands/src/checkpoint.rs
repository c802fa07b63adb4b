//! Checkpoints: the leader copies the WAL into the database file between batches, while it holds the
//! turn and nobody else's commit waits on it.
//!
//! Without a reader that holds it back, such a checkpoint is complete, and the next writer starts the
//! WAL at its beginning: the file is kept and overwritten, never longer than the limit plus one
//! batch, and a step of zeros (`wal_appends.rs`, in the fence). With such a reader the WAL grows; the leader tries again each time it has grown by another
//! quarter of the limit, and tells all members how much is held back. Whoever was given a limit
//! ([`crate::Builder::wal_bytes_limit`]) then waits until the reader is gone ([`Client::wait_for_room`]).

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use manyhands_queue::{Lead, Queue, crash, planted};
use manyhands_sqlite::{CheckpointMode, Checkpointed, Connection, Transaction, Value};

use crate::Error;
use crate::commit::Client;
use crate::database::DatabaseFile;
use crate::error::ErrorKind;
use crate::limits;
use crate::mutex::lock;
use crate::prepared::Prepared;
use crate::recover;
use crate::row::Outcome;
use crate::wal_reader;

/// Decides when, and remembers what came of it.
#[derive(Debug, Default)]
pub(crate) struct Checkpointer {
    /// WAL frames at which to try next; 0 for the usual limit.
    next_at: AtomicU32,
    /// How many bytes of the WAL must be held back for the reader to be named in the log again; 0 for the
    /// first time.
    named_at: AtomicU64,
    count: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl Checkpointer {
    /// Checkpoints through `connection` if the WAL, of `frames`, is due. Only for the leader, outside
    /// a transaction.
    pub(crate) fn after_commit(
        &self,
        file: &DatabaseFile,
        queue: &Queue,
        connection: &Connection,
        frames: u32,
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
                queue.note_nothing_held_back();
            }
            return;
        }
        if frames < next_at || planted("no-checkpoints") {
            return;
        }
        self.checkpoint(file, queue, connection, frames);
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
                queue.note_nothing_held_back();
                None
            }
            Ok(done) => {
                self.next_at.store(done.frames + limits::CHECKPOINT_FRAMES / 4, Ordering::Relaxed);
                self.note_reader(file, queue, connection, &done);
                None
            }
            // Another program checkpoints at this moment.
            Err(error) if error.code.is_busy() => None,
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
        queue.note_held_back(bytes, u64::from(done.frames_done));
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

/// False while a reader holds back more of the WAL than `bytes_limit`.
pub(crate) fn has_room(queue: &Queue, bytes_limit: u64) -> bool {
    // Without a limit nobody touches the shared line.
    bytes_limit == u64::MAX || queue.held_back_bytes() <= bytes_limit
}

impl crate::Connection {
    /// True for `PRAGMA wal_checkpoint` in a transaction that has neither read nor written, and holds no turn.
    /// SQLite has no snapshot then, and checkpoints as outside a transaction; with one it refuses.
    pub(crate) fn checkpoints_before_snapshot(&self, prepared: &Prepared) -> bool {
        let pragma = prepared.facts.pragma.as_ref();
        pragma.is_some_and(|(name, _)| name == "wal_checkpoint")
            && self.file.is_some()
            && self.turns.is_empty()
            && !self.is_autocommit()
            && self.sqlite().transaction() == Transaction::None
    }

    /// Executes it in a turn that ends with it, and not with the transaction.
    pub(crate) fn checkpoint_before_snapshot(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Result<Outcome, Error> {
        let lead = self.file.as_deref().map(|file| self.client(file).take_turn()).transpose()?;
        let result = self.step(prepared, values);
        lead.into_iter().for_each(Lead::release);
        result
    }
}

impl Client<'_> {
    pub(crate) fn lacks_room(&self, queue: &Queue) -> bool {
        !has_room(queue, self.wal_bytes_limit)
    }

    /// Waits until the WAL can be reused, or is short enough. Nobody rings when a reader ends: who waits leads
    /// now and then, and tries to checkpoint.
    ///
    /// # Errors
    /// The deadline passed, or the application interrupted.
    pub(crate) fn wait_for_room(&self, queue: &Arc<Queue>) -> Result<(), Error> {
        let mut pause = limits::WAL_PAUSE_MIN;
        while self.lacks_room(queue) && queue.is_sound() {
            if self.interrupt.ends_wait() {
                return Err(Error::new(ErrorKind::Interrupted));
            }
            let lead = queue.try_lead(self.label).or_else(|| queue.try_succeed(self.label));
            if let Some(mut lead) = lead {
                recover::settle(self.file, &mut lead, self.deadline)?;
                let mut executor = self.file.executor(queue)?;
                let connection = executor.get().connection();
                let works = self.file.checkpoint.checkpoint(self.file, queue, connection, 0);
                drop(executor);
                lead.release();
                // A checkpoint that fails is no reader that could be waited for.
                if !works || !self.lacks_room(queue) {
                    break;
                }
            }
            if self.deadline.has_passed() {
                return Err(Error::new(ErrorKind::WalFull {
                    waited: self.began.elapsed(),
                    bytes: queue.held_back_bytes(),
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
