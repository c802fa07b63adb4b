//! Cursors: the rows of a statement that reads, one by one, while its connection executes others.
//!
//! SQLite leaves open what a running SELECT shows of rows that are written meanwhile
//! (<https://sqlite.org/isolation.html>). A log must be exact, so in a transaction on a fork a cursor shows
//! the rows as they were before the write: what it has not shown yet is fetched first. What was shown by
//! the commit is what the transaction has seen, and no more.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::{self, ThreadId};

use manyhands_sqlite::{self as sqlite, Paused, Pinned, Step, Value, pin};

use crate::Error;
use crate::connection::Connection;
use crate::error::ErrorKind;
use crate::limits;
use crate::mutex::lock;
use crate::observe::{Observer, Seen};
use crate::prepared::{self, Listener, Prepared};
use crate::routing::{self, InFork};
use crate::row::{Outcome, Row, Tally};
use crate::row_buffer::RowBuffer;

/// The rows of a statement, one by one; made by [`Connection::cursor`]. Dropping it ends the statement.
#[derive(Debug)]
pub struct Cursor(Arc<CursorState>);

/// What a cursor shares with its connection, and with the log of the transaction that it belongs to.
#[derive(Debug)]
pub(crate) struct CursorState {
    state: Mutex<State>,
    draining: Mutex<Draining>,
}

/// A function of the application's, called while its connection drains the cursor, may drop the cursor: a garbage
/// collector runs anywhere. Its thread has the state locked then, and would wait for itself.
#[derive(Debug, Default)]
struct Draining {
    by: Option<ThreadId>,
    dropped_meanwhile: bool,
}

#[derive(Debug)]
struct State {
    /// `None` after the last row, and after an error.
    running: Option<Box<Prepared>>,
    listener: Listener,
    /// Where the statement goes then.
    home: Arc<Returned>,
    /// The statement's clock and dice, while it is not stepped.
    paused: Option<Paused>,
    columns: Arc<[String]>,
    /// Fetched before they were asked for.
    waiting: VecDeque<Row>,
    /// Has come after the waiting rows, and is to be shown once.
    failed: Option<Error>,
    /// Of what was shown, in a transaction on a fork.
    observer: Option<Observer>,
    /// How many of the waiting rows count as shown already.
    seen_ahead: usize,
    /// Its caller reads no more. The transaction's log still has it.
    dropped: bool,
    ended: bool,
    /// SQLite has compiled it again since it was started.
    was_recompiled: bool,
}

/// Statements that cursors have done with; the connection keeps them for their next use.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "they come boxed, and leave boxed")]
pub(crate) struct Returned(Mutex<Vec<Box<Prepared>>>);

impl Returned {
    pub(crate) fn pop(&self) -> Option<Box<Prepared>> {
        lock(&self.0).pop()
    }
}

