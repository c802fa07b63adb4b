//! What `fork()` does to SQLite's mutexes and to our descriptors.
//!
//! prepare: the forking thread takes SQLite's static mutexes and the descriptor table, so that no
//! other thread is inside them at the moment of the fork. parent: gives them back. child: lets go
//! of every inherited descriptor, forgets the table, counts one generation, and gives the mutexes
//! back.
//!
//! The order of taking follows SQLite's nesting, outermost first; in os_unix.c, memdb.c, btree.c,
//! random.c, pcache1.c and malloc.c of 3.54.1:
//! - APP3: ours, see [`hold_off`]; its holder opens and closes databases.
//! - OPEN: `sqlite3BtreeOpen` opens a file (VFS1) and looks through the shared caches (MAIN) while
//!   it holds it.
//! - VFS1: the unix VFS's big lock, and that of `unixGetTempname`, which asks for random bytes
//!   (PRNG).
//! - PRNG: the first `sqlite3_randomness` finds the VFS (MAIN) and opens /dev/urandom.
//! - MAIN: allocates (MEM).
//! - LRU: allocates and frees pages (PMEM, then MEM). PMEM, MEM: innermost in SQLite.
//! - the descriptor table: taken inside our open and close, which SQLite calls holding any of the
//!   above but MEM and PMEM; nothing of SQLite is called while it is held.
//!
//! Mutexes that SQLite allocates (one per connection, per inode, per -shm) may be locked in the
//! child for ever. It never meets them: its connections are new, and no inherited inode matches
//! (`system_calls::mark_generation`).
//!
//! A fork inside a callback that SQLite makes under one of these mutexes (its error log, a memory
//! alarm) would wait for itself. SQLite's documentation forbids such callbacks to use SQLite at
//! all.

use std::cell::UnsafeCell;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use libsqlite3_sys as sqlite;

use super::InstallError;
use super::descriptor_table::{self, Table};
use crate::planted::planted;

/// The mutex that SQLite leaves to applications; ours guards what must be whole at a fork.
const APPLICATION_MUTEX: i32 = sqlite::SQLITE_MUTEX_STATIC_APP3;

/// Outermost first.
const STATIC_MUTEXES: [i32; 8] = [
    APPLICATION_MUTEX,
    sqlite::SQLITE_MUTEX_STATIC_OPEN,
    sqlite::SQLITE_MUTEX_STATIC_VFS1,
    sqlite::SQLITE_MUTEX_STATIC_PRNG,
    sqlite::SQLITE_MUTEX_STATIC_MAIN,
    sqlite::SQLITE_MUTEX_STATIC_LRU,
    sqlite::SQLITE_MUTEX_STATIC_PMEM,
    sqlite::SQLITE_MUTEX_STATIC_MEM,
];

/// The same, as pointers; constant after [`register_handlers`]. Null for a SQLite that was
/// configured without mutexes, which its enter and leave accept.
static MUTEXES: [AtomicPtr<sqlite::sqlite3_mutex>; STATIC_MUTEXES.len()] =
    [const { AtomicPtr::new(ptr::null_mut()) }; STATIC_MUTEXES.len()];

/// Written by the child handler only, when its process has one thread.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Keeps the descriptor table locked from `prepare` to `parent` or `child`.
struct HeldTable(UnsafeCell<Option<MutexGuard<'static, Table>>>);

// SAFETY: only the thread that holds the table's mutex reads or writes the cell.
unsafe impl Sync for HeldTable {}

static HELD_TABLE: HeldTable = HeldTable(UnsafeCell::new(None));

pub(super) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Makes every later `fork()` of this process safe for our copy.
pub(super) fn register_handlers() -> Result<(), InstallError> {
    for (mutex, number) in MUTEXES.iter().zip(STATIC_MUTEXES) {
        // SAFETY: SQLite is initialized; a static mutex lives as long as the process.
        mutex.store(unsafe { sqlite::sqlite3_mutex_alloc(number) }, Ordering::Relaxed);
    }
    // SAFETY: the three handlers are functions without unwinding that live as long as this library.
    match unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) } {
        0 => Ok(()),
        errno => Err(InstallError::NoForkHandlers(errno)),
    }
}

