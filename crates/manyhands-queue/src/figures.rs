//! What leaders count for people: commits, syncs, and how long others have waited for them.
//!
//! What always holds: only the leader writes here, so that a count costs a load and a store on a line that it has in its cache. And if
//! it dies in between? A count is missing.

use core::time::Duration;

use crate::clock::now_ns;
use crate::layout::{Shared, WAITS};
use crate::leader::Lead;
use crate::sync::{AtomicU64, Ordering};

/// Parts of an octave of waits that are told apart.
const PARTS: u32 = 4;
/// The shortest wait that is told from a shorter one, as a power of two of nanoseconds: a microsecond.
const FIRST_BITS: u32 = 10;

/// Figures since the file was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Batches committed.
    pub batches: u64,
    /// Requests that leaders executed in batches.
    pub requests: u64,
    /// Turns that somebody has waited for.
    pub turns: u64,
    /// Leaders that died, or gave up, and whose place was taken over.
    pub successions: u64,
    /// Commits of connections that have led at once: nobody was there.
    pub alone: u64,
    /// Commits of connections that have waited for their turn.
    pub in_turn: u64,
    /// Syncs of the WAL by commits.
    pub syncs: u64,
    /// How long they have taken.
    pub sync_time: Duration,
    /// How long requests have waited for their commit, and turns for their beginning.
    pub waits: Waits,
}

/// How many waits took how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits([u64; WAITS]);

impl Waits {
    /// Those that have come since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Waits) -> Waits {
        let mut since = self.clone();
        for (now, then) in since.0.iter_mut().zip(&earlier.0) {
            *now = now.saturating_sub(*then);
        }
        since
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// What so great a share of the waits did not take longer than, to a fifth of its length; 1 for the longest. `None`
    /// without waits.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let rank = (count as f64 * share).ceil().max(1.0) as u64;
        let mut passed = 0;
        let place = self.0.iter().position(|waits| {
            passed += waits;
            passed >= rank
        });
        place.filter(|_| count != 0).map(end_of)
    }
}

/// Where a wait is counted.
fn place_of(wait_ns: u64) -> usize {
    let wait_ns = wait_ns.max(1 << FIRST_BITS);
    let octave = wait_ns.ilog2();
    let part = wait_ns >> (octave - 2) & u64::from(PARTS - 1);
    ((octave - FIRST_BITS) * PARTS + part as u32).min(WAITS as u32 - 1) as usize
}

/// The longest wait that is counted there.
fn end_of(place: usize) -> Duration {
    let (octave, part) = (place as u32 / PARTS + FIRST_BITS, place as u64 % u64::from(PARTS));
    let part_ns = 1 << (octave - 2);
    Duration::from_nanos((u64::from(PARTS) + part + 1) * part_ns - 1)
}

fn add(to: &AtomicU64, more: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

impl Lead {
    /// The leader's connection has committed by itself; `sync` is how long it has synced.
    pub fn count_own_commit(&self, sync: Option<Duration>) {
        let figures = &self.queue().region.shared().header.figures.0;
        add(if self.waited { &figures.in_turn } else { &figures.alone }, 1);
        self.count_sync(sync);
    }

    /// A commit has synced for so long; `None` for one that did not.
    pub fn count_sync(&self, sync: Option<Duration>) {
        let Some(sync) = sync else { return };
        let figures = &self.queue().region.shared().header.figures.0;
        add(&figures.syncs, 1);
        add(&figures.sync_ns, sync.as_nanos() as u64);
    }

    /// The waits for what was published at these times are over.
    pub(crate) fn count_waits(&self, published_ns: impl IntoIterator<Item = u64>) {
        let waits = &self.queue().region.shared().header.waits.0;
        let now = now_ns();
        for published in published_ns {
            add(&waits[place_of(now.saturating_sub(published))], 1);
        }
    }
}

impl Figures {
    pub(crate) fn of(shared: &Shared) -> Figures {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let (statistics, figures) = (&shared.header.statistics.0, &shared.header.figures.0);
        Figures {
            batches: load(&statistics.batches),
            requests: load(&statistics.requests),
            turns: load(&statistics.turns),
            successions: load(&statistics.successions),
            alone: load(&figures.alone),
            in_turn: load(&figures.in_turn),
            syncs: load(&figures.syncs),
            sync_time: Duration::from_nanos(load(&figures.sync_ns)),
            waits: Waits(core::array::from_fn(|place| load(&shared.header.waits.0[place]))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each wait is counted where it is read again, to a fifth.
    #[test]
    fn a_wait_is_found_where_it_was_counted() {
        for wait_ns in (11..36).flat_map(|bits| [1 << bits, (1 << bits) + 7, (3 << bits) - 1]) {
            let end = end_of(place_of(wait_ns)).as_nanos() as u64;
            assert!(end >= wait_ns && end <= wait_ns + wait_ns / 4, "{wait_ns} {end}");
        }
        assert_eq!(place_of(0), 0);
        assert_eq!(place_of(u64::MAX), WAITS - 1);
    }

    /// Half of them, nearly all of them, the longest.
    #[test]
    fn quantiles_of_waits() {
        let mut waits = Waits([0; WAITS]);
        assert_eq!(waits.quantile(0.5), None);
        for (millis, count) in [(1, 98), (10, 1), (100, 1)] {
            waits.0[place_of(millis * 1_000_000)] += count;
        }
        let millis = |share| waits.quantile(share).map(|it| it.as_millis());
        assert_eq!(millis(0.5), Some(1));
        assert!(millis(0.99).is_some_and(|it| (10..13).contains(&it)));
        assert!(millis(1.0).is_some_and(|it| (100..126).contains(&it)));
        assert_eq!(waits.since(&waits).count(), 0);
    }
}
