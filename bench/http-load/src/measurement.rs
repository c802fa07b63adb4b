//! What was answered, and after how long.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::request::Outcome;

/// A bucket of the histogram is as wide as what its time's leading bits leave open: 1/64 of it at most.
const BUCKET_BITS: u32 = 7;

/// Of one user, or of all together.
#[derive(Default)]
pub struct Measurement {
    /// From the first request to the last answer.
    pub seconds: f64,
    /// How many answers have had each status.
    pub answers: BTreeMap<u16, u64>,
    /// How many requests have had no answer, and why.
    pub failures: BTreeMap<&'static str, u64>,
    /// The times of answers with a status below 400.
    good: Vec<Duration>,
    /// The times of all others.
    bad: Vec<Duration>,
}

impl Measurement {
    /// Counts one request.
    pub fn count(&mut self, outcome: Outcome, waited: Duration) {
        let good = matches!(outcome, Ok(status) if status < 400);
        match outcome {
            Ok(status) => *self.answers.entry(status).or_default() += 1,
            Err(reason) => *self.failures.entry(reason).or_default() += 1,
        }
        if good { &mut self.good } else { &mut self.bad }.push(waited);
    }

    /// Adds what another user has measured.
    pub fn add(&mut self, other: Self) {
        for (status, count) in other.answers {
            *self.answers.entry(status).or_default() += count;
        }
        for (reason, count) in other.failures {
            *self.failures.entry(reason).or_default() += count;
        }
        self.good.extend(other.good);
        self.bad.extend(other.bad);
    }

    /// One line: counts, exact percentiles of the good answers, and the histograms of both kinds.
    pub fn to_json(&self) -> String {
        let mut good = self.good.clone();
        good.sort_unstable();
        let quantiles: Vec<String> = [
            ("p50_ms", 0.5),
            ("p99_ms", 0.99),
            ("p999_ms", 0.999),
            ("p9999_ms", 0.9999),
            ("max_ms", 1.0),
        ]
        .into_iter()
        .map(|(name, quantile)| format!("\"{name}\":{}", quantile_ms(&good, quantile)))
        .collect();
        let answers: Vec<String> =
            self.answers.iter().map(|(status, count)| format!("\"{status}\":{count}")).collect();
        let failures: Vec<String> =
            self.failures.iter().map(|(reason, count)| format!("\"{reason}\":{count}")).collect();
        format!(
            "{{\"seconds\":{:.3},\"good\":{},\"bad\":{},\"answers\":{{{}}},\"failures\":{{{}}},{},\"histogram_us\":{},\"histogram_of_bad_us\":{}}}",
            self.seconds,
            self.good.len(),
            self.bad.len(),
            answers.join(","),
            failures.join(","),
            quantiles.join(","),
            histogram(&self.good),
            histogram(&self.bad),
        )
    }
}

/// The longest of the shortest that are this share of all, and `null` if there is none.
fn quantile_ms(sorted: &[Duration], quantile: f64) -> String {
    let count = (sorted.len() as f64 * quantile).ceil() as usize;
    match sorted.get(count.saturating_sub(1)) {
        Some(time) => format!("{:.3}", time.as_secs_f64() * 1000.0),
        None => "null".to_owned(),
    }
}

/// Pairs of a bucket's upper end in microseconds and its count.
fn histogram(times: &[Duration]) -> String {
    let mut buckets = BTreeMap::<u64, u64>::new();
    for time in times {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let shift = (u64::BITS - us.leading_zeros()).saturating_sub(BUCKET_BITS);
        *buckets.entry((us >> shift << shift) + (1 << shift) - 1).or_default() += 1;
    }
    let pairs: Vec<String> =
        buckets.iter().map(|(end, count)| format!("[{end},{count}]")).collect();
    format!("[{}]", pairs.join(","))
}

#[cfg(test)]
impl Measurement {
    pub fn longest(&self) -> Duration {
        self.waits().max().unwrap_or_default()
    }

    pub fn waits(&self) -> impl Iterator<Item = Duration> + '_ {
        self.good.iter().chain(&self.bad).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_time_that_was_measured() {
        let sorted: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        for (quantile, expected) in
            [(0.5, "50.000"), (0.99, "99.000"), (0.9999, "100.000"), (1.0, "100.000")]
        {
            assert_eq!(quantile_ms(&sorted, quantile), expected);
        }
        assert_eq!(quantile_ms(&[], 0.5), "null");
    }

    #[test]
    fn a_bucket_is_narrow_and_holds_its_times() {
        let times = [1, 127, 128, 129, 1_000_000].map(Duration::from_micros);
        assert_eq!(histogram(&times), "[[1,1],[127,1],[129,2],[1007615,1]]");
    }
}
