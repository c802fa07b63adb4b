//! Rates: what has happened between two looks at the figures of a queue.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use manyhands_queue::{Counts, Figures, Seen};

use super::state::{Rates, Waits};

/// How long the time is that rates are of, at least: what is redrawn more often shows the same second.
const WINDOW: Duration = Duration::from_secs(1);

/// What was there at an earlier look.
struct Before {
    at: Instant,
    figures: Figures,
    change: Option<u32>,
    counts: HashMap<(u16, u64), Counts>,
}

/// The looks of the last second.
#[derive(Default)]
pub struct History(VecDeque<Before>);

/// What has happened.
#[derive(Default)]
pub struct Happened {
    pub seconds: f64,
    pub rates: Rates,
    pub waits: Waits,
    /// Commits of each member for each second.
    pub commits_per_s: HashMap<(u16, u64), f64>,
}

impl History {
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Adds a look; what has happened since one of about a second ago.
    pub fn add(&mut self, figures: Figures, change: Option<u32>, members: &[Seen]) -> Happened {
        let at = Instant::now();
        let counts = members.iter().map(|it| ((it.member, it.joined_ns), it.counts)).collect();
        let now = Before { at, figures, change, counts };
        while self.0.get(1).is_some_and(|second| at - second.at >= WINDOW) {
            self.0.pop_front();
        }
        let happened = self.0.front().map(|before| happened(before, &now)).unwrap_or_default();
        self.0.push_back(now);
        happened
    }
}

fn happened(before: &Before, now: &Before) -> Happened {
    let seconds = (now.at - before.at).as_secs_f64();
    let (then, figures) = (&before.figures, &now.figures);
    let since = |of: fn(&Figures) -> u64| of(figures).saturating_sub(of(then));
    let (batches, requests) = (since(|it| it.batches), since(|it| it.requests));
    let (alone, in_turn) = (since(|it| it.alone), since(|it| it.in_turn));
    let syncs = since(|it| it.syncs);
    let sync_time = figures.sync_time.saturating_sub(then.sync_time);
    let commits = requests + alone + in_turn;
    let none = Counts::default();
    let of_members = |of: fn(&Counts, &Counts) -> u64| -> u64 {
        let each = now.counts.iter();
        each.map(|(key, now)| of(now, before.counts.get(key).unwrap_or(&none))).sum()
    };
    let promoted = of_members(|now, then| u64::from(now.promotions.wrapping_sub(then.promotions)));
    let replayed = of_members(|now, then| u64::from(now.replays.wrapping_sub(then.replays)));
    let conflicts = of_members(|now, then| u64::from(now.conflicts.wrapping_sub(then.conflicts)));
    let per_s = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let share = |part: u64| (commits != 0).then(|| (part as f64 / commits as f64).min(1.0));
    let changes = now.change.zip(before.change).map(|(now, then)| now.wrapping_sub(then));
    let waits = figures.waits.since(&then.waits);
    let millis = |share| waits.quantile(share).map(|it| it.as_secs_f64() * 1e3);
    let commits_per_s = now.counts.iter().map(|(key, now)| {
        let then = before.counts.get(key).unwrap_or(&none);
        (*key, per_s(now.commits.saturating_sub(then.commits)))
    });
    Happened {
        seconds,
        rates: Rates {
            commits_per_s: per_s(commits),
            // The number begins again when the wal-index is recovered.
            sqlite_commits_per_s: changes
                .filter(|it| *it < u32::MAX / 2)
                .map(|it| per_s(u64::from(it))),
            batch_size: (batches != 0).then(|| requests as f64 / batches as f64),
            sync_ms: (syncs != 0).then(|| sync_time.as_secs_f64() * 1e3 / syncs as f64),
            syncs_per_s: per_s(syncs),
            conflicts_per_s: per_s(conflicts),
            batched: share(requests),
            alone: share(alone),
            in_turn: share(in_turn),
            promoted: share(promoted),
            replayed: share(replayed),
        },
        waits: Waits {
            count: waits.count(),
            p50_ms: millis(0.5),
            p99_ms: millis(0.99),
            max_ms: millis(1.0),
        },
        commits_per_s: commits_per_s.collect(),
    }
}
