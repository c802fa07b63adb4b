//! Who else has the file open.

use core::sync::atomic::Ordering;
use std::os::unix::fs::MetadataExt;

use manyhands_sqlite as sqlite;
use manyhands_sqlite::locks::Holder;

use super::{DatabaseFile, FileId, is_recent};
use crate::limits;

impl DatabaseFile {
    /// Gives the -wal and -shm files to the group of the database, where its members may write: SQLite gives them its
    /// mode, and its owner and group only where it runs as root. Otherwise the database's owner could not write when
    /// another member of the group was first. A process that is not in the group, or does not own the files, may not do this.
    pub(crate) fn share_with_group(&self) {
        const GROUP_WRITES: u32 = 0o020;
        let Ok(found) = std::fs::metadata(&self.path) else { return };
        if found.mode() & GROUP_WRITES == 0 {
            return;
        }
        for suffix in ["-shm", "-wal"] {
            let mut path = self.path.as_os_str().to_owned();
            path.push(suffix);
            // Links are not followed.
            if std::fs::symlink_metadata(&path).is_ok_and(|it| it.gid() != found.gid()) {
                let _ = std::os::unix::fs::lchown(&path, None, Some(found.gid()));
            }
        }
    }

    /// True when another SQLite program has the database open, or had, some milliseconds ago. Only leaders
    /// ask: with a thousand processes that have the file open, to look costs more than a request.
    pub(crate) fn has_external_connections(&self) -> bool {
        let now_ns = self.now_ns();
        if !is_recent(&self.external_ns, now_ns, limits::LOOK_EVERY) {
            let external = sqlite::locks::external_connection(self.id.0, self.id.1).is_some();
            self.external.store(external, Ordering::Relaxed);
            self.external_ns.store(now_ns, Ordering::Relaxed);
        }
        self.external.load(Ordering::Relaxed)
    }

    /// Who else holds the lock on this byte of the -shm file: another process, or another SQLite in this one.
    pub(crate) fn lock_holder(&self, byte: i64) -> Option<Holder> {
        let (device, inode) = self.shared_memory()?;
        sqlite::locks::holder(device, inode, byte)
    }

    /// Which file the -shm file is.
    pub(crate) fn shared_memory(&self) -> Option<FileId> {
        let mut path = self.path.as_os_str().to_owned();
        path.push("-shm");
        let found = std::fs::metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    }
}
