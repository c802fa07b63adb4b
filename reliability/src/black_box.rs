//! What the campaign `black-box` consists of: transactions that append to lists and read them, and a checker
//! of such histories that is not ours ([`adya`]). It knows nothing of this engine, of commit numbers or of
//! SQL: from what was read alone it infers who must have come before whom, and a cycle is an anomaly.
//!
//! A list is kept in one of two ways. Even keys have a text that grows, odd ones have a row for each
//! element: to read those is to ask for all rows of a key, so that a list that grows is a phantom.
//!
//! * `script`: which transaction comes next, and its SQL.
//! * `player`: plays them on a connection of ours.
//! * `peer`: plays them in the sqlite3 shell.
//! * `history`: what was told, as the checker wants it.

pub mod history;
pub mod peer;
pub mod player;
pub mod script;

#[cfg(test)]
mod planted;
