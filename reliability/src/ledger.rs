//! What the writers said came of each operation.

use std::collections::{BTreeMap, BTreeSet};

use crate::child::Transcript;
use crate::entry::{Kind, Operation};

/// An operation that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub operation: Operation,
    /// `timeout`, `unknown` or `other`.
    pub what: String,
    /// SQLite's primary code, 0 for an error that is not SQLite's.
    pub code: i32,
    pub waited_ms: u64,
    pub text: String,
    pub ns: u64,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    pub ns: u64,
    pub returned: Option<i64>,
}

/// The words of all writers of a round.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub seed: u64,
    /// All operations are inserts, whatever the script says.
    pub inserts_only: bool,
    pub acked: BTreeMap<Operation, Ack>,
    pub refused: BTreeSet<Operation>,
    pub failures: Vec<Failure>,
    /// Operations that may have been committed, or not.
    pub unknown: BTreeSet<Operation>,
    /// Rows that a reader was shown.
    pub shown: BTreeSet<Operation>,
    /// The largest value of each counter that a reader was shown.
    pub shown_counters: BTreeMap<i64, i64>,
    /// Lines that nobody should have said.
    pub nonsense: Vec<String>,
}

impl Ledger {
    pub fn new(seed: u64, inserts_only: bool) -> Ledger {
        Ledger { seed, inserts_only, ..Ledger::default() }
    }

    /// What the operation does.
    pub fn kind(&self, operation: Operation) -> Kind {
        if self.inserts_only { Kind::Insert } else { operation.kind(self.seed) }
    }

    /// Takes the words of a process. With `died`, the operations after the last ones it spoke of may
    /// have been committed. A process with `skips` left out operations of its script.
    pub fn note(&mut self, transcript: &Transcript, writers: &[i64], died: bool, skips: bool) {
        let mut last: BTreeMap<i64, i64> = writers.iter().map(|writer| (*writer, 0)).collect();
        for line in &transcript.lines {
            match self.note_line(line) {
                Some(Some(operation)) => {
                    last.insert(operation.writer, operation.sequence);
                }
                Some(None) => {}
                None => self.nonsense.push(line.clone()),
            }
        }
        if !died {
            return;
        }
        for (writer, sequence) in last {
            let mut next = Operation { writer, sequence: sequence + 1 };
            while skips && sequence == 0 && self.kind(next) != Kind::Immediate {
                next.sequence += 1;
            }
            self.unknown.insert(next);
        }
    }

    /// Takes a line at the moment at which it was said: the writer's next operation may be under way,
    /// and no other.
    pub fn follow(&mut self, line: &str) {
        match self.note_line(line) {
            Some(Some(operation)) => {
                if self
                    .failures
                    .last()
                    .is_none_or(|last| last.operation != operation || last.what != "unknown")
                {
                    self.unknown.remove(&operation);
                }
                let Operation { writer, sequence } = operation;
                self.unknown.insert(Operation { writer, sequence: sequence + 1 });
            }
            Some(None) => {}
            None => self.nonsense.push(line.to_owned()),
        }
    }

    /// What a reader was shown: `saw NS WRITER:SEQUENCE,... COUNTER:VALUE,...`.
    fn note_sight(&mut self, rows: &str, counters: &str) -> Option<()> {
        let pair = |text: &str| {
            let (one, other) = text.split_once(':')?;
            Some((one.parse::<i64>().ok()?, other.parse::<i64>().ok()?))
        };
        for row in rows.split_terminator(',') {
            let (writer, sequence) = pair(row)?;
            self.shown.insert(Operation { writer, sequence });
        }
        for counter in counters.split_terminator(',') {
            let (counter, value) = pair(counter)?;
            let largest = self.shown_counters.entry(counter).or_default();
            *largest = value.max(*largest);
        }
        Some(())
    }

    /// `None` for nonsense, `Some(None)` for a line about no operation.
    fn note_line(&mut self, line: &str) -> Option<Option<Operation>> {
        let mut words = line.split(' ');
        let verb = words.next()?;
        if matches!(verb, "ready" | "holding" | "asking" | "end" | "rss")
            || matches!(verb, "reached" | "forked" | "lingers" | "round")
        {
            return Some(None);
        }
        let ns = words.next()?.parse().ok()?;
        if verb == "saw" {
            return self.note_sight(words.next()?, words.next()?).map(|()| None);
        }
        let writer = words.next()?.parse().ok()?;
        let operation = Operation { writer, sequence: words.next()?.parse().ok()? };
        match verb {
            "ack" => {
                let returned = words.next()?;
                let returned = if returned == "-" { None } else { Some(returned.parse().ok()?) };
                self.acked.insert(operation, Ack { ns, returned });
            }
            "refused" => {
                self.refused.insert(operation);
            }
            "err" => {
                let what = words.next()?.to_owned();
                let code = words.next()?.parse().ok()?;
                let waited_ms = words.next()?.parse().ok()?;
                let text = words.collect::<Vec<_>>().join(" ");
                if what == "unknown" {
                    self.unknown.insert(operation);
                }
                self.failures.push(Failure { operation, what, code, waited_ms, text, ns });
            }
            _ => return None,
        }
        Some(Some(operation))
    }
}
