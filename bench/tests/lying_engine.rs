//! An engine that lies must not get a figure: this program is the benchmark with two more engines, one of which acknowledges
//! a write that it does not do, and the other does one that it does not acknowledge.
//!
//! Its tests run the program itself, as the benchmark runs its workers: so it has a `main` of its own.

use std::{
    path::Path,
    process::{Command, ExitCode},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use manyhands_bench::{
    engine::{
        Answer, Client, Effort, Engine, Opened, Parameter, Refusal, Tables, TaskDatabase, Work,
    },
    engines::Engines,
    workload::Demand,
};
use serde_json::Value;

/// Which write of a process it lies about.
const LIE: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lie {
    /// Acknowledges what it did not do.
    Loses,
    /// Refuses what it did.
    Hides,
    /// Does not lie: what the others are wrapped around.
    Honest,
}

impl Lie {
    fn name(self) -> &'static str {
        match self {
            Self::Loses => "loses",
            Self::Hides => "hides",
            Self::Honest => "honest",
        }
    }
}

struct Liar {
    lie: Lie,
    engines: Engines,
}

impl Liar {
    fn new(lie: Lie) -> Self {
        Self { lie, engines: Engines::built_in() }
    }

    fn honest(&self) -> &dyn Engine {
        self.engines.find("manyhands").expect("every build has it")
    }
}

impl Engine for Liar {
    fn name(&self) -> &'static str {
        self.lie.name()
    }

    fn version(&self) -> Result<String, Refusal> {
        self.honest().version()
    }

    fn is_default(&self, _demand: Demand) -> bool {
        false
    }

    fn accepts(&self, _demand: Demand) -> Result<(), String> {
        Ok(())
    }

    fn prepare(&self, directory: &Path, schema: &str) -> Result<Box<dyn Tables>> {
        self.honest().prepare(directory, schema)
    }

    fn open(
        &self,
        database: &Path,
        timeout: Duration,
        label: &str,
    ) -> Result<Box<dyn Opened>, Refusal> {
        let opened = self.honest().open(database, timeout, label)?;
        Ok(Box::new(Lying { teller: Teller { lie: self.lie, writes: Arc::default() }, opened }))
    }
}

/// Knows which write it is, among all of the process.
#[derive(Clone)]
struct Teller {
    lie: Lie,
    writes: Arc<AtomicU64>,
}

impl Teller {
    /// What the client is told of the next write.
    fn tell(&self, write: impl FnOnce() -> Result<(), Refusal>) -> Result<(), Refusal> {
        let is_lie = self.writes.fetch_add(1, Ordering::Relaxed) == LIE;
        match self.lie {
            Lie::Loses if is_lie => Ok(()),
            Lie::Hides if is_lie => write().and(Err(Refusal("hidden".to_owned()))),
            _ => write(),
        }
    }
}

struct Lying {
    teller: Teller,
    opened: Box<dyn Opened>,
}

impl Opened for Lying {
    fn connect(&self) -> Result<Box<dyn Client>, Refusal> {
        let client = self.opened.connect()?;
        Ok(Box::new(LyingClient { teller: self.teller.clone(), client, last: None }))
    }

    fn tasks(&self) -> Result<Option<Box<dyn TaskDatabase>>, Refusal> {
        let honest = self.opened.tasks()?.expect("the honest engine has tasks");
        Ok(Some(Box::new(LyingTasks { teller: self.teller.clone(), honest })))
    }
}

struct LyingTasks {
    teller: Teller,
    honest: Box<dyn TaskDatabase>,
}

impl TaskDatabase for LyingTasks {
    fn write(&self, sql: &'static str, value: &'static [u8]) -> Answer<'_> {
        let is_lie = self.teller.writes.fetch_add(1, Ordering::Relaxed) == LIE;
        Box::pin(async move {
            match self.teller.lie {
                Lie::Loses if is_lie => Ok(()),
                Lie::Hides if is_lie => {
                    self.honest.write(sql, value).await.and(Err(Refusal("hidden".to_owned())))
                }
                _ => self.honest.write(sql, value).await,
            }
        })
    }
}

struct LyingClient {
    teller: Teller,
    client: Box<dyn Client>,
    last: Option<i64>,
}

