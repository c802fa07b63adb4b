//! The speculative transaction: a transaction writes on its own snapshot, while others commit.
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
//! | armed    | not held                      | not held     | speculating (SQLite asks for it), disarmed      |
//! | speculating | held                       | not held     | armed (SQLite gives it back), disarmed (promote)|
//!
//! What always holds:
//! - The lock is imaginary only if the connection is armed *and* holds a read lock. SQLite also takes
//!   the write lock without one, to read a torn header again or to recover: that is the real one.
//! - The snapshot's header is captured with each read lock. SQLite compares its own copy with the
//!   shared one after that, and starts again if they differ: the last capture is what it goes by.
//! - A speculative transaction writes to no file and takes no lock: the shim refuses. So neither a full page cache nor a
//!   checkpoint nor a restart of the WAL gets through.
//! - SQLite's rollback compares its header with the private one, which is the same: it never "cleans"
//!   entries of the shared hash table that belong to others.
//! - The snapshot's read lock is real. Nobody overwrites what the speculative transaction reads.
//! - After a speculative transaction the page stays private for a while ([`PRIVATE_READS_MAX`]), while SQLite reads, and while it writes
//!   under the real write lock. What SQLite then changes in it is copied into the shared one while the lock is held
//!   that allows it: a read mark under its own exclusive lock, a commit under the write lock. Before any other lock
//!   is taken, the page is shared again. So it is before SQLite locks the whole database file, as the last
//!   connection does to checkpoint at its end: it asks for no lock of the wal-index then.
//! - A lock that SQLite gives back is given back, also when the page cannot be shared again: the other
//!   connections of the process would wait for it until this one is closed.

use core::ffi::c_int;

use libsqlite3_sys as ffi;

use super::wal_index::{CheckpointInfo, Header, View, WalIndexHeader};
use crate::planted::planted;

/// SQLite's number of the lock to write.
pub(crate) const WRITE_LOCK: c_int = 0;
const READ_LOCK_FIRST: c_int = 3;

/// How many read locks a connection takes with a private page after its last speculative transaction. To refresh the page costs half a
/// microsecond each time. To share it again costs some twenty, and the next speculative transaction twenty more: that is little if it
/// happens once in so many reads.
const PRIVATE_READS_MAX: u32 = 256;

/// What came of a promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promotion {
    /// The connection holds the real write lock: it can commit.
    Promoted,
    /// Somebody has committed since the snapshot; or the connection does not speculate, or its pages did not fit into memory. All that is
    /// left is a rollback.
    Stale,
    /// Somebody else holds the write lock at this moment.
    Busy,
}

/// How a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SpeculationStatus {
    /// SQLite believes that it holds the write lock.
    pub speculating: bool,
    /// SQLite wanted to write to a file, was refused (`SQLITE_IOERR_WRITE`), and has rolled the last speculative transaction
    /// back.
    pub overflowed: bool,
    /// The snapshot of the open read transaction.
    pub snapshot: Option<WalIndexHeader>,
    /// The header in shared memory at this moment.
    pub live: Option<WalIndexHeader>,
    /// The header when the connection last took the real write lock: nobody else has committed between it
    /// and this connection's next commit.
    pub locked: Option<WalIndexHeader>,
}

/// What the shim answers to a request for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockAnswer {
    /// Ask the unix VFS.
    Real,
    /// This, without asking.
    Imaginary(c_int),
}

/// The speculative transaction's part of a database file's shim.
#[derive(Default)]
pub(crate) struct Speculation {
    view: Option<View>,
    armed: bool,
    speculating: bool,
    overflowed: bool,
    /// SQLite holds the real write lock, and a private page may have what others must see when it gives
    /// the lock back.
    publishes: bool,
    /// Captured when the read lock was taken; `None` without one.
    snapshot: Option<Header>,
    /// Captured when the real write lock was taken.
    locked: Option<Header>,
    /// How often in a row SQLite took a read lock for a header that was not the newest any more.
    stale_begins: u32,
    /// How many read locks it has taken with a private page since the last speculative transaction.
    reads: u32,
}

impl Speculation {
    /// Takes the mapping of the first region that the unix VFS made; gives the one for SQLite.
    ///
    /// # Safety
    /// As [`View::of`]; and [`Speculation::unmap`] is called before the unix VFS unmaps.
    pub(crate) unsafe fn map(
        &mut self,
        live: core::ptr::NonNull<core::ffi::c_void>,
    ) -> *mut core::ffi::c_void {
        if self.view.is_none() {
            // SAFETY: a shared mapping that stays until `unmap`, which drops the view, as the caller has promised.
            self.view = unsafe { View::of(live) };
        }
        self.view.as_ref().map_or(live.as_ptr(), View::address)
    }

