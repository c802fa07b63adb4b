//! The checker: what is in the file, against what the writers said.
//!
//! It reads through Debian's `sqlite3` only, and knows the rows from the seed. Promises checked:
//! acknowledged is there, once; failed and refused is not there; unknown is there whole, or not at
//! all; nothing else is there; each counter equals its increments, and each increment saw another
//! value, rising in the order of its writer; `integrity_check` is ok.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use crate::entry::{COUNTERS, Kind, Operation, own_table};
use crate::ledger::Ledger;
use crate::shell;

/// Findings shown of one kind; the rest is counted.
const SHOWN: usize = 20;

/// What was found in a file.
#[derive(Debug, Default)]
pub struct Verdict {
    pub findings: Vec<String>,
    pub rows: usize,
}

/// A row of `entry`, and whether its payload is what it should be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    pub part: i64,
    pub id: (i64, i64),
    pub value: Option<i64>,
    /// Its length, and the letter it consists of.
    pub payload: Option<(usize, String)>,
}

/// What the file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Contents {
    pub rows: BTreeMap<Operation, Vec<Row>>,
    pub counters: BTreeMap<i64, i64>,
    /// The statements that made the writers' own tables.
    pub own_tables: BTreeSet<String>,
    /// What `integrity_check` says.
    pub integrity: String,
}

/// All that [`Contents`] has of the rows.
const ENTRIES: &str = "SELECT writer, sequence, part, high, low, value, length(payload), \
     substr(payload, 1, 1), trim(payload, substr(payload, 1, 1)) = '' FROM entry NOT INDEXED";
/// All that it has of the schema.
pub const OWN_TABLES: &str = "SELECT sql FROM sqlite_schema WHERE name GLOB 'own_*'";

/// Looks into the file.
pub fn examine(database: &Path, ledger: &Ledger) -> Result<Verdict> {
    Ok(judge(&read(database)?, ledger))
}

/// Compares what the file holds with what was said.
pub fn judge(contents: &Contents, ledger: &Ledger) -> Verdict {
    let mut verdict =
        Verdict { findings: Vec::new(), rows: contents.rows.values().map(Vec::len).sum() };
    if contents.integrity != "ok" {
        verdict.findings.push(format!("integrity_check: {}", contents.integrity));
    }
    verdict.findings.extend(ledger.nonsense.iter().map(|line| format!("a writer said: {line}")));
    check_operations(contents, ledger, &mut verdict.findings);
    check_own_tables(contents, &mut verdict.findings, ledger);
    check_shown(contents, ledger, &mut verdict.findings);
    for counter in 1..=COUNTERS {
        check_counter(contents, ledger, counter, &mut verdict.findings);
    }
    if verdict.findings.len() > SHOWN {
        let more = verdict.findings.len() - SHOWN;
        verdict.findings.truncate(SHOWN);
        verdict.findings.push(format!("and {more} more"));
    }
    verdict
}

/// Reads through the sqlite3 shell.
pub fn read(database: &Path) -> Result<Contents> {
    let mut rows: BTreeMap<Operation, Vec<Row>> = BTreeMap::new();
    for line in shell::run(database, &[ENTRIES])?.lines() {
        let (operation, row) = parse(line).with_context(|| format!("a row of entry: {line}"))?;
        rows.entry(operation).or_default().push(row);
    }
    let mut counters = BTreeMap::new();
    for line in shell::run(database, &["SELECT id, n FROM counter"])?.lines() {
        let (id, n) = line.split_once('|').context("a row of counter")?;
        counters.insert(id.parse()?, n.parse()?);
    }
    let own_tables = shell::run(database, &[OWN_TABLES])?.lines().map(str::to_owned).collect();
    let integrity =
        shell::run(database, &["PRAGMA integrity_check"]).unwrap_or_else(|error| error.to_string());
    let integrity = integrity.trim().to_owned();
    Ok(Contents { rows, counters, own_tables, integrity })
}

fn parse(line: &str) -> Option<(Operation, Row)> {
    let columns: Vec<&str> = line.split('|').collect();
    let number = |index: usize| columns.get(index)?.parse::<i64>().ok();
    let operation = Operation { writer: number(0)?, sequence: number(1)? };
    let payload = number(6).map(|length| {
        let whole = columns.get(8) == Some(&"1");
        (length as usize, if whole { columns[7].to_owned() } else { "mixed".to_owned() })
    });
    Some((
        operation,
        Row { part: number(2)?, id: (number(3)?, number(4)?), value: number(5), payload },
    ))
}

