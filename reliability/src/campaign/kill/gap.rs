//! How long the survivors stood still: the longest pause between two acknowledgements of any of them.

use crate::ledger::Ledger;

/// The longest pause, in milliseconds, of which a part lies between `from_ns` and `to_ns`.
pub fn longest_ms(ledger: &Ledger, survivors: &[i64], from_ns: u64, to_ns: u64) -> Option<f64> {
    let mut moments: Vec<u64> = ledger
        .acked
        .iter()
        .filter(|(operation, _)| survivors.contains(&(operation.writer / 100)))
        .map(|(_, ack)| ack.ns)
        .collect();
    moments.sort_unstable();
    let pauses = moments.windows(2).filter(|pair| pair[1] >= from_ns && pair[0] <= to_ns);
    pauses.map(|pair| (pair[1] - pair[0]) as f64 / 1e6).reduce(f64::max)
}
