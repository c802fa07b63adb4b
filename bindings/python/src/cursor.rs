//! A cursor: executes statements, and shows their rows.

mod execute;
mod fetch;

use core::ops::Deref;
use std::sync::Mutex;

use manyhands::Outcome;
use manyhands::driver::{ConnectionExt, is_known};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::connection::{Connection, lock};
use crate::error::ProgrammingError;
use crate::exit::Stays;
use crate::row::Description;
use crate::rows::Shown;

/// How many rows are fetched, or sets of parameters executed, while the GIL is released once.
const CHUNK_ROWS: usize = 128;

/// Executes statements on a connection, one after the other, and shows the rows of the last one.
#[pyclass(subclass, weakref, frozen, module = "manyhands")]
pub(crate) struct Cursor {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` until `__init__` was called.
    connection: Option<Py<Connection>>,
    closed: bool,
    /// A method runs: none can be called.
    busy: bool,
    arraysize: i32,
    row_factory: Option<Py<PyAny>>,
    description: Option<Description>,
    /// `None` after the last row.
    shown: Option<Box<Shown>>,
    rowcount: Rowcount,
    lastrowid: Lastrowid,
    /// The thread that has executed the last statement, by [`this_thread`](crate::threads::this_thread).
    executed_by: u64,
}

/// What a statement counted. The engine is asked when the application asks: what was asked for counts as seen.
enum Rowcount {
    Known(i64),
    /// Those of `executemany`, and what others of them have changed.
    Of(Vec<Outcome>, u64),
    /// Of a lazy statement.
    Lazy(Outcome),
}

impl Rowcount {
    fn changed(changes: u64) -> Rowcount {
        Rowcount::Known(i64::try_from(changes).unwrap_or(i64::MAX))
    }
}

impl Default for Rowcount {
    fn default() -> Rowcount {
        Rowcount::Known(-1)
    }
}

#[derive(Default)]
enum Lastrowid {
    #[default]
    None,
    Known(i64),
    Of(Outcome),
    /// Of a lazy statement.
    Lazy(Outcome),
}

/// While it lives, no other method of the cursor can be called.
struct Busy<'a> {
    cursor: &'a Cursor,
    connection: Py<Connection>,
    ended: bool,
    _stays: Stays,
}

impl Busy<'_> {
    /// Ends it with an error, and keeps the row that could not be made: it is the next one still.
    fn fail(self, py: Python<'_>, shown: Box<Shown>, error: PyErr) -> PyErr {
        self.leave(py, Some(shown));
        error
    }

    /// Ends it, and keeps what there is to show. Returns the cursor's `row_factory`.
    fn leave<'py>(
        mut self,
        py: Python<'py>,
        shown: Option<Box<Shown>>,
    ) -> Option<Bound<'py, PyAny>> {
        self.ended = true;
        let mut state = lock(&self.cursor.state);
        state.shown = shown;
        state.busy = false;
        state.row_factory.as_ref().map(|factory| factory.bind(py).clone())
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        if !self.ended {
            lock(&self.cursor.state).busy = false;
        }
    }
}

impl Deref for Busy<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.get()
    }
}

#[pymethods]
impl Cursor {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Cursor {
        Cursor { state: Mutex::new(State { arraysize: 1, ..State::default() }) }
    }

    #[pyo3(signature = (connection, /))]
    fn __init__(&self, py: Python<'_>, connection: &Bound<'_, PyAny>) -> PyResult<()> {
        let connection = connection.cast::<Connection>().map_err(PyErr::from)?;
        if lock(&self.state).busy {
            return Err(recursive());
        }
        connection.get().check_thread(py)?;
        let old = std::mem::replace(
            &mut *lock(&self.state),
            State {
                connection: Some(connection.clone().unbind()),
                arraysize: 1,
                ..State::default()
            },
        );
        drop(old);
        Ok(())
    }

    /// Ends the statement. The cursor cannot be used after it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let shown = {
            let mut state = lock(&self.state);
            if state.busy {
                return Err(recursive());
            }
            let Some(connection) = &state.connection else { return Err(uninitialised()) };
            connection.get().check_thread(py)?;
            connection.get().check_open()?;
            state.closed = true;
            state.shown.take()
        };
        drop(shown);
        Ok(())
    }

    /// Does nothing; the DB-API asks for it.
    #[pyo3(signature = (sizes, /))]
    fn setinputsizes(&self, sizes: &Bound<'_, PyAny>) {
        let _ = sizes;
    }

    /// Does nothing; the DB-API asks for it.
    #[pyo3(signature = (size, column = None, /))]
    fn setoutputsize(&self, size: &Bound<'_, PyAny>, column: Option<&Bound<'_, PyAny>>) {
        let _ = (size, column);
    }

    /// The connection that made the cursor.
    #[getter]
    fn connection(&self, py: Python<'_>) -> Option<Py<Connection>> {
        lock(&self.state).connection.as_ref().map(|connection| connection.clone_ref(py))
    }

    /// For each column a tuple of seven, its name first; None for a statement without rows.
    #[getter]
    fn description(&self, py: Python<'_>) -> Option<Py<PyTuple>> {
        self.description_of(py).map(|description| description.columns)
    }

    /// Rows changed by the last INSERT, UPDATE, DELETE or REPLACE; -1 for other statements. In an optimistic
    /// transaction, what was asked for counts as seen.
    #[getter]
    fn rowcount(&self, py: Python<'_>) -> PyResult<i64> {
        self.execute_lazy(py)?;
        let (connection, outcomes, known) = {
            let state = lock(&self.state);
            match (&state.connection, &state.rowcount) {
                (_, Rowcount::Known(count)) => return Ok(*count),
                (Some(connection), Rowcount::Of(outcomes, known)) => {
                    connection.get().counting.note_question(state.executed_by);
                    (connection.clone_ref(py), outcomes.clone(), *known)
                }
                _ => return Ok(-1),
            }
        };
        // The last is the first to be asked: it makes all of its transaction certain.
        let ask = |engine: &mut manyhands::Connection| {
            let last = outcomes.last().map_or(Ok(0), |last| engine.changes_of(last))?;
            let rest = outcomes.iter().rev().skip(1).map(Outcome::changes).sum::<u64>();
            Ok(known + rest + last)
        };
        let count = match connection.get().check_open() {
            Ok(()) => connection.get().call_from_any_thread(py, ask)?,
            // It cannot change any more.
            Err(_) => outcomes.iter().map(Outcome::changes).sum::<u64>() + known,
        };
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        lock(&self.state).rowcount = Rowcount::Known(count);
        Ok(count)
    }

    /// The rowid of the connection's last insert, as of the last `execute`; None before the first. In an
    /// optimistic transaction, what was asked for counts as seen.
    #[getter]
    fn lastrowid(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        let (connection, outcome) = {
            let state = lock(&self.state);
            let outcome = match &state.lastrowid {
                Lastrowid::None => return Ok(None),
                Lastrowid::Known(rowid) => return Ok(Some(*rowid)),
                Lastrowid::Of(outcome) => (outcome.clone(), false),
                Lastrowid::Lazy(outcome) => (outcome.clone(), true),
            };
            let Some(connection) = &state.connection else { return Ok(None) };
            connection.get().counting.note_question(state.executed_by);
            (connection.clone_ref(py), outcome)
        };
        let (outcome, is_lazy) = outcome;
        let rowid = match connection.get().check_open() {
            Ok(()) => {
                let ask =
                    |engine: &mut manyhands::Connection| engine.last_insert_rowid_of(&outcome);
                connection.get().call_lazily_from_any_thread(py, ask)?
            }
            Err(_) => outcome.last_insert_rowid(),
        };
        // None for one that was never executed, since its transaction failed.
        let rowid = (!is_lazy || is_known(&outcome)).then_some(rowid);
        lock(&self.state).lastrowid = rowid.map_or(Lastrowid::None, Lastrowid::Known);
        Ok(rowid)
    }

    /// How many rows `fetchmany` returns by default.
    #[getter]
    fn arraysize(&self) -> i32 {
        lock(&self.state).arraysize
    }

    #[setter]
    fn set_arraysize(&self, value: i32) {
        lock(&self.state).arraysize = value;
    }

    /// Called with the cursor and each row as a tuple; what it returns is shown in the row's place.
    #[getter]
    fn row_factory(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        lock(&self.state).row_factory.as_ref().map(|factory| factory.clone_ref(py))
    }

    #[setter]
    fn set_row_factory(&self, value: Option<Py<PyAny>>) {
        let old = std::mem::replace(&mut lock(&self.state).row_factory, value);
        drop(old);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(state) = self.state.try_lock() else { return Ok(()) };
        if let Some(connection) = &state.connection {
            visit.call(connection)?;
        }
        if let Some(factory) = &state.row_factory {
            visit.call(factory)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        let (connection, factory) = {
            let mut state = lock(&self.state);
            (state.connection.take(), state.row_factory.take())
        };
        drop((connection, factory));
    }
}

/// An argument that may be left out, and that may be None too.
pub(crate) enum Argument<'py> {
    Missing,
    Given(Bound<'py, PyAny>),
}

impl<'py> FromPyObject<'_, 'py> for Argument<'py> {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Argument<'py>> {
        Ok(Argument::Given(value.to_owned()))
    }
}

impl<'py> Argument<'py> {
    pub(crate) fn given(&self) -> Option<&Bound<'py, PyAny>> {
        match self {
            Argument::Missing => None,
            Argument::Given(value) => Some(value),
        }
    }
}

impl Cursor {
    /// A cursor as `Connection.cursor()` makes it.
    pub(crate) fn made(connection: &Bound<'_, Connection>) -> Cursor {
        let py = connection.py();
        let row_factory = lock(&connection.get().attributes)
            .row_factory
            .as_ref()
            .map(|factory| factory.clone_ref(py));
        Cursor {
            state: Mutex::new(State {
                connection: Some(connection.clone().unbind()),
                arraysize: 1,
                row_factory,
                ..State::default()
            }),
        }
    }

    /// As `Connection.cursor()` does with a cursor that a factory made.
    pub(crate) fn take_row_factory(&self, py: Python<'_>, connection: &Connection) {
        let factory = lock(&connection.attributes).row_factory.as_ref().map(|f| f.clone_ref(py));
        if factory.is_some() {
            let old = std::mem::replace(&mut lock(&self.state).row_factory, factory);
            drop(old);
        }
    }

    /// Has a lazy statement executed, for what it changes.
    fn execute_lazy(&self, py: Python<'_>) -> PyResult<()> {
        let (connection, outcome) = {
            let state = lock(&self.state);
            match (&state.connection, &state.rowcount) {
                (Some(connection), Rowcount::Lazy(outcome)) => {
                    connection.get().counting.note_question(state.executed_by);
                    (connection.clone_ref(py), outcome.clone())
                }
                _ => return Ok(()),
            }
        };
        if !is_known(&outcome) && connection.get().check_open().is_ok() {
            let execute = manyhands::Connection::execute_deferred_in_turn;
            connection.get().call_lazily_from_any_thread(py, execute)?;
        }
        // Never executed, if its transaction failed.
        let known = is_known(&outcome).then(|| Rowcount::Of(vec![outcome], 0));
        lock(&self.state).rowcount = known.unwrap_or_default();
        Ok(())
    }

    pub(crate) fn description_of(&self, py: Python<'_>) -> Option<Description> {
        lock(&self.state).description.as_ref().map(|description| description.clone_ref(py))
    }

    /// Checks that the cursor can be used, and keeps others off.
    fn enter(&self, py: Python<'_>) -> PyResult<Busy<'_>> {
        self.enter_locked(py, &mut lock(&self.state))
    }

    /// The same, and what there is to show.
    fn enter_to_show(&self, py: Python<'_>) -> PyResult<(Busy<'_>, Option<Box<Shown>>)> {
        let mut state = lock(&self.state);
        let busy = self.enter_locked(py, &mut state)?;
        Ok((busy, state.shown.take()))
    }

    fn enter_locked(&self, py: Python<'_>, state: &mut State) -> PyResult<Busy<'_>> {
        let connection = state.connection.as_ref().ok_or_else(uninitialised)?;
        if state.closed {
            return Err(ProgrammingError::new_err("Cannot operate on a closed cursor."));
        }
        if state.busy {
            return Err(recursive());
        }
        connection.get().check(py)?;
        let connection = connection.clone_ref(py);
        state.busy = true;
        Ok(Busy { cursor: self, connection, ended: false, _stays: Stays::here() })
    }
}

fn recursive() -> PyErr {
    ProgrammingError::new_err("Recursive use of cursors not allowed.")
}

fn uninitialised() -> PyErr {
    ProgrammingError::new_err("Base Cursor.__init__ not called.")
}
