//! A sqlite3 shell that appends and reads beside ours, and checkpoints; and one that reads all at last.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::history::{End, Told};
use super::player::numbers;
use super::script::{Scripts, Step};
use crate::clock::now_ns;
use crate::shell::Session;

/// Ours have their turn, too.
const PAUSE: Duration = Duration::from_millis(3);

/// Its number among the players.
const PLAYER: i64 = 0;

/// Plays transactions until `is_stopped`.
pub fn play(database: &Path, seed: u64, is_stopped: impl Fn() -> bool) -> Result<Vec<Told>> {
    let mut shell = Session::start(database)?;
    let mut scripts = Scripts::new(seed, PLAYER as u64);
    let mut told = Vec::new();
    while !is_stopped() {
        if scripts.once_in(20) {
            shell.ask("PRAGMA wal_checkpoint(RESTART)")?;
        }
        told.push(transaction(&mut shell, scripts.next().1)?);
        std::thread::sleep(PAUSE);
    }
    Ok(told)
}

/// Reads every list that anybody appended to, in one transaction after all others.
pub fn read_all(database: &Path, told: &[Told]) -> Result<Told> {
    let keys: BTreeSet<i64> =
        told.iter().flat_map(|told| &told.steps).map(|step| step.key()).collect();
    let steps = keys.into_iter().map(Step::Read).collect();
    transaction(&mut Session::start(database)?, steps)
}

fn transaction(shell: &mut Session, steps: Vec<Step>) -> Result<Told> {
    let began_ns = now_ns();
    let mut reads = Vec::new();
    let mut trouble = shell.ask("BEGIN IMMEDIATE")?;
    for step in &steps {
        if !trouble.is_empty() {
            break;
        }
        let lines = shell.ask(&step.written_out())?;
        if lines.iter().any(|line| line.contains("rror")) {
            trouble = lines;
        } else if let Step::Read(_) = step {
            reads.push(lines.iter().flat_map(|line| numbers(line)).collect());
        }
    }
    if trouble.is_empty() {
        trouble = shell.ask("COMMIT")?;
    }
    let end = if trouble.is_empty() { End::Committed } else { End::Failed };
    let end = Some((now_ns(), end));
    if !trouble.is_empty() {
        shell.ask("ROLLBACK")?;
        reads.clear();
    }
    Ok(Told { player: PLAYER, began_ns, end, steps, reads })
}
