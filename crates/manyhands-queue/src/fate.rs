//! What a dead leader leaves: the batch record. A leader writes it before and during its commit, and the next leader reads it to learn
//! whether the orphaned batch was committed (`commit/recover.rs` in the library).
//!
//! | word           | written by the leader                  | and if it dies after that?                |
//! |----------------|----------------------------------------|-------------------------------------------|
//! | batch          | when the batch begins                  | the others speak of an earlier batch      |
//! | frame_*        | before the commit frame is written     | `announced` still names an earlier batch  |
//! | announced      | after frame_*                          | the next leader looks for that frame      |
//! | publishing     | when readers may begin to see it       | the same; and somebody may have seen it   |
//! | sealed         | when nothing can undo the commit       | the batch is committed                    |
//!
//! What can go wrong: the evidence may be gone, because another program restarted the WAL. Then the
//! fate is [`Fate::Unknown`], and the owners are told so.

use crate::crash;
use crate::leader::Lead;
use crate::planted::planted;
use crate::queue::Queue;
use crate::sync::Ordering;

/// The bit above the change counter of an announced frame that is being published.
const PUBLISHING: u64 = 1 << 32;

/// The commit frame of a batch, announced before it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitFrame {
    /// Where in the -wal file the frame starts, in bytes.
    pub offset: u64,
    /// The frame's header, with the WAL's salts and the frame's checksum.
    pub header: [u8; 24],
    /// The wal-index's change counter before this commit.
    pub change: u32,
}

/// What is known of a batch whose leader died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// Its commit is published completely.
    Sealed,
    /// The commit frame may have been written: look for it.
    Announced {
        /// What to look for.
        frame: CommitFrame,
        /// Others may have seen the commit without having recovered it.
        publishing: bool,
    },
    /// No commit frame was written.
    Unannounced,
}

/// What became of a batch whose leader died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is in the database.
    Committed,
    /// It is not.
    NotCommitted,
    /// The evidence is gone.
    Unknown,
}

impl From<bool> for Fate {
    fn from(committed: bool) -> Fate {
        if committed { Fate::Committed } else { Fate::NotCommitted }
    }
}

impl Lead {
    /// What is known of the batch that the last leader left.
    pub fn unresolved(&self) -> Unresolved {
        let record = &self.queue().region.shared().header.batch;
        let batch = record.batch.load(Ordering::Acquire);
        if record.sealed.load(Ordering::Acquire) == batch {
            return Unresolved::Sealed;
        }
        if record.announced.load(Ordering::Acquire) != batch {
            return Unresolved::Unannounced;
        }
        let mut header = [0; 24];
        for (bytes, word) in header.chunks_exact_mut(8).zip(&record.frame_header) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        let change = record.frame_change.load(Ordering::Relaxed);
        let offset = record.frame_offset.load(Ordering::Relaxed);
        let frame = CommitFrame { offset, header, change: change as u32 };
        Unresolved::Announced { frame, publishing: change & PUBLISHING != 0 }
    }
}

impl Queue {
    /// The leader says where its batch's commit frame goes. Only for the member that leads: called from
    /// inside SQLite's commit, where the [`Lead`] is not at hand.
    pub fn announce(&self, frame: &CommitFrame) {
        let record = &self.region.shared().header.batch;
        record.frame_offset.store(frame.offset, Ordering::Relaxed);
        record.frame_change.store(u64::from(frame.change), Ordering::Relaxed);
        for (word, bytes) in record.frame_header.iter().zip(frame.header.chunks_exact(8)) {
            let bytes = bytes.try_into().expect("a chunk of 8 bytes");
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        record.announced.store(record.batch.load(Ordering::Relaxed), Ordering::Release);
        if planted("seal-early") {
            self.seal();
        }
        crash::point("announced");
    }

    /// The leader says that the commit that it has announced is about to be there for all. See
    /// [`Queue::announce`].
    pub fn publishing(&self) {
        let record = &self.region.shared().header.batch;
        if !planted("publish-unsaid") {
            record.frame_change.fetch_or(PUBLISHING, Ordering::Release);
        }
        crash::point("half-published");
    }

    /// The leader says that nothing can undo its batch's commit. See [`Queue::announce`].
    pub fn seal(&self) {
        let record = &self.region.shared().header.batch;
        record.sealed.store(record.batch.load(Ordering::Relaxed), Ordering::Release);
        crash::point("sealed");
    }
}
