//! Exceptions: which class a result code of SQLite's becomes, and what it is told.

use magnus::value::ReprValue;
use magnus::{Class, Error, Exception, ExceptionClass, IntoValue, Module, RModule, Ruby, Value};

use crate::ffi::{self, sqlite};

/// The name of the class of a code; its lower eight bits count.
fn class_name(code: i32) -> &'static str {
    match code & 0xff {
        ffi::SQLITE_ERROR => "SQLException",
        ffi::SQLITE_INTERNAL => "InternalException",
        ffi::SQLITE_PERM => "PermissionException",
        ffi::SQLITE_ABORT => "AbortException",
        ffi::SQLITE_BUSY => "BusyException",
        ffi::SQLITE_LOCKED => "LockedException",
        ffi::SQLITE_NOMEM => "MemoryException",
        ffi::SQLITE_READONLY => "ReadOnlyException",
        ffi::SQLITE_INTERRUPT => "InterruptException",
        ffi::SQLITE_IOERR => "IOException",
        ffi::SQLITE_CORRUPT => "CorruptException",
        ffi::SQLITE_NOTFOUND => "NotFoundException",
        ffi::SQLITE_FULL => "FullException",
        ffi::SQLITE_CANTOPEN => "CantOpenException",
        ffi::SQLITE_PROTOCOL => "ProtocolException",
        ffi::SQLITE_EMPTY => "EmptyException",
        ffi::SQLITE_SCHEMA => "SchemaChangedException",
        ffi::SQLITE_TOOBIG => "TooBigException",
        ffi::SQLITE_CONSTRAINT => "ConstraintException",
        ffi::SQLITE_MISMATCH => "MismatchException",
        ffi::SQLITE_MISUSE => "MisuseException",
        ffi::SQLITE_NOLFS => "UnsupportedException",
        ffi::SQLITE_AUTH => "AuthorizationException",
        ffi::SQLITE_FORMAT => "FormatException",
        ffi::SQLITE_RANGE => "RangeException",
        ffi::SQLITE_NOTADB => "NotADatabaseException",
        _ => "Exception",
    }
}

/// The class of this name, which `lib/manyhands/errors.rb` defines.
fn class(ruby: &Ruby, name: &str) -> Result<ExceptionClass, Error> {
    let module: RModule = ruby.class_object().const_get("Manyhands")?;
    module.const_get(name)
}

/// What a call of SQLite's has failed with.
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) text: String,
    /// The statement that did not compile, and where; -1 if SQLite does not know.
    pub(crate) sql: Option<(String, i32)>,
}

impl Failure {
    /// Takes the text that SQLite has made for the caller, if it has.
    pub(crate) fn take_text(&mut self, text: *mut ffi::c_char) {
        if text.is_null() {
            return;
        }
        // SAFETY: a zero-terminated text.
        self.text = unsafe { core::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned();
        sqlite!(sqlite3_free(text.cast()));
    }

    pub(crate) fn raise(self, ruby: &Ruby) -> Error {
        self.exception(ruby).map_or_else(|error| error, Error::from)
    }

    fn exception(self, ruby: &Ruby) -> Result<Exception, Error> {
        let class = class(ruby, class_name(self.code))?;
        let exception: Exception = class.new_instance((self.text,))?;
        set(exception, "@code", self.code)?;
        if let Some((sql, offset)) = self.sql {
            set(exception, "@sql", sql)?;
            set(exception, "@sql_offset", offset)?;
        }
        Ok(exception)
    }
}

fn set(exception: Exception, name: &str, value: impl IntoValue) -> Result<(), Error> {
    let _: Value = exception.funcall("instance_variable_set", (name, value))?;
    Ok(())
}

/// An exception without a code: something that SQLite was not asked.
pub(crate) fn refusal(ruby: &Ruby, text: &'static str) -> Error {
    match class(ruby, "Exception") {
        Ok(class) => Error::new(class, text),
        Err(error) => error,
    }
}
