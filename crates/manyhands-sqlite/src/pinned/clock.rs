//! The clock that the shim VFS shows to SQLite.

use core::ffi::c_int;

use libsqlite3_sys as ffi;

use super::ruling;
use crate::default_vfs::Vfs;

const DAY_MS: f64 = 86_400_000.0;

/// `sqlite3_vfs.xCurrentTimeInt64`.
///
/// # Safety
/// `time_ms` points to a place for the result.
pub(crate) unsafe extern "C" fn current_time_ms(
    _vfs: *mut ffi::sqlite3_vfs,
    time_ms: *mut i64,
) -> c_int {
    let Some(pinned_ms) = ruling(|pin| pin.pinned.time_ms) else {
        // SAFETY: a place for the result, as the caller has promised.
        return unsafe { ask_default(time_ms) };
    };
    // SAFETY: a place for the result, as the caller has promised.
    unsafe { time_ms.write(pinned_ms) };
    ffi::SQLITE_OK
}

/// `sqlite3_vfs.xCurrentTime`, which SQLite asks where there is no other: the same in days.
///
/// # Safety
/// `days` points to a place for the result.
pub(crate) unsafe extern "C" fn current_time(vfs: *mut ffi::sqlite3_vfs, days: *mut f64) -> c_int {
    let mut time_ms = 0;
    // SAFETY: the place is above.
    let code = unsafe { current_time_ms(vfs, &raw mut time_ms) };
    // SAFETY: a place for the result, as the caller has promised.
    unsafe { days.write(time_ms as f64 / DAY_MS) };
    code
}

/// The time that is not pinned, in milliseconds of the Julian day.
pub(super) fn real_time_ms() -> i64 {
    let mut time_ms = 0;
    // SAFETY: the place is above.
    let code = unsafe { ask_default(&raw mut time_ms) };
    assert_eq!(code, ffi::SQLITE_OK, "the unix VFS always knows the time");
    time_ms
}

/// # Safety
/// `time_ms` points to a place for the result.
unsafe fn ask_default(time_ms: *mut i64) -> c_int {
    let default = Vfs::default().as_ptr();
    // SAFETY: the default VFS lives for ever, and its methods never change.
    let ask = unsafe { (*default).xCurrentTimeInt64 };
    let ask = ask.expect("the unix VFS has all methods of version 3");
    // SAFETY: the method's own VFS, and a place for the result, as the caller has promised.
    unsafe { ask(default, time_ms) }
}
