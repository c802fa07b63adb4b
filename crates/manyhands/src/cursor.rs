//! Cursors: the rows of a statement that reads, one by one, while its connection executes others.
//!
//! SQLite leaves open what a running SELECT shows of rows that are written meanwhile
//! (<https://sqlite.org/isolation.html>). A log must be exact, so in a transaction on a fork a cursor shows
//! the rows as they were before the write: what it has not shown yet is fetched first. What was shown by
//! the commit is what the transaction has seen, and no more.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use manyhands_sqlite::{Paused, Pinned, Step, Value, pin};

use crate::Error;
use crate::connection::Connection;
use crate::mutex::lock;
use crate::observe::{Observer, Seen};
use crate::prepared::{self, Prepared};
use crate::routing::Route;
use crate::row::Row;

/// The rows of a statement, one by one; made by [`Connection::cursor`]. Dropping it ends the statement.
#[derive(Debug)]
pub struct Cursor(Arc<CursorState>);

/// What a cursor shares with its connection, and with the log of the transaction that it belongs to.
#[derive(Debug)]
pub(crate) struct CursorState(Mutex<State>);

#[derive(Debug)]
struct State {
    /// `None` after the last row, and after an error.
    running: Option<Box<Prepared>>,
    /// The statement's clock and dice, while it is not stepped.
    paused: Option<Paused>,
    columns: Arc<[String]>,
    /// Fetched before they were asked for.
    waiting: VecDeque<Row>,
    /// Has come after the waiting rows, and is to be shown once.
    failed: Option<Error>,
    /// Of what was shown.
    observer: Observer,
    ended: bool,
}

impl Connection {
    /// Executes a statement that reads, and shows its rows one by one, while this connection executes
    /// others.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
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
    /// # Ok::<(), manyhands::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`Connection::execute`]; and when the statement writes.
    pub fn cursor(&mut self, sql: &str, values: &[Value]) -> Result<Cursor, Error> {
        let mut prepared = self.compile_for_cursor(sql)?;
        if prepared.route != Route::Own || !prepared.facts.only_reads() {
            return Err(Error::refused(
                "a cursor takes a statement that reads; use execute or query",
            ));
        }
        // A fork that reads may overflow too: so before.
        self.keep_within_limits(self.sqlite().fork_status().forked)?;
        prepared.statement.bind_all(values.iter().map(Value::as_ref))?;
        let cursor = Arc::new(CursorState(Mutex::new(State {
            columns: Arc::clone(&prepared.columns),
            paused: self.pin_next().map(|pinned: Pinned| pin(pinned).pause()),
            running: None,
            waiting: VecDeque::new(),
            failed: None,
            observer: Observer::default(),
            ended: false,
        })));
        self.log_cursor(&prepared, values, &cursor);
        cursor.lock().running = Some(prepared);
        self.cursors.retain(|cursor| cursor.strong_count() > 0);
        self.cursors.push(Arc::downgrade(&cursor));
        Ok(Cursor(cursor))
    }

    /// Fetches what open cursors have not shown yet: their tables are about to be written, or the
    /// transaction that they belong to is about to end.
    pub(crate) fn drain_cursors(&mut self) -> Result<(), Error> {
        let limit = self.settings.fork_bytes_max;
        self.cursors.retain(|cursor| cursor.strong_count() > 0);
        self.cursors.iter().filter_map(Weak::upgrade).try_for_each(|cursor| cursor.drain(limit))
    }
}

impl Cursor {
    /// The next row; `None` after the last.
    ///
    /// # Errors
    /// As SQLite fails to step the statement. There are no rows after an error.
    pub fn next_row(&mut self) -> Result<Option<Row>, Error> {
        self.0.lock().next_row()
    }

    /// The columns' names.
    pub fn columns(&self) -> Arc<[String]> {
        Arc::clone(&self.0.lock().columns)
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        // The log still knows what was shown.
        let mut state = self.0.lock();
        state.running = None;
        state.waiting.clear();
    }
}

impl CursorState {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// What it has shown until now, and the beginning of that.
    pub(crate) fn seen(&self) -> (Seen, Vec<u8>) {
        let state = self.lock();
        state.observer.so_far(state.ended)
    }

    fn drain(&self, bytes_max: usize) -> Result<(), Error> {
        let mut state = self.lock();
        let mut bytes = 0;
        while state.running.is_some() {
            match state.fetch() {
                Ok(Some(row)) => {
                    bytes += row.bytes();
                    state.waiting.push_back(row);
                }
                Ok(None) => {}
                Err(error) => state.failed = Some(error),
            }
            if bytes > bytes_max {
                return Err(Error::refused(format!(
                    "a cursor of this transaction has more than {bytes_max} bytes of rows that were not \
                     read yet: read it to its end, or drop it, before the transaction writes"
                )));
            }
        }
        Ok(())
    }
}

impl State {
    fn next_row(&mut self) -> Result<Option<Row>, Error> {
        let next = match self.waiting.pop_front() {
            Some(row) => Ok(Some(row)),
            None => self.failed.take().map_or_else(|| self.fetch(), Err),
        };
        match &next {
            Ok(Some(row)) => self.observer.row(row.values()),
            Ok(None) => self.ended = true,
            Err(error) => self.observer.note_error(error.code()),
        }
        next
    }

    /// Steps the statement, under its clock and dice.
    fn fetch(&mut self) -> Result<Option<Row>, Error> {
        let Some(running) = &mut self.running else { return Ok(None) };
        let pinned = self.paused.take().map(Paused::resume);
        let stepped = running.statement.step();
        self.paused = pinned.map(|guard| guard.pause());
        match stepped {
            Ok(Step::Row) => {
                if running.is_stale() {
                    self.columns = prepared::column_names(&running.statement);
                }
                Ok(Some(Row::new(Arc::clone(&self.columns), running.statement.row())))
            }
            Ok(Step::Done) => {
                self.running = None;
                Ok(None)
            }
            Err(error) => {
                self.running = None;
                Err(Error::from(error))
            }
        }
    }
}
