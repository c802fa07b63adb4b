//! Transaction control: when a transaction begins by itself, and how it ends.
//!
//! Python knows two ways. The old one, `isolation_level`, begins a transaction before an INSERT, UPDATE,
//! DELETE or REPLACE when none is open. The new one, `autocommit`, is either SQLite's own (True), or
//! always has a transaction open (False).
//! <https://docs.python.org/3/library/sqlite3.html#transaction-control>

use core::sync::atomic::Ordering;
use manyhands::driver::ConnectionExt;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};

use crate::connection::Connection;
use crate::error::ConflictError;
use crate::exit::Stays;

/// The attribute `isolation_level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum IsolationLevel {
    None,
    Unnamed,
    Deferred,
    Immediate,
    Exclusive,
}

impl IsolationLevel {
    const ALL: [(IsolationLevel, &'static str, &'static str); 4] = [
        // With its space: what a trace callback of the standard module shows.
        (IsolationLevel::Unnamed, "", "BEGIN "),
        (IsolationLevel::Deferred, "DEFERRED", "BEGIN DEFERRED"),
        (IsolationLevel::Immediate, "IMMEDIATE", "BEGIN IMMEDIATE"),
        (IsolationLevel::Exclusive, "EXCLUSIVE", "BEGIN EXCLUSIVE"),
    ];

    fn from_number(number: u8) -> Option<(IsolationLevel, &'static str, &'static str)> {
        IsolationLevel::ALL.into_iter().find(|(level, _, _)| *level as u8 == number)
    }

    /// Whether its BEGIN waits for the turn to write.
    fn waits(self) -> bool {
        matches!(self, IsolationLevel::Immediate | IsolationLevel::Exclusive)
    }
}

impl<'py> FromPyObject<'_, 'py> for IsolationLevel {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<IsolationLevel> {
        if value.is_none() {
            return Ok(IsolationLevel::None);
        }
        let text = value
            .cast::<PyString>()
            .map_err(|_| PyTypeError::new_err("isolation_level must be str or None"))?;
        let text = text.to_cow()?;
        let found =
            IsolationLevel::ALL.into_iter().find(|(_, name, _)| name.eq_ignore_ascii_case(&text));
        found.map(|(level, _, _)| level).ok_or_else(|| {
            PyValueError::new_err(
                "isolation_level string must be '', 'DEFERRED', 'IMMEDIATE', or 'EXCLUSIVE'",
            )
        })
    }
}

/// The statement that begins a transaction by itself.
#[derive(Clone, Copy)]
pub(crate) struct Begin {
    pub(crate) sql: &'static str,
    /// Whether it waits for the turn to write.
    pub(crate) waits: bool,
}

impl Begin {
    /// Begins a transaction before a statement. What does not compile begins none.
    pub(crate) fn before(
        self,
        sql: &str,
        connection: &mut manyhands::Connection,
    ) -> Result<(), manyhands::Error> {
        connection.parameter_names(sql)?;
        connection.execute(self.sql, &[]).map(drop)
    }
}

/// How a transaction ends.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Commit,
    Rollback,
}

impl End {
    fn sql(self) -> &'static str {
        match self {
            End::Commit => "COMMIT",
            End::Rollback => "ROLLBACK",
        }
    }
}

/// The attribute `autocommit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Autocommit(pub(crate) i8);

impl Autocommit {
    pub(crate) const LEGACY: i8 = -1;
    pub(crate) const DISABLED: i8 = 0;
    pub(crate) const ENABLED: i8 = 1;

    /// A transaction that is always open, and holds its turn from the start, would lock all others out for ever.
    pub(crate) fn check(self, immediate: bool) -> PyResult<()> {
        if immediate && self.0 == Autocommit::DISABLED {
            return Err(PyValueError::new_err(
                "with autocommit=False a transaction is always open: with transaction_mode='immediate' nobody else \
                 could ever write; use transaction_mode='auto', which takes the turn when it needs it",
            ));
        }
        Ok(())
    }
}

impl<'py> FromPyObject<'_, 'py> for Autocommit {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Autocommit> {
        if let Ok(flag) = value.cast::<PyBool>() {
            return Ok(Autocommit(if flag.is_true() {
                Autocommit::ENABLED
            } else {
                Autocommit::DISABLED
            }));
        }
        if value.is_instance_of::<PyInt>()
            && value.extract::<i8>().is_ok_and(|n| n == Autocommit::LEGACY)
        {
            return Ok(Autocommit(Autocommit::LEGACY));
        }
        Err(PyValueError::new_err(
            "autocommit must be True, False, or sqlite3.LEGACY_TRANSACTION_CONTROL",
        ))
    }
}

