//! What has happened when calls begin to fail: nothing, or something that the process whose calls fail has
//! to put right first.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use fastrand::Rng;
use manyhands_queue::crash::with_a_batch;
use rustix::process::Signal;

use super::{CALLS, FRESH, Fault, VICTIM};
use crate::campaign::{READY_PATIENCE, Writer, job};
use crate::ledger::Ledger;
use crate::preload::Preload;
use crate::worker::{self, Act};

/// Operations of each process.
const OPERATIONS: u64 = 10;
/// Operations of who recovers, after the one that does.
const OPERATIONS_AFTER: u64 = 2;

/// The victim waits for its turn no longer, so that one whose locks never succeed gives up; the others
/// wait for it.
const VICTIM_TIMEOUT_MS: u64 = 700;
const TIMEOUT_MS: u64 = 30_000;

/// How long a leader may take to die.
const DEATH_PATIENCE: Duration = Duration::from_secs(5);

/// How long the victim may try, before the next one comes.
const TRY: Duration = Duration::from_secs(3);

/// A counter beyond this is not compared with any fault's number (`recorder/src/fault.rs`).
const NOT_YET: u64 = 1 << 62;

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scene {
    /// Nothing: three processes write.
    Work,
    /// All processes were killed, and left a WAL: the victim opens the file and recovers it.
    Wal,
    /// A leader was killed with a batch in its hands, others' requests in it: the victim, a member of the
    /// same queue, succeeds it.
    Leader,
    /// The queue file was damaged under its members: the victim makes a new one.
    QueueFile,
}

/// One case's stage.
pub struct Stage<'a> {
    pub database: &'a Path,
    pub seed: u64,
    pub counts: &'a Path,
    /// Of the victim.
    pub preload: &'a Preload,
    /// Of the others.
    pub others: &'a Preload,
    /// Whether a call will fail.
    pub faulty: bool,
}

impl Scene {
    /// False for a fault that would say nothing here.
    pub fn has_room_for(self, fault: &Fault) -> bool {
        match self {
            // The others would wait for a victim that has the turn, and sleeps in each operation.
            Scene::Work | Scene::Wal | Scene::Leader => !fault.takes_all_locks(),
            Scene::QueueFile => !fault.takes_all_locks() && !fault.takes_all_memory(),
        }
    }

    /// Plays until only those are left who are to end in order.
    pub fn play(self, stage: &Stage<'_>, ledger: &mut Ledger) -> Result<Vec<Writer>> {
        match self {
            Scene::Work => (0..3).map(|number| stage.start(number, Act::Mix, OPERATIONS)).collect(),
            Scene::Wal => stage.recover(ledger),
            Scene::Leader => stage.succeed(ledger),
            Scene::QueueFile => stage.rebuild(),
        }
    }
}

