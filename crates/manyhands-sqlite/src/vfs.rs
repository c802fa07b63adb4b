//! The VFS shim: SQLite's own unix VFS, watched, and the way in for the speculative transaction (`speculative_vfs`).
//!
//! The shim changes nothing that SQLite does, but for the clock under a [`pin`](crate::pin), for the number of system
//! calls with which the -wal file is written (`wal_appends`), for where pages are read (`mapped_file`) and for the time at which what a checkpoint writes goes
//! to the disk (`backfill`). It tells a [`CommitObserver`] how far the commit of
//! a WAL transaction has come:
//!
//! 1. [`CommitStage::Announced`]: before the header of the commit frame is written: where it goes and
//!    what it is. A frame whose header carries a database size is a commit frame
//!    (<https://sqlite.org/fileformat2.html#the_write_ahead_log>, 4.1).
//! 2. [`CommitStage::Written`]: the frame is in the file.
//! 3. [`CommitStage::Synced`]: the file was synced (at `synchronous=FULL`).
//! 4. [`CommitStage::HalfPublished`]: SQLite publishes a commit by writing the wal-index header twice, with a
//!    memory barrier between: the second copy is written, and the first is not. A new reader finds
//!    the two unequal, and recovers the wal-index from the -wal file, with the commit frame. But a connection
//!    that reads already goes by the first copy alone: if the process dies here, such a one may take the write
//!    lock and overwrite the frame.
//! 5. [`CommitStage::Sealed`]: both copies are written, and SQLite is about to give the write lock back. Until
//!    then nobody can write, or restart the WAL: the transaction stays, also if its process dies now. That goes
//!    for the shared page itself, so a connection that is observed is never armed (`speculative_vfs`).
//!
//! What always holds: a stage is told only between the commit frame and the end of its transaction;
//! any error, lock or unlock forgets a frame that was announced. And when SQLite gives the write lock back
//! after a commit that failed, its frame is not in the -wal file any more (`unpublished`).
//!
//! The file is long because it has a method for each of SQLite's; what they do has files of its own.

#[cfg(test)]
mod failed_sync;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::size_of;
use core::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use libsqlite3_sys as ffi;

use crate::Error;
use crate::backfill::{self, Backfill};
use crate::mapped_file::{Status, View};
use crate::planted::planted;
use crate::real_file::RealFile;
use crate::speculation;
use crate::speculative_vfs::{LockAnswer, Speculation, WRITE_LOCK};
use crate::unpublished::{Unpublished, is_commit};
use crate::wal_appends::Appends;

/// The shim's name among SQLite's VFSes.
pub const NAME: &CStr = c"manyhands";

/// The byte of the -shm file whose lock is SQLite's write lock in WAL mode
/// (<https://sqlite.org/walformat.html>, 2.2).
pub const WRITE_LOCK_BYTE: i64 = 120;

/// The byte of the -shm file that every connection has locked which has it open: SQLite's "deadman switch".
pub const SHARED_MEMORY_LOCK_BYTE: i64 = 128;

/// The byte of the database file that every connection in WAL mode has locked, from its first read until it closes: the
/// first of SQLite's SHARED range.
pub const SHARED_LOCK_BYTE: i64 = 0x4000_0002;

/// The byte whose lock a checkpoint holds.
pub const CHECKPOINT_LOCK_BYTE: i64 = 121;

/// The byte whose lock a reader with the first read mark holds; that of the next mark follows.
pub const READ_LOCK_BYTE_FIRST: i64 = 123;

pub(crate) const FRAME_HEADER_BYTES: usize = 24;

/// The smallest page of a database.
const PAGE_BYTES_MIN: c_int = 512;

/// Private file controls; SQLite's own numbers are below 100.
const CONTROL_OBSERVE: c_int = 0x4D48_0001;
pub(crate) const CONTROL_FORK: c_int = 0x4D48_0002;
const CONTROL_BE_GENTLE: c_int = 0x4D48_0003;

