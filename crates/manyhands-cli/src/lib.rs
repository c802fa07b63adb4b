//! The `manyhands` command: run SQL on a file, measure Manyhands beside its peers, show the main job.
//!
//! It is a library so that a program with more engines is the same command: it calls [`run`] with [`Engines`] of its own.
//! That program is also its own worker.
//!
//! One rule shapes everything here: this process never opens a database through Manyhands while it measures or checks.
//! Manyhands changes SQLite's system calls for its whole process, so every measurement runs in fresh worker processes
//! (the hidden `worker` subcommand), and every check runs on stock SQLite here.

mod exec;

pub mod bench;

mod demo;

mod figure;

mod limits;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, builder::PossibleValuesParser};

use crate::bench::engines::Engines;

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
    /// Measure a workload on Manyhands and on stock SQLite in the same run.
    Bench(Box<bench::Arguments>),
    /// Let 200 processes write one file, through Manyhands and then through stock SQLite.
    Demo(demo::Arguments),
    /// One process of a measurement; started by `bench` and `demo`, which talk to it through its stdin and stdout.
    #[command(hide = true)]
    Worker {
        /// The job, as JSON.
        job: String,
    },
}

/// Does what the command line says, with these engines for `bench`.
pub fn run(engines: &Engines) -> ExitCode {
    let names: Vec<&'static str> = engines.all().map(bench::engine::Engine::name).collect();
    let command = CommandLine::command().mut_subcommand("bench", |bench| {
        bench.mut_arg("engines", |argument| argument.value_parser(PossibleValuesParser::new(names)))
    });
    let arguments = command.get_matches();
    let command_line =
        CommandLine::from_arg_matches(&arguments).unwrap_or_else(|error| error.exit());
    let outcome = match command_line.command {
        Command::Exec(arguments) => exec::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments, engines),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Worker { job } => bench::worker::run(&job, engines),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("manyhands: {}", sentence(&error));
            ExitCode::FAILURE
        }
    }
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
