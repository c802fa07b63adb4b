//! What the recorded processes do. Each workload is a function of the seed, as far as processes that run
//! beside each other can be.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use fastrand::Rng;
use manyhands_queue::crash::POINTS;

use super::recording::{Recorder, Recording};
use crate::campaign::{READY_PATIENCE, Writer, job, unexpected_errors};
use crate::ledger::Ledger;
use crate::preload::Preload;
use crate::shell;
use crate::worker::{Act, Arguments};

/// How long a recorded process may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Long enough that readers look while a sync is under way.
const SYNC_US: u64 = 400;

/// The workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Workload {
    /// Three processes: autocommit, batches, transactions of all kinds, big values, changes of the schema.
    Mix,
    /// Two processes of three threads: larger batches.
    Threads,
    /// Small pages and many writes: checkpoints, and a WAL that is used again.
    Checkpoints,
    /// The syncs of one process fail, from the middle of its work on. What it acknowledged before is safe; what
    /// was under way is told to have an unknown end, and that process writes no more.
    FailedSync,
    /// Processes die at named points, with a batch in hand; an heir opens the file.
    Killed,
    /// The sqlite3 shell writes at FULL and checkpoints in all modes beside ours.
    StockPeer,
    /// Control: three shells at FULL. Nothing may be lost.
    StockFull,
    /// Control: three shells at NORMAL. Something must be lost.
    StockNormal,
    /// Control: ours, with the durability that loses the last commits. Something must be lost.
    OursNormal,
    /// A shell with `synchronous=OFF` restarts the WAL beside ours: outside the promises, and measured.
    CarelessPeer,
    /// The same at FULL: its restarts alone do no harm.
    CarefulPeer,
}

impl Workload {
    /// What the promises cover: nothing may be lost.
    pub fn is_promised(self) -> bool {
        !self.must_lose() && self != Workload::CarelessPeer
    }

    /// A control that loses nothing would prove that no loss is seen.
    pub fn must_lose(self) -> bool {
        matches!(self, Workload::StockNormal | Workload::OursNormal)
    }

    fn page_bytes(self) -> u32 {
        match self {
            Workload::Mix | Workload::Killed | Workload::FailedSync => 4096,
            Workload::Checkpoints => 512,
            _ => 1024,
        }
    }

    /// Who takes part; those that write until they are done, then those that are stopped.
    fn cast(self, database: &Path, seed: u64, operations: u64) -> Vec<(Arguments, Option<String>)> {
        let mut dice = Rng::with_seed(seed);
        let mut cast: Vec<(Arguments, Option<String>)> = Vec::new();
        let mut add = |act: Act, count: u64, change: &dyn Fn(&mut Arguments)| {
            let mut job = job(database, act, cast.len() as i64, seed);
            job.count = count;
            change(&mut job);
            cast.push((job, None));
        };
        let plain = |_: &mut Arguments| {};
        match self {
            Workload::FailedSync => {
                // Three of four clients: its process leads soon, and for others.
                add(Act::Mix, operations / 2, &|job| job.threads = 3);
                add(Act::Mix, operations, &plain);
                add(Act::Watch, 0, &plain);
            }
            Workload::Mix | Workload::Checkpoints => {
                (0..3).for_each(|_| add(Act::Mix, operations, &plain));
                add(Act::Watch, 0, &plain);
            }
            Workload::OursNormal => {
                let set = |job: &mut Arguments| job.synchronous = "NORMAL".to_owned();
                (0..3).for_each(|_| add(Act::Mix, operations, &set));
                add(Act::Watch, 0, &plain);
            }
            Workload::Threads => {
                (0..2).for_each(|_| add(Act::Mix, operations / 2, &|job| job.threads = 3));
                add(Act::StockWatch, 0, &plain);
            }
            Workload::Killed => {
                (0..4).for_each(|_| add(Act::Mix, operations, &plain));
                add(Act::Watch, 0, &plain);
                for (_, crash) in &mut cast[..3] {
                    let point = dice.choice(POINTS).copied().unwrap_or("executed");
                    *crash = Some(format!("{point}:{}", dice.u64(1..20)));
                }
            }
            Workload::StockPeer => {
                (0..2).for_each(|_| add(Act::Mix, operations, &plain));
                add(Act::Stock, operations / 2, &plain);
                add(Act::StockWatch, 0, &plain);
            }
            Workload::StockFull | Workload::StockNormal => {
                let synchronous = if self == Workload::StockFull { "FULL" } else { "NORMAL" };
                let set = |job: &mut Arguments| job.synchronous = synchronous.to_owned();
                (0..3).for_each(|_| add(Act::Stock, operations / 2, &set));
                add(Act::StockWatch, 0, &plain);
            }
            Workload::CarelessPeer | Workload::CarefulPeer => {
                let synchronous = if self == Workload::CarefulPeer { "FULL" } else { "OFF" };
                let set = |job: &mut Arguments| job.synchronous = synchronous.to_owned();
                (0..2).for_each(|_| add(Act::Mix, operations, &plain));
                add(Act::Careless, 0, &set);
            }
        }
        cast
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.to_possible_value().map(|value| value.get_name().to_owned());
        f.write_str(&name.unwrap_or_default())
    }
}

