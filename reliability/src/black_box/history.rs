//! What the players told, as a history for the checker: who asked for what when, and what came of it.

use adya::history::{Interner, Mop, Op, OpType, ReadValue, Scalar};
use adya::{History, Opts, Valid, Workload, check};
use serde::{Deserialize, Serialize};

use super::script::Step;

/// What came of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    Committed,
    /// Nothing of it may be seen.
    Failed,
    /// It may have been committed, or not.
    Unknown,
}

/// A record of a player's log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Record {
    Begin {
        ns: u64,
        steps: Vec<Step>,
    },
    /// Of the one that began last; with the items of each of its reads.
    End {
        ns: u64,
        end: End,
        reads: Vec<Vec<i64>>,
    },
}

/// A transaction, as its player tells it.
#[derive(Clone, Debug)]
pub struct Told {
    /// Who asks for one thing after the other.
    pub player: i64,
    pub began_ns: u64,
    /// `None` when the player died.
    pub end: Option<(u64, End)>,
    pub steps: Vec<Step>,
    /// The items of each read, if it was committed.
    pub reads: Vec<Vec<i64>>,
}

/// From one player of a log to the next.
const NEXT_PLAYER: i64 = 1 << 32;

/// The transactions of one log. Who does not know how its transaction ended is another player from then on:
/// that one may still be under way.
pub fn of_player(mut player: i64, records: Vec<Record>) -> Vec<Told> {
    let mut told: Vec<Told> = Vec::new();
    for record in records {
        match record {
            Record::Begin { ns, steps } => {
                told.push(Told { player, began_ns: ns, end: None, steps, reads: vec![] });
            }
            Record::End { ns, end, reads } => {
                if let Some(last) = told.last_mut() {
                    (last.end, last.reads) = (Some((ns, end)), reads);
                    player += if end == End::Unknown { NEXT_PLAYER } else { 0 };
                }
            }
        }
    }
    told
}

/// What the checker says.
#[derive(Debug, Default)]
pub struct Verdict {
    pub findings: Vec<String>,
    pub committed: usize,
    pub failed: usize,
    pub unknown: usize,
}

/// Judges a history: strict serializability, or what is wrong with it.
pub fn judge(told: &[Told]) -> Verdict {
    let count = |which: &dyn Fn(Option<End>) -> bool| {
        told.iter().filter(|told| which(told.end.map(|(_, end)| end))).count()
    };
    let mut verdict = Verdict {
        findings: Vec::new(),
        committed: count(&|end| end == Some(End::Committed)),
        failed: count(&|end| end == Some(End::Failed)),
        unknown: count(&|end| matches!(end, None | Some(End::Unknown))),
    };
    let report = check(&history(told), Workload::ListAppend, &Opts::default());
    if report.valid != Valid::True {
        let kinds = report.anomaly_types.join(", ");
        let explained = report.anomalies.values().flatten().next();
        let explained = explained.map(|anomaly| anomaly.explanation.trim().replace('\n', " "));
        let mut explained = explained.unwrap_or_default();
        explained.truncate(explained.floor_char_boundary(1500));
        verdict.findings.push(format!("{kinds}: {explained}"));
    }
    verdict
}

/// In the order of time. Who begins when another ends begins first: then nothing is said of their order.
fn history(told: &[Told]) -> History {
    let last_ns = told.iter().filter_map(|told| told.end).map(|(ns, _)| ns).max().unwrap_or(0);
    let mut moments: Vec<(u64, bool, usize)> = Vec::new();
    for (index, told) in told.iter().enumerate() {
        moments.push((told.began_ns, false, index));
        let ended_ns = match told.end {
            Some((ns, End::Committed | End::Failed)) => ns,
            // It may take effect whenever it likes.
            Some((_, End::Unknown)) | None => last_ns + 1,
        };
        moments.push((ended_ns, true, index));
    }
    moments.sort_unstable();
    let mut interner = Interner::default();
    let mut ops: Vec<Op> = Vec::with_capacity(moments.len());
    for (ns, is_end, index) in moments {
        let told = &told[index];
        let kind = match told.end {
            _ if !is_end => OpType::Invoke,
            Some((_, End::Committed)) => OpType::Ok,
            Some((_, End::Failed)) => OpType::Fail,
            Some((_, End::Unknown)) | None => OpType::Info,
        };
        let mut reads = told.reads.iter();
        let mut id = |number: i64| interner.intern(Scalar::Int(number));
        let value = told.steps.iter().map(|step| match *step {
            Step::Append(key, item) => Mop::Append { key: id(key), value: id(item) },
            Step::Read(key) => {
                let items = reads.next().filter(|_| kind == OpType::Ok);
                let items = items.map(|items| items.iter().map(|item| id(*item)).collect());
                Mop::Read { key: id(key), value: items.map_or(ReadValue::Nil, ReadValue::List) }
            }
        });
        let value = value.collect();
        let (index, process, time) = (ops.len() as u64, Some(told.player), Some(ns as i64));
        ops.push(Op { index, kind, process, value, time });
    }
    History::from_ops(ops, interner)
}
