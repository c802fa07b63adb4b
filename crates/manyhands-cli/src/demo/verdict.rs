//! The end of the demo: what each engine did, and whether its file holds it.

use comfy_table::Table;

use crate::{
    bench::{layout::empty, measurement::Figures},
    figure,
};

const HEADERS: [&str; 9] = [
    "",
    "commits/s",
    "p50",
    "p99",
    "max wait",
    "errors",
    "fsyncs",
    "rows = acknowledged",
    "integrity",
];

/// One engine's result.
pub struct Verdict {
    title: &'static str,
    outcome: Outcome,
}

enum Outcome {
    Ran { figures: Box<Figures>, stored: u64, integrity: String },
    Failed { reason: String },
}

impl Verdict {
    /// All workers reported; `stored` rows and `integrity` are what the sqlite3 shell found.
    pub fn of(title: &'static str, figures: Figures, stored: u64, integrity: String) -> Self {
        Self { title, outcome: Outcome::Ran { figures: Box::new(figures), stored, integrity } }
    }

    /// Some worker did not report.
    pub fn failed(title: &'static str, reason: String) -> Self {
        Self { title, outcome: Outcome::Failed { reason } }
    }

    /// Does the file hold exactly what was acknowledged?
    pub fn is_sound(&self) -> bool {
        match &self.outcome {
            Outcome::Ran { figures, stored, integrity } => {
                *stored == figures.acknowledged && integrity == "ok"
            }
            Outcome::Failed { .. } => false,
        }
    }

    fn figures(&self) -> Option<&Figures> {
        match &self.outcome {
            Outcome::Ran { figures, .. } if self.is_sound() => Some(figures),
            Outcome::Ran { .. } | Outcome::Failed { .. } => None,
        }
    }

    fn row(&self) -> Vec<String> {
        let mut row = vec![self.title.to_owned()];
        match &self.outcome {
            Outcome::Failed { .. } => row.push("FAILED".to_owned()),
            Outcome::Ran { figures, stored, integrity } => {
                let sign = if *stored == figures.acknowledged { "=" } else { "≠" };
                row.extend([
                    figure::whole(figures.commits_per_s as u64),
                    figure::time(figures.p50_ms / 1e3),
                    figure::time(figures.p99_ms / 1e3),
                    figure::time(figures.max_ms / 1e3),
                    figure::whole(figures.errors.values().sum()),
                    figures.syncs.map_or("-".to_owned(), figure::whole),
                    format!(
                        "{} {sign} {}",
                        figure::whole(*stored),
                        figure::whole(figures.acknowledged)
                    ),
                    integrity.clone(),
                ]);
            }
        }
        row
    }
}

/// The table of both engines.
pub fn table(verdicts: &[Verdict]) -> Table {
    let mut table = empty(&HEADERS, 1);
    table.add_rows(verdicts.iter().map(Verdict::row));
    table
}

/// What stands below the table: errors, failures, and the comparison in one sentence.
pub fn remarks(verdicts: &[Verdict]) -> Vec<String> {
    let mut remarks = Vec::new();
    for verdict in verdicts {
        match &verdict.outcome {
            Outcome::Failed { reason } => {
                remarks.push(format!("{} FAILED: {reason}", verdict.title))
            }
            Outcome::Ran { .. } if !verdict.is_sound() => {
                remarks.push(format!("{}: CHECK FAILED, its figures do not count", verdict.title));
            }
            Outcome::Ran { figures, .. } => remarks.extend(
                figures
                    .errors
                    .iter()
                    .map(|(kind, count)| format!("{}: {count} x {kind:?}", verdict.title)),
            ),
        }
    }
    if let [manyhands, stock] = verdicts
        && let (Some(ours), Some(theirs)) = (manyhands.figures(), stock.figures())
        && theirs.commits_per_s > 0.0
    {
        remarks.push(format!(
            "{} has {} the commits of {}; the longest wait is {} instead of {}.",
            manyhands.title,
            figure::ratio(ours.commits_per_s / theirs.commits_per_s),
            stock.title,
            figure::time(ours.max_ms / 1e3),
            figure::time(theirs.max_ms / 1e3),
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::{
        job::{Report, Task},
        latency::Latency,
        measurement::figures,
    };

    fn ran(title: &'static str, commits: u64, wait_ms: u64, stored: u64) -> Verdict {
        let mut latency = Latency::new();
        latency.record(Duration::from_millis(wait_ms));
        let report = Report {
            acknowledged: commits,
            acknowledged_in_time: commits,
            latency,
            served: vec![commits],
            elapsed_s: 5.0,
            cpu_s: 1.0,
            rss_peak_bytes: 1,
            syncs: Some(1_000),
            ..Report::default()
        };
        let task = Task::Insert { threads: 1, value_bytes: 1, seconds: 5.0, rate: None };
        Verdict::of(title, figures(&task, &[report]), stored, "ok".to_owned())
    }

    /// The sentence compares only files that hold what they should.
    #[test]
    fn a_lost_row_takes_the_comparison_away() {
        let stock = || ran("stock SQLite", 50_000, 5_000, 50_000);
        let good = [ran("Manyhands", 500_000, 20, 500_000), stock()];
        assert_eq!(
            remarks(&good),
            [
                "Manyhands has 10.0x the commits of stock SQLite; the longest wait is 20.0 ms instead of 5.00 s."
            ]
        );
        let bad = [ran("Manyhands", 500_000, 20, 499_999), stock()];
        assert_eq!(remarks(&bad), ["Manyhands: CHECK FAILED, its figures do not count"]);
        assert!(!bad[0].is_sound());
        assert!(bad[0].row().contains(&"499,999 ≠ 500,000".to_owned()));
    }

    /// The widest table that a machine may give fits into 100 columns.
    #[test]
    fn the_table_fits_the_terminal() {
        let verdicts = [
            ran("Manyhands", 9_999_999, 999, 9_999_999),
            ran("stock SQLite", 50_000, 15_000, 50_000),
        ];
        let table = table(&verdicts).to_string();
        let width = table.lines().map(|line| line.chars().count()).max();
        assert!(width <= Some(100), "{width:?}\n{table}");
    }

    /// A worker that died is a failure with its reason.
    #[test]
    fn a_failure_says_why() {
        let verdict = Verdict::failed("Manyhands", "worker 3 ended without a word".to_owned());
        assert_eq!(verdict.row(), ["Manyhands", "FAILED"]);
        assert_eq!(remarks(&[verdict]), ["Manyhands FAILED: worker 3 ended without a word"]);
    }
}
