//! What a run of a campaign has counted: one JSON object for each line of a file that only grows. `reliability
//! campaign` goes on where these lines end, and its page is made of them.
//!
//! A line is written at once and whole, when the run is over: a run that breaks off has none. What is no
//! [`Run`], lines of earlier versions among it, readers pass over.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// A run of a campaign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub campaign: String,
    /// The words after the program's name, without `--json`.
    pub command: String,
    pub seed: u64,
    /// Of the program, if the environment variable `MANYHANDS_COMMIT` tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Processor, how many, and kernel.
    pub machine: String,
    /// When it ended.
    pub unix_s: u64,
    pub seconds: f64,
    /// Its first round, recording or case, and where a later run goes on.
    pub from: u64,
    pub next: u64,
    pub figures: BTreeMap<String, u64>,
    pub findings: Vec<Finding>,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub what: String,
    /// The words that replay it, after the program's name.
    pub replay: String,
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
        campaign: campaign.to_owned(),
        command: command(),
        figures: figures.into_iter().map(|(name, figure)| (name.into(), figure)).collect(),
        findings,
        ..Run::empty(seed, began, places)
    };
    run.append(file)
}

impl Run {
    /// Of this moment, machine and commit, without figures.
    pub fn empty(seed: u64, began: Instant, places: Range<u64>) -> Run {
        Run {
            campaign: String::new(),
            command: String::new(),
            seed,
            commit: commit(),
            machine: machine(),
            unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs()),
            seconds: (began.elapsed().as_secs_f64() * 10.0).round() / 10.0,
            from: places.start,
            next: places.end,
            figures: BTreeMap::new(),
            findings: Vec::new(),
        }
    }

    pub fn append(&self, file: &Path) -> Result<()> {
        let line = serde_json::to_string(self).context("make a line of figures")? + "\n";
        let mut options = std::fs::OpenOptions::new();
        let opened = options.create(true).append(true).open(file);
        let mut opened = opened.with_context(|| format!("open {}", file.display()))?;
        opened.write_all(line.as_bytes()).with_context(|| format!("write {}", file.display()))
    }
}

/// All runs that a file tells of; none when there is no file.
pub fn read(file: &Path) -> Result<Vec<Run>> {
    if !file.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Which commit this program is.
pub fn commit() -> Option<String> {
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
