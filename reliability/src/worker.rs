//! A writer process.
//!
//! It says, one line each, in its pipe:
//!
//! | line                                         | after                                         |
//! |----------------------------------------------|-----------------------------------------------|
//! | `ready`                                      | the database was opened                       |
//! | `ack NS WRITER SEQUENCE RETURNED`            | a call returned success                       |
//! | `refused NS WRITER SEQUENCE`                 | a constraint was violated, as it should be    |
//! | `err NS WRITER SEQUENCE WHAT CODE MS TEXT`   | a call failed; WHAT: timeout, unknown, other  |
//! | `holding`, `asking`                          | see [`Act`]                                   |
//! | `saw NS WRITER:SEQUENCE,... COUNTER:N,...`   | a reader was shown this                       |
//! | `rss ...`                                    | see `memory`                                  |
//! | `told`, `did`, `failed` and others           | see `contract`                                |
//! | `reached`, `forked`, `lingers`, `round`      | see `forking`                                 |
//! | `end`                                        | everything was closed                         |
//!
//! It hears in its stdin: `go`, `stop`. When stdin ends, it ends at once.

mod contract;
mod hand;
mod stock;
mod watch;
mod forking;
mod memory;

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::BufRead;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use clap::ValueEnum;
use fastrand::Rng;
use manyhands::{Database, Durability, TransactionMode};

pub use self::contract::CHECKPOINT_EVERY;
pub use self::forking::RELEASE;
use self::hand::Hand;
use crate::black_box;
use crate::campaign::log_path;
use crate::entry::SCHEMA;
use crate::isolation::player;

/// What a writer exits with when the campaign is gone.
const ABANDONED: i32 = 3;

/// What a writer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Act {
    /// Writes all kinds of operations until `stop`, or `count` of them.
    Mix,
    /// Writes the same through the sqlite3 shell, with SQLite's own transactions, and checkpoints.
    Stock,
    /// The sqlite3 shell writes to a table of its own, and restarts the WAL all the time, until `stop`.
    Careless,
    /// Reads, and says what it was shown, until `stop`.
    Watch,
    /// The same through the sqlite3 shell.
    StockWatch,
    /// Writes inserts only, without pause, until `stop`.
    Storm,
    /// Begins a transaction that holds the turn, says `holding`, commits at `go`; then as mix.
    Hold,
    /// At `go` says `asking` and asks for a turn; then as mix.
    Ask,
    /// Writes as mix; before each operation it connects anew, and attaches a database or sorts in a temporary file.
    Visit,
    /// Forks at each crash point and in each state of a connection; meanwhile as mix.
    Fork,
    /// Makes the tables if they do not exist, and inserts one row.
    Open,
    /// Plays `count` random transactions in each thread, and logs beside the database what they saw.
    Transactions,
    /// Plays `count` transactions on lists in each thread, and logs beside the database what they saw.
    Lists,
    /// Inserts `count` rows in all ways, and says which ids it was told.
    Produce,
    /// Polls for new rows until `stop`, and says which ids it has seen.
    Poll,
    /// Inserts `count` parents and a child of each.
    Adopt,
    /// Commits `count` transactions that write and then read.
    Touch,
    /// Checkpoints, and cuts the WAL off, all the time until `stop`.
    Truncate,
    /// Stays in transactions that read while others write, until `stop`.
    Linger,
    /// Takes turn after turn, at once, until `stop`.
    TakeTurns,
    /// Commits `count` transactions that read hot rows and then write them.
    CountUp,
    /// Opens connections, and says what they cost.
    Idle,
    /// Writes `count` rows, and says how its memory grows.
    Grow,
}

/// The job of a writer process.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[arg(long)]
    pub database: PathBuf,
    #[arg(long)]
    pub act: Act,
    /// The number of the process.
    #[arg(long)]
    pub number: i64,
    #[arg(long)]
    pub seed: u64,
    #[arg(long, default_value_t = 1)]
    pub threads: i64,
    #[arg(long, default_value_t = 60_000)]
    pub timeout_ms: u64,
    /// Operations of each thread of `mix`, 0 for no end; connections of `idle`, rows of `grow`, what is done of `contract`,
    /// transactions of each thread of `transactions` and `lists`.
    #[arg(long, default_value_t = 0)]
    pub count: u64,
    /// PRAGMA synchronous of `stock` and `careless`; NORMAL lowers the durability of the others, too.
    #[arg(long, default_value = "FULL")]
    pub synchronous: String,
}