/// Plays a workload under the recorder. The database is made anew in `directory`; the recording comes to
/// lie in `place`.
pub fn record(
    workload: Workload,
    seed: u64,
    operations: u64,
    directory: &Path,
    place: &Path,
) -> Result<Recording> {
    std::fs::create_dir_all(directory).context("make a directory")?;
    let database = directory.join("app.db");
    shell::run(&database, &[&format!("PRAGMA page_size={}", workload.page_bytes()), "VACUUM"])?;
    shell::create(&database)?;
    let recorder = Recorder::start(directory, place)?;
    let preload = Preload::record(directory, &recorder.log(), SYNC_US);
    let (mut ledger, mut findings) = (Ledger::new(seed, false), Vec::new());
    let cast = workload.cast(&database, seed, operations);
    let fails = (workload == Workload::FailedSync).then(|| {
        // And all after it: one may be that of the directory, whose error SQLite ignores.
        let nth = 1 + Rng::with_seed(seed).u32(0..3);
        preload.clone().and(&Preload::fault(directory, &format!("fdatasync:EIO:{nth}:ever")))
    });
    let start = |(job, crash): &(Arguments, Option<String>)| {
        let fails = fails.as_ref().filter(|_| job.number == 0);
        Writer::start_with(job, crash.as_deref(), fails.unwrap_or(&preload))
    };
    let mut crew = cast.iter().map(start).collect::<Result<Vec<Writer>>>()?;
    for writer in crew.iter().filter(|writer| !writer.is_victim) {
        writer.child.wait_for("ready", READY_PATIENCE)?;
    }
    let (mut endless, ending): (Vec<Writer>, Vec<Writer>) =
        crew.drain(..).partition(|writer| writer.job.count == 0);
    let mut died = false;
    for mut writer in ending {
        ensure!(writer.child.dies_within(PATIENCE)?, "a recorded process does not end");
        died |= !writer.finish(&mut ledger, &mut findings)?;
    }
    if died {
        let heir = Arguments { count: 5, ..job(&database, Act::Mix, HEIR, seed) };
        let mut heir = Writer::start_with(&heir, None, &preload)?;
        heir.child.dies_within(PATIENCE)?;
        heir.finish(&mut ledger, &mut findings)?;
    }
    endless.iter_mut().for_each(|writer| writer.child.say("stop"));
    for writer in endless {
        writer.finish(&mut ledger, &mut findings)?;
    }
    if fails.is_some() {
        findings.extend(goes_on_after_failed_sync(&ledger));
        ledger.failures.clear();
    }
    findings.extend(unexpected_errors(&ledger, workload == Workload::StockPeer));
    ensure!(findings.is_empty(), "before any cut: {}", findings.join("; "));
    recorder.finish()
}

/// A failed sync is final: who led is told, and acknowledges nothing more.
fn goes_on_after_failed_sync(ledger: &Ledger) -> Option<String> {
    let told = ledger.failures.iter().filter(|failure| failure.operation.writer < 100);
    let failed: BTreeMap<i64, u64> =
        told.rev().map(|failure| (failure.operation.writer, failure.ns)).collect();
    if failed.is_empty() {
        return Some("a sync failed, and its process was told nothing".to_owned());
    }
    let later = ledger.acked.iter().filter(|(operation, ack)| {
        failed.get(&operation.writer).is_some_and(|failed_ns| ack.ns > *failed_ns)
    });
    let later = later.count();
    (later > 0).then(|| format!("{later} writes were acknowledged after a failed sync"))
}

/// The number of who comes after the others died.
pub const HEIR: i64 = 50;

/// The writers of all workloads, by process times 100 plus thread.
pub fn writers() -> impl Iterator<Item = i64> {
    (0..5).flat_map(|process| (0..3).map(move |thread| process * 100 + thread)).chain([HEIR * 100])
}