/// A statement that was started; made by [`Connection::start`].
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

    /// Executes one statement. Rows of a statement that reads come one by one, as from
    /// [`Connection::cursor`]; one that writes has run to its end. Text without a statement does nothing.
    ///
    /// # Errors
    /// See [`Connection::execute`].
    pub fn start(&mut self, sql: &str, values: &[Value]) -> Result<Execution, Error> {
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
        self.execute_kept_back()?;
        // A fork that reads may overflow too: so before.
        self.keep_within_limits(self.sqlite().fork_status().forked)?;
        let in_fork = routing::in_fork(&prepared.facts, &prepared.route, prepared.compiled);
        let logged = self.optimistic.is_some() && in_fork != InFork::Plain;
        if logged && in_fork == InFork::LoggedAtHome {
            self.stay_at_home(&prepared);
        }
        self.as_new &= prepared.facts.leaves_no_trace();
        if let Err(error) = prepared.statement.bind_all(values.iter().map(Value::as_ref)) {
            self.put_back(prepared);
            return Err(Error::from(error));
        }
        let cursor = Arc::new(CursorState::new(State {
            columns: Arc::clone(&prepared.columns),
            paused: self.pin_next().map(|pinned: Pinned| pin(pinned).pause()),
            running: None,
            listener: self.open().compiler.listener.clone(),
            home: Arc::clone(&self.returned),
            waiting: VecDeque::new(),
            failed: None,
            observer: logged.then(Observer::default),
            seen_ahead: 0,
            dropped: false,
            ended: false,
            was_recompiled: false,
        }));
        if logged {
            self.log_cursor(&prepared, values, &cursor);
        }
        cursor.lock().running = Some(prepared);
        self.cursors.retain(|cursor| cursor.strong_count() > 0);
        self.cursors.push(Arc::downgrade(&cursor));
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
        let limit = self.settings.fork_bytes_max.saturating_mul(limits::CURSOR_FACTOR);
        self.cursors.retain(|cursor| cursor.strong_count() > 0);
        self.interrupt.spare(true);
        let mut cursors = self.cursors.iter().filter_map(Weak::upgrade);
        let drained = cursors.try_for_each(|cursor| cursor.drain(limit));
        self.interrupt.spare(false);
        drained
    }

    /// Ends the statements of open cursors. What they have not fetched yet was interrupted.
    pub(crate) fn interrupt_cursors(&self) {
        self.cursors.iter().filter_map(Weak::upgrade).for_each(|cursor| cursor.lock().interrupt());
    }

    /// The transaction leaves the snapshot of its cursors, which are drained, and goes on: what they will show yet
    /// counts as seen now.
    pub(crate) fn see_what_waits(&self) {
        self.cursors.iter().filter_map(Weak::upgrade).for_each(|cursor| cursor.see_what_waits());
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

    /// Adds up to `rows_max` rows to `buffer`, and returns how many: 0 after the last row.
    ///
    /// # Errors
    /// See [`Cursor::next_row`]. Rows before the one that fails are added first; then the next call fails.
    pub fn fetch(&mut self, buffer: &mut RowBuffer, rows_max: usize) -> Result<usize, Error> {
        self.0.lock().fetch_into(buffer, rows_max)
    }

    /// Rows that are there already.
    fn of_rows(columns: Arc<[String]>, rows: Vec<Row>) -> Cursor {
        Cursor(Arc::new(CursorState::new(State {
            running: None,
            listener: Listener::default(),
            home: Arc::default(),
            paused: None,
            columns,
            waiting: rows.into(),
            failed: None,
            observer: None,
            seen_ahead: 0,
            dropped: false,
            ended: false,
            was_recompiled: false,
        })))
    }

    /// The columns' names.
    pub fn columns(&self) -> Arc<[String]> {
        Arc::clone(&self.0.lock().columns)
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        {
            let mut draining = lock(&self.0.draining);
            if draining.by == Some(thread::current().id()) {
                draining.dropped_meanwhile = true;
                return;
            }
        }
        self.0.lock().let_go();
    }
}

