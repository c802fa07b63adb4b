//! `manyhands bench`: workloads on Manyhands and its peers, in one run, interleaved, at the durability in each name.
//!
//! The files, in reading order: what is measured (`workload`), one measurement (`measurement`) with its file
//! (`fixture`), its processes (`crew`) and what they say to each other (`job`); then a worker's side: `worker`, the tasks
//! (`closed_loop`, `storm`, `physics`), the engines; then what is counted, and how it is shown.

mod workload;

pub mod measurement;

pub mod fixture;

pub mod crew;

pub mod job;

pub mod worker;

mod closed_loop;

mod storm;

mod physics;

pub mod engine;

mod engine_manyhands;

mod engine_stock;

mod tally;

pub mod board;

pub mod latency;

mod usage;

pub mod circumstances;

mod statistics;

mod table;

pub mod layout;

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use self::{
    circumstances::Circumstances,
    crew::Glimpse,
    engine::EngineName,
    measurement::{Cell, Measurement, measure},
    workload::{Dimensions, Workload},
};
use crate::figure;

/// What `manyhands bench` is given.
#[derive(clap::Args)]
pub struct Arguments {
    /// The workload.
    workload: Workload,
    /// Engines to compare [default: those that the workload is about].
    #[arg(long, value_delimiter = ',')]
    engines: Option<Vec<EngineName>>,
    /// Threads, for `threads` and `counter` [default: 1,8,64,256 and 1,8,64].
    #[arg(long, value_delimiter = ',')]
    threads: Option<Vec<usize>>,
    /// Processes, for `storm` [default: 200].
    #[arg(long, value_delimiter = ',')]
    processes: Option<Vec<usize>>,
    /// Rounds of each process, for `storm`.
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    /// Seconds of each measurement [default: 5, for `sizes` and `limits` 2].
    #[arg(long)]
    seconds: Option<f64>,
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
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let plan = Plan::from_arguments(arguments)?;
    let circumstances = Circumstances::in_directory(&arguments.directory)?;
    println!("{}: {}", plan.workload.name(), circumstances.headline());
    if let Some(warning) = circumstances.warning() {
        eprintln!("warning: {warning}");
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
    if let Some(inserts) = table::insert_table(measurements) {
        println!("\n{}", inserts.trim_fmt());
    }
    for line in table::errors(measurements) {
        println!("{line}");
    }
    println!(
        "\nmedian of {repeat}, below it minimum–maximum; x stock: ratio within the same repetition; least–most: operations of"
    );
    println!(
        "the least and of the most served client, relative to the mean, worst repetition; memory: the largest process"
    );
}

struct Plan {
    workload: Workload,
    cells: Vec<Cell>,
    engines: Vec<EngineName>,
}

impl Plan {
    fn from_arguments(arguments: &Arguments) -> Result<Self> {
        let workload = arguments.workload;
        let engines = arguments.engines.clone().unwrap_or_else(|| workload.engines());
        engines
            .iter()
            .try_for_each(|&engine| workload.accepts(engine))
            .map_err(anyhow::Error::msg)?;
        ensure!(arguments.repeat > 0, "--repeat must be at least 1");
        if let Some(seconds) = arguments.seconds {
            ensure!(seconds.is_finite() && seconds > 0.0, "--seconds must be more than 0");
        }
        let dimensions = Dimensions {
            threads: arguments.threads.clone(),
            processes: arguments.processes.clone(),
            rounds: arguments.rounds,
            seconds: arguments.seconds,
        };
        if [&dimensions.threads, &dimensions.processes]
            .into_iter()
            .flatten()
            .flatten()
            .any(|&number| number == 0)
        {
            bail!("--threads and --processes must be at least 1");
        }
        Ok(Self { workload, cells: workload.cells(&dimensions), engines })
    }
}

/// All measurements: repetitions outside, engines inside, so that whatever happens on the machine meets all engines.
fn carry_out(
    plan: &Plan,
    arguments: &Arguments,
    circumstances: &Circumstances,
) -> Result<Vec<Measurement>> {
    let mut json = arguments.json.as_deref().map(open_json).transpose()?;
    let bar = progress_bar(arguments.repeat * plan.cells.len() * plan.engines.len());
    let mut measurements = Vec::new();
    for repetition in 1..=arguments.repeat {
        for cell in &plan.cells {
            let mut engines = plan.engines.clone();
            // Who goes first changes, so that nobody always follows the same neighbour.
            engines.rotate_left((repetition - 1) % plan.engines.len().max(1));
            for engine in engines {
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
