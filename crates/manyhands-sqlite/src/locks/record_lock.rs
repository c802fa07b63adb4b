//! One lock request of SQLite, translated; and questions to the kernel about other people's locks.
//!
//! Every function here acts on a canonical descriptor with open-file-description commands. The
//! kernel wants `l_pid` = 0 on the way in, and answers `l_pid` = -1 for a lock that belongs to an
//! open file description. SQLite reads only `l_type` of an answer (`unixCheckReservedLock`,
//! `unixLockSharedMemory`, `unixIsSharingShmNode`, `unixFcntlExternalReader`).

use std::io;
use std::os::fd::RawFd;

use libc::{c_int, c_short};

use crate::planted::planted;

/// SQLite's `SHARED_FIRST`, one after its pending and reserved bytes at 1 GiB.
const SHARED_FIRST: i64 = 0x4000_0002;
/// SQLite's `SHARED_SIZE`: what a stock copy locks, all of it, always.
const SHARED_SIZE: i64 = 510;

/// Bytes of a file as record locks count them: a length of 0 reaches to the end, wherever that will
/// be.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteRange {
    pub(super) start: i64,
    pub(super) length: i64,
}

impl ByteRange {
    pub(super) const WHOLE_FILE: Self = Self { start: 0, length: 0 };
    /// The part of SQLite's SHARED range that our copy never locks.
    pub(super) const FOREIGN_ONLY: Self = Self { start: SHARED_FIRST + 1, length: SHARED_SIZE - 1 };
}

/// Executes SQLite's `F_SETLK`, `F_SETLKW` or `F_GETLK` on the canonical descriptor; answers as
/// `fcntl` does.
///
/// All of SQLite's requests for the SHARED range, read lock, write lock and release alike, shrink
/// to its first byte. A stock copy's read or write lock covers that byte, so each still excludes
/// what it should; and since our copy never holds more than that byte, there is nothing more to
/// release or to downgrade.
pub(super) fn execute(canonical: RawFd, command: c_int, request: &mut libc::flock) -> c_int {
    let mut translated = *request;
    translated.l_pid = 0;
    if translated.l_start == SHARED_FIRST && translated.l_len == SHARED_SIZE {
        translated.l_len = 1;
    }
    let command_translated = match command {
        posix if planted("posix-locks") => posix,
        libc::F_SETLK => libc::F_OFD_SETLK,
        libc::F_SETLKW => libc::F_OFD_SETLKW,
        libc::F_GETLK => libc::F_OFD_GETLK,
        _ => unreachable!("only lock commands are translated"),
    };
    // SAFETY: the third argument of these commands is a `struct flock` that lives through the call,
    // and here it does.
    let result = unsafe { libc::fcntl(canonical, command_translated, &raw mut translated) };
    if command == libc::F_GETLK && result == 0 {
        *request = translated;
    }
    result
}

/// Somebody else's lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conflict {
    /// As the kernel tells it: the process, -1 for a lock of an open file description, 0 for an
    /// invisible process.
    process: i32,
}

impl Conflict {
    pub(super) fn pid(self) -> Option<i32> {
        (self.process > 0).then_some(self.process)
    }

    /// Only our copy locks through open file descriptions.
    pub(super) fn is_external(self) -> bool {
        self.process != -1
    }
}

/// The first lock in the range that does not belong to this open file description.
pub(super) fn first_conflict(canonical: RawFd, range: ByteRange) -> io::Result<Option<Conflict>> {
    let mut probe = record(libc::F_WRLCK, range);
    // SAFETY: F_OFD_GETLK takes a `struct flock` that lives through the call, and here it does.
    if unsafe { libc::fcntl(canonical, libc::F_OFD_GETLK, &raw mut probe) } == -1 {
        return Err(io::Error::last_os_error());
    }
    let free = c_int::from(probe.l_type) == libc::F_UNLCK;
    Ok((!free).then_some(Conflict { process: probe.l_pid }))
}

/// Releases every lock held on the canonical descriptor.
///
/// Without result: a release of the whole file needs no memory, and on a descriptor that is gone
/// there is no lock left.
pub(super) fn release_all(canonical: RawFd) {
    let release = record(libc::F_UNLCK, ByteRange::WHOLE_FILE);
    // SAFETY: F_OFD_SETLK reads a `struct flock` that lives through the call, and here it does.
    unsafe { libc::fcntl(canonical, libc::F_OFD_SETLK, &raw const release) };
}

fn record(kind: c_int, range: ByteRange) -> libc::flock {
    libc::flock {
        l_type: kind as c_short,
        l_whence: libc::SEEK_SET as c_short,
        l_start: range.start,
        l_len: range.length,
        l_pid: 0,
    }
}
