//! A file of SQLite's own unix VFS, as the shim calls it of its own accord.

use core::ffi::c_int;

use libsqlite3_sys as ffi;

use crate::wal_appends::WalFile;

/// The largest page: the unix VFS takes no more than twice as much at once, less a byte (`seekAndWriteFd` in os_unix.c).
const WRITE_BYTES_MAX: usize = 64 << 10;

/// An open file of the default VFS. It must be dropped before SQLite closes the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RealFile(pub(crate) *mut ffi::sqlite3_file);

impl RealFile {
    pub(crate) fn methods(self) -> &'static ffi::sqlite3_io_methods {
        // SAFETY: an open file has its methods.
        let methods = unsafe { (*self.0).pMethods };
        // SAFETY: a static table.
        unsafe { &*methods }
    }

    /// Syncs it; true when that succeeds.
    pub(crate) fn sync(self) -> bool {
        let sync = self.methods().xSync.expect("the unix VFS can sync");
        // SAFETY: an open file.
        let code = unsafe { sync(self.0, ffi::SQLITE_SYNC_NORMAL) };
        code == ffi::SQLITE_OK
    }
}

impl WalFile for RealFile {
    fn write(&self, bytes: &[u8], offset: i64) -> c_int {
        let write = self.methods().xWrite.expect("the unix VFS can write");
        let mut at = offset;
        for piece in bytes.chunks(WRITE_BYTES_MAX) {
            // SAFETY: an open file, and a buffer of the length given.
            let code = unsafe { write(self.0, piece.as_ptr().cast(), piece.len() as c_int, at) };
            if code != ffi::SQLITE_OK {
                return code;
            }
            at += piece.len() as i64;
        }
        ffi::SQLITE_OK
    }

    fn length(&self) -> Option<i64> {
        let file_size = self.methods().xFileSize.expect("the unix VFS knows sizes");
        let mut size = 0;
        // SAFETY: an open file, and a place for a number.
        let code = unsafe { file_size(self.0, &raw mut size) };
        (code == ffi::SQLITE_OK).then_some(size)
    }
}
