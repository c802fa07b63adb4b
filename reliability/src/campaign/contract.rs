//! What programs rely on without asking for it, in mode Auto: new ids become visible in their order, an id that was told
//! is the row's, and readers, writers and checkpoints keep nobody waiting who would not wait with SQLite alone. No call
//! fails, but for the transaction that has read what others then changed; and that stays rare.

mod hot_rows;
mod lastrowid;
mod polling;
mod standing;

use core::time::Duration;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::ValueEnum;

use super::{KILLED, READY_PATIENCE, Writer, job, place, report, results};
use crate::shell;
use crate::worker::Act;
pub use hot_rows::HOT_ROWS;
pub use lastrowid::PARENTS;
pub use polling::TABLES;

/// How many findings of one kind a process is asked for.
const FINDINGS_MAX: usize = 3;

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Only this one; otherwise each round plays all of them.
    #[arg(long)]
    case: Option<Case>,
    #[arg(long, default_value_t = 2)]
    rounds: u64,
    /// Writers of each case.
    #[arg(long, default_value_t = 4)]
    processes: i64,
    /// Writes, or transactions, of each of them.
    #[arg(long, default_value_t = 2_000)]
    writes: u64,
    /// What nobody may wait for.
    #[arg(long, default_value_t = 20_000)]
    timeout_ms: u64,
    /// How many processes are killed beside hot rows.
    #[arg(long, default_value_t = 2)]
    kills: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 0)]
    from_round: u64,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// A habit of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// A consumer polls `id > last`: it misses no row. The sqlite3 shell inserts, too, in every second round.
    Polling,
    /// A parent, its id, a child. The queue file is deleted all the time in every second round.
    Lastrowid,
    /// The WAL is cut off all the time: by a connection, or in every second round by the sqlite3 shell.
    Checkpoint,
    /// Readers stay in their transactions.
    Readers,
    /// All take turn after turn, at once, and are stopped for a moment now and then: each gets its turns.
    Turns,
    /// Read and then write the same few rows; some are killed.
    HotRows,
}

impl Case {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// A case in a round.
struct Scene<'a> {
    arguments: &'a Arguments,
    round: u64,
    seed: u64,
    database: PathBuf,
    findings: Vec<String>,
    figures: &'a mut BTreeMap<&'static str, u64>,
}

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    ensure!(arguments.timeout_ms >= 2_000, "whoever waits for its turn among others needs time");
    let (mut green, began) = (true, Instant::now());
    let rounds = arguments.from_round..arguments.from_round + arguments.rounds;
    let mut figures = BTreeMap::from([("rounds", arguments.rounds)]);
    for round in rounds.clone() {
        for case in Case::value_variants() {
            if arguments.case.is_none_or(|only| only == *case) {
                green &= play(arguments, *case, round, &mut figures)?;
            }
        }
    }
    results::append(arguments.json.as_deref(), "contract", arguments.seed, began, rounds, figures)?;
    Ok(green)
}

fn play(
    arguments: &Arguments,
    case: Case,
    round: u64,
    figures: &mut BTreeMap<&'static str, u64>,
) -> Result<bool> {
    let (directory, database) = place()?;
    let seed = arguments.seed.wrapping_mul(1_000_003).wrapping_add(round);
    let mut scene = Scene { arguments, round, seed, database, findings: Vec::new(), figures };
    let began = Instant::now();
    match case {
        Case::Polling => polling::play(&mut scene)?,
        Case::Lastrowid => lastrowid::play(&mut scene)?,
        Case::Checkpoint => standing::play_checkpoint(&mut scene)?,
        Case::Readers => standing::play_readers(&mut scene)?,
        Case::Turns => standing::play_turns(&mut scene)?,
        Case::HotRows => hot_rows::play(&mut scene)?,
    }
    let intact = scene.ask("PRAGMA integrity_check")?;
    if intact != ["ok"] {
        scene.findings.push(format!("integrity_check: {intact:?}"));
    }
    let findings = scene.findings;
    println!("{}, round {round}: {:.1?}; so far {:?}", case.name(), began.elapsed(), figures);
    let Arguments { processes, writes, timeout_ms, kills, seed, .. } = arguments;
    let replay = format!(
        "contract --case {} --processes {processes} --writes {writes} --timeout-ms {timeout_ms} \
         --kills {kills} --seed {seed} --from-round {round} --rounds 1",
        case.name()
    );
    Ok(report(&findings, &replay, Some(directory)))
}

/// What a process has said that ended in order, or as a victim.
struct Said {
    number: i64,
    lines: Vec<String>,
}

