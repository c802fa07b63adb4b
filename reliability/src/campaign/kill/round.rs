//! One round on one file: a relay of deaths, and at last a look into the file.
//!
//! Some of the processes are victims. When one is dead, another takes its place and is the victim of the next
//! fate; the others live through all of it. When all die, or the last one to leave does, a new
//! generation opens what they left behind.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use fastrand::Rng;
use rustix::process::Signal;
use tempfile::TempDir;

use super::gap::{Life, Pauses};
use super::hammer::Hammer;
use super::{Arguments, Fate};
use crate::campaign::{END_PATIENCE, READY_PATIENCE, Writer, job, place, unexpected_errors};
use crate::clock::now_ns;
use crate::ledger::Ledger;
use crate::worker::Act;
use crate::{shell, verdict};

/// How long a victim may take to come to its point. Then it is killed where it is.
const POINT_PATIENCE: Duration = Duration::from_secs(4);

/// Around a death: what happened so long before it belongs to it, since the campaign learns of a death
/// at a point only when the pipe ends.
const BEFORE_NS: u64 = 20_000_000;

/// How often the campaign looks for the dead.
const TICK: Duration = Duration::from_millis(1);

/// How many open what the last generation of a round left behind.
const HEIRS: i64 = 2;

/// The shell's pauses between its visits: while it waits to truncate the WAL nobody writes.
const PEER_PAUSE: Duration = Duration::from_millis(80);

/// What came of a round.
#[derive(Debug)]
pub struct Round {
    pub findings: Vec<String>,
    pub ledger: Ledger,
    pub directory: TempDir,
    pub rows: usize,
    pub deaths: Vec<Death>,
    /// The survivors' longest pauses before the first death of each generation.
    pub usual_gaps_ms: Vec<f64>,
}

/// The end of a process that was to die.
#[derive(Clone, Debug)]
pub struct Death {
    /// Where it was to die.
    pub name: &'static str,
    /// It did not come there: it was killed where it was, or ended in order.
    pub missed: bool,
    pub died: bool,
    /// What belongs to it.
    from_ns: u64,
    to_ns: u64,
    /// The survivors' longest pause around it.
    pub gap_ms: Option<f64>,
}

/// A process.
struct Member {
    writer: Writer,
    fate: Option<Fate>,
    started: Instant,
    started_ns: u64,
}

/// Plays one round.
pub fn play(arguments: &Arguments, number: u64, fates: VecDeque<Fate>) -> Result<Round> {
    let (directory, database) = place()?;
    shell::create(&database)?;
    let seed = arguments.seed.wrapping_mul(0x9E37_79B9).wrapping_add(number);
    let hammer = arguments.hammer.then(|| Hammer::start(&database)).transpose()?;
    let mut relay = Relay {
        arguments,
        database: &database,
        seed,
        next: 0,
        fates,
        crew: Vec::new(),
        ledger: Ledger::new(seed, false),
        findings: Vec::new(),
        deaths: Vec::new(),
        lives: Vec::new(),
        before: Vec::new(),
        dice: Rng::with_seed(seed),
    };
    let is_over = AtomicBool::new(false);
    let visits = std::thread::scope(|scope| {
        let peer = arguments.peer.then(|| scope.spawn(|| visit(&database, &is_over)));
        let end = relay.run();
        is_over.store(true, Ordering::Relaxed);
        let complaints = peer.map(|peer| peer.join().expect("the peer's thread panicked"));
        end.map(|()| complaints.unwrap_or_default())
    })?;
    drop(hammer);
    let Relay { ledger, mut findings, mut deaths, lives, before, .. } = relay;
    findings.extend(visits);
    // A shell that restarts the WAL at the moment of a death takes the evidence away: then the owners
    // must be told so. Without one, every outcome is known.
    findings.extend(unexpected_errors(&ledger, arguments.peer || arguments.hammer));
    let verdict = verdict::examine(&database, &ledger)?;
    findings.extend(verdict.findings);
    let pauses = Pauses::new(&ledger, &lives);
    for death in &mut deaths {
        death.gap_ms = pauses.longest_ms(death.from_ns, death.to_ns);
    }
    let usual_gaps_ms = before.iter().filter_map(|(from, to)| pauses.longest_ms(*from, *to));
    let usual_gaps_ms = usual_gaps_ms.collect();
    Ok(Round { findings, ledger, directory, rows: verdict.rows, deaths, usual_gaps_ms })
}

