//! The state of one slot: one 64-bit word, moved by one function.
//!
//! ```text
//! word: ticket (48 bits) | member (12 bits) | state (4 bits)
//! ```
//!
//! | state     | who acts in it | ways out                                                              |
//! |-----------|----------------|-----------------------------------------------------------------------|
//! | Free      | anybody        | Claimed (a client takes it)                                           |
//! | Claimed   | its owner      | Pending (published), Free (given back, or the owner died)             |
//! | Pending   | owner, leader  | Taken (leader), Free (withdrawn, or the owner died), PassedOver (a    |
//! |           |                | silent owner's turn), Claimed (somebody else drew the ticket)         |
//! | Taken     | the leader     | Executed (answer written), Pending (to be executed again)             |
//! | Executed  | the leader     | Answered (committed), Pending (not committed: executed again)         |
//! | Answered  | its owner      | Free (answer read, or the owner died)                                 |
//! | PassedOver| its owner      | Free (its owner saw it, or died)                                      |
//!
//! The ticket in the word makes every compare-and-swap speak of one request: a ring entry whose
//! ticket differs from the word's is about a request that is gone.
//!
//! And if the owner dies: Claimed, Pending, Answered and PassedOver slots are freed by whoever next needs one
//! ([`crate::Queue::claim`]). And if the leader dies in Taken or Executed: its successor moves them
//! on ([`crate::Lead`]).

use crate::layout::Slot;
use crate::sync::Ordering;
use crate::ticket::Ticket;

/// Where a slot stands. The numbers are part of the file's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SlotState {
    /// Nobody's.
    Free = 0,
    /// A client writes its request.
    Claimed = 1,
    /// The request waits for a leader.
    Pending = 2,
    /// A leader executes it.
    Taken = 3,
    /// The answer is written, and holds as soon as the batch is committed.
    Executed = 4,
    /// The answer holds.
    Answered = 5,
    /// The owner was called to its turn and did not come: nobody has executed it.
    PassedOver = 6,
}

impl SlotState {
    fn from_bits(bits: u64) -> Option<SlotState> {
        Some(match bits {
            0 => SlotState::Free,
            1 => SlotState::Claimed,
            2 => SlotState::Pending,
            3 => SlotState::Taken,
            4 => SlotState::Executed,
            5 => SlotState::Answered,
            6 => SlotState::PassedOver,
            _ => return None,
        })
    }

    /// The transition table above.
    pub fn may_become(self, next: SlotState) -> bool {
        use SlotState::{Answered, Claimed, Executed, Free, PassedOver, Pending, Taken};
        matches!(
            (self, next),
            (Free, Claimed)
                | (Claimed, Pending | Free)
                | (Pending, Taken | PassedOver | Free | Claimed)
                | (Taken, Executed | Pending)
                | (Executed, Answered | Pending)
                | (Answered | PassedOver, Free)
        )
    }
}

/// A slot's word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotWord {
    /// Where the slot stands.
    pub state: SlotState,
    /// Whose request it is: the member's number, below 4096.
    pub member: u16,
    /// The request's place in the queue; 0 before it has one.
    pub ticket: Ticket,
}

impl SlotWord {
    /// The word of a slot that is nobody's.
    pub const FREE: SlotWord = SlotWord { state: SlotState::Free, member: 0, ticket: Ticket::NONE };

    /// The word as it stands in shared memory.
    pub fn to_bits(self) -> u64 {
        debug_assert!(self.member < 1 << 12);
        self.ticket.0 << 16 | u64::from(self.member) << 4 | self.state as u64
    }

    /// `None` for bits that no member of this layout writes: the file is damaged.
    pub fn from_bits(bits: u64) -> Option<SlotWord> {
        Some(SlotWord {
            state: SlotState::from_bits(bits & 0xF)?,
            member: (bits >> 4 & 0xFFF) as u16,
            ticket: Ticket(bits >> 16),
        })
    }

    pub(crate) fn with(self, state: SlotState) -> SlotWord {
        SlotWord { state, ..self }
    }
}

impl Slot {
    /// The slot's word now; `None` when the memory is damaged.
    ///
    /// Acquire: pairs with the Release of [`Slot::advance`], so that who sees a state also sees the
    /// request or the answer that was written before it.
    pub(crate) fn load(&self) -> Option<SlotWord> {
        SlotWord::from_bits(self.word.load(Ordering::Acquire))
    }

    /// Moves the slot from `from` to `to`. False when the slot was no longer at `from`: somebody
    /// else moved it first.
    pub(crate) fn advance(&self, from: SlotWord, to: SlotWord) -> bool {
        assert!(from.state.may_become(to.state), "no way from {:?} to {:?}", from.state, to.state);
        self.word
            .compare_exchange(from.to_bits(), to.to_bits(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_survives_its_bits() {
        for bits in [0, 1, 2, 3, 4, 5, u64::MAX << 4, (7 << 16) | (4095 << 4) | 6] {
            assert_eq!(SlotWord::from_bits(bits).expect("a valid word").to_bits(), bits);
        }
    }

    #[test]
    fn bits_that_nobody_writes_are_refused() {
        for bits in 7..16 {
            assert_eq!(SlotWord::from_bits(bits), None);
        }
    }
}
