//! A database file and its -wal file, mapped into memory to be read: once in a process, for all its connections.
//!
//! A connection that sees others' commits empties its page cache, and reads each page again with a system call
//! and a copy. Through the mapping it reads them where the operating system caches them
//! (<https://sqlite.org/mmap.html>). SQLite's own mapping is each connection's, and is unmapped whenever
//! others have committed; this one stays.
//!
//! Only pages that a reader's snapshot finds there are read here: of the database file those that SQLite asks for with
//! xFetch, of the -wal file those that it reads without their frames' headers. SQLite changes no such page while anybody
//! reads it (<https://sqlite.org/wal.html>), and all writing goes through the file: the mapping is for reading.
//!
//! What always holds:
//! * The mapping is of the very file that the connection has open, whatever its path leads to by now. It keeps
//!   that file's inode, so as long as it lives its identity is no other file's.
//! * An address that [`View::fetch`] gave is good until the connection closes. A page of the -wal file is copied.
//! * What is found in the mapping is what would have been read from the file: if somebody truncates the file under
//!   it, a missing page is read as SQLite reads one, and these connections map nothing any more ([`manyhands_sigbus`]).
//!
//! What can go wrong: a mapping that cannot be had is no error. SQLite reads then as it always did. A disk that
//! fails to read a page ends the process with SIGBUS, as it does wherever SQLite maps its file.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{Ordering, fence};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, Weak};

use manyhands_sigbus::{FaultGuard, Healing};

use crate::locks::{self, FileIdentity, Status};
use crate::planted::planted;

/// So much of each file is mapped at most, from its beginning, in bytes. The rest is read as ever.
pub(crate) const WINDOW_BYTES: i64 = 256 << 20;

/// How many bytes SQLite reads behind a page at most, when it compares records; it believes none of them. Its own
/// mapping asks for as many (`unixFetch` in os_unix.c).
const READ_BEHIND_BYTES: i64 = 256;

/// How often SQLite asks before a mapping is made, or looked for: a connection that reads less is faster without.
const ASKED_BEFORE: u32 = 16;

/// So many pages that are not there are asked for before the file's length is looked at again.
const MISSED_BEFORE: u64 = 64;

/// By file, the mappings of this process; those of an earlier generation are a parent's
/// ([`locks::generation`]).
static MAPPED: Mutex<BTreeMap<(u64, FileIdentity), Weak<MappedFile>>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
struct MappedFile {
    address: usize,
    descriptor: Kept,
    /// `None` only while it is dropped.
    guard: Option<FaultGuard>,
}

/// A descriptor that stays as long as the mapping.
#[derive(Debug)]
enum Kept {
    /// That of a database file with the locks, which stays as long as a connection is open on it.
    Canonical(RawFd),
    /// Of a -wal file, which nobody locks: then to close one of its descriptors drops no locks.
    Own(OwnedFd),
}

impl Kept {
    fn of(status: Status, of: FileKind) -> Option<Kept> {
        match of {
            FileKind::Database => locks::canonical_of(status.descriptor).map(Kept::Canonical),
            FileKind::Wal => {
                // SAFETY: open as long as the connection that asks.
                let descriptor = unsafe { BorrowedFd::borrow_raw(status.descriptor) };
                descriptor.try_clone_to_owned().ok().map(Kept::Own)
            }
        }
    }

    fn raw(&self) -> RawFd {
        match self {
            Kept::Canonical(descriptor) => *descriptor,
            Kept::Own(descriptor) => descriptor.as_raw_fd(),
        }
    }
}

/// What is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Database,
    Wal,
}

