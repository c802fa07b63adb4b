//! Waiting and waking.
//!
//! A sleeper announces itself (in `sleeping`), looks once more at what it waits for, and sleeps on the
//! bell. A waker changes what is waited for, looks at `sleeping`, and rings. Between its two steps each
//! has a sequentially consistent fence, so at least one of the two sees the other. Nevertheless a bell is a
//! hint, never the truth: every sleep has an end, and the sleeper looks for itself.
//!
//! Thirty-two slots have one bell, on which their owners sleep, each with a bit of its own (`FUTEX_WAIT_BITSET`,
//! futex(2)): a leader wakes all that it has answered with one system call. With a call for each, the first that was
//! woken could take the processor from the leader, which had not called the others yet, while another processor had
//! nothing to do. They are not in a row: slots are taken from many places (`free_slots.rs`), the first of each first.
//!
//! Before it sleeps, a waiter may spin for a moment: `spin.rs`. While the leader's place is reserved (`barging.rs`), the
//! first in the queue sleeps until shortly before the end of that time, and then spins: so it is awake when the place is
//! handed over to it, and nobody has to wake it.
//!
//! | `sleeping`     | the owner                                          | who rings                                 |
//! |----------------|----------------------------------------------------|-------------------------------------------|
//! | AWAKE          | looks for itself                                   | nobody                                    |
//! | ASLEEP         | may sleep until its wait ends                      | whoever gives the place away, or reserves it |
//! | KNOWS_THE_TIME | may sleep until it looks at the place again, soon  | who gives the place away                  |

#[cfg(not(any(loom, shuttle)))]
use core::num::NonZeroU32;
use core::time::Duration;

#[cfg(not(any(loom, shuttle)))]
use rustix::thread::futex;

use crate::barging::AHEAD_NS;
use crate::clock::Deadline;
use crate::layout::{FUTEXES, RING};
use crate::planted::planted;
use crate::published::{Published, Stage};
use crate::queue::{Kind, Queue};
use crate::slot::SlotState;
use crate::spin::{is_paused, spin_until_changed, spin_until_due};
#[cfg(any(loom, shuttle))]
use crate::sync::spin;
use crate::sync::{AtomicU32, Ordering, fence};
use crate::ticket;

/// States of a slot's `sleeping`.
const AWAKE: u32 = 0;
/// See [`AWAKE`].
const ASLEEP: u32 = 1;
/// See [`AWAKE`].
const KNOWS_THE_TIME: u32 = 2;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The stage changed, or the leader's place may be free.
    Changed,
    /// Nothing happened for the length of the patience given.
    Patience,
    /// The deadline has passed.
    Deadline,
}

