//! SQLite's part: a commit in its single steps, checkpoints, restart and recovery of the WAL.
//!
//! After SQLite's `src/wal.c` (`sqlite3WalFrames`, `walRestartLog`, `sqlite3WalCheckpoint`,
//! `walIndexRecover`), and `crates/manyhands-sqlite/src/vfs/`, which announces and seals.

use super::disk::{Frame, FrameHeader, IndexHeader};
use super::mutation::Mutation;
use super::protocol::{Protocol, Synchronous};
use super::state::{
    Checkpoint, CheckpointStage, CommitFrame, Leading, Stage, State, Told, Who, Writer,
};

impl Protocol {
    /// True when a transaction that writes can begin: nobody else writes, and no recovery is due.
    pub fn may_begin(&self, state: &State) -> bool {
        state.writer.is_none() && !state.files.is_torn()
    }

    /// True when only who has begun to read before can take the write lock: the last writer died between the copies
    /// of the header.
    pub fn may_begin_late(&self, state: &State) -> bool {
        state.writer.is_none() && state.files.is_torn()
    }

    /// `BEGIN IMMEDIATE`.
    pub fn begin(&self, state: &mut State, who: Who, is_batch: bool) {
        let header = state.files.index.copies[0];
        let content = state.files.content_at(header);
        state.writer = Some(Writer { who, stage: Stage::Executing, header, content, is_batch });
    }

    fn synchronous(&self, who: Who) -> Synchronous {
        if who == Who::Stock { self.stock } else { Synchronous::Full }
    }

    /// The next step of a commit; `None` when it is over.
    fn next_stage(&self, writer: &Writer) -> Option<Stage> {
        let is_ours = writer.who != Who::Stock;
        let late = is_ours && self.has(Mutation::VisibleBeforeDurable);
        let syncs = self.synchronous(writer.who) == Synchronous::Full
            && !(is_ours && self.has(Mutation::NoSync));
        let early = self.has(Mutation::SealAtTheBarrier);
        let frame = if writer.is_batch && !self.has(Mutation::SkipAnnouncement) {
            Stage::Announced
        } else {
            Stage::FrameHeaderWritten
        };
        Some(match writer.stage {
            Stage::Executing if writer.header.frame_last == 0 => Stage::HeaderWritten,
            Stage::Executing | Stage::HeaderSynced => frame,
            Stage::RestartHalf => Stage::Restarted,
            Stage::Restarted => Stage::HeaderWritten,
            Stage::HeaderWritten if self.synchronous(writer.who) == Synchronous::Off => frame,
            Stage::HeaderWritten => Stage::HeaderSynced,
            Stage::Announced => Stage::FrameHeaderWritten,
            Stage::FrameHeaderWritten => Stage::FrameWritten,
            Stage::FrameWritten if syncs && !late => Stage::Synced,
            Stage::FrameWritten | Stage::Synced => Stage::HalfPublished,
            Stage::HalfPublished if writer.is_batch => Stage::Publishing,
            Stage::Publishing if early => Stage::Sealed,
            Stage::HalfPublished | Stage::Publishing => Stage::Published,
            Stage::Published if writer.is_batch && !early => Stage::Sealed,
            Stage::Sealed if early => Stage::Published,
            Stage::Published | Stage::Sealed if late => Stage::SyncedLate,
            Stage::Published | Stage::Sealed | Stage::SyncedLate => return None,
        })
    }

    /// True when the writer may begin the WAL anew. It need not: a reader can hold it back.
    pub fn may_restart(state: &State) -> bool {
        state.writer.is_some_and(|writer| {
            let last = writer.header.frame_last;
            writer.stage == Stage::Executing && last > 0 && state.files.index.backfilled == last
        })
    }

    /// `walRestartHdr`, as far as the barrier between the two copies.
    pub fn restart(&self, state: &mut State) {
        let orphaned = state.has_orphaned_batch();
        let shared = &state.shared;
        let open = orphaned && shared.announced.is_some() && !shared.sealed;
        let writer = state.writer.as_mut().expect("somebody writes");
        state.evidence_gone |= open && writer.who == Who::Stock;
        let salt = writer.header.salt + 1;
        writer.header = IndexHeader { salt, frame_last: 0, checksum: 0, ..writer.header };
        writer.stage = Stage::RestartHalf;
        state.files.index.copies[1] = writer.header;
    }

