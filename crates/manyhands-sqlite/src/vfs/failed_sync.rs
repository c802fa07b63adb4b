//! A checkpoint whose sync fails: what it copied, and what those before it copied, may not be on the disk.

use core::ffi::c_int;

use libsqlite3_sys as ffi;

use super::shim::ShimFile as _;
use super::with_database_file;
use crate::{CheckpointMode, Connection, OpenMode};

/// `sqlite3_io_methods.xSync`.
///
/// # Safety
/// None: it touches nothing.
unsafe extern "C" fn fail(_file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    ffi::SQLITE_IOERR_FSYNC
}

/// From now on the database file of this connection cannot be synced. Returns what undoes that.
fn let_syncs_fail(connection: &Connection) -> impl FnOnce() + use<> {
    // SAFETY: the connection is open.
    let real = unsafe { with_database_file(connection.raw(), |file| file.real()) };
    let real = real.expect("a file of the shim");
    let methods = real.methods();
    let failing = ffi::sqlite3_io_methods { xSync: Some(fail), ..*methods };
    let real = real.as_ptr();
    // SAFETY: the file is open, and the new table lives for ever.
    unsafe { (*real).pMethods = Box::leak(Box::new(failing)) };
    // SAFETY: the test calls this while the connection is open, and the table is SQLite's own.
    move || unsafe { (*real).pMethods = methods }
}

/// While others commit, a checkpoint copies, does not sync, and counts what it has copied. The next one copied the
/// rest, its sync failed, and the one after that went on from there: nothing copied the first part again.
#[test]
fn all_is_copied_again_after_a_failed_sync() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.db");
    let connect = || {
        let connection = Connection::open(&path, OpenMode::ReadWriteCreate, false).expect("opens");
        connection.execute("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0").expect("set");
        connection
    };
    let connection = connect();
    let write = || connection.execute("INSERT INTO t VALUES (zeroblob(40000))").expect("writes");
    let copied = || connection.checkpoint_info().expect("it has read").backfilled;
    connection.execute("CREATE TABLE t (a)").expect("a table");
    write();
    let reader = connect();
    reader.execute("BEGIN; SELECT count(*) FROM t").expect("reads");
    write();
    let first = connection.checkpoint(CheckpointMode::Passive).expect("the reader's part");
    assert!(0 < first.frames_done && first.frames_done < first.frames, "{first:?}");
    assert_eq!(copied(), first.frames_done);
    drop(reader);
    let marks = || connection.checkpoint_info().expect("it has read").read_marks;
    let before = marks();
    let undo = let_syncs_fail(&connection);
    connection.checkpoint(CheckpointMode::Passive).expect_err("the sync fails");
    assert_eq!((copied(), marks()[0]), (0, before[0]));
    undo();
    let all = connection.checkpoint(CheckpointMode::Passive).expect("copies all");
    assert_eq!((all.frames_done, copied()), (first.frames, first.frames));
}