impl Client for LyingClient {
    fn write(
        &mut self,
        sql: &str,
        parameter: Parameter<'_>,
        effort: &mut Effort,
    ) -> Result<(), Refusal> {
        self.teller.tell(|| self.client.write(sql, parameter, effort))
    }

    /// Its lies: the same number twice, and a number that nobody gets.
    fn take(
        &mut self,
        sql: &str,
        parameter: Parameter<'_>,
        effort: &mut Effort,
    ) -> Result<Option<i64>, Refusal> {
        let is_lie = self.teller.writes.fetch_add(1, Ordering::Relaxed) == LIE;
        if is_lie && self.teller.lie == Lie::Loses && self.last.is_some() {
            return Ok(self.last);
        }
        self.last = self.client.take(sql, parameter, effort)?;
        if is_lie && self.teller.lie == Lie::Hides {
            return Err(Refusal("hidden".to_owned()));
        }
        Ok(self.last)
    }

    fn read(&mut self, work: &mut Work<'_>) -> Result<(), Refusal> {
        self.client.read(work)
    }

    fn transact(&mut self, work: &mut Work<'_>, effort: &mut Effort) -> Result<(), Refusal> {
        self.teller.tell(|| self.client.transact(work, effort))
    }
}

/// Workloads whose writes go through the engine's trait, as tiny runs.
const RUNS: [&[&str]; 9] = [
    &["threads", "--threads", "2", "--seconds", "1"],
    &["clients", "--processes", "2", "--clients", "20", "--seconds", "1"],
    &["claim", "--threads", "1", "--jobs", "100"],
    &["endless-reader", "--threads", "2", "--seconds", "1"],
    &["counter", "--threads", "2", "--seconds", "1"],
    &["think", "--threads", "2", "--think-us", "0", "--seconds", "1"],
    &["transfer", "--threads", "2", "--think-us", "0", "--seconds", "1"],
    &["orm", "--threads", "2", "--seconds", "1"],
    &["mixed", "--threads", "2", "--seconds", "1", "--long-seconds", "1"],
];

/// Runs a workload on one of the engines; its JSON lines, and whether the command was content.
fn bench(arguments: &[&str], lie: Lie) -> (Vec<Value>, bool) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(arguments)
        .args(["--repeat", "1", "--engines", lie.name()])
        .arg("--directory")
        .arg(directory.path())
        .output()
        .expect("the command starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    assert!(!lines.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (lines, output.status.success())
}

/// One write that was lost, or done and not told, takes the figure of its cell away, and the command fails.
fn a_lie_has_no_figure(arguments: &[&str]) {
    for lie in [Lie::Loses, Lie::Hides] {
        let (lines, is_content) = bench(arguments, lie);
        assert!(!is_content, "{arguments:?} {}: {lines:?}", lie.name());
        // The engine lies in each of its processes, and so in each cell.
        for line in lines {
            assert!(line["figures"].is_null(), "{arguments:?} {}: {line}", lie.name());
            let check = line["check"].as_str().expect("a text");
            assert!(check.contains("in the file"), "{arguments:?} {}: {check}", lie.name());
        }
    }
}

/// The same way around an engine that does what it says has figures: it is the lie that is found.
fn the_truth_has_figures(arguments: &[&str]) {
    let (lines, is_content) = bench(arguments, Lie::Honest);
    assert!(is_content && lines.iter().all(|line| line["figures"].is_object()), "{lines:?}");
}

fn main() -> ExitCode {
    // What a test runner gives is none of these.
    let first = std::env::args().nth(1).unwrap_or_default();
    if first == "worker" || RUNS.iter().any(|arguments| arguments[0] == first) {
        let engines = [Lie::Loses, Lie::Hides, Lie::Honest]
            .into_iter()
            .fold(Engines::built_in(), |engines, lie| engines.with(Liar::new(lie)));
        return manyhands_bench::main(&engines);
    }
    for arguments in RUNS {
        println!("test {} ...", arguments[0]);
        a_lie_has_no_figure(arguments);
        the_truth_has_figures(arguments);
    }
    println!("test result: ok. {} workloads", RUNS.len());
    ExitCode::SUCCESS
}