/// Waits on behalf of `published`.
pub(crate) fn wait(published: &Published, deadline: Deadline, patience: Duration) -> Waited {
    let queue = &published.queue;
    let slot = queue.slot(published.slot);
    let before = published.stage();
    let changed = || {
        let stage = published.stage();
        stage != before
            || matches!(stage, Stage::Answered | Stage::PassedOver | Stage::Gone)
            || stage != Stage::Executing && queue.invites(published.slot)
    };
    let spin_until = &queue.region.shared().header.hints.0.spin_until_ns;
    let until = deadline.or_after(patience);
    let sleep_as = |how: u32, until: Deadline| {
        slot.sleeping.store(how, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // In this order: where the time passes between the two, the place is free for it.
        let slept = queue.sleep(published.slot, until, || {
            how == ASLEEP && queue.reserved_before(published.slot).is_some() || changed()
        });
        slot.sleeping.store(AWAKE, Ordering::Relaxed);
        slept
    };
    if let Some(end_ns) = queue.reserved_before(published.slot) {
        let sleep_until = |ns| sleep_as(KNOWS_THE_TIME, until.min(Deadline::at(ns)));
        let mut woken = sleep_until(end_ns.saturating_sub(AHEAD_NS)) == Slept::Woken;
        if !woken && !is_paused(spin_until) && queue.is_led_for_a_moment() {
            woken = spin_until_due(spin_until, end_ns, &changed);
        } else if !woken {
            woken = sleep_until(end_ns) == Slept::Woken;
        }
        if woken {
            return Waited::Changed;
        }
    } else if published.may_be_next() && spin_until_changed(spin_until, &changed) {
        return Waited::Changed;
    }
    if sleep_as(ASLEEP, until) != Slept::Ended || changed() {
        Waited::Changed
    } else if deadline.has_passed() {
        Waited::Deadline
    } else {
        Waited::Patience
    }
}

/// A slot's bit on its bell.
fn bit_of(slot: usize) -> u32 {
    1 << (slot / FUTEXES)
}

impl Queue {
    fn futex(&self, slot: usize) -> &AtomicU32 {
        &self.region.shared().header.futexes.0[slot % FUTEXES]
    }

    /// Sleeps on the slot's futex until somebody rings for it, `until`, or until `over`.
    fn sleep(&self, slot: usize, until: Deadline, over: impl Fn() -> bool) -> Slept {
        let futex = self.futex(slot);
        loop {
            // Acquire: who sees that it was rung sees why. If that was for others, it is slept on once more.
            let seen = futex.load(Ordering::Acquire);
            if over() {
                return Slept::RungBefore;
            }
            let slept = self.sleep_while(futex, bit_of(slot), seen, until);
            if slept != Slept::RungBefore {
                return slept;
            }
        }
    }

    #[cfg(not(any(loom, shuttle)))]
    fn sleep_while(&self, futex: &AtomicU32, bits: u32, seen: u32, until: Deadline) -> Slept {
        sleep(futex, bits, seen, until)
    }

    #[cfg(any(loom, shuttle))]
    fn sleep_while(&self, futex: &AtomicU32, _bits: u32, seen: u32, until: Deadline) -> Slept {
        while futex.load(Ordering::Acquire) == seen {
            if !until.is_never() && until.is_before(self.region.now_ns()) {
                return Slept::Ended;
            }
            spin();
        }
        Slept::Woken
    }

    /// Wakes the first in the queue, unless it knows until when the place is reserved, or was woken for that before.
    pub(crate) fn tell_the_time(&self) {
        let Some((_, slot)) = self.first_waiting() else { return };
        let sleeping = &self.slot(slot).sleeping;
        if sleeping.load(Ordering::Relaxed) == ASLEEP
            && sleeping
                .compare_exchange(ASLEEP, KNOWS_THE_TIME, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            // And if we die before this? The place is reserved for nobody then, and it looks after the leader.
            self.ring([slot]);
        }
    }

    /// Wakes the owners of these slots, if they may sleep.
    pub(crate) fn ring(&self, slots: impl IntoIterator<Item = usize>) {
        fence(Ordering::SeqCst);
        if planted("sleep-for-ever") {
            return;
        }
        let mut bits = [0; FUTEXES];
        for slot in slots {
            if self.slot(slot).sleeping.load(Ordering::Relaxed) != AWAKE {
                bits[slot % FUTEXES] |= bit_of(slot);
            }
        }
        for (futex, bits) in self.region.shared().header.futexes.0.iter().zip(bits) {
            if bits != 0 {
                futex.fetch_add(1, Ordering::Release);
                wake(futex, bits);
            }
        }
    }

    /// The first entry that waits, as far as can be told from outside: it may be gone at once.
    pub(crate) fn first_waiting(&self) -> Option<(Kind, usize)> {
        let shared = self.region.shared();
        let mut ticket = ticket::head(shared);
        for _ in 0..RING {
            if !ticket::was_drawn(shared, ticket) {
                return None;
            }
            if let Some(slot) = ticket::slot_at(shared, ticket)
                && let Some(word) = self.slot(slot).load()
                && word.ticket == ticket
                && word.state == SlotState::Pending
            {
                let kind = Kind::from_bits(self.slot(slot).kind.load(Ordering::Relaxed));
                return Some((kind, slot));
            }
            ticket = ticket.next();
        }
        None
    }

    /// True when a waiter with this slot has reason to lead: nobody does, and the first in the queue is
    /// no turn of somebody else. Its owner was woken when the last leader ended: who took the place
    /// before it is awake could only call it again.
    pub(crate) fn invites(&self, own: usize) -> bool {
        let word = self.leader_word();
        word.is_free()
            && !self.is_reserved(word)
            && self.first_waiting().is_none_or(|(kind, slot)| kind == Kind::Request || slot == own)
    }
}

/// How a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slept {
    /// Somebody rang.
    Woken,
    /// It did not begin: somebody, perhaps for others, had rung before.
    RungBefore,
    /// The deadline passed, or a signal came.
    Ended,
}

/// Sleeps while `futex` is `seen`, until somebody wakes those with one of these `bits`, or the deadline passes.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn sleep(futex: &AtomicU32, bits: u32, seen: u32, deadline: Deadline) -> Slept {
    let asleep = planted("sleep-for-ever");
    let until = if asleep { deadline.extended(Duration::from_secs(3600)) } else { deadline };
    let Some(bits) = NonZeroU32::new(bits) else { return Slept::Ended };
    let flags = futex::Flags::empty();
    match futex::wait_bitset(futex, flags, seen, Some(&until.to_timespec()), bits) {
        Ok(()) => Slept::Woken,
        Err(rustix::io::Errno::AGAIN) => Slept::RungBefore,
        Err(_) => Slept::Ended,
    }
}

/// Wakes all that sleep on `futex` with one of these `bits`.
#[cfg(not(any(loom, shuttle)))]
fn wake(futex: &AtomicU32, bits: u32) {
    let Some(bits) = NonZeroU32::new(bits) else { return };
    let _ = futex::wake_bitset(futex, futex::Flags::empty(), i32::MAX.cast_unsigned(), bits);
}

/// Wakes one sleeper on `futex`, whatever its bits.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn wake_one(futex: &AtomicU32) {
    let _ = futex::wake(futex, futex::Flags::empty(), 1);
}

#[cfg(any(loom, shuttle))]
pub(crate) fn sleep(futex: &AtomicU32, _bits: u32, seen: u32, _deadline: Deadline) -> Slept {
    while futex.load(Ordering::Acquire) == seen {
        spin();
    }
    Slept::Woken
}

#[cfg(any(loom, shuttle))]
fn wake(_bell: &AtomicU32, _bits: u32) {}

#[cfg(any(loom, shuttle))]
pub(crate) fn wake_one(_bell: &AtomicU32) {}
