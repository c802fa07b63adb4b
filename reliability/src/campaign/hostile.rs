//! Writers beside an attacker, who can write the queue file and so, by its permissions, the database.
//!
//! What the attacker does, one thing after the other, chosen by the seed: random bytes at random places of
//! the queue file, its header and first slots most of all; zeros there; the file shorter, longer, deleted,
//! replaced by rubbish, by an empty file, by a second name of another; record locks on all of it, or on
//! random bytes, its members' bytes among them; as a member of the queue, requests that must be denied, that
//! never end, or that are no requests; the leader's place, held for a while.
//!
//! Promised, and checked: no writer dies or hangs, a wait ends soon after its deadline, every error is
//! one of a few that say what to do, what was acknowledged is there and whole, what failed is not,
//! what may be either was called unknown, and when the attack is over everybody writes again.
//!
//! Not promised: whoever writes into the queue file what a member would write can acknowledge a request
//! that nobody executed, or have one executed again, or change one and its checksum. `--aimed` measures what
//! holds then: it counts what is lost, twice or changed, and only death, hanging and damage of the database
//! itself are findings.
//!
//! The attack writes with `pwrite`, not through a mapping: both change the same pages.

mod attack;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use fastrand::Rng;

use self::attack::Attacker;
use super::{READY_PATIENCE, Writer, job, place, report, results};
use crate::clock::now_ns;
use crate::ledger::Ledger;
use crate::worker::Act;
use crate::{shell, verdict};

/// How long a writer waits for its turn.
const TIMEOUT_MS: u64 = 1_500;

/// How much later an error may come: timings decide nothing, this is a hang.
const LATENESS_LIMIT_MS: u64 = 6_000;

/// How long all have to write again after the attack.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(20);

/// How long the writers write alone, before and after.
const ALONE: Duration = Duration::from_millis(400);

/// What an error may say; anything else is a finding.
const CLEAR: &[&str] = &[
    "timed out after",
    "timed out joining the queue",
    "whether the write was committed to",
    "is not safe to use",
    "is in use by another version",
    "conflict: statement",
];

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[arg(long, default_value_t = 10)]
    rounds: u64,
    /// How long the attack of a round lasts.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 0)]
    from_round: u64,
    #[arg(long, default_value_t = 4)]
    processes: i64,
    /// Only this attack; see `attack.rs`.
    #[arg(long)]
    attack: Option<attack::Kind>,
    /// The attacker knows the layout, and writes what a member would: outside the promises.
    #[arg(long)]
    aimed: bool,
    /// Tells the errors, each kind once.
    #[arg(long)]
    verbose: bool,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// What all rounds came to.
#[derive(Default)]
struct Tally {
    attacks: BTreeMap<attack::Kind, u64>,
    acknowledged: u64,
    unknown: u64,
    timeouts: u64,
    others: u64,
    latest_ms: u64,
    paused_ms: u64,
    /// Per second and round: before, during, and after the attack.
    rates: [Vec<f64>; 3],
    /// With `--aimed`: what the file says against the acknowledgements.
    outside: u64,
    texts: BTreeMap<String, u64>,
}

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let (mut tally, mut red, began) = (Tally::default(), 0, Instant::now());
    for round in arguments.from_round..arguments.from_round + arguments.rounds {
        let (directory, database) = place()?;
        shell::create(&database)?;
        let findings = play(arguments, round, &database, &mut tally)?;
        let only = arguments.attack.map(|kind| format!(" --attack {kind}")).unwrap_or_default();
        let aimed = if arguments.aimed { " --aimed" } else { "" };
        let replay = format!(
            "hostile --seed {} --from-round {round} --rounds 1 --seconds {} --processes {}{only}{aimed}",
            arguments.seed, arguments.seconds, arguments.processes
        );
        red += u64::from(!report(&findings, &replay, Some(directory)));
    }
    tally.print(arguments);
    println!("{} rounds, {red} with findings", arguments.rounds);
    let name = if arguments.aimed { "hostile aimed" } else { "hostile" };
    let figures = [
        ("rounds", arguments.rounds),
        ("attacks", tally.attacks.values().sum()),
        ("acknowledged", tally.acknowledged),
        ("unknown", tally.unknown),
        ("timeouts", tally.timeouts),
        ("other_errors", tally.others),
        ("latest_ms", tally.latest_ms),
        ("outside", tally.outside),
    ];
    let rounds = arguments.from_round..arguments.from_round + arguments.rounds;
    results::append(arguments.json.as_deref(), name, arguments.seed, began, rounds, figures)?;
    Ok(red == 0)
}

