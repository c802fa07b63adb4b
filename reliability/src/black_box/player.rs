//! One connection of ours that plays transaction after transaction, and logs what it asked and was told.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use manyhands::{Connection, Database, Error, Outcome, Transaction, Value};

use super::history::{End, Record};
use super::script::{Scripts, Step, Way};
use crate::clock::now_ns;
use crate::isolation::log::Log;

/// What each read showed.
type Reads = Vec<Vec<i64>>;

/// Plays `count` transactions, or until `is_stopped`.
pub fn play(
    database: &Database,
    log: &Path,
    player: u64,
    seed: u64,
    count: u64,
    is_stopped: impl Fn() -> bool,
) -> Result<()> {
    let mut scripts = Scripts::new(seed, player + 1);
    let mut log = Log::create(log)?;
    let mut connection = database.connect().context("connect")?;
    for _ in 0..count {
        if is_stopped() {
            break;
        }
        if scripts.once_in(400) {
            // Whatever it answers: somebody else may be at it.
            let _ = connection.query("PRAGMA wal_checkpoint(PASSIVE)", &[]);
        }
        let (way, steps) = scripts.next();
        log.append(&Record::Begin { ns: now_ns(), steps: steps.clone() })?;
        let result = perform(&mut connection, way, &steps);
        let ns = now_ns();
        let (end, reads) = match result {
            Ok(reads) => (End::Committed, reads),
            Err(error) if error.is_conflict() => (End::Failed, vec![]),
            Err(error) if error.is_outcome_unknown() => (End::Unknown, vec![]),
            Err(error) => return Err(error).with_context(|| format!("{way:?}: {steps:?}")),
        };
        ensure!(way == Way::Optimistic || end != End::Failed, "{way:?} had a conflict: {steps:?}");
        log.append(&Record::End { ns, end, reads })?;
    }
    Ok(())
}

fn perform(connection: &mut Connection, way: Way, steps: &[Step]) -> Result<Reads, Error> {
    match way {
        Way::Request => {
            let values: Vec<Vec<Value>> = steps.iter().map(|step| bound(*step)).collect();
            let calls = steps.iter().zip(&values);
            let calls: Vec<(&str, &[Value])> =
                calls.map(|(step, values)| (step.sql(), values.as_slice())).collect();
            let outcomes = match calls.as_slice() {
                [(sql, values)] => vec![connection.execute(sql, values)?],
                calls => connection.batch(calls)?,
            };
            let reads = steps.iter().zip(&outcomes);
            Ok(reads.filter_map(|(step, outcome)| items(*step, outcome)).collect())
        }
        Way::Run => connection.run(|transaction| follow(transaction, steps)),
        Way::Optimistic => commit(connection.transaction()?, steps),
        Way::Turn => commit(connection.begin_immediate()?, steps),
    }
}

fn commit(mut transaction: Transaction<'_>, steps: &[Step]) -> Result<Reads, Error> {
    let reads = follow(&mut transaction, steps)?;
    transaction.commit()?;
    Ok(reads)
}

fn follow(transaction: &mut Transaction<'_>, steps: &[Step]) -> Result<Reads, Error> {
    let mut reads = Vec::new();
    for step in steps {
        let outcome = transaction.execute(step.sql(), bound(*step))?;
        reads.extend(items(*step, &outcome));
    }
    Ok(reads)
}

fn bound(step: Step) -> Vec<Value> {
    match step {
        Step::Append(key, item) => vec![Value::Integer(key), Value::Integer(item)],
        Step::Read(key) => vec![Value::Integer(key)],
    }
}

/// What a read shows.
fn items(step: Step, outcome: &Outcome) -> Option<Vec<i64>> {
    let Step::Read(_) = step else { return None };
    let mut items = Vec::new();
    for value in outcome.rows.iter().flat_map(|row| row.values()) {
        match value {
            Value::Integer(item) => items.push(*item),
            Value::Text(text) => items.extend(numbers(&String::from_utf8_lossy(text.as_bytes()))),
            // An item that nobody appended.
            _ => items.push(-1),
        }
    }
    Some(items)
}

/// The items in a text.
pub fn numbers(text: &str) -> impl Iterator<Item = i64> {
    text.split_whitespace().map(|word| word.parse().unwrap_or(-1))
}