/// Until it is dropped, no `fork()` of this process goes on, and no other thread holds one.
#[derive(Debug)]
pub struct HeldOff(*mut sqlite::sqlite3_mutex);

/// See [`HeldOff`].
pub(super) fn hold_off() -> HeldOff {
    // SAFETY: SQLite is initialized by `install`, before anything is opened; a static mutex lives as
    // long as the process.
    let mutex = unsafe { sqlite::sqlite3_mutex_alloc(APPLICATION_MUTEX) };
    // SAFETY: a static mutex, or null, which enter accepts.
    unsafe { sqlite::sqlite3_mutex_enter(mutex) };
    HeldOff(mutex)
}

impl Drop for HeldOff {
    fn drop(&mut self) {
        // SAFETY: entered by `hold_off` in this thread: a raw pointer keeps the guard from others.
        unsafe { sqlite::sqlite3_mutex_leave(self.0) };
    }
}

/// # Safety
/// The C library calls it, before a fork, in the thread that forks.
unsafe extern "C" fn prepare() {
    for mutex in &MUTEXES {
        // SAFETY: a static mutex of SQLite or null; this thread holds none of them (see the
        // header).
        unsafe { sqlite::sqlite3_mutex_enter(mutex.load(Ordering::Relaxed)) };
    }
    let table = descriptor_table::lock();
    // SAFETY: this thread holds the table's mutex, so it has the cell for itself.
    unsafe { ptr::write(HELD_TABLE.0.get(), Some(table)) };
}

/// # Safety
/// The C library calls it, after `prepare` in the same thread, in the parent.
unsafe extern "C" fn parent() {
    drop(take_held_table());
    leave_mutexes();
}

/// The child has one thread, this one; other threads' memory may be in any state, so nothing is
/// allocated or freed.
///
/// # Safety
/// The C library calls it, after `prepare` in the same thread, in the child.
unsafe extern "C" fn child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    let mut table = take_held_table();
    let placeholder = open_placeholder();
    table.forget_all(|descriptor, known_to_sqlite| match placeholder {
        _ if planted("a-child-keeps-locks") => {}
        Some(placeholder) if known_to_sqlite => occupy(descriptor, placeholder),
        _ => close(descriptor),
    });
    if let Some(placeholder) = placeholder {
        close(placeholder);
    }
    drop(table);
    leave_mutexes();
}

fn take_held_table() -> MutexGuard<'static, Table> {
    // SAFETY: `prepare` of this fork, in this thread, took the table's mutex: the cell is this
    // thread's.
    let held = unsafe { HELD_TABLE.0.get().as_mut() };
    held.and_then(Option::take).expect("prepare ran before this handler, and stored the table")
}

fn leave_mutexes() {
    for mutex in MUTEXES.iter().rev() {
        // SAFETY: entered by `prepare` in this thread.
        unsafe { sqlite::sqlite3_mutex_leave(mutex.load(Ordering::Relaxed)) };
    }
}

/// A descriptor on which reading, writing and locking fail.
///
/// Inherited descriptors are replaced by it, not just closed, as long as SQLite remembers their
/// numbers: else a finalizer that closes an inherited connection in the child would close, lock or
/// write whatever file had got the number since.
pub(super) fn open_placeholder() -> Option<RawFd> {
    // SAFETY: a C string and an integer.
    let descriptor = unsafe { libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
    (descriptor >= 0).then_some(descriptor)
}

pub(super) fn occupy(descriptor: RawFd, placeholder: RawFd) {
    // SAFETY: both are open descriptors that belong to this file's module; the first becomes a copy
    // of the second.
    if unsafe { libc::dup3(placeholder, descriptor, libc::O_CLOEXEC) } == -1 {
        close(descriptor);
    }
}

fn close(descriptor: RawFd) {
    // SAFETY: an inherited descriptor of a managed file, or the placeholder; nothing else uses
    // either.
    unsafe { libc::close(descriptor) };
}