#[pymethods]
impl Connection {
    /// Commits the open transaction; does nothing without one, or when `autocommit` is True.
    pub(crate) fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, End::Commit)
    }

    /// Rolls back the open transaction; does nothing without one, or when `autocommit` is True.
    pub(crate) fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, End::Rollback)
    }

    /// True while a transaction is open; while another thread executes, if one was open at its beginning.
    #[getter]
    fn in_transaction(&self, py: Python<'_>) -> PyResult<bool> {
        let asked = self.ask(py, |engine| Ok(engine.is_in_transaction()))?;
        Ok(asked.unwrap_or_else(|| self.was_in_transaction()))
    }

    /// Which BEGIN precedes an INSERT, UPDATE, DELETE or REPLACE: "", "DEFERRED", "IMMEDIATE",
    /// "EXCLUSIVE"; None for none.
    #[getter]
    fn isolation_level(&self) -> PyResult<Option<&'static str>> {
        self.check_open()?;
        let level = IsolationLevel::from_number(self.isolation_level.load(Ordering::Relaxed));
        Ok(level.map(|(_, name, _)| name))
    }

    /// None commits an open transaction.
    #[setter]
    fn set_isolation_level(&self, py: Python<'_>, level: IsolationLevel) -> PyResult<()> {
        self.unguard(py)?;
        self.isolation_level.store(level as u8, Ordering::Relaxed);
        if level == IsolationLevel::None {
            self.end(py, End::Commit)?;
        }
        Ok(())
    }

    /// True: SQLite's autocommit. False: a transaction is always open. LEGACY_TRANSACTION_CONTROL: as
    /// `isolation_level` says.
    #[getter]
    fn autocommit(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.check(py)?;
        match self.autocommit.load(Ordering::Relaxed) {
            Autocommit::ENABLED => Ok(PyBool::new(py, true).to_owned().into_any().unbind()),
            Autocommit::DISABLED => Ok(PyBool::new(py, false).to_owned().into_any().unbind()),
            legacy => Ok(legacy.into_pyobject(py)?.into_any().unbind()),
        }
    }

    #[setter]
    fn set_autocommit(&self, py: Python<'_>, value: Autocommit) -> PyResult<()> {
        value.check(self.immediate.load(Ordering::Relaxed))?;
        self.unguard(py)?;
        match value.0 {
            Autocommit::ENABLED => self.end_with(py, End::Commit)?,
            Autocommit::DISABLED => self.begin(py)?,
            _ => {}
        }
        self.autocommit.store(value.0, Ordering::Relaxed);
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().check(slf.py())?;
        Ok(slf)
    }

    /// Commits, or rolls back when the block raised. Does nothing when `autocommit` is True.
    #[pyo3(signature = (kind, error, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let _ = (error, traceback);
        if self.autocommit.load(Ordering::Relaxed) == Autocommit::ENABLED {
            return Ok(false);
        }
        if !kind.is_none() {
            self.rollback(py)?;
            return Ok(false);
        }
        self.commit(py).inspect_err(|_| {
            // The first error is what the block raises.
            let _ = self.rollback(py);
        })?;
        Ok(false)
    }
}

#[pymethods]
impl Connection {
    /// Begins a transaction: with mode None as `transaction_mode` says.
    #[pyo3(signature = (mode, /))]
    fn _begin(&self, py: Python<'_>, mode: Option<&str>) -> PyResult<()> {
        let begin = match mode {
            None => "BEGIN",
            Some("optimistic") => "BEGIN CONCURRENT",
            Some("immediate") => "BEGIN IMMEDIATE",
            Some("read") => return self.begin_block(py, ConnectionExt::begin_read_only),
            Some(_) => {
                return Err(PyValueError::new_err(
                    "mode must be 'optimistic', 'immediate', 'read' or None",
                ));
            }
        };
        self.begin_block(py, |connection| connection.execute(begin, &[]).map(drop))
    }

    /// Ends the transaction of `_begin` with COMMIT or ROLLBACK, and begins no other one.
    #[pyo3(signature = (how, /))]
    fn _end(&self, py: Python<'_>, how: &str) -> PyResult<()> {
        self.end_block(py, if how == "COMMIT" { End::Commit } else { End::Rollback })
    }