    pub(crate) fn is_mapped(&self) -> bool {
        self.view.is_some()
    }

    /// Gives up the view. The connection stays armed: SQLite maps anew when the journal mode is WAL again.
    pub(crate) fn unmap(&mut self) {
        let Speculation { armed, overflowed, .. } = *self;
        *self = Speculation { armed, overflowed, ..Speculation::default() };
    }

    /// Arms or disarms the connection, and shows it the newest header if it does not read yet. A speculative transaction that goes on ends as if nothing had been said: SQLite gives
    /// the lock of one that overflowed back only when the connection's last reader has ended.
    pub(crate) fn arm(&mut self, armed: bool) {
        self.overflowed &= self.speculating;
        self.armed = armed;
        let shown = armed && self.snapshot.is_none() && !planted("old-header");
        if let Some(view) = self.private_view().filter(|_| shown) {
            // Without this SQLite would begin with an old header, notice it, and begin anew. It looks again when it
            // has a lock.
            let _ = view.refresh();
        }
    }

    /// SQLite asks for, or gives back, `count` locks from `offset` on.
    pub(crate) fn lock(&mut self, offset: c_int, count: c_int, flags: c_int) -> LockAnswer {
        let exclusive = flags & ffi::SQLITE_SHM_EXCLUSIVE != 0;
        let taken = flags & ffi::SQLITE_SHM_LOCK != 0;
        let write_lock = exclusive && (offset, count) == (WRITE_LOCK, 1);
        match (self.speculating, taken) {
            (true, false) if write_lock => {
                self.speculating = false;
                LockAnswer::Imaginary(ffi::SQLITE_OK)
            }
            // A speculative transaction needs no other: SQLite is about to write, and asks to restart the WAL first.
            (true, true) if !planted("fork-takes-locks") => {
                self.overflowed = true;
                LockAnswer::Imaginary(ffi::SQLITE_IOERR_WRITE)
            }
            (false, true) if write_lock && self.armed && self.snapshot.is_some() => self.begin(),
            (false, true) if write_lock && self.armed && planted("imaginary-without-reading") => {
                self.snapshot = self.view.as_ref().map(View::live_header);
                self.begin()
            }
            (_, true) => self.lock_really(offset, count, exclusive),
            (_, false) => {
                if write_lock {
                    self.publish();
                    self.publishes = false;
                }
                self.publish_read_mark(offset, count, exclusive);
                LockAnswer::Real
            }
        }
    }

    /// The imaginary write lock, to write on the snapshot.
    fn begin(&mut self) -> LockAnswer {
        let (Some(view), Some(header)) = (&mut self.view, &self.snapshot) else {
            return LockAnswer::Real;
        };
        if !view.make_private(header) {
            return LockAnswer::Imaginary(ffi::SQLITE_IOERR_NOMEM);
        }
        self.speculating = true;
        self.overflowed = false;
        self.reads = 0;
        LockAnswer::Imaginary(ffi::SQLITE_OK)
    }

    /// A connection that gets another lock than one to read, or to write on its snapshot, may change all of the
    /// shared page, and so must see it.
    fn lock_really(&mut self, offset: c_int, count: c_int, exclusive: bool) -> LockAnswer {
        let reads = offset >= READ_LOCK_FIRST && (!exclusive || count == 1);
        let writes = (offset, count) == (WRITE_LOCK, 1) && self.snapshot.is_some();
        if reads || writes || self.share() {
            LockAnswer::Real
        } else {
            LockAnswer::Imaginary(ffi::SQLITE_IOERR_SHMLOCK)
        }
    }

    /// SQLite is about to lock the whole database file, and then goes by the wal-index without any lock of
    /// it. False when it would not see the shared page.
    pub(crate) fn lock_whole_file(&mut self) -> bool {
        planted("close-with-a-private-page") || !self.speculating && self.share()
    }

    /// The connection has the real write lock. What SQLite changes from here on others see when it gives it
    /// back, or clear away if it does not come to that.
    fn begin_to_publish(&mut self) {
        self.publishes = true;
        if let Some(view) = self.private_view().filter(|_| !planted("own-entries-stay")) {
            view.mark_next_entry();
        }
    }

    /// What SQLite has changed under the write lock becomes everybody's.
    fn publish(&self) {
        let publishes = self.publishes && !planted("commit-stays-private");
        if let Some(view) = self.private_view().filter(|_| publishes) {
            view.publish();
        }
    }

    /// SQLite gives the exclusive lock on a read mark back, which it has set in its view.
    fn publish_read_mark(&mut self, offset: c_int, count: c_int, exclusive: bool) {
        if let Some(view) = self.private_view()
            && !planted("read-mark-stays-private")
            && exclusive
            && count == 1
            && offset >= READ_LOCK_FIRST
        {
            view.publish_read_mark((offset - READ_LOCK_FIRST) as usize);
        }
    }

