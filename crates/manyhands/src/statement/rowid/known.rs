//! What is known of a table's rowids before a statement and after it, and which ones the statement was given.

use manyhands_sqlite::{self as sqlite, WalIndexHeader};

/// The highest id of a table, which the last statement of a connection has inserted: it need not be asked for,
/// as long as nothing was changed since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Highest {
    pub(super) snapshot: u64,
    /// The state of the database with the row, if that was a transaction of its own.
    pub(super) committed: Option<WalIndexHeader>,
    pub(super) total_changes: i64,
    pub(super) id: i64,
}

/// What a connection counted before a statement that inserts one row, perhaps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) total_changes: i64,
    pub(super) last_insert_rowid: i64,
}

impl Before {
    pub(super) fn of(connection: &sqlite::Connection) -> Before {
        Before {
            total_changes: connection.total_changes(),
            last_insert_rowid: connection.last_insert_rowid(),
        }
    }

    /// True when the statement has changed nothing but to insert a row with this id. An upsert, or a trigger in the
    /// row's place, changes another row, and not the last rowid.
    pub(super) fn has_inserted(self, id: i64, connection: &sqlite::Connection) -> bool {
        let now = Before::of(connection);
        self.last_insert_rowid != id
            && now.last_insert_rowid == id
            && now.total_changes == self.total_changes + 1
    }
}

/// The id that SQLite will choose for a row, reserved.
#[derive(Debug)]
pub(crate) struct NextId {
    pub(super) id: i64,
    pub(super) before: Before,
}

/// The ids that a statement was given speculatively.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded<'a> {
    pub(crate) ids: &'a [i64],
    /// Nobody else can have used them since: all commits were Manyhands' own.
    pub(crate) exclusive: bool,
}

impl Recorded<'_> {
    /// For a statement that was never executed before.
    pub(crate) const NONE: Recorded<'static> = Recorded { ids: &[], exclusive: true };
}

/// The rowids that a statement was given.
#[derive(Debug, Default)]
pub(crate) struct GivenIds {
    /// The key of their table.
    pub(crate) table: u64,
    pub(crate) ids: Vec<i64>,
}
