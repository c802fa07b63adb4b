//! Cursors: the rows of a statement that reads, one by one, while its connection executes others.
//!
//! SQLite leaves open what a running SELECT shows of rows that are written meanwhile
//! (<https://sqlite.org/isolation.html>). A log must be exact, so in a speculative transaction a cursor shows
//! the rows as they were before the write: what it has not shown yet is fetched first. What was shown by
//! the commit is what the transaction has seen, and no more.

use crate::session::cursor_state::CursorState;
use std::sync::Arc;

use manyhands_sqlite::{Pinned, Value, pin};

use crate::Error;
use crate::connection::Connection;
use crate::limits;
use crate::row::{Outcome, Row, Tally};
use crate::row_buffer::RowBuffer;
use crate::statement::prepared::Prepared;
use crate::statement::routing::{self, InSpeculation};

/// The rows of a statement, one by one; made by [`Connection::cursor`]. Dropping it ends the statement.
#[derive(Debug)]
pub struct Cursor(Arc<CursorState>);

/// A statement that was started; made by `driver::ConnectionExt::start`.
#[derive(Debug, Default)]
pub struct Execution {
    /// The columns' names; none for a statement that returns no rows.
    pub columns: Arc<[String]>,
    /// The rows, one by one, of a statement that has columns.
    pub rows: Option<Cursor>,
    /// What the statement counted. Its `rows` are empty.
    pub outcome: Outcome,
}

impl From<Outcome> for Execution {
    /// The rows one by one. Without any, nothing tells the columns.
    fn from(mut outcome: Outcome) -> Execution {
        let rows = core::mem::take(&mut outcome.rows);
        let columns: Arc<[String]> =
            rows.first().map(|row| row.columns().into()).unwrap_or_default();
        let rows = (!rows.is_empty()).then(|| Cursor::of_rows(Arc::clone(&columns), rows));
        Execution { columns, rows, outcome }
    }
}

impl Connection {
    /// Executes a statement that reads, and shows its rows one by one, while this connection executes
    /// others.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// use manyhands::params;
    /// let mut connection = database.connect()?;
    /// connection.execute("CREATE TABLE job (id INTEGER PRIMARY KEY, done INTEGER)", params![])?;
    /// connection.execute("INSERT INTO job VALUES (1, 0), (2, 0)", params![])?;
    /// let mut transaction = connection.transaction()?;
    /// let mut jobs = transaction.cursor("SELECT id FROM job WHERE NOT done", params![])?;
    /// while let Some(job) = jobs.next_row()? {
    ///     let id: i64 = job.get(0)?;
    ///     transaction.execute("UPDATE job SET done = 1 WHERE id = ?1", params![id])?;
    /// }
    /// transaction.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`Connection::execute`]; and when the statement writes.
    pub fn cursor(&mut self, sql: &str, values: &[Value]) -> Result<Cursor, Error> {
        self.begin_operation()?;
        let prepared =
            self.take_prepared(sql).inspect_err(|error| self.log_uncompiled(sql, values, error))?;
        if !prepared.only_shows() {
            self.put_back(prepared);
            return Err(Error::refused(
                "a cursor takes a statement that reads; use execute or query",
            ));
        }
        self.open_cursor(prepared, values)
    }

    /// See [`ConnectionExt::start`](crate::driver::ConnectionExt::start).
    pub(crate) fn start(&mut self, sql: &str, values: &[Value]) -> Result<Execution, Error> {
        self.begin_operation()?;
        self.outlive_interrupt(sql);
        let prepared =
            self.find_prepared(sql).inspect_err(|error| self.log_uncompiled(sql, values, error));
        let Some(mut prepared) = prepared? else { return Ok(Execution::default()) };
        let columns = Arc::clone(&prepared.columns);
        if !columns.is_empty() && prepared.only_shows() {
            let rows = Some(self.open_cursor(prepared, values)?);
            let tally = Tally::new(0, self.sqlite().last_insert_rowid());
            return Ok(Execution { columns, rows, outcome: Outcome { rows: Vec::new(), tally } });
        }
        let result = self.carry_out(&mut prepared, values);
        let columns = Arc::clone(&prepared.columns);
        self.put_back_after(prepared, result.is_err());
        let mut outcome = result?;
        let rows = core::mem::take(&mut outcome.rows);
        let rows = (!columns.is_empty()).then(|| Cursor::of_rows(Arc::clone(&columns), rows));
        Ok(Execution { columns, rows, outcome })
    }

    fn open_cursor(
        &mut self,
        mut prepared: Box<Prepared>,
        values: &[Value],
    ) -> Result<Cursor, Error> {
        self.prepare_transaction(&prepared)?;
        self.execute_deferred()?;
        // A speculative transaction that reads may overflow too: so before.
        self.keep_within_limits(self.sqlite().speculation_status().speculating)?;
        let in_speculation =
            routing::in_speculation(&prepared.facts, &prepared.route, prepared.compiled);
        let logged = self.optimistic.is_some() && in_speculation != InSpeculation::Plain;
        if logged && in_speculation == InSpeculation::LoggedForLocalReplay {
            self.require_local_replay(&prepared);
        }
        self.pristine &= prepared.facts.leaves_no_trace();
        if let Err(error) = prepared.statement.bind_all(values.iter().map(Value::as_ref)) {
            self.put_back(prepared);
            return Err(Error::from(error));
        }
        let paused = self.pin_next().map(|pinned: Pinned| pin(pinned).pause());
        let listener = self.session().compiler.listener.clone();
        let cursor =
            CursorState::of_statement(&prepared, listener, &self.cursors.returned, paused, logged);
        let cursor = Arc::new(cursor);
        if logged {
            self.log_cursor(&prepared, values, &cursor);
        }
        cursor.start(prepared);
        self.cursors.add(&cursor);
        Ok(Cursor(cursor))
    }

    /// Fetches what cursors from outside a transaction have not shown yet, so that none of them keeps the
    /// connection on an old snapshot: from there SQLite could not write, and would not show what was written.
    /// One with too many rows keeps it all the same.
    pub(crate) fn let_go_of_snapshots(&mut self) {
        if !self.cursors.is_empty() {
            let _ = self.drain_cursors();
        }
    }

    /// Fetches what open cursors have not shown yet: their tables are about to be written, or the
    /// transaction that they belong to is about to end.
    pub(crate) fn drain_cursors(&mut self) -> Result<(), Error> {
        let limit = self.settings.speculation_bytes_max.saturating_mul(limits::CURSOR_FACTOR);
        self.interrupt.spare(true);
        let drained = self.cursors.drain(limit);
        self.interrupt.spare(false);
        drained
    }
}

impl Cursor {
    /// The next row; `None` after the last.
    ///
    /// # Errors
    /// As SQLite fails to step the statement. There are no rows after an error.
    pub fn next_row(&mut self) -> Result<Option<Row>, Error> {
        self.0.next_row()
    }

    /// Adds up to `rows_max` rows to `buffer`, and returns how many: 0 after the last row.
    ///
    /// # Errors
    /// See [`Cursor::next_row`]. Rows before the one that fails are added first; then the next call fails.
    pub fn fetch(&mut self, buffer: &mut RowBuffer, rows_max: usize) -> Result<usize, Error> {
        self.0.fetch_into(buffer, rows_max)
    }

    /// Rows that are there already.
    fn of_rows(columns: Arc<[String]>, rows: Vec<Row>) -> Cursor {
        Cursor(Arc::new(CursorState::of_rows(columns, rows)))
    }

    /// The columns' names.
    pub fn columns(&self) -> Arc<[String]> {
        self.0.columns()
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.0.let_go();
    }
}
