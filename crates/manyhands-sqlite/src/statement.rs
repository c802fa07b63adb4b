//! A prepared statement.

use core::ffi::{CStr, c_int};
use core::ptr::NonNull;
use std::sync::Arc;

use libsqlite3_sys as ffi;

use crate::handle::{Handle, Held};
use crate::value::{Value, ValueRef};
use crate::{Code, Error};

/// What a step of a statement came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A row is there to be read.
    Row,
    /// The statement has ended.
    Done,
}

/// A compiled SQL statement. It keeps its connection open.
#[derive(Debug)]
pub struct Statement {
    raw: NonNull<ffi::sqlite3_stmt>,
    handle: Arc<Handle>,
    replanned: bool,
}

// SAFETY: the connection was opened in serialized mode (SQLITE_OPEN_FULLMUTEX), in which statements
// may be used by any thread, and by one at a time: every use takes `&mut` or reads constants.
unsafe impl Send for Statement {}

impl Statement {
    pub(crate) fn new(raw: NonNull<ffi::sqlite3_stmt>, handle: Arc<Handle>) -> Statement {
        Statement { raw, handle, replanned: false }
    }

    fn raw(&self) -> *mut ffi::sqlite3_stmt {
        self.raw.as_ptr()
    }

    /// SQLite's own statement, for a driver that calls SQLite with it. It is alive as long as this value, and belongs to it.
    pub fn as_ptr(&self) -> *mut ffi::sqlite3_stmt {
        self.raw()
    }

    fn check(&self, code: c_int) -> Result<(), Error> {
        if code == ffi::SQLITE_OK { Ok(()) } else { Err(self.handle.error(code)) }
    }

    /// Binds a value to a parameter; the first has index 1.
    ///
    /// # Errors
    /// `SQLITE_RANGE` when the statement has no such parameter, `SQLITE_TOOBIG` when the value is
    /// longer than SQLite allows.
    pub fn bind(&mut self, index: usize, value: ValueRef<'_>) -> Result<(), Error> {
        let index = c_int::try_from(index).unwrap_or(c_int::MAX);
        let raw = self.raw();
        let code = match value {
            // SAFETY: the statement is alive.
            ValueRef::Null => unsafe { ffi::sqlite3_bind_null(raw, index) },
            // SAFETY: the statement is alive.
            ValueRef::Integer(number) => unsafe { ffi::sqlite3_bind_int64(raw, index, number) },
            // SAFETY: the statement is alive.
            ValueRef::Real(number) => unsafe { ffi::sqlite3_bind_double(raw, index, number) },
            // SAFETY: the statement is alive, and SQLite copies the bytes before it returns.
            ValueRef::Text(bytes) => unsafe {
                ffi::sqlite3_bind_text64(
                    raw,
                    index,
                    bytes.as_ptr().cast(),
                    bytes.len() as u64,
                    ffi::SQLITE_TRANSIENT(),
                    ffi::SQLITE_UTF8 as u8,
                )
            },
            // A null pointer would bind NULL: an empty slice's pointer is not null.
            // SAFETY: the statement is alive, and SQLite copies the bytes before it returns.
            ValueRef::Blob(bytes) => unsafe {
                ffi::sqlite3_bind_blob64(
                    raw,
                    index,
                    bytes.as_ptr().cast(),
                    bytes.len() as u64,
                    ffi::SQLITE_TRANSIENT(),
                )
            },
        };
        self.check(code)
    }

    /// Runs the statement to its next row, or to its end.
    ///
    /// # Errors
    /// As SQLite fails, with its extended code and message. The statement is reset then.
    pub fn step(&mut self) -> Result<Step, Error> {
        // SAFETY: the statement is alive.
        match unsafe { ffi::sqlite3_step(self.raw()) } {
            ffi::SQLITE_ROW => Ok(Step::Row),
            ffi::SQLITE_DONE => Ok(Step::Done),
            code => {
                let error = self.handle.error(code);
                self.reset();
                Err(error)
            }
        }
    }

    /// Makes calls from other threads to its connection wait, see [`crate::Connection::hold`].
    pub fn hold(&self) -> Held {
        Held::of(&self.handle)
    }

