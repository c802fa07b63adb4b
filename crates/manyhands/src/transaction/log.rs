//! The statement log of a speculative transaction: what was executed, and what its caller has seen.

use core::ops::Range;
use std::borrow::Cow;
use std::sync::Arc;

use manyhands_sqlite::{Code, Pinned, Value, ValueRef};

use crate::row::{Counted, Tally};
use crate::row_buffer::Values;
use crate::session::cursor_state::CursorState;
use crate::statement::observe::{self, Seen, Shown};
use crate::statement::rowid::GivenIds;
use crate::statement::tables::{TableSet, Touches};

/// A log with more bytes than this is not kept for the next transaction.
const BYTES_KEPT_MAX: usize = 64 << 10;

/// One statement of a transaction.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) sql: Arc<str>,
    /// Which of the log's values are its own.
    pub(crate) values: Range<usize>,
    /// Which of the log's bytes of rows are its own.
    pub(crate) sample: Range<usize>,
    /// Which columns it had, see `prepared::columns_digest`.
    pub(crate) columns: u32,
    /// It changes nothing, and reads these tables; see [`Entry::spared_if_unchanged`].
    pub(crate) reads_only: Option<TableSet>,
    /// It changes neither data nor transaction.
    pub(crate) changes_nothing: bool,
    /// Its pinned clock and seed, if they are not its transaction's.
    pub(crate) pinned: Option<Pinned>,
    /// It is about savepoints.
    pub(crate) is_savepoint: bool,
    /// It calls functions of the application.
    pub(crate) calls_application: bool,
    /// It adds one row, and changes no other.
    pub(crate) adds_one_row: bool,
    /// It counts the rows that it changes.
    pub(crate) counts: bool,
    pub(crate) touches: Touches,
    /// The names of the tables, for messages.
    pub(crate) tables: Arc<[String]>,
    pub(crate) shown: ShownRows,
    pub(crate) tally: Option<Arc<Tally>>,
    pub(crate) given: GivenIds,
}

impl Entry {
    /// A statement of which nothing is known but what its caller has seen: it may touch any table.
    pub(crate) fn new(sql: Arc<str>, shown: ShownRows) -> Entry {
        Entry {
            sql,
            values: 0..0,
            sample: 0..0,
            columns: 0,
            reads_only: None,
            changes_nothing: false,
            is_savepoint: false,
            pinned: None,
            calls_application: false,
            adds_one_row: false,
            counts: false,
            touches: Touches::ALL,
            tables: Arc::default(),
            shown,
            tally: None,
            given: GivenIds::default(),
        }
    }

    /// What the statement counted, and what of it was asked for until now.
    pub(crate) fn counted(&self) -> Counted {
        self.tally.as_ref().map_or_else(Counted::default, |tally| tally.counted())
    }

    /// The tables that it reads, if it need not be executed again as long as these are as they were.
    pub(crate) fn spared_if_unchanged(&self) -> Option<TableSet> {
        match &self.shown {
            ShownRows::All(_) => self.reads_only,
            // SQLite may have compiled it again when it ran, for another schema.
            ShownRows::Cursor(cursor) => self.reads_only.filter(|_| cursor.ran_as_compiled()),
        }
    }

    /// What the caller has seen until now.
    pub(crate) fn seen(&self) -> Cow<'_, Seen> {
        match &self.shown {
            ShownRows::All(seen) => Cow::Borrowed(seen),
            ShownRows::Cursor(cursor) => Cow::Owned(cursor.seen().0),
        }
    }

    /// True of savepoints, and of what shows nothing of the database.
    pub(crate) fn says_nothing(&self) -> bool {
        self.is_savepoint || self.changes_nothing && self.reads_only == Some(TableSet::NONE)
    }

    /// A COMMIT, or the RELEASE that commits, after which the transaction went on.
    pub(crate) fn is_failed_commit(&self) -> bool {
        self.seen().error == Some(Code::CONSTRAINT_FOREIGNKEY.0)
    }
}

/// The rows of a statement that its caller has seen.
#[derive(Debug)]
pub(crate) enum ShownRows {
    /// At once.
    All(Seen),
    /// One by one: there may be more to come.
    Cursor(Arc<CursorState>),
}

/// The log of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: Vec<Entry>,
    values: Values,
    /// The beginnings of the statements' rows, for messages.
    samples: Vec<u8>,
    /// Of the statements' SQL.
    sql_bytes: usize,
}

impl Log {
    /// Adds a statement; `sample` is the beginning of its rows.
    pub(crate) fn push(&mut self, mut entry: Entry, values: &[Value], sample: &[u8]) {
        let first = self.samples.len();
        self.samples.extend_from_slice(sample);
        entry.sample = first..self.samples.len();
        let first = self.values.len();
        values.iter().for_each(|value| self.values.push(value.as_ref()));
        entry.values = first..self.values.len();
        self.sql_bytes += entry.sql.len();
        self.entries.push(entry);
    }

    /// The values that a statement was given.
    pub(crate) fn values(&self, entry: &Entry) -> impl ExactSizeIterator<Item = ValueRef<'_>> {
        entry.values.clone().map(|index| self.values.get(index))
    }

    /// What a statement's caller has seen until now, with the beginning of the rows.
    pub(crate) fn shown(&self, entry: &Entry) -> Shown {
        let (seen, sample) = match &entry.shown {
            ShownRows::All(seen) => (seen.clone(), self.samples[entry.sample.clone()].to_vec()),
            ShownRows::Cursor(cursor) => cursor.seen(),
        };
        Shown { seen, counted: entry.counted(), sample }
    }

    /// A statement with its values, for messages.
    pub(crate) fn text(&self, entry: &Entry) -> String {
        const BYTES_MAX: usize = 300;
        let sql = &entry.sql[..entry.sql.floor_char_boundary(BYTES_MAX)];
        let cut = if sql.len() < entry.sql.len() { "…" } else { "" };
        let values = observe::show_values(self.values(entry));
        if values.is_empty() {
            format!("`{sql}{cut}`")
        } else {
            format!("`{sql}{cut}` with {values}")
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry that was added last.
    pub(crate) fn last_mut(&mut self) -> Option<&mut Entry> {
        self.entries.last_mut()
    }

    /// The tables that its statements write.
    pub(crate) fn written(&self) -> TableSet {
        self.entries.iter().fold(TableSet::NONE, |set, entry| set.and(entry.touches.writes))
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        let beside = self.sql_bytes + self.values.bytes() + self.samples.len();
        self.entries.len() * size_of::<Entry>() + beside
    }

    /// Forgets everything; keeps the memory for the next transaction, unless it is uncommonly large.
    pub(crate) fn clear(&mut self) {
        if self.bytes() - self.sql_bytes > BYTES_KEPT_MAX {
            *self = Log::default();
        }
        self.entries.clear();
        self.values.clear();
        self.samples.clear();
        self.sql_bytes = 0;
    }
}
