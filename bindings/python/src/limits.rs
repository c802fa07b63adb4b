//! Limits, switches and extensions of a connection.

use std::path::PathBuf;

use manyhands::{Limit, Setting};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::connection::Connection;
use crate::error::{OperationalError, ProgrammingError};

#[pymethods]
impl Connection {
    /// Sets a limit, SQLITE_LIMIT_…, and returns what it was. A larger one than SQLite was built for becomes
    /// that; a negative one changes nothing.
    #[pyo3(signature = (category, limit, /))]
    fn setlimit(&self, py: Python<'_>, category: i32, limit: i32) -> PyResult<i32> {
        self.check(py)?;
        let category = limit_of(category)?;
        self.call(py, |connection| connection.set_limit(category, limit))
    }

    /// A limit, SQLITE_LIMIT_….
    #[pyo3(signature = (category, /))]
    fn getlimit(&self, py: Python<'_>, category: i32) -> PyResult<i32> {
        self.check(py)?;
        let category = limit_of(category)?;
        self.call(py, |connection| Ok(connection.limit(category)))
    }

    /// Turns a switch, SQLITE_DBCONFIG_….
    #[pyo3(signature = (op, enable = true, /))]
    fn setconfig(&self, py: Python<'_>, op: i32, enable: bool) -> PyResult<()> {
        self.check(py)?;
        let setting = setting_of(op)?;
        let now = self.call(py, |connection| connection.set_setting(setting, enable))?;
        if now == enable { Ok(()) } else { Err(OperationalError::new_err("Unable to set config")) }
    }

    /// The state of a switch, SQLITE_DBCONFIG_….
    #[pyo3(signature = (op, /))]
    fn getconfig(&self, py: Python<'_>, op: i32) -> PyResult<bool> {
        self.check(py)?;
        let setting = setting_of(op)?;
        self.call(py, |connection| Ok(connection.setting(setting)))
    }

    /// Allows or forbids to load extensions. They are forbidden by default.
    #[pyo3(signature = (enable, /))]
    #[expect(
        unsafe_code,
        reason = "Python has no word for unsafe: its programs vouch for their extensions"
    )]
    fn enable_load_extension(&self, py: Python<'_>, enable: bool) -> PyResult<()> {
        self.call(py, |connection| {
            if !enable {
                return connection.disable_load_extension();
            }
            // SAFETY: nothing in Python can say that native code is sound. A program that allows extensions, which are
            // forbidden by default, vouches for what it and its SQL load, as with sqlite3 and with ctypes.
            unsafe { connection.enable_load_extension() }
        })
    }

    /// Loads an extension: a shared library, which must be allowed before. `entrypoint` is the name of the
    /// function in it that SQLite calls.
    #[pyo3(signature = (name, /, *, entrypoint = None))]
    #[expect(
        unsafe_code,
        reason = "Python has no word for unsafe: its programs vouch for their extensions"
    )]
    fn load_extension(
        &self,
        py: Python<'_>,
        name: PathBuf,
        entrypoint: Option<&str>,
    ) -> PyResult<()> {
        // SAFETY: SQLite refuses unless the program has allowed extensions, by which it vouches for what it loads.
        self.call(py, |connection| unsafe { connection.load_extension(name, entrypoint) })
    }
}

fn limit_of(category: i32) -> PyResult<Limit> {
    Limit::of_number(category)
        .ok_or_else(|| ProgrammingError::new_err("'category' is out of bounds"))
}

fn setting_of(op: i32) -> PyResult<Setting> {
    Setting::of_number(op)
        .ok_or_else(|| PyValueError::new_err(format!("unknown config 'op': {op}")))
}
