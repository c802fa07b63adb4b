//! How many of the optimistic transactions of a file conflict: where most do, the first try holds the turn.

use core::sync::atomic::{AtomicU32, Ordering};

/// How many of the last transactions conflicted.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    /// The share of conflicts, in parts of 65536: each outcome counts for an eighth.
    share: AtomicU32,
    asked: AtomicU32,
}

impl Contention {
    const ALL: u32 = 1 << 16;

    /// Whether the next transaction should try without its turn. Now and then it does in any case, to
    /// learn whether the others have gone.
    pub(crate) fn allows_optimism(&self) -> bool {
        const PROBE_EVERY: u32 = 32;
        self.share.load(Ordering::Relaxed) < Contention::ALL / 2
            || self.asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(PROBE_EVERY)
    }

    /// A transaction without a turn has ended. Two at once may count as one: it is an estimate.
    pub(crate) fn note(&self, conflicted: bool) {
        let share = self.share.load(Ordering::Relaxed);
        let new = if conflicted { Contention::ALL / 8 } else { 0 };
        self.share.store(share - share / 8 + new, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_always_conflicts_stops_trying_and_starts_again() {
        let contention = Contention::default();
        assert!(contention.allows_optimism());
        for _ in 0..10 {
            contention.note(true);
        }
        let tries = (0..320).filter(|_| contention.allows_optimism()).count();
        assert_eq!(tries, 10);
        for _ in 0..10 {
            contention.note(false);
        }
        assert!((0..10).all(|_| contention.allows_optimism()));
    }
}
