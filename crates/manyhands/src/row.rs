//! Rows and results.

use core::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use manyhands_queue::planted;
use serde::Deserialize;
use serde::Serialize;
use std::sync::Arc;

use manyhands_sqlite::{Statement, Text, Value, ValueRef};

use crate::Error;
use crate::error::ErrorKind;

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

    /// A column's value as a Rust type; the first column has index 0.
    ///
    /// # Errors
    /// When there is no such column, or its value is of another type.
    pub fn get<T: FromValue>(&self, index: usize) -> Result<T, Error> {
        let value = self.values.get(index).ok_or_else(|| {
            let count = self.values.len();
            Error::new(ErrorKind::Type(format!("no column {index}: the row has {count}")))
        })?;
        T::from_value(value).ok_or_else(|| {
            Error::new(ErrorKind::Type(format!(
                "column {index} is of type {}, not {}",
                value.type_name(),
                std::any::type_name::<T>()
            )))
        })
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

/// A Rust type that a value can be read as.
pub trait FromValue: Sized {
    /// The value as this type; `None` when it is of another one.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! from_value {
    ($($type:ty: $pattern:pat => $result:expr;)*) => {
        $(impl FromValue for $type {
            fn from_value(value: &Value) -> Option<$type> {
                match value {
                    $pattern => $result,
                    _ => None,
                }
            }
        })*
    };
}

from_value! {
    i64: Value::Integer(number) => Some(*number);
    i32: Value::Integer(number) => i32::try_from(*number).ok();
    u32: Value::Integer(number) => u32::try_from(*number).ok();
    u64: Value::Integer(number) => u64::try_from(*number).ok();
    bool: Value::Integer(number) => Some(*number != 0);
    f64: Value::Real(number) => Some(*number);
    String: Value::Text(text) => text.to_str().ok().map(str::to_string);
    Text: Value::Text(text) => Some(text.clone());
    Vec<u8>: Value::Blob(bytes) => Some(bytes.clone());
}

impl FromValue for Value {
    fn from_value(value: &Value) -> Option<Value> {
        Some(value.clone())
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Option<Option<T>> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
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
        self.tally.changes.load(Ordering::Relaxed).unsigned_abs()
    }

    /// The rowid of the connection's last insert, as SQLite's `last_insert_rowid()`.
    pub fn last_insert_rowid(&self) -> i64 {
        self.tally.ask(Tally::LAST_INSERT_ROWID);
        self.tally.last_insert_rowid.load(Ordering::Relaxed)
    }
}

/// What a statement counted, and which of it the application has asked for.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    changes: AtomicI64,
    last_insert_rowid: AtomicI64,
    asked: AtomicU8,
}

impl Tally {
    pub(crate) const CHANGES: u8 = 1;
    pub(crate) const LAST_INSERT_ROWID: u8 = 2;

    pub(crate) fn new(changes: i64, last_insert_rowid: i64) -> Arc<Tally> {
        let tally = Tally::default();
        tally.set(changes, last_insert_rowid);
        Arc::new(tally)
    }

    /// Replaces what nobody has asked for yet, by what the statement counted where it took effect.
    pub(crate) fn set(&self, changes: i64, last_insert_rowid: i64) {
        self.changes.store(changes, Ordering::Relaxed);
        self.last_insert_rowid.store(last_insert_rowid, Ordering::Relaxed);
    }

    pub(crate) fn ask(&self, what: u8) {
        self.asked.fetch_or(what, Ordering::Relaxed);
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

/// The current row of a statement that runs, before it is copied.
#[derive(Debug)]
pub struct RowView<'a> {
    pub(crate) statement: &'a mut Statement,
}

impl RowView<'_> {
    /// A column's value; the first column has index 0. NULL when there is no such column.
    pub fn value(&mut self, index: usize) -> ValueRef<'_> {
        self.statement.column(index)
    }
}