/// A commit frame that is about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitFrame {
    /// Where in the -wal file the frame starts, in bytes.
    pub offset: u64,
    /// The frame's header as it will be written.
    pub header: [u8; FRAME_HEADER_BYTES],
    /// The wal-index's change counter before this commit.
    pub change: u32,
}

/// How far a commit has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitStage {
    /// The commit frame is about to be written.
    Announced(CommitFrame),
    /// The commit frame is written.
    Written,
    /// The -wal file is synced.
    Synced,
    /// One copy of the wal-index header has the commit, and the other, by which readers go, has not.
    HalfPublished,
    /// Nothing can undo the commit any more.
    Sealed,
}

/// Is told of the commits of one connection. Called from inside SQLite: it must not use the
/// connection.
pub trait CommitObserver: Send + Sync {
    /// The commit has come to `stage`.
    fn on_commit(&self, stage: CommitStage);
}

#[repr(C)]
struct ShimFile {
    methods: *const ffi::sqlite3_io_methods,
    /// The watched file of the default VFS; lies behind this struct.
    real: *mut ffi::sqlite3_file,
    /// The database's shim file; for a -wal file another one, for a database file itself.
    main: *mut ShimFile,
    /// Of a database file: the observer of its commits. Null for none.
    observer: *const Arc<dyn CommitObserver>,
    /// Of a database file: an announced commit frame is on its way.
    announced: bool,
    /// Of a database file: that commit is published as soon as the header's first copy is written.
    published: bool,
    /// Of a database file: a commit frame that is not published yet, observed or not.
    unpublished: Unpublished,
    /// What is read of it without a system call.
    view: View,
    /// Of a database file: its view of the wal-index, and the transaction that writes on a snapshot.
    fork: Speculation,
    /// Of a database file: the write lock is held, and SQLite has not asked for it yet.
    locked_ahead: bool,
    /// Of a database file: what the checkpoint that runs has written of it.
    backfill: Option<Backfill>,
    /// Of a database file: the next one offers others the processor.
    gentle: bool,
    /// Of a -wal file: what it does not have yet of what SQLite has written.
    appends: Appends,
    /// Of a database file: its -wal file, while that is open.
    wal: *mut ShimFile,
}

// The default VFS's file lies right behind the shim's, and needs the alignment of a pointer.
const _: () = assert!(size_of::<ShimFile>().is_multiple_of(8));

struct Registered {
    shim: *mut ffi::sqlite3_vfs,
    default: *mut ffi::sqlite3_vfs,
}

// SAFETY: both point to memory that is never freed or changed after registration.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

static REGISTERED: OnceLock<Registered> = OnceLock::new();

/// Makes the shim known to SQLite. Calls after the first do nothing.
pub fn register() {
    REGISTERED.get_or_init(|| {
        // SAFETY: initialises SQLite if need be; null asks for the default VFS.
        let default = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
        assert!(!default.is_null(), "this SQLite has no default VFS");
        // SAFETY: not null, and VFSes are never freed. A copy keeps the default's own data and
        // methods, of which only opening and the clock differ.
        let mut shim = Box::new(unsafe { *default });
        shim.zName = NAME.as_ptr();
        shim.szOsFile += size_of::<ShimFile>() as c_int;
        shim.xOpen = Some(open);
        shim.xCurrentTime = Some(crate::pinned::current_time);
        shim.xCurrentTimeInt64 = Some(crate::pinned::current_time_ms);
        shim.pNext = ptr::null_mut();
        let shim = Box::leak(shim);
        // SAFETY: lives for ever; 0 leaves the default the default.
        let code = unsafe { ffi::sqlite3_vfs_register(shim, 0) };
        assert_eq!(code, ffi::SQLITE_OK, "SQLite refused the VFS shim");
        Registered { shim, default }
    });
}

/// SQLite's own VFS, behind the shim.
pub(crate) fn default_vfs() -> *mut ffi::sqlite3_vfs {
    REGISTERED.get().expect("the shim is registered before it is used").default
}

