//! What a cursor executes, and what it has of it afterwards.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use manyhands::driver::{ConnectionExt, Execution, InfallibleWrite};
use manyhands::{Outcome, Value};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use super::{Argument, CHUNK_ROWS, Cursor, Lastrowid, Rowcount};
use crate::connection::{Connection, lock};
use crate::control::{Autocommit, Begin};
use crate::counting::Counted;
use crate::error::ProgrammingError;
use crate::rows::{OpenRows, Rows, Shown};
use crate::statement::Statement;
use crate::threads::this_thread;
use crate::value;

#[pymethods]
impl Cursor {
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

    /// Executes a statement that writes once for each of the parameters.
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
}

/// What became of a statement.
enum Done {
    Executed(Rows, Option<Counted>),
    Lazily(Outcome, InfallibleWrite),
}

impl Cursor {
    fn run(
        &self,
        py: Python<'_>,
        sql: &Bound<'_, PyAny>,
        parameters: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let sql = sql_text(sql, "execute")?;
        let connection = self.enter(py)?;
        self.forget();
        lock(&self.state).executed_by = this_thread();
        let statement = connection.statement(sql)?;
        let statement = statement.get();
        let begin = if statement.changes_rows { connection.implicit_begin() } else { None };
        let values = statement.bind(py, &connection, parameters).map_err(|error| {
            if !statement.has_compiled() {
                // To compile it was what failed, and that begins nothing.
                return error;
            }
            // It begins before its parameters are looked at, and what was deferred is executed.
            begin_before(py, &connection, statement, begin).err().unwrap_or(error)
        })?;
        let at_once = connection.counting.is_at_once();
        let done = connection.call_lazily(py, |engine| {
            if let Some(begin) = begin {
                if !begin.waits
                    && !at_once
                    && let Some((outcome, infallible)) =
                        engine.execute_lazily(begin.sql, &statement.sql, &values)
                {
                    return Ok(Done::Lazily(outcome, infallible));
                }
                if !engine.is_in_transaction() {
                    begin.before(&statement.sql, engine)?;
                }
            }
            engine.begin_lazy()?;
            if at_once && statement.changes_rows {
                engine.execute_deferred_ahead()?;
            }
            let rows = Rows::take(engine.start(&statement.sql, &values)?)?;
            let counted =
                at_once.then(|| Counted::now(engine, &rows.execution.outcome)).transpose()?;
            Ok(Done::Executed(rows, counted.flatten()))
        })?;
        match done {
            Done::Executed(rows, counted) => {
                self.show(py, &connection, statement, rows)?;
                let (Some(counted), mut state) = (counted, lock(&self.state)) else {
                    return Ok(());
                };
                if matches!(state.rowcount, Rowcount::Of(..)) {
                    state.rowcount = Rowcount::changed(counted.changes);
                }
                if matches!(state.lastrowid, Lastrowid::Of(_)) {
                    state.lastrowid = Lastrowid::Known(counted.last_insert_rowid);
                }
                Ok(())
            }
            Done::Lazily(outcome, infallible) => {
                let mut state = lock(&self.state);
                state.rowcount = match infallible {
                    InfallibleWrite::OneRow => Rowcount::Known(1),
                    InfallibleWrite::Success => Rowcount::Lazy(outcome.clone()),
                };
                state.lastrowid = Lastrowid::Lazy(outcome);
                Ok(())
            }
        }
    }

    /// Takes over what a statement gave.
    pub(crate) fn show(
        &self,
        py: Python<'_>,
        connection: &Connection,
        statement: &Statement,
        rows: Rows,
    ) -> PyResult<()> {
        let Rows { execution: Execution { columns, rows, outcome, .. }, buffer, failed } = rows;
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
        state.executed_by = this_thread();
        state.description = description;
        state.rowcount = if statement.changes_rows {
            Rowcount::Of(vec![outcome.clone()], 0)
        } else {
            Rowcount::Known(-1)
        };
        if !statement.is_blank {
            state.lastrowid = Lastrowid::Of(outcome);
        }
        if buffer.rows() > 0 {
            let rows = rows.map(|cursor| OpenRows {
                cursor: Some(cursor),
                generation: manyhands::driver::fork_generation(),
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
        lock(&self.state).executed_by = this_thread();
        let statement = connection.statement(sql)?;
        let statement = statement.get();
        statement.compile(py, &connection)?;
        if !statement.changes_rows
            && connection.call(py, |engine| engine.is_read_only(&statement.sql))?
        {
            return Err(ProgrammingError::new_err(
                "executemany() can only execute DML statements.",
            ));
        }
        let begin = if statement.changes_rows { connection.implicit_begin() } else { None };
        begin_before(py, &connection, statement, begin)?;
        if statement.changes_rows && connection.counting.is_at_once() {
            connection.call(py, ConnectionExt::execute_deferred_ahead)?;
        }
        // What is no list or tuple may be a program, which reads what was written for the items before.
        let is_plain = parameters.is_exact_instance_of::<PyList>()
            || parameters.is_exact_instance_of::<PyTuple>();
        let chunk_rows = if is_plain { CHUNK_ROWS } else { 1 };
        let mut chunk: Vec<Vec<Value>> = Vec::with_capacity(chunk_rows);
        let mut changes = 0;
        let mut open = Vec::new();
        loop {
            chunk.clear();
            let mut stopped = None;
            while chunk.len() < chunk_rows {
                let Some(set) = sets.next() else { break };
                match set.and_then(|set| statement.bind(py, &connection, Some(&set))) {
                    Ok(values) => chunk.push(values),
                    Err(error) => {
                        stopped = Some(error);
                        break;
                    }
                }
            }
            let ended = chunk.len() < chunk_rows;
            connection.call(py, |engine| {
                for values in &chunk {
                    let mut outcome = engine.execute(&statement.sql, values)?;
                    outcome.rows.clear();
                    if engine.is_executed() {
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
        if statement.changes_rows {
            lock(&self.state).rowcount = if open.is_empty() {
                Rowcount::changed(changes)
            } else {
                Rowcount::Of(open, changes)
            };
        }
        Ok(())
    }

    fn run_script(&self, py: Python<'_>, script: &Bound<'_, PyAny>) -> PyResult<()> {
        let script = sql_text(script, "executescript")?.to_cow()?;
        let connection = self.enter(py)?;
        if script.contains('\0') {
            return Err(PyValueError::new_err("embedded null character"));
        }
        let legacy = connection.autocommit.load(Ordering::Relaxed) == Autocommit::LEGACY;
        connection.call_lazily(py, |engine| {
            if legacy {
                engine.commit_open()?;
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
}

/// Begins a transaction before a statement, unless one is open.
fn begin_before(
    py: Python<'_>,
    connection: &Connection,
    statement: &Statement,
    begin: Option<Begin>,
) -> PyResult<()> {
    let Some(begin) = begin else { return Ok(()) };
    connection.call(py, |engine| {
        if engine.is_autocommit() {
            begin.before(&statement.sql, engine)?;
        }
        Ok(())
    })
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
