//! The n-th call: in one of three processes that write beside each other, one call of the system fails,
//! falls short, or is the process's last; once, or for ever. Or in the process that recovers what others
//! have left (`scene`).
//!
//! Afterwards: what was acknowledged is there, once; what failed is not; errors were clear; nobody hung;
//! the others went on; a fresh process opens the file and writes.

mod fault;
mod scene;

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use fastrand::Rng;

use self::fault::CALLS;
pub use self::fault::Fault;
use self::scene::{Scene, Stage};
use super::{
    KILLED, Writer, beside_each_other, copy_directory, job, lock, memory_directory, results,
};
use crate::crash_images::recording::Recorder;
use crate::crash_images::witness::Witness;
use crate::ledger::{Failure, Ledger};
use crate::preload::Preload;
use crate::worker::{self, Act};
use crate::{shell, verdict};

/// By then a process is told to stop.
const STOP_AFTER: Duration = Duration::from_secs(5);

/// So long later it must have ended: no operation takes longer. Where locks never come, SQLite itself tries
/// for 10 s to get a read lock, whatever the timeout.
const PATIENCE: Duration = Duration::from_secs(40);

/// What a system call that fails may look like to whoever wrote: busy, no memory, I/O, full, cannot open,
/// protocol (locks that never come).
const EXPECTED: [i32; 6] = [5, 7, 10, 13, 14, 15];

/// The process that fails, and the one that comes afterwards.
const VICTIM: i64 = 0;
const FRESH: i64 = 70;

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// What has happened before.
    #[arg(long, default_value = "work")]
    scene: Scene,
    /// How many of all cases are tried, spread over all; 0 for each.
    #[arg(long, default_value_t = 0)]
    cases: usize,
    /// Each choice of cases begins elsewhere.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Resumes: cases are numbered.
    #[arg(long, default_value_t = 0)]
    from_case: u64,
    /// No case begins after so many seconds.
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    /// Only this one, for example pwrite:EIO:17:once.
    #[arg(long)]
    case: Option<Fault>,
    /// Only this call.
    #[arg(long)]
    call: Option<String>,
    /// With --case: how often.
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    /// Cases that are tried beside each other.
    #[arg(long, default_value_t = 2)]
    jobs: u64,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Keeps a recording of what all three did to the files beside each finding's files.
    #[arg(long)]
    record: bool,
    /// One line for each case.
    #[arg(long)]
    verbose: bool,
}

/// What came of a case.
#[derive(Default)]
struct Outcome {
    findings: Vec<String>,
    /// The process came to the call.
    reached: bool,
    acked: u64,
    errors: Vec<String>,
    took: Duration,
}

/// The sums of one call.
#[derive(Default)]
struct Tally {
    cases: u64,
    reached: u64,
    acked: u64,
    errors: u64,
    red: u64,
    longest: Duration,
}

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let cases = choose(arguments)?;
    let began = Instant::now();
    // After the last case comes the first again, with another seed; a run ends with its pass through all.
    let length = cases.len() as u64;
    anyhow::ensure!(length > 0, "there is no such call in this scene");
    let end = (arguments.from_case / length + 1) * length;
    let next = AtomicU64::new(arguments.from_case);
    let tallies = Mutex::new(BTreeMap::<String, Tally>::new());
    let errors = Mutex::new(BTreeMap::<String, u64>::new());
    let work = || -> Result<()> {
        let place = memory_directory()?;
        while began.elapsed().as_secs() < arguments.seconds {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= end {
                return Ok(());
            }
            let fault = &cases[number as usize % cases.len()];
            let verbose = arguments.verbose && arguments.case.is_some();
            let seed = arguments.seed.wrapping_add(number);
            let outcome = play(arguments, place.path(), seed, Some(fault), verbose);
            let outcome = outcome.with_context(|| format!("case {number}, {fault}"))?;
            for error in &outcome.errors {
                *lock(&errors).entry(error.clone()).or_default() += 1;
            }
            tell(arguments, number, fault, &outcome);
            if !outcome.findings.is_empty() {
                let keep = std::env::temp_dir().join(format!("nth-call-{fault}-{seed}"));
                copy_directory(&place.path().join("kept"), &keep)?;
                println!("kept, as the fresh process found it: {}", keep.display());
            }
            lock(&tallies).entry(fault.call.clone()).or_default().add(&outcome);
        }
        Ok(())
    };
    beside_each_other(arguments.jobs, work)?;
    if arguments.verbose {
        for (text, count) in &*lock(&errors) {
            println!("{count:6} {text}");
        }
    }
    let resume = next.into_inner().min(end);
    print(arguments, &lock(&tallies), began, resume, cases.len())
}

