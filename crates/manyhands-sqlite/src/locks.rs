//! SQLite's own locks, made to live beside another SQLite copy in the process and across `fork()`.
//!
//! SQLite locks with POSIX record locks. The kernel owns those per process: a second SQLite in the
//! process (Python's `sqlite3` beside ours) is granted the same "exclusive" lock, and a
//! `close` of any descriptor of a file drops every lock of the process on it. Measured: both copies
//! held the write lock, a committed row vanished with `integrity_check` ok, and the second copy
//! deleted the WAL under the first one's transaction. [`install`] therefore replaces five system
//! calls of the unix VFS of *our* SQLite copy; SQLite itself stays unmodified.
//!
//! Words:
//! - *our copy*, *stock copy*: the SQLite linked into this crate; any other, in this process or
//!   elsewhere.
//! - *managed file*: a database or -shm file, known by device and inode. -wal, journals and
//!   temporary files are not: nobody locks them, and closing them harms nobody.
//! - *live* and *parked* descriptor: SQLite has it open; SQLite has closed it and we kept it.
//! - *canonical descriptor*: the one descriptor of a managed file on which all its locks are held, and of which
//!   nobody makes a mapping.
//! - *external*: belonging to a stock copy.
//!
//! What always holds:
//! 1. A lock of our copy is an open-file-description (OFD) lock on the canonical descriptor. So it
//!    conflicts with the POSIX locks of stock copies, those of this very process included, and no
//!    `close` of theirs can drop it. One descriptor per file, because SQLite counts on one owner
//!    per process whichever descriptor it names.
//! 2. A descriptor of a managed file is really closed only when no connection of ours is open on
//!    the file and no other descriptor of this process names it, or the file is deleted and nobody
//!    holds a lock on it. So no lock of a stock copy in this process is dropped by us.
//! 3. When the last live descriptor of a file goes, its locks go, as after a POSIX `close`: SQLite
//!    releases the "deadman switch" byte of the -shm file in no other way.
//! 4. Our copy locks one byte of SQLite's 510-byte SHARED range (the first) where stock copies lock
//!    all of them. Any two of these locks still overlap, so exclusion is complete; and a lock
//!    of the other 509 bytes is external.
//! 5. A forked child holds no descriptor through which a lock of its parent could outlive the
//!    parent, and its SQLite never again recognises a file that its parent had open: [`generation`]
//!    is mixed into the device numbers it is shown.
//!
//! What can go wrong:
//! - A connection of our copy opened before [`install`] keeps POSIX locks. Install first.
//! - Where /proc is not mounted, a canonical descriptor comes from the file's path, and is refused if that leads elsewhere
//!   meanwhile.
//! - A database named `x-wal` or `x-journal` beside a file `x` is taken for a WAL and keeps POSIX
//!   locks.
//! - A bare `clone` runs no `pthread_atfork` handler and hands locks to the child. So does `vfork`,
//!   until its `exec`.
//! - Code that closes descriptors it does not own (`closefrom(3)`) takes our locks away, as it does
//!   with any SQLite. What was open is lost then, and can be opened anew: `descriptor_table::lost`.
//! - A stock copy that locks an idle file in the microsecond between our last look and our close
//!   loses that lock (`descriptor_table::Table`, `sweep` and `close_deleted`).

mod system_calls;

mod descriptor_table;
mod managed_file;
mod record_lock;

mod fork;

use std::os::fd::RawFd;
use std::sync::OnceLock;

pub use fork::HeldOff;
pub(crate) use managed_file::FileIdentity;
use record_lock::ByteRange;

/// Why SQLite's locks could not be replaced. Nothing may be opened then: locks of two kinds do not
/// exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// `sqlite3_initialize` failed with this result code.
    #[error("SQLite does not start (result code {0})")]
    Initialize(i32),
    /// This SQLite was built without the `unix` VFS, or with one that takes no system calls from
    /// outside.
    #[error(
        "this SQLite has no unix VFS whose system calls can be replaced; use the bundled build"
    )]
    NoUnixVfs,
    /// The unix VFS does not know this system call.
    #[error("SQLite's unix VFS has no system call `{0}` to replace; use the bundled build")]
    NoSystemCall(&'static str),
    /// `pthread_atfork` failed with this errno.
    #[error("fork handlers cannot be registered (errno {0})")]
    NoForkHandlers(i32),
}

/// Replaces the system calls with which our SQLite copy opens, closes, identifies and locks files.
///
/// Idempotent. Call it before the first connection of the process opens: SQLite reads its table of
/// system calls without any lock, and a connection that is older keeps its POSIX locks. Everybody
/// who links the same `libsqlite3-sys` (rusqlite) is *our copy* and gets the same locks.
///
/// ```
/// manyhands_sqlite::locks::install()?;
/// assert_eq!(manyhands_sqlite::locks::generation(), 0);
/// # Ok::<(), manyhands_sqlite::locks::InstallError>(())
/// ```
///
/// # Errors
/// [`InstallError`], the same one at each call: do not open a connection then.
pub fn install() -> Result<(), InstallError> {
    static INSTALLED: OnceLock<Result<(), InstallError>> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        crate::memory::configure();
        manyhands_sigbus::install();
        // SAFETY: sqlite3_initialize may be called by any thread at any time.
        let code = unsafe { libsqlite3_sys::sqlite3_initialize() };
        if code != libsqlite3_sys::SQLITE_OK {
            return Err(InstallError::Initialize(code));
        }
        // Fork handlers first: a lock that a fork could hand on must not exist before them.
        fork::register_handlers()?;
        system_calls::replace()
    })
}

