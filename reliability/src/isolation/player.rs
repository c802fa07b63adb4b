//! One connection that plays transaction after transaction, and logs what each saw.

use std::path::Path;

use anyhow::{Context, Result};
use fastrand::Rng;
use manyhands::driver::ConnectionExt;
use manyhands::{Connection, Database, Error, Value};

use super::call::{Call, Look, Seen};
use super::dice::{self, Id, Kind, Script};
use super::log::{End, Log};
use super::party::{bound, look, perform};
use crate::clock::now_ns;

/// Plays `count` transactions, or until `is_stopped`.
pub fn play(
    database: &Database,
    log: &Path,
    seed: u64,
    count: u64,
    is_stopped: impl Fn() -> bool,
) -> Result<()> {
    let mut dice = Rng::with_seed(seed);
    let mut log = Log::create(log)?;
    let mut connection = database.connect().context("connect")?;
    connection.defer_writes(true);
    for number in 0..count {
        if is_stopped() {
            break;
        }
        if number % 512 == 511 {
            // Whatever it answers: somebody else may be at it.
            let _ = connection.query("PRAGMA wal_checkpoint(PASSIVE)", &[]);
        }
        let script = dice::script(&mut dice);
        match script.kind {
            Kind::Autocommit | Kind::Batch => one_request(&mut connection, &mut log, &script)?,
            Kind::Run => run(&mut connection, &mut log, &script, &mut dice)?,
            _ => interactive(&mut connection, &mut log, &script)?,
        }
    }
    Ok(())
}

fn end_of(error: &Error) -> End {
    match () {
        () if error.is_stale_snapshot() => End::Stale,
        () if error.is_conflict() => End::Conflict(error.to_string()),
        () if error.is_outcome_unknown() => End::Unknown,
        () if error.is_constraint() => End::Violated(error.to_string()),
        () => End::Failed(error.to_string()),
    }
}

/// A statement by itself, or a batch.
fn one_request(connection: &mut Connection, log: &mut Log, script: &Script) -> Result<()> {
    log.intend(script.id, script.kind, now_ns(), &script.calls, &[])?;
    let result = if let [call] = script.calls.as_slice() {
        connection.execute(call.statement.sql(), bound(call)).map(|outcome| vec![outcome])
    } else {
        let values: Vec<Vec<Value>> = script.calls.iter().map(bound).collect();
        let calls = script.calls.iter().zip(&values);
        let batch: Vec<(&str, &[Value])> =
            calls.map(|(call, values)| (call.statement.sql(), values.as_slice())).collect();
        connection.batch(&batch)
    };
    let ns = now_ns();
    match result {
        Ok(outcomes) => {
            let seen = outcomes.iter().zip(&script.calls);
            let seen = seen.map(|(outcome, call)| match call.look {
                // A batch shows its rows whole.
                Look::First(count) => match look(outcome, call.look) {
                    Seen::Rows(rows) => Seen::Rows(rows.into_iter().take(count as usize).collect()),
                    other => other,
                },
                _ => look(outcome, call.look),
            });
            log.end(ns, End::Committed, seen.collect())
        }
        Err(error) => log.end(ns, end_of(&error), vec![]),
    }
}

/// A BEGIN of some kind, and what follows.
fn interactive(connection: &mut Connection, log: &mut Log, script: &Script) -> Result<()> {
    let began = now_ns();
    let begin = match script.kind {
        Kind::Turn => "BEGIN IMMEDIATE",
        Kind::Auto => "BEGIN",
        _ => "BEGIN CONCURRENT",
    };
    let seen = connection.execute(begin, &[]).and_then(|_| follow(connection, &script.calls));
    let shown = seen.as_deref().unwrap_or_default();
    log.intend(script.id, script.kind, began, &script.calls, shown)?;
    let (how, end) = match script.gives_up {
        true => ("ROLLBACK", End::RolledBack),
        false => ("COMMIT", End::Committed),
    };
    let ended = seen.and_then(|_| connection.execute(how, &[]));
    let end = ended.map_or_else(|error| end_of(&error), |_| end);
    let ns = now_ns();
    if !connection.is_autocommit() {
        connection.execute("ROLLBACK", &[]).context("roll back after an error")?;
    }
    log.end(ns, end, vec![])
}

fn follow(connection: &mut Connection, calls: &[Call]) -> Result<Vec<Seen>, Error> {
    calls.iter().map(|call| perform(connection, call)).collect()
}

/// What may go wrong in a `run`.
enum Trouble {
    Engine(Error),
    Log(anyhow::Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Engine(error)
    }
}

/// The same by `run`. Every try has an id of its own.
fn run(connection: &mut Connection, log: &mut Log, script: &Script, dice: &mut Rng) -> Result<()> {
    let mut tries: Vec<Id> = Vec::new();
    let first_began = now_ns();
    let result = connection.run(|transaction| {
        let began = if tries.is_empty() { first_began } else { now_ns() };
        let mut again = script.clone();
        if !tries.is_empty() {
            log.end(began, End::Conflict("run tries again".to_owned()), vec![])
                .map_err(Trouble::Log)?;
            again.kind = Kind::RunAgain;
            again.id = dice::fresh(dice);
            let (old, new) = (script.id, again.id);
            // The id stands in the calls too.
            for value in again.calls.iter_mut().flat_map(|call| &mut call.values) {
                match *value {
                    high if high == old.0 => *value = new.0,
                    low if low == old.1 => *value = new.1,
                    _ => {}
                }
            }
        }
        tries.push(again.id);
        let seen = follow(transaction, &again.calls);
        log.intend(again.id, again.kind, began, &again.calls, seen.as_deref().unwrap_or_default())
            .map_err(Trouble::Log)?;
        seen.map(drop).map_err(Trouble::Engine)
    });
    let end = match result {
        Ok(()) => End::Committed,
        Err(Trouble::Engine(error)) if tries.is_empty() => {
            // Not even begun.
            log.intend(script.id, script.kind, now_ns(), &script.calls, &[])?;
            end_of(&error)
        }
        Err(Trouble::Engine(error)) => end_of(&error),
        Err(Trouble::Log(error)) => return Err(error),
    };
    log.end(now_ns(), end, vec![])
}
