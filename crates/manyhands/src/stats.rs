//! Figures about a database, for people and for tests.

/// What a database's queue has done since its first member joined, and this process's checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Batches committed: each cost one sync.
    pub batches: u64,
    /// Requests that leaders executed in batches.
    pub requests: u64,
    /// Turns taken from the queue: writes that their owners executed themselves after waiting. A
    /// write that found the queue empty is in neither number.
    pub turns: u64,
    /// Leaders that died or gave up, and were succeeded.
    pub successions: u64,
    /// Checkpoints by this process.
    pub checkpoints: u64,
    /// The last error of a checkpoint by this process, if any: the WAL grows until one succeeds.
    pub checkpoint_error: Option<String>,
}
