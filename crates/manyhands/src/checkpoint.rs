//! Checkpoints: the leader copies the WAL into the database file between batches, while it holds the
//! turn and nobody else's commit waits on it.
//!
//! Without a reader that holds it back, such a checkpoint is complete, and the next writer starts the
//! WAL at its beginning: the file is kept and overwritten, never longer than the limit plus one
//! batch. With such a reader the WAL grows; the leader tries again each time it has grown by another
//! quarter of the limit.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Mutex;

use manyhands_queue::{crash, planted};
use manyhands_sqlite::{CheckpointMode, Connection};

use crate::limits;
use crate::mutex::lock;

/// Decides when, and remembers what came of it.
#[derive(Debug, Default)]
pub(crate) struct Checkpointer {
    /// WAL frames at which to try next; 0 for the usual limit.
    next_at: AtomicU32,
    count: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl Checkpointer {
    /// Checkpoints through `connection` if the WAL, of `frames`, is due. Only for the leader, outside
    /// a transaction.
    pub(crate) fn after_commit(&self, connection: &Connection, frames: u32) {
        let next_at = match self.next_at.load(Ordering::Relaxed) {
            0 => limits::CHECKPOINT_FRAMES,
            frames => frames,
        };
        if frames < limits::CHECKPOINT_FRAMES {
            self.next_at.store(0, Ordering::Relaxed);
            return;
        }
        if frames < next_at || planted("no-checkpoints") {
            return;
        }
        crash::point("before-checkpoint");
        let result = connection.checkpoint(CheckpointMode::Passive);
        crash::point("after-checkpoint");
        self.count.fetch_add(1, Ordering::Relaxed);
        let error = match result {
            Ok(done) => {
                let complete = done.frames_done >= done.frames;
                let next = if complete { 0 } else { frames + limits::CHECKPOINT_FRAMES / 4 };
                self.next_at.store(next, Ordering::Relaxed);
                None
            }
            // Another program checkpoints at this moment.
            Err(error) if error.code.is_busy() => None,
            Err(error) => {
                tracing::warn!(%error, frames, "the checkpoint failed; the WAL grows until one succeeds");
                self.next_at.store(frames + limits::CHECKPOINT_FRAMES / 4, Ordering::Relaxed);
                Some(error.to_string())
            }
        };
        *lock(&self.last_error) = error;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }
}
