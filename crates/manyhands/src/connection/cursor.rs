//! Cursors: the rows of a statement that reads, one by one, while its connection executes others.
//!
//! SQLite leaves open what a running SELECT shows of rows that are written meanwhile
//! (<https://sqlite.org/isolation.html>). A log must be exact, so in a speculative transaction a cursor shows
//! the rows as they were before the write: what it has not shown yet is fetched first. What was shown by
//! the commit is what the transaction has seen, and no more.

use core::iter::FusedIterator;
use std::sync::Arc;

use manyhands_sqlite::{Pinned, Value, pin};

use crate::Error;
use crate::connection::Connection;
use crate::limits;
use crate::params::{Given, Params};
use crate::row::{Outcome, Row, RowView, Tally};
use crate::row_buffer::RowBuffer;
use crate::session::cursor_state::CursorState;
use crate::statement::prepared::Prepared;

/// The rows of a statement, one by one; made by [`Connection::cursor`]. Dropping it ends the statement.
#[derive(Debug)]
pub struct Cursor(Arc<CursorState>);

/// A statement that was started; made by `driver::ConnectionExt::start`.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Execution {
    /// The columns' names; none for a statement that returns no rows.
    pub columns: Arc<[String]>,
    /// The rows, one by one, of a statement that has columns.
    pub rows: Option<Cursor>,
    /// What the statement counted. Its `rows` are empty.
    pub outcome: Outcome,
}

impl Execution {
    /// Of a statement that has run to its end, with these columns.
    pub(crate) fn of_all(columns: Arc<[String]>, mut outcome: Outcome) -> Execution {
        let rows = core::mem::take(&mut outcome.rows);
        let rows = (!columns.is_empty()).then(|| Cursor::of_rows(Arc::clone(&columns), rows));
        Execution { columns, rows, outcome }
    }
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
    pub fn cursor(&mut self, sql: &str, params: impl Params) -> Result<Cursor, Error> {
        let given = params.given();
        let (prepared, values) = self.begin_statement(sql, &given)?;
        if !prepared.only_shows() {
            self.put_back(prepared);
            return Err(Error::refused(
                "a cursor takes a statement that reads; use execute or query",
            ));
        }
        self.open_cursor(prepared, &values)
    }

    /// Executes one statement, and gives its rows one by one, each as what `map` makes of it. Rows of a statement that
    /// reads come as from [`Connection::cursor`], while this connection executes others; one that writes, with a RETURNING
    /// clause, has run to its end.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// let mut connection = database.connect()?;
    /// connection.execute_script("CREATE TABLE item (name TEXT); INSERT INTO item VALUES ('lamp'), ('desk')")?;
    /// let names = connection.query_map("SELECT name FROM item ORDER BY name", (), |row| row.get("name"))?;
    /// let names: Vec<String> = names.collect::<Result<_, _>>()?;
    /// assert_eq!(names, ["desk", "lamp"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`Connection::execute`]. An error of a later row, or of `map`, comes in that row's place.
    pub fn query_map<T, F: FnMut(&RowView<'_>) -> Result<T, Error>>(
        &mut self,
        sql: &str,
        params: impl Params,
        map: F,
    ) -> Result<MappedRows<F>, Error> {
        let rows = self.start_given(sql, &params.given())?.rows;
        Ok(MappedRows { rows, buffer: RowBuffer::default(), map })
    }

    /// See [`ConnectionExt::start`](crate::driver::ConnectionExt::start).
    pub(crate) fn start(&mut self, sql: &str, values: &[Value]) -> Result<Execution, Error> {
        self.start_given(sql, &values.into())
    }

    fn start_given(&mut self, sql: &str, given: &Given<'_>) -> Result<Execution, Error> {
        let Some((mut prepared, values)) = self.begin_statement_if_any(sql, given)? else {
            return Ok(Execution::default());
        };
        let columns = Arc::clone(&prepared.columns);
        if !columns.is_empty() && prepared.only_shows() {
            let rows = Some(self.open_cursor(prepared, &values)?);
            let tally = Tally::new(0, self.sqlite().last_insert_rowid());
            let outcome = self.after_deferred(Outcome { rows: Vec::new(), tally });
            return Ok(Execution { columns, rows, outcome });
        }
        let result = self.carry_out(&mut prepared, &values);
        let columns = Arc::clone(&prepared.columns);
        self.put_back_after(prepared, result.is_err());
        Ok(Execution::of_all(columns, result?))
    }

    fn open_cursor(&mut self, prepared: Box<Prepared>, values: &[Value]) -> Result<Cursor, Error> {
        let logged = self.begin_to_read(&prepared)?;
        self.open_begun(prepared, values, logged)
    }

    /// The same after [`Connection::begin_to_read`], which has told whether a log is to say what it shows.
    pub(crate) fn open_begun(
        &mut self,
        mut prepared: Box<Prepared>,
        values: &[Value],
        logged: bool,
    ) -> Result<Cursor, Error> {
        if let Err(error) = prepared.statement.bind_all(values.iter().map(Value::as_ref)) {
            self.put_back(prepared);
            return Err(Error::from(error));
        }
        let pinned = if prepared.facts.varies { self.pin_next() } else { None };
        let paused = pinned.map(|pinned: Pinned| pin(pinned).pause());
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
    /// A cursor with too many rows still keeps it there.
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

impl Iterator for Cursor {
    type Item = Result<Row, Error>;

    fn next(&mut self) -> Option<Result<Row, Error>> {
        self.next_row().transpose()
    }
}

impl FusedIterator for Cursor {}

/// The rows of a statement as what a closure makes of them; made by [`Connection::query_map`].
pub struct MappedRows<F> {
    /// `None` for a statement without rows.
    rows: Option<Cursor>,
    /// One row, in memory that is used again.
    buffer: RowBuffer,
    map: F,
}

impl<T, F: FnMut(&RowView<'_>) -> Result<T, Error>> Iterator for MappedRows<F> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Result<T, Error>> {
        let rows = self.rows.as_mut()?;
        self.buffer.clear();
        match rows.fetch(&mut self.buffer, 1) {
            Ok(0) => None,
            Ok(_) => Some((self.map)(&RowView::of_buffered(&self.buffer, 0, &rows.columns()))),
            Err(error) => Some(Err(error)),
        }
    }
}

impl<T, F: FnMut(&RowView<'_>) -> Result<T, Error>> FusedIterator for MappedRows<F> {}

impl<F> core::fmt::Debug for MappedRows<F> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MappedRows").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.0.let_go();
    }
}
