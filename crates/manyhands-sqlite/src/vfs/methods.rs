//! The tables by which SQLite calls the shim, and how what it passes becomes references.
//!
//! What SQLite promises of each call, and each of these functions relies on:
//! * The file is one that `open` has made with this table, and it was not closed yet.
//! * The call is made under the mutex of the file's connection, and none is made for a file of that connection while another
//!   one goes on: the unix VFS, which the shim calls, calls nothing of the shim. So a reference to the file is the only one.
//! * Each address is that of what `sqlite3_io_methods` says, and stays good until the call returns.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;

use libsqlite3_sys as ffi;

use super::database_file::DatabaseFile;
use super::shim::ShimFile;
use super::wal_file::WalFile;

/// For database files.
pub(super) static DATABASE_METHODS: ffi::sqlite3_io_methods = table::<DatabaseFile>();

/// For -wal files.
pub(super) static WAL_METHODS: ffi::sqlite3_io_methods = table::<WalFile>();

const fn table<F: ShimFile>() -> ffi::sqlite3_io_methods {
    ffi::sqlite3_io_methods {
        iVersion: 3,
        xClose: Some(close::<F>),
        xRead: Some(read::<F>),
        xWrite: Some(write::<F>),
        xTruncate: Some(truncate::<F>),
        xSync: Some(sync::<F>),
        xFileSize: Some(file_size::<F>),
        xLock: Some(lock::<F>),
        xUnlock: Some(unlock::<F>),
        xCheckReservedLock: Some(check_reserved_lock::<F>),
        xFileControl: Some(file_control::<F>),
        xSectorSize: Some(sector_size::<F>),
        xDeviceCharacteristics: Some(device_characteristics::<F>),
        xShmMap: Some(shm_map::<F>),
        xShmLock: Some(shm_lock::<F>),
        xShmBarrier: Some(shm_barrier::<F>),
        xShmUnmap: Some(shm_unmap::<F>),
        xFetch: Some(fetch::<F>),
        xUnfetch: Some(unfetch::<F>),
    }
}

/// The file of a call. The result lives no longer than the variable that has its address: the argument of the call.
///
/// # Safety
/// `file` is what SQLite has passed to a function of `table::<F>()`, whose call goes on: see the file's head.
unsafe fn shim<F: ShimFile>(file: &mut *mut ffi::sqlite3_file) -> &mut F {
    // SAFETY: an `F` begins there, which `open` has written; no other reference to it exists during the call.
    unsafe { &mut *file.cast::<F>() }
}

/// A method whose arguments are numbers.
macro_rules! method {
    ($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {
        /// # Safety
        /// SQLite calls it: see the head of the file.
        unsafe extern "C" fn $name<F: ShimFile>(
            mut file: *mut ffi::sqlite3_file,
            $($argument: $type),*
        ) $(-> $result)? {
            // SAFETY: the file that SQLite has passed to this method of the table.
            unsafe { shim::<F>(&mut file) }.$name($($argument),*)
        }
    };
}

method!(truncate(bytes: i64) -> c_int);
method!(sync(flags: c_int) -> c_int);
method!(lock(level: c_int) -> c_int);
method!(unlock(level: c_int) -> c_int);
method!(sector_size() -> c_int);
method!(device_characteristics() -> c_int);
method!(shm_lock(offset: c_int, count: c_int, flags: c_int) -> c_int);
method!(shm_barrier());

/// # Safety
/// SQLite calls it: see the head of the file.
unsafe extern "C" fn close<F: ShimFile>(mut file: *mut ffi::sqlite3_file) -> c_int {
    let place: *mut F = file.cast();
    // SAFETY: the file that SQLite has passed to this method of the table.
    let real = unsafe { shim::<F>(&mut file) }.real();
    // SAFETY: it was written by `open`, and SQLite, which frees its memory next, uses nothing of it after this call.
    unsafe { place.drop_in_place() };
    // SAFETY: SQLite does not use the file any more, nor its regions, and the shim's own use has ended with its drop.
    unsafe { real.close() }
}

/// # Safety
/// SQLite calls it: see the head of the file.
unsafe extern "C" fn read<F: ShimFile>(
    mut file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    count: c_int,
    offset: i64,
) -> c_int {
    let buffer = buffer.cast::<MaybeUninit<u8>>();
    // SAFETY: SQLite passes a buffer of `count` bytes, which is nobody else's meanwhile.
    let bytes = unsafe { core::slice::from_raw_parts_mut(buffer, count as usize) };
    // SAFETY: the file that SQLite has passed to this method of the table.
    unsafe { shim::<F>(&mut file) }.read(bytes, offset)
}

/// # Safety
/// SQLite calls it: see the head of the file.
unsafe extern "C" fn write<F: ShimFile>(
    mut file: *mut ffi::sqlite3_file,
    buffer: *const c_void,
    count: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite passes `count` bytes, which nobody changes meanwhile.
    let bytes = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), count as usize) };
    // SAFETY: the file that SQLite has passed to this method of the table.
    unsafe { shim::<F>(&mut file) }.write(bytes, offset)
}

