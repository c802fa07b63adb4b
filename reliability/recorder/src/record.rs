//! Record mode.
//!
//! An event and its record are one step for all processes: a lock on the log is held over both. Only a
//! sync is two records, and happens between them, unlocked: what others write meanwhile is not part of
//! it. A file is known by its inode, whatever its name, and also when it has none any more.
//!
//! Left out: files that mean nothing after a power cut, by the end of their name ([`VOLATILE`]).

use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::format::{self, HEADER_BYTES, MAGIC};
use crate::kernel;

/// The wal-index, and the queue: both are built anew when nobody has the database open.
const VOLATILE: [&[u8]; 2] = [b"-shm", b"-hands"];

/// A file is gone from its directory when its path ends so.
const DELETED: &[u8] = b" (deleted)";

struct Log {
    descriptor: c_int,
    directory: OsString,
    sync_time: Duration,
    /// Between the threads of this process, which share the descriptor and so its lock.
    turn: Mutex<()>,
}

fn log() -> Option<&'static Log> {
    static LOG: OnceLock<Option<Log>> = OnceLock::new();
    LOG.get_or_init(|| {
        let mut path = std::env::var_os("RECORDER_LOG")?.into_encoded_bytes();
        path.push(0);
        let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC;
        let arguments = [libc::AT_FDCWD.into(), path.as_ptr() as c_long, flags.into(), 0];
        // SAFETY: a path that ends with a zero byte.
        let descriptor = unsafe { kernel::call(libc::SYS_openat, arguments) } as c_int;
        assert!(descriptor >= 0, "the recorder cannot open its log");
        // Far away from the numbers that programs expect to get.
        let high = [descriptor.into(), libc::F_DUPFD_CLOEXEC.into(), 900, 0];
        // SAFETY: touches no memory.
        let moved = unsafe { kernel::call(libc::SYS_fcntl, high) } as c_int;
        let descriptor = if moved < 0 { descriptor } else { moved };
        let directory = std::env::var_os("RECORDER_DIRECTORY")?;
        let us = std::env::var("RECORDER_SYNC_US").ok().and_then(|it| it.parse().ok());
        let sync_time = Duration::from_micros(us.unwrap_or(0));
        Some(Log { descriptor, directory, sync_time, turn: Mutex::new(()) })
    })
    .as_ref()
}

/// The events of all processes wait while this lives.
struct Turn<'a> {
    log: &'a Log,
    _turn: MutexGuard<'a, ()>,
}

impl Log {
    fn turn(&self) -> Turn<'_> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.lock(libc::LOCK_EX);
        Turn { log: self, _turn: turn }
    }

    fn lock(&self, operation: c_int) {
        let arguments = [self.descriptor.into(), operation.into(), 0, 0];
        // SAFETY: touches no memory. A signal may interrupt the wait.
        while unsafe { kernel::call(libc::SYS_flock, arguments) } != 0
            && kernel::errno() == libc::EINTR
        {}
    }

    fn is_tracked(&self, path: &[u8]) -> bool {
        let path = path.strip_suffix(DELETED).unwrap_or(path);
        let inside = path.strip_prefix(self.directory.as_bytes());
        inside.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
            && !VOLATILE.iter().any(|end| path.ends_with(end))
    }

    /// The inode behind a descriptor, if its file matters.
    fn tracked(&self, descriptor: c_int) -> Option<u64> {
        let inode = kernel::inode_of(descriptor)?;
        let mut buffer = [0; 512];
        let path = kernel::path_of(descriptor, &mut buffer)?;
        self.is_tracked(path).then_some(inode)
    }

    fn put(&self, kind: u32, inode: u64, offset: u64, bytes: &[u8]) {
        // SAFETY: has no arguments.
        let actor = unsafe { kernel::call(libc::SYS_gettid, [0; 4]) } as u64;
        let mut header = [0_u8; HEADER_BYTES];
        header[..4].copy_from_slice(&MAGIC.to_le_bytes());
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        let numbers = [actor, inode, offset, bytes.len() as u64];
        for (place, number) in header[8..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let parts = [
            libc::iovec { iov_base: header.as_ptr().cast_mut().cast(), iov_len: header.len() },
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() },
        ];
        let arguments = [self.descriptor.into(), parts.as_ptr() as c_long, 2, 0];
        // SAFETY: two buffers with their lengths; the file is opened for appending.
        let written = unsafe { kernel::call(libc::SYS_writev, arguments) };
        // A recording with a hole would prove nothing.
        assert!(written == (HEADER_BYTES + bytes.len()) as c_long, "the recorder's log is full");
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.log.lock(libc::LOCK_UN);
    }
}

