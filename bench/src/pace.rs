//! When a client's operations are intended to begin.
//!
//! In a *closed loop* the next operation begins when the last one has ended: a slow answer also keeps the client from
//! asking, and the questions that it did not ask are in no figure. In an *open loop* (`--rate`) operations are intended
//! at fixed instants, whatever was answered until then, and latency counts from the intended instant: an operation
//! that had to wait for the one before it waited.
//!
//! The operations of a process are intended one after the other, at equal distances, and go round among its clients.

use std::{
    thread,
    time::{Duration, Instant},
};

/// The instants of one client.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// A closed loop.
    Closed,
    /// An open loop.
    Open {
        /// When the first operation of the first client is intended.
        start: Instant,
        /// Operations per second, of all clients.
        rate: f64,
        /// Whose instants these are, from 0.
        client: usize,
        /// How many take turns.
        clients: usize,
    },
}

impl Pace {
    /// That of client number `client` of `clients`, who together are to begin `rate` operations a second from `start` on;
    /// a closed loop if there is no rate.
    pub fn of_client(rate: Option<f64>, client: usize, clients: usize, start: Instant) -> Self {
        match rate {
            None => Self::Closed,
            Some(rate) => Self::Open { start, rate, client, clients },
        }
    }

    /// When operation `round` is intended, if the one before it ended at `ended`.
    pub fn intended(self, round: u64, ended: Instant) -> Instant {
        match self {
            Self::Closed => ended,
            // From the start each time: rounded intervals would add up to one operation more or less.
            Self::Open { start, rate, client, clients } => {
                let operation = round * clients as u64 + client as u64;
                start + Duration::from_secs_f64(operation as f64 / rate)
            }
        }
    }

    /// Sleeps until an operation is intended.
    pub fn wait_until(self, intended: Instant) {
        if let Self::Open { .. } = self {
            thread::sleep(intended.saturating_duration_since(Instant::now()));
        }
    }

    /// The instants before `deadline` of the operations from `round` on: none in a closed loop.
    pub fn missed(self, round: u64, deadline: Instant) -> impl Iterator<Item = Instant> {
        let is_open = matches!(self, Self::Open { .. });
        let instants = (round..).map(move |round| self.intended(round, deadline));
        instants.take_while(move |&instant| is_open && instant < deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Four clients at 8 operations a second: each begins one every half second, an eighth after its neighbour.
    #[test]
    fn clients_take_turns() {
        let start = Instant::now();
        let pace = Pace::of_client(Some(8.0), 3, 4, start);
        let late = start + 100 * SECOND;
        assert_eq!(pace.intended(0, late), start + SECOND * 3 / 8);
        assert_eq!(pace.intended(2, late), start + SECOND * 3 / 8 + SECOND);
    }

    /// A rate that has no whole interval makes no operation more: 5,625 in three seconds.
    #[test]
    fn rounding_adds_nothing() {
        let start = Instant::now();
        let pace = |client| Pace::of_client(Some(1_875.0), client, 1_000, start);
        let missed = |client| pace(client).missed(0, start + 3 * SECOND).count();
        assert_eq!((0..1_000).map(missed).sum::<usize>(), 5_625);
    }

    /// Without a rate, an operation is intended when the one before it has ended, and nothing is ever missed.
    #[test]
    fn a_closed_loop_follows_its_answers() {
        let start = Instant::now();
        let pace = Pace::of_client(None, 3, 4, start);
        assert_eq!(pace.intended(7, start + SECOND), start + SECOND);
        assert_eq!(pace.missed(0, start + SECOND).count(), 0);
    }

    /// What was not begun by the end is known, each with its instant.
    #[test]
    fn what_was_missed() {
        let start = Instant::now();
        let pace = Pace::of_client(Some(2.0), 0, 1, start);
        let missed: Vec<Instant> = pace.missed(3, start + 3 * SECOND).collect();
        assert_eq!(missed, [3, 4, 5].map(|round| start + SECOND * round / 2));
    }
}
