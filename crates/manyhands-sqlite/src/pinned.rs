//! What makes a statement repeatable: its clock and its random numbers are pinned while it is stepped.
//!
//! A statement that is run again on another connection, in another process, finds the same rows. Two
//! inputs come from outside: the time of day, and random numbers. [`pin`] fixes both for the thread that
//! steps:
//!
//! - the clock (`clock`): `'now'`, `CURRENT_TIMESTAMP` and similar values, for which SQLite asks the
//!   connection's VFS at each step;
//! - the random numbers (`random_numbers`): `random()` and `randomblob()` of connections that were made repeatable with
//!   [`Connection::make_repeatable`](crate::Connection::make_repeatable);
//! - the zone (`zone`) cannot be pinned, only compared: [`zone_digest`].
//!
//! What always holds: of the pins that still live, the one made last rules its thread and no other. When a
//! pin rules again, its random numbers continue where they stopped.
//!
//! What stays random: the rowid that SQLite picks once a table without AUTOINCREMENT has used the
//! largest one (<https://sqlite.org/autoinc.html>), and the order of rows that no ORDER BY fixes, if
//! the two connections plan a statement differently. SQLite may ask the clock for a plan too, so the
//! pin belongs around the compilation of a statement as well.

mod clock;
mod random_numbers;
mod zone;

pub(crate) use clock::{current_time, current_time_ms};
pub use zone::zone_digest;

use core::cell::RefCell;
use core::marker::PhantomData;

use chacha20::ChaCha20Rng;
use serde::{Deserialize, Serialize};

/// The clock and the seed of a statement while it is stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// The time, in milliseconds of the Julian day, as SQLite counts.
    pub time_ms: i64,
    /// The seed. The time is part of it: equal seeds at different times give different numbers.
    pub seed: u64,
    /// Which statement of the transaction it is for: each has its own random numbers.
    pub statement: u64,
}

impl Pinned {
    /// The real time, also under a pin, and a fresh seed.
    pub fn now() -> Pinned {
        Pinned { time_ms: clock::real_time_ms(), seed: random_numbers::fresh_seed(), statement: 0 }
    }

    /// The same seed, and the real time.
    #[must_use]
    pub fn at_this_moment(self) -> Pinned {
        Pinned { time_ms: clock::real_time_ms(), ..self }
    }

    /// The same clock, and the random numbers of the statement with this number.
    #[must_use]
    pub fn for_statement(self, ordinal: u64) -> Pinned {
        Pinned { statement: ordinal, ..self }
    }
}

/// Fixes the clock and the random numbers of the statements that this thread steps, on any connection, until
/// the guard is dropped. Pins nest: then the one before rules again.
///
/// A statement that is stepped row by row, with others in between, needs its pin at each step, with
/// random numbers that continue: see [`PinGuard::pause`].
///
/// ```
/// use manyhands_sqlite::{Connection, OpenMode, Pinned, pin};
///
/// let connection = Connection::open(":memory:".as_ref(), OpenMode::ReadWriteCreate, false)?;
/// connection.make_repeatable()?;
/// let pinned = Pinned { time_ms: 211_845_067_200_000, seed: 7, statement: 0 };
/// let guard = pin(pinned);
/// assert_eq!(connection.query_text("select datetime('now')")?, "2001-01-01 00:00:00");
/// let number = connection.query_integer("select random()")?;
/// drop(guard);
/// let _guard = pin(pinned);
/// assert_eq!(connection.query_integer("select random()")?, number);
/// # Ok::<(), manyhands_sqlite::Error>(())
/// ```
pub fn pin(pinned: Pinned) -> PinGuard {
    Paused { pinned, generator: None }.resume()
}

/// Lifts a pin when it is dropped. It stays on the thread that it pins.
#[derive(Debug)]
#[must_use = "the pin is lifted when the guard is dropped"]
pub struct PinGuard {
    number: u64,
    not_send: PhantomData<*const ()>,
}

impl PinGuard {
    /// Lifts the pin until it is resumed.
    pub fn pause(self) -> Paused {
        lift(self.number).expect("a guard's pin is there until it is dropped, and so is its thread")
    }
}

impl Drop for PinGuard {
    fn drop(&mut self) {
        lift(self.number);
    }
}

/// A pin between two steps of a statement. It may go on on another thread.
#[derive(Debug)]
#[must_use = "a paused pin rules nothing"]
pub struct Paused {
    pinned: Pinned,
    /// `None` until the first draw.
    generator: Option<Box<ChaCha20Rng>>,
}

impl Paused {
    /// Pins again. The random numbers continue where they stopped.
    pub fn resume(self) -> PinGuard {
        let number = PINS.with_borrow_mut(|pins| {
            pins.made += 1;
            pins.living.push((pins.made, self));
            pins.made
        });
        PinGuard { number, not_send: PhantomData }
    }
}

/// The pins of a thread, by number; the last one rules.
///
/// Guards may be dropped in any order, so a guard lifts its own pin by number and leaves the others.
struct Pins {
    made: u64,
    living: Vec<(u64, Paused)>,
}

thread_local! {
    static PINS: RefCell<Pins> = const { RefCell::new(Pins { made: 0, living: Vec::new() }) };
}

/// Takes a pin out. `None` when it is gone, or the thread is ending.
fn lift(number: u64) -> Option<Paused> {
    let take = |pins: &mut Pins| {
        let index = pins.living.iter().rposition(|(its, _)| *its == number)?;
        Some(pins.living.remove(index).1)
    };
    PINS.try_with(|pins| take(&mut pins.borrow_mut())).ok().flatten()
}

/// What the pin that rules this thread says; `None` without one. Called from inside SQLite: it does
/// not panic, also while the thread ends, and `ask` must not step a statement.
fn ruling<T>(ask: impl FnOnce(&mut Paused) -> T) -> Option<T> {
    let ask = |pins: &mut Pins| pins.living.last_mut().map(|(_, pin)| ask(pin));
    PINS.try_with(|pins| ask(&mut pins.borrow_mut())).ok().flatten()
}
