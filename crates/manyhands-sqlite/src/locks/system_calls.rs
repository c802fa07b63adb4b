//! The five system calls of SQLite's unix VFS that are ours: open, close, fcntl, fstat, stat.
//!
//! SQLite calls them through a table of pointers (`aSyscall` in os_unix.c) that `xSetSystemCall`
//! fills, shared by all its unix VFSes. Each function here answers exactly as the system call
//! would: -1 and errno for a failure. What it decides stands in `descriptor_table` and
//! `record_lock`.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::RawFd;
use std::ptr;

use libsqlite3_sys::{SQLITE_OK, sqlite3_syscall_ptr, sqlite3_vfs_find};

use super::{FileIdentity, InstallError, Status, descriptor_table, fork, record_lock};

thread_local! {
    /// What SQLite last asked of an open file.
    static ASKED: Cell<Option<Status>> = const { Cell::new(None) };

    /// See [`lock_was_lost`].
    static LOCK_WAS_LOST: Cell<bool> = const { Cell::new(false) };
}

/// True when a lock failed in this thread, since it was last asked, for a reason that does not pass: somebody has closed
/// the descriptor. SQLite says that it is busy.
pub(super) fn lock_was_lost() -> bool {
    LOCK_WAS_LOST.take()
}

/// Puts our functions into the table of SQLite's unix VFS.
pub(super) fn replace() -> Result<(), InstallError> {
    // SAFETY: the name is a C string; the answer is null or a VFS that lives as long as the
    // process.
    let vfs = unsafe { sqlite3_vfs_find(c"unix".as_ptr()) };
    // SAFETY: null, or a VFS that lives as long as the process; of this one nobody changes the methods.
    let set_system_call = unsafe { vfs.as_ref() }
        .and_then(|vfs| vfs.xSetSystemCall)
        .ok_or(InstallError::NoUnixVfs)?;

    let open: unsafe extern "C" fn(*const c_char, c_int, c_int) -> c_int = open;
    let close: unsafe extern "C" fn(c_int) -> c_int = close;
    let fcntl: unsafe extern "C" fn(c_int, c_int, *mut c_void) -> c_int = fcntl;
    let fstat: unsafe extern "C" fn(c_int, *mut libc::stat) -> c_int = fstat;
    let stat: unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int = stat;
    let replacements = [
        (c"open", "open", open as *const ()),
        (c"close", "close", close as *const ()),
        (c"fcntl", "fcntl", fcntl as *const ()),
        (c"fstat", "fstat", fstat as *const ()),
        (c"stat", "stat", stat as *const ()),
    ];
    for (name, display_name, function) in replacements {
        // SAFETY: a function pointer, and null-or-function pointers have the same size; SQLite
        // casts it back to the signature of the system call before it calls.
        let function = unsafe { std::mem::transmute::<*const (), sqlite3_syscall_ptr>(function) };
        // SAFETY: the VFS and the name are valid; the caller of `install` has no connection open,
        // so nobody reads the table.
        let code = unsafe { set_system_call(vfs, name.as_ptr(), function) };
        if code != SQLITE_OK {
            return Err(InstallError::NoSystemCall(display_name));
        }
    }
    Ok(())
}

/// # Safety
/// `path` is a C string.
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    // SAFETY: the caller has promised a C string: SQLite's file names are.
    let path = unsafe { CStr::from_ptr(path) };
    match descriptor_table::open(path, flags, mode.cast_unsigned()) {
        Ok(descriptor) => descriptor,
        Err(error) => fail(&error),
    }
}

/// # Safety
/// `descriptor` came from [`open`] and is closed once.
unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    match descriptor_table::close(descriptor) {
        Ok(()) => 0,
        Err(error) => fail(&error),
    }
}

