//! A database file: what the shim does with it, and what the engine wants of it.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::NonNull;
use core::time::Duration;

use libsqlite3_sys as ffi;

use super::backfill::{self, Backfill};
use super::commit_stage::Announcements;
use super::mapped_file::View;
use super::real_file::RealFile;
use super::shim::ShimFile;
use super::speculative::{LockAnswer, Promotion, Speculation, WRITE_LOCK};
use super::unpublished::Unpublished;
use super::wal_appends::Appends;
use crate::locks::{self, Status};
use crate::planted::planted;

/// The file control by which the engine reaches the file, of [`Work`]; SQLite's own numbers are below 100.
pub(super) const CONTROL: c_int = 0x4D48_0001;

/// What the engine does with the file: the argument of [`CONTROL`] is the address of one.
type Work<'a> = &'a mut dyn FnMut(&mut DatabaseFile);

/// A connection's -wal file, while it is open.
pub(super) struct OpenWal {
    pub(super) real: RealFile,
    /// What it does not have yet of what SQLite has written.
    pub(super) appends: Appends,
}

/// A database file, with all that the shim knows of its connection.
#[repr(C)]
pub(crate) struct DatabaseFile {
    /// SQLite looks for them in front.
    _methods: &'static ffi::sqlite3_io_methods,
    real: RealFile,
    /// What is read of it without a system call.
    pub(super) view: View,
    /// Its view of the wal-index, and the transaction that writes on a snapshot.
    pub(crate) speculation: Speculation,
    /// The write lock is held, and SQLite has not asked for it yet.
    locked_ahead: bool,
    /// What the checkpoint that runs has written of it.
    backfill: Option<Backfill>,
    /// The next checkpoint offers others the processor.
    pub(crate) gentle: bool,
    /// How long the last sync of the -wal file has taken, until somebody asks.
    pub(crate) sync_time: Option<Duration>,
    /// The observer of its commits, and what it was told.
    pub(crate) announcements: Announcements,
    /// A commit frame that is not published yet, announced or not.
    pub(super) unpublished: Unpublished,
    pub(super) wal: Option<OpenWal>,
}

/// Lets `act` work on the file of a connection's main database, in the connection's mutex. `None` when that is no file of
/// the shim: a `file:` URI may name another VFS, and a database in memory has no file.
///
/// # Safety
/// `handle` is an open connection. `act` does not use it.
pub(crate) unsafe fn with_database_file<T>(
    handle: *mut ffi::sqlite3,
    act: impl FnOnce(&mut DatabaseFile) -> T,
) -> Option<T> {
    const MAIN: *const c_char = c"main".as_ptr();
    let (mut act, mut answer) = (Some(act), None);
    let mut act_once = |file: &mut DatabaseFile| answer = act.take().map(|act| act(file));
    let mut work: Work<'_> = &mut act_once;
    // SAFETY: the connection is open, as the caller has promised. Only a file of the shim knows this operation, and its
    // argument lives through the call.
    unsafe { ffi::sqlite3_file_control(handle, MAIN, CONTROL, (&raw mut work).cast()) };
    answer
}

impl DatabaseFile {
    /// A file that has just been opened.
    pub(super) fn new(methods: &'static ffi::sqlite3_io_methods, real: RealFile) -> DatabaseFile {
        DatabaseFile {
            _methods: methods,
            real,
            view: View::default(),
            speculation: Speculation::default(),
            locked_ahead: false,
            backfill: None,
            gentle: false,
            sync_time: None,
            announcements: Announcements::default(),
            unpublished: Unpublished::default(),
            wal: None,
        }
    }

    /// Takes the real write lock for a speculative transaction whose snapshot is the newest.
    pub(crate) fn promote(&mut self) -> Promotion {
        // A look first: a stale transaction must not hold the lock while others wait.
        if !self.speculation.is_newest() {
            return Promotion::Stale;
        }
        if !self.lock_really(ffi::SQLITE_SHM_LOCK) {
            return Promotion::Busy;
        }
        if self.speculation.become_real() {
            return Promotion::Promoted;
        }
        self.lock_really(ffi::SQLITE_SHM_UNLOCK);
        Promotion::Stale
    }

    /// Takes or gives back the real write lock, without the speculative transaction's say.
    fn lock_really(&self, flags: c_int) -> bool {
        let flags = flags | ffi::SQLITE_SHM_EXCLUSIVE;
        self.real.shm_lock(WRITE_LOCK, 1, flags) == ffi::SQLITE_OK
    }

    /// Takes the write lock for SQLite, which asks for it next, or gives it back if it has not. False when it is not to be
    /// had.
    pub(crate) fn lock_ahead(&mut self, locks: bool) -> bool {
        if self.locked_ahead == locks {
            return locks;
        }
        let flags = if locks { ffi::SQLITE_SHM_LOCK } else { ffi::SQLITE_SHM_UNLOCK };
        // Without a mapping the unix VFS has nothing to lock.
        let is_done = self.speculation.is_mapped() && self.lock_really(flags);
        self.locked_ahead = is_done && locks;
        self.locked_ahead
    }
}

/// Looks at the file. What is behind the end of the database may be cut at any time.
fn status(real: RealFile, speculation: &Speculation) -> Option<Status> {
    let mut status = real.status()?;
    if let Some(bytes) = speculation.database_bytes().filter(|_| !planted("maps-what-may-go")) {
        status.bytes = status.bytes.min(bytes);
    }
    Some(status)
}

impl ShimFile for DatabaseFile {
    fn real(&self) -> RealFile {
        self.real
    }

