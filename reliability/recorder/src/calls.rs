//! The functions of the C library that are replaced.
//!
//! Each asks `fault` whether it fails, and lets `record` watch what it does. The ones whose last argument
//! is optional are defined with it: on the machines that we run on, it is passed as the others are.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

use crate::fault::{self, Fault};
use crate::kernel::{self, next};
use crate::{record, room};

/// Returns -1 and sets `errno` when the call fails.
macro_rules! fail {
    ($fault:expr) => {
        fail!($fault, -1)
    };
    ($fault:expr, $failed:expr) => {
        if let Some(Fault::Error(errno)) = $fault {
            kernel::set_errno(errno);
            return $failed;
        }
    };
}

/// Defines `open` under one of its names.
macro_rules! open {
    ($name:ident, $symbol:literal) => {
        /// # Safety
        /// As the C library's function of this name.
        // SAFETY: same signature and meaning as the C library's function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
            // SAFETY: a path, as `open` demands.
            unsafe { fault::name(path) };
            fail!(fault::meet("open"));
            let act =
                || next!($symbol, fn(*const c_char, c_int, c_uint) -> c_int, path, flags, mode);
            // SAFETY: a path, as `open` demands.
            unsafe { record::open(path, flags, act) }
        }
    };
}
open!(open, c"open");
open!(open64, c"open64");

// SAFETY: same signature and meaning as the C library's function of this name.
#[unsafe(no_mangle)]
extern "C" fn close(descriptor: c_int) -> c_int {
    let fault = fault::meet_on("close", descriptor);
    let code = next!(c"close", fn(c_int) -> c_int, descriptor);
    fail!(fault);
    code
}

/// # Safety
/// As the C library's function of this name.
// SAFETY: same signature and meaning as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn read(descriptor: c_int, bytes: *mut c_void, count: usize) -> isize {
    let fault = fault::meet_on("read", descriptor);
    fail!(fault);
    let count = if fault.is_some() { fault::half(count) } else { count };
    next!(c"read", fn(c_int, *mut c_void, usize) -> isize, descriptor, bytes, count)
}

/// Defines `pread` under one of its names.
macro_rules! pread {
    ($name:ident, $symbol:literal) => {
        /// # Safety
        /// As the C library's function of this name.
        // SAFETY: same signature and meaning as the C library's function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(fd: c_int, bytes: *mut c_void, count: usize, at: i64) -> isize {
            let fault = fault::meet_on("pread", fd);
            fail!(fault);
            let count = if fault.is_some() { fault::half(count) } else { count };
            next!($symbol, fn(c_int, *mut c_void, usize, i64) -> isize, fd, bytes, count, at)
        }
    };
}
pread!(pread, c"pread");
pread!(pread64, c"pread64");

/// # Safety
/// As the C library's function of this name.
// SAFETY: same signature and meaning as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn write(descriptor: c_int, bytes: *const c_void, count: usize) -> isize {
    if descriptor == 1 {
        // SAFETY: bytes and their count, as `write` demands.
        unsafe { record::say(bytes, count) };
    }
    let fault = fault::meet_on("write", descriptor);
    fail!(fault);
    let count = if fault.is_some() { fault::half(count) } else { count };
    let act =
        || next!(c"write", fn(c_int, *const c_void, usize) -> isize, descriptor, bytes, count);
    // SAFETY: bytes and their count, as `write` demands.
    unsafe { record::write(descriptor, bytes, None, act) }
}

/// Defines `pwrite` under one of its names.
macro_rules! pwrite {
    ($name:ident, $symbol:literal) => {
        /// # Safety
        /// As the C library's function of this name.
        // SAFETY: same signature and meaning as the C library's function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            fd: c_int,
            bytes: *const c_void,
            count: usize,
            at: i64,
        ) -> isize {
            let fault = fault::meet_on("pwrite", fd);
            fail!(fault);
            let count = if fault.is_some() { fault::half(count) } else { count };
            let Some(count) = room::fit(fd, count, at) else {
                kernel::set_errno(libc::ENOSPC);
                return -1;
            };
            let act = || {
                next!($symbol, fn(c_int, *const c_void, usize, i64) -> isize, fd, bytes, count, at)
            };
            // SAFETY: bytes and their count, as `pwrite` demands.
            unsafe { record::write(fd, bytes, Some(at), act) }
        }
    };
}
pwrite!(pwrite, c"pwrite");
pwrite!(pwrite64, c"pwrite64");