impl Stage<'_> {
    fn start(&self, number: i64, act: Act, count: u64) -> Result<Writer> {
        let is_victim = number == VICTIM && self.faulty;
        let timeout_ms = if is_victim { VICTIM_TIMEOUT_MS } else { TIMEOUT_MS };
        let job =
            worker::Arguments { count, timeout_ms, ..job(self.database, act, number, self.seed) };
        Writer::start_with(&job, None, if number == VICTIM { self.preload } else { self.others })
    }

    /// One that is killed later, or dies by itself at a point.
    fn start_doomed(&self, number: i64, threads: i64, crash: Option<&str>) -> Result<Writer> {
        let job = worker::Arguments { threads, ..job(self.database, Act::Mix, number, self.seed) };
        Writer::start_with(&job, crash, self.others)
    }

    fn recover(&self, ledger: &mut Ledger) -> Result<Vec<Writer>> {
        let mut dice = Rng::with_seed(self.seed);
        let mut doomed = (1..3)
            .map(|number| self.start_doomed(number, 2, None))
            .collect::<Result<Vec<Writer>>>()?;
        for writer in &doomed {
            writer.child.wait_for("ack", READY_PATIENCE)?;
        }
        std::thread::sleep(Duration::from_micros(dice.u64(..6_000)));
        for writer in &doomed {
            writer.child.signal(Signal::KILL)?;
        }
        doomed.drain(..).try_for_each(|writer| bury(writer, ledger))?;
        Ok(vec![self.start(VICTIM, Act::Mix, 1 + OPERATIONS_AFTER)?])
    }

    fn succeed(&self, ledger: &mut Ledger) -> Result<Vec<Writer>> {
        let mut dice = Rng::with_seed(self.seed);
        let mut heirs = self.wait_for_heirs()?;
        let point = dice.choice(with_a_batch()).expect("there are some");
        let crash = format!("{point}:{}", dice.u64(1..5));
        let bystanders = [3, 4].map(|number| self.start(number, Act::Mix, 0));
        let bystanders = bystanders.into_iter().collect::<Result<Vec<Writer>>>()?;
        let mut leader = self.start_doomed(1, 3, Some(&crash))?;
        if !leader.child.dies_within(DEATH_PATIENCE)? {
            leader.child.signal(Signal::KILL)?;
        }
        // Their requests are in its hands, and they are not to settle that themselves.
        for bystander in &bystanders {
            bystander.child.signal(Signal::STOP)?;
        }
        bury(leader, ledger)?;
        self.let_try(&mut heirs[0])?;
        for mut bystander in bystanders {
            bystander.child.signal(Signal::CONT)?;
            bystander.child.say("stop");
            heirs.push(bystander);
        }
        heirs[1].child.say("go");
        Ok(heirs)
    }

    fn rebuild(&self) -> Result<Vec<Writer>> {
        let mut dice = Rng::with_seed(self.seed);
        let mut heirs = self.wait_for_heirs()?;
        let queue_file = self.database.with_extension("db-hands");
        let mut open = OpenOptions::new();
        let mut file = open.write(true).open(&queue_file).context("open the queue file")?;
        let bytes = file.metadata()?.len();
        match dice.u8(..4) {
            0 => std::fs::remove_file(&queue_file)?,
            1 => file.set_len(0)?,
            2 => file.set_len(dice.u64(..bytes))?,
            _ => {
                let garbage: Vec<u8> = (0..dice.usize(1..8192)).map(|_| dice.u8(..)).collect();
                file.seek(SeekFrom::Start(dice.u64(..4096)))?;
                file.write_all(&garbage)?;
            }
        }
        self.let_try(&mut heirs[0])?;
        heirs[1].child.say("go");
        Ok(heirs)
    }

    /// Members of the queue, the victim first, that wait for a word. No call of theirs counts yet.
    fn wait_for_heirs(&self) -> Result<Vec<Writer>> {
        self.set_counts(NOT_YET)?;
        let heirs = [VICTIM, 2].map(|number| self.start(number, Act::Ask, OPERATIONS_AFTER));
        let heirs = heirs.into_iter().collect::<Result<Vec<Writer>>>()?;
        for heir in &heirs {
            heir.child.wait_for("ready", READY_PATIENCE)?;
        }
        Ok(heirs)
    }

    /// The victim tries, and its calls count.
    fn let_try(&self, victim: &mut Writer) -> Result<()> {
        self.set_counts(0)?;
        victim.child.say("go");
        let end = Instant::now() + TRY;
        let tried = |writer: &Writer| {
            writer.child.heard(|heard| {
                let outcomes = ["ack ", "err ", "refused "];
                let tried = |line: &String| outcomes.iter().any(|it| line.starts_with(it));
                heard.ended_ns.is_some() || heard.lines.iter().any(tried)
            })
        };
        while !tried(victim) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The process maps the file: it counts on from what is written here.
    fn set_counts(&self, count: u64) -> Result<()> {
        let bytes = count.to_le_bytes().repeat(CALLS.len());
        let mut file = OpenOptions::new().write(true).open(self.counts).context("the counts")?;
        file.write_all(&bytes).context("write the counts")
    }
}

/// What a dead process said.
fn bury(mut writer: Writer, ledger: &mut Ledger) -> Result<()> {
    let number = writer.job.number;
    ensure!(number != VICTIM && number != FRESH, "process {number} was to live");
    let (_, heard) = writer.child.finish(DEATH_PATIENCE)?;
    let writers: Vec<i64> = (0..writer.job.threads).map(|thread| number * 100 + thread).collect();
    ledger.note(&heard, &writers, true, false);
    Ok(())
}
