//! Rounds of eight writers, of which one or more are killed.
//!
//! A round's victims die at a random moment, or at a named crash point of the product. The others go
//! on for a while. Points that only a successor passes (`recovering`, `recovered`) get a chain of
//! deaths: one writer dies with a batch in hand, and the successors die while they settle it.

mod fate;
mod gap;
mod hammer;
mod round;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use manyhands_queue::crash::POINTS;

pub use self::fate::Fate;
pub use self::round::play;

use super::{median_and_max, report, results};

/// The longest pause of the survivors that is no finding. Timings decide nothing: this is a hang.
const PAUSE_LIMIT_MS: f64 = 5_000.0;

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[arg(long, default_value_t = 100)]
    pub rounds: u64,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
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
            "kill --seed {} --from-round {round} --rounds 1 --processes {} --threads {} --after-ms \
             {}{}{peer}{hammer}",
            self.seed,
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
    rounds: u64,
    deaths: u64,
    missed: u64,
    at_the_point: u64,
    rows: usize,
    acked: usize,
    gaps: Vec<f64>,
}

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let began = Instant::now();
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let (mut red, mut usual_gaps) = (0, Vec::new());
    for number in arguments.from_round..arguments.from_round + arguments.rounds {
        let fate = Fate::draw(arguments.seed, number, arguments.point.as_deref())?;
        let mut round = play(arguments, number, &fate)?;
        if let Some(gap) = round.gap_ms.filter(|gap| *gap > PAUSE_LIMIT_MS) {
            round.findings.push(format!("the survivors stood still for {gap:.0} ms"));
        }
        if arguments.verbose || !round.findings.is_empty() {
            println!(
                "round {number}: {fate}, {} deaths, {} acknowledged, {} rows, gap {:?} ms",
                round.deaths,
                round.ledger.acked.len(),
                round.rows,
                round.gap_ms
            );
        }
        let tally = tallies.entry(fate.name().to_owned()).or_default();
        tally.rounds += 1;
        tally.deaths += round.deaths;
        tally.missed += u64::from(round.missed);
        tally.at_the_point += match fate {
            // The first died elsewhere.
            Fate::Chain { .. } => round.deaths.saturating_sub(1),
            _ => round.deaths - u64::from(round.missed).min(round.deaths),
        };
        tally.rows += round.rows;
        tally.acked += round.ledger.acked.len();
        tally.gaps.extend(round.gap_ms);
        usual_gaps.extend(round.usual_gap_ms);
        if !report(&round.findings, &arguments.replay(number), Some(round.directory)) {
            red += 1;
        }
    }
    let figures = figures(&tallies);
    print(tallies, usual_gaps);
    println!("{} rounds, {red} with findings", arguments.rounds);
    let rounds = arguments.from_round..arguments.from_round + arguments.rounds;
    let name = if arguments.hammer { "kill --hammer" } else { "kill" };
    results::append(arguments.json.as_deref(), name, arguments.seed, began, rounds, figures)?;
    Ok(red == 0)
}

/// The sums, and the deaths at each point.
fn figures(tallies: &BTreeMap<String, Tally>) -> BTreeMap<String, u64> {
    let sum = |of: fn(&Tally) -> u64| tallies.values().map(of).sum();
    let mut figures = BTreeMap::from([
        ("rounds".to_owned(), sum(|tally| tally.rounds)),
        ("deaths".to_owned(), sum(|tally| tally.deaths)),
        ("acknowledged".to_owned(), sum(|tally| tally.acked as u64)),
        ("rows".to_owned(), sum(|tally| tally.rows as u64)),
    ]);
    figures.extend(POINTS.iter().map(|point| {
        (format!("at {point}"), tallies.get(*point).map_or(0, |tally| tally.at_the_point))
    }));
    figures
}

fn print(tallies: BTreeMap<String, Tally>, usual_gaps: Vec<f64>) {
    println!("{:18} rounds deaths missed  acked   rows  gap median    max (ms)", "point");
    let mut all = Tally::default();
    for (name, tally) in tallies {
        let (median, max) = median_and_max(tally.gaps.clone());
        let Tally { rounds, deaths, missed, rows, acked, gaps, .. } = tally;
        println!(
            "{name:18} {rounds:6} {deaths:6} {missed:6} {acked:6} {rows:6} {median:11.1} {max:6.1}"
        );
        all.deaths += deaths;
        all.acked += acked;
        all.rows += rows;
        all.gaps.extend(gaps);
    }
    let within = all.gaps.iter().filter(|gap| **gap <= 100.0).count();
    let (count, (median, max)) = (all.gaps.len(), median_and_max(all.gaps));
    let (usual_median, usual_max) = median_and_max(usual_gaps);
    println!("{} deaths, {} acknowledged, {} rows", all.deaths, all.acked, all.rows);
    println!(
        "longest gap of the survivors around a death: median {median:.1} ms, max {max:.1} ms; \
         {within} of {count} within 100 ms"
    );
    println!("longest gap before a death: median {usual_median:.1} ms, max {usual_max:.1} ms");
}
