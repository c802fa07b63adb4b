//! Pure arithmetic on figures of repeated measurements.

/// Median, minimum and maximum of one figure over the repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one; of an even number, the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The spread of some values; `None` of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { median, min, max })
    }
}

/// How evenly clients were served, relative to the mean: 1 is fair, 0 is starved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fairness {
    /// The least-served client's share of the mean.
    pub least: f64,
    /// The most-served client's share of the mean.
    pub most: f64,
}

impl Fairness {
    /// Of the operations of each client; `None` if there are fewer than two clients or nobody was served.
    pub fn of(served: &[u64]) -> Option<Self> {
        let sum: u64 = served.iter().sum();
        if served.len() < 2 || sum == 0 {
            return None;
        }
        let mean = sum as f64 / served.len() as f64;
        let share = |client: Option<&u64>| client.map(|&operations| operations as f64 / mean);
        Some(Self { least: share(served.iter().min())?, most: share(served.iter().max())? })
    }
}

/// Ratios of one engine to the baseline, repetition by repetition: what a noisy machine does to one it does to the other.
/// A repetition in which either has no figure has no ratio.
pub fn ratios(engine: &[Option<f64>], baseline: &[Option<f64>]) -> Vec<f64> {
    engine
        .iter()
        .zip(baseline)
        .filter_map(|(&engine, &baseline)| Some(engine? / baseline.filter(|&figure| figure > 0.0)?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Order does not matter; an even number of repetitions has a median too.
    #[test]
    fn median_minimum_maximum() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(
            Spread::of([4.0, 1.0, 2.0, 3.0]),
            Some(Spread { median: 2.5, min: 1.0, max: 4.0 })
        );
        assert_eq!(Spread::of([]), None);
    }

    /// A starved thread shows as 0, however much the others got.
    #[test]
    fn fairness_shows_the_starved() {
        assert_eq!(Fairness::of(&[10, 10]), Some(Fairness { least: 1.0, most: 1.0 }));
        assert_eq!(Fairness::of(&[0, 20, 40]), Some(Fairness { least: 0.0, most: 2.0 }));
        assert_eq!(Fairness::of(&[7]), None);
        assert_eq!(Fairness::of(&[0, 0]), None);
    }

    /// Ratios pair what ran together; a failed measurement takes its partner out.
    #[test]
    fn ratios_pair_repetitions() {
        let engine = [Some(20.0), None, Some(60.0)];
        assert_eq!(ratios(&engine, &[Some(10.0), Some(10.0), Some(20.0)]), [2.0, 3.0]);
        assert_eq!(ratios(&engine, &[Some(0.0), Some(10.0), None]), [] as [f64; 0]);
    }
}
