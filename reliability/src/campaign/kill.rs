//! Rounds of eight writers, of which one or more are killed.
//!
//! Victims die at a random moment, or at a named crash point of the product, and others take their places until the
//! round has had its deaths. The survivors go on for a while. Before points that only a successor passes
//! (`recovering`, `recovered`) one writer dies with a batch in hand.

mod fate;
mod gap;
mod hammer;
mod round;

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::Result;
use manyhands_queue::crash::POINTS;

pub use self::fate::Fate;
pub use self::round::{Round, play};

use super::{beside_each_other, lock, median_and_max, report, results};

/// The longest pause of the survivors that is no finding. Timings decide nothing: this is a hang.
const PAUSE_LIMIT_MS: f64 = 5_000.0;

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[arg(long, default_value_t = 20)]
    pub rounds: u64,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Deaths in each round; a few more where one needs another.
    #[arg(long, default_value_t = 100)]
    pub deaths: u64,
    /// Resumes: rounds are numbered, and each depends on the seed and its number only.
    #[arg(long, default_value_t = 0)]
    pub from_round: u64,
    /// Only this crash point; `random` for a random moment, `all` for all at a random moment.
    #[arg(long)]
    pub point: Option<String>,
    #[arg(long, default_value_t = 8)]
    pub processes: i64,
    /// Threads of each process.
    #[arg(long, default_value_t = 1)]
    pub threads: i64,
    /// How many rounds are played at the same time: a death leaves the processors idle for a while.
    #[arg(long, default_value_t = 3)]
    pub jobs: u64,
    /// How long the survivors write on.
    #[arg(long, default_value_t = 200)]
    pub after_ms: u64,
    /// The sqlite3 shell writes and truncates the WAL beside the writers.
    #[arg(long)]
    pub peer: bool,
    /// A sqlite3 shell commits small transactions without pause beside the writers.
    #[arg(long)]
    pub hammer: bool,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// One line per round.
    #[arg(long)]
    pub verbose: bool,
}

impl Arguments {
    fn replay(&self, round: u64) -> String {
        let point = self.point.as_ref().map(|point| format!(" --point {point}"));
        let peer = if self.peer { " --peer" } else { "" };
        let hammer = if self.hammer { " --hammer" } else { "" };
        format!(
            "kill --seed {} --from-round {round} --rounds 1 --deaths {} --processes {} --threads {} \
             --after-ms {}{}{peer}{hammer}",
            self.seed,
            self.deaths,
            self.processes,
            self.threads,
            self.after_ms,
            point.unwrap_or_default()
        )
    }
}

/// What is told of each kind of death at the end.
#[derive(Default)]
struct Tally {
    deaths: u64,
    /// Those that did not come to their point.
    missed: u64,
    gaps: Vec<f64>,
}

/// What is told of all rounds together.
#[derive(Default)]
struct Total {
    by_name: BTreeMap<&'static str, Tally>,
    rows: usize,
    acked: usize,
    usual_gaps: Vec<f64>,
    red: u64,
}

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let began = Instant::now();
    let rounds = arguments.from_round..arguments.from_round + arguments.rounds;
    let next = AtomicU64::new(rounds.start);
    let total = Mutex::new(Total::default());
    let work = || -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= rounds.end {
                return Ok(());
            }
            let point = arguments.point.as_deref();
            let fates = Fate::deal(arguments.seed, number, arguments.deaths, point)?;
            let told = fates.iter().map(Fate::to_string).collect::<Vec<_>>().join(", ");
            let mut round = play(arguments, number, fates)?;
            let gaps = round.deaths.iter().filter_map(|death| death.gap_ms);
            let gap = gaps.reduce(f64::max);
            if let Some(gap) = gap.filter(|gap| *gap > PAUSE_LIMIT_MS) {
                round.findings.push(format!("the survivors stood still for {gap:.0} ms"));
            }
            // Told as a whole.
            let mut total = lock(&total);
            if arguments.verbose || !round.findings.is_empty() {
                println!(
                    "round {number}: {told}: {} deaths, {} acknowledged, {} rows, gap {gap:?} ms",
                    round.deaths.iter().filter(|death| death.died).count(),
                    round.ledger.acked.len(),
                    round.rows,
                );
            }
            total.add(&round);
            let replay = arguments.replay(number);
            total.red += u64::from(!report(&round.findings, &replay, Some(round.directory)));
        }
    };
    beside_each_other(arguments.jobs, work)?;
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    total.print();
    println!("{} rounds, {} with findings", arguments.rounds, total.red);
    let name = if arguments.hammer { "kill --hammer" } else { "kill" };
    let (json, figures) = (arguments.json.as_deref(), total.figures(arguments.rounds));
    results::append(json, name, arguments.seed, began, rounds, figures)?;
    Ok(total.red == 0)
}

impl Total {
    fn add(&mut self, round: &Round) {
        for death in &round.deaths {
            let tally = self.by_name.entry(death.name).or_default();
            tally.deaths += u64::from(death.died);
            tally.missed += u64::from(death.missed);
            tally.gaps.extend(death.gap_ms);
        }
        self.rows += round.rows;
        self.acked += round.ledger.acked.len();
        self.usual_gaps.extend(&round.usual_gaps_ms);
    }

    fn deaths(&self) -> u64 {
        self.by_name.values().map(|tally| tally.deaths).sum()
    }

    /// The sums, and the deaths at each point.
    fn figures(&self, rounds: u64) -> BTreeMap<String, u64> {
        let mut figures = BTreeMap::from([
            ("rounds".to_owned(), rounds),
            ("deaths".to_owned(), self.deaths()),
            ("acknowledged".to_owned(), self.acked as u64),
            ("rows".to_owned(), self.rows as u64),
        ]);
        figures.extend(POINTS.iter().map(|point| {
            let there = |tally: &Tally| tally.deaths.saturating_sub(tally.missed);
            (format!("at {point}"), self.by_name.get(point).map_or(0, there))
        }));
        figures
    }

    fn print(&self) {
        println!("{:18} deaths missed  gap median    max (ms)", "point");
        let mut gaps = Vec::new();
        for (name, tally) in &self.by_name {
            let (median, max) = median_and_max(tally.gaps.clone());
            let Tally { deaths, missed, .. } = tally;
            println!("{name:18} {deaths:6} {missed:6} {median:11.1} {max:6.1}");
            gaps.extend(&tally.gaps);
        }
        let deaths = self.deaths();
        println!("{deaths} deaths, {} acknowledged, {} rows", self.acked, self.rows);
        let within = gaps.iter().filter(|gap| **gap <= 100.0).count();
        let (count, (median, max)) = (gaps.len(), median_and_max(gaps));
        println!(
            "longest gap of the survivors around a death: median {median:.1} ms, max {max:.1} ms; \
             {within} of {count} within 100 ms"
        );
        let (median, max) = median_and_max(self.usual_gaps.clone());
        println!("longest gap before a death: median {median:.1} ms, max {max:.1} ms");
    }
}
