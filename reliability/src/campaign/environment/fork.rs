//! A process forks in every state, beside two others that write. Its children exit, die, use what they have
//! inherited, or open the database themselves. Nobody is stopped, nothing is lost or there twice; and while one
//! child still holds all that it has inherited, and its parent has ended or was killed, no lock is left: another
//! program writes, and empties the WAL.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;
use manyhands_queue::crash::{POINTS, with_a_batch};
use rustix::process::{Pid, Signal, kill_process};

use super::{PATIENCE, Round};
use crate::campaign::{END_PATIENCE, READY_PATIENCE, Writer, job, unexpected_errors};
use crate::preload::Preload;
use crate::shell;
use crate::worker::{self, Act, RELEASE};
use crate::writer_in_c;

/// How long the process may take to fork everywhere, and to bury its children.
const ROUND_PATIENCE: Duration = Duration::from_secs(150);

/// How long a leader may take to die; and how many die at most, until the process that forks has recovered a batch.
const DEATH_PATIENCE: Duration = Duration::from_secs(2);
const DEATHS: i64 = 20;

/// Deadlines that nobody meets who goes on.
const TIMEOUT_MS: u64 = 60_000;

/// The states of the process that are no crash points.
const STATES: [&str; 2] = ["in its turn", "anywhere"];

/// In which states it has forked, how often; and how many children have ended well.
#[derive(Debug, Default)]
pub struct Forks {
    reached: BTreeMap<String, u64>,
    children: u64,
}

impl Forks {
    /// States in which no process has forked.
    pub fn missed(&self) -> Vec<String> {
        // A program in C cannot stop at a crash point.
        let points = if writer_in_c::chosen().is_some() { &[] } else { POINTS };
        let all = points.iter().chain(&STATES).map(|state| (*state).to_owned());
        all.filter(|state| !self.reached.contains_key(state)).collect()
    }

    /// How often.
    pub fn count(&self) -> u64 {
        self.reached.values().sum()
    }

    /// For the figures.
    pub fn tell(&self) -> String {
        let (states, forks) = (self.reached.len(), self.count());
        format!("{forks} times forked in {states} states, {} children ended well", self.children)
    }
}

impl Round {
    /// Plays a round in which the parent ends in order, or, if `kills`, is killed.
    pub fn fork(&mut self, kills: bool, forks: &mut Forks) -> Result<()> {
        let none = Preload::default();
        let start = |number, act, threads| {
            let job = job(&self.database, act, number, self.seed);
            let job = worker::Arguments { threads, timeout_ms: TIMEOUT_MS, ..job };
            Writer::start_with(&job, None, &none)
        };
        let mut forker = start(0, Act::Fork, 3)?;
        let mut others = vec![start(1, Act::Mix, 1)?, start(2, Act::Mix, 1)?];
        for writer in others.iter().chain([&forker]) {
            writer.child.wait_for("ready", READY_PATIENCE)?;
        }
        let queue = self.queue_file()?;
        self.let_leaders_die(&forker)?;
        if let Err(error) = forker.child.wait_for("round", ROUND_PATIENCE) {
            self.findings.push(format!("{error:#}"));
        }
        others.push(forker);
        self.all_go_on(&others);
        if self.queue_file()? != queue {
            self.findings.push("the queue was given up for a new one".to_owned());
        }
        let lingers = others[2].child.heard(|heard| {
            heard.lines.iter().find_map(|line| Some(line.strip_prefix("lingers ")?.to_owned()))
        });
        forker = others.pop().expect("pushed above");
        if kills {
            // It dies in its turn: a child that kept its locks would keep that one, too.
            forker.child.say("go");
            forker.child.wait_for("holding", READY_PATIENCE)?;
            forker.is_victim = true;
            forker.child.signal(Signal::KILL)?;
            let found = self.findings.len();
            self.all_go_on(&others);
            if self.findings.len() > found {
                // They would never end in order.
                others.iter_mut().for_each(|writer| writer.is_victim = true);
                others.iter().try_for_each(|writer| writer.child.signal(Signal::KILL))?;
                let pid = lingers.as_ref().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
                pid.map_or(Ok(()), |pid| kill_process(pid, Signal::KILL))?;
            }
        } else {
            forker.child.say("stop");
        }
        forker.child.dies_within(END_PATIENCE)?;
        self.end(others)?;
        let lives = |pid: &String| Path::new("/proc").join(pid).exists();
        match lingers.filter(lives) {
            Some(pid) => {
                self.no_lock_is_left();
                if !lives(&pid) {
                    self.findings.push("the child that lingers ended before its time".to_owned());
                }
            }
            None => self.findings.push("no child lingers".to_owned()),
        }
        std::fs::write(self.directory.join(RELEASE), "")?;
        let (_, heard) = forker.child.finish(END_PATIENCE)?;
        for line in &heard.lines {
            if let Some(state) = line.strip_prefix("reached ") {
                *forks.reached.entry(state.to_owned()).or_default() += 1;
            }
            forks.children += u64::from(line.starts_with("forked "));
        }
        if !heard.lines.iter().any(|line| line == "forked Lingers") {
            self.findings.push("the child that lingers did not end well".to_owned());
        }
        forker.finish(&mut self.ledger, &mut self.findings)?;
        self.findings.extend(unexpected_errors(&self.ledger, false));
        Ok(())
    }

    /// Which file the queue is. One that was damaged is given up.
    fn queue_file(&self) -> Result<u64> {
        let queue = std::fs::metadata(self.database.with_extension("db-hands"));
        Ok(queue.context("look at the queue file")?.ino())
    }

    /// Leaders of other processes die, until the one that forks has recovered their batches.
    fn let_leaders_die(&mut self, forker: &Writer) -> Result<()> {
        let mut dice = Rng::with_seed(self.seed);
        let recovers = |forker: &Writer| {
            forker.child.heard(|heard| {
                ["reached recovering", "reached recovered"]
                    .iter()
                    .all(|reached| heard.lines.iter().any(|line| line == reached))
            })
        };
        for number in 3..3 + DEATHS {
            let began = Instant::now();
            while !recovers(forker) && began.elapsed() < Duration::from_millis(300) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let is_over = forker.child.heard(|heard| {
                heard.ended_ns.is_some() || heard.lines.iter().any(|it| it.starts_with("round"))
            });
            if recovers(forker) || is_over {
                break;
            }
            let point = dice.choice(with_a_batch()).expect("there are some");
            let crash = format!("{point}:{}", dice.u64(1..20));
            let job = job(&self.database, Act::Mix, number, self.seed);
            let job = worker::Arguments { timeout_ms: TIMEOUT_MS, ..job };
            let mut leader = Writer::start(&job, Some(&crash))?;
            if !leader.child.dies_within(DEATH_PATIENCE)? {
                leader.child.signal(Signal::KILL)?;
            }
            leader.finish(&mut self.ledger, &mut self.findings)?;
        }
        Ok(())
    }

    fn no_lock_is_left(&mut self) {
        let busy = format!(".timeout {}", PATIENCE.as_millis());
        let write = "CREATE TABLE peer (n); INSERT INTO peer VALUES (1)";
        let emptied = "PRAGMA wal_checkpoint(TRUNCATE)";
        match shell::run(&self.database, &[&busy, write, emptied]) {
            Ok(told) if told.trim() == "0|0|0" => {}
            other => self.findings.push(format!("the shell, when all have ended: {other:?}")),
        }
    }
}
