//! Joining a queue: what it needs, and why it may be refused.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;

use crate::clock::Deadline;

/// What is tried first, as [`JoinError::System`] names it.
pub(crate) const OPEN: &str = "open";

/// What joining needs to know.
#[derive(Clone, Copy, Debug)]
pub struct JoinOptions {
    /// A word that all members must agree on: the number of the SQLite version.
    pub program: u64,
    /// Permission bits of the file: for those who may write the database, see [`JoinOptions::mode_of_writers`].
    pub mode: u32,
    /// User id for a new file: the database's. Other owners are accepted where the mode says that others write.
    pub owner: u32,
    /// Group id for a new file: the database's.
    pub group: u32,
    /// When to give up waiting for others who join or leave.
    pub deadline: Deadline,
}

impl JoinOptions {
    /// The permission bits of a queue file for a database that has `mode`: read and write for each who may write the
    /// database, and nothing for the others. What waits in the file are statements with their values, also such as are
    /// never in the database.
    pub fn mode_of_writers(mode: u32) -> u32 {
        let write = mode & 0o222;
        write << 1 | write
    }
}

/// Why a queue could not be joined. `E` is the error of the first member's preparation.
#[derive(Debug, thiserror::Error)]
pub enum JoinError<E> {
    /// The operating system refused.
    #[error("cannot {action} the queue file {path}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The queue file.
        path: PathBuf,
        /// The refusal.
        source: io::Error,
    },
    /// A network file system: neither its locks nor its mappings are shared between machines.
    #[error(
        "{path} is on a network file system ({file_system}); SQLite's WAL mode and Manyhands need a local disk"
    )]
    Network {
        /// The queue file.
        path: PathBuf,
        /// The file system's usual name.
        file_system: String,
    },
    /// A file system on which processes of this machine cannot meet.
    #[error(
        "the file system of {path} does not serve: {reason}; SQLite's WAL mode and Manyhands need one that shares locks \
         and mapped files between processes"
    )]
    Unfit {
        /// The queue file.
        path: PathBuf,
        /// What does not work there.
        reason: &'static str,
    },
    /// The file was not made by the database's owner for this purpose.
    #[error(
        "the queue file {path} is not safe to use: {reason}; remove it if no program uses the database"
    )]
    Unsafe {
        /// The queue file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Programs with another version of Manyhands or of SQLite have the database open now.
    #[error(
        "{path} is in use by another version (queue layout {layout}, SQLite {program}); let those programs end, or use the same version"
    )]
    OtherVersion {
        /// The queue file.
        path: PathBuf,
        /// Their layout number.
        layout: u64,
        /// Their SQLite version number.
        program: u64,
    },
    /// All member numbers are taken.
    #[error("4096 processes have {path} open already")]
    TooManyMembers {
        /// The queue file.
        path: PathBuf,
    },
    /// Another process held the join lock until the deadline.
    #[error(
        "timed out joining the queue {path}: another process is opening or closing the database"
    )]
    TimedOut {
        /// The queue file.
        path: PathBuf,
    },
    /// The first member's preparation failed.
    #[error("{0}")]
    Preparation(E),
}

impl<E> JoinError<E> {
    /// True when there is no queue file, and the process has no right to make files in its directory.
    pub fn may_make_no_file(&self) -> bool {
        let JoinError::System { action: OPEN, path, .. } = self else { return false };
        let is_missing =
            path.symlink_metadata().is_err_and(|it| it.kind() == io::ErrorKind::NotFound);
        // Asked for itself: a call that is refused once says little.
        let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
        let may_write = accessat(
            CWD,
            directory.unwrap_or(Path::new(".")),
            Access::WRITE_OK | Access::EXEC_OK,
            AtFlags::EACCESS,
        );
        is_missing && matches!(may_write, Err(Errno::ACCESS | Errno::ROFS))
    }
}