    /// True in a child that got this statement from its parent by `fork()`: it must not be used.
    pub fn is_inherited(&self) -> bool {
        self.handle.is_inherited()
    }

    /// Ends the execution, so that the statement can be bound and run again.
    pub fn reset(&mut self) {
        if self.is_inherited() {
            // It would give back locks through descriptors that are others' by now.
            return;
        }
        // The result repeats the error of the last step.
        // SAFETY: the statement is alive.
        unsafe { ffi::sqlite3_reset(self.raw()) };
    }

    /// A column of the current row; the first has index 0. NULL when there is no such column or row.
    pub fn column(&self, index: usize) -> ValueRef<'_> {
        let raw = self.raw();
        let index = c_int::try_from(index).unwrap_or(c_int::MAX);
        // SAFETY: the statement is alive; an index that does not exist reads as NULL.
        match unsafe { ffi::sqlite3_column_type(raw, index) } {
            ffi::SQLITE_INTEGER => {
                // SAFETY: the statement is alive, and has this column in its row.
                let number = unsafe { ffi::sqlite3_column_int64(raw, index) };
                ValueRef::Integer(number)
            }
            ffi::SQLITE_FLOAT => {
                // SAFETY: the statement is alive, and has this column in its row.
                let number = unsafe { ffi::sqlite3_column_double(raw, index) };
                ValueRef::Real(number)
            }
            ffi::SQLITE_TEXT => {
                // SAFETY: the statement is alive, and has this column in its row.
                let bytes = unsafe { ffi::sqlite3_column_text(raw, index) };
                // SAFETY: the address that SQLite has just given for this column.
                ValueRef::Text(unsafe { self.bytes(index, bytes) })
            }
            ffi::SQLITE_BLOB => {
                // SAFETY: the statement is alive, and has this column in its row.
                let bytes = unsafe { ffi::sqlite3_column_blob(raw, index) };
                // SAFETY: the address that SQLite has just given for this column.
                ValueRef::Blob(unsafe { self.bytes(index, bytes.cast()) })
            }
            _ => ValueRef::Null,
        }
    }

    /// A copy of the current row's values.
    pub fn row(&self) -> Vec<Value> {
        (0..self.column_count()).map(|index| self.column(index).to_owned()).collect()
    }

    /// The bytes of a TEXT or BLOB column. They stay until the next step or reset, which need `&mut self`, or a conversion.
    /// To ask again for the column in its own type converts nothing; no other thread does meanwhile, since the statement is
    /// not `Sync`.
    ///
    /// # Safety
    /// `address` is what SQLite has said last of where they are.
    unsafe fn bytes(&self, index: c_int, address: *const u8) -> &[u8] {
        // SAFETY: the statement is alive.
        let count = unsafe { ffi::sqlite3_column_bytes(self.raw(), index) };
        if address.is_null() || count <= 0 {
            return &[];
        }
        // SAFETY: SQLite says that so many bytes lie there, until the statement is next changed.
        unsafe { core::slice::from_raw_parts(address, count.unsigned_abs() as usize) }
    }

    /// How many columns a row has; 0 for a statement without rows.
    pub fn column_count(&self) -> usize {
        // SAFETY: the statement is alive.
        unsafe { ffi::sqlite3_column_count(self.raw()) }.unsigned_abs() as usize
    }

    /// The name of a column.
    pub fn column_name(&self, index: usize) -> Option<String> {
        let index = c_int::try_from(index).ok()?;
        // SAFETY: the statement is alive; an index that does not exist gives null.
        let name = unsafe { ffi::sqlite3_column_name(self.raw(), index) };
        if name.is_null() {
            return None;
        }
        // SAFETY: a zero-terminated text that lives until the statement is next compiled or asked.
        Some(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }

    /// The type that a column was declared with; `None` for an expression, and when none was given.
    pub fn declared_type(&self, index: usize) -> Option<String> {
        let index = c_int::try_from(index).ok()?;
        // SAFETY: the statement is alive; an index that does not exist gives null.
        let name = unsafe { ffi::sqlite3_column_decltype(self.raw(), index) };
        if name.is_null() {
            return None;
        }
        // SAFETY: a zero-terminated text that lives until the statement is next compiled or asked.
        Some(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }

    /// The statement's text with the bound values in the places of its parameters; `None` when that is longer
    /// than SQLite's limit for texts.
    pub fn expanded_sql(&self) -> Option<String> {
        // SAFETY: the statement is alive.
        unsafe { crate::callbacks::expanded_sql(self.raw()) }
    }

    /// How often SQLite has compiled the statement again: because the schema had changed, then its columns may be others;
    /// or because of the values that were bound ([`Statement::is_replanned`]).
    pub fn recompilations(&self) -> u32 {
        // SAFETY: the statement is alive; 0 leaves the counter as it is.
        let count =
            unsafe { ffi::sqlite3_stmt_status(self.raw(), ffi::SQLITE_STMTSTATUS_REPREPARE, 0) };
        count.unsigned_abs()
    }

    /// Whether SQLite is going to compile the statement again when it is next stepped, whatever the schema is in the
    /// file then: a change of the schema was rolled back, a function was registered, it did not compile the last time,
    /// a value was bound that may make another plan better.
    /// What SQLite finds wrong with it then may be wrong with the schema that it read last, and with that one only.
    pub fn is_expired(&self) -> bool {
        // SAFETY: the statement is alive.
        unsafe { ffi::sqlite3_expired(self.raw()) != 0 }
    }

    /// The index of the highest parameter.
    pub fn parameter_count(&self) -> usize {
        // SAFETY: the statement is alive.
        unsafe { ffi::sqlite3_bind_parameter_count(self.raw()) }.unsigned_abs() as usize
    }

    /// The parameters' names, with the sign before them; `None` for a plain `?`.
    pub fn parameter_names(&self) -> Vec<Option<String>> {
        let name = |index: usize| {
            let index = c_int::try_from(index).ok()?;
            // SAFETY: the statement is alive; an index without a name gives null.
            let name = unsafe { ffi::sqlite3_bind_parameter_name(self.raw(), index) };
            if name.is_null() {
                return None;
            }
            // SAFETY: a zero-terminated text that lives as long as the statement.
            Some(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
        };
        (1..=self.parameter_count()).map(name).collect()
    }

    /// True when the statement does not write to a database file
    /// (<https://sqlite.org/c3ref/stmt_readonly.html>).
    pub fn is_read_only(&self) -> bool {
        // SAFETY: the statement is alive.
        unsafe { ffi::sqlite3_stmt_readonly(self.raw()) != 0 }
    }

    /// True for EXPLAIN and EXPLAIN QUERY PLAN.
    pub fn is_explain(&self) -> bool {
        // SAFETY: the statement is alive.
        unsafe { ffi::sqlite3_stmt_isexplain(self.raw()) != 0 }
    }

    /// Binds `values` to the parameters 1, 2, …
    ///
    /// # Errors
    /// `SQLITE_RANGE` when there are not as many parameters as values; else as [`Statement::bind`].
    pub fn bind_all<'v>(
        &mut self,
        values: impl ExactSizeIterator<Item = ValueRef<'v>>,
    ) -> Result<(), Error> {
        let (given, wanted) = (values.len(), self.parameter_count());
        if given != wanted {
            return Err(Error {
                code: Code::RANGE,
                message: format!(
                    "the statement has {wanted} parameters, {given} values were given"
                ),
            });
        }
        for (index, value) in values.enumerate() {
            self.bind(index + 1, value)?;
        }
        self.replanned = self.is_expired();
        Ok(())
    }

    /// Whether SQLite compiles the statement again because of the values that [`Statement::bind_all`] has bound last:
    /// it looks for the plan that is best with these (<https://sqlite.org/c3ref/prepare.html>).
    pub fn is_replanned(&self) -> bool {
        self.replanned
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        if self.handle.is_inherited() {
            return;
        }
        // SAFETY: the statement is alive, and never used again.
        unsafe { ffi::sqlite3_finalize(self.raw()) };
    }
}
