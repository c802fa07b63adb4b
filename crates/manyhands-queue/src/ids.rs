//! Reserved ids: so that transactions that insert into one table at the same time do not choose the
//! same rowid.
//!
//! A table of counters by open addressing. A place has two words:
//!
//! | key     | meaning            | ways out                                                    |
//! |---------|--------------------|-------------------------------------------------------------|
//! | 0       | free               | a table's key (who reserves first)                          |
//! | a key   | that table's place | `CHANGING` (it is evicted, or everything is forgotten)      |
//! | `CHANGING` | `next` is replaced | the new table's key, 0                                   |
//!
//! `next` is the next id to give, with its sign bit flipped, so that 0 is none. It grows by
//! compare-and-swap, and shrinks by one when the last id is given back.
//!
//! What always holds: as long as a table keeps its place, no id is given twice. Nothing depends on a
//! place being kept: two transactions with the same id are a conflict, and one of them runs again.
//!
//! And if we die here? A place that is `CHANGING` is lost until everything is forgotten; it is one of
//! [`TABLES`]. An id that was reserved and not used is a gap.

use crate::layout::{Counter, TABLES};
use crate::planted::planted;
use crate::queue::Queue;
use crate::sync::{AtomicU64, Ordering, fence, spin};

/// How many places are looked at for a table.
#[cfg(not(any(loom, shuttle)))]
const PROBES: usize = 8;
#[cfg(any(loom, shuttle))]
const PROBES: usize = 1;

/// The key of a place whose `next` is being replaced.
const CHANGING: u64 = u64::MAX;

/// How often a reservation is tried. Each failure means that another client had success: so many
/// happen in damaged memory only.
#[cfg(not(any(loom, shuttle)))]
const TRIES_MAX: usize = 65_536;
#[cfg(any(loom, shuttle))]
const TRIES_MAX: usize = 1024;

/// How many tries a place that is `CHANGING` is waited for. After that who changes it has died, or
/// sleeps.
const PATIENCE: usize = TRIES_MAX / 64;

const SIGN: u64 = 1 << 63;

fn to_word(next: i64) -> u64 {
    next as u64 ^ SIGN
}

/// `None` for the word that is no id.
fn from_word(word: u64) -> Option<i64> {
    (word != 0).then_some((word ^ SIGN) as i64)
}

/// The key of `table`, which is none of the two that mean something else.
fn key_of(table: u64) -> u64 {
    table.clamp(1, CHANGING - 1)
}

impl Queue {
    /// An id above `floor` for a row of `table`, a hash of its name. Nobody else gets it as long as the
    /// table keeps its place among the counters. `None` when there is no id left below `i64::MAX`.
    pub fn reserve_id(&self, table: u64, floor: i64) -> Option<i64> {
        reserve(self.counters_of_ids(), key_of(table), floor)
    }

    /// Reserves exactly this id. False when it is not the next one that would be given.
    pub fn reserve_this_id(&self, table: u64, id: i64) -> bool {
        let (key, Some(next)) = (key_of(table), id.checked_add(1)) else { return false };
        find(self.counters_of_ids(), key).is_some_and(|place| {
            place.next_of(key) == Some(id) && place.change_next(to_word(id), to_word(next))
        })
    }

    /// True when ids of `table` were reserved, and not forgotten since.
    pub fn has_reservations(&self, table: u64) -> bool {
        let key = key_of(table);
        find(self.counters_of_ids(), key).is_some_and(|place| place.next_of(key).is_some())
    }

    /// Gives back an id that was not used, if it was the last one given: the next one to ask gets it.
    pub fn give_back_id(&self, table: u64, id: i64) {
        let (key, Some(next)) = (key_of(table), id.checked_add(1)) else { return };
        if id == i64::MIN {
            return;
        }
        if let Some(place) = find(self.counters_of_ids(), key)
            && place.next_of(key) == Some(next)
        {
            place.change_next(to_word(next), to_word(id));
        }
    }

