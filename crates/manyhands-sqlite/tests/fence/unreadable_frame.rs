//! A successor asked whether the frame of a dead leader's batch was in the WAL. The disk gave an error, which was
//! taken for "no": the batch, which was committed, was executed again. Found by failing system calls.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use libsqlite3_sys::{SQLITE_OK, sqlite3_syscall_ptr, sqlite3_vfs_find};
use manyhands_sqlite::{Connection, OpenMode};

use super::own_process;

static FAILS: AtomicBool = AtomicBool::new(false);

/// # Safety
/// There is room for `count` bytes, as pread(2) demands.
unsafe extern "C" fn read(fd: c_int, bytes: *mut c_void, count: usize, at: i64) -> isize {
    if FAILS.load(Ordering::Relaxed) {
        // SAFETY: the C library's own address of this thread's errno.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: it is this thread's.
        unsafe { *errno = libc::EIO };
        return -1;
    }
    // SAFETY: passed on as they came, with room for so many bytes as the caller has promised.
    unsafe { libc::pread(fd, bytes, count, at) }
}

fn replace_read() {
    // SAFETY: a C string; the answer is null or a VFS that lives for ever.
    let vfs = unsafe { sqlite3_vfs_find(c"unix".as_ptr()) };
    // SAFETY: null, or a VFS that lives for ever.
    let set = unsafe { vfs.as_ref() }.and_then(|vfs| vfs.xSetSystemCall).expect("the unix VFS");
    let read: unsafe extern "C" fn(c_int, *mut c_void, usize, i64) -> isize = read;
    for name in [c"pread", c"pread64"] {
        // SAFETY: both are function pointers; SQLite casts it back to this signature.
        let read = unsafe { std::mem::transmute::<*const (), sqlite3_syscall_ptr>(read as _) };
        // SAFETY: no file is open yet.
        assert_eq!(unsafe { set(vfs, name.as_ptr(), read) }, SQLITE_OK);
    }
}

#[test]
fn a_frame_that_cannot_be_read_may_be_there() {
    own_process::tell("unreadable_frame::a_frame_that_cannot_be_read_may_be_there", || {
        replace_read();
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.db");
        let connection = Connection::open(&path, OpenMode::ReadWriteCreate, false).expect("opens");
        connection.execute("PRAGMA journal_mode=WAL; CREATE TABLE t (n)").expect("a frame");
        assert!(connection.wal_frame_header(32).expect("reads").is_some());
        assert_eq!(connection.wal_frame_header(1 << 30).expect("reads"), None, "behind the end");
        FAILS.store(true, Ordering::Relaxed);
        let error = connection.wal_frame_header(32).expect_err("the disk failed");
        assert_eq!(error.code.primary(), libsqlite3_sys::SQLITE_IOERR, "{error:?}");
    });
}
