//! Writers that are stopped or frozen, not dead: nobody may take their place, so the others wait until their own
//! deadlines, are told who holds the turn, and go on when it runs again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;
use rustix::process::Signal;

use super::{READY_PATIENCE, Writer, job, place, report, results};
use crate::child::Child;
use crate::clock::now_ns;
use crate::entry::Operation;
use crate::ledger::{Failure, Ledger};
use crate::worker::Act;
use crate::{shell, verdict};

/// How long the others wait for their turn.
const TIMEOUT_MS: u64 = 400;

/// How much later a timeout may come without a finding: timings decide nothing, this is a hang.
const LATENESS_LIMIT_MS: u64 = 5_000;

/// How long a writer is stopped: the others' deadlines come in the middle of it, and not at its end.
const STOPPED: Duration = Duration::from_millis(1_400);

/// How long nobody writes when the leader is stopped, and somebody does when it is not.
const STILL: Duration = Duration::from_millis(100);

/// How many writers are stopped in search of the leader.
const TRIES: u32 = 60;

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Rounds of each of the four cases.
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

/// Who is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// The one that holds a transaction with the turn.
    Holder,
    /// The one whose turn is next.
    Next,
    /// One that leads and executes the others' requests. It is found by stopping one after the other,
    /// until nobody writes any more.
    Leader,
}

/// What a round showed.
#[derive(Default)]
struct Seen {
    findings: Vec<String>,
    timeouts: usize,
    latest_ms: u64,
    /// The others whose request was being executed by the one that was stopped. They cannot withdraw
    /// it: their answer comes after their deadline, when it runs again.
    fated: usize,
    /// The others' acknowledgements while one was stopped.
    acked_meanwhile: usize,
}

/// How a writer is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// SIGSTOP.
    Signal,
    /// A frozen control group, as containers are paused.
    Freezer,
}

impl Means {
    fn stop(self, child: &Child) -> Result<()> {
        let Means::Freezer = self else { return child.signal(Signal::STOP) };
        let group = freezer(child);
        std::fs::create_dir_all(&group).context("make a control group, which only root may do")?;
        std::fs::write(group.join("cgroup.procs"), child.id().to_string())?;
        std::fs::write(group.join("freezer.state"), "FROZEN").context("freeze a process")
    }

    fn let_go(self, child: &Child) -> Result<()> {
        let Means::Freezer = self else { return child.signal(Signal::CONT) };
        let group = freezer(child);
        std::fs::write(group.join("freezer.state"), "THAWED").context("thaw a process")?;
        std::fs::write(Path::new(FREEZER).join("cgroup.procs"), child.id().to_string())?;
        std::fs::remove_dir(group).context("remove a control group")
    }
}

/// The freezer of cgroup version 1.
const FREEZER: &str = "/sys/fs/cgroup/freezer";

fn freezer(child: &Child) -> PathBuf {
    Path::new(FREEZER).join(format!("reliability-{}", child.id()))
}

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let (mut green, began, mut all_timeouts, mut all_latest_ms) = (true, Instant::now(), 0, 0);
    let rounds = arguments.from_round..arguments.from_round + arguments.rounds;
    let by_signal = [Case::Holder, Case::Next, Case::Leader].map(|case| (case, Means::Signal));
    let frozen = (Case::Leader, Means::Freezer);
    for (case, means) in by_signal.into_iter().chain([frozen]) {
        let (mut timeouts, mut latest_ms, mut fated, mut meanwhile) = (0, 0, 0, Vec::new());
        for round in rounds.clone() {
            let (directory, database) = place()?;
            shell::create(&database)?;
            let seed = arguments.seed.wrapping_mul(0x51_7C_C1).wrapping_add(round);
            let seen = play(case, means, &database, seed)?;
            timeouts += seen.timeouts;
            fated += seen.fated;
            latest_ms = latest_ms.max(seen.latest_ms);
            meanwhile.push(seen.acked_meanwhile);
            let findings: Vec<_> = seen
                .findings
                .iter()
                .map(|text| format!("{case:?}, round {round}: {text}"))
                .collect();
            let replay =
                format!("stopped --seed {} --from-round {round} --rounds 1", arguments.seed);
            green &= report(&findings, &replay, Some(directory));
        }
        all_timeouts += timeouts as u64;
        all_latest_ms = latest_ms.max(all_latest_ms);
        let least = meanwhile.iter().min().copied().unwrap_or(0);
        println!(
            "{case:?}, {means:?}: {} rounds, {timeouts} timeouts of {TIMEOUT_MS} ms, the latest after \
             {latest_ms} ms; {fated} waited for their fate; the others wrote at least {least} times meanwhile",
            arguments.rounds
        );
    }
    let figures =
        [("rounds", arguments.rounds), ("timeouts", all_timeouts), ("latest_ms", all_latest_ms)];
    results::append(arguments.json.as_deref(), "stopped", arguments.seed, began, rounds, figures)?;
    Ok(green)
}

