//! How long the survivors stood still: the longest pause between two acknowledgements of any of them.

use crate::ledger::Ledger;

/// When a process lived.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// The number of the process.
    pub number: i64,
    pub from_ns: u64,
    pub to_ns: u64,
}

/// The acknowledgements of a round in the order of time, and who lived when.
pub struct Pauses<'a> {
    /// When, and of which process.
    acks: Vec<(u64, i64)>,
    lives: &'a [Life],
}

impl<'a> Pauses<'a> {
    pub fn new(ledger: &Ledger, lives: &'a [Life]) -> Pauses<'a> {
        let acks = ledger.acked.iter().map(|(operation, ack)| (ack.ns, operation.writer / 100));
        let mut acks: Vec<(u64, i64)> = acks.collect();
        acks.sort_unstable();
        Pauses { acks, lives }
    }

    /// The longest pause, in milliseconds, of which a part lies between the moments, of those who lived from
    /// the one to the other.
    pub fn longest_ms(&self, from_ns: u64, to_ns: u64) -> Option<f64> {
        if to_ns < from_ns {
            // Everybody was ending already.
            return None;
        }
        let survives = |number: i64| {
            self.lives
                .iter()
                .any(|life| life.number == number && life.from_ns <= from_ns && life.to_ns >= to_ns)
        };
        let first = self.acks.partition_point(|(ns, _)| *ns < from_ns);
        let last = self.acks.partition_point(|(ns, _)| *ns <= to_ns);
        let is_survivor = |ack: &&(u64, i64)| survives(ack.1);
        let before = self.acks[..first].iter().rfind(is_survivor);
        let after = self.acks[last..].iter().find(is_survivor);
        let within = self.acks[first..last].iter().filter(is_survivor);
        let moments: Vec<u64> =
            before.into_iter().chain(within).chain(after).map(|ack| ack.0).collect();
        let pauses = moments.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6);
        pauses.reduce(f64::max)
    }
}
