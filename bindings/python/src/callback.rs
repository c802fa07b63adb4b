//! Python callables that SQLite calls out of a step, and what becomes of what they raise.
//!
//! They run with the GIL and under the connection's mutex, by the thread that steps the statement.

use core::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

static TRACEBACKS: AtomicBool = AtomicBool::new(false);

/// Enables or disables the report of what callbacks raise, to `sys.unraisablehook`. Off by default: an
/// exception then only makes the statement fail, where it can.
#[pyfunction]
#[pyo3(signature = (enable, /))]
pub(crate) fn enable_callback_tracebacks(enable: bool) {
    TRACEBACKS.store(enable, Ordering::Relaxed);
}

/// A callable of the application's.
pub(crate) struct Callback(pub(crate) Py<PyAny>);

impl Callback {
    /// Calls it as `work` does; what it raises is reported, if that is enabled, and `otherwise` made of it.
    pub(crate) fn run<T>(
        &self,
        work: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
        otherwise: impl FnOnce(Python<'_>, &PyErr) -> T,
    ) -> T {
        Python::attach(|py| {
            let callable = self.0.bind(py);
            work(callable).unwrap_or_else(|error| {
                let result = otherwise(py, &error);
                report(py, error, callable);
                result
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
