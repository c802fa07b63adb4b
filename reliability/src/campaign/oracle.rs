//! The same random calls of SQLite's C interface on the library in the place of libsqlite3 and on plain SQLite: what `capi-oracle`
//! (crates/manyhands-c-oracle) finds to be different. It and both libraries have to be built: `make dropin`, and `cargo build --release -p
//! manyhands-c-oracle`.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::{report, results};

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Rounds of some 150 calls, each known by its number and the seed.
    #[arg(long, default_value_t = 3000)]
    rounds: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Resumes with this round.
    #[arg(long, default_value_t = 0)]
    from_round: u64,
    /// Instead: the oracle must find each of the differences that it can plant.
    #[arg(long)]
    planted: bool,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Where the libraries and the oracle are.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The rounds of a seed of the campaign, among the oracle's seeds.
const NEXT_SEED: u64 = 1_000_000_000;

/// How many rounds the oracle plays in one process: a difference may come of an earlier round.
const TOGETHER: u64 = 100;

/// What the oracle can plant, and one that it cannot miss in so many rounds.
const PLANTS: [&str; 8] =
    ["result-code", "hook", "order", "message", "value", "destructor", "crash", "hang"];
const PLANTED_ROUNDS: &str = "2000";

/// What the oracle said.
#[derive(Debug, Default, PartialEq)]
struct Told {
    rounds: u64,
    calls: u64,
    agreed: u64,
    ended_early: u64,
    /// The rounds that differed: the oracle's seed, and what differed.
    found: Vec<(u64, String)>,
}

impl Told {
    /// Nothing where the oracle did not come to its end.
    fn read(output: &str) -> Option<Told> {
        let mut told = Told::default();
        let mut is_whole = false;
        for line in output.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["round", seed, ..] => {
                    let (_, what) = line.split_once(": ")?;
                    told.found.push((seed.trim_end_matches(':').parse().ok()?, what.to_owned()));
                }
                [rounds, "rounds,", calls, "calls,", _, _, agreed, "plays", ..] => {
                    is_whole = true;
                    told.rounds = rounds.parse().ok()?;
                    told.calls = calls.parse().ok()?;
                    told.agreed = agreed.parse().ok()?;
                    let place = words.iter().position(|word| *word == "ended")?;
                    told.ended_early = words.get(place - 1)?.parse().ok()?;
                }
                _ => {}
            }
        }
        is_whole.then_some(told)
    }
}

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    if arguments.planted {
        return plant(arguments);
    }
    let began = Instant::now();
    let Arguments { rounds, seed, from_round, .. } = *arguments;
    let base = seed.wrapping_mul(NEXT_SEED);
    let (first, count) = ((base + from_round).to_string(), rounds.to_string());
    let told = ask(&["--seed", &first, "--rounds", &count, "--all"])?;
    let Told { calls, agreed, ended_early, .. } = told;
    println!("{} rounds, {calls} calls, {agreed} plays agreed to the end", told.rounds);
    println!("{ended_early} ended where plain SQLite was busy, or at a known difference");
    let mut green = true;
    for (round, what) in told.found {
        // From the beginning of its process on.
        let number = round.saturating_sub(base);
        let from = number - (number - from_round) % TOGETHER;
        let replay = format!("oracle --seed {seed} --from-round {from} --rounds {TOGETHER}");
        green &= report(&[format!("round {number}: {what}")], &replay, None);
    }
    let figures = [
        ("rounds", told.rounds),
        ("calls", calls),
        ("agreed", agreed),
        ("ended_early", ended_early),
    ];
    let places = from_round..from_round + rounds;
    results::append(arguments.json.as_deref(), "oracle", seed, began, places, figures)?;
    Ok(green)
}

fn plant(arguments: &Arguments) -> Result<bool> {
    let (began, mut caught, mut green) = (Instant::now(), 0, true);
    for plant in PLANTS {
        let seed = arguments.seed.to_string();
        let told = ask(&["--seed", &seed, "--rounds", PLANTED_ROUNDS, "--plant", plant])?;
        match told.found.first() {
            Some((round, what)) => {
                println!("caught {plant} in round {round}: {what}");
                caught += 1;
            }
            None => {
                let replay = format!("oracle --planted --seed {seed}");
                green &= report(&[format!("{plant} survives")], &replay, None);
            }
        }
    }
    let figures = [("planted", PLANTS.len() as u64), ("caught", caught)];
    let file = arguments.json.as_deref();
    results::append(file, "oracle --planted", arguments.seed, began, 0..1, figures)?;
    Ok(green)
}

/// What the oracle says to these words.
fn ask(words: &[&str]) -> Result<Told> {
    let mut command = Command::new("target/release/capi-oracle");
    command.current_dir(ROOT).args(words);
    command.args(["--ours", "target/dropin/lib/libsqlite3.so.0"]);
    command.args(["--stock", "target/dropin/stock/libsqlite3.so.0"]);
    command.args(["--known", "crates/manyhands-c-oracle/known_differences.txt"]);
    let output = command.output().context("start target/release/capi-oracle")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let told = Told::read(&text);
    ensure!(told.is_some(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    let told = told.unwrap_or_default();
    let differs = output.status.code() == Some(1);
    ensure!(differs != told.found.is_empty(), "{}, and it found {:?}", output.status, told.found);
    Ok(told)
}

/// How many differences can be planted.
#[cfg(test)]
pub const fn planted_count() -> u64 {
    PLANTS.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_oracle_says_is_counted() {
        let words = "seed 7\n\nround 9: GetTable: stock get_table: SQLITE_OK, ours get_table: SQLITE_BUSY\n-> 52 GetTable\n\
             \n3000 rounds, 431810 calls, 19419 calls/s; 2914 plays agreed to the end, 152 ended where stock was busy, or at a known \
             difference\n1 kinds of differences\n";
        let found = "GetTable: stock get_table: SQLITE_OK, ours get_table: SQLITE_BUSY";
        let told = Told {
            rounds: 3000,
            calls: 431_810,
            agreed: 2914,
            ended_early: 152,
            found: vec![(9, found.to_owned())],
        };
        assert_eq!(Told::read(words), Some(told));
        assert_eq!(Told::read("seed 7\n"), None, "it broke off");
    }
}
