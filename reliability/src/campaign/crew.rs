//! Processes that play a number of transactions each, of which some are killed and replaced.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;

use super::{END_PATIENCE, KILLED, READY_PATIENCE, Writer, job};
use crate::worker::Act;

/// How long a process that works may leave its logs as they are: longer than a write's timeout.
const QUIET_MAX: Duration = Duration::from_secs(90);

/// Who plays.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    pub act: Act,
    pub processes: i64,
    /// Of each process.
    pub threads: i64,
    /// How many processes are killed.
    pub kills: u64,
    pub seed: u64,
    /// Transactions of each thread.
    pub count: u64,
}

impl Crew {
    /// Starts the processes, kills some, and replaces them. Returns how many there were.
    pub fn work(
        &self,
        database: &Path,
        dice: &mut Rng,
        findings: &mut Vec<String>,
        deaths: &mut u64,
    ) -> Result<i64> {
        let start = |number: i64, count: u64| {
            let mut job = job(database, self.act, number, self.seed);
            job.threads = self.threads;
            job.count = count;
            Writer::start(&job, None)
        };
        let mut next = self.processes;
        let mut crew = (0..self.processes)
            .map(|number| start(number, self.count))
            .collect::<Result<Vec<_>>>()?;
        for writer in &crew {
            writer.child.wait_for("ready", READY_PATIENCE)?;
        }
        for _ in 0..self.kills {
            std::thread::sleep(Duration::from_millis(dice.u64(20..1200)));
            let victim = &mut crew[dice.usize(0..self.processes.unsigned_abs() as usize)];
            if victim.child.dies_within(Duration::ZERO)? {
                continue;
            }
            victim.child.signal(rustix::process::Signal::KILL)?;
            let (status, _) = victim.child.finish(END_PATIENCE)?;
            match status.and_then(|status| status.signal()) {
                Some(KILLED) => *deaths += 1,
                // It was faster.
                _ if status.is_some_and(|status| status.success()) => {}
                _ => findings.push(format!("a victim ended with {status:?}")),
            }
            *victim = start(next, self.count / 2)?;
            next += 1;
        }
        for writer in &mut crew {
            self.wait_while_it_works(writer, database)?;
            let (status, heard) = writer.child.finish(Duration::ZERO)?;
            if !status.is_some_and(|status| status.success()) {
                let number = writer.job.number;
                findings.push(format!("process {number} ended with {status:?}: {:?}", heard.lines));
            }
        }
        Ok(next)
    }

    /// Waits for its end, as long as its logs grow: on a busy machine it takes long, and to hang is a finding.
    fn wait_while_it_works(&self, writer: &mut Writer, database: &Path) -> Result<()> {
        let logs = |number| (0..self.threads).map(move |it| log_path(database, number, it));
        let logged = |number| -> u64 {
            logs(number).filter_map(|log| log.metadata().ok()).map(|it| it.len()).sum()
        };
        let mut before = None;
        while !writer.child.dies_within(QUIET_MAX)? {
            let now = Some(logged(writer.job.number));
            if now == before {
                break;
            }
            before = now;
        }
        Ok(())
    }
}

/// Where a worker's thread writes its log.
pub fn log_path(database: &Path, number: i64, thread: i64) -> PathBuf {
    database.with_file_name(format!("log-{number}-{thread}"))
}
