//! The table at the end of a run: one row per cell and engine, median over the repetitions, and below it the range.

use std::collections::BTreeMap;

use comfy_table::Table;

use super::{
    job::count_error,
    latency::Latency,
    layout::{add, empty, spread},
    measurement::{Cell, Figures, Measurement},
    statistics::{Spread, ratios},
};
use crate::figure;

/// The engine that the ratios are relative to.
const BASELINE: &str = "stock";

const HEADERS: [&str; 15] = [
    "",
    "engine",
    "commits/s",
    "x stock",
    "p50",
    "p90",
    "p99",
    "p99.9",
    "max wait",
    "errors",
    "least–most",
    "CPU s",
    "memory",
    "fsyncs/commit",
    "WAL/commit",
];

/// The table of all measurements, in the order of their first appearance.
pub fn table(measurements: &[Measurement]) -> Table {
    let mut table = empty(&HEADERS, 2);
    for (cell, engines) in groups(measurements) {
        let baseline = baseline_of(&engines);
        let rows = engines.iter().map(|(engine, repetitions)| {
            let mut row = vec![(*engine).to_owned()];
            if figures(repetitions).next().is_some() {
                row.extend(columns(repetitions, &baseline));
            } else {
                row.push("CHECK FAILED".to_owned());
            }
            row
        });
        add(&mut table, &cell.label, rows.collect());
    }
    table
}

/// The second table of the storm: the insert alone, without open and close; and of `web`, the requests that create. `None`
/// for other workloads.
pub fn insert_table(measurements: &[Measurement]) -> Option<Table> {
    let mut table =
        empty(&["the insert alone", "engine", "p50", "p90", "p99", "p99.9", "max wait"], 2);
    for (cell, engines) in groups(measurements) {
        let rows = engines.iter().filter_map(|(engine, repetitions)| {
            let inserts: Vec<&Latency> =
                figures(repetitions).filter_map(|one| one.insert_latency.as_ref()).collect();
            let time = |share| {
                spread(inserts.iter().map(|one| one.quantile(share).as_secs_f64()), figure::time)
            };
            let times = [0.5, 0.9, 0.99, 0.999, 1.0].map(time);
            (!inserts.is_empty()).then(|| [(*engine).to_owned()].into_iter().chain(times).collect())
        });
        add(&mut table, &cell.label, rows.collect());
    }
    (!table.is_empty()).then_some(table)
}

/// The table of the workload `limits`, which has no engines.
pub fn limits_table(measurements: &[Measurement]) -> Table {
    let mut table = empty(&["", "per second", "p50", "p90", "p99", "p99.9", "max"], 1);
    for (cell, engines) in groups(measurements) {
        for (_, repetitions) in engines {
            let time = |read: fn(&Figures) -> f64| {
                spread(figures(&repetitions).map(|one| read(one) / 1e3), figure::time)
            };
            table.add_row([
                cell.label.clone(),
                spread(figures(&repetitions).map(|one| one.commits_per_s), figure::count),
                time(|one| one.p50_ms),
                time(|one| one.p90_ms),
                time(|one| one.p99_ms),
                time(|one| one.p999_ms),
                time(|one| one.max_ms),
            ]);
        }
    }
    table
}

/// What the engines refused, by kind, over all repetitions.
pub fn errors(measurements: &[Measurement]) -> Vec<String> {
    let mut lines = Vec::new();
    for (cell, engines) in groups(measurements) {
        for (engine, repetitions) in engines {
            let mut errors = BTreeMap::new();
            for (kind, count) in figures(&repetitions).flat_map(|one| &one.errors) {
                count_error(&mut errors, kind, *count);
            }
            let line = |(kind, count)| format!("{}, {engine}: {count} x {kind:?}", cell.label);
            lines.extend(errors.into_iter().map(line));
        }
    }
    lines
}

