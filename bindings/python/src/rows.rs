//! The rows of a statement, between the engine's buffer and Python's tuples.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use manyhands::RowBuffer;
use manyhands::driver::Execution;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::connection::{Connection, lock};
use crate::error;
use crate::exit::detached;
use crate::value::{self, TextFactory};

/// The rows of the last statement.
pub(crate) struct Shown {
    /// `None` when all are in the buffer.
    pub(crate) rows: Option<OpenRows>,
    /// Always holds the next row: a statement is stepped before its row is asked for, so that its end, and
    /// the end of its snapshot, come with its last row.
    pub(crate) buffer: RowBuffer,
    /// Is raised in the place of the row behind the buffer.
    pub(crate) failed: Option<manyhands::Error>,
    /// Index in the buffer.
    pub(crate) next: usize,
    pub(crate) names: Arc<[String]>,
    /// For each column, if any has one.
    pub(crate) converters: Option<Vec<Option<Py<PyAny>>>>,
    /// The values of a row that is being made.
    pub(crate) values: Vec<Py<PyAny>>,
}

/// A statement that was executed, and stepped to its second row: one that has a single row is at its end
/// then, and showing that needs no further call.
pub(crate) struct Rows {
    pub(crate) execution: Execution,
    pub(crate) buffer: RowBuffer,
    pub(crate) failed: Option<manyhands::Error>,
}

impl Rows {
    pub(crate) fn take(mut execution: Execution) -> Result<Rows, manyhands::Error> {
        let mut buffer = RowBuffer::default();
        let mut failed = None;
        if let Some(mut rows) = execution.rows.take() {
            let count = rows.fetch(&mut buffer, 2)?;
            // SQLite may have compiled the statement anew.
            execution.columns = rows.columns();
            let more = count == 2
                || count == 1
                    && rows.fetch(&mut buffer, 1).unwrap_or_else(|error| {
                        failed = Some(error);
                        0
                    }) > 0;
            execution.rows = more.then_some(rows);
        }
        Ok(Rows { execution, buffer, failed })
    }
}

/// The rows of a statement that is not at its end.
pub(crate) struct OpenRows {
    /// `None` only while it is dropped.
    pub(crate) cursor: Option<manyhands::Cursor>,
    /// That of the process that began it.
    pub(crate) generation: u64,
    /// Tells the connection.
    pub(crate) _open: Arc<()>,
}

impl Drop for OpenRows {
    fn drop(&mut self) {
        let cursor = self.cursor.take();
        if self.generation != manyhands::driver::fork_generation() {
            core::mem::forget(cursor);
        } else {
            // SQLite's mutex is waited for.
            Python::attach(|py| detached(py, || drop(cursor)));
        }
    }
}

impl Shown {
    /// The next row.
    pub(crate) fn row<'py>(
        &mut self,
        py: Python<'py>,
        connection: &Connection,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let text_factory = if connection.text_is_str.load(Ordering::Relaxed) {
            TextFactory::Str
        } else {
            TextFactory::new(py, lock(&connection.attributes).text_factory.as_ref())
        };
        // Left over by an error.
        self.values.clear();
        for column in 0..self.names.len() {
            let value = self.buffer.value(self.next, column);
            let converter = self.converters.as_ref().and_then(|all| all[column].as_ref());
            let value = match converter {
                None => value::to_python(py, value, &text_factory, || self.names[column].clone())?,
                Some(converter) => match value::to_bytes(py, value) {
                    None => py.None().into_bound(py),
                    Some(bytes) => converter.bind(py).call1((bytes,))?,
                },
            };
            self.values.push(value.unbind());
        }
        PyTuple::new(py, self.values.drain(..))
    }

    /// Goes on to the following row, and fetches up to `rows_max` if none is in the buffer. False after
    /// the last.
    pub(crate) fn advance(
        &mut self,
        py: Python<'_>,
        connection: &Connection,
        rows_max: usize,
    ) -> PyResult<bool> {
        self.next += 1;
        if self.next < self.buffer.rows() {
            return Ok(true);
        }
        if let Some(error) = self.failed.take() {
            return Err(error::to_python(py, &error));
        }
        self.next = 0;
        self.buffer.clear();
        let Some(cursor) = self.rows.as_mut().and_then(|rows| rows.cursor.as_mut()) else {
            return Ok(false);
        };
        let buffer = &mut self.buffer;
        let count = connection.call(py, |_| cursor.fetch(buffer, rows_max))?;
        if count == 0 {
            self.rows = None;
        }
        Ok(count > 0)
    }
}
