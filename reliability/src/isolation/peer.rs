//! A sqlite3 shell that writes beside ours: transactions of its own in the same history, and passive
//! checkpoints.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;
use manyhands::Value;

use super::call::{Look, Seen};
use super::dice::{self, Kind};
use super::log::{End, Told};
use crate::clock::now_ns;
use crate::shell::Session;

/// Ours have their turn, too: a pause is shorter than so many milliseconds, down to none.
const PAUSE_MS_MAX: u64 = 12;

/// A shell at work. Dropping it kills it.
pub struct Peer(Session);

impl Peer {
    pub fn start(database: &Path) -> Result<Peer> {
        Ok(Peer(Session::start(database)?))
    }

    /// Plays transactions until `is_stopped`.
    pub fn play(&mut self, seed: u64, is_stopped: impl Fn() -> bool) -> Result<Vec<Told>> {
        let mut dice = Rng::with_seed(seed);
        let mut told = Vec::new();
        while !is_stopped() {
            if dice.u32(0..50) == 0 {
                self.0.ask("PRAGMA wal_checkpoint(PASSIVE)")?;
            }
            told.push(self.transaction(&mut dice)?);
            std::thread::sleep(Duration::from_millis(dice.u64(0..PAUSE_MS_MAX)));
        }
        Ok(told)
    }

    fn transaction(&mut self, dice: &mut Rng) -> Result<Told> {
        let id = dice::fresh(dice);
        let calls = dice::stock_calls(dice, id);
        let mut told =
            Told { id, kind: Kind::Stock, began_ns: now_ns(), end: None, calls, seen: vec![] };
        let mut trouble = self.0.ask("BEGIN IMMEDIATE")?;
        for call in told.calls.iter().take_while(|_| trouble.is_empty()) {
            let lines = self.0.ask(&call.written_out())?;
            if lines.iter().any(|line| line.contains("error")) {
                trouble = lines;
                break;
            }
            told.seen.push(match call.look {
                Look::Rows => Seen::Rows(lines.iter().map(|line| row(line)).collect()),
                _ => Seen::Nothing,
            });
        }
        if trouble.is_empty() {
            trouble = self.0.ask("COMMIT")?;
        }
        let end = if trouble.is_empty() {
            End::Committed
        } else {
            self.0.ask("ROLLBACK")?;
            End::Failed(trouble.join(" "))
        };
        told.end = Some((now_ns(), end));
        Ok(told)
    }
}

/// A row of numbers and NULLs.
fn row(line: &str) -> Vec<Value> {
    let value = |text: &str| text.parse().map_or(Value::Null, Value::Integer);
    line.split('|').map(value).collect()
}
