//! Who holds which lock on a file, as the kernel tells it in /proc.
//!
//! A POSIX lock, as a stock SQLite has it, belongs to a process, which the kernel names. A lock of an open file description, as Manyhands has it,
//! has no process; but /proc shows the open files of a process with their locks.
//!
//! What can go wrong: /proc shows nothing of the open files of other users' processes, nor of other pid namespaces. Then a lock has no
//! process.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use crate::member;

/// A lock on a range of a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLock {
    /// True for a lock of an open file description, false for one of a process.
    pub is_of_open_file: bool,
    /// Whose it is, if the kernel names somebody.
    pub pid: Option<u32>,
    /// True for an exclusive lock.
    pub is_exclusive: bool,
    /// The file's inode number. Its device number may be another than `stat` gives.
    pub inode: u64,
    /// The first byte.
    pub first: i64,
    /// The last byte.
    pub last: i64,
}

impl FileLock {
    /// Whether it is on this byte of this file.
    pub fn covers(&self, inode: u64, byte: i64) -> bool {
        self.inode == inode && self.first <= byte && byte <= self.last
    }

    /// What follows `lock:` in /proc/PID/fdinfo (proc(5)): `1: OFDLCK ADVISORY  READ -1 08:01:1234 123 123`.
    fn parse(line: &str) -> Option<FileLock> {
        let mut words = line.split_whitespace().skip(1);
        // One that still waits has an arrow here.
        let is_of_open_file = match words.next()? {
            "OFDLCK" => true,
            "POSIX" => false,
            _ => return None,
        };
        let is_exclusive = words.nth(1)? == "WRITE";
        let pid = words.next()?.parse().ok().filter(|pid| *pid != 0);
        let inode = words.next()?.rsplit(':').next()?.parse().ok()?;
        let first = words.next()?.parse().ok()?;
        let last = words.next()?;
        let last = if last == "EOF" { i64::MAX } else { last.parse().ok()? };
        Some(FileLock { is_of_open_file, pid, is_exclusive, inode, first, last })
    }
}

/// A lock that somebody else holds on one byte of an open file. Asked of the kernel itself: a list in /proc may miss what changes while it is
/// read.
///
/// # Errors
/// As the operating system fails.
pub fn holder(file: &File, byte: i64) -> io::Result<Option<FileLock>> {
    let Some(lock) = member::conflicting(file, byte, 1)? else { return Ok(None) };
    let last = lock.l_start.saturating_add(if lock.l_len == 0 { i64::MAX } else { lock.l_len - 1 });
    Ok(Some(FileLock {
        is_of_open_file: lock.l_pid == -1,
        pid: u32::try_from(lock.l_pid).ok().filter(|pid| *pid != 0),
        is_exclusive: lock.l_type == libc::F_WRLCK as libc::c_short,
        inode: file.metadata()?.ino(),
        first: lock.l_start,
        last,
    }))
}

/// The locks of a process's open files; none of one that we may not look at. With `name_end` only of files whose name ends so.
pub fn of_open_files(pid: u32, name_end: Option<&str>) -> Vec<FileLock> {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let mut locks = Vec::new();
    for file in files.flatten() {
        let is_meant = name_end.is_none_or(|end| {
            let name = fs::read_link(file.path()).unwrap_or_default();
            let name = name.as_os_str().as_bytes();
            name.strip_suffix(b" (deleted)").unwrap_or(name).ends_with(end.as_bytes())
        });
        if !is_meant {
            continue;
        }
        let number = file.file_name();
        let information = format!("/proc/{pid}/fdinfo/{}", number.to_string_lossy());
        let information = fs::read_to_string(information).unwrap_or_default();
        let lines = information.lines().filter_map(|line| line.strip_prefix("lock:"));
        locks.extend(lines.filter_map(FileLock::parse));
    }
    locks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<(bool, Option<u32>, bool, i64, i64)>) {
        let lock = FileLock::parse(line);
        let found = lock.map(|it| {
            assert_eq!(it.inode, 1234);
            (it.is_of_open_file, it.pid, it.is_exclusive, it.first, it.last)
        });
        assert_eq!(found, expected, "{line}");
    }

    /// The lines of a real kernel.
    #[test]
    fn locks_of_a_file() {
        check(
            "\t1: OFDLCK ADVISORY  READ -1 fe:00:1234 123 124",
            Some((true, None, false, 123, 124)),
        );
        check(
            "12: OFDLCK ADVISORY  WRITE -1 fe:00:1234 0 EOF",
            Some((true, None, true, 0, i64::MAX)),
        );
        check(
            "1: POSIX  ADVISORY  READ 77 fe:00:1234 123 123",
            Some((false, Some(77), false, 123, 123)),
        );
        check("1: -> POSIX  ADVISORY  WRITE 77 fe:00:1234 123 123", None);
        check("1: FLOCK  ADVISORY  WRITE 77 fe:00:1234 0 EOF", None);
        check("1: OFDLCK", None);
        check("", None);
    }
}
