//! The statement log of a transaction on a fork: what was executed, and what its caller has seen.

use std::borrow::Cow;
use std::sync::Arc;

use manyhands_sqlite::{Code, Value};

use crate::cursor::CursorState;
use crate::ids::GivenIds;
use crate::observe::{self, Counted, Seen, Shown};
use crate::row::{Tally, bytes_of};
use crate::tables::{TableSet, Touches};

/// One statement of a transaction.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) sql: Arc<str>,
    pub(crate) values: Vec<Value>,
    /// Which columns it had, see `prepared::columns_digest`.
    pub(crate) columns: u32,
    /// It changes nothing, and need not be executed again if these tables are as they were.
    pub(crate) reads_only: Option<TableSet>,
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
    /// What the statement counted, and what of it was asked for until now.
    pub(crate) fn counted(&self) -> Counted {
        self.tally.as_ref().map_or_else(Counted::default, |tally| tally.counted())
    }

    /// What the caller has seen until now.
    pub(crate) fn seen(&self) -> Cow<'_, Seen> {
        match &self.shown {
            ShownRows::All(seen, _) => Cow::Borrowed(seen),
            ShownRows::Cursor(cursor) => Cow::Owned(cursor.seen().0),
        }
    }

    /// The same, with what it counted and the beginning of the rows, for messages.
    pub(crate) fn shown(&self) -> Shown {
        let (seen, sample) = match &self.shown {
            ShownRows::All(seen, sample) => (seen.clone(), sample.clone()),
            ShownRows::Cursor(cursor) => cursor.seen(),
        };
        Shown { seen, counted: self.counted(), sample }
    }

    /// A COMMIT, or the RELEASE that commits, after which the transaction went on.
    pub(crate) fn is_failed_commit(&self) -> bool {
        self.seen().error == Some(Code::CONSTRAINT_FOREIGNKEY.0)
    }

    /// The statement with its values, for messages.
    pub(crate) fn text(&self) -> String {
        const BYTES_MAX: usize = 300;
        let sql = &self.sql[..self.sql.floor_char_boundary(BYTES_MAX)];
        let cut = if sql.len() < self.sql.len() { "…" } else { "" };
        let values = observe::show_values(&self.values);
        if values.is_empty() {
            format!("`{sql}{cut}`")
        } else {
            format!("`{sql}{cut}` with {values}")
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Entry>() + self.sql.len() + bytes_of(&self.values)
    }
}

/// The rows of a statement that its caller has seen.
#[derive(Debug)]
pub(crate) enum ShownRows {
    /// At once, with the beginning of them.
    All(Seen, Vec<u8>),
    /// One by one: there may be more to come.
    Cursor(Arc<CursorState>),
}

/// The log of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: Vec<Entry>,
    bytes: usize,
}

impl Log {
    pub(crate) fn push(&mut self, entry: Entry) {
        self.bytes += entry.bytes();
        self.entries.push(entry);
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
