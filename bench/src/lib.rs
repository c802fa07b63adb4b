//! The benchmark: workloads on Manyhands and its peers, in one run, interleaved, at the durability in each name.
//!
//! It writes one JSON line for each measurement; `bench/report` makes tables and pictures of them. It is a library so that the
//! tests can add engines that lie: a program calls [`main`] with [`Engines`] of its own, and is also its own worker.
//!
//! One rule shapes everything here: this process never opens a database through Manyhands while it measures or checks.
//! Manyhands changes SQLite's system calls for its whole process, so every measurement runs in fresh worker processes,
//! and every check runs on stock SQLite here.
//!
//! The files, in reading order: what is measured (`workload`), one measurement (`measurement`) with its file
//! (`fixture`), its processes (`crew`) and what they say to each other (`job`); then a worker's side: `worker`, the tasks
//! (`closed_loop` and what its clients do, `clients`, `web`, `storm`, `physics`), the engines; then what is counted.

mod limits;

pub mod workload;

mod dimensions;

mod cells;

mod measurement;

mod fixture;

mod crew;

mod job;

mod worker;

mod closed_loop;

mod pace;

mod transactor;

mod think;

mod long_job;

mod claim;

mod endless_reader;

mod clients;

mod pool;

mod web;

mod storm;

mod physics;

pub mod engines;

pub mod engine;

pub mod built_in;

pub mod peers;

mod sqlite_file;

mod engine_manyhands;

mod engine_stock;

mod tally;

mod latency;

mod usage;

mod slow_sync;

mod wal_series;

mod fairness;

mod circumstances;

use std::{
    collections::BTreeSet,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, Result, anyhow, ensure};
use clap::{CommandFactory, FromArgMatches, Parser, builder::PossibleValuesParser};

use self::{
    cells::cells,
    circumstances::Circumstances,
    dimensions::Dimensions,
    engine::{Engine, Refusal},
    engines::Engines,
    measurement::{Cell, Measurement, measure},
    slow_sync::SlowSync,
    workload::{Demand, Workload},
};

/// Measures a workload on Manyhands, stock SQLite and others, in the same run. Writes a JSON line for each measurement to stdout, and
/// what it is about to stderr; `python3 bench/report` makes a table of the lines.
#[derive(Parser)]
#[command(name = "manyhands-bench", version)]
struct Arguments {
    /// The workload.
    workload: Workload,
    /// Engines to compare [default: those that the workload is about].
    #[arg(long, value_delimiter = ',')]
    engines: Option<Vec<String>>,
    #[command(flatten)]
    dimensions: Dimensions,
    /// How often each measurement is repeated.
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Microseconds that each sync of every engine takes longer: 1000 is a cloud volume.
    #[arg(long, default_value_t = 0)]
    sync_us: u64,
    /// Where the database files are created; it must be on the disk that you want to measure.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
}

/// The whole program, with these engines: the command, its workers, and the process that keeps PostgreSQL's server.
pub fn main(engines: &Engines) -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(code) = peers::keep(&arguments) {
        return code;
    }
    let outcome = match arguments.as_slice() {
        [_, worker, job] if worker == worker::WORKER => worker::run(job, engines),
        _ => run(&from_command_line(engines), engines),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("manyhands-bench: {error:#}");
        ExitCode::FAILURE
    })
}

fn from_command_line(engines: &Engines) -> Arguments {
    let names: Vec<&'static str> = engines.all().map(Engine::name).collect();
    let command = Arguments::command()
        .mut_arg("engines", |argument| argument.value_parser(PossibleValuesParser::new(names)));
    Arguments::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
}

/// Runs a workload. The exit code is 1 if any check failed.
fn run(arguments: &Arguments, engines: &Engines) -> Result<ExitCode> {
    let _slow_sync = SlowSync::begin(arguments.sync_us)?;
    let mut circumstances = Circumstances::in_directory(&arguments.directory, arguments.sync_us)?;
    let plan = Plan::from_arguments(arguments, engines, &mut circumstances)?;
    eprintln!("{}: {}", plan.workload.name(), circumstances.headline());
    if let Some(warning) = circumstances.warning() {
        eprintln!("warning: {warning}");
    }
    for (engine, reason) in &circumstances.left_out {
        eprintln!("left out: {engine}: {reason}");
    }
    let is_sound = carry_out(&plan, arguments, &circumstances)?;
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Plan<'engines> {
    workload: Workload,
    cells: Vec<Cell>,
    engines: Vec<&'engines dyn Engine>,
}

