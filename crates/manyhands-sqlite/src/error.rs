//! What SQLite answers when it cannot.

use core::ffi::{CStr, c_int};
use std::fmt;

use libsqlite3_sys as ffi;

use crate::codes::CODES;

/// SQLite's extended result code (<https://sqlite.org/rescode.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code(pub i32);

impl Code {
    /// A lock is held by somebody else.
    pub const BUSY: Code = Code(ffi::SQLITE_BUSY);
    /// What a transaction has read is no longer the newest, so that it cannot write.
    pub const BUSY_SNAPSHOT: Code = Code(ffi::SQLITE_BUSY_SNAPSHOT);
    /// A file cannot be opened.
    pub const CANTOPEN: Code = Code(ffi::SQLITE_CANTOPEN);
    /// A disk has no room left.
    pub const FULL: Code = Code(ffi::SQLITE_FULL);
    /// The database was moved, and cannot be written any more.
    pub const READONLY_DBMOVED: Code = Code(ffi::SQLITE_READONLY_DBMOVED);
    /// The operating system refused to sync.
    pub const IOERR_FSYNC: Code = Code(ffi::SQLITE_IOERR_FSYNC);
    /// The operating system refused a lock.
    pub const IOERR_LOCK: Code = Code(ffi::SQLITE_IOERR_LOCK);
    /// The application has interrupted the statement.
    pub const INTERRUPT: Code = Code(ffi::SQLITE_INTERRUPT);

    /// The statement itself fails: the message says why.
    pub const ERROR: Code = Code(ffi::SQLITE_ERROR);

    /// What the operation worked on is gone: a row was changed, or a transaction rolled back.
    pub const ABORT: Code = Code(ffi::SQLITE_ABORT);
    /// Somebody else's error has rolled back the transaction.
    pub const ABORT_ROLLBACK: Code = Code(ffi::SQLITE_ABORT_ROLLBACK);

    /// A value is larger than the connection's limit.
    pub const TOOBIG: Code = Code(ffi::SQLITE_TOOBIG);

    /// A statement has no parameter of this number.
    pub const RANGE: Code = Code(ffi::SQLITE_RANGE);

    /// A foreign key is violated.
    pub const CONSTRAINT_FOREIGNKEY: Code = Code(ffi::SQLITE_CONSTRAINT_FOREIGNKEY);

    /// True for an error that says something of the data and the statement; false for one that says that
    /// the system, or a lock, or an interrupt was in the way.
    pub fn is_result(self) -> bool {
        matches!(
            self.primary(),
            ffi::SQLITE_ERROR
                | ffi::SQLITE_CONSTRAINT
                | ffi::SQLITE_MISMATCH
                | ffi::SQLITE_TOOBIG
                | ffi::SQLITE_RANGE
                | ffi::SQLITE_AUTH
        )
    }

    /// `SQLITE_IOERR_WRITE`: also the error of a speculative transaction that does not fit into memory.
    pub fn is_failed_write(self) -> bool {
        self.0 == ffi::SQLITE_IOERR_WRITE
    }

    /// The primary code: the lowest eight bits.
    pub fn primary(self) -> i32 {
        self.0 & 0xFF
    }

    /// `SQLITE_ERROR` itself: what compiling fails with, and an expression's error.
    pub fn is_plain(self) -> bool {
        self.0 == ffi::SQLITE_ERROR
    }

    /// `SQLITE_BUSY` with any extended code: a lock is held by another connection.
    pub fn is_busy(self) -> bool {
        self.primary() == ffi::SQLITE_BUSY
    }

    /// `SQLITE_BUSY` itself: somebody else held a lock for too long. (Its kin say something else:
    /// `SQLITE_BUSY_SNAPSHOT`, for example, that a transaction has read and cannot write any more.)
    pub fn is_lock_held(self) -> bool {
        self.0 == ffi::SQLITE_BUSY
    }

    /// `SQLITE_CANTOPEN` and its extended codes.
    pub fn is_cannot_open(self) -> bool {
        self.primary() == ffi::SQLITE_CANTOPEN
    }

    /// `SQLITE_IOERR` and its extended codes.
    pub fn is_io_error(self) -> bool {
        self.primary() == ffi::SQLITE_IOERR
    }

    /// `SQLITE_INTERRUPT`.
    pub fn is_interrupt(self) -> bool {
        self.primary() == ffi::SQLITE_INTERRUPT
    }

    /// `SQLITE_CONSTRAINT` with any extended code.
    pub fn is_constraint(self) -> bool {
        self.primary() == ffi::SQLITE_CONSTRAINT
    }

    /// A sync that failed: what was written may or may not be on the disk.
    pub fn is_failed_sync(self) -> bool {
        self.0 == ffi::SQLITE_IOERR_FSYNC || self.0 == ffi::SQLITE_IOERR_DIR_FSYNC
    }

    /// All codes with their names, in the order of SQLite's documentation.
    pub fn all() -> impl Iterator<Item = (Code, &'static str)> {
        CODES.iter().map(|(code, name)| (Code(*code), *name))
    }

    /// The code's name in SQLite's documentation, of the primary code where it has none of its own.
    pub fn name(self) -> &'static str {
        let find = |code| CODES.iter().find(|(number, _)| *number == code).map(|(_, name)| *name);
        find(self.0).or_else(|| find(self.primary())).unwrap_or("SQLITE_UNKNOWN")
    }
}

/// An error of SQLite: its extended code and its message, unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// SQLite's extended result code.
    pub code: Code,
    /// SQLite's message.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code.name())
    }
}

impl std::error::Error for Error {}

impl Error {
    /// An error with SQLite's general text for `code`.
    pub fn from_code(code: c_int) -> Error {
        // SAFETY: has no preconditions; the text is static and zero-terminated.
        let text = unsafe { ffi::sqlite3_errstr(code) };
        // SAFETY: a static text that ends with a zero byte: SQLite has one for every number.
        let text = unsafe { CStr::from_ptr(text) };
        Error { code: Code(code), message: text.to_string_lossy().into_owned() }
    }

    /// An error that this crate detected in SQLite's place.
    pub fn misuse(message: &str) -> Error {
        Error { code: Code(ffi::SQLITE_MISUSE), message: message.to_string() }
    }

    /// The last error of a connection, whose call returned `code`.
    ///
    /// # Safety
    /// `handle` is an open connection.
    pub(crate) unsafe fn of_connection(handle: *mut ffi::sqlite3, code: c_int) -> Error {
        // SAFETY: the caller has promised an open connection.
        let extended = unsafe { ffi::sqlite3_extended_errcode(handle) };
        if extended & 0xFF != code & 0xFF {
            // The connection remembers something else: a call that does not record its error.
            return Error::from_code(code);
        }
        // SAFETY: the caller has promised an open connection.
        let message = unsafe { ffi::sqlite3_errmsg(handle) };
        // SAFETY: a zero-terminated text that lives until the next call on this connection.
        let message = unsafe { CStr::from_ptr(message) };
        Error { code: Code(extended), message: message.to_string_lossy().into_owned() }
    }
}