fn play(case: Case, means: Means, database: &Path, seed: u64) -> Result<Seen> {
    let mut seen = Seen::default();
    let act = |number: i64| match (case, number) {
        (Case::Holder | Case::Next, 0) => Act::Hold,
        (Case::Next, 1) => Act::Ask,
        _ => Act::Mix,
    };
    // Who holds the turn begins; the others come when it does.
    let mut crew = Vec::new();
    for number in 0..6 {
        let mut job = job(database, act(number), number, seed);
        if job.act == Act::Mix && case != Case::Next {
            job.timeout_ms = TIMEOUT_MS;
        }
        let writer = Writer::start(&job, None)?;
        let first = if job.act == Act::Hold { "holding" } else { "ready" };
        writer.child.wait_for(first, READY_PATIENCE)?;
        if job.act == Act::Ask {
            let mut writer = writer;
            writer.child.say("go");
            writer.child.wait_for("asking", READY_PATIENCE)?;
            // It says so before it asks; the others come after it.
            std::thread::sleep(Duration::from_millis(50));
            crew.push(writer);
        } else {
            crew.push(writer);
        }
    }
    let victim = match case {
        Case::Holder => 0,
        Case::Next => 1,
        Case::Leader => find_leader(means, &crew, seed)?,
    };
    let (pid, label) = (crew[victim].child.id(), label(&crew[victim]));
    means.stop(&crew[victim].child)?;
    let stopped_ns = now_ns();
    if case == Case::Next {
        crew[0].child.say("go");
    }
    std::thread::sleep(STOPPED);
    let continued_ns = now_ns();
    means.let_go(&crew[victim].child)?;
    if case == Case::Holder {
        crew[0].child.say("go");
    }
    // All must write again before they are told to stop.
    for writer in &crew {
        let since = continued_ns;
        if !writes_after(writer, since) {
            seen.findings.push(format!("process {} wrote no more", writer.job.number));
        }
    }
    crew.iter_mut().for_each(|writer| writer.child.say("stop"));
    let mut ledger = Ledger::new(seed, false);
    for writer in crew {
        writer.finish(&mut ledger, &mut seen.findings)?;
    }
    // What the stopped one says of its own wait, which it slept through, is its own affair.
    let others = |operation: &Operation| operation.writer / 100 != victim as i64;
    for failure in ledger.failures.iter().filter(|failure| others(&failure.operation)) {
        // A deadline that comes when it runs again may be told who writes then.
        let is_stopped = failure.ns < continued_ns;
        check(failure, case, is_stopped.then_some((pid, &label)), &mut seen);
    }
    seen.fated = fated(&ledger, others, stopped_ns, continued_ns);
    let meanwhile = |ns: u64| (stopped_ns + 20_000_000..continued_ns).contains(&ns);
    seen.acked_meanwhile = ledger.acked.values().filter(|ack| meanwhile(ack.ns)).count();
    if case == Case::Holder && seen.timeouts == 0 {
        seen.findings.push("nobody timed out while the holder was stopped".into());
    }
    if case == Case::Next && seen.acked_meanwhile == 0 {
        seen.findings.push("a stopped waiter stopped the others".into());
    }
    seen.findings.extend(verdict::examine(database, &ledger)?.findings);
    Ok(seen)
}

