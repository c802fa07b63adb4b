//! The shell as a reader. Each look must show what was acknowledged before it began, nothing that was
//! never acknowledged, and no less than the look before.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::clock::now_ns;
use crate::ledger::Ledger;
use crate::shell;

/// What one look showed.
#[derive(Debug)]
pub struct Look {
    began_ns: u64,
    /// Of each writer: its last operation, and how many.
    seen: Result<BTreeMap<i64, (i64, i64)>, String>,
}

/// Looks again and again.
pub fn look_until(stop: &AtomicBool, database: &Path) -> Vec<Look> {
    let mut looks = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let began_ns = now_ns();
        const SQL: &str = "SELECT writer, max(sequence), count(*) FROM entry GROUP BY writer";
        let seen = shell::run(database, &[".timeout 5000", SQL]).map_err(|error| error.to_string());
        let seen = seen.and_then(|text| parse(&text).ok_or(text));
        looks.push(Look { began_ns, seen });
        std::thread::sleep(Duration::from_millis(20));
    }
    looks
}

fn parse(text: &str) -> Option<BTreeMap<i64, (i64, i64)>> {
    let mut seen = BTreeMap::new();
    for line in text.lines() {
        let numbers: Vec<i64> = line.split('|').filter_map(|word| word.parse().ok()).collect();
        let [writer, last, count] = numbers[..] else { return None };
        seen.insert(writer, (last, count));
    }
    Some(seen)
}

/// The findings of all looks, after the end.
pub fn check(looks: &[Look], ledger: &Ledger) -> Vec<String> {
    let mut findings = Vec::new();
    let mut acks: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
    for (operation, ack) in &ledger.acked {
        acks.entry(operation.writer).or_default().push(ack.ns);
    }
    let mut before: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for (number, look) in looks.iter().enumerate() {
        let seen = match &look.seen {
            Ok(seen) => seen,
            Err(error) => {
                findings.push(format!("look {number}: {error}"));
                continue;
            }
        };
        for (writer, moments) in &acks {
            let (last, count) = seen.get(writer).copied().unwrap_or((0, 0));
            let earlier = before.get(writer).copied().unwrap_or((0, 0));
            let due = moments.partition_point(|ns| *ns < look.began_ns) as i64;
            let say = |what: &str| {
                format!(
                    "look {number}, writer {writer}: {what} (last {last}, count {count}, due {due}, before {earlier:?})"
                )
            };
            if last != count {
                findings.push(say("a hole"));
            }
            if count < due {
                findings.push(say("an acknowledged row was not seen"));
            }
            if count > moments.len() as i64 {
                findings.push(say("a row was seen that was never acknowledged"));
            }
            if last < earlier.0 || count < earlier.1 {
                findings.push(say("less than before"));
            }
        }
        before.clone_from(seen);
    }
    findings.truncate(20);
    findings
}
