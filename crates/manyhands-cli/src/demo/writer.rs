//! A writer of the demo: one process, one connection, one row after the other for some seconds.
//!
//! | step | who | line |
//! |---|---|---|
//! | 1 | writer | [`Message::Ready`] on stdout, when it is connected |
//! | 2 | demo | an empty line on the writer's stdin: the start |
//! | 3 | writer | [`Message::Progress`], a few times a second |
//! | 4 | writer | [`Message::Report`], then it ends |
//!
//! A writer whose demo is gone ends: it has nobody to say anything to.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::PathBuf,
    process::{self, ExitCode},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use manyhands::{Database, Value};
use manyhands_sqlite::sync_count;
use serde::{Deserialize, Serialize};

/// How long a writer waits for its turn: the default of rusqlite and of Python's `sqlite3`.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Between two lines of progress. 200 processes wake the demo 800 times a second.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Rows of this size let the shell count a few hundred thousand of them without taking the cores from the writers.
const VALUE_BYTES: usize = 100;
const INSERT: &str = "INSERT INTO t(v) VALUES (?1)";
/// A writer that only ever gets errors (disk full, corrupt file) stops instead of spinning.
const ERRORS_MAX: u64 = 1_000;

/// The two engines of the demo.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Engine {
    /// Manyhands at its defaults, which are those of full durability.
    Manyhands,
    /// Stock SQLite in WAL mode at `synchronous=FULL`, with a busy timeout.
    Stock,
}

impl Engine {
    /// As a writer is told.
    pub fn name(self) -> &'static str {
        match self {
            Self::Manyhands => "manyhands",
            Self::Stock => "stock",
        }
    }
}

/// What a writer is given.
#[derive(clap::Args)]
pub struct Arguments {
    engine: Engine,
    database: PathBuf,
    seconds: f64,
}

/// What a writer says, one JSON line each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "message", content = "about", rename_all = "kebab-case")]
pub enum Message {
    /// It is connected and waits for the start.
    Ready,
    /// What it has done so far.
    Progress(Progress),
    /// It has ended.
    Report(Report),
}

/// For the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Acknowledged rows.
    pub commits: u64,
    /// Refused rows.
    pub errors: u64,
    /// The longest wait, in microseconds.
    pub longest_us: u64,
}

/// What a writer did.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// All acknowledged rows.
    pub acknowledged: u64,
    /// Those of them that were acknowledged within the planned seconds.
    pub acknowledged_in_time: u64,
    /// Refused rows, by what SQLite said.
    pub errors: BTreeMap<String, u64>,
    /// Waits in microseconds, rounded to two digits, and how many there were of each.
    pub waits_us: BTreeMap<u64, u64>,
    /// The longest wait in microseconds, exactly.
    pub longest_us: u64,
    /// Calls of fsync and fdatasync.
    pub syncs: u64,
}

impl Report {
    /// The same for the screen.
    pub fn progress(&self) -> Progress {
        Progress {
            commits: self.acknowledged,
            errors: self.errors.values().sum(),
            longest_us: self.longest_us,
        }
    }
}

/// Writes until the time is over.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut insert = connect(arguments)?;
    say(&Message::Ready)?;
    let mut line = String::new();
    if io::stdin().read_line(&mut line).context("read the start line")? == 0 {
        return Ok(ExitCode::FAILURE);
    }
    let deadline = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    let (mut report, syncs_before) = (Report::default(), sync_count::syncs());
    let progress = Arc::new(Mutex::new(Progress::default()));
    // A thread of its own: a writer that waits for its turn has something to tell, too.
    let shared = progress.clone();
    thread::spawn(move || tell(&shared));
    let mut began = Instant::now();
    let mut refused = 0;
    while began < deadline && refused < ERRORS_MAX {
        let outcome = insert();
        let ended = Instant::now();
        let wait_us = u64::try_from((ended - began).as_micros())?;
        *report.waits_us.entry(two_digits(wait_us)).or_default() += 1;
        report.longest_us = report.longest_us.max(wait_us);
        match outcome {
            Ok(()) => {
                report.acknowledged += 1;
                report.acknowledged_in_time += u64::from(ended <= deadline);
            }
            Err(error) => {
                refused += 1;
                *report.errors.entry(error).or_default() += 1;
            }
        }
        *progress.lock().unwrap_or_else(PoisonError::into_inner) = Progress {
            commits: report.acknowledged,
            errors: refused,
            longest_us: report.longest_us,
        };
        began = ended;
    }
    report.syncs = sync_count::syncs() - syncs_before;
    say(&Message::Report(report))?;
    Ok(ExitCode::SUCCESS)
}

/// Says again and again what was done so far. When nobody listens any more, there is nothing left to do.
fn tell(progress: &Mutex<Progress>) {
    loop {
        thread::sleep(PROGRESS_INTERVAL);
        let so_far = *progress.lock().unwrap_or_else(PoisonError::into_inner);
        if say(&Message::Progress(so_far)).is_err() {
            process::exit(1);
        }
    }
}

/// What inserts one row; its error is what an application would see.
fn connect(arguments: &Arguments) -> Result<Box<dyn FnMut() -> Result<(), String>>> {
    let value = vec![0x5a; VALUE_BYTES];
    let database = &arguments.database;
    Ok(match arguments.engine {
        Engine::Manyhands => {
            let mut connection = Database::builder(database).timeout(TIMEOUT).open()?.connect()?;
            Box::new(move || {
                let outcome = connection.execute(INSERT, &[Value::from(value.clone())]);
                outcome.map(|_outcome| ()).map_err(|error| match error {
                    // The text names the processes that it waited for: each would be an error of its own.
                    error if error.is_timeout() => "timeout".to_owned(),
                    error => error.to_string(),
                })
            })
        }
        Engine::Stock => {
            let connection = rusqlite::Connection::open(database)?;
            connection.busy_timeout(TIMEOUT)?;
            Box::new(move || {
                let outcome =
                    connection.prepare_cached(INSERT).and_then(|mut it| it.execute((&value,)));
                outcome.map(|_changes| ()).map_err(|error| error.to_string())
            })
        }
    })
}

/// Rounded up, so that a table of waits stays small.
fn two_digits(number: u64) -> u64 {
    let unit = 10_u64.pow(number.checked_ilog10().unwrap_or(0).saturating_sub(1));
    number.div_ceil(unit) * unit
}

fn say(message: &Message) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&line).and_then(|()| stdout.flush()).context("the demo is gone")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wait is at most a tenth shorter than it is told.
    #[test]
    fn waits_are_rounded_up() {
        let rounded = [0, 7, 10, 99, 101, 12_345, 99_001].map(two_digits);
        assert_eq!(rounded, [0, 7, 10, 99, 110, 13_000, 100_000]);
    }

    /// The comparison at FULL is only fair if stock really runs at FULL without being told to.
    #[test]
    fn stock_starts_at_full() {
        let connection = rusqlite::Connection::open_in_memory().expect("memory is enough");
        let synchronous: i64 = connection
            .pragma_query_value(None, "synchronous", |row| row.get(0))
            .expect("every SQLite knows this pragma");
        assert_eq!(synchronous, 2);
    }
}
