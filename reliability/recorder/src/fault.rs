//! Fault mode: the n-th call of one function fails, falls short, or is the process's last.
//!
//! `RECORDER_FAULT=pwrite:EIO:17:once` makes the 17th `pwrite` fail with `EIO`; with `ever` all that
//! follow, too. Instead of an error: `KILL` kills the process before the call, `SHORT` cuts a read or
//! write in half. A call that fails does nothing, but for `close`, which closes, as in Linux.
//!
//! Calls count from the moment at which the process first names a file of `RECORDER_DIRECTORY`: what
//! came before is not the product's. Streams and pipes do not count.

use core::ffi::{CStr, c_char, c_int, c_long};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use crate::call_names::CALLS;
use crate::kernel;

/// What is wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails so.
    Error(c_int),
    /// It does half of what it should.
    Short,
}

struct Plan {
    call: usize,
    /// `None` kills.
    fault: Option<Fault>,
    nth: u64,
    ever: bool,
}

struct Faults {
    directory: Vec<u8>,
    plan: Option<Plan>,
    counts: &'static [AtomicU64; CALLS.len()],
}

/// Who reads the counters may also write them: from here on up nothing fails, until it sets them to 0.
const NOT_YET: u64 = 1 << 62;

/// The process has named a file that matters.
static ARMED: AtomicBool = AtomicBool::new(false);

fn faults() -> Option<&'static Faults> {
    static FAULTS: OnceLock<Option<Faults>> = OnceLock::new();
    FAULTS.get_or_init(read_environment).as_ref()
}

fn read_environment() -> Option<Faults> {
    let plan = std::env::var("RECORDER_FAULT").ok();
    let counts = std::env::var_os("RECORDER_COUNTS");
    if plan.is_none() && counts.is_none() {
        return None;
    }
    let directory = std::env::var_os("RECORDER_DIRECTORY")?.as_bytes().to_vec();
    let plan = plan.map(|plan| read_plan(&plan).expect("RECORDER_FAULT is CALL:WHAT:NTH:once"));
    let counts = counts.and_then(|path| map_counts(path.as_bytes()));
    let counts =
        counts.unwrap_or_else(|| Box::leak(Box::new([const { AtomicU64::new(0) }; CALLS.len()])));
    Some(Faults { directory, plan, counts })
}

fn read_plan(text: &str) -> Option<Plan> {
    let mut words = text.split(':');
    let call = words.next()?;
    let call = CALLS.iter().position(|known| *known == call)?;
    let fault = match words.next()? {
        "KILL" => None,
        "SHORT" => Some(Fault::Short),
        "EIO" => Some(Fault::Error(libc::EIO)),
        "ENOSPC" => Some(Fault::Error(libc::ENOSPC)),
        "EINTR" => Some(Fault::Error(libc::EINTR)),
        "EAGAIN" => Some(Fault::Error(libc::EAGAIN)),
        "EMFILE" => Some(Fault::Error(libc::EMFILE)),
        "ENOMEM" => Some(Fault::Error(libc::ENOMEM)),
        "EACCES" => Some(Fault::Error(libc::EACCES)),
        _ => return None,
    };
    Some(Plan { call, fault, nth: words.next()?.parse().ok()?, ever: words.next()? == "ever" })
}

/// The counters that the campaign reads, in a file of its own.
fn map_counts(path: &[u8]) -> Option<&'static [AtomicU64; CALLS.len()]> {
    let mut name = path.to_vec();
    name.push(0);
    let flags = libc::O_RDWR | libc::O_CLOEXEC;
    let arguments = [libc::AT_FDCWD.into(), name.as_ptr() as c_long, flags.into(), 0];
    // SAFETY: a path that ends with a zero byte.
    let descriptor = unsafe { kernel::call(libc::SYS_openat, arguments) } as c_int;
    let bytes = size_of::<[AtomicU64; CALLS.len()]>();
    // The C library's own function: the one that replaces it asks for these counters.
    let address = kernel::next!(
        c"mmap64",
        fn(*mut libc::c_void, usize, c_int, c_int, c_int, i64) -> *mut libc::c_void,
        ptr::null_mut(),
        bytes,
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED,
        descriptor,
        0
    );
    if address == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: mapped for ever, long enough, aligned to a page, and only ever used as atomics.
    Some(unsafe { &*address.cast() })
}

/// The process names a file.
///
/// # Safety
/// `path` is null, or points to bytes that end with a zero byte.
pub unsafe fn name(path: *const c_char) {
    if path.is_null() || ARMED.load(Ordering::Relaxed) {
        return;
    }
    let Some(faults) = faults() else { return };
    // SAFETY: not null, so the caller has promised bytes that end with a zero byte.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    if path.starts_with(&faults.directory) {
        ARMED.store(true, Ordering::Relaxed);
    }
}

/// Counts a call, and says what is wrong with it. Does not return when the call is to be the last.
pub fn meet(call: &str) -> Option<Fault> {
    if !ARMED.load(Ordering::Relaxed) {
        return None;
    }
    let faults = faults()?;
    let index = CALLS.iter().position(|known| *known == call).expect("a call of the list");
    let count = faults.counts[index].fetch_add(1, Ordering::Relaxed) + 1;
    let plan = faults.plan.as_ref().filter(|plan| plan.call == index && count < NOT_YET)?;
    if count != plan.nth && !(plan.ever && count > plan.nth) {
        return None;
    }
    if plan.fault.is_none() {
        // SAFETY: has no arguments.
        let process = unsafe { kernel::call(libc::SYS_getpid, [0; 4]) };
        // SAFETY: touches no memory; ends this process.
        unsafe { kernel::call(libc::SYS_kill, [process, libc::SIGKILL.into(), 0, 0]) };
    }
    plan.fault
}

/// As [`meet`], for a call on a file: a stream or a pipe does not count.
pub fn meet_on(call: &str, descriptor: c_int) -> Option<Fault> {
    if !ARMED.load(Ordering::Relaxed) || descriptor <= 2 {
        return None;
    }
    let errno = kernel::errno();
    let is_file = kernel::inode_of(descriptor).is_some();
    kernel::set_errno(errno);
    if is_file { meet(call) } else { None }
}

/// Half of a count, but something.
pub fn half(count: usize) -> usize {
    if count > 1 { count / 2 } else { count }
}
