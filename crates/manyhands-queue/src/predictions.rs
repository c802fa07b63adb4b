//! Predictions: will a transaction that has executed these statements write?
//!
//! A transaction that reads before it writes should take its turn before it reads, and one that only reads should
//! take none. Which of the two it is nobody says beforehand, but the same program does the same again. So each
//! transaction that ends tells what became of it, for each key that it came by: a hash of the statements that it had
//! executed until then, or of one of them. All processes share what is learnt.
//!
//! A word holds the low bits of its key (a tag), and a score:
//!
//! | score      | meaning                                                 | it wrote | it only read | it failed |
//! |------------|---------------------------------------------------------|----------|--------------|-----------|
//! | 0          | nobody knows                                            | 160      | 32           | 255       |
//! | 1          | the first one is on its way                             | 160      | 32           | 255       |
//! | 2 to 191   | a share of writers; from 128 on a write is predicted    | a sixteenth of the way up | a quarter of the way down | 255 |
//! | 192 to 255 | almost all write, or one that did not expect to has failed | the same | one less  | 255       |
//!
//! So a write is predicted where four in five write; and for some time after a transaction failed, since what it had
//! read was changed before it wrote, also where few do.
//!
//! Nothing depends on it: a wrong prediction costs a wait or a `SQLITE_BUSY_SNAPSHOT`. Words are overwritten by others
//! with the same place, lost when two update one at once, and taken as they are after any damage.

use crate::layout::PREDICTIONS;
use crate::queue::Queue;
use crate::sync::{AtomicU32, Ordering};

/// The first one is on its way.
const FIRST: u32 = 1;

/// From this score on a write is predicted.
const WRITES: u32 = 128;

/// From this score on it falls slowly.
const FAILED: u32 = 192;

const SCORE_MAX: u32 = 255;

/// What a transaction will do, as those before it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prediction {
    /// It will almost certainly write.
    Writes,
    /// It may only read.
    Reads,
    /// Nobody knows: it is the first one, to learn from.
    First,
    /// The first one is on its way, and nobody knows what it does.
    Unknown,
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    /// It wrote.
    Writer,
    /// It ended without a write.
    Reader,
    /// What it had read was changed by others before its first write.
    Stale,
}

impl Queue {
    /// What a transaction that has come by `key` will do.
    pub fn predict(&self, key: u64) -> Prediction {
        let word = self.prediction(key);
        let seen = word.load(Ordering::Relaxed);
        match score_of(seen, key) {
            // Of several that come at once one is the first.
            0 => {
                let first = tag_of(key) << 8 | FIRST;
                match word.compare_exchange(seen, first, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => Prediction::First,
                    Err(_) => Prediction::Unknown,
                }
            }
            FIRST => Prediction::Unknown,
            WRITES.. => Prediction::Writes,
            _ => Prediction::Reads,
        }
    }

    /// A transaction that came by `key` has ended.
    pub fn learn(&self, key: u64, became: Became) {
        let word = self.prediction(key);
        let seen = word.load(Ordering::Relaxed);
        let learnt = tag_of(key) << 8 | next_score(score_of(seen, key), became);
        // The line is shared by all processes: it stays as it is where nothing is learnt.
        if learnt != seen {
            word.store(learnt, Ordering::Relaxed);
        }
    }

    fn prediction(&self, key: u64) -> &AtomicU32 {
        &self.region.shared().predictions.0[(key >> 32) as usize % PREDICTIONS]
    }
}

fn tag_of(key: u64) -> u32 {
    key as u32 >> 8
}

fn score_of(word: u32, key: u64) -> u32 {
    if word >> 8 == tag_of(key) { word & SCORE_MAX } else { 0 }
}

fn next_score(score: u32, became: Became) -> u32 {
    match (became, score) {
        (Became::Stale, _) => SCORE_MAX,
        (Became::Writer, 0 | FIRST) => 160,
        (Became::Writer, _) => score + (SCORE_MAX - score).div_ceil(16),
        (Became::Reader, 0 | FIRST) => 32,
        (Became::Reader, FAILED..) => score - 1,
        (Became::Reader, _) => (score - score / 4).max(FIRST + 1),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn after(history: impl IntoIterator<Item = Became>) -> u32 {
        history.into_iter().fold(0, next_score)
    }

    #[test]
    fn one_transaction_is_enough_to_predict_the_next() {
        assert!(after([Became::Writer]) >= WRITES);
        assert!(after([Became::Reader]) < WRITES);
    }

    /// A web framework reads its session first: half of its views write, and the others must not wait.
    #[test]
    fn where_every_second_one_writes_nothing_is_predicted() {
        let half = (0..100).map(|n| if n % 2 == 0 { Became::Reader } else { Became::Writer });
        let scores: Vec<u32> = (50..100).map(|n| after(half.clone().take(n))).collect();
        assert!(scores.iter().all(|&score| score < WRITES), "{scores:?}");
    }

    #[test]
    fn where_nine_in_ten_write_a_write_is_predicted() {
        let most = (0..200).map(|n| if n % 10 == 9 { Became::Reader } else { Became::Writer });
        assert!((100..200).all(|n| after(most.clone().take(n)) >= WRITES));
    }

    /// Few of them write, but one failed: the next ones take no risk for a while, and not for ever.
    #[test]
    fn a_failure_is_remembered_for_a_while() {
        let after_failure = |readers| {
            after([Became::Stale].into_iter().chain((0..readers).map(|_| Became::Reader)))
        };
        assert!(after_failure(50) >= WRITES);
        assert!(after_failure(100) < WRITES);
    }

    #[test]
    fn every_score_stays_one() {
        for score in 0..=SCORE_MAX {
            for became in [Became::Writer, Became::Reader, Became::Stale] {
                assert!(
                    (FIRST + 1..=SCORE_MAX).contains(&next_score(score, became)),
                    "{score} {became:?}"
                );
            }
        }
    }
}
