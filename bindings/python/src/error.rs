//! Errors, as the exceptions of the DB-API.

use manyhands::{Code, Error};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

pyo3::import_exception!(manyhands.errors, DatabaseError);
pyo3::import_exception!(manyhands.errors, DataError);
pyo3::import_exception!(manyhands.errors, IntegrityError);
pyo3::import_exception!(manyhands.errors, InterfaceError);
pyo3::import_exception!(manyhands.errors, InternalError);
pyo3::import_exception!(manyhands.errors, LockTimeout);
pyo3::import_exception!(manyhands.errors, OperationalError);
pyo3::import_exception!(manyhands.errors, ProgrammingError);

/// SQLite's primary result codes (<https://sqlite.org/rescode.html>).
mod primary {
    pub(super) const INTERNAL: i32 = 2;
    pub(super) const BUSY: i32 = 5;
    pub(super) const NOMEM: i32 = 7;
    pub(super) const INTERRUPT: i32 = 9;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const NOTFOUND: i32 = 12;
    pub(super) const TOOBIG: i32 = 18;
    pub(super) const CONSTRAINT: i32 = 19;
    pub(super) const MISMATCH: i32 = 20;
    pub(super) const MISUSE: i32 = 21;
    pub(super) const RANGE: i32 = 25;
    pub(super) const NOTADB: i32 = 26;
}

/// The exception that the standard module raises for the same code, with the same text and attributes.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let code = match error.code() {
        Some(code) => Some(code),
        None if error.is_timeout() => Some(Code(primary::BUSY)),
        None if error.is_interrupt() => Some(Code(primary::INTERRUPT)),
        None => None,
    };
    let text = match (error.sqlite_message(), error.statement_index()) {
        (Some(message), None) => message.to_string(),
        (Some(message), Some(index)) => format!("statement {index} of the batch: {message}"),
        (None, _) => error.to_string(),
    };
    let exception = if error.is_timeout() {
        LockTimeout::new_err(text)
    } else {
        match code.map(Code::primary) {
            Some(primary::INTERNAL | primary::NOTFOUND) => InternalError::new_err(text),
            Some(primary::NOMEM) => return PyMemoryError::new_err(text),
            Some(primary::CORRUPT | primary::NOTADB) => DatabaseError::new_err(text),
            Some(primary::TOOBIG) => DataError::new_err(text),
            Some(primary::CONSTRAINT | primary::MISMATCH) => IntegrityError::new_err(text),
            Some(primary::MISUSE) => InterfaceError::new_err(text),
            // A wrong number of values: the standard module counts them itself.
            Some(primary::RANGE) => ProgrammingError::new_err(text),
            _ => OperationalError::new_err(text),
        }
    };
    let value = exception.value(py);
    let attributes = || {
        if let Some(code) = code {
            value.setattr("sqlite_errorcode", code.0)?;
            value.setattr("sqlite_errorname", code.name())?;
        }
        value.setattr("statement_index", error.statement_index())?;
        value.setattr("outcome_unknown", error.is_outcome_unknown())
    };
    match attributes() {
        Ok(()) => exception,
        Err(failure) => failure,
    }
}
