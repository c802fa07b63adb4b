//! The -wal file of an open connection, looked into and changed behind SQLite's back.
//!
//! What must hold: the caller's connection holds the write lock, so that nobody else writes the file.
//! Readers look only at frames that the wal-index covers.

use core::ptr;

use libsqlite3_sys as ffi;

use crate::Error;
use crate::vfs::{self, FRAME_HEADER_BYTES, MAIN, METHODS};

/// The -wal file's object; `None` when the connection has none of the shim's.
///
/// # Safety
/// `handle` is an open connection that was opened through the shim.
unsafe fn file_of(handle: *mut ffi::sqlite3) -> Option<*mut ffi::sqlite3_file> {
    let mut wal: *mut ffi::sqlite3_file = ptr::null_mut();
    // SAFETY: the connection is open, says the caller; SQLite stores one pointer.
    let code = unsafe {
        ffi::sqlite3_file_control(
            handle,
            MAIN,
            ffi::SQLITE_FCNTL_JOURNAL_POINTER,
            (&raw mut wal).cast(),
        )
    };
    // SAFETY: a file object of this connection, open or zeroed.
    let is_ours = || ptr::eq(unsafe { (*wal).pMethods }, &METHODS);
    // A URI can name another VFS, whose files are none of ours.
    (code == ffi::SQLITE_OK && !wal.is_null() && is_ours()).then_some(wal)
}

/// Reads a frame's header; `None` when the file ends before it.
///
/// # Safety
/// `handle` is an open connection that was opened through the shim.
pub(crate) unsafe fn read_frame_header(
    handle: *mut ffi::sqlite3,
    offset: u64,
) -> Result<Option<[u8; FRAME_HEADER_BYTES]>, Error> {
    // SAFETY: as the caller says.
    let Some(wal) = (unsafe { file_of(handle) }) else { return Ok(None) };
    let mut header = [0; FRAME_HEADER_BYTES];
    let read = METHODS.xRead.expect("the shim has all methods");
    let (count, offset) = (FRAME_HEADER_BYTES as i32, offset.cast_signed());
    // SAFETY: an open file of the shim, and a buffer of the length given.
    let code = unsafe { read(wal, header.as_mut_ptr().cast(), count, offset) };
    match code {
        ffi::SQLITE_OK => Ok(Some(header)),
        ffi::SQLITE_IOERR_SHORT_READ => Ok(None),
        // What cannot be read may be there.
        code => Err(Error::from_code(code)),
    }
}

/// Overwrites a frame's header with zeros: no recovery finds the frame, nor one behind it.
///
/// # Safety
/// `handle` is an open connection that was opened through the shim.
pub(crate) unsafe fn erase_frame_header(
    handle: *mut ffi::sqlite3,
    offset: u64,
) -> Result<(), Error> {
    // SAFETY: as the caller says.
    let wal = unsafe { file_of(handle) };
    let wal = wal.ok_or_else(|| Error::misuse("the connection has no WAL to erase from"))?;
    let header = [0_u8; FRAME_HEADER_BYTES];
    let write = METHODS.xWrite.expect("the shim has all methods");
    let (count, offset) = (FRAME_HEADER_BYTES as i32, offset.cast_signed());
    // SAFETY: an open file of the shim, and a buffer of the length given.
    let code = match unsafe { write(wal, header.as_ptr().cast(), count, offset) } {
        ffi::SQLITE_OK => vfs::flush(wal),
        code => code,
    };
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(Error::from_code(code)) }
}

/// Syncs the file, if there is one.
///
/// # Safety
/// `handle` is an open connection that was opened through the shim.
pub(crate) unsafe fn sync(handle: *mut ffi::sqlite3) -> Result<(), Error> {
    // SAFETY: as the caller says.
    let Some(wal) = (unsafe { file_of(handle) }) else { return Ok(()) };
    let sync = METHODS.xSync.expect("the shim has all methods");
    // SAFETY: an open file of the shim.
    let code = unsafe { sync(wal, ffi::SQLITE_SYNC_NORMAL) };
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(Error::from_code(code)) }
}