impl<'engines> Plan<'engines> {
    /// What to measure; who takes part and who does not is told to the circumstances.
    fn from_arguments(
        arguments: &Arguments,
        known: &'engines Engines,
        circumstances: &mut Circumstances,
    ) -> Result<Self> {
        let (workload, dimensions) = (arguments.workload, &arguments.dimensions);
        let demand = Demand {
            workload,
            in_transaction: dimensions.in_transaction,
            is_python: dimensions.python().is_some() || workload == Workload::Web,
        };
        ensure!(arguments.repeat > 0, "--repeat must be at least 1");
        dimensions.check()?;
        ensure!(
            dimensions.rate.is_none() || workload.has_open_loop(),
            "--rate is for threads and clients: {} has no open loop",
            workload.name()
        );
        let candidates = match &arguments.engines {
            Some(names) => names.iter().map(|name| known.find(name)).collect::<Result<_>>()?,
            None => {
                let is_default = |engine: &&dyn Engine| engine.is_default(demand);
                known.all().filter(is_default).collect::<Vec<_>>()
            }
        };
        let mut engines = Vec::new();
        for engine in candidates {
            let name = engine.name();
            let version = engine
                .version()
                .and_then(|version| engine.can_be_in(&arguments.directory).map(|()| version));
            match (engine.accepts(demand), version) {
                // Whoever asked for it by name has made a mistake.
                (Err(reason), _) if arguments.engines.is_some() => {
                    return Err(anyhow!("{name}: {reason}"));
                }
                (Err(reason), _) | (Ok(()), Err(Refusal(reason))) => {
                    circumstances.left_out.insert(name, reason);
                }
                (Ok(()), Ok(version)) => {
                    circumstances.engines.insert(name, version);
                    engines.push(engine);
                }
            }
        }
        ensure!(!engines.is_empty(), "no engine is left: {:?}", circumstances.left_out);
        Ok(Self { workload, cells: cells(workload, dimensions), engines })
    }
}

/// All measurements: repetitions outside, engines inside, so that whatever happens on the machine meets all engines.
/// Returns whether all checks held.
fn carry_out(
    plan: &Plan<'_>,
    arguments: &Arguments,
    circumstances: &Circumstances,
) -> Result<bool> {
    let mut is_sound = true;
    // Who stalled once is not waited for again.
    let mut stalled = BTreeSet::new();
    for repetition in 1..=arguments.repeat {
        for cell in &plan.cells {
            let mut engines = plan.engines.clone();
            // Who goes first changes, so that nobody always follows the same neighbour.
            engines.rotate_left((repetition - 1) % plan.engines.len().max(1));
            for engine in engines {
                if stalled.contains(&(&cell.label, engine.name())) {
                    continue;
                }
                let measurement = measure(
                    plan.workload.name(),
                    cell,
                    engine,
                    repetition,
                    &arguments.directory,
                    circumstances,
                )?;
                tell(&measurement)?;
                is_sound &= measurement.figures.is_some();
                if measurement.has_stalled() {
                    stalled.insert((&cell.label, engine.name()));
                }
            }
        }
    }
    Ok(is_sound)
}

/// The JSON line, and a short one for who waits.
fn tell(measurement: &Measurement) -> Result<()> {
    let line = serde_json::to_string(measurement)?;
    writeln!(io::stdout(), "{line}").context("write the JSON line")?;
    let Measurement { cell, engine, repetition, figures, check, .. } = measurement;
    let label = &cell.label;
    match figures {
        Some(figures) => eprintln!(
            "{repetition}: {label}, {engine}: {:.0}/s, longest wait {:.1} ms",
            figures.commits_per_s, figures.max_ms
        ),
        None => eprintln!("CHECK FAILED: {label}, {engine}, repetition {repetition}: {check}"),
    }
    Ok(())
}
