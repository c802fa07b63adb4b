//! `manyhands bench`: workloads on Manyhands and its peers, in one run, interleaved, at the durability in each name.
//!
//! The files, in reading order: what is measured (`workload`), one measurement (`measurement`) with its file
//! (`fixture`), its processes (`crew`) and what they say to each other (`job`); then a worker's side: `worker`, the tasks
//! (`closed_loop` and what its clients do, `clients`, `web`, `storm`, `physics`), the engines; then what is counted, and
//! how it is shown.

pub mod workload;

mod dimensions;

mod cells;

pub(crate) mod measurement;

pub(crate) mod fixture;

pub(crate) mod crew;

pub(crate) mod job;

pub(crate) mod worker;

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

pub(crate) mod sqlite_file;

mod engine_manyhands;

mod engine_stock;

mod tally;

pub(crate) mod board;

pub(crate) mod latency;

mod usage;

mod wal_series;

pub(crate) mod circumstances;

mod statistics;

mod table;

mod transaction_table;

mod wal_table;

mod clients_table;

mod web_table;

pub(crate) mod layout;

use std::{
    collections::BTreeSet,
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use self::{
    cells::cells,
    circumstances::Circumstances,
    clients_table::clients_table,
    crew::Glimpse,
    dimensions::Dimensions,
    engine::{Engine, Refusal},
    engines::Engines,
    measurement::{Cell, Measurement, measure},
    transaction_table::{long_job_table, refused_long_jobs, transaction_table},
    wal_table::wal_table,
    web_table::web_table,
    workload::{Demand, Workload},
};
use crate::figure;

pub use self::claim::CLAIM;

/// What `manyhands bench` is given.
#[derive(clap::Args)]
pub struct Arguments {
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
    /// Append one JSON line per measurement to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the database files are created; it must be on the disk that you want to measure.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
}

/// Runs a workload and prints its table. The exit code is 1 if any check failed.
pub fn run(arguments: &Arguments, engines: &Engines) -> Result<ExitCode> {
    let mut circumstances = Circumstances::in_directory(&arguments.directory)?;
    let plan = Plan::from_arguments(arguments, engines, &mut circumstances)?;
    println!("{}: {}", plan.workload.name(), circumstances.headline());
    if let Some(warning) = circumstances.warning() {
        eprintln!("warning: {warning}");
    }
    for (engine, reason) in &circumstances.left_out {
        println!("left out: {engine}: {reason}");
    }
    let measurements = carry_out(&plan, arguments, &circumstances)?;
    show(plan.workload, &measurements, arguments.repeat);
    let failures = table::failures(&measurements);
    failures.iter().for_each(|failure| println!("{failure}"));
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(workload: Workload, measurements: &[Measurement], repeat: usize) {
    if workload == Workload::Limits {
        println!("{}", table::limits_table(measurements).trim_fmt());
        return;
    }
    println!("{}", table::table(measurements).trim_fmt());
    let more = [
        table::insert_table(measurements),
        transaction_table(measurements),
        long_job_table(measurements),
        clients_table(measurements),
        wal_table(measurements),
        web_table(measurements),
    ];
    for table in more.into_iter().flatten() {
        println!("\n{}", table.trim_fmt());
    }
    let lines = [
        table::errors(measurements),
        table::backlogs(measurements),
        refused_long_jobs(measurements),
    ];
    lines.into_iter().flatten().for_each(|line| println!("{line}"));
    println!(
        "\nmedian of {repeat}, below it minimum–maximum; x stock: ratio within the same repetition; least–most: operations of"
    );
    println!(
        "the least and of the most served client, relative to the mean, worst repetition; memory: the largest process"
    );
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
fn carry_out(
    plan: &Plan<'_>,
    arguments: &Arguments,
    circumstances: &Circumstances,
) -> Result<Vec<Measurement>> {
    let mut json = arguments.json.as_deref().map(open_json).transpose()?;
    let bar = progress_bar(arguments.repeat * plan.cells.len() * plan.engines.len());
    let mut measurements = Vec::new();
    // Who stalled once is not waited for again.
    let mut stalled = BTreeSet::new();
    for repetition in 1..=arguments.repeat {
        for cell in &plan.cells {
            let mut engines = plan.engines.clone();
            // Who goes first changes, so that nobody always follows the same neighbour.
            engines.rotate_left((repetition - 1) % plan.engines.len().max(1));
            for engine in engines {
                if stalled.contains(&(&cell.label, engine.name())) {
                    bar.inc(1);
                    continue;
                }
                let title = format!("{}, {}", cell.label, engine.name());
                let on_tick =
                    |glimpse: Glimpse| bar.set_message(format!("{title}{}", describe(glimpse)));
                let name = plan.workload.name();
                let measurement = measure(
                    name,
                    cell,
                    engine,
                    repetition,
                    &arguments.directory,
                    circumstances,
                    on_tick,
                )?;
                if let Some(json) = &mut json {
                    writeln!(json, "{}", serde_json::to_string(&measurement)?)
                        .context("write the JSON line")?;
                }
                if measurement.has_stalled() {
                    stalled.insert((&cell.label, engine.name()));
                }
                measurements.push(measurement);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok(measurements)
}

fn open_json(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("open {}", path.display()))
}

fn progress_bar(measurements: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len}  {elapsed_precise}  {msg}")
        .expect("the template is a constant");
    ProgressBar::new(measurements as u64).with_style(style)
}

fn describe(glimpse: Glimpse) -> String {
    match glimpse.running.filter(|running| *running > Duration::ZERO) {
        None => ": connecting".to_owned(),
        Some(running) => {
            let rate = glimpse.totals.commits as f64 / running.as_secs_f64();
            format!(
                ": {}/s, worst wait {}",
                figure::count(rate),
                figure::duration(glimpse.totals.worst)
            )
        }
    }
}
