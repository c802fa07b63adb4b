//! Counts the `fdatasync` and `fsync` calls of this process, whoever makes them.
//!
//! A program's own definition of a function comes before the C library's when it is linked, so both
//! SQLite copies that were compiled into the program call these two. For benchmarks: the peers are
//! counted the same way.

use core::sync::atomic::{AtomicU64, Ordering};

static SYNCS: AtomicU64 = AtomicU64::new(0);

/// How many calls of `fdatasync` and `fsync` this process has made.
pub fn syncs() -> u64 {
    SYNCS.load(Ordering::Relaxed)
}

fn counted(number: libc::c_long, descriptor: libc::c_int) -> libc::c_int {
    SYNCS.fetch_add(1, Ordering::Relaxed);
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
