//! The campaigns, and what they share: a crew of writers on one file, and the report.

pub mod black_box;
pub mod contract;
mod crew;
pub mod environment;
pub mod full;
pub mod fuzz;
pub mod hostile;
pub mod images;
pub mod isolation;
pub mod kill;
pub mod memory;
pub mod model;
pub mod nth_call;
pub mod opening;
pub mod oracle;
mod place;
pub mod planted;
pub mod planted_bugs;
pub mod power_cut;
mod results;
pub mod stock;
pub mod stopped;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use tempfile::TempDir;

use crate::child::Child;
use crate::ledger::Ledger;
use crate::preload::Preload;
use crate::worker::{self, Act};
use crate::writer_in_c;
pub use contract::{HOT_ROWS, PARENTS, TABLES};
pub use crew::log_path;
pub use place::{end_with_stdin, memory_directory, place};

/// How long a writer may take to open the database.
pub const READY_PATIENCE: Duration = Duration::from_secs(60);

/// How long a writer may take to end in order.
pub const END_PATIENCE: Duration = Duration::from_secs(30);

/// The number of SIGKILL.
const KILLED: i32 = rustix::process::Signal::KILL.as_raw();

/// A writer process and its job.
#[derive(Debug)]
pub struct Writer {
    pub child: Child,
    pub job: worker::Arguments,
    /// Its death is not a finding.
    pub is_victim: bool,
}

impl Writer {
    pub fn start(job: &worker::Arguments, crash: Option<&str>) -> Result<Writer> {
        Writer::start_with(job, crash, &Preload::default())
    }

    /// With the recorder between the process and the C library.
    pub fn start_with(
        job: &worker::Arguments,
        crash: Option<&str>,
        preload: &Preload,
    ) -> Result<Writer> {
        let program = writer_in_c::of(job);
        let child = Child::spawn(program, &job.words(), crash, preload)?;
        Ok(Writer { child, job: job.clone(), is_victim: crash.is_some() })
    }

    /// When it first acknowledged something after a moment; waits for it.
    pub fn first_ack_after(&self, since_ns: u64, patience: Duration) -> Option<u64> {
        let end = Instant::now() + patience;
        while Instant::now() < end {
            let first = self.child.heard(|heard| {
                let acks = heard.lines.iter().rev().filter_map(|line| line.strip_prefix("ack "));
                let moments = acks.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok());
                moments.take_while(|ns| *ns > since_ns).last()
            });
            if first.is_some() {
                return first;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Waits for its end and takes its words into the ledger. Its own death is told as a finding.
    pub fn finish(mut self, ledger: &mut Ledger, findings: &mut Vec<String>) -> Result<bool> {
        let (status, heard) = self.child.finish(END_PATIENCE)?;
        let number = self.job.number;
        let writers: Vec<i64> = (0..self.job.threads).map(|thread| number * 100 + thread).collect();
        let survived = status.is_some_and(|status| status.success());
        let skips = matches!(self.job.act, Act::Hold | Act::Ask);
        ledger.note(&heard, &writers, !survived, skips);
        // A victim dies by SIGKILL. One that panics is a finding, as anybody.
        let as_meant = self.is_victim && status.and_then(|it| it.signal()) == Some(KILLED);
        match status {
            None => findings.push(format!("process {number} did not end within {END_PATIENCE:?}")),
            Some(status) if !survived && !as_meant => {
                findings.push(format!("process {number} ended with {status}"));
            }
            Some(_) => {}
        }
        Ok(survived)
    }
}

/// A job, to be changed where it differs.
pub fn job(database: &Path, act: Act, number: i64, seed: u64) -> worker::Arguments {
    let database = database.to_owned();
    worker::Arguments {
        database,
        act,
        number,
        seed,
        threads: 1,
        timeout_ms: 60_000,
        count: 0,
        synchronous: "FULL".to_owned(),
    }
}

/// Lets so many threads do the same work beside each other, each until nothing is left. When all have ended, the
/// first error is told.
pub fn beside_each_other(jobs: u64, work: impl Fn() -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(&work)).collect();
        let mut ends = threads.into_iter().map(|it| it.join().expect("a thread of work panicked"));
        ends.try_for_each(|end| end)
    })
}

/// A thread that panicked is told by its end; what it left is looked at all the same.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Copies files and directories.
pub fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Errors that no writer should have met, as findings. An unknown outcome is one, unless it may be.
pub fn unexpected_errors(ledger: &Ledger, may_be_unknown: bool) -> Vec<String> {
    let tell = |failure: &crate::ledger::Failure| {
        let writer = failure.operation.writer;
        format!("writer {writer} got an error ({}): {}", failure.what, failure.text)
    };
    let unexpected =
        |failure: &&crate::ledger::Failure| !(may_be_unknown && failure.what == "unknown");
    ledger.failures.iter().filter(unexpected).take(5).map(tell).collect()
}

/// Prints the findings with the command that replays them. True when there are none.
pub fn report(findings: &[String], replay: &str, kept: Option<TempDir>) -> bool {
    let replay = &format!("{replay}{}", writer_in_c::words());
    for finding in findings {
        println!("FINDING {finding}");
        results::note(finding, replay);
    }
    if !findings.is_empty() {
        println!("replay: reliability {replay}");
        if let Some(directory) = kept {
            println!("kept: {}", place::keep(directory).display());
        }
    }
    findings.is_empty()
}

/// Median and largest, in milliseconds.
pub fn median_and_max(mut figures: Vec<f64>) -> (f64, f64) {
    figures.sort_by(f64::total_cmp);
    let median = figures.get(figures.len() / 2).copied().unwrap_or(0.0);
    (median, figures.last().copied().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The long column is a script: it has to know how many cases there are, and what each fuzz target counts.
    #[test]
    fn the_column_has_all_of_them() {
        let script = include_str!("../campaign.py");
        let numbers = [
            ("planted", "planted", planted::count()),
            ("planted-images", "planted", images::planted_count()),
            ("planted-bugs", "planted", planted_bugs::count()),
            ("oracle --planted", "planted", oracle::planted_count()),
            ("full --rounds 0 --pages 0", "bytes", full::BYTES),
            ("model --set large", "instances", crate::model::instances::LARGE.len() as u64),
        ];
        for (words, figure, number) in numbers {
            let entry = format!("Entry(\"{words}\", {{\"{figure}\": {number}}}");
            assert!(script.contains(&entry), "{entry}");
        }
        let manifest = include_str!("../../fuzz/Cargo.toml");
        let names = manifest.lines().filter_map(|line| line.strip_prefix("name = "));
        // The first one is the package's.
        let names: Vec<&str> = names.skip(1).collect();
        let targets = format!("for target in ({})", names.join(", "));
        assert!(script.contains(&targets), "{targets}");
    }
}
