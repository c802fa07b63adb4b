//! A statement that runs while its connection executes others.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use manyhands_sqlite::{self as sqlite, Paused, Step};

use crate::Error;
use crate::error::ErrorKind;
use crate::mutex::lock;
use crate::row::Row;
use crate::row_buffer::RowBuffer;
use crate::statement::observe::{Observer, Seen};
use crate::statement::prepared::{self, Listener, Prepared};

/// What a cursor shares with its connection, and with the log of the transaction that it belongs to.
#[derive(Debug)]
pub(crate) struct CursorState {
    state: Mutex<State>,
    draining: Mutex<Draining>,
}

/// A function of the application may drop the cursor while its connection drains the cursor: a garbage collector runs
/// anywhere. Its thread holds the state's lock then, and must not wait for itself.
#[derive(Debug, Default)]
struct Draining {
    by: Option<ThreadId>,
    dropped_meanwhile: bool,
}

#[derive(Debug, Default)]
struct State {
    /// `None` after the last row, and after an error.
    running: Option<Box<Prepared>>,
    listener: Listener,
    /// Where the statement goes then.
    returned: Arc<Returned>,
    /// The statement's pinned clock and seed, while it is not stepped.
    paused: Option<Paused>,
    columns: Arc<[String]>,
    /// Fetched before they were asked for.
    waiting: VecDeque<Row>,
    /// Has come after the waiting rows, and is to be shown once.
    failed: Option<Error>,
    /// Of what was shown, in a speculative transaction.
    observer: Option<Observer>,
    /// How many of the waiting rows count as shown already.
    seen_ahead: usize,
    /// Its caller reads no more. The transaction's log still has it.
    dropped: bool,
    ended: bool,
    /// SQLite has compiled it again since it was started.
    was_recompiled: bool,
}

/// Statements that their cursors no longer need; the connection keeps them for their next use.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "they come boxed, and leave boxed")]
pub(crate) struct Returned(Mutex<Vec<Box<Prepared>>>);

impl Returned {
    pub(crate) fn pop(&self) -> Option<Box<Prepared>> {
        lock(&self.0).pop()
    }
}

impl CursorState {
    /// Of rows that are there already.
    pub(crate) fn of_rows(columns: Arc<[String]>, rows: Vec<Row>) -> CursorState {
        CursorState::new(State { columns, waiting: rows.into(), ..State::default() })
    }

    /// Of a statement that is about to run, see [`CursorState::start`].
    pub(crate) fn of_statement(
        prepared: &Prepared,
        listener: Listener,
        returned: &Arc<Returned>,
        paused: Option<Paused>,
        is_logged: bool,
    ) -> CursorState {
        CursorState::new(State {
            listener,
            returned: Arc::clone(returned),
            paused,
            columns: Arc::clone(&prepared.columns),
            observer: is_logged.then(Observer::default),
            ..State::default()
        })
    }

    fn new(state: State) -> CursorState {
        CursorState { state: Mutex::new(state), draining: Mutex::default() }
    }

    /// Runs the statement, whose values are bound.
    pub(crate) fn start(&self, prepared: Box<Prepared>) {
        self.lock().running = Some(prepared);
    }

    pub(crate) fn next_row(&self) -> Result<Option<Row>, Error> {
        self.lock().next_row()
    }

    /// See [`Cursor::fetch`](crate::Cursor::fetch).
    pub(crate) fn fetch_into(
        &self,
        buffer: &mut RowBuffer,
        rows_max: usize,
    ) -> Result<usize, Error> {
        self.lock().fetch_into(buffer, rows_max)
    }

    pub(crate) fn columns(&self) -> Arc<[String]> {
        Arc::clone(&self.lock().columns)
    }

    pub(crate) fn interrupt(&self) {
        self.lock().interrupt();
    }

    /// The caller reads no more.
    pub(crate) fn let_go(&self) {
        {
            let mut draining = lock(&self.draining);
            if draining.by == Some(thread::current().id()) {
                draining.dropped_meanwhile = true;
                return;
            }
        }
        self.lock().let_go();
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

    /// True when nothing will be seen of it any more: its caller knows that it has ended, or reads no more. A transaction's log may
    /// still have it.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.lock();
        let is_read = state.ended && state.waiting.is_empty() && state.failed.is_none();
        state.running.is_none() && (state.dropped || is_read)
    }

    /// True when what it reads is what was known when it was started.
    pub(crate) fn ran_as_compiled(&self) -> bool {
        let state = self.lock();
        !state.was_recompiled && state.running.as_ref().is_none_or(|it| !it.is_stale())
    }

    /// What it will show yet counts as seen now.
    pub(crate) fn see_what_waits(&self) {
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

    /// Fetches what was not shown yet.
    ///
    /// # Errors
    /// When that is more than so many bytes.
    pub(crate) fn drain(&self, bytes_max: usize) -> Result<(), Error> {
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
        // For each value SQLite is called several times.
        let _calls = self.running.as_ref().map(|it| it.statement.hold());
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
                    buffer.add_current(&mut running.statement);
                    if let Some(observer) = &mut self.observer {
                        observer.last_row(buffer);
                    }
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

    /// Steps the statement, under its pinned clock and seed; true when there is a row.
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
            lock(&self.returned.0).push(prepared);
        }
    }
}