pub(crate) static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};

/// `sqlite3_vfs.xOpen`: database and -wal files get a shim, all others are the default VFS's own.
unsafe extern "C" fn open(
    _vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    let registered = REGISTERED.get().expect("SQLite opens through a VFS that it knows");
    debug_assert!(!registered.shim.is_null());
    let watched = flags & (ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_WAL) != 0;
    if !watched {
        return open_real(registered.default, name, file, flags, flags_out);
    }
    let shim: *mut ShimFile = file.cast();
    // SAFETY: SQLite gave szOsFile bytes, which are the shim's and then the real file's.
    let real: *mut ffi::sqlite3_file = unsafe { shim.add(1) }.cast();
    let open = || open_real(registered.default, name, real, flags, flags_out);
    let is_main = flags & ffi::SQLITE_OPEN_MAIN_DB != 0;
    let code = if is_main { crate::locks::for_our_vfs(open) } else { open() };
    let mut main = shim;
    if flags & ffi::SQLITE_OPEN_WAL != 0 {
        // SAFETY: SQLite passed the name of a -wal file to this xOpen, which is what this function
        // asks for. The database was opened by this VFS too, so its file is a shim.
        main = unsafe { ffi::sqlite3_database_file_object(name) }.cast();
    }
    // SAFETY: the real file was zeroed by SQLite, or set by its xOpen.
    let opened = !unsafe { (*real).pMethods }.is_null();
    let methods: *const ffi::sqlite3_io_methods =
        if opened { &raw const METHODS } else { ptr::null() };
    let value = ShimFile {
        methods,
        real,
        main,
        observer: ptr::null(),
        announced: false,
        published: false,
        unpublished: Unpublished::default(),
        view: View::default(),
        fork: Speculation::default(),
        backfill: None,
        locked_ahead: false,
        gentle: false,
        appends: Appends::default(),
        wal: ptr::null_mut(),
    };
    // SAFETY: the memory is SQLite's gift, large enough, and not in use yet.
    unsafe { shim.write(value) };
    if opened && main != shim {
        main_of(self::shim(file)).wal = shim;
    }
    code
}

fn open_real(
    default: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: the default VFS lives for ever.
    let open = unsafe { (*default).xOpen }.expect("every VFS can open");
    // SAFETY: the arguments are SQLite's own; the file has at least the default VFS's szOsFile.
    unsafe { open(default, name, file, flags, flags_out) }
}

/// The shim behind a file handle that SQLite passes to one of [`METHODS`].
fn shim<'a>(file: *mut ffi::sqlite3_file) -> &'a mut ShimFile {
    // SAFETY: SQLite calls METHODS only with files that `open` made, one call at a time for the files
    // of one connection, whose mutex it holds.
    unsafe { &mut *file.cast::<ShimFile>() }
}

/// The database's shim of a -wal file's shim.
fn main_of<'a>(wal: &ShimFile) -> &'a mut ShimFile {
    // SAFETY: SQLite closes the -wal file before the database. Files are used under the connection's
    // mutex. A -wal file's shim is never its own `main`, so this is the only reference.
    unsafe { &mut *wal.main }
}

impl ShimFile {
    /// The file itself, which is open.
    fn real(&self) -> RealFile {
        RealFile(self.real)
    }

    fn tell(&self, stage: CommitStage) {
        if self.observer.is_null() {
            return;
        }
        // SAFETY: set by `observe`, whose caller keeps it alive until it is unset.
        let observer = unsafe { &*self.observer };
        observer.on_commit(stage);
    }

    fn is_wal(&self) -> bool {
        !ptr::eq(self.main, self)
    }
}

/// Calls a method of the real file with the arguments that SQLite gave.
macro_rules! pass {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let shim = shim($file);
        let method = shim.real().methods().$method.expect("the unix VFS has all methods of version 3");
        // SAFETY: SQLite's own arguments, passed on to the method that they are meant for.
        unsafe { method(shim.real $(, $argument)*) }
    }};
}

