//! A commit's last frame was in the WAL, and then the commit failed: the wal-index had to grow, and the disk
//! was full. The application was told that nothing was written. After the death of all processes the next
//! one to open the file recovered the WAL, and there the write was.

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

use libsqlite3_sys::{SQLITE_OK, sqlite3_syscall_ptr, sqlite3_vfs_find};
use manyhands_sqlite::{Connection, OpenMode};

use super::own_process;

/// Frames that the wal-index has room for before it grows
/// (<https://sqlite.org/walformat.html>, 2.1.3).
const FRAMES_FIRST: i64 = 4062;

/// What fails, from now on, with which error.
static FAILS: AtomicI32 = AtomicI32::new(NOTHING);
const NOTHING: i32 = 0;
/// The wal-index cannot grow.
const GROWTH: i32 = 1;
/// The same, and then the frame cannot be erased.
const GROWTH_AND_ERASURE: i32 = 2;
/// The commit frame is written, and the kernel says that it was not.
const FRAME: i32 = 3;
/// The page of the frame that repeats the commit frame is not written: only what follows a commit frame is written in
/// pieces.
const REPEATED_PAGE: i32 = 4;

const PAGE_BYTES: usize = 512;
const FRAME_HEADER_BYTES: usize = 24;
const FRAME_BYTES: usize = FRAME_HEADER_BYTES + PAGE_BYTES;

/// The unix VFS writes one byte only to let the -shm file grow.
///
/// # Safety
/// `count` bytes are there, as pwrite(2) demands.
unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, count: usize, at: i64) -> isize {
    let fails = FAILS.load(Ordering::Relaxed);
    // SAFETY: the commit frame's header and the bytes that erase it are both this long.
    let erases = count == FRAME_HEADER_BYTES
        && unsafe { *bytes.cast::<[u8; FRAME_HEADER_BYTES]>() } == [0; FRAME_HEADER_BYTES];
    let refused = match fails {
        GROWTH => count == 1,
        GROWTH_AND_ERASURE => count == 1 || erases,
        REPEATED_PAGE => count == PAGE_BYTES,
        _ => false,
    };
    if refused {
        return fail(libc::ENOSPC);
    }
    // SAFETY: passed on as they came, with so many bytes as the caller has promised.
    let written = unsafe { libc::pwrite(fd, bytes, count, at) };
    // The shim writes all frames of a commit together (`wal_appends`).
    if fails == FRAME && count.is_multiple_of(FRAME_BYTES) { fail(libc::EIO) } else { written }
}

fn fail(error: c_int) -> isize {
    // SAFETY: the C library's own address of this thread's errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: it is this thread's.
    unsafe { *errno = error };
    -1
}

fn replace_write() {
    // SAFETY: a C string; the answer is null or a VFS that lives for ever.
    let vfs = unsafe { sqlite3_vfs_find(c"unix".as_ptr()) };
    // SAFETY: null, or a VFS that lives for ever.
    let set = unsafe { vfs.as_ref() }.and_then(|vfs| vfs.xSetSystemCall).expect("the unix VFS");
    let write: unsafe extern "C" fn(c_int, *const c_void, usize, i64) -> isize = write;
    for name in [c"pwrite", c"pwrite64"] {
        // SAFETY: both are function pointers; SQLite casts it back to this signature.
        let write = unsafe { std::mem::transmute::<*const (), sqlite3_syscall_ptr>(write as _) };
        // SAFETY: no file is open yet.
        assert_eq!(unsafe { set(vfs, name.as_ptr(), write) }, SQLITE_OK);
    }
}

fn connect(path: &Path) -> Connection {
    let connection = Connection::open(path, OpenMode::ReadWriteCreate, false).expect("opens");
    connection.execute("PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=OFF").expect("set");
    connection
}

/// To a database on a disk where a write may damage its neighbours.
fn connect_without_powersafe_overwrite(path: &Path) -> Connection {
    let uri = format!("file:{}?psow=0", path.display());
    let connection = Connection::open(uri.as_ref(), OpenMode::ReadWriteCreate, true);
    let connection = connection.expect("opens");
    connection.execute("PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=FULL").expect("set");
    connection
}

/// How many rows whoever comes after the death of all finds.
fn found_after_death(path: &Path) -> i64 {
    let directory = tempfile::tempdir().expect("a directory");
    for suffix in ["", "-wal"] {
        let name = format!("a.db{suffix}");
        std::fs::copy(path.with_file_name(&name), directory.path().join(&name)).expect("copied");
    }
    let connection = connect(&directory.path().join("a.db"));
    connection.query_integer("SELECT count(*) FROM t").expect("reads")
}

fn check(test: &str, frames: i64, fails: i32, is_unknown: bool) {
    check_with(connect, test, frames, fails, is_unknown);
}

fn check_with(
    connect: fn(&Path) -> Connection,
    test: &str,
    frames: i64,
    fails: i32,
    is_unknown: bool,
) {
    own_process::tell(test, || {
        replace_write();
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.db");
        let connection = connect(&path);
        connection.execute("PRAGMA page_size=512; PRAGMA journal_mode=WAL").expect("WAL");
        connection.execute("CREATE TABLE t (n)").expect("a table");
        let frames_now = || i64::from(connection.wal_index().expect("it has read").frame_last);
        connection.execute("INSERT INTO t VALUES (0)").expect("a row");
        while frames_now() < frames {
            connection.execute("UPDATE t SET n = n + 1").expect("a frame");
        }
        assert_eq!(found_after_death(&path), 1);
        FAILS.store(fails, Ordering::Relaxed);
        let error = connection.execute("INSERT INTO t VALUES (0)").expect_err("it fails");
        FAILS.store(NOTHING, Ordering::Relaxed);
        assert_eq!(error.code.is_failed_sync(), is_unknown, "{error:?}");
        if !is_unknown {
            assert_eq!(found_after_death(&path), 1, "the write that was refused came back");
        }
        connection.execute("INSERT INTO t VALUES (0)").expect("goes on");
        assert_eq!(connection.query_integer("SELECT count(*) FROM t").expect("reads"), 2);
        assert_eq!(found_after_death(&path), 2);
    });
}

#[test]
fn the_wal_index_cannot_grow() {
    check("refused_commit::the_wal_index_cannot_grow", FRAMES_FIRST, GROWTH, false);
}

/// Then nobody can know what a recovery will find: the caller is told so, as for a sync that failed.
#[test]
fn nor_can_the_frame_be_erased() {
    check("refused_commit::nor_can_the_frame_be_erased", FRAMES_FIRST, GROWTH_AND_ERASURE, true);
}

#[test]
fn a_frame_was_written_and_called_an_error() {
    check("refused_commit::a_frame_was_written_and_called_an_error", 5, FRAME, false);
}

/// SQLite writes the commit frame several times, up to the end of a sector. The first was whole, the second could
/// not be written, and the first stayed.
#[test]
fn a_frame_is_repeated_and_the_second_fails() {
    let test = "refused_commit::a_frame_is_repeated_and_the_second_fails";
    check_with(connect_without_powersafe_overwrite, test, 5, REPEATED_PAGE, false);
}
