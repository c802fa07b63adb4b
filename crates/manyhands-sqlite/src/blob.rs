//! One value of a row, read and written in pieces (<https://sqlite.org/c3ref/blob_open.html>).
//!
//! An open handle is a running statement to SQLite: it holds a snapshot, or the write lock when it was
//! opened for writing, and outside a transaction what it wrote is committed when it is closed. Its length
//! never changes. When somebody on the same connection changes the row, or rolls back, the handle is
//! expired, and fails with `SQLITE_ABORT`.

use core::ffi::c_int;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};
use std::ffi::CString;
use std::sync::Arc;

use libsqlite3_sys as ffi;

use crate::handle::Handle;
use crate::{Connection, Error};

/// Which value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobPlace {
    /// `main`, `temp`, or the name of an attached database.
    pub schema: String,
    /// A table with rowids.
    pub table: String,
    /// A column that holds a BLOB or TEXT in this row.
    pub column: String,
    /// The row.
    pub rowid: i64,
}

/// An open value. It keeps its connection open.
#[derive(Debug)]
pub struct Blob {
    raw: NonNull<ffi::sqlite3_blob>,
    handle: Arc<Handle>,
}

// SAFETY: the connection is in serialized mode: any thread may use the blob, one at a time.
unsafe impl Send for Blob {}

impl Connection {
    /// Opens a value.
    ///
    /// # Errors
    /// When there is no such value, or it is not a BLOB or TEXT; when it cannot be locked.
    pub fn open_blob(&self, place: &BlobPlace, writable: bool) -> Result<Blob, Error> {
        let name = |text: &str| {
            CString::new(text).map_err(|_| Error::misuse("a name cannot contain a zero byte"))
        };
        let (schema, table, column) =
            (name(&place.schema)?, name(&place.table)?, name(&place.column)?);
        let mut raw = ptr::null_mut();
        // SAFETY: three zero-terminated names and a place for the result.
        let code = unsafe {
            ffi::sqlite3_blob_open(
                self.raw(),
                schema.as_ptr(),
                table.as_ptr(),
                column.as_ptr(),
                place.rowid,
                c_int::from(writable),
                &raw mut raw,
            )
        };
        self.check(code)?;
        let raw = NonNull::new(raw).ok_or_else(|| Error::from_code(ffi::SQLITE_NOMEM))?;
        Ok(Blob { raw, handle: self.handle() })
    }
}

impl Blob {
    fn raw(&self) -> *mut ffi::sqlite3_blob {
        self.raw.as_ptr()
    }

    fn check(&self, code: c_int) -> Result<(), Error> {
        if code == ffi::SQLITE_OK { Ok(()) } else { Err(self.handle.error(code)) }
    }

    /// True in a child that got this blob from its parent by `fork()`: it must not be used.
    pub fn is_inherited(&self) -> bool {
        self.handle.is_inherited()
    }

    /// Its length in bytes; 0 when it is expired.
    pub fn len(&self) -> usize {
        // SAFETY: the blob is open.
        unsafe { ffi::sqlite3_blob_bytes(self.raw()) }.unsigned_abs() as usize
    }

    /// True for a value without bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes from `offset` on into all of `buffer`.
    ///
    /// # Errors
    /// `SQLITE_ERROR` beyond the end, `SQLITE_ABORT` when the handle is expired.
    pub fn read(&mut self, offset: usize, buffer: &mut [u8]) -> Result<(), Error> {
        let (offset, count) = (c_size(offset)?, c_size(buffer.len())?);
        // SAFETY: the blob is open, and `count` bytes may be written to the buffer.
        let code = unsafe {
            ffi::sqlite3_blob_read(self.raw(), buffer.as_mut_ptr().cast(), count, offset)
        };
        self.check(code)
    }

    /// Writes `bytes` over those from `offset` on.
    ///
    /// # Errors
    /// `SQLITE_READONLY` when it was opened for reading; else as [`Blob::read`].
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let (offset, count) = (c_size(offset)?, c_size(bytes.len())?);
        // SAFETY: the blob is open, and `count` bytes lie there.
        let code =
            unsafe { ffi::sqlite3_blob_write(self.raw(), bytes.as_ptr().cast(), count, offset) };
        self.check(code)
    }

    /// Goes to the same column of another row.
    ///
    /// # Errors
    /// When there is no such row, or its value is not a BLOB or TEXT: then the handle is expired.
    pub fn reopen(&mut self, rowid: i64) -> Result<(), Error> {
        // SAFETY: the blob is open.
        let code = unsafe { ffi::sqlite3_blob_reopen(self.raw(), rowid) };
        self.check(code)
    }

    /// Closes it. Outside a transaction this commits what was written, if no other statement writes.
    ///
    /// # Errors
    /// As SQLite fails to commit, or as the last operation failed: then nothing is committed. It is closed all
    /// the same.
    pub fn close(self) -> Result<(), Error> {
        let blob = ManuallyDrop::new(self);
        // SAFETY: the blob is never used again, nor dropped, so that its handle is taken out once.
        let handle = unsafe { ptr::read(&raw const blob.handle) };
        if handle.is_inherited() {
            return Err(Error::misuse("this blob was opened before fork()"));
        }
        // SAFETY: the blob is open, and never used again.
        let code = unsafe { ffi::sqlite3_blob_close(blob.raw()) };
        if code == ffi::SQLITE_OK { Ok(()) } else { Err(handle.error(code)) }
    }
}

impl Drop for Blob {
    fn drop(&mut self) {
        if !self.handle.is_inherited() {
            // SAFETY: the blob is open, and never used again.
            unsafe { ffi::sqlite3_blob_close(self.raw()) };
        }
    }
}

fn c_size(size: usize) -> Result<c_int, Error> {
    c_int::try_from(size).map_err(|_| Error::from_code(ffi::SQLITE_TOOBIG))
}
