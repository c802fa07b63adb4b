//! Members and their lives, witnessed by the kernel.
//!
//! A member holds a write lock on one byte of the queue file, far behind its end, as long as its
//! process lives. The kernel drops the lock when the process dies, however it dies; no process id is
//! ever trusted. The locks are open-file-description locks: they belong to the descriptor, so other
//! code of the process that opens and closes the file cannot drop them (POSIX record locks would go),
//! and each process has exactly one descriptor of a queue file.

use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, Ordering};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::fork::{self, Owner};
use crate::layout::MEMBERS;

/// First lock byte; behind any file that could exist.
const LOCKS_BASE: i64 = 1 << 40;
/// Held by who joins or leaves; shared by who joins a queue that lives.
const JOIN_BYTE: i64 = LOCKS_BASE;
/// Held by who gives more of the file its room on the disk.
const ROOM_BYTE: i64 = LOCKS_BASE - 1;
/// The byte of member 0.
const MEMBER_BASE: i64 = LOCKS_BASE + 1;

/// An open queue file with its locks. Dropping it lets go of them; a forked child never holds it.
#[derive(Debug)]
pub(crate) struct MemberFile {
    /// In a forked child `fork` has closed it.
    file: ManuallyDrop<File>,
    owner: Owner,
    generation: u64,
    /// The number is no longer ours.
    abandoned: AtomicBool,
}

impl MemberFile {
    pub(crate) fn new(file: File) -> io::Result<MemberFile> {
        let Some(owner) = fork::register(file.as_raw_fd()) else {
            let text = format!("its descriptor is {} or above", fork::DESCRIPTORS_MAX);
            return Err(io::Error::other(text));
        };
        Ok(MemberFile {
            file: ManuallyDrop::new(file),
            owner,
            generation: fork::generation(),
            abandoned: AtomicBool::new(false),
        })
    }

    /// Somebody else has closed the descriptor: nothing is done with its number any more.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        fork::unregister(self.file.as_raw_fd(), self.owner);
    }

    /// True in a child that got this from its parent by `fork()`.
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation != fork::generation()
    }
}

impl Deref for MemberFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for MemberFile {
    fn drop(&mut self) {
        if self.is_inherited() || self.abandoned.load(Ordering::Relaxed) {
            return;
        }
        // By hand and not by closing: a child that is forked just before the close would keep them.
        let _ = set_lock(&self.file, LockKind::None, ROOM_BYTE, 2 + MEMBERS as i64);
        fork::unregister(self.file.as_raw_fd(), self.owner);
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.file) };
    }
}

/// What kind of lock to ask for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockKind {
    Shared,
    Exclusive,
    None,
}

fn flock(kind: LockKind, start: i64, len: i64) -> libc::flock {
    // SAFETY: `flock` is a struct of integers, for which zero is a value.
    let mut lock: libc::flock = unsafe { core::mem::zeroed() };
    lock.l_type = match kind {
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
        LockKind::None => libc::F_UNLCK,
    } as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = start;
    lock.l_len = len;
    lock
}

/// Asks for a lock without waiting. False when somebody else's is in the way.
fn set_lock(file: &File, kind: LockKind, start: i64, len: i64) -> io::Result<bool> {
    let lock = flock(kind, start, len);
    // SAFETY: the descriptor is open, and `lock` lives through the call.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if result == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

/// True when another open file description holds a lock in the range.
fn is_locked(file: &File, start: i64, len: i64) -> io::Result<bool> {
    Ok(conflicting(file, start, len)?.is_some())
}

/// A lock in the range that another open file description, or a process, holds.
pub(crate) fn conflicting(file: &File, start: i64, len: i64) -> io::Result<Option<libc::flock>> {
    let mut lock = flock(LockKind::Exclusive, start, len);
    // SAFETY: the descriptor is open, and `lock` lives through the call, which writes to it.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((lock.l_type != libc::F_UNLCK as libc::c_short).then_some(lock))
}

/// Asks for the lock that orders joining and leaving, without waiting.
pub(crate) fn lock_joining(file: &File, kind: LockKind) -> io::Result<bool> {
    set_lock(file, kind, JOIN_BYTE, 1)
}

/// Asks for the lock of who gives more of the file its room, without waiting.
pub(crate) fn lock_room(file: &File, kind: LockKind) -> io::Result<bool> {
    set_lock(file, kind, ROOM_BYTE, 1)
}

/// Takes a member number, if it is free.
pub(crate) fn enlist(file: &File, member: u16) -> io::Result<bool> {
    set_lock(file, LockKind::Exclusive, MEMBER_BASE + i64::from(member), 1)
}

/// Ends the membership: the others do not count this process any more.
pub(crate) fn resign(file: &File, member: u16) -> io::Result<bool> {
    set_lock(file, LockKind::None, MEMBER_BASE + i64::from(member), 1)
}

/// True while the process of another member lives. The own member number always answers false: ask
/// only about others.
pub(crate) fn lives(file: &File, member: u16) -> io::Result<bool> {
    is_locked(file, MEMBER_BASE + i64::from(member), 1)
}

/// The member whose byte this is.
pub(crate) fn member_of_byte(byte: i64) -> Option<u16> {
    let number = u16::try_from(byte.checked_sub(MEMBER_BASE)?).ok()?;
    (usize::from(number) < MEMBERS).then_some(number)
}

/// True while any other member lives.
pub(crate) fn any_other_lives(file: &File) -> io::Result<bool> {
    is_locked(file, MEMBER_BASE, MEMBERS as i64)
}
