//! One process of the workload `storm`: pause, open the database, insert one row, close it, again.
//!
//! After SkyPilot's "abusing SQLite to handle concurrency": many short-lived writers, each with a timeout of 120 s.

use std::{path::Path, thread, time::Instant};

use anyhow::Result;

use super::{
    engine::{Effort, Engine, Parameter, Refusal},
    job::{Job, Report},
    latency::Latency,
    tally::{Tally, report},
    usage::Usage,
    worker::{sleep_until, wait_for_start},
};
use crate::limits::{STORM_PAUSE_MAX, STORM_TIMEOUT};

/// Runs a `Storm` task.
pub fn run(job: &Job, engine: &dyn Engine, rounds: u32) -> Result<Report> {
    let mut generator = fastrand::Rng::with_seed(job.seed);
    let mut tally = Tally::new(None);
    let mut insert_latency = Latency::new();
    let label = format!("worker {}", job.member);
    // A warm-up, for every engine: the storm is measured, not a program's first page faults.
    drop(engine.open(&job.database, STORM_TIMEOUT, &label)?.connect()?);
    let start = wait_for_start()?;
    let before = Usage::now();
    sleep_until(start);
    for _ in 0..rounds {
        // Before the round and not after it: processes in a storm are not in step.
        thread::sleep(STORM_PAUSE_MAX.mul_f64(generator.f64()));
        let began = Instant::now();
        let outcome = round(engine, &job.database, &label, &mut insert_latency, &mut tally.effort);
        let ended = Instant::now();
        tally.note(ended, ended - began, outcome);
    }
    let mut report = report(&[tally], start, &before)?;
    report.insert_latency = Some(insert_latency);
    Ok(report)
}

/// One round, closing included.
fn round(
    engine: &dyn Engine,
    database: &Path,
    label: &str,
    insert_latency: &mut Latency,
    effort: &mut Effort,
) -> Result<(), Refusal> {
    let mut client = engine.open(database, STORM_TIMEOUT, label)?.connect()?;
    let began = Instant::now();
    let outcome = client.write("INSERT INTO test DEFAULT VALUES", Parameter::None, effort);
    insert_latency.record(began.elapsed());
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        built_in::BuiltIn,
        fixture::{self, Told},
        job::Task,
        sqlite_file::SqliteFile,
    };

    /// A round leaves one row and no open file behind: the next one starts from nothing.
    #[test]
    fn a_round_is_one_row() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let database = directory.path().join("storm.db");
        let task = Task::Storm { rounds: 2, python: None };
        let tables = SqliteFile::create(&database, &fixture::schema(&task)).expect("a fresh file");
        let mut latency = Latency::new();
        for _ in 0..2 {
            round(&BuiltIn::Stock, &database, "test", &mut latency, &mut Effort::default())
                .expect("nobody else writes");
        }
        assert_eq!(latency.count(), 2);
        assert!(latency.max() > std::time::Duration::ZERO);
        assert!(!directory.path().join("storm.db-wal").exists(), "the last close removes the WAL");
        let told = Told { operations: 2, ..Told::default() };
        fixture::verify(&tables, &task, &told).expect("two rows");
    }
}
