//! Python callables that SQLite calls out of a step, and what becomes of what they raise.
//!
//! They run with the GIL and under the connection's mutex, by the thread that steps the statement.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use crate::connection::{Connection, lock};
use crate::error::ProgrammingError;

static TRACEBACKS: AtomicBool = AtomicBool::new(false);

/// Enables or disables the report of what callbacks raise, to `sys.unraisablehook`. Off by default: an
/// exception then only makes the statement fail, where it can.
#[pyfunction]
#[pyo3(signature = (enable, /))]
pub(crate) fn enable_callback_tracebacks(enable: bool) {
    TRACEBACKS.store(enable, Ordering::Relaxed);
}

/// Where a connection finds what a callback has raised that is no error, an interrupt or an exit; what a collation
/// has, which cannot fail; and what a signal handler has.
#[derive(Default)]
pub(crate) struct Raised {
    any: AtomicBool,
    error: Mutex<Option<PyErr>>,
}

impl Raised {
    pub(crate) fn set(&self, error: PyErr) {
        let old = lock(&self.error).replace(error);
        // Not under the lock: it may call Python code.
        drop(old);
        self.any.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    pub(crate) fn take(&self) -> Option<PyErr> {
        if !self.is_set() {
            return None;
        }
        self.any.store(false, Ordering::Relaxed);
        lock(&self.error).take()
    }
}

/// A callable of the application's: `None` once the garbage collector has taken it.
pub(crate) type Callable = Arc<Mutex<Option<Py<PyAny>>>>;

/// How the engine calls one.
pub(crate) struct Callback {
    callable: Callable,
    raised: Arc<Raised>,
}

impl Callback {
    pub(crate) fn new(callable: Py<PyAny>, connection: &Connection) -> Callback {
        let callable = Arc::new(Mutex::new(Some(callable)));
        Callback { callable, raised: connection.raised() }
    }

    /// The one reference that is held to it, for a connection that shows it to the garbage collector.
    pub(crate) fn callable(&self) -> Callable {
        Arc::clone(&self.callable)
    }

    fn bind<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let callable = lock(&self.callable).as_ref().map(|it| it.bind(py).clone());
        callable
            .ok_or_else(|| ProgrammingError::new_err("the callback is gone, with its connection"))
    }

    /// Calls it as `work` does. Of an exception `otherwise` is made, and it is reported if that is enabled;
    /// what is no error, such as KeyboardInterrupt, is raised by the call that SQLite was called by.
    pub(crate) fn run<T>(
        &self,
        work: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
        otherwise: impl FnOnce(Python<'_>, &PyErr) -> T,
    ) -> T {
        Python::attach(|py| {
            let callable = match self.bind(py) {
                Ok(callable) => callable,
                Err(gone) => return otherwise(py, &gone),
            };
            work(&callable).unwrap_or_else(|error| {
                let result = otherwise(py, &error);
                if error.is_instance_of::<PyException>(py) {
                    report(py, error, &callable);
                } else {
                    self.raised.set(error);
                }
                result
            })
        })
    }

    /// Calls it as `work` does, for SQLite that cannot be told of a failure. The first exception of a statement is
    /// raised by the call that SQLite was called by; `otherwise` is the answer then, and until the statement ends.
    pub(crate) fn run_infallible<T>(
        &self,
        work: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
        otherwise: T,
    ) -> T {
        if self.raised.is_set() {
            return otherwise;
        }
        Python::attach(|py| {
            self.bind(py).and_then(|callable| work(&callable)).unwrap_or_else(|error| {
                self.raised.set(error);
                otherwise
            })
        })
    }
}

/// Reports an exception that nobody can catch, if that is enabled.
pub(crate) fn report(py: Python<'_>, error: PyErr, callable: &Bound<'_, PyAny>) {
    if TRACEBACKS.load(Ordering::Relaxed) {
        error.write_unraisable(py, Some(callable));
    }
}