/// Stops one writer after the other for a moment, and leaves the one stopped without which nobody
/// writes. After too many tries the last one, whatever it is.
fn find_leader(means: Means, crew: &[Writer], seed: u64) -> Result<usize> {
    let mut random = Rng::with_seed(seed);
    for attempt in 1.. {
        std::thread::sleep(Duration::from_micros(random.u64(2_000..20_000)));
        let chosen = random.usize(..crew.len());
        means.stop(&crew[chosen].child)?;
        std::thread::sleep(STILL);
        let others = || crew.iter().enumerate().filter(|(index, _)| *index != chosen);
        let since = now_ns() - STILL.as_nanos() as u64 / 2;
        if attempt == TRIES || !others().any(|(_, writer)| acked_since(writer, since)) {
            return Ok(chosen);
        }
        means.let_go(&crew[chosen].child)?;
    }
    unreachable!("the loop ends at the last try")
}

/// True when it acknowledged something after a moment.
fn acked_since(writer: &Writer, since_ns: u64) -> bool {
    writer.child.heard(|heard| {
        heard.lines.iter().rev().take(50).any(|line| {
            let mut words = line.split(' ');
            words.next() == Some("ack")
                && words
                    .next()
                    .and_then(|ns| ns.parse::<u64>().ok())
                    .is_some_and(|ns| ns > since_ns)
        })
    })
}

fn label(writer: &Writer) -> String {
    match writer.job.act {
        Act::Hold => "holder".to_owned(),
        Act::Ask => "asker".to_owned(),
        _ => format!("worker {}", writer.job.number),
    }
}

/// True when it acknowledges something after a moment; waits for it.
fn writes_after(writer: &Writer, since_ns: u64) -> bool {
    let end = now_ns() + READY_PATIENCE.as_nanos() as u64 / 4;
    while now_ns() < end {
        if acked_since(writer, since_ns) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// How many writers were acknowledged, for the first time since one was stopped, only after it ran
/// again, and had no timeout meanwhile.
fn fated(
    ledger: &Ledger,
    others: impl Fn(&Operation) -> bool,
    stopped_ns: u64,
    continued_ns: u64,
) -> usize {
    let acks = ledger.acked.iter().map(|(operation, ack)| (operation, ack.ns));
    let failures = ledger.failures.iter().map(|failure| (&failure.operation, failure.ns));
    let mut first = BTreeMap::new();
    for (operation, ns) in acks.chain(failures).filter(|(_, ns)| *ns > stopped_ns) {
        if others(operation) {
            let earliest = first.entry(operation.writer).or_insert(ns);
            *earliest = ns.min(*earliest);
        }
    }
    first.values().filter(|ns| **ns >= continued_ns).count()
}

/// A failure must be a timeout, in time, that names the process which is stopped, if there is one.
fn check(failure: &Failure, case: Case, stopped: Option<(u32, &String)>, seen: &mut Seen) {
    let mut say = |what: &str| seen.findings.push(format!("{what}: {}", failure.text));
    if failure.what != "timeout" {
        return say("an error that is no timeout");
    }
    if case == Case::Next {
        return say("a stopped waiter made another time out");
    }
    if failure.waited_ms > TIMEOUT_MS + LATENESS_LIMIT_MS {
        say("a timeout came late");
    }
    let name = stopped.map(|(pid, label)| format!("process {pid} ({label})"));
    if let Some(name) = name.filter(|name| !failure.text.contains(name)) {
        say(&format!("a timeout did not name {name}"));
    }
    seen.timeouts += 1;
    seen.latest_ms = seen.latest_ms.max(failure.waited_ms);
}