/// The same, when the file has what SQLite has appended to it.
macro_rules! pass_flushed {
    ($file:expr, $method:ident $(, $argument:expr)*) => {
        match flush($file) {
            ffi::SQLITE_OK => pass!($file, $method $(, $argument)*),
            code => code,
        }
    };
}

/// Writes what SQLite has appended to a -wal file, before something else is done with it.
pub(crate) fn flush(file: *mut ffi::sqlite3_file) -> c_int {
    if planted("gathered-is-overlooked") {
        return ffi::SQLITE_OK;
    }
    let real = shim(file).real();
    shim(file).appends.flush(&real)
}

/// The speculative transaction's part of a database file that SQLite passes to one of [`METHODS`].
pub(crate) fn speculation_of<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Speculation {
    &mut shim(file).fork
}

/// What a connection has mapped of its database file, also for its -wal file.
fn view_of<'a>(file: *mut ffi::sqlite3_file) -> &'a mut View {
    if shim(file).is_wal() { &mut main_of(shim(file)).view } else { &mut shim(file).view }
}

/// Takes or gives back the real write lock, without the speculative transaction's say.
pub(crate) fn lock_really(file: *mut ffi::sqlite3_file, flags: c_int) -> bool {
    pass!(file, xShmLock, WRITE_LOCK, 1, flags | ffi::SQLITE_SHM_EXCLUSIVE) == ffi::SQLITE_OK
}

/// Takes the write lock for SQLite, which asks for it next, or gives it back if it has not. False when it is not to be had.
pub(crate) fn lock_ahead(file: *mut ffi::sqlite3_file, flags: c_int) -> bool {
    let locks = flags & ffi::SQLITE_SHM_LOCK != 0;
    if shim(file).locked_ahead == locks {
        return locks;
    }
    // Without a mapping the unix VFS has nothing to lock.
    let mapped = shim(file).fork.is_mapped();
    shim(file).locked_ahead = mapped && lock_really(file, flags) && locks;
    shim(file).locked_ahead
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    if shim(file).is_wal() {
        let main = main_of(shim(file));
        main.unpublished.forget();
        main.wal = ptr::null_mut();
        // Its memory: SQLite frees the shim's own, and no more.
        shim(file).appends = Appends::default();
    }
    shim(file).fork.unmap();
    shim(file).view.close();
    pass!(file, xClose)
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    count: c_int,
    offset: i64,
) -> c_int {
    match flush(file) {
        ffi::SQLITE_OK if read_mapped(file, buffer, count, offset) => ffi::SQLITE_OK,
        ffi::SQLITE_OK => pass!(file, xRead, buffer, count, offset),
        code => code,
    }
}

/// Reads a page of a -wal file through its mapping, if it can. SQLite reads a page alone when the wal-index tells where it
/// is; where it looks how far the file goes, it reads headers, and pages with them.
fn read_mapped(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    count: c_int,
    offset: i64,
) -> bool {
    let is_page = count >= PAGE_BYTES_MIN && count.count_ones() == 1;
    if !is_page || !shim(file).is_wal() {
        return false;
    }
    let limit = main_of(shim(file)).view.limit();
    // SAFETY: SQLite passes a buffer of `count` bytes.
    let page = unsafe { core::slice::from_raw_parts_mut(buffer.cast(), count as usize) };
    let mut view = core::mem::take(&mut shim(file).view);
    let is_read = view.copy_page(offset, page, limit, || status_of(file));
    shim(file).view = view;
    is_read
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    buffer: *const c_void,
    count: c_int,
    offset: i64,
) -> c_int {
    let is_wal = shim(file).is_wal();
    let fork = if is_wal { &mut main_of(shim(file)).fork } else { &mut shim(file).fork };
    if fork.refuses_write() {
        return ffi::SQLITE_IOERR_WRITE;
    }
    if !is_wal {
        return write_database(file, buffer, count, offset);
    }
    // SAFETY: SQLite passes `count` readable bytes.
    let bytes = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), count as usize) };
    write_wal(shim(file), bytes, offset)
}

