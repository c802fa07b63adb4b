//! One round: start, kill, wait, stop, look.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Signal;
use tempfile::TempDir;

use super::gap;
use super::hammer::Hammer;
use super::{Arguments, Fate};
use crate::campaign::{READY_PATIENCE, Writer, job, place, unexpected_errors};
use crate::clock::now_ns;
use crate::ledger::Ledger;
use crate::worker::Act;
use crate::{shell, verdict};

/// How long a victim may take to come to its point. Then it is killed where it is.
const POINT_PATIENCE: Duration = Duration::from_secs(3);

/// Around a death: what happened so long before it belongs to it, since the campaign learns of a death
/// at a point only when the pipe ends.
const BEFORE_NS: u64 = 20_000_000;

/// What came of a round.
#[derive(Debug)]
pub struct Round {
    pub findings: Vec<String>,
    pub ledger: Ledger,
    pub directory: TempDir,
    pub rows: usize,
    pub deaths: u64,
    /// The victim did not come to its point.
    pub missed: bool,
    /// The survivors' longest pause around the death, and before it.
    pub gap_ms: Option<f64>,
    pub usual_gap_ms: Option<f64>,
}

/// Plays one round.
pub fn play(arguments: &Arguments, number: u64, fate: &Fate) -> Result<Round> {
    let (directory, database) = place()?;
    shell::create(&database)?;
    let seed = arguments.seed.wrapping_mul(0x9E37_79B9).wrapping_add(number);
    let hammer = arguments.hammer.then(|| Hammer::start(&database)).transpose()?;
    let mut crew = (0..arguments.processes)
        .map(|number| {
            let mut job = job(&database, Act::Mix, number, seed);
            job.threads = arguments.threads;
            Writer::start(&job, fate.crash(number).as_deref())
        })
        .collect::<Result<Vec<Writer>>>()?;
    for writer in crew.iter().filter(|writer| !writer.is_victim) {
        writer.child.wait_for("ready", READY_PATIENCE)?;
    }
    let mut findings = Vec::new();
    let missed = kill(fate, &mut crew)?;
    let died_ns = crew[0].child.heard(|heard| heard.ended_ns).unwrap_or_else(now_ns);
    if !matches!(fate, Fate::All { .. }) {
        go_on(arguments, &database, &mut findings);
    }

    drop(hammer);

    // In the round of the last one to leave, the victim is told to stop when the others are gone.
    let (mut ledger, mut survivors) = (Ledger::new(seed, false), Vec::new());
    let to_ns = now_ns();
    let (first, others) = crew.split_at_mut(if *fate == Fate::Leaving { 1 } else { 0 });
    others.iter_mut().for_each(|writer| writer.child.say("stop"));
    for writer in others {
        writer.child.dies_within(crate::campaign::END_PATIENCE)?;
    }
    first.iter_mut().for_each(|writer| writer.child.say("stop"));
    let mut deaths = 0;
    for writer in crew {
        let number = writer.job.number;
        if writer.finish(&mut ledger, &mut findings)? {
            survivors.push(number);
        } else {
            deaths += 1;
        }
    }
    if fate.needs_heirs() {
        succeed(&database, seed, arguments.processes, &mut ledger, &mut findings)?;
    }
    // A shell that restarts the WAL at the moment of a death takes the evidence away: then the owners
    // must be told so. Without one, every outcome is known.
    let may_be_unknown = arguments.peer || arguments.hammer;
    findings.extend(unexpected_errors(&ledger, may_be_unknown));
    let verdict = verdict::examine(&database, &ledger)?;
    findings.extend(verdict.findings);
    let from_ns = died_ns.saturating_sub(BEFORE_NS);
    let measured = !fate.needs_heirs() && deaths > 0;
    let gap = |from, to| gap::longest_ms(&ledger, &survivors, from, to).filter(|_| measured);
    let (gap_ms, usual_gap_ms) = (gap(from_ns, to_ns), gap(0, from_ns));
    let rows = verdict.rows;
    Ok(Round { gap_ms, usual_gap_ms, findings, ledger, directory, rows, deaths, missed })
}

/// Waits for the victims' death, or sees to it. True when a victim did not come to its point.
fn kill(fate: &Fate, crew: &mut [Writer]) -> Result<bool> {
    match fate {
        Fate::Random { after_ms } => {
            std::thread::sleep(Duration::from_millis(*after_ms));
            crew[0].is_victim = true;
            crew[0].child.signal(Signal::KILL)?;
            crew[0].child.dies_within(POINT_PATIENCE)?;
            Ok(false)
        }
        Fate::All { after_ms } => {
            std::thread::sleep(Duration::from_millis(*after_ms));
            for writer in crew {
                writer.is_victim = true;
                writer.child.signal(Signal::KILL)?;
            }
            Ok(false)
        }
        Fate::Leaving => Ok(false),
        Fate::Point { .. } | Fate::Chain { .. } => {
            let died = crew[0].child.dies_within(POINT_PATIENCE)?;
            if !died {
                crew[0].child.signal(Signal::KILL)?;
                crew[0].child.dies_within(POINT_PATIENCE)?;
            }
            Ok(!died)
        }
    }
}

/// Lets the survivors write; with `--peer` beside the shell.
fn go_on(arguments: &Arguments, database: &Path, findings: &mut Vec<String>) {
    let end = Instant::now() + Duration::from_millis(arguments.after_ms);
    while arguments.peer && Instant::now() < end {
        let busy = ".timeout 5000";
        // Its own table: what it writes is not what is counted.
        let write = "CREATE TABLE IF NOT EXISTS peer (n); INSERT INTO peer VALUES (1)";
        if let Err(error) = shell::run(database, &[busy, write]) {
            findings.push(format!("the peer: {error}"));
        }
        // Busy is an answer here.
        let _ = shell::run(database, &[".timeout 100", "PRAGMA wal_checkpoint(TRUNCATE)"]);
    }
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
}

/// A second generation opens what the last one left.
fn succeed(
    database: &Path,
    seed: u64,
    from: i64,
    ledger: &mut Ledger,
    findings: &mut Vec<String>,
) -> Result<()> {
    let mut heirs = (from..from + 2)
        .map(|number| Writer::start(&job(database, Act::Mix, number, seed), None))
        .collect::<Result<Vec<Writer>>>()?;
    for heir in &heirs {
        heir.child.wait_for("ack", READY_PATIENCE)?;
    }
    heirs.iter_mut().for_each(|heir| heir.child.say("stop"));
    for heir in heirs {
        heir.finish(ledger, findings)?;
    }
    Ok(())
}