fn check_operations(contents: &Contents, ledger: &Ledger, findings: &mut Vec<String>) {
    for (operation, rows) in &contents.rows {
        let kind = ledger.kind(*operation);
        let Operation { writer, sequence } = operation;
        let mut say = |what: String| findings.push(format!("{writer}/{sequence} {kind:?}: {what}"));
        let acked = ledger.acked.contains_key(operation);
        if ledger.refused.contains(operation) {
            say("was refused, and is there".into());
        } else if !acked && !ledger.unknown.contains(operation) {
            say("failed or was never tried, and is there".into());
        }
        let parts: BTreeSet<i64> = rows.iter().map(|row| row.part).collect();
        if parts.len() < rows.len() {
            say(format!("{} rows are there twice", rows.len() - parts.len()));
        }
        if parts.len() as i64 != kind.parts() {
            say(format!("{} of {} rows are there", parts.len(), kind.parts()));
        }
        for row in rows {
            if row.id != operation.id(ledger.seed, row.part) {
                say(format!("part {} has the id of another", row.part));
            }
            let (length, letter) = operation.payload(ledger.seed);
            let expected = (kind == Kind::Large).then(|| (length, letter.to_string()));
            if row.payload != expected {
                say(format!("the payload is {:?}", row.payload));
            }
        }
    }
    for operation in ledger.acked.keys() {
        let kind = ledger.kind(*operation);
        if kind.parts() > 0 && !contents.rows.contains_key(operation) {
            let Operation { writer, sequence } = operation;
            findings.push(format!("{writer}/{sequence} {kind:?}: acknowledged, and not there"));
        }
        if matches!(kind, Kind::Refused | Kind::RefusedPair) {
            findings
                .push(format!("{operation:?} {kind:?}: a violated constraint was acknowledged"));
        }
    }
}

/// Each writer's own table is the one that its last change of the schema made.
fn check_own_tables(contents: &Contents, findings: &mut Vec<String>, ledger: &Ledger) {
    let mut last: BTreeMap<i64, Operation> = BTreeMap::new();
    for operation in contents.rows.keys().filter(|it| ledger.kind(**it) == Kind::Schema) {
        last.insert(operation.writer, *operation);
    }
    let expected: BTreeSet<String> = last.into_values().map(own_table).collect();
    if expected != contents.own_tables {
        let there = &contents.own_tables;
        findings.push(format!("the writers' own tables: {there:?}, and not {expected:?}"));
    }
}

/// What any reader was shown is there.
fn check_shown(contents: &Contents, ledger: &Ledger, findings: &mut Vec<String>) {
    for Operation { writer, sequence } in
        ledger.shown.iter().filter(|operation| !contents.rows.contains_key(operation))
    {
        findings.push(format!("{writer}/{sequence}: shown to a reader, and not there"));
    }
    for (counter, value) in &ledger.shown_counters {
        let total = contents.counters.get(counter).copied().unwrap_or(0);
        if total < *value {
            findings.push(format!(
                "counter {counter}: {value} was shown to a reader, and it is {total}"
            ));
        }
    }
}

/// The counter's increments are those that the file knows, or, for the counter without rows, at least
/// the acknowledged and at most the unknown ones more.
fn check_counter(contents: &Contents, ledger: &Ledger, counter: i64, findings: &mut Vec<String>) {
    let mut say = |what: String| findings.push(format!("counter {counter}: {what}"));
    let Some(&total) = contents.counters.get(&counter) else { return say("is not there".into()) };
    let mine = |operation: &Operation| ledger.kind(*operation).counter() == Some(counter);
    let mut values: BTreeMap<Operation, i64> = BTreeMap::new();
    for (operation, ack) in ledger.acked.iter().filter(|(operation, _)| mine(operation)) {
        match ack.returned {
            Some(returned) => drop(values.insert(*operation, returned)),
            // It looked at nothing; its rows know the value.
            None if ledger.kind(*operation) == Kind::Blind => {}
            None => say(format!("{operation:?} returned nothing")),
        }
    }
    for (operation, rows) in contents.rows.iter().filter(|(operation, _)| mine(operation)) {
        for row in rows {
            let Some(value) = row.value else {
                say(format!("{operation:?} has no value"));
                continue;
            };
            if *values.entry(*operation).or_insert(value) != value {
                say(format!("{operation:?} was told another value than its row has, {value}"));
            }
        }
    }
    let unseen = if counter == 2 { ledger.unknown.iter().filter(|it| mine(it)).count() } else { 0 };
    let (least, most) = (values.len() as i64, (values.len() + unseen) as i64);
    if !(least..=most).contains(&total) {
        say(format!("is {total}, after {least} to {most} increments"));
    }
    let distinct: BTreeSet<i64> = values.values().copied().collect();
    if distinct.len() < values.len() {
        say(format!("{} increments saw a value that another saw", values.len() - distinct.len()));
    }
    if distinct.first().is_some_and(|first| *first < 1)
        || distinct.last().is_some_and(|last| *last > total)
    {
        say(format!("an increment saw a value outside 1 to {total}"));
    }
    for ((one, earlier), (other, later)) in values.iter().zip(values.iter().skip(1)) {
        if one.writer == other.writer && earlier >= later {
            say(format!("{one:?} saw {earlier}, and {other:?} after it {later}"));
        }
    }
}
