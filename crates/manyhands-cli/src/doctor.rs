//! `manyhands doctor`: whether a file and what is around it is healthy, and what to do where it is not.

mod finding;

mod place;

mod meeting;

mod permissions;

mod activity;

mod content;

mod settings;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    thread,
    time::Duration,
};

use anyhow::Result;

use crate::inside::Inside;
use finding::{Finding, Verdict};

pub use meeting::{Arguments as ProbeArguments, run as probe};

/// How long the time is in which a transaction or a read that does not end is seen.
const LOOK_FOR: Duration = Duration::from_secs(1);

/// What `manyhands doctor` is given.
#[derive(clap::Args)]
pub struct Arguments {
    /// The database file.
    file: PathBuf,
    /// Also read each index against its table, and each foreign key.
    #[arg(long)]
    deep: bool,
    /// As JSON, one object for each check.
    #[arg(long)]
    json: bool,
}

/// Exit status: 0 for a healthy file, 1 for one with warnings, 2 for one with errors.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let findings = examine(arguments);
    let mut output = io::stdout().lock();
    for finding in &findings {
        if arguments.json {
            writeln!(output, "{}", serde_json::to_string(finding)?)?;
        } else {
            writeln!(output, "{finding}")?;
        }
    }
    let worst = findings.iter().map(|it| it.verdict).max().unwrap_or(Verdict::Ok);
    Ok(match worst {
        Verdict::Ok => ExitCode::SUCCESS,
        Verdict::Warning => ExitCode::from(1),
        Verdict::Error => ExitCode::from(2),
    })
}

fn examine(arguments: &Arguments) -> Vec<Finding> {
    let mut findings = Vec::new();
    let path = match place::file(&arguments.file) {
        Ok((path, finding)) => {
            findings.push(finding);
            path
        }
        Err(finding) => return vec![finding],
    };
    findings.extend(permissions::check(&path));
    findings.push(meeting::check(&path));
    findings.push(place::sync(&path));
    findings.push(place::space(&path));
    match look(&path) {
        Ok(seen) => findings.extend(activity::check(&path, &seen)),
        Err(error) => findings.push(Finding::error("activity", error.to_string(), "try again")),
    }
    let journal = content::journal(&path);
    // What is to be rolled back first cannot be read before.
    let is_readable = journal.verdict != Verdict::Error;
    findings.push(journal);
    if is_readable {
        findings.push(content::integrity(&path, arguments.deep));
    }
    findings.extend(settings::check(&path));
    findings
}

/// What goes on twice, a moment apart.
fn look(path: &std::path::Path) -> Result<activity::Seen> {
    let mut inside = Inside::of(path)?;
    let first = inside.look()?;
    thread::sleep(LOOK_FOR);
    Ok(activity::Seen { first, last: inside.look()? })
}