    /// Once an error has ended the transaction that was begun, nothing is executed before `rollback()`.
    fn _guard(&self, py: Python<'_>) -> PyResult<()> {
        self.begin_block(py, |_| Ok(()))
    }

    /// Calls `function` with this connection in a transaction, and commits it. After a conflict it is called
    /// once more, in a transaction that holds the turn to write, which cannot conflict.
    ///
    /// So the function runs at most twice, and should do nothing outside the database that must not be done
    /// twice. Returns what the function returned; what it raises rolls the transaction back.
    #[pyo3(signature = (function, /))]
    fn run<'py>(
        slf: &Bound<'py, Self>,
        function: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        if this.call(py, |connection| Ok(connection.allows_optimism()))? {
            let result = Connection::attempt(slf, function, "BEGIN CONCURRENT");
            let conflicted = this.call(py, |connection| Ok(connection.note_first_try()))?;
            match result {
                Err(error) if conflicted && error.is_instance_of::<ConflictError>(py) => {}
                result => return result,
            }
        }
        Connection::attempt(slf, function, "BEGIN IMMEDIATE")
    }
}

impl Connection {
    /// Calls the function in a transaction, and commits that.
    fn attempt<'py>(
        slf: &Bound<'py, Self>,
        function: &Bound<'py, PyAny>,
        begin: &'static str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        slf.get().begin_block(py, |connection| connection.execute(begin, &[]).map(drop))?;
        let result = {
            let _stays = Stays::here();
            function.call1((slf,))
        };
        let committed =
            result.and_then(|value| slf.get().end_block(py, End::Commit).map(|()| value));
        committed.inspect_err(|_| {
            // The first error is what the caller gets.
            let _ = slf.get().end_block(py, End::Rollback);
        })
    }

    fn begin_block(
        &self,
        py: Python<'_>,
        begin: impl FnOnce(&mut manyhands::Connection) -> Result<(), manyhands::Error> + Send,
    ) -> PyResult<()> {
        self.call(py, |connection| {
            begin(connection)?;
            connection.guard();
            Ok(())
        })
    }

    fn end_block(&self, py: Python<'_>, how: End) -> PyResult<()> {
        self.call_lazily(py, |connection| match how {
            End::Commit => {
                let checked = connection.check_guard();
                connection.unguard();
                checked.and_then(|()| connection.commit_open())
            }
            End::Rollback => connection.roll_back_open(),
        })
    }

    /// What must begin a transaction before a statement that changes rows, if anything.
    pub(crate) fn implicit_begin(&self) -> Option<Begin> {
        if self.autocommit.load(Ordering::Relaxed) != Autocommit::LEGACY {
            return None;
        }
        let level = IsolationLevel::from_number(self.isolation_level.load(Ordering::Relaxed));
        level.map(|(level, _, sql)| Begin { sql, waits: level.waits() })
    }

    /// Begins a transaction, unless one is open.
    pub(crate) fn begin(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |connection| {
            if connection.is_autocommit() {
                connection.execute("BEGIN", &[])?;
            }
            Ok(())
        })
    }

    /// `commit()` and `rollback()`.
    fn end(&self, py: Python<'_>, how: End) -> PyResult<()> {
        match self.autocommit.load(Ordering::Relaxed) {
            Autocommit::ENABLED => self.check(py),
            Autocommit::DISABLED => self.call(py, |connection| end_and_begin(connection, how)),
            _ => self.end_with(py, how),
        }
    }

    /// Who changes in a block how transactions begin and end goes on outside of the block's.
    fn unguard(&self, py: Python<'_>) -> PyResult<()> {
        self.call_lazily(py, |connection| {
            connection.unguard();
            Ok(())
        })
    }

    fn end_with(&self, py: Python<'_>, how: End) -> PyResult<()> {
        self.call_lazily(py, |connection| match how {
            End::Commit => connection.commit_open(),
            End::Rollback => connection.roll_back_open(),
        })
    }
}

/// Ends the open transaction, and begins the next one: also when a COMMIT has failed and still ended it, by a conflict
/// for example. Without one, as in the standard module, it fails and begins none.
fn end_and_begin(connection: &mut manyhands::Connection, how: End) -> Result<(), manyhands::Error> {
    let was_open = !connection.is_autocommit();
    let ended = connection.execute(how.sql(), &[]);
    if was_open && connection.is_autocommit() {
        let begun = connection.execute("BEGIN", &[]);
        return ended.and(begun).map(drop);
    }
    ended.map(drop)
}
