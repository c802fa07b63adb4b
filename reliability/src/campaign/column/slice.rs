//! A slice of the column: this program again. It ends when its stdin does, that is with the program that started
//! it, and takes its processes and directories with it.

use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, getpgrp, getpid, kill_process_group};

use super::standing::Standing;
use crate::campaign::place;
use crate::campaign::results::{self, Finding, Run};

/// How often the end of a slice is looked for.
const TICK: Duration = Duration::from_millis(20);

/// How a slice ended.
pub enum Ended {
    /// It has a line.
    Counted,
    /// Nothing comes of another one in this run.
    Stopped(String),
}

/// Plays the next slice of an entry. What it counted is in the results then.
pub fn play(
    standing: &Standing<'_>,
    seed: u64,
    results: &Path,
    patience: Duration,
) -> Result<Ended> {
    let (entry, from, began) = (standing.entry, standing.from, Instant::now());
    let words = entry.command(seed, from);
    let before = results::read(results)?.len();
    let (status, told) = run(&words, results, patience)?;
    let mut own = results::read(results)?.into_iter().skip(before);
    let counted = own.rfind(|run| run.command == words.join(" "));
    for line in told.lines().filter(|line| is_finding(line)) {
        println!("{line}");
    }
    let last = told.lines().last().unwrap_or_default();
    let replay = words.join(" ");
    let finding = |what: String| Finding { what, replay: replay.clone() };
    // What this program has to say of a slice that has not said it itself.
    let say = |findings: Vec<Finding>| -> Result<()> {
        for finding in &findings {
            println!("FINDING {}\nreplay: reliability {}", finding.what, finding.replay);
        }
        let told = if counted.is_some() { Vec::new() } else { findings_in(&told) };
        let run = Run {
            campaign: words[0].clone(),
            command: words.join(" "),
            findings: [told, findings].concat(),
            ..Run::empty(seed, began, from..from)
        };
        run.append(results)
    };
    let succeeded = status.is_some_and(|status| status.success());
    let how = match status {
        None => format!("did not end within {} s, and was killed", patience.as_secs()),
        Some(status) => format!("ended with {status}"),
    };
    match &counted {
        Some(run) => {
            let Run { seconds, next, findings, .. } = run;
            let count = findings.len();
            println!("{replay}: {seconds:.0} s, next {next}, {count} findings");
            if !succeeded && findings.is_empty() {
                say(vec![finding(format!("the slice {how}, and had told no finding"))])?;
            }
            let goes_on = run.next > from && status.is_some();
            let stands = || Ended::Stopped("a slice did not go on".to_owned());
            Ok(if goes_on { Ended::Counted } else { stands() })
        }
        // For example where only root can do it.
        None if succeeded => Ok(Ended::Stopped(format!("cannot be done here: {last}"))),
        None => {
            say(vec![finding(format!("the slice {how} and has counted nothing: {last}"))])?;
            Ok(Ended::Stopped("a slice broke off".to_owned()))
        }
    }
}

/// Runs this program with these words; how it ended, and all that it said. One that does not end in time is
/// killed.
fn run(
    words: &[String],
    results: &Path,
    patience: Duration,
) -> Result<(Option<ExitStatus>, String)> {
    // Without a name: nothing is left of it, whatever happens.
    let mut output = tempfile::tempfile().context("make a file for what a slice says")?;
    let mut command = Command::new(std::env::current_exe().context("find this program")?);
    command.arg("--slice").args(words).arg("--json").arg(results);
    command
        .stdin(Stdio::piped())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .process_group(0);
    let mut process = command.spawn().context("start a slice")?;
    let (end, mut status) = (Instant::now() + patience, None);
    while status.is_none() && Instant::now() < end {
        std::thread::sleep(TICK);
        status = process.try_wait().context("wait for a slice")?;
    }
    if status.is_none() {
        let group = Pid::from_raw(process.id() as i32).context("a process id is not 0")?;
        kill_process_group(group, Signal::KILL).context("kill a slice")?;
        process.wait().context("wait for a slice")?;
        place::clear(process.id());
    }
    let mut told = Vec::new();
    output
        .rewind()
        .and_then(|()| output.read_to_end(&mut told))
        .context("read what a slice said")?;
    Ok((status, String::from_utf8_lossy(&told).into_owned()))
}

/// What a slice was told to do that nobody waits for any more ends here.
pub fn end_with_stdin() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        place::clear(std::process::id());
        if getpgrp() == getpid() {
            let _ = kill_process_group(getpgrp(), Signal::KILL);
        }
        std::process::exit(2);
    });
}

fn is_finding(line: &str) -> bool {
    ["FINDING ", "replay: ", "kept"].iter().any(|beginning| line.starts_with(beginning))
}

/// The findings that a slice printed; each has the replay line that comes next.
fn findings_in(told: &str) -> Vec<Finding> {
    let lines: Vec<&str> = told.lines().collect();
    let found = lines.iter().enumerate().filter_map(|(place, line)| {
        let what = line.strip_prefix("FINDING ")?.to_owned();
        let replay = lines[place..].iter().find_map(|it| it.strip_prefix("replay: reliability "));
        Some(Finding { what, replay: replay.unwrap_or_default().to_owned() })
    });
    found.collect()
}