    /// One step of a commit (`sqlite3WalFrames`, `Announcements` in `vfs/commit_stage.rs`).
    pub fn commit_step(&self, state: &mut State) {
        let mut writer = state.writer.expect("somebody writes");
        let stage = self.next_stage(&writer).expect("the commit goes on");
        let (files, header) = (&mut state.files, &mut writer.header);
        let place = header.frame_last;
        let next = FrameHeader::new(header.salt, header.checksum, writer.content);
        match stage {
            Stage::Executing | Stage::RestartHalf => {}
            Stage::Restarted => {
                files.index.copies[0] = *header;
                files.index.backfilled = 0;
            }
            Stage::HeaderWritten => files.wal_salt.now = header.salt,
            Stage::HeaderSynced | Stage::Synced | Stage::SyncedLate => files.sync_wal(),
            Stage::Announced => {
                let change = header.change;
                state.shared.announced = Some(CommitFrame { place, header: next, change });
                state.shared.publishing = false;
                state.shared.sealed = self.has(Mutation::SealEarly);
            }
            Stage::FrameHeaderWritten => {
                files.write_frame(place, Some(Frame { header: next, page: None }));
            }
            Stage::FrameWritten => {
                let page = Some(writer.content);
                files.write_frame(place, Some(Frame { header: next, page }));
            }
            Stage::HalfPublished => {
                header.frame_last += 1;
                header.change += 1;
                header.checksum = next.checksum;
                files.index.copies[1] = *header;
            }
            Stage::Publishing => {
                state.shared.publishing = !self.has(Mutation::PublishUnsaid);
            }
            Stage::Published => files.index.copies[0] = *header,
            Stage::Sealed => state.shared.sealed = true,
        }
        writer.stage = stage;
        state.writer = Some(writer);
        if stage == Stage::FrameWritten && self.has(Mutation::AnswerBeforeSync) && writer.is_batch {
            self.answer_all(state);
        }
        if self.next_stage(&writer).is_none() {
            state.writer = None;
            self.committed(state, writer.who);
        }
    }

    /// The commit of `who` has returned.
    fn committed(&self, state: &mut State, who: Who) {
        let Who::Client(client) = who else {
            let done = self.stock_writes - state.left.stock_writes;
            let request = self.first_of_stock() + done - 1;
            state.told[usize::from(request)] = Told::Acknowledged;
            return;
        };
        match state.leading.take() {
            Some(Leading::Batch { executed, .. }) => {
                state.leading = Some(Leading::Answering(executed));
            }
            _ => {
                state.leading = Some(Leading::Leaving);
                self.tell(state, client, Told::Acknowledged);
            }
        }
    }

    /// True when a checkpoint has something to do (`SQLITE_CHECKPOINT_PASSIVE`).
    pub fn may_checkpoint(&self, state: &State) -> bool {
        let files = &state.files;
        let behind = files.index.backfilled < files.index.copies[0].frame_last;
        state.left.checkpoints > 0 && state.checkpoint.is_none() && !files.is_torn() && behind
    }

    /// Syncs the WAL, and decides which frames to copy.
    pub fn begin_checkpoint(&self, state: &mut State, who: Who) {
        state.left.checkpoints -= 1;
        let header = state.files.index.copies[0];
        if self.synchronous(who) != Synchronous::Off {
            state.files.sync_wal();
        }
        let (frame_last, content) = (header.frame_last, state.files.content_at(header));
        let stage = CheckpointStage::WalSynced;
        state.checkpoint = Some(Checkpoint { who, stage, frame_last, content });
    }

    pub fn checkpoint_step(&self, state: &mut State) {
        let mut checkpoint = state.checkpoint.take().expect("a checkpoint runs");
        let ours = checkpoint.who != Who::Stock;
        match checkpoint.stage {
            CheckpointStage::WalSynced => {
                state.files.database.now = checkpoint.content;
                checkpoint.stage = CheckpointStage::Copied;
            }
            CheckpointStage::Copied => {
                let forgotten = ours && self.has(Mutation::NoSyncOfDatabase);
                if self.synchronous(checkpoint.who) != Synchronous::Off && !forgotten {
                    state.files.database.sync();
                }
                checkpoint.stage = CheckpointStage::DatabaseSynced;
            }
            CheckpointStage::DatabaseSynced => {
                state.files.index.backfilled = checkpoint.frame_last;
                return;
            }
        }
        state.checkpoint = Some(checkpoint);
    }

    /// True when the next who uses the database recovers it: it needs the locks of writers and of
    /// checkpoints.
    pub fn may_recover(state: &State) -> bool {
        state.files.is_torn() && state.writer.is_none() && state.checkpoint.is_none()
    }
}
