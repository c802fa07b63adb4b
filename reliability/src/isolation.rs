//! What the campaign `isolation` consists of: transactions drawn by dice, what each of them saw, and a
//! model that says what it should have seen.
//!
//! Every transaction has an id of 128 bits, and draws its number in the commit order by inserting into
//! `history`, where it takes effect and without looking. A worker logs what a transaction saw before its
//! COMMIT, and how that ended after it. A worker that is killed leaves transactions whose end nobody
//! knows: their ids are in `history`, or not.
//!
//! The checker (`verdict`) executes all committed transactions again in the order of `history`, on plain
//! SQLite in memory, and compares every result and at last every table.

pub mod call;
pub mod dice;
pub mod log;
pub mod party;
pub mod peer;
pub mod player;
pub mod verdict;

#[cfg(test)]
mod planted;