/// An open file, as the kernel describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    pub(crate) descriptor: RawFd,
    pub(crate) identity: FileIdentity,
    pub(crate) bytes: i64,
}

/// What the kernel said of the last file that SQLite asked it about in `call`, in this thread.
pub(crate) fn status_asked_in(call: impl FnOnce()) -> Option<Status> {
    system_calls::status_asked_in(call)
}

/// The descriptor on which the locks of an open file are held. It stays until SQLite has closed the file for the
/// last time.
pub(crate) fn canonical_of(descriptor: RawFd) -> Option<RawFd> {
    descriptor_table::canonical(descriptor).filter(|canonical| *canonical >= 0)
}

/// A connection of a stock SQLite copy, in this process or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalConnection {
    /// Its process, or `None` when the kernel names none (another pid namespace, another machine).
    pub pid: Option<i32>,
}

/// Looks for a stock connection that holds a SHARED lock, or a stronger one, on the database with
/// this device and inode number (as `stat` tells them, not as SQLite sees them).
///
/// A connection in WAL mode holds SHARED from its first read until it closes; in rollback mode only
/// while it reads or writes. `None` also when our copy has not opened the database. One system
/// call; never waits for a lock.
pub fn external_connection(device: u64, inode: u64) -> Option<ExternalConnection> {
    let conflict = descriptor_table::lock()
        .first_conflict(FileIdentity { device, inode }, ByteRange::FOREIGN_ONLY)?;
    Some(ExternalConnection { pid: conflict.pid() })
}

/// Who holds a lock on one byte of a managed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process, or `None` when the kernel names none: it never does for another process's copy
    /// of ours.
    pub pid: Option<i32>,
    /// True for a stock copy, in this process or another; false for our copy in another process.
    pub external: bool,
}

/// Looks for a lock, of any kind, that somebody else holds on `byte` of the file with this device
/// and inode number.
///
/// Byte 120 of a -shm file is the WAL write lock. Locks of our own copy in this process are not
/// seen, by anyone: SQLite knows them. `None` also when our copy has not opened the file.
pub fn holder(device: u64, inode: u64, byte: i64) -> Option<Holder> {
    let range = ByteRange { start: byte, length: 1 };
    let conflict =
        descriptor_table::lock().first_conflict(FileIdentity { device, inode }, range)?;
    Some(Holder { pid: conflict.pid(), external: conflict.is_external() })
}

/// True while our copy has this file open, so that [`holder`] can tell.
pub fn is_open(device: u64, inode: u64) -> bool {
    descriptor_table::lock().is_live(FileIdentity { device, inode })
}

/// How many times this process was forked away since [`install`]: 0 in the process that installed,
/// 1 in its children.
///
/// A connection is usable only in the generation in which it was opened: after a fork, its locks
/// are the parent's and its descriptors are gone.
pub fn generation() -> u64 {
    fork::generation()
}

/// Keeps every `fork()` of this process waiting until the result is dropped. What is changed only
/// meanwhile is whole in every child. One thread at a time.
pub fn hold_off_forks() -> HeldOff {
    fork::hold_off()
}

/// Calls `close` when the process ends in the ordinary way: its `main` returns, or it calls `exit`.
pub fn at_exit(close: extern "C" fn()) {
    // SAFETY: the function lives as long as the process. Without memory for it, it is not called.
    unsafe { libc::atexit(close) };
}

/// How often descriptors of the database with this device and inode number were lost: closed by somebody who had not
/// opened them.
pub fn losses(device: u64, inode: u64) -> u64 {
    descriptor_table::losses(FileIdentity { device, inode })
}

/// True when connections to this database that were opened after so many [`losses`] are lost: each lock that they ask for
/// is refused, and they are to be closed. Costs some system calls.
pub fn are_lost(device: u64, inode: u64, losses: u64) -> bool {
    descriptor_table::lock().has_lost(FileIdentity { device, inode }, losses)
}

/// True when a lock has failed in this thread, since it was last asked, because somebody has closed its descriptor. SQLite
/// takes that for a lock that others hold.
pub(crate) fn lock_was_lost() -> bool {
    system_calls::lock_was_lost()
}

/// A descriptor of the same file on which no locks are held, so that a mapping may keep it open.
pub(crate) fn for_mapping(descriptor: RawFd) -> Option<RawFd> {
    descriptor_table::for_mapping(descriptor)
}

/// Opens a database file for our VFS: see [`for_mapping`].
pub(crate) fn for_our_vfs<T>(open: impl FnOnce() -> T) -> T {
    descriptor_table::for_our_vfs(open)
}

/// How many descriptors this process may have open.
pub fn descriptors_limit() -> usize {
    descriptor_table::descriptors_limit()
}

/// How many descriptors SQLite has closed and we keep, for statistics and tests.
pub fn parked_descriptors() -> usize {
    descriptor_table::lock().parked_count()
}