/// The shell writes and truncates the WAL. Returns what it could not do.
fn visit(database: &Path, is_over: &AtomicBool) -> Vec<String> {
    let mut complaints = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let busy = ".timeout 5000";
        // Its own table: what it writes is not what is counted.
        let write = "CREATE TABLE IF NOT EXISTS peer (n); INSERT INTO peer VALUES (1)";
        if let Err(error) = shell::run(database, &[busy, write]) {
            complaints.push(format!("the peer: {error}"));
        }
        // Busy is an answer here.
        let _ = shell::run(database, &[".timeout 100", "PRAGMA wal_checkpoint(TRUNCATE)"]);
        std::thread::sleep(PEER_PAUSE);
    }
    complaints
}

/// The processes of a round, and what came of them so far.
struct Relay<'a> {
    arguments: &'a Arguments,
    database: &'a Path,
    seed: u64,
    /// The number of the next process.
    next: i64,
    /// Those to come.
    fates: VecDeque<Fate>,
    crew: Vec<Member>,
    ledger: Ledger,
    findings: Vec<String>,
    deaths: Vec<Death>,
    lives: Vec<Life>,
    /// For each generation, when all were ready and when the first one died.
    before: Vec<(u64, u64)>,
    dice: Rng,
}

impl Relay<'_> {
    fn run(&mut self) -> Result<()> {
        loop {
            let first_death = self.deaths.len();
            self.begin()?;
            let ready_ns = now_ns();
            while self.bury_the_dead()? {
                std::thread::sleep(TICK);
            }
            let last = self.fates.pop_front();
            if last.is_none() {
                std::thread::sleep(Duration::from_millis(self.arguments.after_ms));
            }
            let ended_ns = now_ns();
            match &last {
                Some(Fate::All { after_ms }) => self.kill_all(*after_ms)?,
                Some(Fate::Leaving) => self.leave()?,
                _ => self.stop()?,
            }
            let deaths = &mut self.deaths[first_death..];
            deaths.iter_mut().for_each(|death| death.to_ns = death.to_ns.min(ended_ns));
            self.before.extend(deaths.first().map(|death| (ready_ns, death.from_ns)));
            match last {
                None => return Ok(()),
                Some(_) if self.fates.is_empty() => return self.succeed(),
                Some(_) => {}
            }
        }
    }

    /// Starts a generation; at least one process, and a quarter of them, is spared.
    fn begin(&mut self) -> Result<()> {
        let processes = self.arguments.processes;
        let spared = (processes / 4).max(1);
        for place in 0..processes {
            let fate = if place < processes - spared { self.next_victim() } else { None };
            self.start(fate)?;
        }
        for member in self.crew.iter().filter(|member| member.fate.is_none()) {
            member.writer.child.wait_for("ready", READY_PATIENCE)?;
        }
        Ok(())
    }

    /// The next fate, if it is that of one process. At the end a successor may wait for somebody to die.
    fn next_victim(&mut self) -> Option<Fate> {
        match self.fates.front() {
            Some(fate) if fate.needs_heirs() => None,
            Some(_) => self.fates.pop_front(),
            None => {
                let mut waiting = self.crew.iter().filter_map(|member| member.fate.as_ref());
                let waits = waiting.any(Fate::is_of_a_successor);
                waits.then(|| Fate::with_a_batch(&mut self.dice))
            }
        }
    }

    fn start(&mut self, fate: Option<Fate>) -> Result<()> {
        let mut job = job(self.database, Act::Mix, self.next, self.seed);
        job.threads = self.arguments.threads;
        self.next += 1;
        let (started, started_ns) = (Instant::now(), now_ns());
        let crash = fate.as_ref().and_then(Fate::crash);
        let writer = Writer::start(&job, crash.as_deref())?;
        self.crew.push(Member { writer, fate, started, started_ns });
        Ok(())
    }

    /// Replaces the victims that have died, and sees to it that they do. True when there are more.
    fn bury_the_dead(&mut self) -> Result<bool> {
        let mut index = 0;
        while let Some(member) = self.crew.get_mut(index) {
            let Some(fate) = &member.fate else {
                index += 1;
                continue;
            };
            let age = member.started.elapsed();
            let is_late = match fate {
                Fate::Random { after_ms } => age >= Duration::from_millis(*after_ms),
                _ => age >= POINT_PATIENCE,
            };
            let is_dead = member.writer.child.dies_within(Duration::ZERO)?;
            if !is_dead && !is_late {
                index += 1;
                continue;
            }
            let missed = !is_dead && !matches!(fate, Fate::Random { .. });
            if !is_dead {
                member.writer.is_victim = true;
                member.writer.child.signal(Signal::KILL)?;
            }
            let member = self.crew.swap_remove(index);
            self.bury(member, missed)?;
            if let Some(fate) = self.next_victim() {
                self.start(Some(fate))?;
            }
        }
        let everyone_dies_next = self.fates.front().is_some_and(Fate::needs_heirs);
        Ok(!everyone_dies_next && self.crew.iter().any(|member| member.fate.is_some()))
    }

    /// Takes the words of a process that ends. A victim that ends in order has its fate before it.
    fn bury(&mut self, mut member: Member, missed: bool) -> Result<()> {
        member.writer.child.dies_within(END_PATIENCE)?;
        let number = member.writer.job.number;
        let ended_ns = || now_ns();
        let ended_ns = member.writer.child.heard(|heard| heard.ended_ns).unwrap_or_else(ended_ns);
        self.lives.push(Life { number, from_ns: member.started_ns, to_ns: ended_ns });
        let survived = member.writer.finish(&mut self.ledger, &mut self.findings)?;
        let Some(fate) = member.fate else { return Ok(()) };
        if survived && !fate.needs_heirs() {
            self.fates.push_front(fate);
            return Ok(());
        }
        let after_ns = self.arguments.after_ms * 1_000_000;
        self.deaths.push(Death {
            name: fate.name(),
            missed: missed || survived,
            died: !survived,
            from_ns: ended_ns.saturating_sub(BEFORE_NS),
            to_ns: ended_ns + after_ns,
            gap_ms: None,
        });
        Ok(())
    }

    /// Tells all to stop, and waits for their ends.
    fn stop(&mut self) -> Result<()> {
        self.crew.iter_mut().for_each(|member| member.writer.child.say("stop"));
        for member in std::mem::take(&mut self.crew) {
            self.bury(member, false)?;
        }
        Ok(())
    }

    /// Kills all.
    fn kill_all(&mut self, after_ms: u64) -> Result<()> {
        std::thread::sleep(Duration::from_millis(after_ms));
        for member in &mut self.crew {
            member.writer.is_victim = true;
            member.writer.child.signal(Signal::KILL)?;
        }
        for mut member in std::mem::take(&mut self.crew) {
            self.fates.extend(member.fate.replace(Fate::All { after_ms }));
            self.bury(member, false)?;
        }
        Ok(())
    }

    /// One more comes, and is told to stop when the others are gone.
    fn leave(&mut self) -> Result<()> {
        self.start(Some(Fate::Leaving))?;
        let last = self.crew.pop().expect("it was just started");
        last.writer.child.wait_for("ready", READY_PATIENCE)?;
        self.stop()?;
        self.crew.push(last);
        self.stop()
    }

    /// The last generation opens what was left behind, and writes.
    fn succeed(&mut self) -> Result<()> {
        for _ in 0..HEIRS {
            self.start(None)?;
        }
        for member in &self.crew {
            member.writer.child.wait_for("ack", READY_PATIENCE)?;
        }
        self.stop()
    }
}
