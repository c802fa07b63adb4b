//! The end of the demo: what each engine did, and whether its file holds it.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, TableComponent, presets::NOTHING};

use super::writer::Report;
use crate::figure;

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

/// What all writers of an engine did together.
pub struct Figures {
    acknowledged: u64,
    commits_per_s: f64,
    p50_s: f64,
    p99_s: f64,
    longest_s: f64,
    errors: BTreeMap<String, u64>,
    syncs: u64,
}

impl Figures {
    /// Of writers that wrote for `seconds`.
    pub fn of(reports: &[Report], seconds: f64) -> Self {
        let mut waits_us = BTreeMap::new();
        let mut errors = BTreeMap::new();
        for report in reports {
            for (wait_us, count) in &report.waits_us {
                *waits_us.entry(*wait_us).or_default() += count;
            }
            for (kind, count) in &report.errors {
                *errors.entry(kind.clone()).or_default() += count;
            }
        }
        let sum = |figure: fn(&Report) -> u64| reports.iter().map(figure).sum::<u64>();
        let longest_us = reports.iter().map(|report| report.longest_us).max().unwrap_or(0);
        Self {
            acknowledged: sum(|report| report.acknowledged),
            commits_per_s: sum(|report| report.acknowledged_in_time) as f64 / seconds,
            p50_s: quantile_us(&waits_us, 0.5).min(longest_us) as f64 / 1e6,
            p99_s: quantile_us(&waits_us, 0.99).min(longest_us) as f64 / 1e6,
            longest_s: longest_us as f64 / 1e6,
            errors,
            syncs: sum(|report| report.syncs),
        }
    }
}

/// The wait within which a share of all ended; zero if there was none.
fn quantile_us(waits_us: &BTreeMap<u64, u64>, share: f64) -> u64 {
    let all: u64 = waits_us.values().sum();
    let mut passed = 0;
    let found = waits_us.iter().find(|(_, count)| {
        passed += **count;
        passed as f64 >= share * all as f64
    });
    found.map_or(0, |(wait_us, _)| *wait_us)
}

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
                    figure::time(figures.p50_s),
                    figure::time(figures.p99_s),
                    figure::time(figures.longest_s),
                    figure::whole(figures.errors.values().sum()),
                    figure::whole(figures.syncs),
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
    let mut table = Table::new();
    table.load_preset(NOTHING).set_style(TableComponent::HeaderLines, '─').set_header(HEADERS);
    table
        .column_iter_mut()
        .skip(1)
        .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    if let Some(column) = table.column_mut(0) {
        // The table starts at the left margin, like the text around it.
        column.set_padding((0, 1));
    }
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
            figure::time(ours.longest_s),
            figure::time(theirs.longest_s),
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(title: &'static str, commits: u64, wait_ms: u64, stored: u64) -> Verdict {
        let report = Report {
            acknowledged: commits,
            acknowledged_in_time: commits,
            waits_us: BTreeMap::from([(1_000 * wait_ms, 1)]),
            longest_us: 1_000 * wait_ms,
            syncs: 1_000,
            ..Report::default()
        };
        Verdict::of(title, Figures::of(&[report], 5.0), stored, "ok".to_owned())
    }

    /// Half of the waits, and 99 of 100, over all writers together.
    #[test]
    fn shares_of_the_waits() {
        let report = |waits_us: &[(u64, u64)]| Report {
            waits_us: waits_us.iter().copied().collect(),
            longest_us: 39,
            ..Report::default()
        };
        let figures =
            Figures::of(&[report(&[(10, 50), (20, 48)]), report(&[(30, 1), (40, 1)])], 1.0);
        assert_eq!((figures.p50_s, figures.p99_s), (10e-6, 30e-6));
        let rounded_up = Figures::of(&[report(&[(40, 1)])], 1.0);
        assert_eq!((rounded_up.p99_s, rounded_up.longest_s), (39e-6, 39e-6));
        assert_eq!(Figures::of(&[], 1.0).p99_s, 0.0);
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
