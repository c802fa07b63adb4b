//! A request in the queue, as its owner sees it: waited for, withdrawn, answered.

use core::time::Duration;
use std::sync::Arc;

use crate::block::{self, Block};
use crate::clock::Deadline;
use crate::planted::planted;
use crate::queue::{Kind, Queue};
use crate::slot::{SlotState, SlotWord};
use crate::sync::Ordering;
use crate::ticket::Ticket;
use crate::wait::{self, Waited};

/// Where a published request stands, as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In the queue; it can be withdrawn.
    Waiting,
    /// In the queue, but it must be executed by its owner in its own turn: the leader could not.
    MustLead,
    /// A leader executes it; its fate will be known.
    Executing,
    /// The answer is there.
    Answered,
    /// The leader called this turn and got no reply, so it went on: nobody has executed it. Publish again.
    PassedOver,
    /// Somebody has written over the slot: whether a leader has executed the request, nobody can tell.
    Gone,
}

/// A request in the queue. Dropping it withdraws the request if no leader has taken it yet.
#[derive(Debug)]
pub struct Published {
    pub(crate) queue: Arc<Queue>,
    pub(crate) slot: usize,
    pub(crate) pending: SlotWord,
    pub(crate) kind: Kind,
    pub(crate) request_bytes: usize,
    /// Holds the request; freed after the slot, so that a leader that takes the slot finds it.
    pub(crate) block: Option<Block>,
    pub(crate) done: bool,
}

impl Published {
    /// The place in the order of arrival.
    pub fn ticket(&self) -> Ticket {
        self.pending.ticket
    }

    /// Where the request stands now.
    pub fn stage(&self) -> Stage {
        let slot = self.queue.slot(self.slot);
        let Some(word) = slot.load() else { return Stage::Gone };
        if word.ticket != self.pending.ticket || word.member != self.pending.member {
            return Stage::Gone;
        }
        let is_turn = || Kind::from_bits(slot.kind.load(Ordering::Relaxed)) == Kind::Turn;
        match word.state {
            SlotState::Pending if is_turn() => Stage::MustLead,
            SlotState::Pending => Stage::Waiting,
            SlotState::Taken | SlotState::Executed => Stage::Executing,
            SlotState::Answered => Stage::Answered,
            SlotState::PassedOver => Stage::PassedOver,
            SlotState::Free | SlotState::Claimed => Stage::Gone,
        }
    }

    /// True when it asked for its turn, so that no leader has ever executed it.
    pub fn is_turn(&self) -> bool {
        self.kind == Kind::Turn
    }

    /// Sleeps until something may have changed: the stage, or the leader's place became free.
    pub fn wait(&self, deadline: Deadline, patience: Duration) -> Waited {
        wait::wait(self, deadline, patience)
    }

    /// True when nobody leads, and its owner should: everybody before it, if there is somebody, wants to be
    /// served.
    pub fn may_lead(&self) -> bool {
        self.queue.invites(self.slot)
    }

    /// False for a turn that is not the first: others come before it.
    pub(crate) fn may_be_next(&self) -> bool {
        let first = || self.queue.first_waiting().is_none_or(|(_, slot)| slot == self.slot);
        self.kind == Kind::Request || first()
    }

    /// How many tickets are before this one.
    pub fn tickets_ahead(&self) -> u64 {
        let head = self.queue.region.shared().header.head.0.load(Ordering::Relaxed);
        self.pending.ticket.0.saturating_sub(head)
    }

    /// Takes the request out of the queue. False when a leader has taken it already: then it must be
    /// waited for.
    pub fn withdraw(&mut self) -> bool {
        let stays = planted("withdrawn-stays") && self.stage() == Stage::Waiting;
        self.done = self.done || stays || self.queue.free(self.slot, self.pending);
        if self.done {
            self.free_block();
        }
        self.done
    }

    fn free_block(&mut self) {
        if let Some(block) = self.block.take() {
            block.free(&self.queue);
        }
    }

    /// Copies the answer out and frees the slot. `None` when the memory is damaged, or the stage is not
    /// [`Stage::Answered`].
    pub fn into_answer(mut self) -> Option<Vec<u8>> {
        let slot = self.queue.slot(self.slot);
        let answered = self.pending.with(SlotState::Answered);
        if slot.load() != Some(answered) {
            return None;
        }
        let mut answer = Vec::new();
        let count = slot.answer_bytes.load(Ordering::Relaxed) as usize;
        let read = slot.payload.0.read(block::answer_at(self.request_bytes), count, &mut answer);
        self.done = true;
        self.queue.free(self.slot, answered);
        read.map(|()| answer)
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        if self.queue.is_inherited() {
            return;
        }
        // Pending: withdrawn. Answered, or passed over: nobody reads it. In a leader's hands, or damaged: left
        // to the next sweep after this member's end, with its block.
        let freed = self.withdraw()
            || [SlotState::Answered, SlotState::PassedOver]
                .iter()
                .any(|&state| self.queue.free(self.slot, self.pending.with(state)));
        if freed || self.stage() == Stage::Gone {
            self.free_block();
        }
        if freed {
            self.queue.forget(self.slot);
        }
    }
}
