//! The differential oracle of the drop-in library: the same random calls of SQLite's C API go to two libraries, each with its own
//! files, and every result code, value, message and callback must be the same, in the same order.
//!
//! Left out, because it differs by design: pointers, numbers of WAL frames, statement counters, memory statistics, how often a progress
//! or busy handler is called, and what a statement does that stock SQLite refuses with SQLITE_BUSY.

#![expect(
    clippy::macro_metavars_in_unsafe,
    reason = "references become the pointers that C wants only where the call stands; arguments hold no unsafe acts"
)]

mod arguments;
mod generate;
mod action;
mod round;
mod player;
mod event;
mod plant;
mod shrink;
mod child;
mod library;
mod memory;
mod random;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, process};

use arguments::{Arguments, USAGE};
use child::{Failure, SECONDS_MAX, Setup, Shared};

/// Rounds of one child process: a library keeps things between rounds, and loading it takes a while.
const ROUNDS_PER_CHILD: u64 = 100;

fn main() -> ExitCode {
    let arguments = match Arguments::parse(env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let directory = match make_directory() {
        Ok(directory) => directory,
        Err(error) => {
            eprintln!("no directory for the databases: {error}");
            return ExitCode::from(2);
        }
    };
    let outcome = run(&arguments, &directory);
    if let Err(error) = fs::remove_dir_all(&directory) {
        eprintln!("{} remains: {error}", directory.display());
    }
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Whether the libraries agreed.
fn run(arguments: &Arguments, directory: &Path) -> Result<bool, String> {
    let setup = Setup {
        ours: arguments.ours.clone(),
        stock: arguments.stock.clone(),
        directory: directory.to_path_buf(),
        plant: arguments.plant,
        ignored: arguments.ignored.clone(),
        shared: Shared::new()?,
    };
    let first = arguments.seed.unwrap_or_else(seed_of_the_clock);
    println!("seed {first}");
    let begun = Instant::now();
    let mut seen = HashSet::new();
    let mut seed = first;
    while !is_over(arguments, &setup, seed - first, begun) {
        let last = arguments.rounds.map_or(u64::MAX, |rounds| first.saturating_add(rounds));
        let end = last.min(seed.saturating_add(ROUNDS_PER_CHILD));
        let rounds = (seed..end).map(|seed| (seed, actions(arguments, seed)));
        let Some(failure) = setup.play(rounds, SECONDS_MAX)? else {
            seed = end;
            continue;
        };
        seed = failure.seed + 1;
        if seen.insert(failure.signature.clone()) {
            report(arguments, &setup, failure)?;
        }
        if !arguments.all {
            break;
        }
    }
    summarize(arguments, &setup, seed - first, begun);
    println!("{} kinds of differences", seen.len());
    Ok(seen.is_empty())
}

fn is_over(arguments: &Arguments, setup: &Setup, rounds: u64, begun: Instant) -> bool {
    let calls: u64 = calls(setup);
    let unlimited =
        arguments.rounds.is_none() && arguments.calls.is_none() && arguments.only.is_none();
    let seconds = arguments.seconds.or(unlimited.then_some(10));
    arguments.rounds.is_some_and(|count| rounds >= count)
        || arguments.only.is_some() && rounds > 0
        || arguments.calls.is_some_and(|count| calls >= count)
        || seconds.is_some_and(|count| begun.elapsed() >= Duration::from_secs(count))
}

fn actions(arguments: &Arguments, seed: u64) -> Vec<action::Action> {
    let actions = generate::round(seed, arguments.everything);
    match &arguments.only {
        None => actions,
        Some(kept) => kept.iter().filter_map(|number| actions.get(*number).cloned()).collect(),
    }
}

fn report(arguments: &Arguments, setup: &Setup, failure: Failure) -> Result<(), String> {
    let actions = actions(arguments, failure.seed);
    let seed = failure.seed;
    println!("\nround {seed}: {}", failure.signature);
    let (kept, failure, repeated) = shrink::shrink(setup, &actions, failure)?;
    if !repeated {
        println!("(only after other rounds of the same process, or not each time)");
    }
    for (place, number) in kept.iter().enumerate() {
        let arrow = if place == failure.action { "->" } else { "  " };
        println!("{arrow} {number:3} {:?}", actions[*number]);
    }
    print!("{}", failure.description);
    let plant = arguments.plant.and_then(|plant| {
        plant::Plant::ALL.iter().find(|(_, other)| *other == plant).map(|(name, _)| name)
    });
    let numbers: Vec<String> = match &arguments.only {
        None => kept.iter().map(usize::to_string).collect(),
        Some(only) => kept.iter().map(|place| only[*place].to_string()).collect(),
    };
    println!(
        "replay: capi-oracle --ours {} --stock {} --seed {seed} --only {}{}",
        arguments.ours.display(),
        arguments.stock.display(),
        numbers.join(","),
        plant.map_or(String::new(), |name| format!(" --plant {name}")),
    );
    Ok(())
}

fn summarize(arguments: &Arguments, setup: &Setup, rounds: u64, begun: Instant) {
    let calls = calls(setup);
    let seconds = begun.elapsed().as_secs_f64();
    let agreed = setup.shared.agreed.load(Ordering::Relaxed);
    let went_on = setup.shared.went_on.load(Ordering::Relaxed);
    println!(
        "\n{rounds} rounds, {calls} calls, {:.0} calls/s; {agreed} plays agreed to the end, {went_on} ended where stock was busy, or at a known difference",
        calls as f64 / seconds,
    );
    if arguments.coverage {
        for (name, count) in library::NAMES.iter().zip(setup.shared.our_calls) {
            if count.load(Ordering::Relaxed) == 0 {
                println!("never called: {name}");
            }
        }
    }
}

fn calls(setup: &Setup) -> u64 {
    setup.shared.our_calls.iter().map(|count| count.load(Ordering::Relaxed)).sum()
}

fn seed_of_the_clock() -> u64 {
    // Seconds and a bit of the process: short enough to be typed.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    now % 1_000_000 * 1_000 + u64::from(process::id() % 1_000)
}

/// In memory where there is a place for it: rounds make and sync many files.
fn make_directory() -> std::io::Result<PathBuf> {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { env::temp_dir() };
    let directory = base.join(format!("capi-oracle-{}", process::id()));
    fs::create_dir_all(&directory)?;
    Ok(directory)
}
