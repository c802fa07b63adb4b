//! What is known of a table's rowids before a statement and after it, and which ones the statement was given.

use std::collections::HashMap;
use std::sync::Mutex;

use manyhands_queue::Queue;
use manyhands_sqlite::{self as sqlite, WalIndexHeader};

use crate::mutex::lock;

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

/// The ids that a statement was given on its fork.
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

/// What a process knows of the time before the ids of a table were reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Since {
    /// The number of the schema in which the table was looked at.
    schema: Option<i64>,
    /// The last leader that may not have counted its rows.
    uncounted: Option<u64>,
}

/// The same, by table.
#[derive(Debug, Default)]
pub(crate) struct Counted(Mutex<HashMap<u64, Since>>);

impl Counted {
    /// Ids of the table have been reserved on a fork. This leader, or one before it, may have inserted rows that are not
    /// counted: it looked before they were, and the fork may not see its commit. `None` when ids were reserved once
    /// while nobody led, in the newest snapshot: from there on all are counted, until all ids are forgotten. Who is told an
    /// id that another has then used meets a conflict.
    pub(super) fn uncounted_leader(
        &self,
        table: u64,
        schema: Option<i64>,
        queue: &Queue,
        connection: &sqlite::Connection,
    ) -> Option<u64> {
        let mut tables = lock(&self.0);
        let known = tables.get(&table).copied().filter(|known| known.schema == schema);
        let uncounted = Some(queue.leaders());
        let mut since = known.unwrap_or(Since { schema, uncounted });
        // First the leader: when one has ended, its commit shows.
        if since.uncounted.is_some() && !queue.is_led() {
            let fork = connection.fork_status();
            since.uncounted =
                since.uncounted.filter(|_| !fork.forked || fork.snapshot != fork.live);
        }
        if known != Some(since) {
            tables.insert(table, since);
        }
        since.uncounted
    }
}

/// The rowids that a statement was given.
#[derive(Debug, Default)]
pub(crate) struct GivenIds {
    /// The key of their table.
    pub(crate) table: u64,
    pub(crate) ids: Vec<i64>,
    /// Its rows have them wherever it takes effect: it comes to as many rows in any case.
    pub(super) stay: bool,
    /// See [`Counted::uncounted_leader`].
    pub(super) uncounted: Option<u64>,
}

impl GivenIds {
    /// True when no other transaction of Manyhands can have chosen them in the place of its own, for one that began when
    /// there had been so many leaders.
    pub(crate) fn stay_for(&self, leaders: u64) -> bool {
        let counted = self.uncounted.is_none_or(|leader| leader < leaders);
        self.stay && !self.ids.is_empty() && counted
    }
}
