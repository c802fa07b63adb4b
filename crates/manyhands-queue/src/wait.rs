//! Waiting and waking.
//!
//! A sleeper announces itself (in `sleeping`, with its processor), looks once more at what it waits
//! for, and sleeps on the bell. A waker changes what is waited for, looks at `sleeping`, and rings.
//! Between its two steps each has a sequentially consistent fence, so at least one of the two sees the
//! other. Nevertheless a bell is a hint, never the truth: every sleep has an end, and the sleeper looks
//! for itself.

use core::time::Duration;

use crate::clock::Deadline;
#[cfg(not(any(loom, shuttle)))]
use crate::clock::now_ns;
use crate::layout::{RING, Slot};
use crate::planted::planted;
use crate::queue::{Kind, Published, Queue, Stage};
use crate::slot::SlotState;
#[cfg(not(any(loom, shuttle)))]
use crate::sync::AtomicU64;
use crate::sync::{AtomicU32, Ordering, fence, spin};
use crate::ticket;

/// How long a waiter watches its slot before it sleeps. To sleep and be woken across cores costs
/// some 40 us, a commit takes 100 us: longer would only take the processor from who works.
#[cfg(not(any(loom, shuttle)))]
const SPIN_NS: u64 = 15_000;

/// With more clients than this in the queue nobody watches: each of them has work for the processor
/// that the watcher would take.
const CROWD_MAX: u64 = 4;

/// How many threads of this process watch at the moment. One per process is enough to catch the
/// answer of a short commit; more would starve the leader on a small machine.
#[cfg(not(any(loom, shuttle)))]
static WATCHERS: AtomicU64 = AtomicU64::new(0);

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
    if queue.waiting() <= CROWD_MAX && watch(&changed) {
        return Waited::Changed;
    }
    let bell = slot.bell.load(Ordering::Acquire);
    slot.sleeping.store(1 + processor(), Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if !changed() {
        sleep(&slot.bell, bell, deadline.or_after(patience));
    }
    slot.sleeping.store(0, Ordering::Relaxed);
    if slot.bell.load(Ordering::Acquire) != bell || changed() {
        Waited::Changed
    } else if deadline.has_passed() {
        Waited::Deadline
    } else {
        Waited::Patience
    }
}

impl Queue {
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
        self.leader_word().is_free()
            && self.first_waiting().is_none_or(|(kind, slot)| kind == Kind::Request || slot == own)
    }
}

/// Watches for a moment; true when `changed`.
#[cfg(not(any(loom, shuttle)))]
fn watch(changed: &impl Fn() -> bool) -> bool {
    if WATCHERS.fetch_add(1, Ordering::Relaxed) > 0 {
        WATCHERS.fetch_sub(1, Ordering::Relaxed);
        return changed();
    }
    let end = now_ns() + SPIN_NS;
    let mut seen = changed();
    while !seen && now_ns() < end {
        for _ in 0..32 {
            spin();
        }
        seen = changed();
    }
    WATCHERS.fetch_sub(1, Ordering::Relaxed);
    seen
}

#[cfg(any(loom, shuttle))]
fn watch(changed: &impl Fn() -> bool) -> bool {
    changed()
}

/// Sleeps until `bell` is no longer `seen`, somebody wakes, or the deadline passes.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn sleep(bell: &AtomicU32, seen: u32, deadline: Deadline) {
    let asleep = planted("sleep-for-ever");
    let left = if asleep { Duration::from_secs(3600) } else { deadline.remaining() };
    let timeout = rustix::thread::futex::Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(left.subsec_nanos()) as _,
    };
    // Any end is an end: the caller looks for itself.
    let _ = rustix::thread::futex::wait(
        bell,
        rustix::thread::futex::Flags::empty(),
        seen,
        Some(&timeout),
    );
}

/// Wakes one sleeper on `bell`.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn wake(bell: &AtomicU32) {
    let _ = rustix::thread::futex::wake(bell, rustix::thread::futex::Flags::empty(), 1);
}

#[cfg(any(loom, shuttle))]
pub(crate) fn sleep(bell: &AtomicU32, seen: u32, _deadline: Deadline) {
    while bell.load(Ordering::Acquire) == seen {
        spin();
    }
}

#[cfg(any(loom, shuttle))]
pub(crate) fn wake(_bell: &AtomicU32) {}

/// The processor that runs this thread, as far as that matters: it may be another one at once.
#[cfg(not(any(loom, shuttle)))]
fn processor() -> u32 {
    // A kernel that does not tell says -1.
    rustix::thread::sched_getcpu() as u32 & 0xFFFF
}

#[cfg(any(loom, shuttle))]
fn processor() -> u32 {
    0
}

/// Rings the bells of these slots, those first whose owners went to sleep on another processor than
/// this: they start at once. One that is woken on this processor may take it from the caller before it
/// has rung the rest.
pub(crate) fn ring_all<'a>(slots: impl Iterator<Item = &'a Slot>) {
    let mine = 1 + processor();
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        slots.partition(|slot| slot.sleeping.load(Ordering::Relaxed) == mine);
    elsewhere.into_iter().chain(here).for_each(ring);
}

/// Rings the bell of `slot` if its owner may sleep.
pub(crate) fn ring(slot: &Slot) {
    fence(Ordering::SeqCst);
    let sleeps = slot.sleeping.load(Ordering::Relaxed) != 0 && !planted("sleep-for-ever");
    if sleeps {
        slot.bell.fetch_add(1, Ordering::Release);
        wake(&slot.bell);
    }
}
