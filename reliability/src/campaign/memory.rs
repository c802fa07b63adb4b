//! What connections and writes cost: resident memory and the queue file. The bounds are those of the
//! project; the figures are printed.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{READY_PATIENCE, Writer, job, place, report, results, unexpected_errors};
use crate::child::Transcript;
use crate::ledger::Ledger;
use crate::worker::Act;
use crate::{shell, verdict};

/// What one more idle connection may cost.
const CONNECTION_KB_LIMIT: u64 = 2_048;

/// The length of the queue file.
const QUEUE_FILE_BYTES_LIMIT: u64 = 8 << 20;

/// How much memory that is no file's may grow between the first fifth of the writes and the last: the page cache of the
/// connection that executes batches, 2,000 KiB, fills when its process leads for long; and half of that for the rest.
const GROWTH_KB_LIMIT: u64 = 2_000 + 1_000;

/// What the WAL may grow to: three times the limit, in frames of a page and a header.
const WAL_BYTES_LIMIT: u64 = 3 * 1_000 * (4_096 + 24);

/// How often the WAL is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long the writes may take.
const WRITE_PATIENCE: Duration = Duration::from_secs(600);

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[arg(long, default_value_t = 1_000)]
    connections: u64,
    #[arg(long, default_value_t = 200_000)]
    writes: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let (mut findings, began) = (Vec::new(), Instant::now());
    let [connection_kb, queue_file_bytes] = idle(arguments, &mut findings)?;
    let growth = grow(arguments, &mut findings)?;
    let Arguments { connections, writes, seed, json } = arguments;
    let replay = format!("memory --connections {connections} --writes {writes} --seed {seed}");
    let green = report(&findings, &replay, None);
    let figures = [
        ("connections", *connections),
        ("connection_kb", connection_kb),
        ("queue_file_bytes", queue_file_bytes),
        ("writes", *writes),
        ("writes_early", growth.writes_early),
        ("writes_each", growth.writes_each),
        ("growth_kb", growth.growth_kb),
        ("wal_bytes_max", growth.wal_bytes_max),
    ];
    results::append(json.as_deref(), "memory", *seed, began, 0..1, figures)?;
    Ok(green)
}

/// (count, resident, no file's), in kilobytes, as the process told.
fn told(heard: &Transcript) -> Vec<[u64; 3]> {
    let lines = heard.lines.iter().filter_map(|line| line.strip_prefix("rss "));
    let numbers = lines.map(|line| line.split(' ').filter_map(|word| word.parse().ok()).collect());
    numbers.filter_map(|numbers: Vec<u64>| numbers.try_into().ok()).collect()
}

/// What a connection costs in kilobytes, and the length of the queue file.
fn idle(arguments: &Arguments, findings: &mut Vec<String>) -> Result<[u64; 2]> {
    let (_directory, database) = place()?;
    shell::create(&database)?;
    let mut idle = job(&database, Act::Idle, 0, arguments.seed);
    idle.count = arguments.connections;
    let mut writer = Writer::start(&idle, None)?;
    writer.child.wait_for("holding", READY_PATIENCE)?;
    let queue_file = format!("{}-hands", database.display());
    let bytes = std::fs::metadata(&queue_file).context("look at the queue file")?.len();
    let told = told(&writer.child.heard(Transcript::clone));
    writer.child.say("go");
    writer.finish(&mut Ledger::default(), findings)?;
    let [[_, first, _], [count, last, _]] = told[..] else {
        anyhow::bail!("not two figures: {told:?}")
    };
    let each = last.saturating_sub(first) / count.max(1);
    println!("{count} idle connections: {first} kB with one, {last} kB with all, {each} kB each");
    println!("queue file: {bytes} bytes");
    if each > CONNECTION_KB_LIMIT {
        findings.push(format!("{each} kB for each idle connection"));
    }
    if bytes > QUEUE_FILE_BYTES_LIMIT {
        findings.push(format!("the queue file has {bytes} bytes"));
    }
    Ok([each, bytes])
}

/// What became larger while processes wrote.
#[derive(Default)]
struct Growth {
    /// After how many writes of a process its memory was looked at first, and last.
    writes_early: u64,
    writes_each: u64,
    /// How much more it had then, the part that is no file's: of the process that grew more.
    growth_kb: u64,
    wal_bytes_max: u64,
}

fn grow(arguments: &Arguments, findings: &mut Vec<String>) -> Result<Growth> {
    let (_directory, database) = place()?;
    shell::create(&database)?;
    let mut ledger = Ledger::new(arguments.seed, true);
    let mut writers = Vec::new();
    // Two: so that memory is seen of one that leads and of one that is served.
    for number in 0..2 {
        let mut grow = job(&database, Act::Grow, number, arguments.seed);
        grow.count = arguments.writes / 2;
        writers.push(Writer::start(&grow, None)?);
    }
    let (end, wal) = (Instant::now() + WRITE_PATIENCE, format!("{}-wal", database.display()));
    let mut growth = Growth::default();
    for mut writer in writers {
        while !writer.child.dies_within(LOOK_EVERY)? && Instant::now() < end {
            let bytes = std::fs::metadata(&wal).map_or(0, |found| found.len());
            growth.wal_bytes_max = growth.wal_bytes_max.max(bytes);
        }
        let told = told(&writer.child.heard(Transcript::clone));
        let number = writer.job.number;
        writer.finish(&mut ledger, findings)?;
        ensure!(told.len() >= 20, "process {number} told {} figures", told.len());
        let (early, late) = (told[4], told[told.len() - 1]);
        println!(
            "writer {number}: {} kB ({} no file's) after {} writes, {} kB ({}) after {}",
            early[1], early[2], early[0], late[1], late[2], late[0]
        );
        (growth.writes_early, growth.writes_each) = (early[0], late[0]);
        growth.growth_kb = growth.growth_kb.max(late[2].saturating_sub(early[2]));
        if late[2] > early[2] + GROWTH_KB_LIMIT {
            findings.push(format!("the memory of writer {number} grew: {told:?}"));
        }
    }
    let Growth { wal_bytes_max, .. } = growth;
    println!("the WAL had {wal_bytes_max} bytes at most");
    if wal_bytes_max > WAL_BYTES_LIMIT {
        findings.push(format!("the WAL grew to {wal_bytes_max} bytes, and nobody read"));
    }
    findings.extend(unexpected_errors(&ledger, false));
    findings.extend(verdict::examine(&database, &ledger)?.findings);
    Ok(growth)
}
