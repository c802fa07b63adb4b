//! What surrounds the writers changes under them: the wall clock jumps, descriptors run out, the kernel kills
//! one for want of memory, containers number their processes alike, one forks (`fork`).
//!
//! Every error must be clear; nobody hangs; what was acknowledged is there, once; and when all is as before,
//! writing goes on without opening anew.

mod fork;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use fastrand::Rng;
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use self::fork::Forks;
use super::{END_PATIENCE, READY_PATIENCE, Writer, job, memory_directory, report, results};
use crate::clock::now_ns;
use crate::ledger::Ledger;
use crate::preload::Preload;
use crate::worker::{self, Act};
use crate::{shell, verdict};

/// How long it may take until all write again.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a writer waits for its turn, and how much later it may say so: that would be a hang.
const TIMEOUT_MS: u64 = 1_000;
const LATENESS_LIMIT_MS: u64 = 5_000;
/// Timers of the kernel are no finer.
const EARLINESS_LIMIT_MS: u64 = 20;

const DAY: i64 = 86_400;
const YEAR: i64 = 365 * DAY;

/// A process that is alone needs no more to open a database and write.
const DESCRIPTORS_ENOUGH: u64 = 40;

/// What new memory a victim may use before the kernel kills it.
const MEMORY_BYTES: u64 = 1 << 20;

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// The wall clock jumps by days and years, there and back.
    Clock,
    /// Descriptors run out, of a process that opens and of processes that write.
    Descriptors,
    /// The kernel kills a writer that leads now and then, since its control group has no memory left.
    Memory,
    /// Writers in process namespaces of their own, all number 1 there; one is killed.
    Namespaces,
    /// A process forks in every state; its children exit, die, use what they inherit, open the database.
    Fork,
}

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Only this one.
    #[arg(long)]
    case: Option<Case>,
    #[arg(long, default_value_t = 10)]
    rounds: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 0)]
    from_round: u64,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// A round.
struct Round {
    directory: PathBuf,
    database: PathBuf,
    seed: u64,
    ledger: Ledger,
    findings: Vec<String>,
}

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let (mut green, began) = (true, Instant::now());
    let rounds = arguments.from_round..arguments.from_round + arguments.rounds;
    let mut figures = BTreeMap::<String, u64>::new();
    let all = [Case::Clock, Case::Descriptors, Case::Memory, Case::Namespaces, Case::Fork];
    for case in all.into_iter().filter(|case| arguments.case.is_none_or(|only| only == *case)) {
        let (mut acked, mut errors, mut forks) = (0, 0, Forks::default());
        for number in rounds.clone() {
            // In memory, which then belongs to the control group of who wrote it.
            let place = memory_directory()?;
            let seed = arguments.seed.wrapping_mul(0x2545_F491).wrapping_add(number);
            let mut round = Round {
                directory: place.path().to_owned(),
                database: place.path().join("app.db"),
                seed,
                ledger: Ledger::new(seed, false),
                findings: Vec::new(),
            };
            shell::create(&round.database)?;
            match case {
                Case::Clock => round.jump()?,
                Case::Descriptors => round.run_out()?,
                Case::Memory => round.starve()?,
                Case::Namespaces => round.contain()?,
                Case::Fork => round.fork(number % 2 == 1, &mut forks)?,
            }
            acked += round.ledger.acked.len();
            errors += round.ledger.failures.len();
            round.findings.extend(verdict::examine(&round.database, &round.ledger)?.findings);
            let name = case.to_possible_value().map(|it| it.get_name().to_owned());
            let replay = format!(
                "environment --case {} --seed {} --from-round {number} --rounds 1",
                name.unwrap_or_default(),
                arguments.seed
            );
            green &= report(&round.findings, &replay, Some(place));
        }
        for (name, figure) in [
            ("rounds", arguments.rounds),
            ("acknowledged", acked as u64),
            ("errors", errors as u64),
            ("forks", forks.count()),
        ] {
            *figures.entry(name.to_owned()).or_default() += figure;
        }
        println!("{case:?}: {} rounds, {acked} acknowledged, {errors} errors", arguments.rounds);
        if case == Case::Fork {
            println!("{}", forks.tell());
            let missed = forks.missed();
            let findings = Vec::from_iter(
                (!missed.is_empty()).then(|| format!("nobody has forked at {}", missed.join(", "))),
            );
            green &= report(&findings, "environment --case fork", None);
        }
    }
    let case = arguments.case.and_then(|case| case.to_possible_value());
    let case = case.map(|case| format!(" --case {}", case.get_name())).unwrap_or_default();
    let (file, name) = (arguments.json.as_deref(), format!("environment{case}"));
    results::append(file, &name, arguments.seed, began, rounds, figures)?;
    Ok(green)
}

