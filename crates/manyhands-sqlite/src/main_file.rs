//! What the engine wants of a connection's database file and of its -wal file: the connection is ours, the files are
//! SQLite's, and between stands the shim (`vfs`).

use core::time::Duration;
use std::sync::Arc;

use libsqlite3_sys as ffi;

use crate::vfs::{
    self, CheckpointInfo, CommitObserver, DatabaseFile, Promotion, SpeculationStatus,
    WalIndexHeader,
};
use crate::{Connection, Error};

impl Connection {
    /// Lets `act` work on the main database's file, in SQLite's mutex; `None` for one that is not the shim's.
    fn file<T>(&self, act: impl FnOnce(&mut DatabaseFile) -> T) -> Option<T> {
        // SAFETY: the connection is open. Only the closures of this module come here, and none of them has it.
        unsafe { vfs::with_database_file(self.raw(), act) }
    }

    /// True for a file that was opened through the shim. A `file:` URI may name another VFS.
    pub fn is_ours(&self) -> bool {
        self.file(|_| ()).is_some()
    }

    /// Arms or disarms the connection: while it is armed, a transaction that has read writes on its
    /// snapshot. A transaction that writes already goes on as it was. If the system cannot map a view
    /// of the wal-index, the transaction takes the real lock; [`Connection::speculation_status`]
    /// tells.
    pub fn arm_speculation(&self, armed: bool) {
        self.file(|file| file.speculation.arm(armed));
    }

    /// Gives a speculative transaction the real write lock, if nobody has committed since its snapshot. Never waits.
    pub fn promote(&self) -> Promotion {
        self.file(DatabaseFile::promote).unwrap_or(Promotion::Stale)
    }

    /// Takes the WAL's write lock for the transaction that this connection begins next, outside of one. Never waits; false
    /// when it is not to be had. A program that commits again and again leaves the lock free for some microseconds, and SQLite
    /// would need them twice: to begin a snapshot, which must be the newest, and to take the lock.
    ///
    /// The caller gives it back, if no transaction came of it: [`Connection::give_lock_back`].
    pub fn lock_ahead(&self) -> bool {
        self.file(|file| file.lock_ahead(true)).unwrap_or(false)
    }

    /// Gives back what [`Connection::lock_ahead`] has taken, if it is not a transaction's now.
    pub fn give_lock_back(&self) {
        self.file(|file| file.lock_ahead(false));
    }

    /// The state of the connection's speculative transaction.
    pub fn speculation_status(&self) -> SpeculationStatus {
        self.file(|file| file.speculation.status()).unwrap_or_default()
    }

    /// What the wal-index says of checkpoints and readers. `None` while the connection has not read.
    pub fn checkpoint_info(&self) -> Option<CheckpointInfo> {
        self.file(|file| file.speculation.checkpoint_info()).flatten()
    }

    /// The wal-index header in shared memory. Stable only while this connection holds the write lock.
    pub fn wal_index(&self) -> Option<WalIndexHeader> {
        self.speculation_status().live
    }

    /// How long the last sync of the -wal file by this connection has taken; `None` when there was none since the last call.
    pub fn take_sync_time(&self) -> Option<Duration> {
        self.file(|file| file.sync_time.take()).flatten()
    }

    /// Whether the next checkpoints offer the processor to others.
    pub(crate) fn be_gentle(&self, gentle: bool) {
        self.file(|file| file.gentle = gentle);
    }

    /// The header of the frame that starts at `offset` of the -wal file; `None` when the file ends before it.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn wal_frame_header(&self, offset: u64) -> Result<Option<[u8; 24]>, Error> {
        self.file(|file| file.wal_frame_header(offset)).unwrap_or(Ok(None))
    }

    /// Makes the frame that starts at `offset` of the -wal file, and all behind it, unknown to recoveries.
    /// Only for a frame that the wal-index does not cover, and while this connection holds the write
    /// lock. Not durable before [`Connection::sync_wal`].
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn erase_wal_frame(&self, offset: u64) -> Result<(), Error> {
        let erased = self.file(|file| file.erase_wal_frame(offset));
        erased.unwrap_or_else(|| Err(Error::misuse("the connection has no WAL to erase from")))
    }

    /// Syncs the -wal file.
    ///
    /// # Errors
    /// When the sync fails: what the disk holds is unknown then.
    pub fn sync_wal(&self) -> Result<(), Error> {
        self.file(DatabaseFile::sync_wal_now).unwrap_or(Ok(()))
    }

    /// Sets the observer of this connection's commits.
    ///
    /// # Errors
    /// When the database is not a file.
    pub fn observe_commits(&self, observer: Arc<dyn CommitObserver>) -> Result<(), Error> {
        self.file(|file| file.announcements.observe(observer))
            .ok_or_else(|| Error::from_code(ffi::SQLITE_NOTFOUND))
    }
}
