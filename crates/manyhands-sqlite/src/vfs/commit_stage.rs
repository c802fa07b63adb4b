//! How far the commit of a WAL transaction has come, and who is told.
//!
//! 1. [`CommitStage::Announced`]: before the header of the commit frame is written: where it goes and
//!    what it is. A frame whose header carries a database size is a commit frame
//!    (<https://sqlite.org/fileformat2.html#the_write_ahead_log>, 4.1).
//! 2. [`CommitStage::Written`]: the frame is in the file.
//! 3. [`CommitStage::Synced`]: the file was synced (at `synchronous=FULL`).
//! 4. [`CommitStage::HalfPublished`]: SQLite publishes a commit by writing the wal-index header twice, with a
//!    memory barrier between: the second copy is written, and the first is not. A new reader finds
//!    the two unequal, and recovers the wal-index from the -wal file, with the commit frame. But a connection
//!    that reads already goes by the first copy alone: if the process dies here, such a one may take the write
//!    lock and overwrite the frame.
//! 5. [`CommitStage::Sealed`]: both copies are written, and SQLite is about to give the write lock back. Until
//!    then nobody can write, or restart the WAL: the transaction stays, also if its process dies now. That goes
//!    for the shared page itself, so a connection that is observed is never armed (`speculative`).
//!
//! What always holds: a stage is told only between the commit frame and the end of its transaction;
//! any error, lock or unlock forgets a frame that was announced.

use std::sync::Arc;

use super::wal_frame::{FRAME_HEADER_BYTES, is_commit, is_final};
use crate::planted::planted;

/// A commit frame that is about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitFrame {
    /// Where in the -wal file the frame starts, in bytes.
    pub offset: u64,
    /// The frame's header as it will be written.
    pub header: [u8; FRAME_HEADER_BYTES],
    /// The wal-index's change counter before this commit.
    pub change: u32,
}

/// How far a commit has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitStage {
    /// The commit frame is about to be written.
    Announced(CommitFrame),
    /// The commit frame is written.
    Written,
    /// The -wal file is synced.
    Synced,
    /// One copy of the wal-index header has the commit, and the other, by which readers go, has not.
    HalfPublished,
    /// Nothing can undo the commit any more.
    Sealed,
}

/// Is told of the commits of one connection. Called from inside SQLite: it must not use the
/// connection.
pub trait CommitObserver: Send + Sync {
    /// The commit has come to `stage`.
    fn on_commit(&self, stage: CommitStage);
}

/// Of a database file: the observer, and how far a commit has come.
#[derive(Default)]
pub(crate) struct Announcements {
    observer: Option<Arc<dyn CommitObserver>>,
    /// An announced commit frame is on its way.
    announced: bool,
    /// That commit is published as soon as the header's first copy is written.
    published: bool,
}

impl Announcements {
    /// From now on `observer` is told, and nobody else.
    pub(crate) fn observe(&mut self, observer: Arc<dyn CommitObserver>) {
        *self = Announcements { observer: Some(observer), ..Announcements::default() };
    }

    fn tell(&self, stage: CommitStage) {
        if let Some(observer) = &self.observer {
            observer.on_commit(stage);
        }
    }

    /// A frame's header is about to be written. Of several commit frames the first is announced, as in
    /// [`Unpublished::note`](super::unpublished::Unpublished::note). `change` tells the wal-index's change counter.
    pub(super) fn header(
        &mut self,
        header: [u8; FRAME_HEADER_BYTES],
        offset: i64,
        change: impl FnOnce() -> u32,
    ) {
        if self.announced && is_commit(&header) {
            return;
        }
        self.announced = is_commit(&header) && is_final(&header) && self.observer.is_some();
        if self.announced {
            let (offset, change) = (offset as u64, change());
            self.tell(CommitStage::Announced(CommitFrame { offset, header, change }));
        }
    }

    /// What follows a header is written.
    pub(super) fn page_written(&self) {
        if self.announced {
            self.tell(CommitStage::Written);
        }
    }

    /// The -wal file is synced.
    pub(super) fn synced(&self) {
        if self.announced {
            self.tell(CommitStage::Synced);
        }
    }

    /// The commit has failed.
    pub(super) fn forget(&mut self) {
        self.announced = false;
    }

    /// One copy of the wal-index header is written.
    pub(super) fn half_published(&mut self) {
        if core::mem::take(&mut self.announced) {
            self.tell(CommitStage::HalfPublished);
            self.published = !planted("seal-at-the-barrier");
            if !self.published {
                self.tell(CommitStage::Sealed);
            }
        }
    }

    /// SQLite takes a lock or gives it back: the commit is over. True when it was published, and is sealed if that is the
    /// write lock.
    pub(super) fn end(&mut self) -> bool {
        self.announced = false;
        core::mem::take(&mut self.published)
    }

    /// The write lock is about to be given back after a commit that was published.
    pub(super) fn seal(&self) {
        self.tell(CommitStage::Sealed);
    }
}
