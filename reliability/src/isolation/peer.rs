//! A sqlite3 shell that writes beside ours: transactions of its own in the same history, and passive
//! checkpoints.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use manyhands::Value;

use super::call::{Look, Seen};
use super::dice::{self, Kind};
use super::log::{End, Told};
use crate::clock::now_ns;

/// What the shell prints behind each answer.
const DONE: &str = "that was all";

/// Ours have their turn, too.
const PAUSE: Duration = Duration::from_millis(3);

/// A shell at work. Dropping it kills it.
pub struct Peer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    pub fn start(database: &Path) -> Result<Peer> {
        // Its errors among its answers, where they came.
        let mut process = Command::new("sh")
            .args(["-c", "exec sqlite3 -batch -noheader -list \"$0\" 2>&1"])
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start sqlite3")?;
        let input = process.stdin.take().context("the shell has a stdin")?;
        let output = BufReader::new(process.stdout.take().context("the shell has a stdout")?);
        let mut peer = Peer { process, input, output };
        peer.ask(".timeout 20000")?;
        Ok(peer)
    }

    /// Its answer, line by line.
    fn ask(&mut self, sql: &str) -> Result<Vec<String>> {
        let end = if sql.starts_with('.') { "" } else { ";" };
        write!(self.input, "{sql}{end}\n.print {DONE}\n").context("write to the shell")?;
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let count = self.output.read_line(&mut line).context("read from the shell")?;
            ensure!(count > 0, "the shell ended after {lines:?}");
            let line = line.trim_end_matches('\n').to_owned();
            if line == DONE {
                return Ok(lines);
            }
            lines.push(line);
        }
    }

    /// Plays transactions until `is_stopped`.
    pub fn play(&mut self, seed: u64, is_stopped: impl Fn() -> bool) -> Result<Vec<Told>> {
        let mut dice = Rng::with_seed(seed);
        let mut told = Vec::new();
        while !is_stopped() {
            if dice.u32(0..50) == 0 {
                self.ask("PRAGMA wal_checkpoint(PASSIVE)")?;
            }
            told.push(self.transaction(&mut dice)?);
            std::thread::sleep(PAUSE);
        }
        Ok(told)
    }

    fn transaction(&mut self, dice: &mut Rng) -> Result<Told> {
        let id = dice::fresh(dice);
        let calls = dice::stock_calls(dice, id);
        let mut told =
            Told { id, kind: Kind::Stock, began_ns: now_ns(), end: None, calls, seen: vec![] };
        let mut trouble = self.ask("BEGIN IMMEDIATE")?;
        for call in told.calls.iter().take_while(|_| trouble.is_empty()) {
            let lines = self.ask(&call.written_out())?;
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
            trouble = self.ask("COMMIT")?;
        }
        let end = if trouble.is_empty() {
            End::Committed
        } else {
            self.ask("ROLLBACK")?;
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

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
