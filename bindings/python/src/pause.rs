//! What `manyhands.aio` asks of a connection between two calls: whether another one could go on in its place.

use manyhands::driver::{ConnectionExt, SessionCounts};
use pyo3::prelude::*;

use crate::connection::Connection;

/// `changes()`, `total_changes()`, `last_insert_rowid()`.
type Counts = (i64, i64, i64);

#[pymethods]
impl Connection {
    /// Takes back a cancellation. Tells whether it is in a transaction, holds the turn, and could be replaced by a new
    /// connection, which goes on with the counts.
    fn _pause(&self, py: Python<'_>) -> PyResult<(bool, bool, bool, Counts)> {
        self.resume();
        self.call_lazily(py, |connection| {
            let counts = connection.session_counts();
            let counts = (counts.changes, counts.total_changes, counts.last_insert_rowid);
            let in_transaction = connection.is_in_transaction();
            let is_plain = connection.is_plain();
            Ok((in_transaction, connection.holds_turn(), is_plain, counts))
        })
    }

    /// Goes on, on a new connection, with the session of one that was paused.
    fn _resume(&self, py: Python<'_>, counts: Counts) -> PyResult<()> {
        let (changes, total_changes, last_insert_rowid) = counts;
        self.call(py, |connection| {
            connection.continue_session(SessionCounts {
                changes,
                total_changes,
                last_insert_rowid,
            });
            Ok(())
        })
    }
}
