//! How the engine speaks to the speculative transaction of a connection: by a file control, since SQLite knows the
//! database's file and we know the connection.

use core::ffi::c_void;

use libsqlite3_sys as ffi;

use crate::Connection;
use crate::speculative_vfs::{Promotion, SpeculationStatus};
use crate::vfs::{self, CONTROL_FORK, MAIN};
use crate::wal_index::CheckpointInfo;

/// What the engine wants.
#[derive(Clone, Copy)]
enum Request {
    Arm(bool),
    Promote,
    LockAhead(bool),
    Status,
    CheckpointInfo,
}

struct Call {
    request: Request,
    promotion: Promotion,
    locked_ahead: bool,
    status: SpeculationStatus,
    checkpoint_info: Option<CheckpointInfo>,
    /// The shim was asked.
    answered: bool,
}

/// Answers a call that came through the file control.
///
/// # Safety
/// `file` is a database file of the shim, in a call of SQLite; `argument` comes from `call`.
pub(crate) unsafe fn answer(file: *mut ffi::sqlite3_file, argument: *mut c_void) {
    // SAFETY: says the caller.
    let call = unsafe { &mut *argument.cast::<Call>() };
    match call.request {
        Request::Arm(armed) => vfs::speculation_of(file).arm(armed),
        Request::Promote => call.promotion = promote(file),
        Request::LockAhead(locks) => {
            let flags = if locks { ffi::SQLITE_SHM_LOCK } else { ffi::SQLITE_SHM_UNLOCK };
            call.locked_ahead = vfs::lock_ahead(file, flags);
        }
        Request::Status => {}
        Request::CheckpointInfo => {
            call.checkpoint_info = vfs::speculation_of(file).checkpoint_info()
        }
    }
    call.status = vfs::speculation_of(file).status();
    call.answered = true;
}

/// Takes the real write lock for a speculative transaction whose snapshot is the newest.
fn promote(file: *mut ffi::sqlite3_file) -> Promotion {
    // A look first: a stale transaction must not hold the lock while others wait.
    if !vfs::speculation_of(file).is_newest() {
        return Promotion::Stale;
    }
    if !vfs::lock_really(file, ffi::SQLITE_SHM_LOCK) {
        return Promotion::Busy;
    }
    if vfs::speculation_of(file).become_real() {
        return Promotion::Promoted;
    }
    vfs::lock_really(file, ffi::SQLITE_SHM_UNLOCK);
    Promotion::Stale
}

impl Connection {
    /// Arms or disarms the connection: while it is armed, a transaction that has read writes on its
    /// snapshot. A transaction that writes already goes on as it was. If the system cannot map a view
    /// of the wal-index, the transaction takes the real lock; [`Connection::speculation_status`]
    /// tells.
    pub fn arm_speculation(&self, armed: bool) {
        self.call_speculation(Request::Arm(armed));
    }

    /// Gives a speculative transaction the real write lock, if nobody has committed since its snapshot. Never waits.
    pub fn promote(&self) -> Promotion {
        self.call_speculation(Request::Promote).promotion
    }

    /// Takes the WAL's write lock for the transaction that this connection begins next, outside of one. Never waits; false
    /// when it is not to be had. A program that commits again and again leaves the lock free for some microseconds, and SQLite
    /// would need them twice: to begin a snapshot, which must be the newest, and to take the lock.
    ///
    /// The caller gives it back, if no transaction came of it: [`Connection::give_lock_back`].
    pub fn lock_ahead(&self) -> bool {
        self.call_speculation(Request::LockAhead(true)).locked_ahead
    }

    /// Gives back what [`Connection::lock_ahead`] has taken, if it is not a transaction's now.
    pub fn give_lock_back(&self) {
        self.call_speculation(Request::LockAhead(false));
    }

    /// The state of the connection's speculative transaction.
    pub fn speculation_status(&self) -> SpeculationStatus {
        self.call_speculation(Request::Status).status
    }

    /// What the wal-index says of checkpoints and readers. `None` while the connection has not read.
    pub fn checkpoint_info(&self) -> Option<CheckpointInfo> {
        self.call_speculation(Request::CheckpointInfo).checkpoint_info
    }

    /// True for a file that was opened through the shim. A `file:` URI may name another VFS.
    pub fn is_ours(&self) -> bool {
        self.call_speculation(Request::Status).answered
    }

    fn call_speculation(&self, request: Request) -> Call {
        let status = SpeculationStatus::default();
        let promotion = Promotion::Stale;
        let mut call = Call {
            request,
            promotion,
            locked_ahead: false,
            status,
            checkpoint_info: None,
            answered: false,
        };
        let argument = (&raw mut call).cast();
        // A database that is no file knows no such control, and leaves all as it is.
        // SAFETY: the connection is open; the shim takes an argument of this type.
        unsafe { ffi::sqlite3_file_control(self.raw(), MAIN, CONTROL_FORK, argument) };
        call
    }
}