impl Round {
    fn start(&self, number: i64, act: Act, threads: i64, preload: &Preload) -> Result<Writer> {
        let job = job(&self.database, act, number, self.seed);
        let job = worker::Arguments { threads, timeout_ms: TIMEOUT_MS, ..job };
        Writer::start_with(&job, None, preload)
    }

    /// All of them write after this moment, too.
    fn all_go_on(&mut self, crew: &[Writer]) {
        let since = now_ns();
        for writer in crew.iter().filter(|writer| !writer.is_victim) {
            if writer.first_ack_after(since, PATIENCE).is_none() {
                let last = writer.child.heard(|heard| heard.lines.last().cloned());
                let number = writer.job.number;
                self.findings.push(format!("process {number} wrote no more; its last: {last:?}"));
            }
        }
    }

    fn end(&mut self, mut crew: Vec<Writer>) -> Result<()> {
        crew.iter_mut().for_each(|writer| writer.child.say("stop"));
        for writer in crew {
            writer.finish(&mut self.ledger, &mut self.findings)?;
        }
        Ok(())
    }

    fn jump(&mut self) -> Result<()> {
        let clock = self.directory.join("clock");
        let clock_file = File::create(&clock)?;
        // In place: who looks while the file is empty gets SIGBUS.
        let set = |seconds: i64| clock_file.write_all_at(&seconds.to_le_bytes(), 0);
        set(0)?;
        let preload = Preload::clock(&clock);
        let mut crew = vec![self.start(0, Act::Hold, 1, &preload)?];
        crew[0].child.wait_for("holding", READY_PATIENCE)?;
        for number in 1..4 {
            crew.push(self.start(number, Act::Mix, 1, &preload)?);
        }
        let jumps = [DAY, -DAY, 0, YEAR, -YEAR, 0];
        // Nobody gets the turn: all time out, at their own time.
        for seconds in jumps {
            set(seconds)?;
            std::thread::sleep(Duration::from_millis(TIMEOUT_MS * 2 / 5));
        }
        crew[0].child.say("go");
        for seconds in jumps {
            set(seconds)?;
            std::thread::sleep(Duration::from_millis(20));
            self.all_go_on(&crew);
        }
        self.end(crew)?;
        let in_time = TIMEOUT_MS - EARLINESS_LIMIT_MS..=TIMEOUT_MS + LATENESS_LIMIT_MS;
        for failure in &self.ledger.failures {
            if failure.what != "timeout" || !in_time.contains(&failure.waited_ms) {
                let text = format!("after {} ms: {}", failure.waited_ms, failure.text);
                self.findings.push(format!("no timeout in time: {text}"));
            }
        }
        if self.ledger.failures.is_empty() {
            self.findings.push("nobody timed out behind the holder".to_owned());
        }
        Ok(())
    }

    fn run_out(&mut self) -> Result<()> {
        let mut dice = Rng::with_seed(self.seed);
        // One that opens.
        let limit = dice.u64(3..=DESCRIPTORS_ENOUGH);
        let complaints = self.directory.join("complaints");
        let words = ["prlimit", &format!("--nofile={limit}")];
        let preload = Preload::started_by(&words).complain_to(&complaints);
        let job = worker::Arguments { count: 3, ..job(&self.database, Act::Mix, 9, self.seed) };
        let mut opener = Writer::start_with(&job, None, &preload)?;
        let (status, heard) = opener.child.finish(END_PATIENCE)?;
        self.ledger.note(&heard, &[900], false, false);
        let complaint = std::fs::read_to_string(&complaints).unwrap_or_default();
        let went = status.is_some_and(|status| status.success());
        let is_clear = complaint.starts_with("reliability: ") && !complaint.contains("panicked");
        let refused = status.is_some_and(|status| status.code() == Some(2)) && is_clear;
        if !went && (!refused || limit == DESCRIPTORS_ENOUGH) {
            self.findings.push(format!("{limit} descriptors: {status:?}: {complaint}"));
        }
        // Those that write: one that has all it needs, and two that always need more.
        let none = Preload::default();
        let acts = [Act::Mix, Act::Visit, Act::Visit];
        let crew = (0..).zip(acts).map(|(number, act)| self.start(number, act, 1, &none));
        let crew = crew.collect::<Result<Vec<Writer>>>()?;
        // Then all have their connection. What its process opens to lead for others, it opens later.
        for writer in &crew {
            writer.child.wait_for("ack", READY_PATIENCE)?;
        }
        set_descriptors(&crew, 3)?;
        std::thread::sleep(Duration::from_millis(dice.u64(20..300)));
        for writer in crew.iter().filter(|writer| writer.job.act == Act::Visit) {
            if writer.child.wait_for("err", PATIENCE).is_err() {
                let number = writer.job.number;
                self.findings
                    .push(format!("process {number} did not notice that there are no more"));
            }
        }
        set_descriptors(&crew, 1024)?;
        self.all_go_on(&crew);
        self.end(crew)?;
        for failure in &self.ledger.failures {
            // SQLITE_CANTOPEN, or an error of opening that is not SQLite's.
            if !matches!(failure.code, 14 | 0) || failure.what != "other" {
                self.findings.push(format!("not a clear error: {failure:?}"));
            }
        }
        Ok(())
    }