/// # Safety
/// `argument` is what `command` asks for; for a lock command, a `struct flock`.
///
/// SQLite calls this as a variadic function, which stable Rust cannot define. On x86-64 and aarch64
/// Linux the first variadic arguments travel in the same registers as named ones, so a third named
/// parameter receives them; when there is none, or it is an int, what it receives is passed on
/// unread.
unsafe extern "C" fn fcntl(descriptor: c_int, command: c_int, argument: *mut c_void) -> c_int {
    if let libc::F_SETLK | libc::F_SETLKW | libc::F_GETLK = command
        && let Some(canonical) = descriptor_table::canonical(descriptor)
    {
        // SAFETY: a lock command, so the caller has promised a `struct flock`. SQLite's is on its stack, and nobody else's.
        let request = unsafe { argument.cast::<libc::flock>().as_mut() };
        let request = request.expect("SQLite passes a struct flock with each lock command");
        // Without a write lock nobody writes: so this lock is worth a system call.
        if c_int::from(request.l_type) == libc::F_WRLCK && !descriptor_table::is_sound(canonical) {
            LOCK_WAS_LOST.set(true);
            return fail(&io::Error::from_raw_os_error(libc::EBADF));
        }
        let result = record_lock::execute(canonical, command, request);
        if result == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EBADF) {
            LOCK_WAS_LOST.set(true);
        }
        return result;
    }
    // SAFETY: the argument is what the command asks for, as the caller has promised, and is passed on unchanged.
    unsafe { libc::fcntl(descriptor, command, argument) }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!(
    "`fcntl` relies on the calling convention of x86-64 and aarch64 Linux; check yours and add it here"
);

/// # Safety
/// `status` points to room for a `struct stat`.
unsafe extern "C" fn fstat(descriptor: c_int, status: *mut libc::stat) -> c_int {
    // SAFETY: an integer, and room for the answer, as the caller has promised.
    let result = unsafe { libc::fstat(descriptor, status) };
    if result == 0 {
        // SAFETY: fstat has just filled it.
        let status = unsafe { &mut *status };
        let (identity, bytes) = (FileIdentity::of(status), status.st_size);
        ASKED.set(Some(Status { descriptor, identity, bytes }));
        mark_generation(status);
    }
    result
}

/// See [`super::status_asked_in`].
pub(super) fn status_asked_in(call: impl FnOnce()) -> Option<Status> {
    ASKED.set(None);
    call();
    ASKED.take()
}

/// # Safety
/// `path` is a C string; `status` points to room for a `struct stat`.
unsafe extern "C" fn stat(path: *const c_char, status: *mut libc::stat) -> c_int {
    // SAFETY: a C string, and room for the answer, as the caller has promised.
    let result = unsafe { libc::stat(path, status) };
    if result == 0 {
        // SAFETY: stat has just filled it.
        mark_generation(unsafe { &mut *status });
    }
    result
}

/// Shows SQLite another device in each generation of forked processes, and after each loss of a file's descriptors.
///
/// SQLite knows a file by (st_dev, st_ino), in `findInodeInfo` and `findReusableFd` and nowhere
/// else; a child has inherited its parent's list of them, with lock counts and -shm descriptors
/// that are not the child's. (`fileHasMoved` compares only st_ino, which stays true.) Linux device
/// numbers have 12 + 20 bits and glibc puts them into the lower half, so the upper half is free: no
/// other device can look the same.
fn mark_generation(status: &mut libc::stat) {
    let losses = descriptor_table::losses(FileIdentity::of(status));
    status.st_dev = status.st_dev.wrapping_add((fork::generation() << 32) + (losses << 48));
}

fn fail(error: &io::Error) -> c_int {
    // SAFETY: always valid, and this thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: an integer of this thread, which nobody else has.
    unsafe { ptr::write(errno, error.raw_os_error().unwrap_or(libc::EIO)) };
    -1
}

/// The system call itself, for `descriptor_table`.
pub(super) fn raw_open(path: &CStr, flags: c_int, mode: u32) -> io::Result<RawFd> {
    // SAFETY: a C string and two integers.
    let descriptor = unsafe { libc::open(path.as_ptr(), flags, mode) };
    if descriptor == -1 { Err(io::Error::last_os_error()) } else { Ok(descriptor) }
}

/// The system call itself, for `descriptor_table`.
pub(super) fn raw_close(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: an integer. `descriptor_table` closes what it has opened, and what SQLite gives back.
    let result = unsafe { libc::close(descriptor) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
