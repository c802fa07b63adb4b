//! Crash images: several processes are recorded, and the files are rebuilt as a power cut at every moment
//! could have left them.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::{
    END_PATIENCE, Writer, beside_each_other, copy_directory, job, lock, memory_directory, results,
};
use crate::crash_images::examination::{Choices, Examined, choose_begin, examine, ledger_at_start};
use crate::crash_images::image::Mode;
use crate::crash_images::planted;
use crate::crash_images::recording::{Files, Recorder, Recording};
use crate::crash_images::witness::Witness;
use crate::crash_images::workload::{self, Workload};
use crate::ledger::Ledger;
use crate::preload::Preload;
use crate::verdict::{self, Contents};
use crate::worker::{self, Act};

/// Distinct images that are looked into when a recovery was itself recorded.
const RECOVERY_IMAGES: usize = 40;

/// The process that reopens a sampled image.
const VISITOR: i64 = 60;

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Distinct images in all.
    #[arg(long, default_value_t = 100_000)]
    images: u64,
    /// Distinct images of one recording, at most.
    #[arg(long, default_value_t = 10_000)]
    recording_images: usize,
    /// No recording begins after so many seconds.
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    /// Operations of each process.
    #[arg(long, default_value_t = 40)]
    operations: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Resumes: recordings are numbered.
    #[arg(long, default_value_t = 0)]
    from_recording: u64,
    /// Only this workload; otherwise all in turn.
    #[arg(long)]
    workload: Option<Workload>,
    /// One image of so many is also opened by the sqlite3 shell and by Manyhands, and written to; and the
    /// recovery is itself cut.
    #[arg(long, default_value_t = 400)]
    sample: usize,
    /// Recordings that are examined beside each other.
    #[arg(long, default_value_t = 2)]
    jobs: u64,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Examines a recording that was kept.
    #[arg(long)]
    replay: Option<PathBuf>,
    /// With --replay: only this cut.
    #[arg(long)]
    cut: Option<usize>,
    /// With --replay: only this mode.
    #[arg(long)]
    mode: Option<Mode>,
    /// With --replay: leaves the last image there.
    #[arg(long)]
    keep_image: Option<PathBuf>,
    /// One line for each recording.
    #[arg(long)]
    verbose: bool,
}

/// The sums of one workload.
#[derive(Clone, Debug, Default)]
struct Tally {
    recordings: u64,
    sum: Examined,
    visits: u64,
    recovery_images: usize,
}

/// Runs the campaign. False when there was a finding, or a control had none.
pub fn run(arguments: &Arguments) -> Result<bool> {
    if let Some(kept) = &arguments.replay {
        return replay(arguments, kept);
    }
    let began = Instant::now();
    let next = AtomicU64::new(arguments.from_recording);
    let tallies = Mutex::new(BTreeMap::<Workload, Tally>::new());
    let work = || -> Result<()> {
        let place = memory_directory()?;
        loop {
            let distinct = lock(&tallies).values().map(|it| it.sum.distinct as u64).sum::<u64>();
            if distinct >= arguments.images || began.elapsed().as_secs() >= arguments.seconds {
                return Ok(());
            }
            let number = next.fetch_add(1, Ordering::Relaxed);
            let all = Workload::value_variants();
            let workload = arguments.workload.unwrap_or(all[number as usize % all.len()]);
            let one = record_and_examine(arguments, workload, number, place.path())
                .with_context(|| format!("recording {number}, {workload}"))?;
            let mut tallies = lock(&tallies);
            let tally = tallies.entry(workload).or_default();
            tally.add(&one);
            if arguments.verbose {
                let Examined { events, cuts, distinct, bad, .. } = one.sum;
                let seconds = began.elapsed().as_secs_f64();
                println!(
                    "recording {number}: {workload}, {events} events, {cuts} cuts, {distinct} \
                     distinct images, {bad} bad, {seconds:.0} s so far"
                );
            }
        }
    };
    beside_each_other(arguments.jobs, work)?;
    let tallies = tallies.into_inner().unwrap_or_else(PoisonError::into_inner);
    let resume = next.into_inner();
    let green = print(arguments, &tallies, began.elapsed().as_secs_f64(), resume);
    let recordings = arguments.from_recording..resume;
    let (file, seed) = (arguments.json.as_deref(), arguments.seed);
    results::append(file, "images", seed, began, recordings, figures(&tallies))?;
    Ok(green)
}

