//! Campaigns against Manyhands: real processes, real SIGKILL, real disks; afterwards Debian's
//! `sqlite3` looks into the file.
//!
//! The parent never opens a database through Manyhands: every writer is a process of its own, this
//! program executed again. What a writer acknowledged, it wrote into its pipe after the call returned;
//! what must then be in the file follows from the seed alone (`entry`), so the checker (`verdict`)
//! shares no code with what it checks.
//!
//! A campaign prints figures, findings, and for each finding the command that replays it. It exits
//! with 1 if there was a finding.

mod black_box;
mod campaign;
mod child;
mod clock;
mod crash_images;
mod entry;
mod isolation;
mod ledger;
mod model;
mod preload;
mod shell;
mod verdict;
mod worker;
mod writer_in_c;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Kill, stop and starve writers of Manyhands, then look into the file.
#[derive(Parser)]
#[command(name = "reliability", version, about)]
struct CommandLine {
    /// A slice of the long column (`campaign.py`): ends when its stdin does.
    #[arg(long, hide = true)]
    slice: bool,
    /// Every second writer is this program, the writer in C (`make c-writer`), where it knows the act.
    #[arg(long, global = true)]
    writer: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Eight processes write; one or more are killed; nothing is lost, nothing is there twice.
    Kill(campaign::kill::Arguments),
    /// Spoils a good round in every known way: the checker must see each.
    Planted(campaign::planted::Arguments),
    /// Plants bugs into the product, one at a time: a campaign must find each.
    PlantedBugs(campaign::planted_bugs::Arguments),
    /// The sqlite3 shell writes, reads and checkpoints beside a full queue.
    Stock(campaign::stock::Arguments),
    /// Random transactions beside each other: each saw what it sees in one serial order.
    Isolation(campaign::isolation::Arguments),
    /// Histories of many processes, judged by a checker that knows nothing of this engine.
    BlackBox(campaign::black_box::Arguments),
    /// What programs rely on without asking: ids in their order, readers and writers that wait for nobody.
    Contract(campaign::contract::Arguments),
    /// Writers are stopped: the others time out in time, and go on afterwards.
    Stopped(campaign::stopped::Arguments),
    /// The disk is full, and then has room again. Needs root.
    Full(campaign::full::Arguments),
    /// The clock jumps, descriptors or memory run out, containers, forks. Needs root.
    Environment(campaign::environment::Arguments),
    /// An attacker writes rubbish into the queue file, locks it, replaces it, sends requests.
    Hostile(campaign::hostile::Arguments),
    /// What a power cut at every moment could have left of the files, opened again.
    Images(campaign::images::Arguments),
    /// Spoils a recording in every known way: its examination must see each.
    PlantedImages(campaign::images::PlantedArguments),
    /// In one of three processes the n-th call of the system fails, or is its last.
    NthCall(campaign::nth_call::Arguments),
    /// Writers on a file system that loses all that is not on the disk. Needs root.
    PowerCut(campaign::power_cut::Arguments),
    /// The fuzz targets, a while each; what they keep, the next pass goes on with.
    Fuzz(campaign::fuzz::Arguments),
    /// Random calls of SQLite's C interface on the library and on plain SQLite.
    Oracle(campaign::oracle::Arguments),
    /// Many processes create the same database at the same time.
    Opening(campaign::opening::Arguments),
    /// Visits every state of a model of the protocol: deaths, power cuts, another program.
    Model(campaign::model::Arguments),
    /// What connections and writes cost in memory.
    Memory(campaign::memory::Arguments),
    /// One writer process; started by the campaigns.
    #[command(hide = true)]
    Worker(worker::Arguments),
}

fn main() -> ExitCode {
    let CommandLine { slice, writer, command } = CommandLine::parse();
    writer.into_iter().for_each(writer_in_c::choose);
    if slice {
        campaign::end_with_stdin();
    }
    let outcome = match command {
        Command::Kill(arguments) => campaign::kill::run(&arguments),
        Command::Planted(arguments) => campaign::planted::run(&arguments),
        Command::PlantedBugs(arguments) => campaign::planted_bugs::run(&arguments),
        Command::Stock(arguments) => campaign::stock::run(&arguments),
        Command::Isolation(arguments) => campaign::isolation::run(&arguments),
        Command::BlackBox(arguments) => campaign::black_box::run(&arguments),
        Command::Contract(arguments) => campaign::contract::run(&arguments),
        Command::Stopped(arguments) => campaign::stopped::run(&arguments),
        Command::Full(arguments) => campaign::full::run(&arguments),
        Command::Environment(arguments) => campaign::environment::run(&arguments),
        Command::Hostile(arguments) => campaign::hostile::run(&arguments),
        Command::Images(arguments) => campaign::images::run(&arguments),
        Command::PlantedImages(arguments) => campaign::images::run_planted(&arguments),
        Command::NthCall(arguments) => campaign::nth_call::run(&arguments),
        Command::PowerCut(arguments) => campaign::power_cut::run(&arguments),
        Command::Fuzz(arguments) => campaign::fuzz::run(&arguments),
        Command::Oracle(arguments) => campaign::oracle::run(&arguments),
        Command::Opening(arguments) => campaign::opening::run(&arguments),
        Command::Model(arguments) => campaign::model::run(&arguments),
        Command::Memory(arguments) => campaign::memory::run(&arguments),
        Command::Worker(arguments) => worker::run(&arguments).map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("reliability: {error:#}");
            ExitCode::from(2)
        }
    }
}