fn play(
    arguments: &Arguments,
    round: u64,
    database: &std::path::Path,
    tally: &mut Tally,
) -> Result<Vec<String>> {
    let seed = arguments.seed.wrapping_mul(0x9E37_79B9).wrapping_add(round);
    let mut crew = (0..arguments.processes)
        .map(|number| {
            let mut job = job(database, Act::Mix, number, seed);
            job.timeout_ms = TIMEOUT_MS;
            job.threads = 2;
            Writer::start(&job, None)
        })
        .collect::<Result<Vec<Writer>>>()?;
    for writer in &crew {
        writer.child.wait_for("ready", READY_PATIENCE)?;
    }
    let began_ns = now_ns();
    std::thread::sleep(ALONE);
    let attacked_ns = now_ns();
    let pauses = Pauses::watch();
    let mut attacker = Attacker::new(database, Rng::with_seed(seed), arguments.aimed);
    let end = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    while Instant::now() < end {
        let kind = attacker.attack(arguments.attack)?;
        *tally.attacks.entry(kind).or_default() += 1;
    }
    attacker.leave();
    let left_ns = now_ns();
    let mut findings = Vec::new();
    for writer in &crew {
        if !writes_after(writer, left_ns) {
            let number = writer.job.number;
            findings.push(format!("process {number} wrote no more after the attack"));
        }
    }
    let again_ns = now_ns();
    std::thread::sleep(ALONE);
    let ended_ns = now_ns();
    crew.iter_mut().for_each(|writer| writer.child.say("stop"));
    let mut ledger = Ledger::new(seed, false);
    for writer in crew {
        writer.finish(&mut ledger, &mut findings)?;
    }
    judge_errors(&ledger, pauses.longest(), tally, &mut findings);
    let verdict = verdict::examine(database, &ledger)?.findings;
    if arguments.aimed {
        let (damage, outside) =
            verdict.into_iter().partition::<Vec<_>, _>(|it| it.starts_with("integrity_check"));
        findings.extend(damage);
        tally.outside += outside.len() as u64;
    } else {
        findings.extend(verdict);
    }
    tally.acknowledged += ledger.acked.len() as u64;
    let spans = [(began_ns, attacked_ns), (attacked_ns, left_ns), (again_ns, ended_ns)];
    for (rates, (from, to)) in tally.rates.iter_mut().zip(spans) {
        let acked = ledger.acked.values().filter(|ack| (from..to).contains(&ack.ns)).count();
        rates.push(acked as f64 / ((to - from) as f64 / 1e9));
    }
    Ok(findings)
}

/// True when it acknowledges something after a moment; waits for it.
fn writes_after(writer: &Writer, since_ns: u64) -> bool {
    let end = Instant::now() + RECOVERY_PATIENCE;
    let acked = || {
        writer.child.heard(|heard| {
            heard.lines.iter().rev().take(50).any(|line| {
                let mut words = line.split(' ');
                let ack = words.next() == Some("ack");
                ack && words
                    .next()
                    .and_then(|ns| ns.parse().ok())
                    .is_some_and(|ns: u64| ns > since_ns)
            })
        })
    };
    while !acked() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// How long this machine stood still: then everybody is late, and nobody's fault.
struct Pauses {
    longest_ms: Arc<AtomicU64>,
    end: Arc<AtomicBool>,
}

impl Pauses {
    fn watch() -> Pauses {
        let (longest_ms, end) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (longest, ended) = (Arc::clone(&longest_ms), Arc::clone(&end));
        std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(Duration::from_millis(10));
                let late = began.elapsed().as_millis() as u64;
                longest.fetch_max(late, Ordering::Relaxed);
            }
        });
        Pauses { longest_ms, end }
    }

    fn longest(&self) -> u64 {
        self.longest_ms.load(Ordering::Relaxed)
    }
}

impl Drop for Pauses {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

fn judge_errors(ledger: &Ledger, paused_ms: u64, tally: &mut Tally, findings: &mut Vec<String>) {
    let late_ms = TIMEOUT_MS + LATENESS_LIMIT_MS + 2 * paused_ms;
    tally.paused_ms = tally.paused_ms.max(paused_ms);
    for failure in &ledger.failures {
        tally.latest_ms = tally.latest_ms.max(failure.waited_ms);
        match failure.what.as_str() {
            "unknown" => tally.unknown += 1,
            "timeout" => tally.timeouts += 1,
            _ => tally.others += 1,
        }
        let shape: String = failure.text.chars().filter(|c| !c.is_ascii_digit()).take(80).collect();
        *tally.texts.entry(shape).or_default() += 1;
        if failure.waited_ms > late_ms {
            findings.push(format!("an error after {} ms: {}", failure.waited_ms, failure.text));
        }
        if !CLEAR.iter().any(|clear| failure.text.contains(clear)) {
            findings.push(format!("an error that is not clear: {}", failure.text));
        }
    }
    findings.truncate(20);
}

impl Tally {
    fn print(&self, arguments: &Arguments) {
        for (kind, count) in &self.attacks {
            println!("{kind:10} {count} times");
        }
        let median = |rates: &[f64]| super::median_and_max(rates.to_vec()).0;
        let [before, during, after] = [0, 1, 2].map(|span| median(&self.rates[span]));
        println!(
            "{} acknowledged; median {before:.0}/s before the attacks, {during:.0}/s during, {after:.0}/s after",
            self.acknowledged
        );
        println!(
            "{} unknown outcomes, {} timeouts, {} other errors, the latest after {} ms (the \
             machine stood still for {} ms at most)",
            self.unknown, self.timeouts, self.others, self.latest_ms, self.paused_ms
        );
        if arguments.aimed {
            println!("{} operations are not as acknowledged, outside the promises", self.outside);
        }
        if arguments.verbose {
            self.texts.iter().for_each(|(text, count)| println!("{count:6} {text}"));
        }
    }
}
