//! Readers that say what they were shown: what was shown must not be taken back, by no power cut either.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use manyhands::{Database, params};

use super::{Arguments, Orders, say};
use crate::clock::now_ns;
use crate::shell::Session;

/// The last row of each writer, then each counter.
const LAST_ROWS: &str = "SELECT writer, max(sequence) FROM entry GROUP BY writer";
const COUNTERS: &str = "SELECT id, n FROM counter";

/// Writers do not wait for readers, but share the processors with them.
const PAUSE: Duration = Duration::from_micros(300);

/// Reads through Manyhands.
pub fn read(database: &Database, orders: &Orders) -> Result<()> {
    let mut connection = database.connect()?;
    watch(orders, |sql| {
        let rows = connection.query(sql, params![])?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    })
}

/// Reads through the sqlite3 shell.
pub fn through_the_shell(job: &Arguments, orders: &Orders) -> Result<()> {
    let mut shell = Session::start(&job.database)?;
    say("ready");
    watch(orders, |sql| {
        let parse = |line: String| {
            let (one, other) = line.split_once('|')?;
            Some((one.parse().ok()?, other.parse().ok()?))
        };
        let lines = shell.ask(sql)?.into_iter();
        lines.map(|line| parse(line.clone()).with_context(|| line)).collect()
    })
}

fn watch(orders: &Orders, mut query: impl FnMut(&str) -> Result<Vec<(i64, i64)>>) -> Result<()> {
    let mut known: [BTreeMap<i64, i64>; 2] = Default::default();
    while !orders.is_stopped() {
        let mut news = [String::new(), String::new()];
        for (index, sql) in [LAST_ROWS, COUNTERS].into_iter().enumerate() {
            for (key, value) in query(sql)? {
                if known[index].insert(key, value) != Some(value) {
                    news[index] += &format!("{key}:{value},");
                }
            }
        }
        if news.iter().any(|news| !news.is_empty()) {
            say(&format!("saw {} {} {}", now_ns(), news[0], news[1]));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