/// The sums of the workloads that the promises cover, and what each of all came to.
fn figures(tallies: &BTreeMap<Workload, Tally>) -> BTreeMap<String, u64> {
    let mut figures = BTreeMap::new();
    for (workload, Tally { recordings, sum, visits, recovery_images }) in tallies {
        figures.insert(format!("{workload} distinct"), sum.distinct as u64);
        figures.insert(format!("{workload} bad"), sum.bad as u64);
        for (name, figure) in [
            ("recordings", *recordings),
            ("events", sum.events as u64),
            ("cuts", sum.cuts as u64),
            ("distinct", sum.distinct as u64),
            ("reopened", *visits),
            ("cut_again", *recovery_images as u64),
        ] {
            let promised = if workload.is_promised() { figure } else { 0 };
            *figures.entry(name.to_owned()).or_default() += promised;
        }
    }
    figures
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.recordings += other.recordings;
        self.visits += other.visits;
        self.recovery_images += other.recovery_images;
        self.sum.events += other.sum.events;
        self.sum.cuts += other.sum.cuts;
        self.sum.images += other.sum.images;
        self.sum.distinct += other.sum.distinct;
        self.sum.bad += other.sum.bad;
    }
}

fn record_and_examine(
    arguments: &Arguments,
    workload: Workload,
    number: u64,
    place: &Path,
) -> Result<Tally> {
    let seed = arguments.seed.wrapping_mul(0x9E37_79B9).wrapping_add(number);
    let (directory, kept) = (place.join("recorded"), place.join("recording"));
    for path in [&directory, &kept] {
        let _ = std::fs::remove_dir_all(path);
    }
    let recording = workload::record(workload, seed, arguments.operations, &directory, &kept)?;
    let choices = Choices {
        seed,
        cut: None,
        from: choose_begin(&recording, seed, arguments.recording_images),
        mode: None,
        images: arguments.recording_images,
        sample: arguments.sample,
    };
    let mut tally = Tally { recordings: 1, ..Tally::default() };
    let witness = Witness::new(&place.join("image"))?;
    tally.sum = examine(
        &recording,
        ledger_at_start(seed),
        &witness,
        choices,
        |_, image, ledger, found| {
            tally.visits += 1;
            // What is outside the promises is counted, and not written to.
            if !workload.is_promised() {
                return Ok(Vec::new());
            }
            let (findings, images) = visit(place, image, ledger, found)?;
            tally.recovery_images += images;
            Ok(findings)
        },
    )?;
    if workload.is_promised()
        && let Some((cut, mode, finding)) = tally.sum.findings.first()
    {
        let finding = finding.lines().take(3).collect::<Vec<_>>().join(" ");
        let mode = mode.to_possible_value().map(|it| it.get_name().to_owned());
        let keep = std::env::temp_dir().join(format!("images-{seed}-{workload}"));
        copy_directory(&kept, &keep)?;
        println!(
            "FINDING {workload}: {finding}; {} images of this recording are bad",
            tally.sum.bad
        );
        let replay = format!(
            "images --seed {seed} --replay {} --cut {cut} --mode {}",
            keep.display(),
            mode.unwrap_or_default()
        );
        println!("replay: reliability {replay}");
        results::note(format!("{workload}: {finding}"), replay);
    }
    Ok(tally)
}

/// A good image is opened by the sqlite3 shell, then by Manyhands, which writes to it; meanwhile it is
/// recorded, and cut itself.
fn visit(
    place: &Path,
    image: &Files,
    ledger: &Ledger,
    found: &Contents,
) -> Result<(Vec<String>, usize)> {
    let (directory, kept) = (place.join("visited"), place.join("visit"));
    for path in [&directory, &kept] {
        let _ = std::fs::remove_dir_all(path);
        std::fs::create_dir_all(path)?;
    }
    let database = directory.join("app.db");
    // A place of its own: the shell's look leaves another file.
    let shown = Witness::new(&kept)?;
    shown.place(image)?;
    let mut findings = Vec::new();
    if verdict::read(&shown.database())? != *found {
        findings.push("the sqlite3 shell finds something else than the SQLite of ours".to_owned());
    }
    let _ = std::fs::remove_dir_all(&kept);
    Witness::new(&directory)?.place(image)?;
    let recorder = Recorder::start(&directory, &kept)?;
    let preload = Preload::record(&directory, &recorder.log(), 0);
    let seed = ledger.seed;
    let visitor = worker::Arguments { count: 2, ..job(&database, Act::Mix, VISITOR, seed) };
    let mut writer = Writer::start_with(&visitor, None, &preload)?;
    writer.child.dies_within(END_PATIENCE)?;
    let mut after = ledger.clone();
    // Of the recording.
    after.failures.clear();
    writer.finish(&mut after, &mut findings)?;
    let recording = recorder.finish()?;
    findings.extend(super::unexpected_errors(&after, false));
    let verdict = verdict::examine(&database, &after)?;
    findings.extend(verdict.findings.into_iter().map(|it| format!("after a visit: {it}")));
    if !findings.is_empty() {
        return Ok((findings, 0));
    }
    let mut ledger = ledger.clone();
    ledger.unknown.insert(crate::entry::Operation { writer: VISITOR * 100, sequence: 1 });
    let choices = Choices {
        seed,
        cut: None,
        from: 0,
        mode: None,
        images: RECOVERY_IMAGES,
        sample: usize::MAX,
    };
    let witness = Witness::new(&place.join("second"))?;
    let second = examine(&recording, ledger, &witness, choices, |_, _, _, _| Ok(Vec::new()))?;
    let tell = |(_, mode, what)| format!("cut again while it is recovered ({mode:?}): {what}");
    Ok((second.findings.into_iter().map(tell).collect(), second.distinct))
}