/// The cases: all that a run without faults comes to, or a part of them. In any order: those that wait long are of
/// the same calls, and are to wait while others work.
fn choose(arguments: &Arguments) -> Result<Vec<Fault>> {
    if let Some(fault) = &arguments.case {
        return Ok(vec![fault.clone(); arguments.repeat]);
    }
    let place = memory_directory()?;
    let mut most = vec![0; CALLS.len()];
    for round in 0..3 {
        let outcome = play(arguments, place.path(), arguments.seed + round, None, false)?;
        anyhow::ensure!(outcome.findings.is_empty(), "without any fault: {:?}", outcome.findings);
        for (most, count) in most.iter_mut().zip(read_counts(&place.path().join("counts"))?) {
            *most = count.max(*most);
        }
    }
    let mut all = fault::all(&most);
    all.retain(|fault| arguments.scene.has_room_for(fault));
    all.retain(|fault| arguments.call.as_ref().is_none_or(|call| *call == fault.call));
    let total = all.len();
    let count = if arguments.cases == 0 { total } else { arguments.cases.min(total) };
    let shift = arguments.seed as usize * 7919 % total.max(1);
    let chosen = (0..count).map(|index| all[(shift + index * total / count) % total].clone());
    let mut chosen: Vec<Fault> = chosen.collect();
    Rng::with_seed(arguments.seed).shuffle(&mut chosen);
    Ok(chosen)
}

fn read_counts(path: &Path) -> Result<Vec<u64>> {
    let bytes = std::fs::read(path).context("read the counts")?;
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    Ok(bytes.chunks_exact(8).map(number).collect())
}

fn play(
    arguments: &Arguments,
    place: &Path,
    seed: u64,
    fault: Option<&Fault>,
    verbose: bool,
) -> Result<Outcome> {
    let began = Instant::now();
    let directory = place.join("files");
    let (counts, complaints) = (place.join("counts"), place.join("complaints"));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory)?;
    std::fs::write(&counts, vec![0; CALLS.len() * 8])?;
    let database = directory.join("app.db");
    shell::create(&database)?;
    let words = fault.map(Fault::to_string);
    let mut preload = Preload::fail(&directory, &counts, words.as_deref()).complain_to(&complaints);
    let (kept, mut others) = (place.join("kept"), Preload::default());
    let _ = std::fs::remove_dir_all(&kept);
    if arguments.record {
        let recorder = Recorder::start(&directory, &kept.join("recording"))?;
        others = Preload::record(&directory, &recorder.log(), 0);
        preload = preload.and(&others);
    }
    let mut outcome = Outcome::default();
    let mut ledger = Ledger::new(seed, false);
    let stage = Stage {
        database: &database,
        seed,
        counts: &counts,
        preload: &preload,
        others: &others,
        faulty: fault.is_some(),
    };
    let crew = arguments.scene.play(&stage, &mut ledger)?;
    for mut writer in crew {
        let number = writer.job.number;
        if !writer.child.dies_within(STOP_AFTER)? {
            writer.child.say("stop");
        }
        let (status, heard) = writer.child.finish(PATIENCE)?;
        let survived = status.is_some_and(|status| status.success());
        ledger.note(&heard, &[number * 100], !survived, writer.job.act == Act::Ask);
        let complaint = std::fs::read_to_string(&complaints).unwrap_or_default();
        let complaint = if number == VICTIM { complaint.trim() } else { "" };
        outcome.findings.extend(judge_end(number, status, complaint, fault));
        if !complaint.is_empty() {
            outcome.errors.push(format!("at the end: {}", shorten(complaint)));
        }
    }
    for failure in &ledger.failures {
        outcome.findings.extend(judge_failure(failure, fault));
        if verbose {
            println!("{failure:?}");
        }
        let Failure { what, code, text, .. } = failure;
        outcome.errors.push(format!("{what} {code} {}", shorten(text)));
    }
    ledger.failures.clear();
    copy_directory(&directory, &kept)?;
    let fresh = worker::Arguments { count: 3, ..job(&database, Act::Mix, FRESH, seed) };
    let mut fresh = Writer::start(&fresh, None)?;
    fresh.child.dies_within(PATIENCE)?;
    fresh.finish(&mut ledger, &mut outcome.findings)?;
    let tell = |failure: &Failure| format!("a fresh process: {}", failure.text);
    outcome.findings.extend(ledger.failures.iter().map(tell));
    let contents = Witness::new(&directory)?.look();
    outcome.findings.extend(verdict::judge(&contents, &ledger).findings);
    outcome.acked = ledger.acked.len() as u64;
    if let Some(fault) = fault {
        outcome.reached = read_counts(&counts)?[fault.index()] >= fault.nth;
    }
    outcome.took = began.elapsed();
    Ok(outcome)
}

