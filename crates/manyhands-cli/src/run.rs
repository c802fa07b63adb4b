//! `manyhands run`: any program on a stock libsqlite3, with Manyhands in its place.
//!
//! The loader puts the library of `make dropin` before all others (LD_PRELOAD), in the command and in its children. Not
//! every program has its SQLite from the loader. One that has not writes beside Manyhands and knows nothing of the queue,
//! which nobody would notice: so each process is looked at while it runs, and `run` tells what it finds.

mod supervise;

mod watch;

mod witness;

mod finding;

mod obstacle;

mod way_out;

mod farewell;

mod report;

mod check;

pub mod resolve;

mod linked;

mod elf;

mod choice;

pub mod library;

use std::{
    ffi::OsString,
    io::{self, Write},
    path::PathBuf,
    process::{Command, ExitCode},
    sync::Arc,
};

use anyhow::{Context, Result};

use choice::Choice;
use farewell::Ear;
use library::Library;
use supervise::Supervised;
use watch::Watch;
use witness::Witness;

/// What `manyhands run` is given.
#[derive(clap::Args)]
pub struct Arguments {
    /// Databases to open through Manyhands, as paths or patterns (default: all); others are left to SQLite alone.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    only: Vec<PathBuf>,
    /// Say at the end which processes used SQLite through Manyhands, and which without it.
    #[arg(long)]
    report: bool,
    /// Do not run the command: say whether it would use Manyhands.
    #[arg(long, conflicts_with = "report")]
    check: bool,
    /// The library to preload, or its folder.
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
    /// What a plain BEGIN means.
    #[arg(long, value_parser = ["auto", "optimistic", "immediate"])]
    transaction_mode: Option<String>,
    /// What a commit survives: full, also a power cut; normal, the death of any process.
    #[arg(long, value_parser = ["full", "normal"])]
    durability: Option<String>,
    /// How many seconds a write waits for its turn.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<f64>,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
    seconds.ok_or_else(|| "a number of seconds is needed".into())
}

/// Runs the command; its exit status is ours.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let library = Arc::new(Library::find(arguments.library.as_deref())?);
    let (name, rest) = arguments.command.split_first().context("which command?")?;
    if arguments.check {
        return check::check(name, rest, &library);
    }
    let choice = match std::env::var_os(choice::VARIABLE) {
        Some(value) if arguments.only.is_empty() => Choice::of_variable(&value)?,
        _ => Choice::new(&arguments.only)?,
    };
    let mut command = Command::new(name);
    command.args(rest).env(library::PRELOAD, library.before(std::env::var_os(library::PRELOAD)));
    // A driver with the loader inside looks for it there.
    command.env(library::VARIABLE, &library.path);
    for (variable, value) in environment(arguments, &choice) {
        command.env(variable, value);
    }
    let (ear, waker) = Ear::open().context("open a socket")?;
    command.envs(ear.name().map(|name| (farewell::VARIABLE, name)));
    let own = i32::try_from(std::process::id()).context("the number of this process")?;
    let mut witness = Witness::new(own, choice);
    if let Ok(resolved) = resolve::resolve(name) {
        let line: Vec<_> = arguments.command.iter().map(|word| word.to_string_lossy()).collect();
        witness.expect(resolved.program(), line.join(" "), &library);
    }
    let supervised = match Supervised::start(&mut command)? {
        Ok(supervised) => supervised,
        Err(failed) => {
            eprintln!("manyhands: {}: {}", name.display(), failed.error);
            return Ok(exit_code(failed.status));
        }
    };
    let watch = Watch::start(witness, library, ear, waker);
    let status = supervised.wait()?;
    let report = watch.end().context("the look at the command's processes failed")?;
    if arguments.report {
        // As for findings: nobody may be there to read it.
        let _ = writeln!(io::stderr(), "{report}");
    }
    Ok(exit_code(status))
}

/// What the library is told, beside what the environment says already.
fn environment(arguments: &Arguments, choice: &Choice) -> Vec<(&'static str, OsString)> {
    let timeout = arguments.timeout.map(|seconds| seconds.to_string().into());
    let options = [
        (choice::VARIABLE, choice.variable()),
        ("MANYHANDS_TRANSACTION_MODE", arguments.transaction_mode.clone().map(Into::into)),
        ("MANYHANDS_DURABILITY", arguments.durability.clone().map(Into::into)),
        ("MANYHANDS_TIMEOUT", timeout),
    ];
    options.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn exit_code(status: i32) -> ExitCode {
    u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from)
}
