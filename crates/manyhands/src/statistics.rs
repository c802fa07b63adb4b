//! Figures about a database, for people and for tests.

use core::sync::atomic::AtomicU64;

use crate::WalReader;

/// What a database's queue has done since its first member joined, and this process's checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Batches committed: each cost one sync.
    pub batches: u64,
    /// Requests that leaders executed in batches.
    pub requests: u64,
    /// Turns taken from the queue: writes that their owners executed themselves after waiting. A
    /// write that found the queue empty is in neither number.
    pub turns: u64,
    /// Leaders that died or gave up, and whose place was taken over.
    pub successions: u64,
    /// Checkpoints by this process.
    pub checkpoints: u64,
    /// Optimistic transactions of this process that committed as SQLite commits, since nobody else had
    /// committed since they began.
    pub promotions: u64,
    /// Those whose statements were executed again, and showed the same.
    pub replays: u64,
    /// Those that failed, since something that they saw was no longer so.
    pub conflicts: u64,
    /// Those that moved to their turn before they ended, for what only a turn can do, or for their size.
    pub escalations: u64,
    /// How often [`crate::Database::run`] ran its function again.
    pub retries: u64,
    /// How many bytes of the WAL a reader kept from being reused at the last checkpoint; 0 without such a reader.
    pub wal_bytes_starved: u64,
    /// That reader, if it is still there.
    pub wal_reader: Option<WalReader>,
    /// The last error of a checkpoint by this process, if any: the WAL grows until one succeeds.
    pub checkpoint_error: Option<String>,
}

/// What became of this process's optimistic transactions.
#[derive(Debug, Default)]
pub(crate) struct TransactionCounts {
    pub(crate) promotions: AtomicU64,
    pub(crate) replays: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) escalations: AtomicU64,
    pub(crate) retries: AtomicU64,
}
