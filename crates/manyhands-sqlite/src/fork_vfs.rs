//! The fork: a transaction writes on its own snapshot, while others commit.
//!
//! SQLite asks its VFS for the WAL's write lock before a transaction's first write. For a connection
//! that is *armed* the shim says yes without taking the lock, and shows the connection a private copy
//! of the wal-index header: that of its own snapshot. SQLite then writes into its page cache, and
//! believes that nobody else does. Such a transaction ends in a rollback, or is *promoted*: if the
//! database is still as the snapshot saw it, the real lock is taken and SQLite commits as ever.
//!
//! | state    | write lock, as SQLite sees it | really       | ways out                                        |
//! |----------|-------------------------------|--------------|-------------------------------------------------|
//! | disarmed | as it is                      | as it is     | armed (the engine says so)                      |
//! | armed    | not held                      | not held     | forked (SQLite asks for it), disarmed           |
//! | forked   | held                          | not held     | armed (SQLite gives it back), disarmed (promote)|
//!
//! What always holds:
//! - The lock is imaginary only if the connection is armed *and* holds a read lock. SQLite also takes
//!   the write lock without one, to read a torn header again or to recover: that is the real one.
//! - The snapshot's header is captured with each read lock. SQLite compares its own copy with the
//!   shared one after that, and starts again if they differ: the last capture is what it goes by.
//! - A fork writes to no file and takes no lock: the shim refuses. So neither a full page cache nor a
//!   checkpoint nor a restart of the WAL gets through.
//! - SQLite's rollback compares its header with the private one, which is the same: it never "cleans"
//!   entries of the shared hash table that belong to others.
//! - The snapshot's read lock is real. Nobody overwrites what the fork reads.
//! - A lock that SQLite gives back is given back, also when the view is stuck: the other connections of
//!   the process would wait for it until this one is closed.

use core::ffi::c_int;

use libsqlite3_sys as ffi;

use crate::wal_index::{Header, View, WalIndexHeader};

const WRITE_LOCK: c_int = 0;
const READ_LOCK_FIRST: c_int = 3;

/// What came of a promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promotion {
    /// The connection holds the real write lock: it can commit.
    Promoted,
    /// Somebody has committed since the snapshot. Or there is no fork, or it overflowed, or the system
    /// has no memory to map the shared page: all that is left is a rollback.
    Stale,
    /// Somebody else holds the write lock at this moment.
    Busy,
}

/// How a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkStatus {
    /// SQLite believes that it holds the write lock.
    pub forked: bool,
    /// SQLite wanted to write to a file, was refused (`SQLITE_IOERR_WRITE`), and has rolled the last fork
    /// back.
    pub overflowed: bool,
    /// The snapshot of the open read transaction.
    pub snapshot: Option<WalIndexHeader>,
    /// The header in shared memory at this moment.
    pub live: Option<WalIndexHeader>,
}

/// What the shim answers to a request for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockAnswer {
    /// Ask the unix VFS.
    Real,
    /// This, without asking.
    Imaginary(c_int),
}

/// The fork's part of a database file's shim.
#[derive(Default)]
pub(crate) struct Fork {
    view: Option<View>,
    armed: bool,
    forked: bool,
    overflowed: bool,
    /// Captured when the read lock was taken; `None` without one.
    snapshot: Option<Header>,
}

impl Fork {
    /// Takes the mapping of the first region that the unix VFS made; gives the one for SQLite.
    ///
    /// # Safety
    /// As [`View::of`]; and [`Fork::unmap`] is called before the unix VFS unmaps.
    pub(crate) unsafe fn map(
        &mut self,
        live: core::ptr::NonNull<core::ffi::c_void>,
    ) -> *mut core::ffi::c_void {
        if self.view.is_none() {
            // SAFETY: says the caller.
            self.view = unsafe { View::of(live) };
        }
        self.view.as_ref().map_or(live.as_ptr(), View::address)
    }

    /// Gives up the view. The connection stays armed: SQLite maps anew when the journal mode is WAL again.
    pub(crate) fn unmap(&mut self) {
        let Fork { armed, overflowed, .. } = *self;
        *self = Fork { armed, overflowed, ..Fork::default() };
    }

