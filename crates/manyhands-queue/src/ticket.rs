//! The order of arrival: a ring of slot numbers, appended to by anybody, consumed by the leader.
//!
//! Ring entry `i` holds `ticket << 16 | slot + 1` of the last ticket with `ticket % RING == i`. To
//! draw ticket `t` is to swap entry `t % RING` from an older ticket to `t`. The swap that succeeds is
//! the arrival. `tail` is a hint that everybody pushes forward, so a client that dies between its
//! swap and its push hinders nobody.
//!
//! An entry may be overwritten once `head` has passed it. It may also speak of a request that is
//! gone (cancelled, or answered and its slot used again): then its ticket differs from the one in
//! the slot's word, and it is passed over.

use crate::crash;
use crate::layout::{RING, SLOTS, Shared};
use crate::sync::Ordering;

/// A place in the queue. Numbers are never used twice; 0 is no ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

impl Ticket {
    /// No place.
    pub const NONE: Ticket = Ticket(0);
    /// The first ticket of a new file: one turn of the ring, so that an entry of 0 is an old one.
    pub(crate) const FIRST: Ticket = Ticket(RING as u64);
    /// No ticket reaches this: it has 48 bits. Larger numbers come from damaged memory.
    pub(crate) const END: Ticket = Ticket(1 << 48);

    /// The place after this one.
    pub fn next(self) -> Ticket {
        Ticket(self.0.wrapping_add(1))
    }

    fn index(self) -> usize {
        (self.0 % RING as u64) as usize
    }
}

/// What came of an attempt to draw a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drawn {
    /// The entry is in the ring.
    Ours,
    /// Somebody else drew this ticket first; the tail has moved.
    Lost,
    /// The ring is full of entries that the leader has not passed.
    Full,
}

fn entry(ticket: Ticket, slot: usize) -> u64 {
    ticket.0 << 16 | (slot as u64 + 1)
}

/// The first ticket that may still be waiting.
pub(crate) fn head(shared: &Shared) -> Ticket {
    Ticket(shared.header.head.0.load(Ordering::Acquire))
}

/// The ticket to try to draw next.
pub(crate) fn tail(shared: &Shared) -> Ticket {
    Ticket(shared.header.tail.0.load(Ordering::Acquire))
}

/// Tries to put `slot` into the ring at `ticket`, which came from [`tail`].
pub(crate) fn draw(shared: &Shared, ticket: Ticket, slot: usize) -> Drawn {
    let (head, tail) = (head(shared), &shared.header.tail.0);
    if ticket < head {
        // Who drew these tickets died, or sleeps, before its push. The head passes only drawn ones.
        let _ = tail.compare_exchange(ticket.0, head.0, Ordering::AcqRel, Ordering::Relaxed);
        return Drawn::Lost;
    }
    if ticket >= Ticket::END || ticket.0 - head.0 >= RING as u64 {
        return Drawn::Full;
    }
    let cell = &shared.ring.0[ticket.index()];
    let seen = cell.load(Ordering::Acquire);
    let drawn = seen >> 16 < ticket.0
        // Release: pairs with the Acquire in `slot_at`, so that who sees the entry also sees the
        // slot's word.
        && cell
            .compare_exchange(seen, entry(ticket, slot), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
    // And if we die here? The entry counts; the next client pushes the tail.
    crash::point("drawn");
    let next = ticket.next().0;
    let _ = tail.compare_exchange(ticket.0, next, Ordering::AcqRel, Ordering::Relaxed);
    if drawn { Drawn::Ours } else { Drawn::Lost }
}

/// The slot that drew `ticket`; `None` when nobody has, or when the entry is damaged.
pub(crate) fn slot_at(shared: &Shared, ticket: Ticket) -> Option<usize> {
    let seen = shared.ring.0[ticket.index()].load(Ordering::Acquire);
    let slot = (seen & 0xFFFF) as usize;
    (seen >> 16 == ticket.0 && (1..=SLOTS).contains(&slot)).then(|| slot - 1)
}

/// True when `ticket` was drawn, whatever became of it.
pub(crate) fn was_drawn(shared: &Shared, ticket: Ticket) -> bool {
    shared.ring.0[ticket.index()].load(Ordering::Acquire) >> 16 == ticket.0
}
