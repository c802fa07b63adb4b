//! Clock mode: the wall clock jumps whenever a campaign says so. `RECORDER_CLOCK` names a file of 8 bytes: by
//! how many seconds the clock is off now. The clock that only runs forward is left alone.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicI64, Ordering};
use std::sync::OnceLock;

use crate::kernel::{self, next};

fn seconds_off() -> i64 {
    static OFF: OnceLock<Option<&'static AtomicI64>> = OnceLock::new();
    OFF.get_or_init(map).map_or(0, |off| off.load(Ordering::Relaxed))
}

fn map() -> Option<&'static AtomicI64> {
    let address = kernel::map_word("RECORDER_CLOCK", false)?;
    // SAFETY: mapped for ever, long enough, aligned to a page, and only ever read as an atomic.
    Some(unsafe { &*address.cast() })
}

/// # Safety
/// As the C library's function of this name.
// SAFETY: same signature and meaning as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: c_int, into: *mut libc::timespec) -> c_int {
    let code = next!(c"clock_gettime", fn(c_int, *mut libc::timespec) -> c_int, clock, into);
    if code == 0 && matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE) {
        // SAFETY: the C library has just written there.
        unsafe { (*into).tv_sec += seconds_off() };
    }
    code
}

/// # Safety
/// As the C library's function of this name.
// SAFETY: same signature and meaning as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(into: *mut libc::timeval, zone: *mut c_void) -> c_int {
    let code = next!(c"gettimeofday", fn(*mut libc::timeval, *mut c_void) -> c_int, into, zone);
    if code == 0 && !into.is_null() {
        // SAFETY: not null, so the C library has just written there.
        unsafe { (*into).tv_sec += seconds_off() };
    }
    code
}

/// # Safety
/// As the C library's function of this name.
// SAFETY: same signature and meaning as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn time(into: *mut libc::time_t) -> libc::time_t {
    let now =
        next!(c"time", fn(*mut libc::time_t) -> libc::time_t, ptr::null_mut()) + seconds_off();
    if !into.is_null() {
        // SAFETY: not null, so a place for the answer, which time(2) asks its callers for.
        unsafe { *into = now };
    }
    now
}
