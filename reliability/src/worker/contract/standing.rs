//! Nobody stands still because of another: writers beside checkpoints, and beside readers that stay in their
//! transaction.

use core::time::Duration;
use std::time::Instant;

use anyhow::Result;
use manyhands::driver::ConnectionExt;
use manyhands::{Database, Error, params};

use super::Caller;
use crate::worker::{Arguments, Orders, say};

/// How often somebody checkpoints.
pub const CHECKPOINT_EVERY: Duration = Duration::from_millis(100);

/// How many writes of others a reader waits for, in the middle of its transaction.
const WRITES_MEANWHILE: i64 = 40;

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(2);

const READ: &str = "SELECT sum(n), group_concat(n) FROM counter";

/// Commits `count` transactions: UPDATE, SELECT, COMMIT, in its ways.
pub fn touch(caller: &mut Caller, job: &Arguments) -> Result<()> {
    while caller.did < job.count {
        if caller.perform(write)? {
            caller.did += 1;
            say(&format!("ack {}", caller.did));
        }
    }
    Ok(())
}

fn write(caller: &mut Caller) -> Result<(), Error> {
    let id = caller.dice.i64(1..=8);
    let update = "UPDATE counter SET n = n + 1 WHERE id = ?1";
    match caller.dice.u8(0..8) {
        0 => return caller.execute(update, params![id]).map(drop),
        1 => return caller.number(&format!("{update} RETURNING n"), params![id]).map(drop),
        _ => caller.execute("BEGIN", &[])?,
    };
    match caller.dice.u8(0..4) {
        0 => {
            caller.number(&format!("{update} RETURNING n"), params![id])?;
        }
        1 => {
            let outcome = caller.execute(update, params![id])?;
            caller.timed(|connection| connection.changes_of(&outcome))?;
            caller.query(READ, &[])?;
        }
        2 => {
            caller.execute(update, params![id])?;
        }
        _ => {
            caller.execute(update, params![id])?;
            caller.query(READ, &[])?;
        }
    }
    caller.execute("COMMIT", &[]).map(drop)
}

/// Takes turn after turn, as fast as it can, until `stop`.
pub fn take_turns(caller: &mut Caller, orders: &Orders) -> Result<()> {
    while !orders.is_stopped() {
        let taken = caller.perform(|caller| {
            caller.execute("BEGIN IMMEDIATE", &[])?;
            caller.execute("UPDATE counter SET n = n + 1 WHERE id = 1", &[])?;
            caller.execute("COMMIT", &[]).map(drop)
        })?;
        caller.did += u64::from(taken);
    }
    say(&format!("ack {}", caller.did));
    Ok(())
}

/// Checkpoints, and cuts the WAL off, until `stop`. That somebody reads is an answer.
pub fn truncate(caller: &mut Caller, orders: &Orders) -> Result<()> {
    while !orders.is_stopped() {
        let row = caller
            .perform(|caller| caller.query("PRAGMA wal_checkpoint(TRUNCATE)", &[]).map(drop))?;
        caller.did += u64::from(row);
        std::thread::sleep(CHECKPOINT_EVERY);
    }
    Ok(())
}

/// Reads, does nothing until others have written, and reads again, until `stop`. Who then writes waits for nobody.
pub fn linger(
    caller: &mut Caller,
    database: &Database,
    job: &Arguments,
    orders: &Orders,
) -> Result<()> {
    let mut onlooker = Caller::new(database, job)?;
    while !orders.is_stopped() {
        let lingered = caller.perform(|caller| {
            caller.execute("BEGIN", &[])?;
            let before = shown(caller)?;
            let seen = onlooker.number("SELECT sum(n) FROM counter", &[])?;
            let end = Instant::now() + Duration::from_millis(job.timeout_ms);
            while !orders.is_stopped() && Instant::now() < end {
                if onlooker.number("SELECT sum(n) FROM counter", &[])? >= seen + WRITES_MEANWHILE {
                    break;
                }
                std::thread::sleep(LOOK_EVERY);
            }
            if Instant::now() >= end {
                say("differs nobody wrote while a reader stayed in its transaction");
            }
            let after = shown(caller)?;
            if before != after {
                say(&format!("differs one transaction was shown {before}, and then {after}"));
            }
            caller.execute("COMMIT", &[]).map(drop)
        })?;
        caller.did += u64::from(lingered);
    }
    caller.slowest = caller.slowest.max(onlooker.slowest);
    Ok(())
}

fn shown(caller: &mut Caller) -> Result<String, Error> {
    caller.query(READ, &[])?[0].get(1)
}