impl Arguments {
    /// As the words of a command line.
    pub fn words(&self) -> Vec<String> {
        let act = self.act.to_possible_value().map(|value| value.get_name().to_owned());
        let pairs = [
            ("--database", self.database.display().to_string()),
            ("--act", act.unwrap_or_default()),
            ("--number", self.number.to_string()),
            ("--seed", self.seed.to_string()),
            ("--threads", self.threads.to_string()),
            ("--timeout-ms", self.timeout_ms.to_string()),
            ("--count", self.count.to_string()),
            ("--synchronous", self.synchronous.clone()),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }
}

/// What the campaign said.
struct Orders {
    stop: AtomicBool,
    go: Mutex<Receiver<()>>,
}

impl Orders {
    /// Listens to stdin from now on.
    fn listen() -> Arc<Orders> {
        let (sender, go) = channel();
        let orders = Arc::new(Orders { stop: AtomicBool::new(false), go: Mutex::new(go) });
        let told = Arc::clone(&orders);
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                match line.as_deref() {
                    Ok("stop") => told.stop.store(true, Ordering::Relaxed),
                    Ok("go") => drop(sender.send(())),
                    _ => break,
                }
            }
            std::process::exit(ABANDONED);
        });
        orders
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn is_told_to_go(&self) -> bool {
        self.go.lock().unwrap_or_else(PoisonError::into_inner).try_recv().is_ok()
    }

    fn wait_for_go(&self) -> Result<()> {
        let go = self.go.lock().unwrap_or_else(PoisonError::into_inner);
        go.recv_timeout(Duration::from_secs(60)).context("nobody said go")
    }
}

/// Says one line. Lines are shorter than a pipe's atomic write, so death never leaves half of one
/// that looks whole.
fn say(line: &str) {
    // Not through its buffer, which another thread of a forked child's parent may have held. An error: nobody
    // listens any more. Then stdin ends too, and with it this process.
    let _ = rustix::io::write(std::io::stdout(), format!("{line}\n").as_bytes());
}

/// Does the job.
pub fn run(job: &Arguments) -> Result<()> {
    let orders = Orders::listen();
    match job.act {
        Act::Stock => return stock::write(job, &orders),
        Act::Careless => return stock::be_careless(job, &orders),
        Act::StockWatch => return watch::through_the_shell(job, &orders),
        Act::Fork => return forking::run(job, &orders),
        _ => {}
    }
    let label = match job.act {
        Act::Hold => "holder".to_owned(),
        Act::Ask => "asker".to_owned(),
        _ => format!("worker {}", job.number),
    };
    let database = Database::builder(&job.database)
        .timeout(Duration::from_millis(job.timeout_ms))
        .durability(if job.synchronous == "NORMAL" { Durability::Normal } else { Durability::Full })
        .label(label)
        // For a plain BEGIN, which others than the isolation campaign's players do not use.
        .transaction_mode(TransactionMode::Auto)
        .open()
        .context("open the database")?;
    say("ready");
    match job.act {
        Act::Idle => memory::idle(&database, job.count, &orders)?,
        Act::Grow => memory::grow(&database, job)?,
        Act::Open => open(&database, job)?,
        Act::Transactions | Act::Lists => transactions(&database, job, &orders)?,
        Act::Watch => watch::read(&database, &orders)?,
        Act::Produce
        | Act::Poll
        | Act::Adopt
        | Act::Touch
        | Act::Truncate
        | Act::Linger
        | Act::TakeTurns
        | Act::CountUp => contract::run(&database, job, &orders)?,
        _ => std::thread::scope(|scope| {
            let threads: Vec<_> = (0..job.threads)
                .map(|thread| {
                    let (database, orders) = (&database, &orders);
                    scope.spawn(move || write(database, job, thread, orders))
                })
                .collect();
            let mut ends = threads.into_iter().map(|thread| thread.join());
            ends.try_for_each(|end| end.expect("a writer thread panicked"))
        })?,
    }
    drop(database);
    say("end");
    Ok(())
}

fn write(database: &Database, job: &Arguments, thread: i64, orders: &Orders) -> Result<()> {
    let mut hand = Hand::new(database, job.number * 100 + thread, job.seed)?;
    match job.act {
        Act::Hold => hand.hold(orders)?,
        Act::Ask => {
            orders.wait_for_go()?;
            say("asking");
            hand.immediate_now();
        }
        _ => {}
    }
    let mut left = if job.count == 0 { u64::MAX } else { job.count };
    while !orders.is_stopped() && left > 0 {
        left -= 1;
        match job.act {
            Act::Storm => hand.insert_next(),
            Act::Visit => hand.visit(database, &job.database.with_file_name("attached.db")),
            _ => hand.next(),
        }
    }
    Ok(())
}

fn transactions(database: &Database, job: &Arguments, orders: &Orders) -> Result<()> {
    std::thread::scope(|scope| {
        let play = |thread: i64| {
            let log = log_path(&job.database, job.number, thread);
            let mut dice = Rng::with_seed(job.seed);
            let own = (job.number * 1000 + thread).unsigned_abs();
            let seed = dice.u64(..) ^ own.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let is_stopped = || orders.is_stopped();
            if job.act == Act::Lists {
                return black_box::player::play(database, &log, own, seed, job.count, is_stopped);
            }
            player::play(database, &log, seed, job.count, is_stopped)
        };
        let threads: Vec<_> =
            (0..job.threads).map(|thread| scope.spawn(move || play(thread))).collect();
        let mut ends = threads.into_iter().map(|thread| thread.join());
        ends.try_for_each(|end| end.expect("a thread of transactions panicked"))
    })
}

fn open(database: &Database, job: &Arguments) -> Result<()> {
    let mut connection = database.connect()?;
    for statement in SCHEMA {
        connection.execute(statement, &[]).with_context(|| (*statement).to_owned())?;
    }
    drop(connection);
    Hand::new(database, job.number * 100, job.seed)?.insert_next();
    Ok(())
}
