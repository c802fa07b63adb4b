//! A connection behind a mutex, called without the GIL.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use manyhands::{Database, Durability, Error, InterruptHandle, Value};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::{self, InternalError, ProgrammingError};
use crate::value::{self, Done};

/// A connection; `manyhands.Connection` has the documented surface.
#[pyclass(module = "manyhands._manyhands", frozen)]
#[derive(Debug)]
pub(crate) struct Connection {
    /// The process that made it.
    process: u32,
    /// `None` after it was closed.
    connection: Mutex<Option<manyhands::Connection>>,
    /// Beside the connection, so that interrupting waits for nothing. `None` after it was closed.
    interrupt: Mutex<Option<InterruptHandle>>,
}

/// Why a call into manyhands gave no result.
enum Failure {
    Closed,
    Panicked,
    Failed(Error),
}

impl Failure {
    fn to_python(&self, py: Python<'_>) -> PyErr {
        match self {
            Failure::Closed => ProgrammingError::new_err("Cannot operate on a closed database."),
            Failure::Panicked => InternalError::new_err(
                "manyhands panicked, which is a bug; close this connection and open another",
            ),
            Failure::Failed(error) => error::to_python(py, error),
        }
    }
}

#[pymethods]
impl Connection {
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        timeout_s: f64,
        label: String,
        durability: &str,
        foreign_keys: bool,
    ) -> PyResult<Connection> {
        let timeout = Duration::try_from_secs_f64(timeout_s)
            .map_err(|_| PyValueError::new_err("timeout must be a number of seconds, 0 or more"))?;
        let durability = match durability {
            "full" => Durability::Full,
            "normal" => Durability::Normal,
            _ => return Err(PyValueError::new_err("durability must be 'full' or 'normal'")),
        };
        let builder = Database::builder(path)
            .timeout(timeout)
            .label(label)
            .durability(durability)
            .foreign_keys(foreign_keys);
        let opened = py.detach(|| {
            caught(|| {
                let mut connection = builder.open()?.connect()?;
                let interrupt = connection.interrupt_handle();
                Ok((connection, interrupt))
            })
        });
        let (connection, interrupt) = opened.map_err(|failure| failure.to_python(py))?;
        Ok(Connection {
            process: std::process::id(),
            connection: Mutex::new(Some(connection)),
            interrupt: Mutex::new(Some(interrupt)),
        })
    }

    fn execute<'py>(
        &self,
        py: Python<'py>,
        sql: &str,
        parameters: &Bound<'py, PyAny>,
    ) -> PyResult<Done<'py>> {
        let values = value::from_sequence(parameters)?;
        let outcome = self.call(py, |connection| connection.execute(sql, &values))?;
        value::to_done(py, &outcome)
    }

    fn batch<'py>(
        &self,
        py: Python<'py>,
        statements: Vec<(String, Bound<'py, PyAny>)>,
    ) -> PyResult<Vec<Done<'py>>> {
        let values = statements.iter().map(|(_, parameters)| value::from_sequence(parameters));
        let values = values.collect::<PyResult<Vec<_>>>()?;
        let statements: Vec<(&str, &[Value])> =
            statements.iter().zip(&values).map(|((sql, _), values)| (&**sql, &**values)).collect();
        let outcomes = self.call(py, |connection| connection.batch(&statements))?;
        outcomes.iter().map(|outcome| value::to_done(py, outcome)).collect()
    }

    /// One statement with many sets of parameters, all or none. Returns the rows that were changed.
    fn execute_many(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let values = parameters.iter().map(value::from_sequence).collect::<PyResult<Vec<_>>>()?;
        let statements: Vec<(&str, &[Value])> =
            values.iter().map(|values| (sql, &**values)).collect();
        let outcomes = self.call(py, |connection| connection.batch(&statements))?;
        Ok(outcomes.iter().map(|outcome| outcome.changes()).sum())
    }

    fn execute_script(&self, py: Python<'_>, sql: &str) -> PyResult<()> {
        self.call(py, |connection| {
            end_transaction(connection, "COMMIT")?;
            connection.execute_script(sql)
        })
    }

    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |connection| end_transaction(connection, "COMMIT"))
    }

    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |connection| end_transaction(connection, "ROLLBACK"))
    }

    #[getter]
    fn in_transaction(&self, py: Python<'_>) -> PyResult<bool> {
        self.call(py, |connection| Ok(!connection.is_autocommit()))
    }

    #[getter]
    fn total_changes(&self, py: Python<'_>) -> PyResult<i64> {
        self.call(py, |connection| Ok(connection.total_changes()))
    }

    fn interrupt(&self, py: Python<'_>) -> PyResult<()> {
        self.refuse_inherited()?;
        py.detach(|| {
            let handle = self.interrupt.lock().unwrap_or_else(PoisonError::into_inner).clone();
            handle.ok_or(Failure::Closed).map(|handle| handle.interrupt())
        })
        .map_err(|failure| failure.to_python(py))
    }

    /// Waits for what other threads do with the connection. Does nothing the second time, and nothing
    /// in a child process.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.refuse_inherited().is_err() {
            return Ok(());
        }
        py.detach(|| {
            let taken = self.connection.lock().unwrap_or_else(PoisonError::into_inner).take();
            *self.interrupt.lock().unwrap_or_else(PoisonError::into_inner) = None;
            caught(|| {
                drop(taken);
                Ok(())
            })
        })
        .map_err(|failure| failure.to_python(py))
    }
}

impl Connection {
    fn refuse_inherited(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(ProgrammingError::new_err(
            "this was opened before fork(); a child process must open the database itself",
        ))
    }

    /// Calls manyhands without the GIL.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut manyhands::Connection) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.refuse_inherited()?;
        py.detach(|| {
            let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
            let open = connection.as_mut().ok_or(Failure::Closed)?;
            let result = caught(|| work(open));
            if matches!(result, Err(Failure::Panicked)) {
                // Dropping what a panic left behind could panic again: it is leaked.
                core::mem::forget(connection.take());
            }
            result
        })
        .map_err(|failure| failure.to_python(py))
    }
}

/// Ends the transaction, if there is one.
fn end_transaction(connection: &mut manyhands::Connection, sql: &str) -> Result<(), Error> {
    if connection.is_autocommit() {
        return Ok(());
    }
    connection.execute(sql, &[]).map(drop)
}

fn caught<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(Failure::Failed),
        Err(_) => Err(Failure::Panicked),
    }
}
