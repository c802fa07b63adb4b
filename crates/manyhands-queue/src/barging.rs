//! Barging: a client that has come to the leader's place in order may lead again before those who wait, until its quantum is
//! over.
//!
//! To wake a waiter on another processor takes as long as several short commits. So a leader that will come back at once
//! *reserves* the place when it gives it back. Nobody else takes a place that is reserved. When the quantum is over, the place is
//! handed over in order, to the first in the queue, which sleeps no longer than until shortly before.
//!
//! What always holds:
//! * A quantum begins when its leader comes to the place in order, and lasts [`QUANTUM_NS`] at most. A leadership that is taken
//!   again inherits its end. So a waiter is passed over for no longer than that, and by one leadership that began in it.
//! * Only the client that has reserved the place leads again: by a compare-and-swap from the very word that it left, and an
//!   epoch is never there twice. A barger that was stopped meanwhile finds another word.
//! * A reservation is a time. It passes when its owner is stopped, or dies, and nobody has to repair anything. A time
//!   further off than any quantum was written over, or is of another clock: it reserves nothing.

use std::sync::Arc;

use crate::leader::{Lead, LeaderWord, Orphan};
use crate::planted::planted;
use crate::queue::{Kind, Queue};
use crate::sync::{Ordering, fence};
use crate::ticket;

/// How long those who wait may be passed over. To hand the place over costs 40 us and more: a twentieth of this.
pub const QUANTUM_NS: u64 = 1_000_000;

/// By how much the quanta of all who wait may lengthen the wait of the last of them: where many wait, quanta are shorter.
pub const ROUND_NS: u64 = 32_000_000;

/// How long before the end of a quantum the first in the queue wakes up: the kernel is some 50 us late.
pub(crate) const AHEAD_NS: u64 = 60_000;

/// How long a transaction takes that is over when the first in the queue has spun for it.
const MOMENT_NS: u64 = 40_000;

/// The leader's place, free for nobody but its last leader until the quantum is over. Who drops it gives the place to the
/// first in the queue.
#[derive(Debug)]
pub struct Reservation {
    queue: Arc<Queue>,
    word: LeaderWord,
    until_ns: u64,
}

impl Reservation {
    /// True when it is one of this queue.
    pub fn is_of(&self, queue: &Arc<Queue>) -> bool {
        Arc::ptr_eq(&self.queue, queue)
    }

    /// Leads again. `None` when the quantum is over: then the caller's place is at the end of the queue.
    pub fn lead(self, label: &str) -> Option<Lead> {
        if self.queue.is_inherited() || is_over(self.until_ns, self.queue.now_ns()) {
            return None;
        }
        // And if we are stopped here? If somebody leads meanwhile, it is another word.
        self.queue.take_lead(self.word, false, Some(self.until_ns), label)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let free = self.word.not_reserved();
        if !self.queue.is_inherited() && self.queue.change_leader(self.word, free) {
            fence(Ordering::SeqCst);
            self.queue.ring(self.queue.first_waiting().map(|(_, slot)| slot));
        }
    }
}

fn is_over(until_ns: u64, now_ns: u64) -> bool {
    now_ns >= until_ns && !planted("forget-the-first")
}

impl Lead {
    /// Ends the leadership, for a caller that will lead again at once. While others wait, and the quantum lasts, the place
    /// stays reserved for it. With `before_requests` also if the first in the queue asks to be served: where a commit waits
    /// for the disk, it is better to serve many together.
    pub fn release_and_return(mut self, before_requests: bool) -> Option<Reservation> {
        let first = self.next(None)?;
        let now = self.queue.now_ns();
        let refused =
            is_over(self.quantum_ends_ns, now) || first.kind == Kind::Request && !before_requests;
        if refused || self.has_batch() || self.queue.is_inherited() {
            return None;
        }
        self.reserve()
    }

    fn reserve(&mut self) -> Option<Reservation> {
        let until_ns = self.quantum_ends_ns;
        let queue = Arc::clone(&self.queue);
        // Before the word, whose Release pairs with the Acquire of who reads it: it never sees an older time.
        queue.region.shared().header.reserved_until_ns.0.store(until_ns, Ordering::Relaxed);
        let word = self.word.freed(false).reserved();
        self.ended = true;
        if !self.change_word(word) {
            return None;
        }
        // Either the first sees the place reserved before it sleeps, or we see it sleep.
        fence(Ordering::SeqCst);
        queue.tell_the_time();
        queue.ring(core::mem::take(&mut self.answered));
        Some(Reservation { queue, word, until_ns })
    }

    fn has_batch(&self) -> bool {
        self.in_batch || self.orphan() == Orphan::Batch
    }
}

impl Queue {
    /// True when nobody leads, but the place is its last leader's: as long as somebody waits whom it was reserved before.
    pub(crate) fn is_reserved(&self, word: LeaderWord) -> bool {
        word.is_free() && self.reserved_until(word).is_some() && self.first_waiting().is_some()
    }

    /// Until when the place is reserved, or its leader may reserve it again.
    fn reserved_until(&self, word: LeaderWord) -> Option<u64> {
        if !word.is_reserved() {
            return None;
        }
        let until = self.region.shared().header.reserved_until_ns.0.load(Ordering::Relaxed);
        let now = self.now_ns();
        (!is_over(until, now) && until <= now + QUANTUM_NS).then_some(until)
    }

    /// Until when those who barge go on, if this slot is the first in the queue.
    pub(crate) fn reserved_before(&self, slot: usize) -> Option<u64> {
        let until = self.reserved_until(self.leader_word())?;
        self.first_waiting().is_some_and(|(_, first)| first == slot).then_some(until)
    }

    /// True when nobody leads, or somebody who has just begun: where a commit waits for the disk, its end is not to be
    /// spun for.
    pub(crate) fn is_led_for_a_moment(&self) -> bool {
        let since = self.region.shared().header.leader.since_ns.load(Ordering::Relaxed);
        self.leader_word().is_free() || self.now_ns().saturating_sub(since) < MOMENT_NS
    }

    /// How long the quantum is that begins now.
    pub(crate) fn quantum_ns(&self) -> u64 {
        let shared = self.region.shared();
        let waiting = ticket::tail(shared).0.saturating_sub(ticket::head(shared).0);
        QUANTUM_NS.min(ROUND_NS / waiting.max(1))
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.region.now_ns()
    }
}
