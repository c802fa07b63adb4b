//! Everything that a state of the model consists of, grouped by where it lives: in files, in shared
//! memory, in one process, or only in the model, as its history.

use super::disk::{Content, Files, FrameHeader, IndexHeader};

/// A process with one connection. Its number is its member number, too.
pub type Client = u8;

/// Who holds a lock of SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    Client(Client),
    /// Another SQLite program.
    Stock,
}

/// A slot's state and its meaning: `crates/manyhands-queue/src/slot.rs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SlotState {
    #[default]
    Free,
    Claimed,
    Pending,
    Taken,
    Executed,
    Answered,
}

impl SlotState {
    pub fn is_with_leader(self) -> bool {
        matches!(self, SlotState::Taken | SlotState::Executed)
    }
}

/// What lies in a slot for its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The answer to this request.
    Done(u8),
    /// No bytes: nobody knows.
    Unknown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    pub state: SlotState,
    pub member: Client,
    pub ticket: u8,
    pub request: u8,
    /// `Kind::Turn`: the owner executes it itself.
    pub is_turn: bool,
    pub answer: Option<Answer>,
}

/// An announced commit frame: `manyhands_queue::CommitFrame`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommitFrame {
    pub place: u8,
    pub header: FrameHeader,
    pub change: u8,
}

/// The queue file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shared {
    pub slots: Vec<Slot>,
    /// Ticket and slot, from the head on; entries that are gone are left out.
    pub ring: Vec<(u8, u8)>,
    pub tickets: u8,
    /// The leader's word.
    pub holder: Option<Client>,
    pub unresolved: bool,
    /// The batch record: whether these three speak of the last batch.
    pub announced: Option<CommitFrame>,
    pub publishing: bool,
    pub sealed: bool,
}

/// How far the holder of SQLite's write lock has come; each stage names what it has just done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// `BEGIN IMMEDIATE`, and the requests' statements.
    Executing,
    /// `walRestartHdr`: the first copy of the wal-index header says that the WAL begins anew.
    RestartHalf,
    Restarted,
    /// The header of the WAL file.
    HeaderWritten,
    HeaderSynced,
    /// [`CommitStage::Announced`](manyhands_sqlite::vfs::CommitStage).
    Announced,
    FrameHeaderWritten,
    FrameWritten,
    Synced,
    HalfPublished,
    /// [`CommitStage::HalfPublished`](manyhands_sqlite::vfs::CommitStage).
    Publishing,
    /// [`CommitStage::Sealed`](manyhands_sqlite::vfs::CommitStage).
    Sealed,
    Published,
    /// Only where [`Mutation::VisibleBeforeDurable`](super::mutation::Mutation) puts it.
    SyncedLate,
}

/// The holder of SQLite's write lock: what dies with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Writer {
    pub who: Who,
    pub stage: Stage,
    /// SQLite's private copy of the wal-index header (`Wal.hdr`).
    pub header: IndexHeader,
    /// What it will have made of the database.
    pub content: Content,
    /// Its commit is told to the queue: it is a batch.
    pub is_batch: bool,
}

/// A checkpoint, which has just done what its stage says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckpointStage {
    WalSynced,
    Copied,
    DatabaseSynced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Checkpoint {
    pub who: Who,
    pub stage: CheckpointStage,
    pub frame_last: u8,
    pub content: Content,
}

/// What the successor found out: `manyhands_queue::Fate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    Committed,
    NotCommitted,
    Unknown,
}

/// What the leader knows and no successor can.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Leading {
    /// It has taken the place.
    Begun,
    /// It holds the write lock, and knows the fate as soon as the WAL is synced.
    Looked(Fate),
    /// It moves the slots of the batch that it has inherited, in ticket order.
    Settling(Fate),
    /// Between two batches.
    Serving,
    /// In a batch: the slot that it has taken, and those that it has executed.
    Batch { taken: Option<u8>, executed: Vec<u8> },
    /// The batch is committed; these slots are not answered yet.
    Answering(Vec<u8>),
    /// It executes its own statement on its own connection.
    Turn,
    /// Its own statement is committed.
    Leaving,
}