fn write_database(
    file: *mut ffi::sqlite3_file,
    buffer: *const c_void,
    count: c_int,
    offset: i64,
) -> c_int {
    let code = pass!(file, xWrite, buffer, count, offset);
    let Some(mut backfill) = shim(file).backfill.take() else { return code };
    if let Some(piece) = backfill.wrote(offset, count.into())
        && let Some(status) = status_of(file)
    {
        backfill::begin_to_write(status.descriptor, &piece);
    }
    backfill.offer_processor(count.into());
    shim(file).backfill = Some(backfill);
    code
}

fn write_wal(wal: &mut ShimFile, bytes: &[u8], offset: i64) -> c_int {
    let (main, real) = (main_of(wal), wal.real());
    let was_announced = main.announced;
    let header = <[u8; FRAME_HEADER_BYTES]>::try_from(bytes).ok();
    if let Some(header) = header {
        announce(main, header, offset);
        main.unpublished.note(&header, real, offset);
    }
    let code = wal.appends.write(&real, bytes, offset);
    if code != ffi::SQLITE_OK {
        main.announced = false;
        return main.unpublished.write_failed(code, offset, bytes.len() as c_int);
    }
    if was_announced && main.announced && header.is_none() {
        main.tell(CommitStage::Written);
    }
    code
}