fn replay(arguments: &Arguments, kept: &Path) -> Result<bool> {
    let recording = Recording::read(kept)?;
    let place = memory_directory()?;
    let witness = Witness::new(&place.path().join("image"))?;
    let Arguments { seed, cut, mode, .. } = *arguments;
    let choices = Choices { seed, cut, from: 0, mode, images: usize::MAX, sample: usize::MAX };
    let visit = |_: &Witness, _: &Files, _: &Ledger, _: &Contents| Ok(Vec::new());
    let examined = examine(&recording, ledger_at_start(seed), &witness, choices, visit)?;
    for (cut, mode, finding) in &examined.findings {
        println!("FINDING cut {cut}, {mode:?}: {finding}");
    }
    println!("{} distinct images, {} bad", examined.distinct, examined.bad);
    if let Some(keep) = &arguments.keep_image {
        copy_directory(&place.path().join("image"), keep)?;
    }
    Ok(examined.bad == 0)
}

fn print(
    arguments: &Arguments,
    tallies: &BTreeMap<Workload, Tally>,
    seconds: f64,
    resume: u64,
) -> bool {
    println!(
        "{:14} recordings  events    cuts   images distinct    bad  reopened  cut again",
        "workload"
    );
    let (mut green, mut distinct) = (true, 0);
    for (workload, tally) in tallies {
        let Tally { recordings, sum, visits, recovery_images } = tally;
        println!(
            "{:14} {recordings:10} {:7} {:7} {:8} {:8} {:6} {visits:9} {recovery_images:10}",
            workload.to_string(),
            sum.events,
            sum.cuts,
            sum.images,
            sum.distinct,
            sum.bad
        );
        distinct += sum.distinct;
        if workload.is_promised() {
            green &= sum.bad == 0;
        } else if workload.must_lose() && sum.bad == 0 {
            let finding = format!("{workload} lost nothing: these images prove nothing");
            println!("FINDING {finding}");
            let Arguments { seed, from_recording, .. } = arguments;
            let recordings = format!("--from-recording {from_recording} --images {distinct}");
            let replay = format!("images --workload {workload} --seed {seed} {recordings}");
            results::note(finding, replay);
            green = false;
        }
    }
    println!(
        "{distinct} distinct images in {seconds:.0} s; seed {}, resume with --from-recording {resume}",
        arguments.seed
    );
    green
}

/// How many ways there are to spoil a recording.
pub fn planted_count() -> u64 {
    planted::PLANTS.len() as u64
}

/// Spoils recordings in known ways: each must be seen.
pub fn run_planted(arguments: &PlantedArguments) -> Result<bool> {
    let (place, began) = (memory_directory()?, Instant::now());
    let (directory, kept) = (place.path().join("recorded"), place.path().join("recording"));
    let seed = arguments.seed;
    let recording =
        workload::record(Workload::Checkpoints, seed, arguments.operations, &directory, &kept)?;
    let witness = Witness::new(&place.path().join("image"))?;
    let mut missed = 0;
    for plant in planted::PLANTS {
        let mut spoiled = recording.clone();
        (plant.spoil)(&mut spoiled);
        let from =
            planted::restart(&spoiled).context("the WAL does not start again; more operations")?;
        let choices = Choices {
            seed,
            cut: None,
            from,
            mode: None,
            images: arguments.images,
            sample: usize::MAX,
        };
        let visit = |_: &Witness, _: &Files, _: &Ledger, _: &Contents| Ok(Vec::new());
        let examined = examine(&spoiled, ledger_at_start(seed), &witness, choices, visit)?;
        let caught = (examined.bad > 0) == plant.is_bad;
        missed += u64::from(!caught);
        if !caught {
            results::note(
                format!("not seen: {}", plant.name),
                format!("planted-images --seed {seed}"),
            );
        }
        let told =
            examined.findings.first().and_then(|(_, _, it)| it.lines().next()).unwrap_or_default();
        println!(
            "{} {}: {} of {} images bad; {told}",
            if caught { "as it should be" } else { "WRONG" },
            plant.name,
            examined.bad,
            examined.images
        );
    }
    let planted = planted_count();
    println!("{planted} planted, {missed} wrong");
    let figures = [("planted", planted), ("caught", planted - missed)];
    results::append(arguments.json.as_deref(), "planted-images", seed, began, 0..1, figures)?;
    Ok(missed == 0)
}

/// The choices of the planted recordings.
#[derive(Clone, Debug, clap::Args)]
pub struct PlantedArguments {
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Operations of each process: so many that the WAL starts again.
    #[arg(long, default_value_t = 120)]
    operations: u64,
    /// Distinct images of each spoiled recording.
    #[arg(long, default_value_t = 1200)]
    images: usize,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
}
