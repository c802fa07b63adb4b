//! The second table of `web`: what users notice, which is what fails and what takes longest; and whether the harness was in
//! the way.

use comfy_table::Table;

use super::{
    job::Task,
    layout::{add, empty, spread},
    measurement::{Figures, Measurement},
    table::{figures, groups},
};
use crate::figure;

/// Share of errors, longest waits, and who used the processor. `None` for other workloads.
pub fn web_table(measurements: &[Measurement]) -> Option<Table> {
    let headers = [
        "requests",
        "engine",
        "failed",
        "p99",
        "p99.99",
        "POST p99.99",
        "CPU s of the server",
        "of the requests",
    ];
    let mut table = empty(&headers, 2);
    for (cell, engines) in groups(measurements) {
        if !matches!(cell.task, Task::Web { .. }) {
            continue;
        }
        let rows = engines.iter().map(|(engine, repetitions)| {
            let time = |read: fn(&Figures) -> f64| {
                spread(figures(repetitions).map(|one| read(one) / 1e3), figure::time)
            };
            let posts = figures(repetitions).filter_map(|one| one.insert_latency.as_ref());
            let generator = figures(repetitions).filter_map(|one| one.generator_cpu_s);
            vec![
                engine.to_string(),
                spread(figures(repetitions).map(share_of_errors), figure::percent),
                time(|one| one.p99_ms),
                time(|one| one.p9999_ms),
                spread(posts.map(|one| one.quantile(0.9999).as_secs_f64()), figure::time),
                spread(figures(repetitions).map(|one| one.cpu_s), figure::count),
                spread(generator, figure::count),
            ]
        });
        add(&mut table, &cell.label, rows.collect());
    }
    (!table.is_empty()).then_some(table)
}

fn share_of_errors(figures: &Figures) -> f64 {
    let errors: u64 = figures.errors.values().sum();
    errors as f64 / (errors + figures.acknowledged).max(1) as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::{
        built_in::BuiltIn,
        table::tests::{cells, measured_with},
    };

    /// One of four requests failed; the slowest is the last percentile.
    #[test]
    fn shares_and_waits() {
        let task = Task::Web { python: "python3".into(), workers: 4, clients: 2, seconds: 1.0 };
        let one = measured_with("4 workers", task, BuiltIn::Stock, |report| {
            (report.acknowledged, report.acknowledged_in_time) = (3, 3);
            report.errors.insert("database is locked".to_owned(), 1);
            report.latency.record(Duration::from_millis(30));
            report.generator_cpu_s = Some(0.25);
        });
        let table = web_table(&[one]).expect("there were requests");
        assert_eq!(
            cells(&table, 0),
            ["4 workers", "stock", "25.0%", "30.0 ms", "30.0 ms", "-", "0.50", "0.25"]
        );
    }
}
