//! Which steps of a statement keep the GVL.
//!
//! To release the GVL and take it again costs less than a microsecond while no other thread wants it, and up to a time slice of Ruby's
//! (100 ms) while one executes Ruby code: beside one, reads of any length are ten times as many if they keep it. To keep it costs the
//! others what the step takes, and another processor that could execute it. `ruby -Ilib measure_gvl.rb` has the figures, and
//! docs/languages.md those of one machine. So the limit is what nobody notices: a hundredth of a time slice.
//!
//! A step that waits for nobody keeps the GVL as long as it is short. When a long one is noticed, a query begins again without the GVL, and
//! the next [`APART`] steps of all statements with its text run without it.

use core::cell::Cell;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

/// Up to here a step is short, in microseconds. Only measure_gvl.rb changes it.
static SHORT_US: AtomicU32 = AtomicU32::new(1000);

/// How many steps run without the GVL after a long one. Each short one brings the statement nearer to keeping the GVL again: one step may
/// have been long since the machine was busy.
const APART: u8 = 16;

/// Of how many texts it is known how long they take. More are forgotten all at once: what is long is soon known again.
const TEXTS_MAX: usize = 4096;

static KNOWN: LazyLock<Mutex<HashMap<u64, Arc<Paces>>>> = LazyLock::new(Mutex::default);

/// Changes what is short, to measure.
pub(crate) fn set_short_us(us: u32) {
    SHORT_US.store(us, Ordering::Relaxed);
}

fn short() -> Duration {
    Duration::from_micros(SHORT_US.load(Ordering::Relaxed).into())
}

/// What is known of the steps of statements with one text. The first step of a query often does most of the work.
#[derive(Default)]
pub(crate) struct Paces {
    pub(crate) first: Pace,
    pub(crate) next: Pace,
}

impl Paces {
    pub(crate) fn of(sql: &[u8]) -> Arc<Paces> {
        let mut hasher = DefaultHasher::new();
        sql.hash(&mut hasher);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TEXTS_MAX {
            known.clear();
        }
        Arc::clone(known.entry(hasher.finish()).or_default())
    }
}

#[derive(Default)]
pub(crate) struct Pace {
    apart: AtomicU8,
}

impl Pace {
    /// Whether the next step keeps the GVL.
    pub(crate) fn is_short(&self) -> bool {
        self.apart.load(Ordering::Relaxed) == 0
    }

    /// A step has taken so long.
    pub(crate) fn learn(&self, took: Duration) {
        let apart = self.apart.load(Ordering::Relaxed);
        let apart = if took > short() { APART } else { apart.saturating_sub(1) };
        self.apart.store(apart, Ordering::Relaxed);
    }
}

/// A step that keeps the GVL, and may begin again without it.
#[derive(Default)]
pub(crate) struct Attempt {
    began: Cell<Option<Instant>>,
    is_given_up: Cell<bool>,
}

impl Attempt {
    pub(crate) fn begin(&self) {
        self.began.set(Some(Instant::now()));
        self.is_given_up.set(false);
    }

    /// The program has been called, and would be twice: the step goes on.
    pub(crate) fn commit(&self) {
        self.began.set(None);
    }

    /// Whether the step is to end, since it is long.
    pub(crate) fn gives_up(&self) -> bool {
        let gives_up = self.began.get().is_some_and(|began| began.elapsed() > short());
        if gives_up {
            self.is_given_up.set(true);
        }
        gives_up
    }

    /// The step has ended: whether it was given up.
    pub(crate) fn end(&self) -> bool {
        self.began.set(None);
        self.is_given_up.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_step_sends_the_next_ones_away_and_short_ones_bring_them_back() {
        let pace = &Paces::of(b"SELECT 1").first;
        pace.learn(short());
        assert!(pace.is_short());
        pace.learn(short() * 2);
        for _ in 0..APART {
            assert!(!Paces::of(b"SELECT 1").first.is_short(), "it is known by its text");
            pace.learn(Duration::ZERO);
        }
        assert!(pace.is_short());
        assert!(Paces::of(b"SELECT 2").first.is_short());
    }

    #[test]
    fn an_attempt_is_given_up_unless_the_program_was_called() {
        let attempt = Attempt::default();
        attempt.begin();
        assert!(!attempt.gives_up());
        std::thread::sleep(short() * 2);
        assert!(attempt.gives_up() && attempt.end() && !attempt.end());
        attempt.begin();
        attempt.commit();
        std::thread::sleep(short() * 2);
        assert!(!attempt.gives_up() && !attempt.end());
    }
}
