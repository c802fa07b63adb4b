//! The second table of workloads with transactions: what retries and conflicts they took; and how the long one ended.

use comfy_table::Table;

use super::{
    job::{LongJob, Task},
    layout::{add, empty, spread},
    measurement::{Cell, Measurement},
    statistics::ratios,
    table::{figures, groups},
};
use crate::figure;

/// Rows, retries and conflicts of each cell and engine. `None` if there are neither transactions of several statements nor
/// single ones that were run again.
pub fn transaction_table(measurements: &[Measurement]) -> Option<Table> {
    let headers =
        ["transactions", "engine", "transactions/s", "rows/s", "conflicts", "retries", "per 100"];
    let mut table = empty(&headers, 2);
    for (cell, engines) in groups(measurements) {
        let was_run_again =
            |one: &&Measurement| one.figures.as_ref().is_some_and(|one| one.effort.retries > 0);
        let mut measured = engines.iter().flat_map(|(_, repetitions)| repetitions);
        if !matches!(cell.task, Task::Transact { .. }) && !measured.any(was_run_again) {
            continue;
        }
        let rows = engines.iter().map(|(engine, repetitions)| {
            let all = || figures(repetitions);
            vec![
                (*engine).to_owned(),
                spread(all().map(|one| one.commits_per_s), figure::count),
                spread(all().filter_map(|one| one.rows_per_s), figure::count),
                spread(all().map(|one| one.effort.conflicts as f64), figure::count),
                spread(all().map(|one| one.effort.retries as f64), figure::count),
                spread(all().map(|one| one.retries_per_100), figure::count),
            ]
        });
        add(&mut table, &cell.label, rows.collect());
    }
    (!table.is_empty()).then_some(table)
}

/// The long transaction beside the short writers. `None` for other workloads.
pub fn long_job_table(measurements: &[Measurement]) -> Option<Table> {
    let headers = [
        "the long job",
        "engine",
        "committed",
        "retries",
        "took",
        "writers' p99",
        "x alone",
        "max wait",
    ];
    let mut table = empty(&headers, 2);
    let groups = groups(measurements);
    for (cell, engines) in &groups {
        let Task::Mixed { threads, long_job: Some(_), .. } = cell.task else { continue };
        let alone = groups.iter().find(|(cell, _)| is_alone(cell, threads));
        let rows = engines.iter().map(|(engine, repetitions)| {
            let jobs: Vec<&LongJob> =
                figures(repetitions).filter_map(|one| one.long_job.as_ref()).collect();
            let committed = jobs.iter().filter(|job| job.refusal.is_none()).count();
            let beside = p99s(repetitions);
            let alone = alone.and_then(|(_, engines)| {
                engines.iter().find(|(other, _)| other == engine).map(|(_, all)| p99s(all))
            });
            vec![
                (*engine).to_owned(),
                format!("{committed} of {}", jobs.len()),
                spread(jobs.iter().map(|job| job.retries as f64), figure::count),
                spread(jobs.iter().map(|job| job.elapsed_s), figure::time),
                spread(beside.iter().flatten().copied(), figure::time),
                spread(ratios(&beside, &alone.unwrap_or_default()).into_iter(), figure::ratio),
                spread(figures(repetitions).map(|one| one.max_ms / 1e3), figure::time),
            ]
        });
        add(&mut table, &cell.label, rows.collect());
    }
    (!table.is_empty()).then_some(table)
}

/// Why long transactions were not committed, one line each.
pub fn refused_long_jobs(measurements: &[Measurement]) -> Vec<String> {
    let refused = measurements.iter().filter_map(|measurement| {
        let Measurement { cell, engine, repetition, figures, .. } = measurement;
        let refusal = figures.as_ref()?.long_job.as_ref()?.refusal.as_ref()?;
        let label = &cell.label;
        Some(format!("{label}, {engine}, repetition {repetition}: the long job: {refusal:?}"))
    });
    refused.collect()
}

fn is_alone(cell: &Cell, writers: usize) -> bool {
    matches!(cell.task, Task::Mixed { threads, long_job: None, .. } if threads == writers)
}

/// In seconds, repetition by repetition.
fn p99s(repetitions: &[&Measurement]) -> Vec<Option<f64>> {
    let p99 = |measurement: &&Measurement| Some(measurement.figures.as_ref()?.p99_ms / 1e3);
    repetitions.iter().map(p99).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::{
        built_in::BuiltIn,
        engine::Effort,
        job::Shape,
        table::tests::{cells, measured_with},
        think::{Think, ThinkKind},
    };

    /// Rows are counted by 100, retries per 100 acknowledged transactions.
    #[test]
    fn retries_and_rows() {
        let shape = Shape::Think { think: Think { us: 0, kind: ThinkKind::Busy } };
        let task = Task::Transact { threads: 2, shape, seconds: 1.0 };
        let one = measured_with("2 threads", task, BuiltIn::StockDeferred, |report| {
            (report.acknowledged, report.acknowledged_in_time) = (200, 200);
            report.effort = Effort { retries: 30, conflicts: 20 };
        });
        let table = transaction_table(&[one]).expect("it has transactions");
        assert_eq!(
            cells(&table, 0),
            ["2 threads", "stock-deferred", "200", "20.0k", "20", "30", "15"]
        );
    }

    /// The writers' p99 is told beside that of the same engine's writers without the job.
    #[test]
    fn the_long_job_and_the_writers_beside_it() {
        let task = |long_job| Task::Mixed { threads: 2, long_job, seconds: 1.0 };
        let engine = BuiltIn::Stock;
        let alone = measured_with("alone", task(None), engine, |report| {
            report.latency.record(Duration::from_millis(10));
        });
        let beside = measured_with("a job", task(Some(ThinkKind::Busy)), engine, |report| {
            report.latency.record(Duration::from_millis(30));
            let refusal = Some("database is locked".to_owned());
            report.long_job = Some(LongJob { refusal, retries: 1, elapsed_s: 2.0 });
        });
        let both = [alone, beside];
        let table = long_job_table(&both).expect("there is a long job");
        assert_eq!(
            cells(&table, 0),
            ["a job", "stock", "0 of 1", "1.00", "2.00 s", "30.0 ms", "3.00x", "30.0 ms"]
        );
        assert_eq!(
            refused_long_jobs(&both),
            ["a job, stock, repetition 1: the long job: \"database is locked\""]
        );
        assert!(long_job_table(&both[..1]).is_none());
        assert!(transaction_table(&both).is_none());
    }
}
