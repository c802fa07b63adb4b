//! What this process's memory is, told while it opens connections or writes.

use std::io::BufRead;

use anyhow::{Context, Result};
use manyhands::{Database, params};

use super::{Arguments, Orders, say};
use crate::worker::hand::Hand;

/// Kilobytes of memory: resident, and the part that is no file's.
fn resident_kb() -> Result<(u64, u64)> {
    let status = std::fs::read("/proc/self/status").context("read /proc/self/status")?;
    let field = |name: &str| {
        let lines = status.lines().map_while(Result::ok);
        let line = lines.into_iter().find(|line| line.starts_with(name));
        let number = line.as_deref().and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        number.with_context(|| format!("/proc/self/status has no {name}"))
    };
    Ok((field("VmRSS:")?, field("RssAnon:")?))
}

fn tell(count: u64) -> Result<()> {
    let (resident, anonymous) = resident_kb()?;
    say(&format!("rss {count} {resident} {anonymous}"));
    Ok(())
}

/// Opens connections that have read once and written once, keeps them until `go`.
pub fn idle(database: &Database, count: u64, orders: &Orders) -> Result<()> {
    // What the first connection costs is not what one more costs.
    let mut connections = Vec::new();
    for number in 0..=count {
        let mut connection = database.connect().with_context(|| format!("connection {number}"))?;
        connection.query("SELECT count(*) FROM counter", params![])?;
        connection.execute("UPDATE counter SET n = n + 1 WHERE id = 2", params![])?;
        connections.push(connection);
        if number == 0 {
            tell(0)?;
        }
    }
    tell(count)?;
    say("holding");
    orders.wait_for_go()?;
    drop(connections);
    Ok(())
}

/// Writes rows of all kinds, and tells its memory twenty times.
pub fn grow(database: &Database, job: &Arguments) -> Result<()> {
    let step = (job.count / 20).max(1);
    let mut hand = Hand::new(database, job.number * 100, job.seed)?;
    tell(0)?;
    for number in 1..=job.count {
        hand.insert_next();
        if number % step == 0 {
            tell(number)?;
        }
    }
    Ok(())
}
