//! What one client did, counted by the client itself; and the report of all clients of a process.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{
    engine::{Effort, Refusal},
    job::{Report, count_error},
    latency::Latency,
    usage::{Usage, rss_peak_bytes},
};
use crate::limits::ERRORS_IN_A_ROW_MAX;

/// One client's counts.
pub struct Tally {
    deadline: Option<Instant>,
    acknowledged: u64,
    acknowledged_in_time: u64,
    errors: BTreeMap<String, u64>,
    errors_in_a_row: u32,
    latency: Latency,
    ended: Option<Instant>,
    backlog: Option<u64>,
    /// What its transactions took beyond running each once.
    pub effort: Effort,
    /// See [`Report::ids_read_back`].
    pub ids_read_back: i64,
}

impl Tally {
    /// Nothing done yet. Operations that end after `deadline` are acknowledged, but not in time.
    pub fn new(deadline: Option<Instant>) -> Self {
        Self {
            deadline,
            acknowledged: 0,
            acknowledged_in_time: 0,
            errors: BTreeMap::new(),
            errors_in_a_row: 0,
            latency: Latency::new(),
            ended: None,
            backlog: None,
            effort: Effort::default(),
            ids_read_back: 0,
        }
    }

    /// One operation ended at `ended` after `duration`.
    pub fn note(&mut self, ended: Instant, duration: Duration, outcome: Result<(), Refusal>) {
        self.latency.record(duration);
        self.ended = Some(ended);
        match outcome {
            Ok(()) => {
                self.acknowledged += 1;
                self.acknowledged_in_time +=
                    u64::from(self.deadline.is_none_or(|deadline| ended <= deadline));
                self.errors_in_a_row = 0;
            }
            Err(Refusal(kind)) => {
                self.errors_in_a_row += 1;
                count_error(&mut self.errors, &kind, 1);
            }
        }
    }

    /// The end of an open loop: these operations were intended before `deadline`, and had not begun by then. They have
    /// waited until then at least, which counts: else the figures would be those of the lucky ones.
    pub fn miss(&mut self, intended: impl Iterator<Item = Instant>, deadline: Instant) {
        let missed = intended.map(|intended| self.latency.record(deadline - intended)).count();
        self.backlog = Some(self.backlog.unwrap_or(0) + missed as u64);
    }

    /// Were there only errors for so long that going on makes no sense?
    pub fn is_hopeless(&self) -> bool {
        self.errors_in_a_row >= ERRORS_IN_A_ROW_MAX
    }
}

/// The report of a process whose clients started at `start`, when its usage was `before`.
pub fn report(tallies: &[Tally], start: Instant, before: &Usage) -> Result<Report> {
    let after = Usage::now();
    let mut latency = Latency::new();
    let mut errors = BTreeMap::new();
    let mut effort = Effort::default();
    for tally in tallies {
        effort.add(tally.effort);
        latency.add(&tally.latency);
        tally.errors.iter().for_each(|(kind, count)| count_error(&mut errors, kind, *count));
    }
    let ended = tallies.iter().filter_map(|tally| tally.ended).max().unwrap_or(start);
    let served: Vec<u64> = tallies.iter().map(|tally| tally.acknowledged_in_time).collect();
    Ok(Report {
        acknowledged: tallies.iter().map(|tally| tally.acknowledged).sum(),
        acknowledged_in_time: served.iter().sum(),
        errors,
        latency,
        effort,
        ids_read_back: tallies.iter().map(|tally| tally.ids_read_back).sum(),
        served,
        elapsed_s: ended.saturating_duration_since(start).as_secs_f64(),
        cpu_s: after.cpu_s_since(before),
        rss_peak_bytes: rss_peak_bytes()?,
        syncs: Some(after.syncs_since(before)),
        // Only what SQLite writes to a WAL of its own form is counted.
        wal_frames: Some(after.wal_frames_since(before)).filter(|&frames| frames > 0),
        backlog: tallies.iter().filter_map(|tally| tally.backlog).reduce(|sum, one| sum + one),
        ..Report::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write that a stock writer gets only after the end is a commit of the file, but not of the rate.
    #[test]
    fn late_commits_are_acknowledged_but_not_in_time() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut tally = Tally::new(Some(start + second));
        tally.note(start + second, second, Ok(()));
        tally.note(start + 2 * second, second, Ok(()));
        tally.note(start + 3 * second, second, Err(Refusal("database is locked".to_owned())));
        let report = report(&[tally], start, &Usage::now()).expect("this is Linux");
        assert_eq!((report.acknowledged, report.acknowledged_in_time), (2, 1));
        assert_eq!(report.errors["database is locked"], 1);
        assert_eq!(report.latency.count(), 3);
        assert!((report.elapsed_s - 3.0).abs() < 1e-6);
    }

    /// What was never begun has waited too: half of the operations were answered at once, and the 90th percentile shows
    /// what the other half went through.
    #[test]
    fn a_backlog_is_no_secret() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut tally = Tally::new(Some(start + 4 * second));
        tally.note(start, Duration::ZERO, Ok(()));
        tally.note(start + second, Duration::ZERO, Ok(()));
        tally.miss([start + 2 * second, start + 3 * second].into_iter(), start + 4 * second);
        let report = report(&[tally], start, &Usage::now()).expect("this is Linux");
        assert_eq!((report.backlog, report.acknowledged), (Some(2), 2));
        assert_eq!((report.latency.count(), report.latency.max()), (4, 2 * second));
    }

    /// A full disk ends a client instead of filling its loop with errors; a commit in between gives hope.
    #[test]
    fn only_errors_are_hopeless() {
        let mut tally = Tally::new(None);
        let now = Instant::now();
        let refused = || Err(Refusal("disk full".to_owned()));
        (1..ERRORS_IN_A_ROW_MAX).for_each(|_| tally.note(now, Duration::ZERO, refused()));
        tally.note(now, Duration::ZERO, Ok(()));
        tally.note(now, Duration::ZERO, refused());
        assert!(!tally.is_hopeless());
        (1..ERRORS_IN_A_ROW_MAX).for_each(|_| tally.note(now, Duration::ZERO, refused()));
        assert!(tally.is_hopeless());
    }
}
