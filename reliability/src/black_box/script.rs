//! Lists, what is done to them, and which transaction comes next.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::clock::now_ns;

/// The tables.
pub const SCHEMA: &str = "
    CREATE TABLE text (k INTEGER PRIMARY KEY, items TEXT NOT NULL);
    CREATE TABLE element (k INTEGER, n INTEGER, item INTEGER, PRIMARY KEY (k, n)) WITHOUT ROWID;";

/// How many lists are in use at any moment.
const KEYS: u64 = 6;

/// So long lists are in use before others come in their place: so they stay short, and all processes use
/// the same ones.
const USED_NS: u64 = 25_000_000;

/// One thing that is done to a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Appends an item that nobody else appends.
    Append(i64, i64),
    Read(i64),
}

impl Step {
    /// Its statement; the first parameter is the key, the second the item.
    pub fn sql(self) -> &'static str {
        match (self, self.key() % 2 == 0) {
            (Step::Append(..), true) => {
                "INSERT INTO text VALUES (?1, ?2) \
                 ON CONFLICT (k) DO UPDATE SET items = items || ' ' || excluded.items"
            }
            (Step::Append(..), false) => {
                "INSERT INTO element SELECT ?1, coalesce(max(n), 0) + 1, ?2 FROM element WHERE k = ?1"
            }
            (Step::Read(_), true) => "SELECT items FROM text WHERE k = ?1",
            (Step::Read(_), false) => "SELECT item FROM element WHERE k = ?1 ORDER BY n",
        }
    }

    pub fn key(self) -> i64 {
        match self {
            Step::Append(key, _) | Step::Read(key) => key,
        }
    }

    /// For the sqlite3 shell.
    pub fn written_out(self) -> String {
        let sql = self.sql().replace("?1", &self.key().to_string());
        match self {
            Step::Append(_, item) => sql.replace("?2", &item.to_string()),
            Step::Read(_) => sql,
        }
    }
}

/// How a transaction is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One request: a statement by itself, or a batch.
    Request,
    Optimistic,
    /// Optimistic, tried again after a conflict.
    Run,
    /// BEGIN IMMEDIATE.
    Turn,
}

/// Draws transactions. No item is drawn twice.
#[derive(Debug)]
pub struct Scripts {
    dice: Rng,
    item: i64,
}

impl Scripts {
    /// Of the player with this number.
    pub fn new(seed: u64, player: u64) -> Scripts {
        Scripts { dice: Rng::with_seed(seed), item: (player as i64) << 32 }
    }

    pub fn next(&mut self) -> (Way, Vec<Step>) {
        let way = match self.dice.u32(0..10) {
            0 | 1 => Way::Request,
            2..6 => Way::Optimistic,
            6..9 => Way::Run,
            _ => Way::Turn,
        };
        let first = now_ns() / USED_NS * KEYS;
        let steps = (0..1 + self.dice.usize(0..4)).map(|_| {
            let key = (first + self.dice.u64(0..KEYS)) as i64;
            if self.dice.u32(0..5) < 2 {
                self.item += 1;
                Step::Append(key, self.item)
            } else {
                Step::Read(key)
            }
        });
        (way, steps.collect())
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u32) -> bool {
        self.dice.u32(0..times) == 0
    }
}
