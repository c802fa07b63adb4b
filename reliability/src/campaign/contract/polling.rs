//! A consumer that polls for new rows misses none, and every id that a producer was told is its row's.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::{Said, Scene};
use crate::shell::Session;
use crate::worker::Act;

/// Where rows are inserted, with the two ways in which SQLite finds new ids.
pub const TABLES: [&str; 2] = ["event_auto", "event_plain"];

const SCHEMA: &str = "
    CREATE TABLE event_auto (id INTEGER PRIMARY KEY AUTOINCREMENT, producer, sequence);
    CREATE TABLE event_plain (id INTEGER PRIMARY KEY, producer, sequence);";

/// The number of the sqlite3 shell among the producers, and of the consumer among the processes.
const SHELL: i64 = 98;
const CONSUMER: i64 = 99;

/// How long the shell waits between two inserts.
const PAUSE: Duration = Duration::from_millis(1);

/// How many ids of rows that were missed are told.
const TOLD_MAX: usize = 10;

pub fn play(scene: &mut Scene<'_>) -> Result<()> {
    scene.make(SCHEMA)?;
    let consumer = scene.start(Act::Poll, CONSUMER, 0)?;
    let crew = scene.crew(Act::Produce)?;
    let (stop, with_shell, database) =
        (AtomicBool::new(false), scene.is_other_way(), scene.database.clone());
    let (said, by_shell) = std::thread::scope(|scope| -> Result<_> {
        let shell = with_shell.then(|| scope.spawn(|| insert_until(&stop, &database)));
        let said = scene.finish(crew);
        stop.store(true, Ordering::Relaxed);
        let by_shell = shell.map(|it| it.join().expect("the shell's thread panicked"));
        Ok((said?, by_shell.transpose()?))
    })?;
    let consumer = scene.stop(consumer)?;
    let (inserted, complaints) = by_shell.unwrap_or_default();
    scene.findings.extend(complaints);

    let mut rows = 0;
    let mut told = told_ids(&said)?;
    for table in TABLES {
        rows += examine(scene, table, &consumer, &mut told)?;
    }
    let absent = told.len();
    if absent > 0 {
        scene.findings.push(format!("{absent} rows are not there whose ids were told"));
    }
    let made: u64 = said.iter().map(|said| said.number("did")).sum();
    scene.expect_equal("rows", rows, made + inserted);
    scene.add("polled", rows);
    scene.add("polled_of_the_shell", inserted);
    Ok(())
}

/// The id that was told, by table, producer and sequence.
type Told = HashMap<(String, i64, i64), i64>;

fn told_ids(said: &[Said]) -> Result<Told> {
    let mut told = HashMap::new();
    for said in said {
        for words in said.all("told") {
            let [table, sequence, id] = words[..] else { anyhow::bail!("not an id: {words:?}") };
            told.insert((table.to_owned(), said.number, sequence.parse()?), id.parse()?);
        }
    }
    Ok(told)
}

/// How many rows the table has. What was told of it is taken out.
fn examine(scene: &mut Scene<'_>, table: &str, consumer: &Said, told: &mut Told) -> Result<u64> {
    let seen = seen_ids(consumer, table)?;
    let (mut missed, mut wrong, mut rows) = (Vec::new(), Vec::new(), 0_u64);
    let mut ranges = seen.iter().peekable();
    let mut seen_and_there = 0;
    for line in scene.ask(&format!("SELECT id, producer, sequence FROM {table} ORDER BY id"))? {
        let numbers = line.split('|').map(str::parse).collect::<Result<Vec<i64>, _>>();
        let numbers = numbers.with_context(|| line.clone())?;
        let [id, producer, sequence] = numbers[..] else { anyhow::bail!("no such row: {line}") };
        while ranges.next_if(|[_, last]| *last < id).is_some() {}
        match ranges.peek() {
            Some([first, _]) if *first <= id => seen_and_there += 1,
            _ => missed.push(id),
        }
        match told.remove(&(table.to_owned(), producer, sequence)) {
            Some(known) if known != id => wrong.push((known, id)),
            _ => {}
        }
        rows += 1;
    }
    let seen: i64 = seen.iter().map(|[first, last]| last - first + 1).sum();
    let findings = [
        (missed.len(), format!("the consumer has missed rows of {table}: {:?}", few(&missed))),
        (wrong.len(), format!("told, and given, in {table}: {:?}", few(&wrong))),
        (
            (seen - seen_and_there).unsigned_abs() as usize,
            format!("the consumer has seen rows of {table} that are not there"),
        ),
    ];
    let found = findings.into_iter().filter(|(count, _)| *count > 0);
    scene.findings.extend(found.map(|(count, text)| format!("{count} of {rows}: {text}")));
    Ok(rows)
}

fn few<T>(all: &[T]) -> &[T] {
    &all[..all.len().min(TOLD_MAX)]
}

/// Ranges of ids, in their order.
fn seen_ids(consumer: &Said, table: &str) -> Result<Vec<[i64; 2]>> {
    let own = consumer.all("saw").filter(|words| words.first() == Some(&table));
    own.map(|words| {
        let [_, first, last] = words[..] else { anyhow::bail!("no range of ids: {words:?}") };
        Ok([first.parse()?, last.parse()?])
    })
    .collect()
}

/// The shell inserts as other programs do. How many rows, and what it complained of.
fn insert_until(stop: &AtomicBool, database: &Path) -> Result<(u64, Vec<String>)> {
    let (mut shell, mut inserted, mut complaints) = (Session::start(database)?, 0, Vec::new());
    while !stop.load(Ordering::Relaxed) && complaints.is_empty() {
        let table = TABLES[inserted as usize % 2];
        let insert =
            format!("INSERT INTO {table} (producer, sequence) VALUES ({SHELL}, {inserted})");
        let answer = match inserted % 3 {
            0 => shell.ask(&insert)?,
            1 => shell.ask(&format!("BEGIN; {insert}; COMMIT"))?,
            _ => shell.ask(&format!("BEGIN IMMEDIATE; {insert}; SELECT 1 WHERE 0; COMMIT"))?,
        };
        if answer.is_empty() {
            inserted += 1;
            std::thread::sleep(PAUSE);
        } else {
            complaints.push(format!("the shell's insert {inserted}: {answer:?}"));
        }
    }
    Ok((inserted, complaints))
}
