//! Programs that rely on what SQLite promises, as most do: that ids become visible in their order, that an id that was
//! told is the row's, that readers and writers do not wait for each other. Each waits only for a while, and calls
//! everything in mode Auto.
//!
//! | line                          | after                                                          |
//! |-------------------------------|----------------------------------------------------------------|
//! | `told TABLE SEQUENCE ID`      | it was told the id of its row, and has committed it            |
//! | `saw TABLE FIRST LAST`        | a consumer has seen these ids, each                            |
//! | `ack SEQUENCE`                | a transaction was committed                                    |
//! | `stale NS ROWS`               | a transaction gave way: what it had read of them was changed   |
//! | `failed WHAT MS TEXT`         | a call failed, and should not have: timeout, stale, other      |
//! | `differs TEXT`                | a reader was shown two things in one transaction               |
//! | `did COUNT`, `slowest MS`     | at the end: what was done, and the longest call                |

mod hot_rows;
mod lastrowid;
mod polling;
mod standing;

use core::time::Duration;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use fastrand::Rng;
use manyhands::driver::ConnectionExt;
use manyhands::{Connection, Database, Error, Outcome, Row, Value};

use super::{Act, Arguments, Orders, say};
pub use standing::CHECKPOINT_EVERY;

/// After so many failures a process gives up: each may have taken its whole timeout.
const FAILURES_MAX: u32 = 3;

/// How long the work in a transaction takes.
const WORK: Duration = Duration::from_millis(1);

/// Does the job.
pub fn run(database: &Database, job: &Arguments, orders: &Orders) -> Result<()> {
    let mut caller = Caller::new(database, job)?;
    match job.act {
        Act::Produce => polling::produce(&mut caller, job)?,
        Act::Poll => polling::poll(&mut caller, orders)?,
        Act::Adopt => lastrowid::adopt(&mut caller, job)?,
        Act::Touch => standing::touch(&mut caller, job)?,
        Act::Truncate => standing::truncate(&mut caller, orders)?,
        Act::Linger => standing::linger(&mut caller, database, job, orders)?,
        Act::TakeTurns => standing::take_turns(&mut caller, orders)?,
        Act::CountUp => hot_rows::count_up(&mut caller, job)?,
        act => bail!("{act:?} is no such job"),
    }
    say(&format!("did {}", caller.did));
    say(&format!("slowest {}", caller.slowest.as_millis()));
    Ok(())
}

/// A connection whose owner asks for counts and ids as deferred writes want it.
struct Caller {
    connection: Connection,
    dice: Rng,
    did: u64,
    failures: u32,
    slowest: Duration,
}

impl Caller {
    fn new(database: &Database, job: &Arguments) -> Result<Caller> {
        let mut connection = database.connect().context("connect")?;
        connection.defer_writes(true);
        let own = job.number.unsigned_abs().wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let dice = Rng::with_seed(job.seed ^ own);
        Ok(Caller { connection, dice, did: 0, failures: 0, slowest: Duration::ZERO })
    }

    /// One call, and how long it took.
    fn timed<T>(
        &mut self,
        call: impl FnOnce(&mut Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let began = Instant::now();
        let result = call(&mut self.connection);
        self.slowest = self.slowest.max(began.elapsed());
        result
    }

    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<Outcome, Error> {
        self.timed(|connection| connection.execute(sql, values))
    }

    fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Error> {
        self.timed(|connection| connection.query(sql, values))
    }

    /// The first column of the first row.
    fn number(&mut self, sql: &str, values: &[Value]) -> Result<i64, Error> {
        self.query(sql, values)?[0].get(0)
    }

    fn id_of(&mut self, outcome: &Outcome) -> Result<i64, Error> {
        self.timed(|connection| connection.last_insert_rowid_of(outcome))
    }

    /// Work of the application, now and then.
    fn work(&mut self) {
        if self.dice.bool() {
            std::thread::sleep(WORK);
        }
    }

    /// Executes a transaction or a call of its own that must succeed. What fails is told, and ended. False then.
    fn perform(&mut self, call: impl FnOnce(&mut Caller) -> Result<(), Error>) -> Result<bool> {
        let began = Instant::now();
        let Err(error) = call(self) else { return Ok(true) };
        let what = match () {
            () if error.is_timeout() => "timeout",
            () if error.is_stale_snapshot() => "stale",
            () => "other",
        };
        let text = error.to_string().replace('\n', " ");
        let text: String = text.chars().take(300).collect();
        say(&format!("failed {what} {} {text}", began.elapsed().as_millis()));
        self.end()?;
        self.failures += 1;
        if self.failures == FAILURES_MAX {
            bail!("{FAILURES_MAX} calls failed");
        }
        Ok(false)
    }

    /// No transaction is open any more.
    fn end(&mut self) -> Result<()> {
        if !self.connection.is_autocommit() {
            self.connection.execute("ROLLBACK", &[]).context("roll back")?;
        }
        Ok(())
    }
}