/// Without the parts of a message that are different each time.
fn shorten(text: &str) -> String {
    let words = text.split_whitespace().map(|word| {
        let differs = word.contains('/') || word.chars().any(|it| it.is_ascii_digit());
        if differs { "…" } else { word }
    });
    words.collect::<Vec<_>>().join(" ").chars().take(160).collect()
}

/// How a process may end: as always; the victim also by its last call, or with a clear error when it
/// could not even open the database.
fn judge_end(
    number: i64,
    status: Option<ExitStatus>,
    complaint: &str,
    fault: Option<&Fault>,
) -> Option<String> {
    let Some(status) = status else {
        return Some(format!("process {number} hangs: it was told to stop {PATIENCE:?} ago"));
    };
    let is_victim = number == VICTIM && fault.is_some();
    if complaint.contains("panicked") {
        return Some(format!("process {number} panicked: {complaint}"));
    }
    let killed = is_victim && fault.is_some_and(Fault::kills) && status.signal() == Some(KILLED);
    let refused = is_victim && status.code() == Some(2) && complaint.starts_with("reliability: ");
    let as_meant = status.success() || killed || refused;
    (!as_meant).then(|| format!("process {number} ended with {status}: {complaint}"))
}

/// What may go wrong for whom. The others may share a batch with the victim that led it.
fn judge_failure(failure: &Failure, fault: Option<&Fault>) -> Option<String> {
    let is_victim = failure.operation.writer / 100 == VICTIM;
    let is_clear = match failure.what.as_str() {
        "unknown" => true,
        "timeout" => is_victim,
        _ if fault.is_some_and(|fault| fault.explains(failure.code)) => true,
        _ => EXPECTED.contains(&failure.code) || failure.code == 0 && !failure.text.is_empty(),
    };
    let may_fail = fault.is_some_and(|fault| is_victim || !fault.kills());
    let tell = || {
        let Failure { operation, what, code, text, waited_ms, .. } = failure;
        format!("writer {} got {what} {code} after {waited_ms} ms: {text}", operation.writer)
    };
    (!is_clear || !may_fail).then(tell)
}

fn tell(arguments: &Arguments, number: u64, fault: &Fault, outcome: &Outcome) {
    if arguments.verbose {
        let Outcome { reached, acked, errors, took, .. } = outcome;
        println!(
            "case {number}: {fault}, reached {reached}, {acked} acknowledged, {} errors, {took:.2?}",
            errors.len()
        );
    }
    let (scene, seed) = (scene_name(arguments), arguments.seed.wrapping_add(number));
    let replay =
        format!("nth-call --scene {scene} --case {fault} --seed {seed} --repeat 20 --jobs 1");
    for finding in &outcome.findings {
        println!("FINDING {fault}: {finding}");
        results::note(format!("{fault}: {finding}"), &replay);
    }
    if !outcome.findings.is_empty() {
        println!("replay: reliability {replay}");
    }
}

fn scene_name(arguments: &Arguments) -> String {
    arguments.scene.to_possible_value().map(|it| it.get_name().to_owned()).unwrap_or_default()
}

impl Tally {
    fn add(&mut self, outcome: &Outcome) {
        self.cases += 1;
        self.reached += u64::from(outcome.reached);
        self.acked += outcome.acked;
        self.errors += outcome.errors.len() as u64;
        self.red += u64::from(!outcome.findings.is_empty());
        self.longest = self.longest.max(outcome.took);
    }
}

fn print(
    arguments: &Arguments,
    tallies: &BTreeMap<String, Tally>,
    began: Instant,
    resume: u64,
    cases: usize,
) -> Result<bool> {
    println!("{:10}   cases reached  acked errors  red  longest", "call");
    let mut all = Tally::default();
    for (call, tally) in tallies {
        let Tally { cases, reached, acked, errors, red, longest } = tally;
        println!("{call:10} {cases:7} {reached:7} {acked:6} {errors:6} {red:4} {longest:8.1?}");
        all.cases += cases;
        all.reached += reached;
        all.acked += acked;
        all.errors += errors;
        all.red += red;
    }
    let Tally { reached, acked, errors, red, .. } = all;
    println!(
        "{} of {cases} cases in {:.0} s, {reached} reached their call, {acked} acknowledged, \
         {red} with findings; seed {}, resume with --from-case {resume}",
        all.cases,
        began.elapsed().as_secs_f64(),
        arguments.seed
    );
    results::append(
        arguments.json.as_deref(),
        &format!("nth-call {}", scene_name(arguments)),
        arguments.seed,
        began,
        arguments.from_case..resume,
        [("cases", all.cases), ("reached", reached), ("acknowledged", acked), ("errors", errors)],
    )?;
    Ok(red == 0)
}
