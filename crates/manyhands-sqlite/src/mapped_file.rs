//! A database file, mapped into memory to be read: once in a process, for all its connections.
//!
//! A connection that sees others' commits empties its page cache, and reads each page again with a system call
//! and a copy. Through the mapping it reads them where the operating system caches them
//! (<https://sqlite.org/mmap.html>). SQLite's own mapping is each connection's, and is unmapped whenever
//! others have committed; this one stays.
//!
//! Only what SQLite asks for with xFetch is read here: pages of the database file itself that a reader's
//! snapshot finds there. SQLite changes no such page while anybody reads it (<https://sqlite.org/wal.html>),
//! and all writing goes through the file: the mapping is for reading.
//!
//! What always holds:
//! * The mapping is of the very file that the connection has open, whatever its path leads to by now. It keeps
//!   that file's inode, so as long as it lives its identity is no other file's.
//! * An address that [`View::fetch`] gave is good until the connection closes.
//! * What is found in the mapping is what would have been read from the file: if somebody truncates the file under
//!   it, a missing page is read as SQLite reads one, and these connections map nothing any more ([`manyhands_sigbus`]).
//!
//! What can go wrong: a mapping that cannot be had is no error. SQLite reads then as it always did. A disk that
//! fails to read a page ends the process with SIGBUS, as it does wherever SQLite maps its file.

use core::ffi::c_void;
use core::ptr;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, Weak};

use manyhands_sigbus::{Healing, Watch};

use crate::locks::{self, FileIdentity};
use crate::planted::planted;

/// So much of each database file is mapped at most, from its beginning, in bytes. The rest is read as ever.
pub(crate) const WINDOW_BYTES: i64 = 256 << 20;

/// SQLite reads so many bytes behind a page at most, and believes none of them: where records are compared. Its own
/// mapping asks for as many (`unixFetch` in os_unix.c).
const READ_BEHIND_BYTES: i64 = 256;

/// So often SQLite asks before a mapping is made, or looked for: who reads less reads faster without.
const ASKED_BEFORE: u32 = 16;

/// So many pages that are not there are asked for before the file's length is looked at again.
const MISSED_BEFORE: u64 = 64;

/// By file, the mappings of this process; those of an earlier generation are a parent's
/// ([`locks::generation`]).
static MAPPED: Mutex<BTreeMap<(u64, FileIdentity), Weak<MappedFile>>> = Mutex::new(BTreeMap::new());

/// An open file, as the kernel describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    pub(crate) descriptor: RawFd,
    pub(crate) identity: FileIdentity,
    pub(crate) bytes: i64,
}

#[derive(Debug)]
struct MappedFile {
    address: usize,
    /// The descriptor with the locks, which stays as long as a connection is open on the file.
    canonical: RawFd,
    /// `None` only while it is dropped.
    watch: Option<Watch>,
}

impl MappedFile {
    /// `None` also for a file that is open for reading only: an overlay file system gives its reader another
    /// file than its writers have, from the first of them on.
    fn new(status: Status) -> Option<MappedFile> {
        // SAFETY: integers.
        let flags = unsafe { libc::fcntl(status.descriptor, libc::F_GETFL) };
        let canonical = locks::canonical_of(status.descriptor)?;
        if flags & libc::O_ACCMODE != libc::O_RDWR {
            return None;
        }
        // Not of the descriptor that has the locks: a forked child inherits the mapping, and with it the open
        // file description.
        // SAFETY: asks for memory that nobody has yet.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                WINDOW_BYTES as usize,
                libc::PROT_READ,
                libc::MAP_SHARED,
                status.descriptor,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return None;
        }
        let address = address as usize;
        // SAFETY: the mapping is this one's, for reading. Each connection that has it keeps the descriptor, and lets
        // the mapping go before it closes.
        let watch = unsafe {
            let healing = Healing::Page { descriptor: canonical };
            manyhands_sigbus::watch(address, WINDOW_BYTES as usize, healing)
        };
        let is_watched = watch.is_some();
        let mapped = MappedFile { address, canonical, watch };
        is_watched.then_some(mapped)
    }

    fn has_failed(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::has_failed)
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        drop(self.watch.take());
        // SAFETY: mapped by `new` with this length; no connection has a page of it any more.
        unsafe { libc::munmap(self.address as *mut c_void, WINDOW_BYTES as usize) };
    }
}

