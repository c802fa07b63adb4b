//! The second table of `clients`: each engine relative to stock SQLite at NORMAL, at the same processes and clients.

use comfy_table::Table;

use super::{
    job::Task,
    layout::{add, empty, spread},
    measurement::{Figures, Measurement},
    statistics::ratios,
    table::{figures, groups},
};
use crate::figure;

/// The engine that the ratios are relative to.
const BASELINE: &str = "stock-normal";

/// Throughput, waits and memory. `None` for other workloads, and without the baseline.
pub fn clients_table(measurements: &[Measurement]) -> Option<Table> {
    let headers = [
        "beside stock at NORMAL",
        "engine",
        "commits/s",
        "x",
        "p90",
        "x",
        "p99",
        "x",
        "memory",
        "more than it",
    ];
    let mut table = empty(&headers, 2);
    for (cell, engines) in groups(measurements) {
        if !matches!(cell.task, Task::Clients { .. }) {
            continue;
        }
        let baseline = engines.iter().find(|(engine, _)| *engine == BASELINE);
        let Some((_, baseline)) = baseline else { continue };
        let rows = engines.iter().map(|(engine, repetitions)| {
            let relative = |read: fn(&Figures) -> f64| {
                let pairs = ratios(&each(repetitions, read), &each(baseline, read));
                spread(pairs.into_iter(), figure::ratio)
            };
            let more = |read: fn(&Figures) -> f64| {
                let pairs = each(repetitions, read).into_iter().zip(each(baseline, read));
                pairs.filter_map(|(one, other)| Some(one? - other?))
            };
            let time = |read: fn(&Figures) -> f64| {
                spread(figures(repetitions).map(|one| read(one) / 1e3), figure::time)
            };
            vec![
                engine.to_string(),
                spread(figures(repetitions).map(|one| one.commits_per_s), figure::count),
                relative(|one| one.commits_per_s),
                time(|one| one.p90_ms),
                relative(|one| one.p90_ms),
                time(|one| one.p99_ms),
                relative(|one| one.p99_ms),
                spread(figures(repetitions).map(memory), figure::bytes),
                spread(more(memory), figure::difference),
            ]
        });
        add(&mut table, &cell.label, rows.collect());
    }
    (!table.is_empty()).then_some(table)
}

fn memory(figures: &Figures) -> f64 {
    figures.memory_bytes.unwrap_or(0) as f64
}

/// One figure, repetition by repetition.
fn each(repetitions: &[&Measurement], read: fn(&Figures) -> f64) -> Vec<Option<f64>> {
    repetitions.iter().map(|measurement| measurement.figures.as_ref().map(read)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::{
        built_in::BuiltIn,
        table::tests::{cells, measured_with},
    };

    /// Ratios are to stock at NORMAL, and so is the memory.
    #[test]
    fn beside_stock_at_normal() {
        let measured = |engine, commits, ms, bytes| {
            let task = Task::Clients { clients: 10, seconds: 1.0, rate: None };
            measured_with("2 x 10", task, engine, |report| {
                (report.acknowledged, report.acknowledged_in_time) = (commits, commits);
                report.latency.record(Duration::from_millis(ms));
                report.proportional_bytes = Some(bytes);
            })
        };
        let ours = measured(BuiltIn::Manyhands, 300, 10, 9_000_000);
        let all = [ours, measured(BuiltIn::StockNormal, 100, 40, 4_000_000)];
        let table = clients_table(&all).expect("both are there");
        let ours = cells(&table, 0);
        assert_eq!(ours[..4], ["2 x 10", "manyhands", "300", "3.00x"]);
        assert_eq!(ours[6..], ["10.0 ms", "0.25x", "9.00 MB", "+5.00 MB"]);
        assert_eq!(cells(&table, 1)[9], "+0 kB");
        assert!(clients_table(&all[..1]).is_none(), "no baseline, no ratios");
    }
}