/// Tells of a frame header that is about to be written, if it is a commit frame's: of several, the first, as in
/// [`Unpublished::note`].
fn announce(main: &mut ShimFile, header: [u8; FRAME_HEADER_BYTES], offset: i64) {
    if main.announced && is_commit(&header) {
        return;
    }
    // Where a transaction has overwritten frames of its own, which it does when the page cache is full, SQLite writes
    // the headers behind them twice: without salt and checksum, and once more when all pages are there.
    let is_final = header[8..] != [0; 16];
    main.announced = is_commit(&header) && is_final && !main.observer.is_null();
    if main.announced {
        // The writer, whose connection this is, is the only one to change the header.
        let change = main.fork.status().live.map_or(0, |header| header.change);
        main.tell(CommitStage::Announced(CommitFrame { offset: offset as u64, header, change }));
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    view_of(file).look_again();
    pass_flushed!(file, xTruncate, size)
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let is_wal = shim(file).is_wal();
    if planted("no-sync-of-the-wal") && is_wal || planted("no-sync-of-the-database") && !is_wal {
        return ffi::SQLITE_OK;
    }
    let mut code = pass_flushed!(file, xSync, flags);
    if planted("failed-sync-succeeds") {
        code = ffi::SQLITE_OK;
    }
    if !is_wal && code != ffi::SQLITE_OK {
        // In WAL mode this is a checkpoint's. The kernel may have dropped what it has copied, and those before it, which
        // do not sync where others have committed meanwhile: the next one must not go on from there.
        shim(file).fork.forget_backfill();
    }
    if is_wal {
        let main = main_of(shim(file));
        if code != ffi::SQLITE_OK {
            main.announced = false;
            // Its caller is told that the outcome is unknown.
            main.unpublished.forget();
        } else if main.announced {
            main.tell(CommitStage::Synced);
        }
    }
    code
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    pass_flushed!(file, xFileSize, size)
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    if level == ffi::SQLITE_LOCK_EXCLUSIVE && !shim(file).fork.lock_whole_file() {
        return ffi::SQLITE_BUSY;
    }
    pass!(file, xLock, level)
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    pass!(file, xUnlock, level)
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, held: *mut c_int) -> c_int {
    pass!(file, xCheckReservedLock, held)
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    match operation {
        CONTROL_OBSERVE => {
            let shim = shim(file);
            shim.observer = argument.cast();
            shim.announced = false;
            shim.published = false;
            ffi::SQLITE_OK
        }
        CONTROL_FORK => {
            // SAFETY: only `speculation` uses this number, with an argument of its own.
            unsafe { speculation::answer(file, argument) };
            ffi::SQLITE_OK
        }
        CONTROL_BE_GENTLE => {
            shim(file).gentle = !argument.is_null();
            ffi::SQLITE_OK
        }
        ffi::SQLITE_FCNTL_CKPT_START => {
            shim(file).backfill = Some(Backfill::new(shim(file).gentle));
            pass!(file, xFileControl, operation, argument)
        }
        ffi::SQLITE_FCNTL_CKPT_DONE => {
            shim(file).backfill = None;
            pass!(file, xFileControl, operation, argument)
        }
        // SQLite's own mapping stays off.
        ffi::SQLITE_FCNTL_MMAP_SIZE => {
            // SAFETY: SQLite passes the address of the new limit, for the one before.
            let limit = unsafe { &mut *argument.cast::<i64>() };
            *limit = shim(file).view.set_limit(*limit);
            ffi::SQLITE_OK
        }
        _ => pass!(file, xFileControl, operation, argument),
    }
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    pass!(file, xSectorSize)
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    pass!(file, xDeviceCharacteristics)
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    address: *mut *mut c_void,
) -> c_int {
    let code = pass!(file, xShmMap, region, size, extend, address);
    if code != ffi::SQLITE_OK {
        return shim(file).unpublished.take_back(code);
    }
    if region == 0 {
        // SAFETY: on success the method has stored an address, or null.
        if let Some(live) = NonNull::new(unsafe { *address }) {
            // SAFETY: the unix VFS's shared mapping, which stays until xShmUnmap.
            let view = unsafe { shim(file).fork.map(live) };
            // SAFETY: the place that SQLite gave for the address.
            unsafe { *address = view };
        }
    }
    code
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    shim(file).announced = false;
    let published = core::mem::take(&mut shim(file).published);
    if offset == WRITE_LOCK {
        // SAFETY: null, or the open -wal file: it takes itself out before it is closed.
        if let Some(wal) = unsafe { shim(file).wal.as_mut() } {
            wal.appends.begin(flags & ffi::SQLITE_SHM_LOCK != 0);
        }
    }
    if offset == WRITE_LOCK && flags & ffi::SQLITE_SHM_UNLOCK != 0 {
        let database_bytes = shim(file).fork.database_bytes();
        shim(file).view.cut(database_bytes);
    }
    // A commit that failed without a word to the VFS, for lack of memory: nobody listens to an error here.
    let _ = shim(file).unpublished.take_back(ffi::SQLITE_OK);
    if let LockAnswer::Imaginary(code) = shim(file).fork.lock(offset, count, flags) {
        return code;
    }
    if published && offset == WRITE_LOCK && flags & ffi::SQLITE_SHM_UNLOCK != 0 {
        shim(file).tell(CommitStage::Sealed);
    }
    let _ = crate::locks::lock_was_lost();
    let is_ours = offset == WRITE_LOCK && core::mem::take(&mut shim(file).locked_ahead);
    let mut code = if is_ours && flags & ffi::SQLITE_SHM_LOCK != 0 {
        ffi::SQLITE_OK
    } else {
        pass!(file, xShmLock, offset, count, flags)
    };
    if code == ffi::SQLITE_BUSY && crate::locks::lock_was_lost() {
        // SQLite would try again for ten seconds.
        code = ffi::SQLITE_IOERR_LOCK;
    }
    if code == ffi::SQLITE_OK || flags & ffi::SQLITE_SHM_UNLOCK != 0 {
        shim(file).fork.locked(offset, flags);
    } else {
        shim(file).fork.not_locked();
    }
    code
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    pass!(file, xShmBarrier);
    let main = shim(file);
    main.unpublished.forget();
    if core::mem::take(&mut main.announced) {
        main.tell(CommitStage::HalfPublished);
        main.published = !planted("seal-at-the-barrier");
        if !main.published {
            main.tell(CommitStage::Sealed);
        }
    }
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    // SQLite gives back what it has asked for.
    lock_ahead(file, ffi::SQLITE_SHM_UNLOCK);
    shim(file).fork.unmap();
    pass!(file, xShmUnmap, delete)
}

unsafe extern "C" fn fetch(
    file: *mut ffi::sqlite3_file,
    offset: i64,
    count: c_int,
    address: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite's place for the address.
    unsafe { *address = fetch_mapped(file, offset, count) };
    ffi::SQLITE_OK
}

fn fetch_mapped(file: *mut ffi::sqlite3_file, offset: i64, count: c_int) -> *mut c_void {
    if shim(file).is_wal() {
        return ptr::null_mut();
    }
    let mut view = core::mem::take(&mut shim(file).view);
    let address = view.fetch(offset, count.into(), || status_of(file));
    shim(file).view = view;
    address
}

/// Looks at an open file, through its own descriptor: SQLite's unix VFS asks fstat for a file's size. What is behind the
/// end of the database may be cut at any time.
fn status_of(file: *mut ffi::sqlite3_file) -> Option<Status> {
    let mut status = crate::locks::status_asked_in(|| {
        let mut size = 0;
        pass!(file, xFileSize, &raw mut size);
    })?;
    if let Some(bytes) = shim(file).fork.database_bytes().filter(|_| !planted("maps-what-may-go")) {
        status.bytes = status.bytes.min(bytes);
    }
    Some(status)
}

/// The mapping is not the connection's: there is nothing to give back. Where others have committed SQLite
/// gives all of it back, with a null address.
unsafe extern "C" fn unfetch(
    file: *mut ffi::sqlite3_file,
    _offset: i64,
    address: *mut c_void,
) -> c_int {
    if address.is_null() {
        view_of(file).look_again();
    }
    ffi::SQLITE_OK
}

pub(crate) const MAIN: *const c_char = c"main".as_ptr();

/// Sets or unsets the observer of a connection's commits.
///
/// # Safety
/// `handle` is an open connection that was opened through the shim. `observer` is null, or lives
/// until it is replaced or the connection is closed.
pub(crate) unsafe fn observe(
    handle: *mut ffi::sqlite3,
    observer: *const Arc<dyn CommitObserver>,
) -> Result<(), Error> {
    let argument = observer.cast_mut().cast();
    // SAFETY: the connection is open, says the caller.
    let code = unsafe { ffi::sqlite3_file_control(handle, MAIN, CONTROL_OBSERVE, argument) };
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(Error::from_code(code)) }
}