    fn private_view(&self) -> Option<&View> {
        self.view.as_ref().filter(|view| view.is_private())
    }

    /// The unix VFS did not give a lock. SQLite will sleep and try again, and must then see what has
    /// changed meanwhile.
    pub(crate) fn not_locked(&mut self) {
        if !self.speculating {
            self.share();
        }
    }

    /// The unix VFS gave a lock, or was asked to take it back: whatever it answers then, SQLite does not
    /// hold it any more.
    pub(crate) fn locked(&mut self, offset: c_int, flags: c_int) {
        let taken = flags & ffi::SQLITE_SHM_LOCK != 0;
        let reads = offset >= READ_LOCK_FIRST && flags & ffi::SQLITE_SHM_SHARED != 0;
        if reads && taken && self.publishes {
            // It writes, at the beginning of the WAL, and takes its read lock anew: with the marks as they are now.
            self.share();
        }
        let refreshes = taken && !self.publishes && !planted("old-header");
        if let Some(view) = self.private_view().filter(|_| refreshes) {
            let before = view.header();
            let whole = view.refresh();
            if reads {
                // SQLite has gone by an older header: it will notice, and begin anew. It sleeps between,
                // so the header may be old again: once more, and it sees the shared page. So it does when a
                // writer has died between the two copies, or commits come too fast for a whole page.
                let stale = view.header() != before;
                self.stale_begins = if stale { self.stale_begins + 1 } else { 0 };
                self.reads += 1;
                let speculates_no_more = self.reads >= PRIVATE_READS_MAX;
                if self.stale_begins >= 2 || !whole || speculates_no_more {
                    self.share();
                }
            }
        }
        if reads {
            self.snapshot = self.view.as_ref().filter(|_| taken).map(View::header);
        }
        if taken && offset == WRITE_LOCK {
            self.begin_to_publish();
            self.locked = self.view.as_ref().map(View::live_header);
        }
    }

    /// Gives the shared page back. False when that is not possible: it stays private, and can be read.
    fn share(&mut self) -> bool {
        (self.stale_begins, self.reads) = (0, 0);
        self.publish();
        self.view.as_mut().is_none_or(View::share_again)
    }

    /// True when a write to a file must be refused, which SQLite then has tried.
    pub(crate) fn refuses_write(&mut self) -> bool {
        self.overflowed |= self.speculating;
        self.speculating && !planted("fork-writes")
    }

    /// Ends the imagination: the caller has just taken the real write lock. False when the snapshot is
    /// not the newest any more; nothing has changed then.
    pub(crate) fn become_real(&mut self) -> bool {
        let Some(view) = self.private_view().filter(|_| self.is_newest()) else { return false };
        // A writer that died may have left entries, which SQLite clears away when it sees them.
        if !planted("dead-entries-stay") {
            view.copy_beyond_headers();
        }
        self.begin_to_publish();
        self.speculating = false;
        self.armed = false;
        self.locked = self.snapshot;
        true
    }

    /// True for a speculative transaction whose snapshot is the newest. It stays so only under the real write lock.
    pub(crate) fn is_newest(&self) -> bool {
        let (Some(view), Some(header)) = (&self.view, &self.snapshot) else { return false };
        // SQLite has rolled back what overflowed, and holds its lock until its last reader ends.
        let newest = view.live_is(header) || planted("promote-the-stale");
        self.speculating && !self.overflowed && newest
    }

    /// See [`View::forget_backfill`].
    pub(crate) fn forget_backfill(&self) {
        if let Some(view) = &self.view {
            view.forget_backfill();
        }
    }

    pub(crate) fn checkpoint_info(&self) -> Option<CheckpointInfo> {
        self.view.as_ref().map(View::live_checkpoint_info)
    }

    /// How long the database is, in bytes, for SQLite or for others, whichever is less; `None` where it has no
    /// wal-index.
    pub(crate) fn database_bytes(&self) -> Option<i64> {
        let view = self.view.as_ref()?;
        let headers = [view.header(), view.live_header()].map(|it| WalIndexHeader::of(&it));
        headers.iter().map(|it| i64::from(it.page_count) * i64::from(it.page_bytes)).min()
    }

    pub(crate) fn status(&self) -> SpeculationStatus {
        SpeculationStatus {
            speculating: self.speculating,
            overflowed: self.overflowed,
            snapshot: self.snapshot.as_ref().map(WalIndexHeader::of),
            live: self.view.as_ref().map(|view| WalIndexHeader::of(&view.live_header())),
            locked: self.locked.as_ref().map(WalIndexHeader::of),
        }
    }
}