/// Where a client stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It wants to write.
    Idle,
    /// Its transaction has run on a snapshot, and made this of the database.
    Forked(IndexHeader, Content),
    /// Its write must go through the queue: the place was taken, or its snapshot is old.
    Submits,
    Claimed(u8),
    /// Its request is in this slot, with this ticket.
    Waiting(u8, u8),
    /// It has taken its turn out of the queue.
    HasTurn,
    /// All its requests are settled.
    Done,
    Dead,
}

/// What the owner of a request was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Told {
    #[default]
    Nothing,
    Acknowledged,
    NotCommitted,
    Unknown,
}

/// How often the surroundings may still interfere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Left {
    pub deaths: u8,
    pub stock_deaths: u8,
    pub stock_writes: u8,
    pub checkpoints: u8,
    pub timeouts: u8,
}

/// The end of everybody: what readers had seen, and what the next reader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct End {
    pub seen: Content,
    pub found: Content,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub files: Files,
    pub writer: Option<Writer>,
    pub checkpoint: Option<Checkpoint>,
    pub shared: Shared,
    pub leading: Option<Leading>,
    pub clients: Vec<Phase>,
    /// Which of its requests each client is at.
    pub at: Vec<u8>,
    pub left: Left,
    /// History: what owners of requests were told, stock's writes last.
    pub told: Vec<Told>,
    /// History: another program restarted the WAL while an announced batch without a leader was open.
    pub evidence_gone: bool,
    /// History: a recovery has published a frame that was not synced.
    pub recovered_unsynced: bool,
    /// History: somebody got the answer to another request.
    pub answers_mixed_up: bool,
    pub end: Option<End>,
}

impl State {
    pub fn lives(&self, client: Client) -> bool {
        self.clients[usize::from(client)] != Phase::Dead
    }

    pub fn phase(&self, client: Client) -> Phase {
        self.clients[usize::from(client)]
    }

    pub fn slot(&mut self, slot: u8) -> &mut Slot {
        &mut self.shared.slots[usize::from(slot)]
    }

    /// The slot of a waiting client while it is still its own.
    pub fn own_slot(&self, client: Client) -> Option<(u8, Slot)> {
        let Phase::Waiting(slot, ticket) = self.phase(client) else { return None };
        let word = self.shared.slots[usize::from(slot)];
        (word.ticket == ticket && word.member == client).then_some((slot, word))
    }

    /// The first entry that waits (`Lead::next`).
    pub fn first_pending(&self) -> Option<(u8, Slot)> {
        let slots = self.shared.ring.iter().map(|&(_, slot)| slot);
        slots
            .map(|slot| (slot, self.shared.slots[usize::from(slot)]))
            .find(|(_, word)| word.state == SlotState::Pending)
    }

    /// The first entry that a dead leader had in hand.
    pub fn first_inherited(&self) -> Option<u8> {
        let mut slots = self.shared.ring.iter().map(|&(_, slot)| slot);
        slots.find(|&slot| self.shared.slots[usize::from(slot)].state.is_with_leader())
    }

    /// Frees a slot, and drops ring entries of requests that are gone.
    pub fn free(&mut self, slot: u8) {
        *self.slot(slot) = Slot::default();
        self.forget_gone();
    }

    /// The head passes entries whose slot has another ticket, or was answered. They never come back, so
    /// it makes no difference when.
    pub fn forget_gone(&mut self) {
        let slots = &self.shared.slots;
        self.shared.ring.retain(|&(ticket, slot)| {
            let word = slots[usize::from(slot)];
            word.ticket == ticket
                && (word.state == SlotState::Pending || word.state.is_with_leader())
        });
    }

    /// A batch without a living leader whose fate is open.
    pub fn has_orphaned_batch(&self) -> bool {
        let orphaned = match self.shared.holder {
            Some(holder) => !self.lives(holder) || self.shared.unresolved,
            None => self.shared.unresolved,
        };
        orphaned && self.first_inherited().is_some()
    }

    /// The leader, when it can act: not in the middle of a checkpoint.
    pub fn leader(&self) -> Option<Client> {
        let holder = self.shared.holder.filter(|&holder| self.lives(holder))?;
        let busy = self.checkpoint.is_some_and(|it| it.who == Who::Client(holder));
        (!busy).then_some(holder)
    }

    /// What a reader finds, now or after the end.
    pub fn present(&self) -> Option<Content> {
        self.end.map_or_else(|| self.files.visible(), |end| Some(end.found))
    }
}