/// Whether a connection's next checkpoints offer the processor to others.
///
/// # Safety
/// `handle` is an open connection that was opened through the shim.
pub(crate) unsafe fn be_gentle(handle: *mut ffi::sqlite3, gentle: bool) {
    let argument: *mut c_void = if gentle { handle.cast() } else { ptr::null_mut() };
    // SAFETY: the connection is open, says the caller; the shim only asks whether there is an argument.
    unsafe { ffi::sqlite3_file_control(handle, MAIN, CONTROL_BE_GENTLE, argument) };
}

/// True when the main database of a connection is a file of the shim.
///
/// # Safety
/// `handle` is an open connection.
pub(crate) unsafe fn is_of_shim(handle: *mut ffi::sqlite3) -> bool {
    let mut file: *mut ffi::sqlite3_file = ptr::null_mut();
    let argument = (&raw mut file).cast();
    // SAFETY: says the caller; the operation stores the address of the file.
    let code = unsafe {
        ffi::sqlite3_file_control(handle, MAIN, ffi::SQLITE_FCNTL_FILE_POINTER, argument)
    };
    // SAFETY: SQLite's own file, which lives as long as the connection.
    let methods = unsafe { file.as_ref() }.map(|file| file.pMethods);
    code == ffi::SQLITE_OK && methods.is_some_and(|it| ptr::eq(it, &raw const METHODS))
}
