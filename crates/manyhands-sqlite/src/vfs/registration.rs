//! The shim as one of SQLite's VFSes: how it is made known, and how it opens files.
//!
//! A file of the shim is a struct of its own, and behind it the file of the default VFS, in memory of SQLite's.

use core::ffi::{CStr, c_int};
use core::mem::{align_of, size_of};
use core::ptr::{self, NonNull};
use std::sync::Once;

use libsqlite3_sys as ffi;

use super::database_file::DatabaseFile;
use super::methods::{DATABASE_METHODS, WAL_METHODS};
use super::real_file::RealFile;
use super::wal_file::{DatabaseLink, WalFile};
use crate::default_vfs::Vfs;
use crate::{locks, pinned};

/// The shim's name among SQLite's VFSes.
pub const NAME: &CStr = c"manyhands";

/// Where the real file begins: behind the larger of the two structs.
const SHIM_BYTES: usize = if size_of::<DatabaseFile>() > size_of::<WalFile>() {
    size_of::<DatabaseFile>()
} else {
    size_of::<WalFile>()
};

// SQLite aligns a file to 8 bytes, and the real one needs the alignment of a pointer.
const _: () = assert!(SHIM_BYTES.is_multiple_of(8));
const _: () = assert!(align_of::<DatabaseFile>() <= 8 && align_of::<WalFile>() <= 8);

/// Makes the shim known to SQLite. Calls after the first do nothing.
pub fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: SQLite never frees a VFS of its own. A copy keeps the default's own data and methods, of which only opening
        // and the clock differ.
        let mut shim = Box::new(unsafe { Vfs::default().as_ptr().read() });
        shim.zName = NAME.as_ptr();
        shim.szOsFile += SHIM_BYTES as c_int;
        shim.xOpen = Some(open);
        shim.xCurrentTime = Some(pinned::current_time);
        shim.xCurrentTimeInt64 = Some(pinned::current_time_ms);
        shim.pNext = ptr::null_mut();
        // SAFETY: it lives for ever; 0 leaves the default the default.
        let code = unsafe { ffi::sqlite3_vfs_register(Box::leak(shim), 0) };
        assert_eq!(code, ffi::SQLITE_OK, "SQLite refused the VFS shim");
    });
}

/// `sqlite3_vfs.xOpen`: database and -wal files get a shim, all others are the default VFS's own.
///
/// # Safety
/// SQLite calls it: `file` has the bytes that the shim has asked for, which are zero, and the other arguments are as
/// `xOpen` documents them (<https://sqlite.org/c3ref/vfs.html>).
unsafe extern "C" fn open(
    _vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    let is_database = flags & ffi::SQLITE_OPEN_MAIN_DB != 0;
    let is_wal = flags & ffi::SQLITE_OPEN_WAL != 0;
    if !is_database && !is_wal {
        // SAFETY: SQLite's own arguments, and a file with more room than the default VFS asks for.
        return unsafe { open_real(name, file, flags, flags_out) };
    }
    // SAFETY: SQLite gave szOsFile bytes, which are the shim's and then the real file's.
    let real = unsafe { file.byte_add(SHIM_BYTES) };
    // SAFETY: SQLite's own arguments, and behind the shim's bytes as much room as the default VFS asks for.
    let open = || unsafe { open_real(name, real, flags, flags_out) };
    let code = if is_database { locks::for_our_vfs(open) } else { open() };
    // SAFETY: the memory was zeroed by SQLite, and the default VFS may have written methods there.
    let is_open = !unsafe { (*real).pMethods }.is_null();
    let Some(real) = NonNull::new(real).filter(|_| is_open) else {
        // SAFETY: every file begins with its methods. Without them SQLite does not close it.
        unsafe { (*file).pMethods = ptr::null() };
        return code;
    };
    // SAFETY: it is open until SQLite closes the shim's file, which is then not used any more. All uses are in calls of
    // SQLite for that file or for another one of its connection, so under that one's mutex.
    let real = unsafe { RealFile::of(real) };
    if is_database {
        let database = DatabaseFile::new(&DATABASE_METHODS, real);
        // SAFETY: SQLite's memory, large enough and aligned, and not in use yet.
        unsafe { file.cast::<DatabaseFile>().write(database) };
    } else {
        // SAFETY: SQLite has passed the name of a -wal file to this xOpen, which is what this function asks for.
        let database = unsafe { ffi::sqlite3_database_file_object(name) };
        // SAFETY: the file of the connection's database, which is open.
        let methods = unsafe { (*database).pMethods };
        assert!(ptr::eq(methods, &raw const DATABASE_METHODS), "a VFS has all files of a database");
        let database = NonNull::new(database.cast()).expect("it has methods");
        // SAFETY: a database file of the shim, as its methods say. SQLite closes the -wal file before it.
        let link = unsafe { DatabaseLink::of(database) };
        let wal = WalFile::new(&WAL_METHODS, real, link);
        // SAFETY: SQLite's memory, large enough and aligned, and not in use yet.
        unsafe { file.cast::<WalFile>().write(wal) };
    }
    code
}

/// Opens a file of the default VFS.
///
/// # Safety
/// As [`open`], for the default VFS.
unsafe fn open_real(
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    let default = Vfs::default().as_ptr();
    // SAFETY: the default VFS lives for ever, and its methods never change.
    let open = unsafe { (*default).xOpen }.expect("every VFS can open");
    // SAFETY: the VFS's own method; the caller's arguments are as it asks for them.
    unsafe { open(default, name, file, flags, flags_out) }
}
