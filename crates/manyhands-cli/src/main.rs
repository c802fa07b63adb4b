//! The `manyhands` command: run SQL on a file, run other programs, see inside, show the main job.

mod exec;

mod run;

mod shell;

mod top;

mod doctor;

mod cancel;

mod backup;

mod demo;

mod manual;

mod inside;

mod process;

mod carrier;

mod figure;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Many hands write one SQLite file at once.
#[derive(Parser)]
#[command(name = "manyhands", version, about, propagate_version = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

/// What the command can do.
#[derive(Subcommand)]
enum Command {
    /// Run SQL on a database file and print the rows.
    Exec(exec::Arguments),
    /// Run any program that uses libsqlite3, with Manyhands in its place.
    Run(run::Arguments),
    /// SQLite's own shell, with Manyhands in the place of its library.
    Shell(shell::Arguments),
    /// Show what goes on in a file: who writes, who waits, and for whom.
    Top(top::Arguments),
    /// Check a file and what is around it: verdicts with their reasons, and what to do.
    Doctor(doctor::Arguments),
    /// End what a process waits for or executes in a database, without a signal.
    Cancel(cancel::Arguments),
    /// Copy a database as of one moment, while others write it.
    Backup(backup::Arguments),
    /// The process that the doctor meets on the database's file system.
    #[command(hide = true)]
    DoctorProbe(doctor::ProbeArguments),
    /// Let 200 processes write one file, through Manyhands and then through stock SQLite.
    Demo(demo::Arguments),
    /// Print completions for a shell.
    Completions(manual::CompletionArguments),
    /// Write manual pages.
    Manual(manual::Arguments),
    /// One process of the demo, which talks to it through stdin and stdout.
    #[command(hide = true)]
    DemoWriter(demo::writer::Arguments),
}

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().command {
        Command::Exec(arguments) => exec::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Shell(arguments) => shell::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Cancel(arguments) => cancel::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::DoctorProbe(arguments) => doctor::probe(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Completions(arguments) => manual::complete(&arguments),
        Command::Manual(arguments) => manual::write(&arguments),
        Command::DemoWriter(arguments) => demo::writer::run(&arguments),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("manyhands: {}", sentence(&error));
        ExitCode::FAILURE
    })
}

/// The error and its causes; a cause that the error's own text tells already is left out.
fn sentence(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| {
        match (told.is_empty(), told.contains(&cause)) {
            (true, _) => cause,
            (false, true) => told,
            (false, false) => format!("{told}: {cause}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody wants to read one message twice.
    #[test]
    fn causes_are_told_once() {
        let error =
            anyhow::anyhow!("no such table: t").context("no such table: t").context("open x");
        assert_eq!(sentence(&error), "open x: no such table: t");
    }
}