/// What one connection has of the mapping of one database file.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// `PRAGMA mmap_size`.
    limit: i64,
    asked: u32,
    mapped: Option<Arc<MappedFile>>,
    /// So much of the file is there until somebody commits: what is behind the end of the newest snapshot may be cut.
    /// Pages behind it may be asked for all the same: those that were allocated and never written.
    bytes: i64,
    /// How many pages were asked for behind that.
    missed: u64,
    /// It cannot be had, or the connection closes.
    is_off: bool,
}

impl View {
    /// Sets the limit, unless it is negative, and tells the one before.
    pub(crate) fn set_limit(&mut self, bytes: i64) -> i64 {
        let before = self.limit;
        if bytes >= 0 {
            self.limit = bytes.min(WINDOW_BYTES);
            // While it is 0 SQLite does not say that others have committed.
            self.look_again();
        }
        before
    }

    /// The address of `count` bytes of the file from `offset` on; null where they must be read from the file.
    /// `look` looks at the file.
    pub(crate) fn fetch(
        &mut self,
        offset: i64,
        count: i64,
        look: impl Fn() -> Option<Status>,
    ) -> *mut c_void {
        let end =
            offset + count + if planted("nothing-read-behind") { 0 } else { READ_BEHIND_BYTES };
        if self.is_off || end > self.limit || !self.is_mapped(&look) {
            return ptr::null_mut();
        }
        let Some(mapped) = self.mapped.as_deref().filter(|mapped| !mapped.has_failed()) else {
            return ptr::null_mut();
        };
        if end > self.bytes {
            // A writer reads many that are new; and the file grows at any time.
            if self.missed.is_multiple_of(MISSED_BEFORE) {
                self.bytes = look().map_or(0, |status| status.bytes);
            }
            self.missed += 1;
        }
        if end > self.bytes {
            return ptr::null_mut();
        }
        (mapped.address + offset as usize) as *mut c_void
    }

    fn is_mapped(&mut self, look: impl Fn() -> Option<Status>) -> bool {
        if self.mapped.is_some() {
            return true;
        }
        self.asked += 1;
        if self.asked <= ASKED_BEFORE {
            return false;
        }
        // Never waited for: after a fork nobody might give it back.
        let Ok(mut mappings) = MAPPED.try_lock() else { return false };
        let Some(status) = look() else { return false };
        let key = (locks::generation(), status.identity);
        let there = mappings.get(&key).and_then(Weak::upgrade);
        let canonical = locks::canonical_of(status.descriptor);
        self.mapped =
            there.filter(|mapped| canonical == Some(mapped.canonical) && !mapped.has_failed());
        if self.mapped.is_none() {
            mappings.retain(|_, mapped| mapped.strong_count() > 0);
            self.mapped = MappedFile::new(status).map(Arc::new);
            self.is_off = self.mapped.is_none();
        }
        if let Some(mapped) = &self.mapped {
            mappings.insert(key, Arc::downgrade(mapped));
        }
        self.mapped.is_some()
    }

    /// The file may be shorter than it was: somebody else has committed, or this connection cuts it.
    pub(crate) fn look_again(&mut self) {
        (self.bytes, self.missed) = (0, 0);
    }

    /// The connection has committed, and its database is so long now.
    pub(crate) fn cut(&mut self, database_bytes: Option<i64>) {
        self.bytes = database_bytes.map_or(0, |it| it.min(self.bytes));
    }

    /// The connection closes.
    pub(crate) fn close(&mut self) {
        *self = View { is_off: true, ..View::default() };
    }
}
