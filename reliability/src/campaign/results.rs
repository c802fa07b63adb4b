//! What a run of a campaign has counted: one JSON object for each line of a file that only grows. The long
//! column (`campaign.py`) goes on where these lines end, and its page is made of them.
//!
//! A line is written at once and whole, when the run is over: a run that breaks off has none.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::Serialize;

/// A run of a campaign.
#[derive(Serialize)]
struct Run<'a> {
    campaign: &'a str,
    /// The words after the program's name, without `--json`.
    command: String,
    seed: u64,
    /// Of the program, if the environment variable `MANYHANDS_COMMIT` tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    /// Processor, how many, and kernel.
    machine: String,
    /// When it ended.
    unix_s: u64,
    seconds: f64,
    /// Its first round, recording or case, and where a later run goes on.
    from: u64,
    next: u64,
    figures: BTreeMap<String, u64>,
    findings: Vec<Finding>,
}

/// Something that must not be.
#[derive(Serialize)]
struct Finding {
    what: String,
    /// The words that replay it, after the program's name.
    replay: String,
}

/// What was found since this program began.
static FINDINGS: Mutex<Vec<Finding>> = Mutex::new(Vec::new());

/// Keeps a finding for the line of this run.
pub fn note(what: impl Into<String>, replay: impl Into<String>) {
    let finding = Finding { what: what.into(), replay: replay.into() };
    FINDINGS.lock().unwrap_or_else(PoisonError::into_inner).push(finding);
}

/// Appends what this program has counted, and the findings so far; nothing without a file.
pub fn append(
    file: Option<&Path>,
    campaign: &str,
    seed: u64,
    began: Instant,
    places: Range<u64>,
    figures: impl IntoIterator<Item = (impl Into<String>, u64)>,
) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let findings = FINDINGS.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
    let run = Run {
        campaign,
        command: command(),
        seed,
        commit: commit(),
        machine: machine(),
        unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs()),
        seconds: (began.elapsed().as_secs_f64() * 10.0).round() / 10.0,
        from: places.start,
        next: places.end,
        figures: figures.into_iter().map(|(name, figure)| (name.into(), figure)).collect(),
        findings,
    };
    let line = serde_json::to_string(&run).context("make a line of figures")? + "\n";
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
    let mut opened = opened.with_context(|| format!("open {}", file.display()))?;
    opened.write_all(line.as_bytes()).with_context(|| format!("write {}", file.display()))
}

/// Which commit this program is.
fn commit() -> Option<String> {
    std::env::var("MANYHANDS_COMMIT").ok().filter(|commit| !commit.is_empty())
}

fn machine() -> String {
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let model =
        processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown processor", |(_, model)| model.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores, Linux {}", kernel.trim())
}

/// This program's words, without those that say where its figures go.
fn command() -> String {
    let mut words: Vec<String> = std::env::args().skip(1).filter(|it| it != "--slice").collect();
    if let Some(place) = words.iter().position(|word| word == "--json") {
        words.drain(place..words.len().min(place + 2));
    }
    words.join(" ")
}