    fn write(&mut self, bytes: &[u8], offset: i64) -> c_int {
        if self.speculation.refuses_write() {
            return ffi::SQLITE_IOERR_WRITE;
        }
        let code = self.real.write(bytes, offset);
        if let Some(backfill) = &mut self.backfill {
            let count = bytes.len() as i64;
            if let Some(piece) = backfill.wrote(offset, count)
                && let Some(status) = self.real.status()
            {
                backfill::begin_to_write(status.descriptor, &piece);
            }
            backfill.offer_processor(count);
        }
        code
    }

    fn truncate(&mut self, bytes: i64) -> c_int {
        self.view.look_again();
        self.real.truncate(bytes)
    }

    fn sync(&mut self, flags: c_int) -> c_int {
        if planted("no-sync-of-the-database") {
            return ffi::SQLITE_OK;
        }
        let code = self.real.sync(flags);
        if code != ffi::SQLITE_OK {
            // In WAL mode this is a checkpoint's. The kernel may have dropped what it has copied, and those before it, which
            // do not sync where others have committed meanwhile: the next one must not go on from there.
            self.speculation.forget_backfill();
        }
        code
    }

    fn lock(&mut self, level: c_int) -> c_int {
        if level == ffi::SQLITE_LOCK_EXCLUSIVE && !self.speculation.lock_whole_file() {
            return ffi::SQLITE_BUSY;
        }
        self.real.lock(level)
    }

    unsafe fn file_control(&mut self, operation: c_int, argument: *mut c_void) -> c_int {
        match operation {
            CONTROL => {
                // SAFETY: only `with_database_file` uses this number, with the address of such a closure.
                let work = unsafe { &mut *argument.cast::<Work<'_>>() };
                work(self);
                return ffi::SQLITE_OK;
            }
            // SQLite's own mapping stays off.
            ffi::SQLITE_FCNTL_MMAP_SIZE => {
                // SAFETY: SQLite passes the address of the new limit, for the one before.
                let limit = unsafe { &mut *argument.cast::<i64>() };
                *limit = self.view.set_limit(*limit);
                return ffi::SQLITE_OK;
            }
            ffi::SQLITE_FCNTL_CKPT_START => self.backfill = Some(Backfill::new(self.gentle)),
            ffi::SQLITE_FCNTL_CKPT_DONE => self.backfill = None,
            _ => {}
        }
        // SAFETY: the operation is SQLite's, and so is its argument.
        unsafe { self.real.file_control(operation, argument) }
    }

    fn shm_map(&mut self, region: c_int, bytes: c_int, extend: c_int) -> (c_int, *mut c_void) {
        let (code, address) = self.real.shm_map(region, bytes, extend);
        if code != ffi::SQLITE_OK {
            return (self.unpublished.take_back(code), address);
        }
        let Some(live) = NonNull::new(address).filter(|_| region == 0) else {
            return (code, address);
        };
        // SAFETY: the unix VFS's shared mapping of the first region, which stays until `shm_unmap` or the end of the file:
        // the view goes before.
        (code, unsafe { self.speculation.map(live) })
    }

    fn shm_lock(&mut self, offset: c_int, count: c_int, flags: c_int) -> c_int {
        let is_published = self.announcements.end();
        let takes = flags & ffi::SQLITE_SHM_LOCK != 0;
        let is_write_lock = offset == WRITE_LOCK;
        let gives_write_lock_back = is_write_lock && flags & ffi::SQLITE_SHM_UNLOCK != 0;
        if let Some(wal) = self.wal.as_mut().filter(|_| is_write_lock) {
            wal.appends.begin(takes);
        }
        if gives_write_lock_back {
            self.view.cut(self.speculation.database_bytes());
        }
        // A commit that failed without a word to the VFS, for lack of memory: nobody listens to an error here.
        let _ = self.unpublished.take_back(ffi::SQLITE_OK);
        if let LockAnswer::Imaginary(code) = self.speculation.lock(offset, count, flags) {
            return code;
        }
        if is_published && gives_write_lock_back {
            self.announcements.seal();
        }
        let _ = locks::lock_was_lost();
        let is_ours = is_write_lock && core::mem::take(&mut self.locked_ahead);
        let mut code = if is_ours && takes {
            ffi::SQLITE_OK
        } else {
            self.real.shm_lock(offset, count, flags)
        };
        if code == ffi::SQLITE_BUSY && locks::lock_was_lost() {
            // SQLite would try again for ten seconds.
            code = ffi::SQLITE_IOERR_LOCK;
        }
        if code == ffi::SQLITE_OK || flags & ffi::SQLITE_SHM_UNLOCK != 0 {
            self.speculation.locked(offset, flags);
        } else {
            self.speculation.not_locked();
        }
        code
    }

    fn shm_barrier(&mut self) {
        self.real.shm_barrier();
        self.unpublished.forget();
        self.announcements.half_published();
    }

    unsafe fn shm_unmap(&mut self, delete: c_int) -> c_int {
        // SQLite gives back what it has asked for.
        self.lock_ahead(false);
        self.speculation.unmap();
        // SAFETY: SQLite does not use the regions any more, as the caller has promised, and the view of one is gone.
        unsafe { self.real.shm_unmap(delete) }
    }

    fn fetch(&mut self, offset: i64, count: c_int) -> *mut c_void {
        let DatabaseFile { view, real, speculation, .. } = self;
        view.fetch(offset, count.into(), || status(*real, speculation))
    }

    fn unfetch_all(&mut self) {
        self.view.look_again();
    }
}
