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

/// How much memory that is no file's may grow between the first fifth of the writes and the last.
const GROWTH_KB_LIMIT: u64 = 1_024;

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
    let wal_bytes_max = grow(arguments, &mut findings)?;
    let Arguments { connections, writes, seed, json } = arguments;
    let replay = format!("memory --connections {connections} --writes {writes} --seed {seed}");
    let green = report(&findings, &replay, None);
    let figures = [
        ("connections", *connections),
        ("connection_kb", connection_kb),
        ("queue_file_bytes", queue_file_bytes),
        ("writes", *writes),
        ("wal_bytes_max", wal_bytes_max),
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

/// What the WAL grew to.
fn grow(arguments: &Arguments, findings: &mut Vec<String>) -> Result<u64> {
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
    let mut wal_bytes = 0;
    for mut writer in writers {
        while !writer.child.dies_within(LOOK_EVERY)? && Instant::now() < end {
            wal_bytes = std::fs::metadata(&wal).map_or(0, |found| found.len()).max(wal_bytes);
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
        if late[2] > early[2] + GROWTH_KB_LIMIT {
            findings.push(format!("the memory of writer {number} grew: {told:?}"));
        }
    }
    println!("the WAL had {wal_bytes} bytes at most");
    if wal_bytes > WAL_BYTES_LIMIT {
        findings.push(format!("the WAL grew to {wal_bytes} bytes, and nobody read"));
    }
    findings.extend(unexpected_errors(&ledger, false));
    findings.extend(verdict::examine(&database, &ledger)?.findings);
    Ok(wal_bytes)
}
