//! The sqlite3 shell beside a full queue: it writes, reads and checkpoints, as other programs do.

mod peer;
mod reader;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use super::{
    READY_PATIENCE, Writer, job, median_and_max, place, report, results, unexpected_errors,
};
use crate::ledger::Ledger;
use crate::worker::Act;
use crate::{shell, verdict};

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[arg(long, default_value_t = 8)]
    processes: i64,
    #[arg(long, default_value_t = 8)]
    threads: i64,
    /// Writes of the shell, each a process with `.timeout 5000`.
    #[arg(long, default_value_t = 100)]
    writes: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 1)]
    rounds: u64,
    #[arg(long, default_value_t = 0)]
    from_round: u64,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Another shell checkpoints, truncates the WAL and vacuums meanwhile.
    #[arg(long)]
    checkpointer: bool,
}

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let (mut green, began, mut writes, mut acknowledged) = (true, Instant::now(), 0, 0);
    let rounds = arguments.from_round..arguments.from_round + arguments.rounds;
    for round in rounds.clone() {
        let (is_green, succeeded, acked) = play(arguments, round)?;
        green &= is_green;
        writes += succeeded;
        acknowledged += acked;
    }
    let figures =
        [("rounds", arguments.rounds), ("writes", writes), ("acknowledged", acknowledged)];
    results::append(arguments.json.as_deref(), "stock", arguments.seed, began, rounds, figures)?;
    Ok(green)
}

/// Whether there was no finding; how often the shell wrote, and the others meanwhile.
fn play(arguments: &Arguments, round: u64) -> Result<(bool, u64, u64)> {
    let round_seed = arguments.seed.wrapping_add(round.wrapping_mul(1_000_003));
    let (directory, database) = place()?;
    shell::create(&database)?;
    shell::run(&database, &["CREATE TABLE peer (n INTEGER)"])?;
    let mut crew = (0..arguments.processes)
        .map(|number| {
            let mut job = job(&database, Act::Storm, number, round_seed);
            job.threads = arguments.threads;
            Writer::start(&job, None)
        })
        .collect::<Result<Vec<Writer>>>()?;
    for writer in &crew {
        writer.child.wait_for("ack", READY_PATIENCE)?;
    }

    let stop = core::sync::atomic::AtomicBool::new(false);
    let (mut findings, mut figures, mut looks, mut checkpoints) = (vec![], vec![], vec![], None);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| reader::look_until(&stop, &database));
        let checkpointer = arguments
            .checkpointer
            .then(|| scope.spawn(|| peer::checkpoint_until(&stop, &database)));
        figures = peer::write(&database, arguments.writes, &mut findings);
        stop.store(true, core::sync::atomic::Ordering::Relaxed);
        looks = reader.join().expect("the reader panicked");
        checkpoints = checkpointer.map(|thread| thread.join().expect("the checkpointer panicked"));
    });
    crew.iter_mut().for_each(|writer| writer.child.say("stop"));
    let mut ledger = Ledger::new(round_seed, true);
    for writer in crew {
        writer.finish(&mut ledger, &mut findings)?;
    }

    let succeeded = figures.len();
    let (median, max) = median_and_max(figures);
    println!(
        "shell: {succeeded} of {} writes, median {median:.0} ms, max {max:.0} ms; {} looks; {} \
         acknowledged by {} writers meanwhile",
        arguments.writes,
        looks.len(),
        ledger.acked.len(),
        arguments.processes * arguments.threads
    );
    if let Some(checkpoints) = checkpoints {
        println!("{checkpoints}");
    }
    let peer = shell::run(&database, &["SELECT count(*), count(DISTINCT n) FROM peer"])?;
    if peer.trim() != format!("{succeeded}|{succeeded}") {
        findings.push(format!("the shell was told {succeeded} times of success; there: {peer}"));
    }
    findings.extend(unexpected_errors(&ledger, false));
    findings.extend(reader::check(&looks, &ledger));
    findings.extend(verdict::examine(&database, &ledger)?.findings);
    let Arguments { processes, threads, writes, seed, checkpointer, .. } = arguments;
    let checkpointer = if *checkpointer { " --checkpointer" } else { "" };
    let replay = format!(
        "stock --processes {processes} --threads {threads} --writes {writes} --seed {seed} \
         --from-round {round}{checkpointer}"
    );
    let acked = ledger.acked.len() as u64;
    Ok((report(&findings, &replay, Some(directory)), succeeded as u64, acked))
}
