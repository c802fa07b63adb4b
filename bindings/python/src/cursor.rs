//! A cursor: executes statements, and shows their rows.
//!
//! Longer than other files: each method of the standard class has its signature and its text here.

use core::ops::Deref;
use core::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use manyhands::{Execution, Outcome, Value};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::connection::{Connection, lock};
use crate::control::Autocommit;
use crate::error::ProgrammingError;
use crate::row::{Description, Row};
use crate::rows::{OpenRows, Rows, Shown};
use crate::statement::Statement;
use crate::value;

/// How many rows are fetched while the GIL is released once.
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
}

/// What a statement counted. The engine is asked when the application asks: what was asked for counts as seen.
enum Rowcount {
    Known(i64),
    /// Those of `executemany`, and what others of them have changed.
    Of(Vec<Outcome>, u64),
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
}

/// While it lives, no other method of the cursor can be called.
struct Busy<'a> {
    cursor: &'a Cursor,
    connection: Py<Connection>,
    ended: bool,
}

impl Busy<'_> {
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

    /// Executes one statement, with a sequence of values for `?` or a mapping for `:name`.
    #[pyo3(signature = (sql, parameters = Argument::Missing, /), text_signature = "($self, sql, parameters=(), /)")]
    pub(crate) fn execute<'py>(
        slf: Bound<'py, Self>,
        sql: &Bound<'py, PyAny>,
        parameters: Argument<'py>,
    ) -> PyResult<Bound<'py, Self>> {
        slf.get().run(slf.py(), sql, parameters.given())?;
        Ok(slf)
    }

    /// Executes an INSERT, UPDATE, DELETE or REPLACE once for each of the parameters.
    #[pyo3(signature = (sql, seq_of_parameters, /))]
    pub(crate) fn executemany<'py>(
        slf: Bound<'py, Self>,
        sql: &Bound<'py, PyAny>,
        seq_of_parameters: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        slf.get().run_many(slf.py(), sql, seq_of_parameters)?;
        Ok(slf)
    }

    /// Executes all statements of a script. With LEGACY_TRANSACTION_CONTROL, commits first.
    #[pyo3(signature = (sql_script, /))]
    pub(crate) fn executescript<'py>(
        slf: Bound<'py, Self>,
        sql_script: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        slf.get().run_script(slf.py(), sql_script)?;
        Ok(slf)
    }

    /// The next row; None after the last.
    fn fetchone<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Cursor::next_row(slf)
    }

    /// Up to `size` further rows; `arraysize` by default.
    #[pyo3(signature = (size = None))]
    fn fetchmany<'py>(slf: &Bound<'py, Self>, size: Option<i32>) -> PyResult<Bound<'py, PyList>> {
        let size = size.unwrap_or_else(|| lock(&slf.get().state).arraysize);
        // As in the standard module, 0 and less are all.
        let rows_max = usize::try_from(size).ok().filter(|size| *size > 0);
        Cursor::rows_up_to(slf, rows_max.unwrap_or(usize::MAX))
    }

    /// All further rows.
    fn fetchall<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        Cursor::rows_up_to(slf, usize::MAX)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Cursor::next_row(slf)
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
        let (connection, outcomes, known) = {
            let state = lock(&self.state);
            match (&state.connection, &state.rowcount) {
                (_, Rowcount::Known(count)) => return Ok(*count),
                (None, _) => return Ok(-1),
                (Some(connection), Rowcount::Of(outcomes, known)) => {
                    (connection.clone_ref(py), outcomes.clone(), *known)
                }
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
            match (&state.connection, &state.lastrowid) {
                (None, _) | (_, Lastrowid::None) => return Ok(None),
                (_, Lastrowid::Known(rowid)) => return Ok(Some(*rowid)),
                (Some(connection), Lastrowid::Of(outcome)) => {
                    (connection.clone_ref(py), outcome.clone())
                }
            }
        };
        let rowid = match connection.get().check_open() {
            Ok(()) => connection
                .get()
                .call_from_any_thread(py, |engine| engine.last_insert_rowid_of(&outcome))?,
            Err(_) => outcome.last_insert_rowid(),
        };
        lock(&self.state).lastrowid = Lastrowid::Known(rowid);
        Ok(Some(rowid))
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
        Ok(Busy { cursor: self, connection, ended: false })
    }

    fn run(
        &self,
        py: Python<'_>,
        sql: &Bound<'_, PyAny>,
        parameters: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let sql = sql_text(sql, "execute")?;
        let connection = self.enter(py)?;
        self.forget();
        let statement = connection.statement(sql)?;
        let statement = statement.get();
        let values = statement.bind(py, &connection, parameters)?;
        let begin = if statement.changes_rows { connection.implicit_begin() } else { None };
        let rows = connection.call(py, |engine| {
            if let Some(begin) = begin
                && engine.is_autocommit()
            {
                engine.execute(begin, &[])?;
            }
            Rows::take(engine.start(&statement.sql, &values)?)
        })?;
        self.show(py, &connection, statement, rows)
    }

    /// Takes over what a statement gave.
    pub(crate) fn show(
        &self,
        py: Python<'_>,
        connection: &Connection,
        statement: &Statement,
        rows: Rows,
    ) -> PyResult<()> {
        let Rows { execution: Execution { columns, rows, outcome }, buffer, failed } = rows;
        let detect_types = connection.detect_types.load(Ordering::Relaxed);
        let description = if columns.is_empty() {
            None
        } else {
            let cut_names = detect_types & value::PARSE_COLNAMES != 0;
            Some(statement.description(py, &columns, cut_names)?)
        };
        let converters = if detect_types == 0 || columns.is_empty() {
            None
        } else {
            statement.converters(py, connection, detect_types, &columns)?
        };
        let mut state = lock(&self.state);
        state.description = description;
        state.rowcount = if statement.changes_rows {
            Rowcount::Of(vec![outcome.clone()], 0)
        } else {
            Rowcount::Known(-1)
        };
        state.lastrowid = Lastrowid::Of(outcome);
        if buffer.rows() > 0 {
            let rows = rows.map(|cursor| OpenRows {
                cursor: Some(cursor),
                generation: manyhands::fork_generation(),
                _open: Arc::clone(&connection.open_rows),
            });
            let values = Vec::with_capacity(columns.len());
            let shown = Shown { rows, buffer, failed, next: 0, names: columns, converters, values };
            state.shown = Some(Box::new(shown));
        }
        Ok(())
    }

    fn run_many(
        &self,
        py: Python<'_>,
        sql: &Bound<'_, PyAny>,
        parameters: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let sql = sql_text(sql, "executemany")?;
        let connection = self.enter(py)?;
        let mut sets = parameters.try_iter()?;
        self.forget();
        let statement = connection.statement(sql)?;
        let statement = statement.get();
        if !statement.changes_rows {
            return Err(ProgrammingError::new_err(
                "executemany() can only execute DML statements.",
            ));
        }
        let begin = connection.implicit_begin();
        let mut changes = 0;
        let mut open = Vec::new();
        loop {
            let mut chunk: Vec<Vec<Value>> = Vec::new();
            let mut stopped = None;
            while chunk.len() < CHUNK_ROWS {
                match sets.next() {
                    None => break,
                    Some(set) => {
                        match set.and_then(|set| statement.bind(py, &connection, Some(&set))) {
                            Ok(values) => chunk.push(values),
                            Err(error) => {
                                stopped = Some(error);
                                break;
                            }
                        }
                    }
                }
            }
            let ended = chunk.len() < CHUNK_ROWS;
            connection.call(py, |engine| {
                if let Some(begin) = begin
                    && engine.is_autocommit()
                {
                    engine.execute(begin, &[])?;
                }
                for values in &chunk {
                    let mut outcome = engine.execute(&statement.sql, values)?;
                    outcome.rows.clear();
                    if engine.is_autocommit() {
                        changes += outcome.changes();
                    } else {
                        open.push(outcome);
                    }
                }
                Ok(())
            })?;
            if let Some(error) = stopped {
                return Err(error);
            }
            if ended {
                break;
            }
        }
        lock(&self.state).rowcount = Rowcount::Of(open, changes);
        Ok(())
    }

    fn run_script(&self, py: Python<'_>, script: &Bound<'_, PyAny>) -> PyResult<()> {
        let script = sql_text(script, "executescript")?.to_cow()?;
        let connection = self.enter(py)?;
        if script.contains('\0') {
            return Err(PyValueError::new_err("embedded null character"));
        }
        let legacy = connection.autocommit.load(Ordering::Relaxed) == Autocommit::LEGACY;
        connection.call(py, |engine| {
            if legacy && !engine.is_autocommit() {
                engine.execute("COMMIT", &[])?;
            }
            engine.execute_script(&script)
        })
    }

    /// Ends the last statement, and forgets what it did.
    fn forget(&self) {
        let shown = {
            let mut state = lock(&self.state);
            state.rowcount = Rowcount::default();
            state.description = None;
            state.shown.take()
        };
        drop(shown);
    }

    fn next_row<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = slf.py();
        let this = slf.get();
        let (connection, shown) = this.enter_to_show(py)?;
        let Some(mut shown) = shown else { return Ok(None) };
        let row = shown.row(py, &connection)?;
        let more = shown.advance(py, &connection, 1)?;
        let factory = connection.leave(py, more.then_some(shown));
        Cursor::made_by_factory(slf, row, factory.as_ref()).map(Some)
    }

    fn rows_up_to<'py>(slf: &Bound<'py, Self>, rows_max: usize) -> PyResult<Bound<'py, PyList>> {
        let py = slf.py();
        let this = slf.get();
        let list = PyList::empty(py);
        let (connection, shown) = this.enter_to_show(py)?;
        let Some(mut shown) = shown else { return Ok(list) };
        let mut left = rows_max;
        while left > 0 {
            list.append(shown.row(py, &connection)?)?;
            left -= 1;
            // One more than is wanted: see `Shown::buffer`.
            if !shown.advance(py, &connection, CHUNK_ROWS.min(left.max(1)))? {
                break;
            }
        }
        let more = shown.next < shown.buffer.rows();
        let factory = connection.leave(py, more.then_some(shown));
        if factory.is_some() {
            for index in 0..list.len() {
                let row = list.get_item(index)?.cast_into::<PyTuple>()?;
                list.set_item(index, Cursor::made_by_factory(slf, row, factory.as_ref())?)?;
            }
        }
        Ok(list)
    }

    /// What `row_factory` makes of a row.
    fn made_by_factory<'py>(
        slf: &Bound<'py, Self>,
        row: Bound<'py, PyTuple>,
        factory: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let Some(factory) = factory else { return Ok(row.into_any()) };
        if factory.is(py.get_type::<Row>()) {
            return Ok(Bound::new(py, Row::make(row, slf.get().description_of(py)))?.into_any());
        }
        factory.call1((slf, row))
    }
}

fn sql_text<'a, 'py>(
    sql: &'a Bound<'py, PyAny>,
    method: &str,
) -> PyResult<&'a Bound<'py, PyString>> {
    sql.cast::<PyString>().map_err(|_| {
        let kind = sql.get_type().name().map_or_else(|_| "?".to_string(), |name| name.to_string());
        PyTypeError::new_err(format!("{method}() argument 1 must be str, not {kind}"))
    })
}

fn recursive() -> PyErr {
    ProgrammingError::new_err("Recursive use of cursors not allowed.")
}

fn uninitialised() -> PyErr {
    ProgrammingError::new_err("Base Cursor.__init__ not called.")
}
