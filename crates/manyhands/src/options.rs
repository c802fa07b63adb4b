//! What an application can choose when it opens a database.

use core::time::Duration;

use crate::limits;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Durability {
    /// SQLite's `synchronous=NORMAL`: the death of any process. A power cut may take the last
    /// commits away, and never makes the database inconsistent.
    Normal,
    /// SQLite's `synchronous=FULL`, the default: a power cut too.
    #[default]
    Full,
}

impl Durability {
    pub(crate) fn pragma(self) -> &'static str {
        match self {
            Durability::Normal => "PRAGMA synchronous=NORMAL",
            Durability::Full => "PRAGMA synchronous=FULL",
        }
    }
}

/// What becomes of a database that is in another journal mode than WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Journal {
    /// It is switched to WAL mode when it is opened, and stays so.
    #[default]
    Wal,
    /// It stays as it is. Until somebody switches it, by `PRAGMA journal_mode = WAL`, it is plain SQLite's: no queue, no file
    /// beside it, and `database is locked` where SQLite says so.
    Keep,
}

/// What a plain `BEGIN`, or `BEGIN DEFERRED`, means. `BEGIN CONCURRENT` is optimistic and `BEGIN IMMEDIATE`
/// holds its turn, whatever is chosen here. With a timeout of 0 a plain `BEGIN` is SQLite's own: the first
/// write takes its turn, or fails at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TransactionMode {
    /// The transaction reads and writes on a snapshot of its own, and commits if what it saw is still so.
    /// Else it conflicts, and must be run again.
    #[default]
    Optimistic,
    /// SQLite's contract, for applications that were written for SQLite's own transactions: the transaction reads its
    /// snapshot and holds nothing; from its first write on it holds its turn, if what it has read is still so
    /// ([`crate::Error::is_stale_snapshot`] if not). It does not conflict, its statements fail when they are executed and not
    /// later, and new ids become visible in their order. With [`crate::driver::ConnectionExt::defer_writes`], writes that
    /// cannot fail are executed with the COMMIT, and transactions that do nothing else share a sync.
    Auto,
    /// The transaction holds its turn from the start, as after `BEGIN IMMEDIATE`.
    Immediate,
}

/// The choices that every connection of a [`crate::Database`] starts with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// That of a connection that has not said otherwise; at least `durability_min`.
    pub(crate) durability: Durability,
    /// What no connection goes below.
    pub(crate) durability_min: Durability,
    pub(crate) journal: Journal,
    pub(crate) timeout: Duration,
    pub(crate) foreign_keys: bool,
    pub(crate) label: String,
    pub(crate) speculation_bytes_max: usize,
    pub(crate) wal_bytes_limit: u64,
    pub(crate) transaction_mode: TransactionMode,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            durability: Durability::Full,
            durability_min: Durability::Normal,
            journal: Journal::Wal,
            timeout: limits::TIMEOUT,
            foreign_keys: false,
            label: String::new(),
            speculation_bytes_max: limits::SPECULATION_BYTES_MAX,
            wal_bytes_limit: u64::MAX,
            transaction_mode: TransactionMode::Optimistic,
        }
    }
}
