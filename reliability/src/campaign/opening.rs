//! Many processes open a database that does not exist yet, make the same tables, and insert one row
//! each: no error, all rows. So it is too where they are of two versions, which cannot share a queue.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Writer, job, place, report, results, unexpected_errors};
use crate::ledger::Ledger;
use crate::preload::Preload;
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
    /// Every second process is of another version, whose queue has another layout.
    #[arg(long)]
    versions: bool,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 0)]
    from_round: u64,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// How many processes write in a relay, and how many rows each of them.
const STINTS: i64 = 8;
/// See [`STINTS`].
const STINT_ROWS: u64 = 200;

/// Processes of two versions that write beside each other for a while: as each ends others go on, so that guests become
/// members and newcomers guests.
fn relay(database: &Path, first: i64, seed: u64) -> Result<Vec<Writer>> {
    let mut crew: Vec<Writer> = Vec::new();
    for number in first..first + STINTS {
        let mut job = job(database, Act::Storm, number, seed);
        (job.threads, job.count) = (1, STINT_ROWS);
        crew.push(Writer::start_with(&job, None, &version(number))?);
        std::thread::sleep(Duration::from_millis(15));
    }
    for writer in &mut crew {
        writer.child.dies_within(PATIENCE)?;
    }
    Ok(crew)
}

/// Every second process is of another version.
fn version(number: i64) -> Preload {
    if number % 2 == 1 { Preload::another_layout() } else { Preload::default() }
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
            .map(|number| {
                let preload = if arguments.versions { version(number) } else { Preload::default() };
                Writer::start_with(&job(&database, Act::Open, number, seed), None, &preload)
            })
            .collect::<Result<Vec<Writer>>>()?;
        for writer in &mut crew {
            writer.child.dies_within(PATIENCE.saturating_sub(began.elapsed()))?;
        }
        let took = began.elapsed();
        if arguments.versions {
            crew.extend(relay(&database, arguments.processes, seed)?);
        }
        for writer in crew {
            writer.finish(&mut ledger, &mut findings)?;
        }
        findings.extend(unexpected_errors(&ledger, false));
        let verdict = verdict::examine(&database, &ledger)?;
        findings.extend(verdict.findings);
        rows += verdict.rows as u64;
        let stints = if arguments.versions { STINTS * STINT_ROWS as i64 } else { 0 };
        if verdict.rows as i64 != arguments.processes + stints {
            findings.push(format!("{} rows of {}", verdict.rows, arguments.processes + stints));
        }
        println!("{} processes opened, {} rows, {took:.1?}", arguments.processes, verdict.rows);
        let Arguments { processes, seed, .. } = arguments;
        let replay = format!(
            "opening --processes {processes}{} --seed {seed} --from-round {round} --rounds 1",
            if arguments.versions { " --versions" } else { "" }
        );
        green &= report(&findings, &replay, Some(directory));
    }
    let rounds = arguments.from_round..arguments.from_round + arguments.rounds;
    let figures = [("rounds", arguments.rounds), ("processes", rows)];
    let (file, seed) = (arguments.json.as_deref(), arguments.seed);
    results::append(file, "opening", seed, campaign_began, rounds, figures)?;
    Ok(green)
}
