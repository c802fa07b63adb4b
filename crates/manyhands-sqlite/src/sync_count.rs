//! Counts what all code of this process asks of the disk: calls of `fdatasync` and `fsync`, and frames that are
//! written to a WAL.
//!
//! A program's own definition of a function comes before the C library's when it is linked, so both
//! SQLite copies that were compiled into the program call these. For benchmarks: the peers are
//! counted the same way.

use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::vfs::FRAME_HEADER_BYTES;

static SYNCS: AtomicU64 = AtomicU64::new(0);
static WAL_FRAMES: AtomicU64 = AtomicU64::new(0);
static WAIT_NS: AtomicU64 = AtomicU64::new(0);

/// How many calls of `fdatasync` and `fsync` this process has made.
pub fn syncs() -> u64 {
    SYNCS.load(Ordering::Relaxed)
}

/// How many frames this process has written to a WAL.
pub fn wal_frames() -> u64 {
    WAL_FRAMES.load(Ordering::Relaxed)
}

/// From now on each `fdatasync` and `fsync` of this process waits so long before it begins: a slower disk.
pub fn wait_before_syncs(wait: Duration) {
    WAIT_NS.store(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// A frame is about to be written together with others.
pub(crate) fn note_frame() {
    WAL_FRAMES.fetch_add(1, Ordering::Relaxed);
}

fn counted(number: libc::c_long, descriptor: libc::c_int) -> libc::c_int {
    SYNCS.fetch_add(1, Ordering::Relaxed);
    let wait_ns = WAIT_NS.load(Ordering::Relaxed);
    if wait_ns > 0 {
        std::thread::sleep(Duration::from_nanos(wait_ns));
    }
    // SAFETY: both system calls take a descriptor and touch no memory.
    unsafe { libc::syscall(number, descriptor) as libc::c_int }
}

// SAFETY: same signature and meaning as the C library's function of this name.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(descriptor: libc::c_int) -> libc::c_int {
    counted(libc::SYS_fdatasync, descriptor)
}

// SAFETY: same signature and meaning as the C library's function of this name.
#[unsafe(no_mangle)]
extern "C" fn fsync(descriptor: libc::c_int) -> libc::c_int {
    counted(libc::SYS_fsync, descriptor)
}

// SAFETY: same signature and meaning as the C library's function of this name, but that it is no point at which a
// thread can be cancelled; nothing here cancels threads.
#[unsafe(no_mangle)]
extern "C" fn pwrite64(
    descriptor: libc::c_int,
    bytes: *const libc::c_void,
    count: libc::size_t,
    offset: libc::off64_t,
) -> libc::ssize_t {
    // SQLite writes the header of each frame by a call of its own (`walWriteOneFrame`), and nothing else of this size.
    // Our copy's frames are written together, and counted by `note_frame`.
    if count == FRAME_HEADER_BYTES {
        WAL_FRAMES.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the arguments are passed on as they came, and the kernel checks them as it does for the C library.
    unsafe { libc::syscall(libc::SYS_pwrite64, descriptor, bytes, count, offset) as libc::ssize_t }
}
