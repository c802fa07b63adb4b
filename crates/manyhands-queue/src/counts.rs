//! What each member has done, counted by itself on a line of its own: for people.

use crate::clock::now_ns;
use crate::layout::{CountWords, MEMBERS, Shared};
use crate::queue::Queue;
use crate::sync::Ordering;

/// What a member counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A write or transaction is committed, whoever has executed it.
    Commit,
    /// An optimistic transaction was committed as it was.
    Promotion,
    /// One was executed again, and showed the same.
    Replay,
    /// One showed something else.
    Conflict,
    /// One has moved to its turn.
    Escalation,
}

/// What a member has done since it joined. All but the commits begin again after 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// Writes and transactions committed, whoever has executed them.
    pub commits: u64,
    /// Optimistic transactions that were committed as they were.
    pub promotions: u32,
    /// Those that were executed again, and showed the same.
    pub replays: u32,
    /// Those that showed something else.
    pub conflicts: u32,
    /// Those that moved to their turn.
    pub escalations: u32,
}

impl Counts {
    pub(crate) fn of(shared: &Shared, member: u16) -> Counts {
        let words = words_of(shared, member);
        Counts {
            commits: words.commits.load(Ordering::Relaxed),
            promotions: words.promotions.load(Ordering::Relaxed),
            replays: words.replays.load(Ordering::Relaxed),
            conflicts: words.conflicts.load(Ordering::Relaxed),
            escalations: words.escalations.load(Ordering::Relaxed),
        }
    }
}

fn words_of(shared: &Shared, member: u16) -> &CountWords {
    let member = usize::from(member);
    &shared.counts.0[member % (MEMBERS / 2)].0[member / (MEMBERS / 2) % 2]
}

impl Queue {
    /// The last member with this number may have left something.
    pub(crate) fn begin_counts(&self) {
        let (shared, member) = (self.region.shared(), self.region.member());
        let words = words_of(shared, member);
        words.commits.store(0, Ordering::Relaxed);
        for word in [&words.promotions, &words.replays, &words.conflicts, &words.escalations] {
            word.store(0, Ordering::Relaxed);
        }
        let record = &shared.members.0[usize::from(member)];
        record.cancels.store(0, Ordering::Relaxed);
        record.cancelled.store(0, Ordering::Relaxed);
        record.joined_ns.store(now_ns(), Ordering::Relaxed);
        self.register_label("");
    }

    /// Counts something that a connection of this process has done.
    pub fn count(&self, what: Count) {
        let words = words_of(self.region.shared(), self.region.member());
        let word = match what {
            Count::Commit => {
                words.commits.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Count::Promotion => &words.promotions,
            Count::Replay => &words.replays,
            Count::Conflict => &words.conflicts,
            Count::Escalation => &words.escalations,
        };
        word.fetch_add(1, Ordering::Relaxed);
    }
}
