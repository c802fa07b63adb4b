//! The second table of `endless-reader`: the WAL while the reader was there, and after it.

use comfy_table::Table;

use super::{
    job::Task,
    layout::{add, empty, spread},
    measurement::{Figures, Measurement},
    table::{figures, groups},
    wal_series::WalSample,
};
use crate::figure;

/// The WAL's length and its restarts. `None` for other workloads.
pub fn wal_table(measurements: &[Measurement]) -> Option<Table> {
    let headers = [
        "the WAL",
        "engine",
        "longest beside the reader",
        "restarts",
        "longest at the end",
        "restarts after it",
        "the reader",
    ];
    let mut table = empty(&headers, 2);
    for (cell, engines) in groups(measurements) {
        if !matches!(cell.task, Task::EndlessReader { .. }) {
            continue;
        }
        let rows = engines.iter().map(|(engine, repetitions)| {
            // Some engines have no file to look at.
            let all = || {
                figures(repetitions).filter(|figures| !figures.wal.is_empty()).map(around_reader)
            };
            let length = |pick: fn(&Around) -> u64| {
                spread(all().map(|around| pick(&around) as f64), figure::bytes)
            };
            let restarts = |pick: fn(&Around) -> u32| {
                spread(all().map(|around| f64::from(pick(&around))), figure::count)
            };
            let refusal = figures(repetitions)
                .filter_map(|one| one.reader.as_ref())
                .map(|reader| match (&reader.refusal, &reader.named) {
                    (Some(refusal), _) => refusal.clone(),
                    (None, Some(_)) => "one snapshot, named".to_owned(),
                    (None, None) => "one snapshot".to_owned(),
                })
                .next();
            vec![
                engine.to_string(),
                length(|around| around.bytes_beside),
                restarts(|around| around.restarts_beside),
                length(|around| around.bytes_at_end),
                restarts(|around| around.restarts_after),
                refusal.unwrap_or_else(|| "none".to_owned()),
            ]
        });
        add(&mut table, &cell.label, rows.collect());
    }
    (!table.is_empty()).then_some(table)
}

/// A series of samples, parted at the reader's end; without a reader all of it is beside.
struct Around {
    bytes_beside: u64,
    restarts_beside: u32,
    bytes_at_end: u64,
    restarts_after: u32,
}

fn around_reader(figures: &Figures) -> Around {
    let ended_ms = figures.reader.as_ref().map_or(u64::MAX, |reader| (reader.ended_s * 1e3) as u64);
    let parted = figures.wal.partition_point(|sample| sample.ms <= ended_ms);
    let (beside, after) = figures.wal.split_at(parted);
    let longest = |samples: &[WalSample]| samples.iter().map(|sample| sample.bytes).max();
    // The WAL begins with the number 0, or with the last before the reader's end.
    let restarts = |samples: &[WalSample]| samples.last().map(|sample| sample.restarts);
    let restarts_beside = restarts(beside).unwrap_or(0);
    Around {
        bytes_beside: longest(beside).unwrap_or(0),
        restarts_beside,
        bytes_at_end: longest(&figures.wal).unwrap_or(0),
        restarts_after: restarts(after).unwrap_or(restarts_beside) - restarts_beside,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{
        built_in::BuiltIn,
        endless_reader::EndlessReader,
        table::tests::{cells, measured_with},
    };

    /// What happened until the reader's end, and what after it.
    #[test]
    fn the_wal_beside_the_reader_and_after() {
        let task = Task::EndlessReader { threads: 2, reader_seconds: Some(0.2), seconds: 0.4 };
        let mut one = measured_with("2 writers", task, BuiltIn::Stock, |report| {
            report.reader =
                Some(EndlessReader { refusal: None, ended_s: 0.2, last_ids: [1, 1], named: None });
        });
        let sample = |(ms, bytes, restarts)| WalSample { ms, bytes, restarts };
        let samples =
            [(100, 4_000_000, 1), (200, 8_000_000, 1), (300, 9_000_000, 1), (400, 9_000_000, 6)];
        one.figures.as_mut().expect("it has some").wal = samples.map(sample).to_vec();
        let table = wal_table(&[one]).expect("there was a reader");
        assert_eq!(
            cells(&table, 0),
            ["2 writers", "stock", "8.00 MB", "1.00", "9.00 MB", "5.00", "one snapshot"]
        );
    }
}
