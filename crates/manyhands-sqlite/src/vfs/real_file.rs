//! A file of SQLite's own unix VFS, as the shim calls it.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use libsqlite3_sys as ffi;

use super::wal_appends::Target;
use crate::locks::{self, Status};
use crate::planted::planted;

/// The largest page: the unix VFS takes no more than twice as much at once, less a byte (`seekAndWriteFd` in os_unix.c).
const WRITE_BYTES_MAX: usize = 64 << 10;

/// An open file of the default VFS. Its methods take the arguments of SQLite's, and return its codes
/// (<https://sqlite.org/c3ref/io_methods.html>).
#[derive(Clone, Copy, Debug)]
pub(crate) struct RealFile(NonNull<ffi::sqlite3_file>);

/// Calls a method of the file's.
macro_rules! call {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let file: RealFile = $file;
        let method = file.methods().$method.expect("the unix VFS has all methods of version 3");
        // SAFETY: the file is open, and in nobody else's hands, as `RealFile::of` demands. Each pointer among the arguments
        // is of a reference that the function around this has, or that function is unsafe and demands that it is good.
        unsafe { method(file.0.as_ptr() $(, $argument)*) }
    }};
}

impl RealFile {
    /// # Safety
    /// `file` is open, of the default VFS, and stays so for as long as the result or a copy of it is used; and that is
    /// only under the mutex of the connection whose file it is.
    pub(super) unsafe fn of(file: NonNull<ffi::sqlite3_file>) -> RealFile {
        RealFile(file)
    }

    #[cfg(test)]
    pub(super) fn as_ptr(self) -> *mut ffi::sqlite3_file {
        self.0.as_ptr()
    }

    pub(super) fn methods(self) -> &'static ffi::sqlite3_io_methods {
        // SAFETY: `RealFile::of` demands that the file is open, and an open file has its methods.
        let methods = unsafe { (*self.0.as_ptr()).pMethods };
        // SAFETY: the unix VFS's tables are static, and never change.
        unsafe { &*methods }
    }

    /// # Safety
    /// Neither the file is used any more, nor what [`RealFile::shm_map`] has given of it.
    pub(super) unsafe fn close(self) -> c_int {
        call!(self, xClose)
    }

    pub(super) fn read(self, bytes: &mut [MaybeUninit<u8>], offset: i64) -> c_int {
        call!(self, xRead, bytes.as_mut_ptr().cast(), bytes.len() as c_int, offset)
    }

    pub(super) fn write(self, bytes: &[u8], offset: i64) -> c_int {
        call!(self, xWrite, bytes.as_ptr().cast(), bytes.len() as c_int, offset)
    }

    pub(super) fn truncate(self, bytes: i64) -> c_int {
        call!(self, xTruncate, bytes)
    }

    pub(super) fn sync(self, flags: c_int) -> c_int {
        let code = call!(self, xSync, flags);
        if planted("failed-sync-succeeds") { ffi::SQLITE_OK } else { code }
    }

    /// How long it is, in bytes.
    pub(super) fn size(self) -> Result<i64, c_int> {
        let mut bytes = 0;
        match call!(self, xFileSize, &raw mut bytes) {
            ffi::SQLITE_OK => Ok(bytes),
            code => Err(code),
        }
    }

    /// What the kernel says of it: the unix VFS asks fstat for a file's size, so this is of its own descriptor.
    pub(super) fn status(self) -> Option<Status> {
        locks::status_asked_in(|| {
            let _ = self.size();
        })
    }

    pub(super) fn lock(self, level: c_int) -> c_int {
        call!(self, xLock, level)
    }

    pub(super) fn unlock(self, level: c_int) -> c_int {
        call!(self, xUnlock, level)
    }

    /// Whether somebody holds a RESERVED lock: 0 or 1.
    pub(super) fn check_reserved_lock(self) -> Result<c_int, c_int> {
        let mut held = 0;
        match call!(self, xCheckReservedLock, &raw mut held) {
            ffi::SQLITE_OK => Ok(held),
            code => Err(code),
        }
    }

    /// # Safety
    /// `argument` is what the operation takes (<https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html>).
    pub(super) unsafe fn file_control(self, operation: c_int, argument: *mut c_void) -> c_int {
        call!(self, xFileControl, operation, argument)
    }

    pub(super) fn sector_size(self) -> c_int {
        call!(self, xSectorSize)
    }

    pub(super) fn device_characteristics(self) -> c_int {
        call!(self, xDeviceCharacteristics)
    }

    /// The address of a region of the wal-index comes with the code. It may be there although the code is that of an
    /// error: that of a -shm file that can only be read.
    pub(super) fn shm_map(
        self,
        region: c_int,
        bytes: c_int,
        extend: c_int,
    ) -> (c_int, *mut c_void) {
        let mut address = ptr::null_mut();
        let code = call!(self, xShmMap, region, bytes, extend, &raw mut address);
        (code, address)
    }

    pub(super) fn shm_lock(self, offset: c_int, count: c_int, flags: c_int) -> c_int {
        call!(self, xShmLock, offset, count, flags)
    }

    pub(super) fn shm_barrier(self) {
        call!(self, xShmBarrier);
    }

    /// # Safety
    /// What [`RealFile::shm_map`] has given of it is not used any more.
    pub(super) unsafe fn shm_unmap(self, delete: c_int) -> c_int {
        call!(self, xShmUnmap, delete)
    }
}

impl Target for RealFile {
    fn write(&self, bytes: &[u8], offset: i64) -> c_int {
        let mut at = offset;
        for piece in bytes.chunks(WRITE_BYTES_MAX) {
            let code = RealFile::write(*self, piece, at);
            if code != ffi::SQLITE_OK {
                return code;
            }
            at += piece.len() as i64;
        }
        ffi::SQLITE_OK
    }

    fn length(&self) -> Option<i64> {
        self.size().ok()
    }
}