/// What open loops left undone, one line each; nothing undone is no line.
pub fn backlogs(measurements: &[Measurement]) -> Vec<String> {
    let mut lines = Vec::new();
    for (cell, engines) in groups(measurements) {
        for (engine, repetitions) in engines {
            let backlogs = figures(&repetitions).filter_map(|one| Some(one.backlog? as f64));
            let Some(Spread { median, min, max }) = Spread::of(backlogs) else { continue };
            if max > 0.0 {
                let [median, min, max] = [median, min, max].map(figure::count);
                lines.push(format!(
                    "{}, {}: {median} ({min}–{max}) operations were intended and had not begun at the end",
                    cell.label,
                    engine
                ));
            }
        }
    }
    lines
}

/// What failed, one line each.
pub fn failures(measurements: &[Measurement]) -> Vec<String> {
    measurements
        .iter()
        .filter(|measurement| measurement.figures.is_none())
        .map(|measurement| {
            let Measurement { workload, cell, engine, repetition, check, .. } = measurement;
            format!(
                "CHECK FAILED: {workload}, {}, {engine}, repetition {repetition}: {check}",
                cell.label
            )
        })
        .collect()
}

fn columns(repetitions: &[&Measurement], baseline: &[Option<f64>]) -> Vec<String> {
    let time = |read: fn(&Figures) -> f64| {
        spread(figures(repetitions).map(|one| read(one) / 1e3), figure::time)
    };
    let rates: Vec<Option<f64>> = repetitions.iter().map(|measurement| rate(measurement)).collect();
    let shares = figures(repetitions).filter_map(|one| Some((one.share_least?, one.share_most?)));
    // The worst repetition: a median would hide a starved client.
    let shares = shares.reduce(|worst, one| (worst.0.min(one.0), worst.1.max(one.1)));
    vec![
        spread(rates.iter().flatten().copied(), figure::count),
        spread(ratios(&rates, baseline).into_iter(), figure::ratio),
        time(|one| one.p50_ms),
        time(|one| one.p90_ms),
        time(|one| one.p99_ms),
        time(|one| one.p999_ms),
        time(|one| one.max_ms),
        spread(repetitions.iter().filter_map(|one| Some(one.errors()? as f64)), figure::count),
        shares.map_or("-".to_owned(), |(least, most)| format!("{least:.2}–{most:.2}")),
        spread(figures(repetitions).map(|one| one.cpu_s), figure::count),
        spread(figures(repetitions).map(|one| one.rss_peak_bytes_max as f64), figure::bytes),
        spread(figures(repetitions).filter_map(|one| one.syncs_per_commit), figure::count),
        spread(figures(repetitions).filter_map(|one| one.wal_bytes_per_commit), figure::bytes),
    ]
}

/// Of those that have any.
pub fn figures<'all>(repetitions: &'all [&Measurement]) -> impl Iterator<Item = &'all Figures> {
    repetitions.iter().filter_map(|measurement| measurement.figures.as_ref())
}

fn rate(measurement: &Measurement) -> Option<f64> {
    Some(measurement.figures.as_ref()?.commits_per_s)
}

/// The repetitions of each engine.
type Engines<'all> = Vec<(&'static str, Vec<&'all Measurement>)>;

