//! Random transactions from many threads of several processes, with kills, checkpoints and the sqlite3
//! shell beside them: what each saw must be what it sees in one serial order.
//!
//! A round has a file of its own, and depends on the seed and its number only, as far as processes that
//! run beside each other can. Several are played at the same time: one is judged, or waits for a death,
//! while another writes.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::Result;
use fastrand::Rng;
use tempfile::TempDir;

use super::crew::{Crew, log_path};
use super::{beside_each_other, lock, memory_directory, report, results};
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
    /// No round begins when so many have been checked.
    #[arg(long, default_value_t = u64::MAX)]
    checked: u64,
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
    /// How many rounds are played at the same time.
    #[arg(long, default_value_t = 2)]
    jobs: u64,
    /// Processes killed in each round.
    #[arg(long, default_value_t = 4)]
    kills: u64,
    /// Without the sqlite3 shell, which writes in every third round.
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
    /// Until it is kept.
    directory: Option<TempDir>,
    verdict: Verdict,
    kinds: BTreeMap<Kind, usize>,
    told: usize,
    deaths: u64,
}

/// What all rounds together came to.
#[derive(Default)]
struct Tally {
    rounds: u64,
    red: u64,
    told: usize,
    deaths: u64,
    checked: usize,
    readers: usize,
    results: usize,
    conflicts: usize,
    unknown: usize,
    unknown_committed: usize,
    kinds: BTreeMap<Kind, usize>,
}

impl Tally {
    fn add(&mut self, round: Round, is_red: bool) {
        let verdict = round.verdict;
        self.rounds += 1;
        self.red += u64::from(is_red);
        self.told += round.told;
        self.deaths += round.deaths;
        self.checked += verdict.checked;
        self.readers += verdict.readers;
        self.results += verdict.results;
        self.conflicts += verdict.conflicts;
        self.unknown += verdict.unknown;
        self.unknown_committed += verdict.unknown_committed;
        let kinds = round.kinds.into_iter();
        kinds.for_each(|(kind, count)| *self.kinds.entry(kind).or_default() += count);
    }
}

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let began = Instant::now();
    let end = arguments.from_round + arguments.transactions.div_ceil(arguments.round);
    let next = AtomicU64::new(arguments.from_round);
    let tally = Mutex::new(Tally::default());
    let work = || -> Result<()> {
        let is_enough = || lock(&tally).checked as u64 >= arguments.checked;
        while began.elapsed().as_secs() < arguments.seconds && !is_enough() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= end {
                break;
            }
            let mut round = play(arguments, number)?;
            // Told as a whole.
            let mut tally = lock(&tally);
            if arguments.verbose {
                println!(
                    "round {number}: {} told, {} checked, {} conflicts, {} deaths, {:.0} s so far",
                    round.told,
                    round.verdict.checked,
                    round.verdict.conflicts,
                    round.deaths,
                    began.elapsed().as_secs_f64()
                );
            }
            let directory = round.directory.take();
            let is_green = report(&round.verdict.findings, &arguments.replay(number), directory);
            tally.add(round, !is_green);
        }
        Ok(())
    };
    beside_each_other(arguments.jobs, work)?;
    let tally = lock(&tally);
    print(&tally, began.elapsed().as_secs_f64());
    let figures = [
        ("rounds", tally.rounds),
        ("transactions", tally.told as u64),
        ("checked", tally.checked as u64),
        ("results", tally.results as u64),
        ("conflicts", tally.conflicts as u64),
        ("unknown", tally.unknown as u64),
        ("killed", tally.deaths),
    ];
    // A round that was begun was ended.
    let rounds = arguments.from_round..next.into_inner().min(end);
    let json = arguments.json.as_deref();
    results::append(json, "isolation", arguments.seed, began, rounds, figures)?;
    Ok(tally.red == 0)
}

fn print(tally: &Tally, seconds: f64) {
    let Tally { rounds, red, told, deaths, checked, readers, results, conflicts, .. } = tally;
    println!(
        "{told} transactions in {seconds:.0} s, {checked} committed and checked ({readers} only \
         read), {results} results compared, {conflicts} conflicts"
    );
    println!(
        "{deaths} processes killed; {} transactions whose end nobody knew, {} of them committed",
        tally.unknown, tally.unknown_committed
    );
    println!("acknowledged: {:?}", tally.kinds);
    println!("{rounds} rounds, {red} with findings");
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
        // Most rounds are without it: its commits are what ours cannot know of, and hide what goes wrong with what ours
        // know of each other.
        let peer = (!arguments.alone && number.is_multiple_of(3)).then(|| {
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
    Ok(Round { directory: Some(directory), verdict, kinds, told: told.len(), deaths })
}
