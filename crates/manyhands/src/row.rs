//! Rows and results.

use core::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use manyhands_queue::planted;
use manyhands_sqlite::{Statement, Value, ValueRef};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::from_value::{self, FromValue, RowIndex};
use crate::row_buffer::RowBuffer;

/// One row of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    columns: Arc<[String]>,
    values: Vec<Value>,
}

impl Row {
    pub(crate) fn new(columns: Arc<[String]>, values: Vec<Value>) -> Row {
        Row { columns, values }
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Row>() + bytes_of(&self.values)
    }

    /// The values, in column order.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The columns' names.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// A column's value as a Rust type: `row.get::<i64>(0)`, `row.get::<&str>("name")`.
    ///
    /// # Errors
    /// When there is no such column, or its value is of another type, or does not fit.
    pub fn get<'a, T: FromValue<'a>>(&'a self, index: impl RowIndex) -> Result<T, Error> {
        self.view().get(index)
    }

    /// The row without a copy.
    pub fn view(&self) -> RowView<'_> {
        RowView { columns: &self.columns, values: Values::Own(&self.values) }
    }
}

/// About how much memory values take.
pub(crate) fn bytes_of(values: &[Value]) -> usize {
    let beside = |value: &Value| match value {
        Value::Text(text) => text.as_bytes().len(),
        Value::Blob(bytes) => bytes.len(),
        Value::Null | Value::Integer(_) | Value::Real(_) => 0,
    };
    values.iter().map(|value| size_of::<Value>() + beside(value)).sum()
}

/// What a statement did.
///
/// Inside an optimistic transaction, what is asked of it counts as seen: the transaction then conflicts
/// if the answer would be another one at its commit. What nobody asks for cannot conflict.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The rows that the statement returned: of a SELECT or a RETURNING clause.
    pub rows: Vec<Row>,
    pub(crate) tally: Arc<Tally>,
}

impl Outcome {
    /// Rows inserted, updated or deleted by the statement itself.
    pub fn changes(&self) -> u64 {
        self.tally.ask(Tally::CHANGES);
        self.tally.known().changes.load(Ordering::Relaxed).unsigned_abs()
    }

    /// The rowid of the connection's last insert, as SQLite's `last_insert_rowid()`.
    pub fn last_insert_rowid(&self) -> i64 {
        let last = self.tally.before.as_deref().unwrap_or(&self.tally);
        last.ask(Tally::LAST_INSERT_ROWID);
        last.known().last_insert_rowid.load(Ordering::Relaxed)
    }
}

/// What a statement counted, and which of it the application has asked for.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    changes: AtomicI64,
    last_insert_rowid: AtomicI64,
    asked: AtomicU8,
    /// That of a statement which had not been executed when this was made, and has been since.
    executed: OnceLock<Arc<Tally>>,
    /// Of a statement that inserts nothing: that of a deferred one before it, whose rowid will also be its own.
    before: Option<Arc<Tally>>,
}

impl Tally {
    pub(crate) const CHANGES: u8 = 1;
    pub(crate) const LAST_INSERT_ROWID: u8 = 2;

    pub(crate) fn new(changes: i64, last_insert_rowid: i64) -> Arc<Tally> {
        let tally = Tally::default();
        tally.set(changes, last_insert_rowid);
        Arc::new(tally)
    }

    /// That of a statement that changes nothing, after a deferred one.
    pub(crate) fn after(deferred: &Arc<Tally>) -> Arc<Tally> {
        Arc::new(Tally { before: Some(Arc::clone(deferred)), ..Tally::default() })
    }

    /// The statement has been executed, and `executed` is what it counts.
    pub(crate) fn become_known(&self, executed: &Arc<Tally>) {
        let _ = self.executed.set(Arc::clone(executed));
    }

    /// False for that of a statement that is still to be executed, or never was.
    pub(crate) fn is_known(&self) -> bool {
        self.executed.get().is_some()
    }

    fn known(&self) -> &Tally {
        self.executed.get().map_or(self, |executed| executed)
    }

    /// True when both are of one statement.
    pub(crate) fn is_same(&self, other: &Tally) -> bool {
        core::ptr::eq(self.known(), other.known())
    }

    /// Replaces what nobody has asked for yet, by what the statement counted where it took effect.
    pub(crate) fn set(&self, changes: i64, last_insert_rowid: i64) {
        self.changes.store(changes, Ordering::Relaxed);
        self.last_insert_rowid.store(last_insert_rowid, Ordering::Relaxed);
    }

    pub(crate) fn ask(&self, what: u8) {
        self.known().asked.fetch_or(what, Ordering::Relaxed);
    }

    /// What it says now, and what was asked for until now.
    pub(crate) fn counted(&self) -> Counted {
        Counted {
            changes: self.changes.load(Ordering::Relaxed),
            last_insert_rowid: self.last_insert_rowid.load(Ordering::Relaxed),
            asked: self.asked.load(Ordering::Relaxed),
        }
    }
}

/// What a statement counted, and which of it was asked for ([`Tally`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Counted {
    pub(crate) changes: i64,
    pub(crate) last_insert_rowid: i64,
    pub(crate) asked: u8,
}

impl Counted {
    /// True when both have counted the same.
    pub(crate) fn equals(&self, now: &Counted) -> bool {
        (self.changes, self.last_insert_rowid) == (now.changes, now.last_insert_rowid)
    }

    /// True when nobody who asked would get another answer.
    pub(crate) fn looks_like(&self, now: &Counted) -> bool {
        let same_changes = self.asked & Tally::CHANGES == 0 || self.changes == now.changes;
        let same_rowid = self.asked & Tally::LAST_INSERT_ROWID == 0
            || self.last_insert_rowid == now.last_insert_rowid;
        same_changes && same_rowid || planted("forget-counts")
    }
}

/// A row that is not copied: the current one of a statement that runs, or one that lies in memory.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    columns: &'a [String],
    values: Values<'a>,
}

/// Where a row's values are.
#[derive(Clone, Copy, Debug)]
enum Values<'a> {
    /// In SQLite's statement.
    Running(&'a Statement),
    Own(&'a [Value]),
    /// In this row of a buffer.
    Buffered(&'a RowBuffer, usize),
}

impl<'a> RowView<'a> {
    /// The current row of a statement that runs.
    pub(crate) fn of_running(statement: &'a Statement, columns: &'a [String]) -> RowView<'a> {
        RowView { columns, values: Values::Running(statement) }
    }

    /// A row of a buffer; the first is 0.
    pub(crate) fn of_buffered(
        buffer: &'a RowBuffer,
        row: usize,
        columns: &'a [String],
    ) -> RowView<'a> {
        RowView { columns, values: Values::Buffered(buffer, row) }
    }

    /// A column's value; the first column has index 0. NULL when there is no such column.
    pub fn value(&self, index: usize) -> ValueRef<'a> {
        match self.values {
            Values::Running(statement) => statement.column(index),
            Values::Own(values) => values.get(index).map_or(ValueRef::Null, Value::as_ref),
            Values::Buffered(buffer, row) => buffer.value(row, index),
        }
    }

    /// A column's value as a Rust type: `row.get::<i64>(0)`, `row.get::<&str>("name")`.
    ///
    /// # Errors
    /// When there is no such column, or its value is of another type, or does not fit.
    pub fn get<T: FromValue<'a>>(&self, index: impl RowIndex) -> Result<T, Error> {
        from_value::get(index, self.columns, |place| self.value(place))
    }

    /// The columns' names.
    pub fn columns(&self) -> &'a [String] {
        self.columns
    }
}