/// By cell, then by engine: repetitions run in changing order, the table keeps what belongs together.
pub fn groups(measurements: &[Measurement]) -> Vec<(&Cell, Engines<'_>)> {
    let mut groups: Vec<(&Cell, Engines<'_>)> = Vec::new();
    for measurement in measurements {
        let cell =
            groups.iter().position(|(cell, _)| *cell == &measurement.cell).unwrap_or_else(|| {
                groups.push((&measurement.cell, Vec::new()));
                groups.len() - 1
            });
        let engines = &mut groups[cell].1;
        match engines.iter_mut().find(|(engine, _)| *engine == measurement.engine) {
            Some((_, repetitions)) => repetitions.push(measurement),
            None => engines.push((measurement.engine, vec![measurement])),
        }
    }
    groups
}

fn baseline_of(engines: &Engines<'_>) -> Vec<Option<f64>> {
    let baseline = engines.iter().find(|(engine, _)| *engine == BASELINE);
    baseline
        .map(|(_, repetitions)| repetitions.iter().map(|one| rate(one)).collect())
        .unwrap_or_default()
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::{
        built_in::BuiltIn,
        circumstances::Circumstances,
        job::{Report, Task},
        measurement,
    };

    /// The first repetition, with a report that `change` has changed.
    pub fn measured_with(
        label: &str,
        task: Task,
        engine: BuiltIn,
        change: impl FnOnce(&mut Report),
    ) -> Measurement {
        let mut report = Report {
            acknowledged: 1,
            acknowledged_in_time: 1,
            elapsed_s: 1.0,
            cpu_s: 0.5,
            rss_peak_bytes: 5_000_000,
            syncs: Some(7),
            ..Report::default()
        };
        change(&mut report);
        Measurement {
            workload: "test",
            figures: Some(measurement::figures(&task, &[report])),
            cell: Cell { label: label.to_owned(), task, processes: 1 },
            engine: engine.name(),
            repetition: 1,
            check: "ok".to_owned(),
            circumstances: Circumstances::in_directory(std::path::Path::new("/"))
                .expect("there is a root"),
        }
    }

    fn measured(engine: BuiltIn, repetition: usize, commits: Option<u64>) -> Measurement {
        let task = Task::Count { threads: 2, seconds: 1.0 };
        let mut measured = measured_with("2 writers", task, engine, |report| {
            let commits = commits.unwrap_or_default();
            report.errors.insert("database is locked".to_owned(), 2);
            report.latency.record(Duration::from_millis(commits));
            (report.acknowledged, report.acknowledged_in_time) = (commits, commits);
            report.served = vec![commits, 0];
        });
        (measured.workload, measured.repetition) = ("counter", repetition);
        if commits.is_none() {
            measured.figures = None;
            measured.check = "6 in the file, 7 acknowledged".to_owned();
        }
        measured
    }

    pub fn cells(table: &Table, row: usize) -> Vec<String> {
        table
            .row(row)
            .expect("the row exists")
            .cell_iter()
            .map(comfy_table::Cell::content)
            .collect()
    }

    /// Median and range over repetitions that ran in changing order; the ratio is the median of the pairs' ratios.
    #[test]
    fn rows_of_a_table() {
        use BuiltIn::{Manyhands, Stock};
        let order = [(Manyhands, 1, 300), (Stock, 1, 100), (Stock, 2, 100), (Manyhands, 2, 500)];
        let all =
            order.map(|(engine, repetition, commits)| measured(engine, repetition, Some(commits)));
        let table = table(&all);
        let ours = cells(&table, 0);
        assert_eq!(ours[..4], ["2 writers", "manyhands", "400\n300–500", "4.00x\n3.00x–5.00x"]);
        assert_eq!(
            ours[8..],
            ["400 ms\n300–500 ms", "2.00", "0.00–2.00", "0.50", "5.00 MB", "0.02\n0.01–0.02", "-"]
        );
        assert_eq!(errors(&all)[0], "2 writers, manyhands: 4 x \"database is locked\"");
        let stock = cells(&table, 1);
        assert_eq!(stock[..4], ["", "stock", "100", "1.00x"]);
    }

    /// An engine whose checks all failed has no figure; one failed repetition takes only its own out.
    #[test]
    fn a_failed_check_has_no_figure() {
        use BuiltIn::{Manyhands, Stock};
        let all =
            [measured(Manyhands, 1, None), measured(Stock, 1, None), measured(Stock, 2, Some(100))];
        let table = table(&all);
        assert_eq!(cells(&table, 0), ["2 writers", "manyhands", "CHECK FAILED"]);
        assert_eq!(cells(&table, 1)[2], "100");
        assert_eq!(
            failures(&all)[0],
            "CHECK FAILED: counter, 2 writers, manyhands, repetition 1: 6 in the file, 7 acknowledged"
        );
        assert_eq!(failures(&all).len(), 2);
    }
}
