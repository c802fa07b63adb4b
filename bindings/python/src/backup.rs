//! Copies of databases: into another connection, as bytes, as SQL.

use core::time::Duration;

use manyhands::{Backup, BackupStep};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::blob::bytes_of;
use crate::connection::Connection;
use crate::exit::detached;

#[pymethods]
impl Connection {
    /// Copies a database over that of another connection, while both stay open, and others use both files.
    ///
    /// `pages` are copied at a time, all for -1; between the times other writers come in, and when one of
    /// them has written the source, the copy begins again. `progress` is called after each time with
    /// SQLite's result code, the number of pages that are left, and that of all pages. `name` is the database
    /// of this connection. `sleep` is the pause, in seconds, when a lock is in the way.
    ///
    /// The target is locked for writers until the copy is done, and it is as before if the copy fails.
    #[pyo3(signature = (target, *, pages = -1, progress = None, name = "main", sleep = 0.25))]
    fn backup(
        slf: &Bound<'_, Self>,
        target: &Bound<'_, Connection>,
        pages: i32,
        progress: Option<&Bound<'_, PyAny>>,
        name: &str,
        sleep: f64,
    ) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.check(py)?;
        if slf.is(target) {
            return Err(PyValueError::new_err("target cannot be the same connection instance"));
        }
        if let Some(progress) = progress
            && !progress.is_callable()
        {
            return Err(PyTypeError::new_err("progress argument must be a callable"));
        }
        let pause = Duration::try_from_secs_f64(sleep.max(0.0))
            .map_err(|_| PyValueError::new_err("sleep must be a number of seconds"))?;
        // 0 would copy nothing, for ever.
        let pages = u32::try_from(pages).ok().filter(|pages| *pages > 0);
        target.get().lend(py, |engine| {
            let mut backup = this.call(py, |source| source.backup(name, engine, "main"))?;
            while copy(py, this, &mut backup, pages, progress)? {
                detached(py, || std::thread::sleep(pause));
            }
            this.call(py, |_| backup.finish())
        })
    }

    /// The bytes of a database, as they would be in its file.
    #[pyo3(signature = (*, name = "main"))]
    fn serialize<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.call(py, |connection| connection.serialize(name))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Puts a database in memory in the place of one of this connection's, with these bytes. The file that was
    /// there is left as it is.
    #[pyo3(signature = (data, /, *, name = "main"))]
    fn deserialize(&self, data: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        let py = data.py();
        self.check(py)?;
        let bytes = match data.extract::<String>() {
            Ok(text) => text.into_bytes(),
            Err(_) => bytes_of(data)?,
        };
        self.call(py, |connection| connection.deserialize(name, &bytes))
    }

    /// The SQL statements that make the database anew, one by one. `filter` is a LIKE pattern for the names of
    /// the tables, indexes, triggers and views to take in.
    ///
    /// Others may write meanwhile; inside `with connection.transaction("read")` all is of one moment.
    #[pyo3(signature = (*, filter = None))]
    fn iterdump<'py>(
        slf: &Bound<'py, Self>,
        filter: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        slf.get().check(py)?;
        let keywords = PyDict::new(py);
        keywords.set_item("filter", filter)?;
        py.import("manyhands.dump")?.call_method("_iterdump", (slf,), Some(&keywords))
    }
}

/// Copies some pages, and tells of it. True when a lock was in the way.
fn copy(
    py: Python<'_>,
    source: &Connection,
    backup: &mut Backup<'_>,
    pages: Option<u32>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<bool> {
    loop {
        let step = source.call(py, |_| backup.step(pages))?;
        if let Some(progress) = progress {
            progress.call1((step.code(), backup.remaining(), backup.page_count()))?;
        }
        py.check_signals()?;
        match step {
            BackupStep::More => {}
            BackupStep::Done => return Ok(false),
            BackupStep::Busy | BackupStep::Locked => return Ok(true),
        }
    }
}
