//! Latencies of many operations in bounded memory.
//!
//! A histogram with 2 significant digits (1% error, 13 KB) and the exact maximum. In JSON it is a list of
//! `[nanoseconds, count]` pairs, so that any plotting tool reads it without knowing hdrhistogram.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::limits::LATENCY_MAX;

/// The shortest time that is told apart from a shorter one.
const LOWEST_NS: u64 = 100;
/// 1% of error: finer than the noise of any machine that this runs on, and small enough for 1,000 processes.
const SIGNIFICANT_DIGITS: u8 = 2;

/// How long operations took.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "LatencyLine", try_from = "LatencyLine")]
pub struct Latency {
    histogram: Histogram<u32>,
    max_ns: u64,
}

/// The serialized form.
#[derive(Serialize, Deserialize)]
struct LatencyLine {
    max_ns: u64,
    /// Pairs of nanoseconds (the upper end of the bucket) and count.
    histogram_ns: Vec<(u64, u32)>,
}

impl Latency {
    /// No operation yet.
    pub fn new() -> Self {
        let highest_ns = LATENCY_MAX.as_nanos() as u64;
        let histogram = Histogram::new_with_bounds(LOWEST_NS, highest_ns, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that hdrhistogram accepts");
        Self { histogram, max_ns: 0 }
    }

    /// Adds one operation.
    pub fn record(&mut self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds all operations of another.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many operations there were.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The time within which `share` (0 to 1) of the operations ended; zero if there was none.
    pub fn quantile(&self, share: f64) -> Duration {
        if self.count() == 0 {
            return Duration::ZERO;
        }
        // The bucket's upper end may lie above the longest operation.
        Duration::from_nanos(self.histogram.value_at_quantile(share).min(self.max_ns))
    }

    /// The longest operation, exactly.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl From<Latency> for LatencyLine {
    fn from(latency: Latency) -> Self {
        let pairs = latency.histogram.iter_recorded();
        Self {
            max_ns: latency.max_ns,
            histogram_ns: pairs
                .map(|step| (step.value_iterated_to(), step.count_at_value()))
                .collect(),
        }
    }
}

impl TryFrom<LatencyLine> for Latency {
    type Error = String;

    fn try_from(line: LatencyLine) -> Result<Self, String> {
        let mut latency = Self::new();
        for (ns, count) in line.histogram_ns {
            latency
                .histogram
                .record_n(ns, count)
                .map_err(|error| format!("latency {ns} ns: {error}"))?;
        }
        latency.max_ns = line.max_ns;
        Ok(latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(range_ms: std::ops::RangeInclusive<u64>) -> Latency {
        let mut latency = Latency::new();
        range_ms.for_each(|ms| latency.record(Duration::from_millis(ms)));
        latency
    }

    /// Percentiles are within the promised 1%, the maximum is exact.
    #[test]
    fn percentiles_of_known_times() {
        let latency = sample(1..=1000);
        let p99 = latency.quantile(0.99).as_secs_f64();
        assert!((p99 - 0.990).abs() < 0.0101, "{p99}");
        assert_eq!(latency.max(), Duration::from_secs(1));
        assert_eq!(latency.quantile(1.0), Duration::from_secs(1));
    }

    /// A worker without a single operation still reports.
    #[test]
    fn nothing_recorded_is_zero() {
        assert_eq!(Latency::new().quantile(0.5), Duration::ZERO);
    }

    /// What a worker sends is what the command gets: the same counts and percentiles.
    #[test]
    fn a_round_trip_through_json_loses_nothing() {
        let mut sent = sample(1..=500);
        sent.record(LATENCY_MAX * 2);
        let line = serde_json::to_string(&sent).expect("a histogram is plain JSON");
        let received: Latency = serde_json::from_str(&line).expect("our own line");
        assert_eq!(received.count(), sent.count());
        assert_eq!(received.max(), sent.max());
        for share in [0.5, 0.9, 0.99, 0.999] {
            assert_eq!(received.quantile(share), sent.quantile(share));
        }
    }

    /// The latencies of all clients together are those of one long list.
    #[test]
    fn added_up_like_one_list() {
        let mut sum = sample(1..=400);
        sum.add(&sample(401..=1000));
        assert_eq!(sum.count(), 1000);
        assert_eq!(sum.quantile(0.9), sample(1..=1000).quantile(0.9));
    }
}
