//! Random transactions from many threads of several processes, with kills, checkpoints and the sqlite3
//! shell beside them: what each saw must be what it sees in one serial order.
//!
//! A round has a file of its own, and depends on the seed and its number only, as far as processes that
//! run beside each other can.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use fastrand::Rng;
use tempfile::TempDir;

use super::crew::{Crew, log_path};
use super::{memory_directory, report, results};
use crate::isolation::call::SCHEMA;
use crate::isolation::dice::Kind;
use crate::isolation::log::{self, Told};
use crate::isolation::peer::Peer;
use crate::isolation::verdict::{self, Found, Verdict};
use crate::shell;
use crate::worker::Act;

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// How many transactions are tried, in all rounds together.
    #[arg(long, default_value_t = 2_000_000)]
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
    /// Transactions of one round.
    #[arg(long, default_value_t = 30_000)]
    round: u64,
    /// Processes killed in each round.
    #[arg(long, default_value_t = 4)]
    kills: u64,
    /// Without the sqlite3 shell.
    #[arg(long)]
    alone: bool,
    /// On the disk that TMPDIR names, and not in memory.
    #[arg(long)]
    disk: bool,
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
        let (alone, disk) =
            (if self.alone { " --alone" } else { "" }, if self.disk { " --disk" } else { "" });
        format!(
            "isolation --seed {seed} --from-round {round} --transactions {size} --round {size} \
             --processes {processes} --threads {threads} --kills {kills}{alone}{disk}"
        )
    }
}

/// What one round came to.
struct Round {
    directory: TempDir,
    verdict: Verdict,
    kinds: BTreeMap<Kind, usize>,
    told: usize,
    deaths: u64,
}

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let began = Instant::now();
    let (mut told, mut checked, mut readers, mut results, mut deaths) = (0, 0, 0, 0, 0);
    let (mut conflicts, mut unknown, mut unknown_committed, mut red) = (0, 0, 0, 0);
    let mut kinds: BTreeMap<Kind, usize> = BTreeMap::new();
    let rounds = arguments.transactions.div_ceil(arguments.round);
    let mut number = arguments.from_round;
    while number < arguments.from_round + rounds && began.elapsed().as_secs() < arguments.seconds {
        let round = play(arguments, number)?;
        let Round { directory, verdict, .. } = round;
        if arguments.verbose {
            println!(
                "round {number}: {} told, {} checked, {} conflicts, {} deaths, {:.0} s so far",
                round.told,
                verdict.checked,
                verdict.conflicts,
                round.deaths,
                began.elapsed().as_secs_f64()
            );
        }
        told += round.told;
        deaths += round.deaths;
        checked += verdict.checked;
        readers += verdict.readers;
        results += verdict.results;
        conflicts += verdict.conflicts;
        unknown += verdict.unknown;
        unknown_committed += verdict.unknown_committed;
        round.kinds.into_iter().for_each(|(kind, count)| *kinds.entry(kind).or_default() += count);
        red += u64::from(!report(&verdict.findings, &arguments.replay(number), Some(directory)));
        number += 1;
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{told} transactions in {seconds:.0} s, {checked} committed and checked ({readers} only \
         read), {results} results compared, {conflicts} conflicts"
    );
    println!(
        "{deaths} processes killed; {unknown} transactions whose end nobody knew, \
         {unknown_committed} of them committed"
    );
    println!("acknowledged: {kinds:?}");
    println!("{} rounds, {red} with findings", number - arguments.from_round);
    let figures = [
        ("rounds", number - arguments.from_round),
        ("transactions", told as u64),
        ("checked", checked as u64),
        ("results", results as u64),
        ("conflicts", conflicts as u64),
        ("unknown", unknown as u64),
        ("killed", deaths),
    ];
    let rounds = arguments.from_round..number;
    results::append(
        arguments.json.as_deref(),
        "isolation",
        arguments.seed,
        began,
        rounds,
        figures,
    )?;
    Ok(red == 0)
}

/// In memory: this is about who sees what, not about power cuts.
fn place(on_disk: bool) -> Result<(TempDir, PathBuf)> {
    if on_disk {
        return super::place();
    }
    let directory = memory_directory()?;
    let database = directory.path().join("app.db");
    Ok((directory, database))
}

fn play(arguments: &Arguments, number: u64) -> Result<Round> {
    let (directory, database) = place(arguments.disk)?;
    shell::run(&database, &["PRAGMA journal_mode = WAL", SCHEMA])?;
    let mut dice = Rng::with_seed(arguments.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let seed = dice.u64(..);
    let hands = (arguments.processes * arguments.threads).unsigned_abs().max(1);
    let count = arguments.round.div_ceil(hands);

    let stop = AtomicBool::new(false);
    let (mut findings, mut told, mut deaths) = (Vec::new(), Vec::new(), 0);
    std::thread::scope(|scope| -> Result<()> {
        let peer = (!arguments.alone).then(|| {
            let (stop, database) = (&stop, &database);
            scope.spawn(move || -> Result<Vec<Told>> {
                Peer::start(database)?.play(seed ^ 1, || stop.load(Ordering::Relaxed))
            })
        });
        let Arguments { processes, threads, kills, .. } = *arguments;
        let crew = Crew { act: Act::Transactions, processes, threads, kills, seed, count };
        let crew = crew.work(&database, &mut dice, &mut findings, &mut deaths);
        stop.store(true, Ordering::Relaxed);
        if let Some(peer) = peer {
            told.extend(peer.join().expect("the shell's thread panicked")?);
        }
        for number in 0..crew? {
            for thread in 0..arguments.threads {
                let log = log_path(&database, number, thread);
                // One that was killed before it began has none.
                if log.exists() {
                    told.extend(log::read(&log)?);
                }
            }
        }
        Ok(())
    })?;
    let mut verdict = verdict::judge(&told, &Found::read(&database)?)?;
    verdict.findings.splice(0..0, findings);
    let kinds = verdict::by_kind(&told);
    Ok(Round { directory, verdict, kinds, told: told.len(), deaths })
}
