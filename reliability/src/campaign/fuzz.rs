//! The fuzz targets, all of them: bytes of the queue file, requests, damaged databases, SQL. `fuzz/run.sh` builds and
//! runs them, two at a time. What reaches new code it keeps in `fuzz/corpus`, where a later pass goes on.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::{memory_directory, report, results};

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// How often all targets are run.
    #[arg(long, default_value_t = 1)]
    passes: u64,
    /// Seconds of each target in a pass.
    #[arg(long, default_value_t = 25)]
    seconds: u64,
    /// Resumes: passes are numbered. What they do is chance, and what they kept.
    #[arg(long, default_value_t = 0)]
    from_pass: u64,
    /// Only replays an input, of this target.
    #[arg(long, requires = "input")]
    target: Option<String>,
    /// With --target: a file, as it is called in the directory `fuzz`.
    #[arg(long, requires = "target")]
    input: Option<PathBuf>,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Where all that belongs to the targets is.
const HOME: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz");

/// What the targets' program said of one pass.
#[derive(Debug, Default, PartialEq)]
struct Told {
    /// What was executed, of each target.
    executions: BTreeMap<String, u64>,
    /// The targets in which something was found, and their inputs.
    found: Vec<(String, String)>,
}

impl Told {
    fn read(output: &str) -> Told {
        let mut told = Told::default();
        for (target, words) in output.lines().filter_map(|line| line.split_once(": ")) {
            let words: Vec<&str> = words.split(' ').collect();
            match words[..] {
                [count, "inputs,", ..] => {
                    let count = count.parse().unwrap_or(0);
                    told.executions.insert(target.to_owned(), count);
                }
                ["a", "finding;", _, _, "0", input, ..] => {
                    told.found.push((target.to_owned(), input.to_owned()));
                }
                _ => {}
            }
        }
        told
    }
}

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let place = memory_directory()?;
    let script = |words: &[&str]| {
        let mut command = Command::new(format!("{HOME}/run.sh"));
        command.args(words).env("TMPDIR", place.path());
        command
    };
    if let (Some(target), Some(input)) = (&arguments.target, &arguments.input) {
        let replayed = script(&[target, "0"]).arg(input).status().context("start a fuzz target")?;
        return Ok(replayed.success());
    }
    let (began, mut green) = (Instant::now(), true);
    let mut figures = BTreeMap::<String, u64>::new();
    for _ in 0..arguments.passes {
        let seconds = arguments.seconds.to_string();
        let output = script(&["all", &seconds]).output().context("start the fuzz targets")?;
        let told = Told::read(&String::from_utf8_lossy(&output.stdout));
        let is_told = !told.found.is_empty() || output.status.success();
        ensure!(is_told, "{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        for (target, count) in told.executions {
            println!("{target}: {count} executions");
            for name in [format!("{target} executions"), "executions".to_owned()] {
                *figures.entry(name).or_default() += count;
            }
        }
        for (target, input) in told.found {
            let replay = format!("fuzz --target {target} --input {input}");
            green &= report(&[format!("{target}: {}", complaint(&target))], &replay, None);
        }
    }
    let passes = arguments.from_pass..arguments.from_pass + arguments.passes;
    results::append(arguments.json.as_deref(), "fuzz", 0, began, passes, figures)?;
    Ok(green)
}

/// What a target that found something said of it.
fn complaint(target: &str) -> String {
    let log = std::fs::read(format!("{HOME}/artifacts/{target}.log")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let mut lines = log.lines().skip_while(|line| !line.contains("panicked at"));
    let panicked = lines.next().map(|place| format!("{place} {}", lines.next().unwrap_or("")));
    let error = || log.lines().find(|line| line.contains("ERROR: ")).map(str::to_owned);
    panicked.or_else(error).unwrap_or_else(|| format!("see fuzz/artifacts/{target}.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_targets_say_is_counted() {
        let told = Told::read(
            "bytes: 12366945 inputs, 512 places in the code, no finding\n\
             #77\tNEW    cov: 12 ft: 13\n\
             sql: a finding; fuzz/run.sh sql 0 artifacts/sql/crash-1 replays it\n",
        );
        assert_eq!(told.executions, BTreeMap::from([("bytes".to_owned(), 12_366_945)]));
        let input = ("sql".to_owned(), "artifacts/sql/crash-1".to_owned());
        assert_eq!(told.found, [input]);
    }
}
