//! The recent commits, as the queue remembers them: which tables were written since a transaction's
//! snapshot. The header of the wal-index identifies a state of the database.

use manyhands_queue::{CommitNote, Lead, Queue, planted};
use manyhands_sqlite::WalIndexHeader;

use crate::statement::tables::TableSet;

/// Notes a commit of the leader's, which has written these tables. `before` is the header when it took
/// the write lock, `after` the one now: if another program has committed since, nothing is noted.
pub(crate) fn note_commit(
    lead: &mut Lead,
    before: Option<WalIndexHeader>,
    after: Option<WalIndexHeader>,
    written: TableSet,
) {
    if let (Some(before), Some(after)) = (before, after)
        && after.change == before.change.wrapping_add(1)
    {
        lead.note_commit(&CommitNote {
            change: after.change,
            before: before.checksum,
            after: after.checksum,
            tables: if planted("commit-wrote-nothing") { 0 } else { written.0 },
        });
    }
}

/// The tables that were written since the state with this change counter and checksum, as far as is known.
pub(crate) fn written_since(
    queue: &Queue,
    (change, checksum): (u32, u64),
    now: Option<&WalIndexHeader>,
) -> TableSet {
    now.and_then(|now| queue.tables_written_since(change, checksum, now.change, now.checksum))
        .map_or(TableSet::ALL, TableSet)
}
