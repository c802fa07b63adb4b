//! Which files are managed, and how one is recognised again.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

use libc::c_int;

/// The file behind a descriptor, as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileIdentity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl FileIdentity {
    pub(super) fn of(status: &libc::stat) -> Self {
        Self { device: status.st_dev, inode: status.st_ino }
    }
}

/// False for what nobody locks: temporary files and super-journals (which are created exclusively),
/// directories, /dev/urandom, and a -wal or -journal beside its database.
pub(super) fn may_be_managed(path: &CStr, flags: c_int, status: Option<&libc::stat>) -> bool {
    let temporary = flags & (libc::O_EXCL | libc::O_DIRECTORY) != 0;
    !temporary && status.is_none_or(is_regular) && !is_log_of_database(path)
}

fn is_log_of_database(path: &CStr) -> bool {
    [b"-wal".as_slice(), b"-journal"].iter().any(|suffix| {
        let Some(database) = path.to_bytes().strip_suffix(*suffix) else { return false };
        // A path has no inner NUL, so neither has its beginning.
        CString::new(database).is_ok_and(|database| status_of_path(&database, 0).is_some())
    })
}

/// Asks for what the kernel would check at an `open`: the permissions, or the user, may have
/// changed since.
pub(super) fn may_access(path: &CStr, access: c_int) -> bool {
    let wanted = if access == libc::O_RDWR { libc::R_OK | libc::W_OK } else { libc::R_OK };
    // SAFETY: a C string and integers.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), wanted, libc::AT_EACCESS) == 0 }
}

pub(super) fn status_of_path(path: &CStr, flags: c_int) -> Option<libc::stat> {
    let link = if flags & libc::O_NOFOLLOW == 0 { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    let mut status = MaybeUninit::uninit();
    // SAFETY: a C string, integers, and room for a `struct stat`.
    let result = unsafe { libc::fstatat(libc::AT_FDCWD, path.as_ptr(), status.as_mut_ptr(), link) };
    // SAFETY: filled by a call that succeeded.
    (result == 0).then(|| unsafe { status.assume_init() })
}

pub(super) fn status_of_descriptor(descriptor: RawFd) -> io::Result<libc::stat> {
    let mut status = MaybeUninit::uninit();
    // SAFETY: an integer, and room for a `struct stat`.
    if unsafe { libc::fstat(descriptor, status.as_mut_ptr()) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled by a call that succeeded.
    Ok(unsafe { status.assume_init() })
}

pub(super) fn identity_of(descriptor: RawFd) -> io::Result<FileIdentity> {
    status_of_descriptor(descriptor).map(|status| FileIdentity::of(&status))
}

pub(super) fn names(descriptor: RawFd, file: FileIdentity) -> bool {
    identity_of(descriptor).is_ok_and(|now| now == file)
}

/// True when the descriptor was closed, or another file has its number. An error that says neither is no such sign.
pub(super) fn is_gone(descriptor: RawFd, is_it: impl FnOnce(&libc::stat) -> bool) -> bool {
    match status_of_descriptor(descriptor) {
        Ok(status) => !is_it(&status),
        Err(error) => error.raw_os_error() == Some(libc::EBADF),
    }
}

pub(super) fn is_regular(status: &libc::stat) -> bool {
    status.st_mode & libc::S_IFMT == libc::S_IFREG
}

/// True for a descriptor of this file, if the file has no name any more.
pub(super) fn is_deleted(descriptor: RawFd, file: FileIdentity) -> bool {
    let is_it = |status: &libc::stat| FileIdentity::of(status) == file && status.st_nlink == 0;
    status_of_descriptor(descriptor).is_ok_and(|status| is_it(&status))
}