/// Runs `work` and leaves `errno` as it was.
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let errno = kernel::errno();
    let done = work();
    kernel::set_errno(errno);
    done
}

/// A write of the program; at the descriptor's own offset when there is none.
///
/// # Safety
/// `bytes` and `count` are as `pwrite` demands.
pub unsafe fn write(
    descriptor: c_int,
    bytes: *const c_void,
    offset: Option<i64>,
    act: impl FnOnce() -> isize,
) -> isize {
    let Some((log, inode)) =
        log().and_then(|log| Some((log, quietly(|| log.tracked(descriptor))?)))
    else {
        return act();
    };
    let turn = log.turn();
    let offset = offset.unwrap_or_else(|| {
        let arguments = [descriptor.into(), 0, libc::SEEK_CUR.into(), 0];
        // SAFETY: touches no memory.
        unsafe { kernel::call(libc::SYS_lseek, arguments) }
    });
    let count = act();
    if count > 0 {
        // SAFETY: the kernel has just read so many bytes from there.
        let bytes = unsafe { core::slice::from_raw_parts(bytes.cast(), count as usize) };
        quietly(|| log.put(format::WRITE, inode, offset as u64, bytes));
    }
    quietly(|| drop(turn));
    count
}

/// What the program is about to say on its standard output.
///
/// # Safety
/// `bytes` points to `count` bytes.
pub unsafe fn say(bytes: *const c_void, count: usize) {
    let Some(log) = log() else { return };
    // SAFETY: the caller has promised so many bytes; they stay as they are while it waits for this call.
    let bytes = unsafe { core::slice::from_raw_parts(bytes.cast(), count) };
    quietly(|| log.put(format::SAID, 0, 0, bytes));
}

/// A truncation.
pub fn truncate(descriptor: c_int, size: i64, act: impl FnOnce() -> c_int) -> c_int {
    let Some((log, inode)) =
        log().and_then(|log| Some((log, quietly(|| log.tracked(descriptor))?)))
    else {
        return act();
    };
    let turn = log.turn();
    let code = act();
    quietly(|| {
        if code == 0 {
            log.put(format::TRUNCATE, inode, size as u64, &[]);
        }
        drop(turn);
    });
    code
}

/// A sync.
pub fn sync(descriptor: c_int, act: impl FnOnce() -> c_int) -> c_int {
    let Some((log, inode)) =
        log().and_then(|log| Some((log, quietly(|| log.tracked(descriptor))?)))
    else {
        return act();
    };
    quietly(|| {
        let turn = log.turn();
        log.put(format::SYNC_BEGIN, inode, 0, &[]);
        drop(turn);
        std::thread::sleep(log.sync_time);
    });
    let code = act();
    quietly(|| {
        let turn = log.turn();
        if code == 0 {
            log.put(format::SYNC_END, inode, 0, &[]);
        }
        drop(turn);
    });
    code
}

/// An `open`.
///
/// # Safety
/// `path` points to bytes that end with a zero byte.
pub unsafe fn open(path: *const c_char, flags: c_int, act: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller has promised that a zero byte ends it.
    let name = unsafe { CStr::from_ptr(path) }.to_bytes();
    let changes = flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
    let Some(log) = log().filter(|log| changes && log.is_tracked(name)) else { return act() };
    let turn = quietly(|| log.turn());
    // SAFETY: the caller has promised that a zero byte ends it, as `inode_at` demands.
    let was = quietly(|| unsafe { kernel::inode_at(path) });
    let descriptor = act();
    quietly(|| {
        if descriptor >= 0
            && let Some(inode) = kernel::inode_of(descriptor)
        {
            if was.is_none() {
                log.put(format::CREATE, inode, 0, name);
            } else if flags & libc::O_TRUNC != 0 {
                log.put(format::TRUNCATE, inode, 0, &[]);
            }
        }
        drop(turn);
    });
    descriptor
}

/// An `unlink`.
///
/// # Safety
/// `path` points to bytes that end with a zero byte.
pub unsafe fn unlink(path: *const c_char, act: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller has promised that a zero byte ends it.
    let name = unsafe { CStr::from_ptr(path) }.to_bytes();
    let Some(log) = log().filter(|log| log.is_tracked(name)) else { return act() };
    let turn = quietly(|| log.turn());
    // SAFETY: the caller has promised that a zero byte ends it, as `inode_at` demands.
    let inode = quietly(|| unsafe { kernel::inode_at(path) });
    let code = act();
    quietly(|| {
        if let Some(inode) = inode.filter(|_| code == 0) {
            log.put(format::UNLINK, inode, 0, name);
        }
        drop(turn);
    });
    code
}
