//! Histories of many threads of several processes, with kills and the sqlite3 shell beside them, judged by
//! a checker that was written by others, for any database: see `crate::black_box`.

use core::sync::atomic::{AtomicBool, Ordering};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use fastrand::Rng;
use tempfile::TempDir;

use super::crew::{Crew, log_path};
use super::{memory_directory, report, results};
use crate::black_box::history::{Told, Verdict, judge, of_player};
use crate::black_box::{peer, script};
use crate::isolation::log;
use crate::shell;
use crate::worker::Act;

/// Players that one process can have.
const PLAYERS_OF_PROCESS: i64 = 1000;

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// How many transactions are tried, in all rounds together.
    #[arg(long, default_value_t = 1_000_000)]
    transactions: u64,
    /// No round begins after so many seconds.
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    #[arg(long, default_value_t = 4)]
    processes: i64,
    #[arg(long, default_value_t = 4)]
    threads: i64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Resumes with this round.
    #[arg(long, default_value_t = 0)]
    from_round: u64,
    /// Transactions of one round, which are one history.
    #[arg(long, default_value_t = 12_500)]
    round: u64,
    /// Processes killed in each round.
    #[arg(long, default_value_t = 2)]
    kills: u64,
    /// Without the sqlite3 shell.
    #[arg(long)]
    alone: bool,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
    /// One line per round.
    #[arg(long)]
    verbose: bool,
}

impl Arguments {
    fn replay(&self, round: u64) -> String {
        let Arguments { processes, threads, seed, kills, round: size, .. } = self;
        let alone = if self.alone { " --alone" } else { "" };
        format!(
            "black-box --seed {seed} --from-round {round} --transactions {size} --round {size} \
             --processes {processes} --threads {threads} --kills {kills}{alone}"
        )
    }
}

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let began = Instant::now();
    let (mut sum, mut told, mut deaths, mut red) = (Verdict::default(), 0, 0, 0);
    let rounds = arguments.transactions.div_ceil(arguments.round);
    let mut number = arguments.from_round;
    while number < arguments.from_round + rounds && began.elapsed().as_secs() < arguments.seconds {
        let round = play(arguments, number)?;
        let Verdict { findings, committed, failed, unknown } = round.verdict;
        if arguments.verbose {
            println!(
                "round {number}: {} told, {committed} committed, {failed} conflicts, {} deaths, \
                 {:.0} s so far, of which the checker had {:.1} s",
                round.told,
                round.deaths,
                began.elapsed().as_secs_f64(),
                round.check_seconds
            );
        }
        sum.committed += committed;
        sum.failed += failed;
        sum.unknown += unknown;
        told += round.told;
        deaths += round.deaths;
        red += u64::from(!report(&findings, &arguments.replay(number), Some(round.directory)));
        number += 1;
    }
    let Verdict { committed, failed, unknown, .. } = sum;
    println!(
        "{told} transactions in {:.0} s, {committed} committed, {failed} conflicts, {unknown} whose \
         end nobody knew; {deaths} processes killed",
        began.elapsed().as_secs_f64()
    );
    println!(
        "{} rounds, {red} with findings; seed {}, resume with --from-round {number}",
        number - arguments.from_round,
        arguments.seed
    );
    let figures = [
        ("rounds", number - arguments.from_round),
        ("transactions", told as u64),
        ("committed", committed as u64),
        ("conflicts", failed as u64),
        ("unknown", unknown as u64),
        ("killed", deaths),
    ];
    let rounds = arguments.from_round..number;
    results::append(
        arguments.json.as_deref(),
        "black-box",
        arguments.seed,
        began,
        rounds,
        figures,
    )?;
    Ok(red == 0)
}

/// What one round came to.
struct Round {
    directory: TempDir,
    verdict: Verdict,
    told: usize,
    deaths: u64,
    check_seconds: f64,
}

fn play(arguments: &Arguments, number: u64) -> Result<Round> {
    let directory = memory_directory()?;
    let database = directory.path().join("app.db");
    shell::run(&database, &["PRAGMA journal_mode = WAL", script::SCHEMA])?;
    let mut dice = Rng::with_seed(arguments.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let seed = dice.u64(..);
    let Arguments { processes, threads, kills, .. } = *arguments;
    let count = arguments.round.div_ceil((processes * threads).unsigned_abs().max(1));
    let crew = Crew { act: Act::Lists, processes, threads, kills, seed, count };

    let stop = AtomicBool::new(false);
    let (mut findings, mut told, mut deaths) = (Vec::new(), Vec::new(), 0);
    std::thread::scope(|scope| -> Result<()> {
        let peer = (!arguments.alone).then(|| {
            let (stop, database) = (&stop, &database);
            scope.spawn(move || peer::play(database, seed ^ 1, || stop.load(Ordering::Relaxed)))
        });
        let crew = crew.work(&database, &mut dice, &mut findings, &mut deaths);
        stop.store(true, Ordering::Relaxed);
        if let Some(peer) = peer {
            told.extend(peer.join().expect("the shell's thread panicked")?);
        }
        for process in 0..crew? {
            for thread in 0..threads {
                let log = log_path(&database, process, thread);
                // One that was killed before it began has none.
                if log.exists() {
                    let player = (process + 1) * PLAYERS_OF_PROCESS + thread;
                    told.extend(of_player(player, log::records(&log)?));
                }
            }
        }
        Ok(())
    })?;
    let integrity = shell::run(&database, &["PRAGMA integrity_check"])?;
    if integrity.trim() != "ok" {
        findings.push(format!("integrity_check: {}", integrity.trim()));
    }
    let all: Told = peer::read_all(&database, &told)?;
    told.push(all);
    let began = Instant::now();
    let mut verdict = judge(&told);
    let check_seconds = began.elapsed().as_secs_f64();
    verdict.findings.splice(0..0, findings);
    Ok(Round { directory, verdict, told: told.len(), deaths, check_seconds })
}