    /// Forgets all reservations: a name may mean another table now.
    pub fn forget_ids(&self) {
        for place in self.counters_of_ids() {
            if place.key.load(Ordering::Relaxed) != 0 {
                place.key.swap(CHANGING, Ordering::AcqRel);
                place.replace(0, 0);
            }
        }
    }

    fn counters_of_ids(&self) -> &[Counter; TABLES] {
        &self.region.shared().counters.0
    }
}

/// The places of `key`, in the order in which they are looked at.
fn places(counters: &[Counter; TABLES], key: u64) -> impl Iterator<Item = &Counter> {
    (0..PROBES as u64).map(move |step| &counters[(key.wrapping_add(step) % TABLES as u64) as usize])
}

fn find(counters: &[Counter; TABLES], key: u64) -> Option<&Counter> {
    places(counters, key).find(|place| place.key.load(Ordering::Acquire) == key)
}

fn reserve(counters: &[Counter; TABLES], key: u64, floor: i64) -> Option<i64> {
    // The id to give and the one to give next must both exist.
    let above = floor.checked_add(1).filter(|&id| id < i64::MAX)?;
    for attempt in 0..TRIES_MAX {
        let Some(place) = find(counters, key).or_else(|| place_for(counters, key)) else {
            if attempt < PATIENCE && places(counters, key).any(Counter::is_changing) {
                // It may become ours.
                spin();
                continue;
            }
            // All places are somebody else's: the first one's table loses it.
            let first = places(counters, key).find(|place| !place.is_changing())?;
            // The place starts with our own id: nobody with an old look at it takes it for empty.
            if first.evict() && first.replace(to_word(above + 1), key) {
                return Some(above);
            }
            continue;
        };
        let Some(seen) = place.word_of(key) else { continue };
        let id = from_word(seen).map_or(above, |next| next.max(above));
        // A word this large is damaged, or the table is full.
        let next = if planted("same-id-twice") { id } else { id.checked_add(1)? };
        if place.change_next(seen, to_word(next)) {
            return Some(id);
        }
    }
    None
}

/// Takes the first free place for `key`. Another thread may take it for the same key: then it is found.
fn place_for(counters: &[Counter; TABLES], key: u64) -> Option<&Counter> {
    places(counters, key).find(|place| {
        place
            .key
            .compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire)
            .map_or_else(|found| found == key, |_| true)
    })
}

impl Counter {
    /// The word `next`, while the place is that of `key`.
    fn word_of(&self, key: u64) -> Option<u64> {
        let is_ours = |key_word: &AtomicU64| key_word.load(Ordering::Acquire) == key;
        if !is_ours(&self.key) {
            return None;
        }
        let word = self.next.load(Ordering::Relaxed);
        // Acquire: pairs with the fence in `replace`. Who reads another table's counter also sees that
        // the key is no longer ours.
        fence(Ordering::Acquire);
        is_ours(&self.key).then_some(word)
    }

    fn next_of(&self, key: u64) -> Option<i64> {
        self.word_of(key).and_then(from_word)
    }

    /// If the place is another table's meanwhile, its counter has the same value only by chance. Then
    /// that table gets a gap, or an id twice.
    fn change_next(&self, from: u64, to: u64) -> bool {
        self.next.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes the place from its table, to [`Counter::replace`] it.
    fn evict(&self) -> bool {
        let key = self.key.load(Ordering::Relaxed);
        let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        key != CHANGING && self.key.compare_exchange(key, CHANGING, order, failed).is_ok()
    }

    fn is_changing(&self) -> bool {
        self.key.load(Ordering::Relaxed) == CHANGING
    }

    /// Gives a place that is `CHANGING` to another table. False when somebody forgot it meanwhile.
    fn replace(&self, next: u64, key: u64) -> bool {
        // Release: pairs with the fence in `word_of`.
        fence(Ordering::Release);
        // A swap and no store, since loom lets a store and a compare-and-swap change places.
        self.next.swap(next, Ordering::AcqRel);
        // Release: who sees the key sees its counter.
        self.key.compare_exchange(CHANGING, key, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