    fn starve(&mut self) -> Result<()> {
        let none = Preload::default();
        let mut crew = (0..3)
            .map(|number| self.start(number, Act::Mix, 3, &none))
            .collect::<Result<Vec<Writer>>>()?;
        for writer in &crew {
            writer.child.wait_for("ack", READY_PATIENCE)?;
        }
        crew[0].is_victim = true;
        let group = MemoryGroup::new(MEMORY_BYTES)?;
        group.take_in(crew[0].child.id())?;
        if !crew[0].child.dies_within(PATIENCE)? {
            self.findings.push(format!("the kernel did not kill it in {PATIENCE:?}"));
            crew[0].child.signal(Signal::KILL)?;
        }
        self.all_go_on(&crew);
        self.end(crew)
    }

    fn contain(&mut self) -> Result<()> {
        let mut dice = Rng::with_seed(self.seed);
        let container = Preload::started_by(&[
            "unshare",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child=KILL",
        ]);
        let mut crew = (0..2)
            .map(|number| self.start(number, Act::Mix, 3, &container))
            .collect::<Result<Vec<Writer>>>()?;
        for writer in &crew {
            writer.child.wait_for("ack", READY_PATIENCE)?;
            let own = own_number(writer.child.id())?;
            ensure!(own == "1", "process {} is {own} in its own namespace", writer.child.id());
        }
        std::thread::sleep(Duration::from_micros(dice.u64(..60_000)));
        crew[0].is_victim = true;
        crew[0].child.signal(Signal::KILL)?;
        crew[0].child.dies_within(PATIENCE)?;
        self.all_go_on(&crew);
        self.end(crew)
    }
}

fn set_descriptors(crew: &[Writer], count: u64) -> Result<()> {
    for writer in crew {
        let pid = Pid::from_raw(writer.child.id() as i32);
        let limit = Rlimit { current: Some(count), maximum: Some(1024) };
        prlimit(pid, Resource::Nofile, limit).context("limit the descriptors of a process")?;
    }
    Ok(())
}

/// The number that a container's first process has there; `starter` is its parent outside.
fn own_number(starter: u32) -> Result<String> {
    let children = std::fs::read_to_string(format!("/proc/{starter}/task/{starter}/children"));
    let children = children.context("who is in the container")?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", children.trim()))?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let number = numbers.and_then(|numbers| numbers.split_whitespace().last());
    number.map(str::to_owned).context("a process has a number in its namespace")
}

/// A control group of the memory controller, inside our own. It goes away when dropped.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    fn new(bytes: u64) -> Result<MemoryGroup> {
        let groups = std::fs::read_to_string("/proc/self/cgroup")?;
        let own = groups.lines().find_map(|line| line.split_once(":memory:"));
        let (_, own) =
            own.context("this campaign needs the memory controller of cgroup version 1")?;
        let root = Path::new("/sys/fs/cgroup/memory").join(own.trim_start_matches('/'));
        let group = root.join(format!("reliability-{}", std::process::id()));
        std::fs::create_dir(&group).context("make a control group, which only root may do")?;
        let group = MemoryGroup(group);
        std::fs::write(group.0.join("memory.limit_in_bytes"), bytes.to_string())?;
        Ok(group)
    }

    fn take_in(&self, process: u32) -> Result<()> {
        let members = self.0.join("cgroup.procs");
        std::fs::write(members, process.to_string()).context("move a process into a control group")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
