//! Errors, as the exceptions of the DB-API.

use manyhands::{Code, Error};
use pyo3::PyTypeInfo;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

pyo3::import_exception!(manyhands.errors, ConflictError);
pyo3::import_exception!(manyhands.errors, DatabaseError);
pyo3::import_exception!(manyhands.errors, DataError);
pyo3::import_exception!(manyhands.errors, IntegrityError);
pyo3::import_exception!(manyhands.errors, InterfaceError);
pyo3::import_exception!(manyhands.errors, InternalError);
pyo3::import_exception!(manyhands.errors, LockTimeout);
pyo3::import_exception!(manyhands.errors, OperationalError);
pyo3::import_exception!(manyhands.errors, ProgrammingError);

/// Finds the classes when the module is loaded: while the interpreter exits nothing can be imported any more, and a generator
/// that is still suspended then may yet use a connection.
pub(crate) fn find_classes(py: Python<'_>) -> PyResult<()> {
    py.import("manyhands.errors")?;
    ConflictError::type_object(py);
    DatabaseError::type_object(py);
    DataError::type_object(py);
    IntegrityError::type_object(py);
    InterfaceError::type_object(py);
    InternalError::type_object(py);
    LockTimeout::type_object(py);
    OperationalError::type_object(py);
    ProgrammingError::type_object(py);
    Ok(())
}

/// SQLite's primary result codes (<https://sqlite.org/rescode.html>).
pub(crate) mod primary {
    pub(crate) const INTERNAL: i32 = 2;
    pub(crate) const NOMEM: i32 = 7;
    pub(crate) const CORRUPT: i32 = 11;
    pub(crate) const NOTFOUND: i32 = 12;
    pub(crate) const TOOBIG: i32 = 18;
    pub(crate) const CONSTRAINT: i32 = 19;
    pub(crate) const MISMATCH: i32 = 20;
    pub(crate) const MISUSE: i32 = 21;
    pub(crate) const RANGE: i32 = 25;
}

/// The exception that the standard module raises for the same code, with the same text and attributes.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let code = error.nearest_code();
    let text = match (error.sqlite_message(), error.statement_index()) {
        (Some(message), None) => message.to_string(),
        (Some(message), Some(index)) => format!("statement {index} of the batch: {message}"),
        (None, _) => error.to_string(),
    };
    let exception = if error.is_several_statements() {
        ProgrammingError::new_err("You can only execute one statement at a time.")
    } else if error.is_forked() {
        ProgrammingError::new_err(text)
    } else if error.is_timeout() {
        // Programs compare it with exactly this; why, is a note of the exception.
        LockTimeout::new_err("database is locked")
    } else if error.is_conflict() {
        ConflictError::new_err(text)
    } else {
        match code.map(Code::primary) {
            Some(primary::INTERNAL | primary::NOTFOUND) => InternalError::new_err(text),
            Some(primary::NOMEM) => return PyMemoryError::new_err(text),
            Some(primary::CORRUPT) => DatabaseError::new_err(text),
            // What the standard module says of a limit that it checks itself.
            Some(primary::TOOBIG) if text == "statement too long" => {
                DataError::new_err("query string is too large")
            }
            Some(primary::TOOBIG) => DataError::new_err(text),
            Some(primary::CONSTRAINT | primary::MISMATCH) => IntegrityError::new_err(text),
            Some(primary::MISUSE | primary::RANGE) => InterfaceError::new_err(text),
            // As SQLite's own text groups them: what is not the program's fault.
            Some(code) if is_operational(code) => OperationalError::new_err(text),
            Some(_) => DatabaseError::new_err(text),
            None => OperationalError::new_err(text),
        }
    };
    let value = exception.value(py);
    let attributes = || {
        if let Some(code) = code {
            value.setattr("sqlite_errorcode", code.0)?;
            value.setattr("sqlite_errorname", code.name())?;
        }
        if let Some(index) = error.statement_index() {
            value.setattr("statement_index", index)?;
        }
        if error.is_outcome_unknown() {
            value.setattr("outcome_unknown", true)?;
        }
        if error.is_timeout() {
            let reason = error.to_string();
            let reason = reason.strip_prefix("database is locked: ").unwrap_or(&reason);
            let thread =
                error.holder_thread().map(|it| thread_named(py, it)).transpose()?.flatten();
            let reason =
                thread.map_or(reason.to_string(), |it| format!("{reason} (the thread is {it})"));
            value.setattr("reason", &reason)?;
            // What `add_note` adds to, from Python 3.11 on.
            value.setattr("__notes__", [reason])?;
        }
        if let Some(conflict) = error.conflict() {
            value.setattr("statement", &conflict.statement)?;
            value.setattr("number", conflict.number)?;
            value.setattr("seen", &conflict.seen)?;
            value.setattr("now", &conflict.now)?;
            value.setattr("tables", &conflict.tables)?;
        }
        Ok(())
    };
    match attributes() {
        Ok(()) => exception,
        Err(failure) => failure,
    }
}

/// How Python calls the thread with this number of the system's.
fn thread_named(py: Python<'_>, number: i32) -> PyResult<Option<String>> {
    for thread in py.import("threading")?.call_method0("enumerate")?.try_iter()? {
        let thread = thread?;
        if thread.getattr("native_id")?.extract::<Option<i32>>()? == Some(number) {
            return thread.getattr("name")?.repr()?.extract().map(Some);
        }
    }
    Ok(None)
}

/// ERROR, PERM, ABORT, BUSY, LOCKED, READONLY, INTERRUPT, IOERR, FULL, CANTOPEN, PROTOCOL, EMPTY, SCHEMA.
fn is_operational(code: i32) -> bool {
    matches!(code, 1 | 3..=6 | 8..=10 | 13..=17)
}
