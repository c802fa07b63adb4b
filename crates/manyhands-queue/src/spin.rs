//! Spinning: before it sleeps, a waiter looks again and again for a moment, if no other does.
//!
//! It finds the leader's place free sooner than one that must be woken, and keeps a processor from falling asleep while
//! the leader waits for the disk. It gives way to everybody (sched_yield(2)), since it has nothing to do.
//!
//! Until when it watches, it writes down for all processes. So nobody has to take the place of one that was killed, or
//! stopped.
//!
//! Where others compute on all processors, who gives way gets its processor back after their time slices, some
//! milliseconds later, while one who sleeps and is woken comes before them. Therefore a watcher that was away for long
//! writes down a pause in which all sleep at once.

#[cfg(not(any(loom, shuttle)))]
use crate::clock::now_ns;
use crate::sync::AtomicU64;
#[cfg(not(any(loom, shuttle)))]
use crate::sync::{Ordering, spin};

/// How long a waiter watches before it sleeps. To sleep and be woken across cores costs some 40 us, a commit takes
/// 100 to 200: to watch all the time brings no more (measured up to 500 us), and takes time of a processor.
#[cfg(not(any(loom, shuttle)))]
const WATCH_NS: u64 = 50_000;

/// How late a watcher may get its processor back. Clients that compute for less than this are no reason to pause.
#[cfg(not(any(loom, shuttle)))]
const LATE_NS: u64 = 1_000_000;

/// How many times as long as it was late is the pause: so a twentieth of its time is lost, and no more.
#[cfg(not(any(loom, shuttle)))]
const PAUSE_PER_LATE: u64 = 20;

/// The longest pause, for one that was stopped.
#[cfg(not(any(loom, shuttle)))]
const PAUSE_NS_MAX: u64 = 1_000_000_000;

/// How often a watcher lets the processor rest before it looks again and offers it to others.
#[cfg(not(any(loom, shuttle)))]
const RESTS: u32 = 32;

/// Spins for a moment, if nobody else does and there is no pause; true when `changed`.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn spin_until_changed(spin_until: &AtomicU64, changed: &impl Fn() -> bool) -> bool {
    // Acquire: the clock is read after it, so that what somebody has just written down is not too far off.
    let until = spin_until.load(Ordering::Acquire);
    let now = now_ns();
    let end = now + WATCH_NS;
    if is_spinning(until, now) || swap(spin_until, until, end).is_err() {
        return changed();
    }
    look_until(spin_until, end, changed)
}

/// Spins until the first in the queue is due, and for a moment longer: whoever else spins.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn spin_until_due(
    spin_until: &AtomicU64,
    due: u64,
    changed: &impl Fn() -> bool,
) -> bool {
    let end = due + WATCH_NS;
    spin_until.store(end, Ordering::Relaxed);
    look_until(spin_until, end, changed)
}

#[cfg(not(any(loom, shuttle)))]
fn look_until(spin_until: &AtomicU64, end: u64, changed: &impl Fn() -> bool) -> bool {
    while !changed() && now_ns() < end {
        (0..RESTS).for_each(|_| spin());
        std::thread::yield_now();
    }
    let now = now_ns();
    let late = now.saturating_sub(end);
    if late > LATE_NS {
        let pause = late.saturating_mul(PAUSE_PER_LATE).min(PAUSE_NS_MAX);
        spin_until.store(now + pause, Ordering::Relaxed);
    } else {
        // Unless we came too late, and another one watches.
        let _ = swap(spin_until, end, 0);
    }
    changed()
}

/// True in a pause.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn is_paused(spin_until: &AtomicU64) -> bool {
    let (until, now) = (spin_until.load(Ordering::Relaxed), now_ns());
    is_spinning(until, now) && until > now + LATE_NS
}

#[cfg(any(loom, shuttle))]
pub(crate) fn is_paused(_spin_until: &AtomicU64) -> bool {
    false
}

#[cfg(any(loom, shuttle))]
pub(crate) fn spin_until_due(
    _spin_until: &AtomicU64,
    _due: u64,
    changed: &impl Fn() -> bool,
) -> bool {
    changed()
}

#[cfg(any(loom, shuttle))]
pub(crate) fn spin_until_changed(_spin_until: &AtomicU64, changed: &impl Fn() -> bool) -> bool {
    changed()
}

/// True when somebody watches who wrote down `until`, or in a pause. A time further off than any pause was written
/// over, or is of another clock.
#[cfg(not(any(loom, shuttle)))]
fn is_spinning(until: u64, now: u64) -> bool {
    now < until && until <= now + PAUSE_NS_MAX
}

#[cfg(not(any(loom, shuttle)))]
fn swap(word: &AtomicU64, old: u64, new: u64) -> Result<u64, u64> {
    word.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use core::cell::Cell;
    use core::time::Duration;
    use std::thread::sleep;

    use super::*;

    /// Neither who died while it watched, nor who wrote over the queue file, keeps others from watching for ever.
    #[test]
    fn a_spinner_is_one_that_wrote_down_a_time_soon() {
        let now = now_ns();
        assert!(is_spinning(now + 1, now) && is_spinning(now + PAUSE_NS_MAX, now));
        for until in [0, now - 1, now, now + PAUSE_NS_MAX + 1, u64::MAX] {
            assert!(!is_spinning(until, now), "{until}");
        }
    }

    #[test]
    fn one_that_was_away_for_long_pauses_in_proportion() {
        let away = |away: Duration| {
            let spin_until = AtomicU64::new(0);
            let back = Cell::new(0);
            assert!(spin_until_changed(&spin_until, &|| {
                if back.get() == 0 {
                    sleep(away);
                    back.set(now_ns());
                }
                true
            }));
            spin_until.into_inner() - back.get()
        };
        let late = |ms| Duration::from_millis(ms).as_nanos() as u64 - WATCH_NS;
        assert!(away(Duration::from_millis(4)) >= late(4) * PAUSE_PER_LATE);
        assert!(away(Duration::from_millis(60)) >= PAUSE_NS_MAX);
    }

    /// In a pause, and where another one watches, it is looked once.
    #[test]
    fn who_need_not_spin_looks_once() {
        let until = now_ns() + PAUSE_NS_MAX;
        let spin_until = AtomicU64::new(until);
        let looks = Cell::new(0);
        assert!(!spin_until_changed(&spin_until, &|| {
            looks.set(looks.get() + 1);
            false
        }));
        assert_eq!((looks.get(), spin_until.into_inner()), (1, until));
    }
}