    /// Arms or disarms the connection. A fork that goes on ends as if nothing had been said: SQLite gives
    /// the lock of one that overflowed back only when the connection's last reader has ended.
    pub(crate) fn arm(&mut self, armed: bool) {
        self.overflowed &= self.forked;
        self.armed = armed;
    }

    /// SQLite asks for, or gives back, `count` locks from `offset` on.
    pub(crate) fn lock(&mut self, offset: c_int, count: c_int, flags: c_int) -> LockAnswer {
        let exclusive = flags & ffi::SQLITE_SHM_EXCLUSIVE != 0;
        let taken = flags & ffi::SQLITE_SHM_LOCK != 0;
        if taken && !self.forked && self.view.as_mut().is_some_and(|view| !view.is_shared_again()) {
            return LockAnswer::Imaginary(ffi::SQLITE_IOERR_SHMLOCK);
        }
        let write_lock = exclusive && (offset, count) == (WRITE_LOCK, 1);
        match (self.forked, taken) {
            (true, false) if write_lock => {
                self.end();
                LockAnswer::Imaginary(ffi::SQLITE_OK)
            }
            // A fork needs no other: SQLite is about to write, and asks to restart the WAL first.
            (true, true) => {
                self.overflowed = true;
                LockAnswer::Imaginary(ffi::SQLITE_IOERR_WRITE)
            }
            (false, true) if write_lock && self.armed => self.begin(),
            _ => LockAnswer::Real,
        }
    }

    /// The imaginary write lock, if there is a snapshot to write on.
    fn begin(&mut self) -> LockAnswer {
        let (Some(view), Some(header)) = (&mut self.view, &self.snapshot) else {
            return LockAnswer::Real;
        };
        if !view.make_private(header) {
            return LockAnswer::Imaginary(ffi::SQLITE_IOERR_NOMEM);
        }
        self.forked = true;
        self.overflowed = false;
        LockAnswer::Imaginary(ffi::SQLITE_OK)
    }

    fn end(&mut self) {
        self.forked = false;
        if let Some(view) = &mut self.view {
            view.share_again();
        }
    }

    /// The unix VFS gave a lock, or was asked to take it back: whatever it answers then, SQLite does not
    /// hold it any more.
    pub(crate) fn locked(&mut self, offset: c_int, flags: c_int) {
        if offset >= READ_LOCK_FIRST && flags & ffi::SQLITE_SHM_SHARED != 0 {
            let taken = flags & ffi::SQLITE_SHM_LOCK != 0;
            self.snapshot = self.view.as_ref().filter(|_| taken).map(View::live_header);
        }
    }

    /// True when a write to a file must be refused, which SQLite then has tried.
    pub(crate) fn refuses_write(&mut self) -> bool {
        self.overflowed |= self.forked;
        self.forked
    }

    /// Ends the imagination: the caller has just taken the real write lock. False when the snapshot is
    /// not the newest any more, or the shared page cannot be had; nothing has changed then.
    pub(crate) fn become_real(&mut self) -> bool {
        // SQLite would publish its commit in a page that stayed private, where nobody else sees it.
        if !self.is_newest() || !self.view.as_mut().is_some_and(View::share_again) {
            return false;
        }
        self.forked = false;
        self.armed = false;
        true
    }

    /// True for a fork whose snapshot is the newest. It stays so only under the real write lock.
    pub(crate) fn is_newest(&self) -> bool {
        let (Some(view), Some(header)) = (&self.view, &self.snapshot) else { return false };
        // SQLite has rolled back what overflowed, and holds its lock until its last reader ends.
        self.forked && !self.overflowed && view.live_is(header)
    }

    pub(crate) fn status(&self) -> ForkStatus {
        ForkStatus {
            forked: self.forked,
            overflowed: self.overflowed,
            snapshot: self.snapshot.as_ref().map(WalIndexHeader::of),
            live: self.view.as_ref().map(|view| WalIndexHeader::of(&view.live_header())),
        }
    }
}