/// # Safety
/// SQLite calls it: see the head of the file.
unsafe extern "C" fn file_size<F: ShimFile>(
    mut file: *mut ffi::sqlite3_file,
    bytes: *mut i64,
) -> c_int {
    // SAFETY: the file that SQLite has passed to this method of the table.
    match unsafe { shim::<F>(&mut file) }.size() {
        Ok(size) => {
            // SAFETY: SQLite passes a place for the answer.
            unsafe { bytes.write(size) };
            ffi::SQLITE_OK
        }
        Err(code) => code,
    }
}

/// # Safety
/// SQLite calls it: see the head of the file.
unsafe extern "C" fn check_reserved_lock<F: ShimFile>(
    mut file: *mut ffi::sqlite3_file,
    held: *mut c_int,
) -> c_int {
    // SAFETY: the file that SQLite has passed to this method of the table.
    match unsafe { shim::<F>(&mut file) }.check_reserved_lock() {
        Ok(is_held) => {
            // SAFETY: SQLite passes a place for the answer.
            unsafe { held.write(is_held) };
            ffi::SQLITE_OK
        }
        Err(code) => code,
    }
}

/// # Safety
/// SQLite calls it: see the head of the file.
unsafe extern "C" fn file_control<F: ShimFile>(
    mut file: *mut ffi::sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the file that SQLite has passed to this method of the table.
    let file = unsafe { shim::<F>(&mut file) };
    // SAFETY: an argument of SQLite's for an operation of SQLite's, or one of `with_database_file` for its own.
    unsafe { file.file_control(operation, argument) }
}

/// # Safety
/// SQLite calls it: see the head of the file.
unsafe extern "C" fn shm_map<F: ShimFile>(
    mut file: *mut ffi::sqlite3_file,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    address: *mut *mut c_void,
) -> c_int {
    // SAFETY: the file that SQLite has passed to this method of the table.
    let (code, mapped) = unsafe { shim::<F>(&mut file) }.shm_map(region, bytes, extend);
    // SAFETY: SQLite passes a place for the answer.
    unsafe { address.write(mapped) };
    code
}

/// # Safety
/// SQLite calls it: see the head of the file.
unsafe extern "C" fn shm_unmap<F: ShimFile>(
    mut file: *mut ffi::sqlite3_file,
    delete: c_int,
) -> c_int {
    // SAFETY: the file that SQLite has passed to this method of the table.
    let file = unsafe { shim::<F>(&mut file) };
    // SAFETY: SQLite forgets the addresses when it asks for this.
    unsafe { file.shm_unmap(delete) }
}

/// # Safety
/// SQLite calls it: see the head of the file.
unsafe extern "C" fn fetch<F: ShimFile>(
    mut file: *mut ffi::sqlite3_file,
    offset: i64,
    count: c_int,
    address: *mut *mut c_void,
) -> c_int {
    // SAFETY: the file that SQLite has passed to this method of the table.
    let mapped = unsafe { shim::<F>(&mut file) }.fetch(offset, count);
    // SAFETY: SQLite passes a place for the answer.
    unsafe { address.write(mapped) };
    ffi::SQLITE_OK
}

/// The mapping is not the connection's: there is nothing to give back. Where others have committed SQLite
/// gives all of it back, with a null address.
///
/// # Safety
/// SQLite calls it: see the head of the file.
unsafe extern "C" fn unfetch<F: ShimFile>(
    mut file: *mut ffi::sqlite3_file,
    _offset: i64,
    address: *mut c_void,
) -> c_int {
    if address.is_null() {
        // SAFETY: the file that SQLite has passed to this method of the table.
        unsafe { shim::<F>(&mut file) }.unfetch_all();
    }
    ffi::SQLITE_OK
}
