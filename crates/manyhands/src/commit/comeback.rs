//! Whether a connection that has given its turn back comes back at once. The place is reserved for one that does, for a
//! quantum at most ([`Reservation`]): then nobody has to be woken for each transaction.
//!
//! It is learnt: a program that loops does what it did. A reservation in vain leaves the place empty until the quantum is
//! over, so each makes the next one need more proof.

use std::time::Instant;

use manyhands_queue::{Lead, Reservation, planted};

use crate::limits;

/// What is known of a connection's returns.
#[derive(Debug, Default)]
pub(crate) struct Comeback {
    reservation: Option<Reservation>,
    /// When it last left, unless it has come back.
    left: Option<Instant>,
    /// How often in a row it came back at once.
    streak: u32,
    /// A streak must be longer than this for the next return to be expected.
    doubt: u32,
    /// Its return was expected when it last left.
    expected: bool,
}

impl Comeback {
    /// Ends a leadership, and reserves the place if a return is expected. `before_requests`: see
    /// [`Lead::release_and_return`].
    pub(crate) fn leave(&mut self, lead: Lead, before_requests: bool) {
        self.note_left(Instant::now());
        if self.expected {
            self.reservation = lead.release_and_return(before_requests);
        } else {
            lead.release();
        }
    }

    /// It leaves, or another one has led for it.
    pub(crate) fn note_left(&mut self, now: Instant) {
        self.left = Some(now);
        self.expected = self.streak > self.doubt || planted("forget-the-first");
    }

    /// It wants to lead again, perhaps in the place that was reserved for it.
    pub(crate) fn come(&mut self, now: Instant) -> Option<Reservation> {
        let left = self.left.take()?;
        if now.saturating_duration_since(left) < limits::COMEBACK {
            self.streak = self.streak.saturating_add(1);
            if self.streak > limits::COMEBACK_DOUBT_MAX {
                self.doubt = 0;
            }
        } else {
            if self.expected {
                self.doubt = (2 * self.doubt + 1).min(limits::COMEBACK_DOUBT_MAX);
            }
            self.streak = 0;
        }
        self.reservation.take()
    }

    /// It does not come back: the place is free for others.
    pub(crate) fn stay_away(&mut self) {
        self.reservation = None;
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    /// Comes back so often at once, and then later. Returns how many of the returns were expected.
    fn burst(comeback: &mut Comeback, now: &mut Instant, returns: u32) -> u32 {
        let mut expected = 0;
        for _ in 0..returns {
            comeback.note_left(*now);
            expected += u32::from(comeback.expected);
            *now += limits::COMEBACK / 2;
            comeback.come(*now);
        }
        comeback.note_left(*now);
        *now += Duration::from_millis(10);
        comeback.come(*now);
        expected
    }

    #[test]
    fn one_that_loops_is_expected_and_one_that_pauses_is_not() {
        let (mut comeback, mut now) = (Comeback::default(), Instant::now());
        assert_eq!(burst(&mut comeback, &mut now, 100), 99, "all but the first");
        let mut pausing = Comeback::default();
        for _ in 0..100 {
            assert_eq!(burst(&mut pausing, &mut now, 0), 0);
        }
    }

    /// Whose bursts are short is not waited for at the end of each of them.
    #[test]
    fn who_was_waited_for_in_vain_needs_more_proof() {
        let (mut comeback, mut now) = (Comeback::default(), Instant::now());
        let expected: Vec<u32> = (0..6).map(|_| burst(&mut comeback, &mut now, 5)).collect();
        assert_eq!(expected, [4, 3, 1, 0, 0, 0]);
        // One that loops again is believed again.
        assert!(burst(&mut comeback, &mut now, 1_000) > 900);
        assert!(burst(&mut comeback, &mut now, 1_000) > 990);
    }
}
