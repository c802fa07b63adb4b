//! Checkpoint starvation: which reader keeps the WAL from being reused.
//!
//! Readers do nothing for this. When somebody wants to know, the kernel is asked who holds the lock of the oldest read
//! mark. The locks of a stock SQLite belong to a process, which the kernel names. Our locks belong to open files, which have no
//! process; but /proc shows the files of a process with their locks, and the processes in question are members of the queue.
//!
//! What can go wrong: /proc shows nothing of processes of other users or pid namespaces. Then the reader is reported without its
//! name.

use core::fmt;
use core::time::Duration;
use std::fs;

use manyhands_queue::{MemberInfo, Queue, kernel_locks};
use manyhands_sqlite::{self as sqlite, OpenMode};

use crate::commit::file::DatabaseFile;

/// A reader that keeps the WAL from being reused, because it still reads what was so when it began.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WalReader {
    /// Its process; `None` for one of another user or pid namespace, if we may not look at it.
    pub pid: Option<u32>,
    /// What its process was started as, the words of its command line; empty when that is not known.
    pub command: String,
    /// The label that its process gave last when it opened the database; empty without one, and for another
    /// SQLite program.
    pub label: String,
    /// True for another SQLite program.
    pub is_external: bool,
    /// For how long checkpoints have come no further, as far as is known. It reads at least as long.
    pub age: Duration,
}

impl fmt::Display for WalReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}")?,
            None => write!(f, "a process that cannot be named from here")?,
        }
        let details = [self.label.as_str(), self.command.as_str()];
        let details: Vec<&str> = details.into_iter().filter(|text| !text.is_empty()).collect();
        if !details.is_empty() {
            write!(f, " ({})", details.join(": "))?;
        }
        if self.is_external {
            write!(f, ", another SQLite program,")?;
        }
        write!(f, " has been reading for {:.1} s at least", self.age.as_secs_f64())
    }
}

/// How many characters of a command line are told.
const COMMAND_MAX: usize = 80;

/// The oldest reader, if one holds back the WAL now.
pub(crate) fn find(file: &DatabaseFile, queue: &Queue) -> Option<WalReader> {
    // A connection of its own: those of others are in use by other threads.
    let connection = file.open_sqlite(OpenMode::ReadWrite).ok()?;
    // It knows the wal-index when it has read.
    connection.query_text("SELECT CAST(count(*) AS TEXT) FROM sqlite_schema").ok()?;
    let frames = connection.wal_index()?.frame_last;
    let shm = file.shared_memory()?;
    let age = queue.starved_for();
    let found = |pid, label, is_external| WalReader {
        pid,
        command: pid.map(command_of).unwrap_or_default(),
        label,
        is_external,
        age,
    };
    for byte in lock_bytes(connection.checkpoint_info()?.read_marks, frames) {
        let other = sqlite::locks::holder(shm.0, shm.1, byte);
        if let Some(holder) = other.filter(|holder| holder.external) {
            let pid = holder.pid.and_then(|pid| u32::try_from(pid).ok());
            return Some(found(pid, String::new(), true));
        }
        let members = queue.members();
        let of_ours = members.into_iter().find(|member| holds(member.pid, shm.1, byte));
        if let Some(MemberInfo { pid, label }) = of_ours {
            return Some(found(Some(pid), label, false));
        }
        if other.is_some() {
            return Some(found(None, String::new(), false));
        }
    }
    None
}

/// The bytes whose locks are held by readers that do not see all of the WAL's `frames`, the oldest first.
fn lock_bytes(marks: [u32; sqlite::READ_MARKS], frames: u32) -> impl Iterator<Item = i64> {
    let mut old: Vec<(u32, i64)> =
        marks.into_iter().zip(sqlite::vfs::READ_LOCK_BYTE_FIRST..).collect();
    // A connection that reads without the WAL has the first mark, whatever its value.
    old[0].0 = 0;
    // A mark of all ones is not in use.
    old.retain(|&(mark, _)| mark < frames);
    old.sort_unstable();
    old.into_iter().map(|(_, byte)| byte)
}

/// True when an open file of the process holds a lock on this byte of the -shm file with this inode.
fn holds(pid: u32, inode: u64, byte: i64) -> bool {
    let locks = kernel_locks::of_open_files(pid, Some("-shm"));
    locks.iter().any(|lock| lock.is_of_open_file && lock.covers(inode, byte))
}

fn command_of(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = bytes.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
    words.join(" ").trim().chars().take(COMMAND_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The oldest first; who sees everything is in nobody's way.
    #[test]
    fn old_readers() {
        let check = |marks, expected: &[i64]| {
            assert_eq!(lock_bytes(marks, 100).collect::<Vec<_>>(), expected, "{marks:?}");
        };
        check([0, 100, 40, 7, u32::MAX], &[123, 126, 125]);
        check([50, 100, 100, 100, 100], &[123]);
    }
}