/// Defines `ftruncate` under one of its names.
macro_rules! ftruncate {
    ($name:ident, $symbol:literal) => {
        // SAFETY: same signature and meaning as the C library's function of this name.
        #[unsafe(no_mangle)]
        extern "C" fn $name(descriptor: c_int, size: i64) -> c_int {
            fail!(fault::meet_on("ftruncate", descriptor));
            let act = || next!($symbol, fn(c_int, i64) -> c_int, descriptor, size);
            record::truncate(descriptor, size, act)
        }
    };
}
ftruncate!(ftruncate, c"ftruncate");
ftruncate!(ftruncate64, c"ftruncate64");

// SAFETY: same signature and meaning as the C library's function of this name.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(descriptor: c_int) -> c_int {
    fail!(fault::meet_on("fdatasync", descriptor));
    record::sync(descriptor, || next!(c"fdatasync", fn(c_int) -> c_int, descriptor))
}

// SAFETY: same signature and meaning as the C library's function of this name.
#[unsafe(no_mangle)]
extern "C" fn fsync(descriptor: c_int) -> c_int {
    fail!(fault::meet_on("fsync", descriptor));
    record::sync(descriptor, || next!(c"fsync", fn(c_int) -> c_int, descriptor))
}

/// # Safety
/// As the C library's function of this name.
// SAFETY: same signature and meaning as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: a path, as `unlink` demands.
    unsafe { fault::name(path) };
    fail!(fault::meet("unlink"));
    let act = || next!(c"unlink", fn(*const c_char) -> c_int, path);
    // SAFETY: a path, as `unlink` demands.
    unsafe { record::unlink(path, act) }
}

/// Defines a function that takes a path first, and changes nothing.
macro_rules! by_path {
    ($call:literal: $name:ident, $symbol:literal, $result:ty $(, $argument:ident: $type:ty)*) => {
        /// # Safety
        /// As the C library's function of this name.
        // SAFETY: same signature and meaning as the C library's function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char $(, $argument: $type)*) -> $result {
            // SAFETY: a path, as this function demands.
            unsafe { fault::name(path) };
            fail!(fault::meet($call));
            next!($symbol, fn(*const c_char $(, $type)*) -> $result, path $(, $argument)*)
        }
    };
}
by_path!("stat": stat, c"stat", c_int, into: *mut c_void);
by_path!("stat": stat64, c"stat64", c_int, into: *mut c_void);
by_path!("stat": lstat, c"lstat", c_int, into: *mut c_void);
by_path!("stat": lstat64, c"lstat64", c_int, into: *mut c_void);
by_path!("access": access, c"access", c_int, mode: c_int);
by_path!("readlink": readlink, c"readlink", isize, into: *mut c_char, size: usize);

/// # Safety
/// As the C library's function of this name.
// SAFETY: same signature and meaning as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn statx(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    into: *mut c_void,
) -> c_int {
    // SAFETY: null or a path, as `statx` demands.
    unsafe { fault::name(path) };
    fail!(fault::meet("stat"));
    next!(
        c"statx",
        fn(c_int, *const c_char, c_int, c_uint, *mut c_void) -> c_int,
        directory,
        path,
        flags,
        mask,
        into
    )
}

/// Defines a function on a descriptor, with a number or an address behind.
macro_rules! by_descriptor {
    ($call:literal: $name:ident, $symbol:literal, $($argument:ident: $type:ty),*) => {
        /// # Safety
        /// As the C library's function of this name.
        // SAFETY: same signature and meaning as the C library's function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(descriptor: c_int, $($argument: $type),*) -> c_int {
            fail!(fault::meet_on($call, descriptor));
            next!($symbol, fn(c_int, $($type),*) -> c_int, descriptor, $($argument),*)
        }
    };
}
by_descriptor!("fstat": fstat, c"fstat", into: *mut c_void);
by_descriptor!("fstat": fstat64, c"fstat64", into: *mut c_void);
by_descriptor!("fstat": fstatfs, c"fstatfs", into: *mut c_void);
by_descriptor!("fstat": fstatfs64, c"fstatfs64", into: *mut c_void);
by_descriptor!("fallocate": fallocate, c"fallocate", mode: c_int, from: i64, count: i64);
by_descriptor!("fallocate": fallocate64, c"fallocate64", mode: c_int, from: i64, count: i64);
by_descriptor!("fchmod": fchmod, c"fchmod", mode: c_uint);

