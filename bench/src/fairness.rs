//! How evenly the clients of a measurement were served.

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

#[cfg(test)]
mod tests {
    use super::*;

    /// A starved thread shows as 0, however much the others got.
    #[test]
    fn fairness_shows_the_starved() {
        assert_eq!(Fairness::of(&[10, 10]), Some(Fairness { least: 1.0, most: 1.0 }));
        assert_eq!(Fairness::of(&[0, 20, 40]), Some(Fairness { least: 0.0, most: 2.0 }));
        assert_eq!(Fairness::of(&[7]), None);
        assert_eq!(Fairness::of(&[0, 0]), None);
    }
}
