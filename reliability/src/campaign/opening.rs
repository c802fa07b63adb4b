//! Many processes open a database that does not exist yet, make the same tables, and insert one row
//! each: no error, all rows.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Writer, job, place, report, results, unexpected_errors};
use crate::ledger::Ledger;
use crate::verdict;
use crate::worker::Act;

/// How long all together may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[arg(long, default_value_t = 200)]
    processes: i64,
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 0)]
    from_round: u64,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let (mut green, mut rows, campaign_began) = (true, 0, Instant::now());
    for round in arguments.from_round..arguments.from_round + arguments.rounds {
        let (directory, database) = place()?;
        let seed = arguments.seed.wrapping_mul(1_000_003).wrapping_add(round);
        let (mut ledger, mut findings) = (Ledger::new(seed, true), Vec::new());
        let began = Instant::now();
        let mut crew = (0..arguments.processes)
            .map(|number| Writer::start(&job(&database, Act::Open, number, seed), None))
            .collect::<Result<Vec<Writer>>>()?;
        for writer in &mut crew {
            writer.child.dies_within(PATIENCE.saturating_sub(began.elapsed()))?;
        }
        let took = began.elapsed();
        for writer in crew {
            writer.finish(&mut ledger, &mut findings)?;
        }
        findings.extend(unexpected_errors(&ledger, false));
        let verdict = verdict::examine(&database, &ledger)?;
        findings.extend(verdict.findings);
        rows += verdict.rows as u64;
        if verdict.rows as i64 != arguments.processes {
            findings.push(format!("{} rows of {}", verdict.rows, arguments.processes));
        }
        println!("{} processes opened, {} rows, {took:.1?}", arguments.processes, verdict.rows);
        let Arguments { processes, seed, .. } = arguments;
        let replay = format!(
            "opening --processes {processes} --seed {seed} --from-round {round} --rounds 1"
        );
        green &= report(&findings, &replay, Some(directory));
    }
    let rounds = arguments.from_round..arguments.from_round + arguments.rounds;
    let figures = [("rounds", arguments.rounds), ("processes", rows)];
    let (file, seed) = (arguments.json.as_deref(), arguments.seed);
    results::append(file, "opening", seed, campaign_began, rounds, figures)?;
    Ok(green)
}