impl Said {
    /// The words behind this one, of each line that begins with it.
    fn all<'a>(&'a self, word: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
        self.lines.iter().filter_map(move |line| {
            let mut words = line.split(' ');
            (words.next() == Some(word)).then(|| words.collect())
        })
    }

    /// The number behind this word; 0 where it was never said.
    fn number(&self, word: &str) -> u64 {
        self.all(word).last().and_then(|words| words.first()?.parse().ok()).unwrap_or(0)
    }

    /// The first number of each line that begins with this word.
    fn numbers<'a>(&'a self, word: &'a str) -> impl Iterator<Item = u64> {
        self.all(word).filter_map(|words| words.first()?.parse().ok())
    }
}

impl Scene<'_> {
    fn timeout(&self) -> Duration {
        Duration::from_millis(self.arguments.timeout_ms)
    }

    /// Every second round is played another way.
    fn is_other_way(&self) -> bool {
        !self.round.is_multiple_of(2)
    }

    fn make(&self, schema: &str) -> Result<()> {
        shell::run(&self.database, &["PRAGMA journal_mode = WAL", schema]).map(drop)
    }

    /// What the file has, in the words of the sqlite3 shell.
    fn ask(&self, sql: &str) -> Result<Vec<String>> {
        let answer = shell::run(&self.database, &[".timeout 20000", sql])?;
        Ok(answer.lines().map(str::to_owned).collect())
    }

    /// The one number that the file has for it.
    fn ask_number(&self, sql: &str) -> Result<u64> {
        let answer = self.ask(sql)?;
        let number = answer.first().and_then(|line| line.parse().ok());
        number.ok_or_else(|| anyhow::anyhow!("{sql}: {answer:?}"))
    }

    fn add(&mut self, figure: &'static str, count: u64) {
        *self.figures.entry(figure).or_default() += count;
    }

    fn start(&self, act: Act, number: i64, count: u64) -> Result<Writer> {
        let mut job = job(&self.database, act, number, self.seed);
        (job.count, job.timeout_ms) = (count, self.arguments.timeout_ms);
        Writer::start(&job, None)
    }

    /// The processes that write.
    fn crew(&self, act: Act) -> Result<Vec<Writer>> {
        let numbers = 0..self.arguments.processes;
        let crew = numbers.map(|number| self.start(act, number, self.arguments.writes));
        let crew = crew.collect::<Result<Vec<Writer>>>()?;
        for writer in &crew {
            writer.child.wait_for("ready", READY_PATIENCE)?;
        }
        Ok(crew)
    }

    /// Waits for their ends, as long as they say something now and then.
    fn finish(&mut self, crew: Vec<Writer>) -> Result<Vec<Said>> {
        crew.into_iter().map(|writer| self.finish_one(writer)).collect()
    }

    /// The same of one that works until it is told to stop.
    fn stop(&mut self, mut writer: Writer) -> Result<Said> {
        writer.child.say("stop");
        self.finish_one(writer)
    }

    fn finish_one(&mut self, mut writer: Writer) -> Result<Said> {
        let (quiet_max, mut before) = (self.timeout() * 2 + Duration::from_secs(30), None);
        while !writer.child.dies_within(quiet_max)? {
            let now = Some(writer.child.heard(|heard| heard.lines.len()));
            if now == before {
                break;
            }
            before = now;
        }
        let (status, heard) = writer.child.finish(Duration::ZERO)?;
        let (number, act) = (writer.job.number, writer.job.act);
        let said = Said { number, lines: heard.lines };
        for word in ["failed", "differs"] {
            let words = said.all(word).map(|words| words.join(" "));
            let found = words.map(|words| format!("{act:?} {number} {word}: {words}"));
            self.findings.extend(found.take(FINDINGS_MAX));
        }
        match status {
            None => {
                self.findings.push(format!("{act:?} {number} said nothing more, and did not end"))
            }
            Some(status) if status.success() || writer.is_victim && is_killed(status) => {}
            Some(status) => self.findings.push(format!("{act:?} {number} ended with {status}")),
        }
        let slowest = said.number("slowest");
        if slowest >= self.arguments.timeout_ms {
            self.findings.push(format!("a call of {act:?} {number} took {slowest} ms"));
        }
        let figure = self.figures.entry("slowest_ms").or_default();
        *figure = slowest.max(*figure);
        Ok(said)
    }

    fn expect_equal(&mut self, what: &str, there: u64, expected: u64) {
        if there != expected {
            self.findings.push(format!("{what}: {there}, and not {expected}"));
        }
    }
}

fn is_killed(status: std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(KILLED)
}