/// Defines `fcntl` under one of its names. A lock that is held cannot fail to be given back.
macro_rules! fcntl {
    ($name:ident, $symbol:literal) => {
        /// # Safety
        /// As the C library's function of this name.
        // SAFETY: same signature and meaning as the C library's function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(fd: c_int, command: c_int, argument: c_long) -> c_int {
            // SAFETY: the argument is what the command demands.
            if !unsafe { is_unlock(command, argument) } {
                fail!(fault::meet_on("fcntl", fd));
            }
            next!($symbol, fn(c_int, c_int, c_long) -> c_int, fd, command, argument)
        }
    };
}
fcntl!(fcntl, c"fcntl");
fcntl!(fcntl64, c"fcntl64");

/// # Safety
/// `argument` is what `command` demands.
unsafe fn is_unlock(command: c_int, argument: c_long) -> bool {
    let locks = [libc::F_SETLK, libc::F_SETLKW, libc::F_OFD_SETLK, libc::F_OFD_SETLKW];
    // SAFETY: for these commands, and for no others is it read, the argument is the address of a `flock`.
    locks.contains(&command)
        && unsafe { (*(argument as *const libc::flock)).l_type } == libc::F_UNLCK as libc::c_short
}

/// Defines `mmap` under one of its names. Anonymous memory that may lie anywhere is the allocator's.
macro_rules! mmap {
    ($name:ident, $symbol:literal) => {
        /// # Safety
        /// As the C library's function of this name.
        // SAFETY: same signature and meaning as the C library's function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            at: *mut c_void,
            count: usize,
            protection: c_int,
            flags: c_int,
            descriptor: c_int,
            offset: i64,
        ) -> *mut c_void {
            if descriptor >= 0 || flags & libc::MAP_FIXED != 0 {
                fail!(fault::meet("mmap"), libc::MAP_FAILED);
            }
            next!(
                $symbol,
                fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void,
                at,
                count,
                protection,
                flags,
                descriptor,
                offset
            )
        }
    };
}
mmap!(mmap, c"mmap");
mmap!(mmap64, c"mmap64");

/// # Safety
/// As the C library's function of this name.
// SAFETY: same signature and meaning as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn mremap(
    from: *mut c_void,
    count: usize,
    new_count: usize,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    fail!(fault::meet("mremap"), libc::MAP_FAILED);
    next!(
        c"mremap",
        fn(*mut c_void, usize, usize, c_int, *mut c_void) -> *mut c_void,
        from,
        count,
        new_count,
        flags,
        to
    )
}

/// # Safety
/// As the C library's function of this name.
// SAFETY: same signature and meaning as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(from: *mut c_void, count: usize) -> c_int {
    fail!(fault::meet("munmap"));
    next!(c"munmap", fn(*mut c_void, usize) -> c_int, from, count)
}

/// `syscall`, for the one call that has no function of its own: the futex.
/// # Safety
/// As the C library's function of this name.
// SAFETY: same signature and meaning as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    if number == libc::SYS_futex {
        // Who waits is interrupted or finds the word changed; a futex knows no other errors, and to wake
        // others none.
        let fault = fault::meet("futex");
        let command = b as c_int & libc::FUTEX_CMD_MASK;
        let waits = matches!(command, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET);
        let is_usual = |errno: &c_int| waits && matches!(*errno, libc::EINTR | libc::EAGAIN);
        let errno = fault.map(|fault| if let Fault::Error(errno) = fault { errno } else { 0 });
        if let Some(errno) = errno.filter(is_usual) {
            kernel::set_errno(errno);
            return -1;
        }
    }
    next!(
        c"syscall",
        fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long,
        number,
        a,
        b,
        c,
        d,
        e,
        f
    )
}
