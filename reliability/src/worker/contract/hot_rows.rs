//! Many read and then write the same few rows. Who has read what others have changed meanwhile gives way, as SQLite says;
//! that must stay rare.

use anyhow::Result;
use manyhands::driver::ConnectionExt;
use manyhands::{Error, params};

use super::{Caller, WORK};
use crate::campaign::HOT_ROWS;
use crate::clock::now_ns;
use crate::worker::{Arguments, say};

/// The form of transactions whose like mostly read only, so that they do not take their turn before they read.
const COOL: u8 = 5;

/// So many of these only read before one writes.
const READERS: u32 = 40;

const READ_COOL: &str = "SELECT n FROM cool WHERE id = 1";

/// Commits `count` transactions that read rows and then write what they make of them. One that gives way is tried again.
pub fn count_up(caller: &mut Caller, job: &Arguments) -> Result<()> {
    for sequence in 0..job.count {
        loop {
            let mut is_stale = false;
            let (form, row) = (caller.dice.u8(0..6), caller.dice.i64(1..=HOT_ROWS));
            if form == COOL && !caller.perform(only_read)? {
                continue;
            }
            let committed = caller.perform(|caller| {
                match transact(caller, form, row, [job.number, sequence as i64]) {
                    Err(error) if error.is_stale_snapshot() => {
                        is_stale = true;
                        Ok(())
                    }
                    result => result,
                }
            })?;
            if committed && !is_stale {
                caller.did += 1;
                say(&format!("ack {sequence}"));
                break;
            }
            if is_stale {
                let rows = if form == COOL { "cool" } else { "hot" };
                say(&format!("stale {} {rows}", now_ns()));
                caller.end()?;
            }
        }
    }
    Ok(())
}

/// Each raises the sum of the rows by one, and says so in `done`.
fn transact(caller: &mut Caller, form: u8, row: i64, done: [i64; 2]) -> Result<(), Error> {
    const READ: &str = "SELECT n FROM hot WHERE id = ?1";
    const WRITE: &str = "UPDATE hot SET n = ?2 WHERE id = ?1";
    caller.execute("BEGIN", &[])?;
    match form {
        0 => {
            let n = caller.number(READ, params![row])?;
            caller.execute(WRITE, params![row, n + 1])?;
        }
        1 => {
            // What everybody reads first, and nobody writes.
            caller.number("SELECT user FROM session WHERE id = 1", &[])?;
            let n = caller.number(READ, params![row])?;
            caller.work();
            caller.execute(WRITE, params![row, n + 1])?;
        }
        2 => {
            // From one to the other, and one more.
            let other = row % HOT_ROWS + 1;
            let (one, two) =
                (caller.number(READ, params![row])?, caller.number(READ, params![other])?);
            caller.execute(WRITE, params![row, one - 1])?;
            caller.execute(WRITE, params![other, two + 2])?;
        }
        3 => {
            let sum = caller.number("SELECT sum(n) FROM hot", &[])?;
            let others = caller.number("SELECT sum(n) FROM hot WHERE id <> ?1", params![row])?;
            let outcome = caller.execute(WRITE, params![row, sum - others + 1])?;
            caller.timed(|connection| connection.changes_of(&outcome))?;
        }
        COOL => {
            let n = caller.number(READ_COOL, &[])?;
            std::thread::sleep(WORK);
            caller.execute("UPDATE cool SET n = ?1 WHERE id = 1", params![n + 1])?;
        }
        _ => {
            let n = caller.number(READ, params![row])?;
            let sql = "UPDATE hot SET n = n + 1 WHERE id = ?1 AND n = ?2 RETURNING n";
            let written = caller.query(sql, params![row, n])?;
            if written.len() != 1 {
                say(&format!(
                    "differs row {row} was {n}, and at the write that followed it was not"
                ));
            }
        }
    }
    let [maker, sequence] = done;
    caller.execute("INSERT INTO done VALUES (?1, ?2)", params![maker, sequence])?;
    caller.execute("COMMIT", &[]).map(drop)
}

fn only_read(caller: &mut Caller) -> Result<(), Error> {
    for _ in 0..READERS {
        caller.execute("BEGIN", &[])?;
        caller.number(READ_COOL, &[])?;
        caller.execute("COMMIT", &[])?;
    }
    Ok(())
}