impl MappedFile {
    /// `None` also for a file that is open for reading only: an overlay file system gives its reader another
    /// file than its writers have, from the first of them on.
    fn new(status: Status, of: FileKind) -> Option<MappedFile> {
        // SAFETY: integers.
        let flags = unsafe { libc::fcntl(status.descriptor, libc::F_GETFL) };
        if flags & libc::O_ACCMODE != libc::O_RDWR {
            return None;
        }
        let descriptor = Kept::of(status, of)?;
        // Not of the descriptor that has the locks: a forked child inherits the mapping, and with it the open
        // file description.
        let mapped = match of {
            FileKind::Database => locks::for_mapping(status.descriptor)?,
            FileKind::Wal => status.descriptor,
        };
        // SAFETY: asks for memory that nobody has yet.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                WINDOW_BYTES as usize,
                libc::PROT_READ,
                libc::MAP_SHARED,
                mapped,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return None;
        }
        let address = address as usize;
        // SAFETY: the mapping is this one's, for reading. The descriptor stays open as long as there is a connection that
        // has the mapping, and each lets that go before it closes.
        let guard = unsafe {
            let healing = Healing::Page { descriptor: descriptor.raw() };
            manyhands_sigbus::guard(address, WINDOW_BYTES as usize, healing)
        };
        let is_guarded = guard.is_some();
        let mapped = MappedFile { address, descriptor, guard };
        is_guarded.then_some(mapped)
    }

    fn has_failed(&self) -> bool {
        self.guard.as_ref().is_some_and(FaultGuard::has_failed)
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        drop(self.guard.take());
        // SAFETY: mapped by `new` with this length; no connection has a page of it any more.
        unsafe { libc::munmap(self.address as *mut c_void, WINDOW_BYTES as usize) };
    }
}

/// What one connection has of the mapping of one file.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// `PRAGMA mmap_size`. That goes for the -wal file, too, whose own view has no limit.
    limit: i64,
    asked: u32,
    mapped: Option<Arc<MappedFile>>,
    /// How much of the file is there until somebody commits: what is behind the end of the newest snapshot may be cut.
    /// SQLite may still ask for pages behind it, which were allocated and never written.
    bytes: i64,
    /// How many pages were asked for behind that.
    missed: u64,
    /// It cannot be had.
    is_off: bool,
}

impl View {
    pub(crate) fn limit(&self) -> i64 {
        self.limit
    }

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
        if self.is_off || end > self.limit || !self.is_mapped(FileKind::Database, &look) {
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

    /// Copies a page of a -wal file, of which so many bytes may be read here. False where it must be read from the file.
    ///
    /// Behind the file's end the mapping gives zeros to the end of a page of memory, and SQLite shall hear that the file
    /// is too short. So a page that ends in a zero is read from the file.
    pub(crate) fn copy_page(
        &mut self,
        offset: i64,
        page: &mut [MaybeUninit<u8>],
        limit: i64,
        look: impl Fn() -> Option<Status>,
    ) -> bool {
        let end = offset + page.len() as i64;
        let is_within = offset >= 0 && end <= limit.min(WINDOW_BYTES);
        if self.is_off || !is_within || !self.is_mapped(FileKind::Wal, look) {
            return false;
        }
        let Some(mapped) = self.mapped.as_deref().filter(|mapped| !mapped.has_failed()) else {
            return false;
        };
        let from = (mapped.address + offset as usize) as *const MaybeUninit<u8>;
        // SAFETY: in the mapping. Nobody writes a page that a snapshot has.
        unsafe { ptr::copy_nonoverlapping(from, page.as_mut_ptr(), page.len()) };
        // SAFETY: copied from memory that is there.
        let ends_in_zero = page.last().is_none_or(|last| unsafe { last.assume_init() } == 0);
        // What was copied may be what the handler has put there.
        fence(Ordering::Acquire);
        !ends_in_zero && !mapped.has_failed()
    }

    fn is_mapped(&mut self, of: FileKind, look: impl Fn() -> Option<Status>) -> bool {
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
        let stays = |descriptor: &Kept| match descriptor {
            Kept::Canonical(it) => locks::canonical_of(status.descriptor) == Some(*it),
            Kept::Own(_) => true,
        };
        self.mapped = there.filter(|mapped| stays(&mapped.descriptor) && !mapped.has_failed());
        if self.mapped.is_none() {
            mappings.retain(|_, mapped| mapped.strong_count() > 0);
            self.mapped = MappedFile::new(status, of).map(Arc::new);
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
}