impl CursorState {
    fn new(state: State) -> CursorState {
        CursorState { state: Mutex::new(state), draining: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// What it has shown until now, and the beginning of that.
    pub(crate) fn seen(&self) -> (Seen, Vec<u8>) {
        let state = self.lock();
        state.observer.as_ref().map_or_else(Default::default, |it| {
            let (seen, sample) = it.so_far(state.ended);
            (seen, sample.to_vec())
        })
    }

    /// True when what it reads is what was known when it was started.
    pub(crate) fn ran_as_compiled(&self) -> bool {
        let state = self.lock();
        !state.was_recompiled && state.running.as_ref().is_none_or(|it| !it.is_stale())
    }

    fn see_what_waits(&self) {
        let mut state = self.lock();
        let state = &mut *state;
        let Some(observer) = state.observer.as_mut().filter(|_| !state.dropped) else { return };
        state.waiting.iter().skip(state.seen_ahead).for_each(|row| observer.row(row.values()));
        state.seen_ahead = state.waiting.len();
        match &state.failed {
            Some(error) => observer.note_error(error.code()),
            None => state.ended = true,
        }
    }

    fn drain(&self, bytes_max: usize) -> Result<(), Error> {
        let mut state = self.lock();
        lock(&self.draining).by = Some(thread::current().id());
        let drained = state.drain(bytes_max);
        if core::mem::take(&mut *lock(&self.draining)).dropped_meanwhile {
            state.let_go();
        }
        drained
    }
}

impl State {
    fn drain(&mut self, bytes_max: usize) -> Result<(), Error> {
        let mut bytes = 0;
        while self.running.is_some() {
            match self.fetch() {
                Ok(Some(row)) => {
                    bytes += row.bytes();
                    self.waiting.push_back(row);
                }
                Ok(None) => {}
                Err(error) => self.failed = Some(error),
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

    fn next_row(&mut self) -> Result<Option<Row>, Error> {
        let next = match self.waiting.pop_front() {
            Some(row) => Ok(Some(row)),
            None => self.failed.take().map_or_else(|| self.fetch(), Err),
        };
        match &next {
            Ok(Some(_)) if self.seen_ahead > 0 => self.seen_ahead -= 1,
            Ok(Some(row)) => self.observe(|it| it.row(row.values())),
            Ok(None) => self.ended = true,
            Err(error) => self.observe(|it| it.note_error(error.code())),
        }
        next
    }

    fn fetch_into(&mut self, buffer: &mut RowBuffer, rows_max: usize) -> Result<usize, Error> {
        for added in 0..rows_max {
            if !self.waiting.is_empty() || self.failed.is_some() {
                if self.waiting.is_empty() && added > 0 {
                    return Ok(added);
                }
                let Some(row) = self.next_row()? else { return Ok(added) };
                buffer.add(row.values().len(), |column| row.values()[column].as_ref());
                continue;
            }
            match self.step() {
                Ok(true) => {
                    let Some(running) = &mut self.running else { return Ok(added) };
                    let statement = &mut running.statement;
                    if let Some(observer) = &mut self.observer {
                        observer.current_row(statement);
                    }
                    buffer.add_current(statement);
                }
                Ok(false) => {
                    self.ended = true;
                    return Ok(added);
                }
                Err(error) if added == 0 => {
                    self.observe(|it| it.note_error(error.code()));
                    return Err(error);
                }
                Err(error) => {
                    self.failed = Some(error);
                    return Ok(added);
                }
            }
        }
        Ok(rows_max)
    }

    fn observe(&mut self, note: impl FnOnce(&mut Observer)) {
        if let Some(observer) = &mut self.observer {
            note(observer);
        }
    }

    fn fetch(&mut self) -> Result<Option<Row>, Error> {
        let shows = self.step()?;
        let running = self.running.as_mut().filter(|_| shows);
        Ok(running.map(|it| Row::new(Arc::clone(&self.columns), it.statement.row())))
    }

    /// Steps the statement, under its clock and dice; true when there is a row.
    fn step(&mut self) -> Result<bool, Error> {
        let Some(running) = &mut self.running else { return Ok(false) };
        if running.statement.is_inherited() {
            return Err(Error::new(ErrorKind::Forked));
        }
        let pinned = self.paused.take().map(Paused::resume);
        let stepped = if running.statement.is_expired() {
            self.was_recompiled = true;
            // SQLite compiles it for the values that were bound.
            let _calls = running.statement.hold();
            let before = self.listener.begin();
            let stepped = running.statement.step();
            // Nobody here can ask for the number of the schema.
            running.forget_schema();
            self.listener.accept_plan(before, &self.columns, running, |_| true);
            stepped
        } else {
            running.statement.step()
        };
        self.paused = pinned.map(|guard| guard.pause());
        // Of an empty result too: SQLite may have compiled the statement anew, for another schema.
        if stepped.is_ok() && running.is_stale() {
            self.columns = prepared::column_names(&running.statement);
        }
        match stepped {
            Ok(Step::Row) => Ok(true),
            Ok(Step::Done) => {
                self.end();
                Ok(false)
            }
            Err(error) => {
                self.end();
                Err(Error::from(error))
            }
        }
    }

    fn interrupt(&mut self) {
        if self.running.is_some() {
            self.end();
            self.failed = Some(Error::from(sqlite::Error::from_code(sqlite::Code::INTERRUPT.0)));
        }
    }

    /// Its caller reads no more. The log still knows what was shown.
    fn let_go(&mut self) {
        self.end();
        self.waiting.clear();
        self.dropped = true;
    }

    /// Ends the statement, and gives it back.
    fn end(&mut self) {
        if let Some(mut prepared) = self.running.take() {
            self.was_recompiled |= prepared.is_stale();
            prepared.statement.reset();
            lock(&self.home.0).push(prepared);
        }
    }
}
