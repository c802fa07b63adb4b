//! Python's `sqlite3` and Manyhands in one process, on one database: each must respect the other's
//! locks.

use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use manyhands_sqlite::locks;

use crate::own_process::tell;
use crate::sqlite_copy::{Connection, Database, Shell, SqliteCopy, other_process};

const LOCKED: &str = "database is locked";
/// The byte of a -shm file that every connection locks, and the first one exclusively.
const DEADMAN_SWITCH: i64 = 128;

fn is_told_locked(result: Result<Vec<String>, String>) -> bool {
    result.is_err_and(|message| message.contains(LOCKED))
}

fn open_both(database: &Database) -> (Connection, Connection) {
    let ours = SqliteCopy::ours().open(&database.path);
    let host = SqliteCopy::host().open(&database.path);
    assert_eq!(ours.execute("select count(*) from t").expect("ours reads"), ["0"]);
    assert_eq!(host.execute("select count(*) from t").expect("the host reads"), ["0"]);
    (ours, host)
}

/// The control: without the remedy, two copies in one process both hold "the" write lock and lose a
/// committed row. If this test fails, POSIX locks have become harmless, and
/// `manyhands_sqlite::locks` is superfluous.
#[test]
fn posix_locks_lose_a_committed_row() {
    tell("two_copies::posix_locks_lose_a_committed_row", || {
        let database = Database::create(SqliteCopy::ours());
        let (ours, host) = open_both(&database);
        ours.execute("insert into t values('first')").expect("a frame in the WAL");
        ours.execute("begin immediate; insert into t values('ours')").expect("the write lock");
        host.execute("begin immediate; insert into t values('host')").expect("the same lock");
        ours.execute("commit").expect("our commit");
        assert_eq!(database.rows(), ["first", "ours"]);
        host.execute("commit").expect("a commit over ours");
        assert_eq!(database.rows(), ["first", "host"], "our committed row is gone");
    });
}

/// The control, second half: the host's copy closes, takes itself for the last user, and deletes
/// the WAL in which our transaction is being written.
#[test]
fn posix_locks_let_the_host_delete_our_wal() {
    tell("two_copies::posix_locks_let_the_host_delete_our_wal", || {
        let database = Database::create(SqliteCopy::ours());
        let (ours, host) = open_both(&database);
        ours.execute("begin immediate; insert into t values('ours')").expect("the write lock");
        drop(host);
        assert!(!database.wal().exists(), "the host deleted the WAL");
        ours.execute("commit").expect("a commit into a deleted file");
        assert_eq!(database.rows(), [""; 0], "nobody else will ever see it");
    });
}

/// While our transaction is open, the host's copy and another process are told to wait, whatever
/// the host closes; and every row that anybody committed is there at the end.
#[test]
fn nobody_writes_or_deletes_under_our_transaction() {
    tell("two_copies::nobody_writes_or_deletes_under_our_transaction", || {
        locks::install().expect("the locks are replaced");
        let database = Database::create(SqliteCopy::ours());
        let (ours, host) = open_both(&database);
        ours.execute("begin immediate; insert into t values('ours')").expect("the write lock");
        assert!(is_told_locked(host.execute("begin immediate")));
        assert!(is_told_locked(other_process(&database.path, "insert into t values('other')")));
        drop(host);
        assert!(database.wal().exists(), "the host left our WAL alone");
        assert!(database.shared_memory().exists(), "the host left our wal-index alone");
        assert!(is_told_locked(other_process(&database.path, "insert into t values('other')")));
        ours.execute("commit").expect("our commit");
        other_process(&database.path, "insert into t values('other')").expect("its turn");
        let host = SqliteCopy::host().open(&database.path);
        host.execute("insert into t values('host')").expect("its turn");
        ours.execute("insert into t values('ours again')").expect("our turn");
        assert_eq!(database.rows(), ["ours", "other", "host", "ours again"]);
        drop((ours, host));
        assert!(!database.wal().exists(), "the last one tidied up");
        assert_eq!(database.rows(), ["ours", "other", "host", "ours again"]);
    });
}

/// The host is in a transaction while all our connections close: its locks survive, and its WAL
/// too.
#[test]
fn our_close_leaves_the_hosts_locks_alone() {
    tell("two_copies::our_close_leaves_the_hosts_locks_alone", || {
        locks::install().expect("the locks are replaced");
        let database = Database::create(SqliteCopy::ours());
        let (ours, host) = open_both(&database);
        let ours_too = SqliteCopy::ours().open(&database.path);
        ours_too.execute("select count(*) from t").expect("ours reads");
        host.execute("begin immediate; insert into t values('host')").expect("the write lock");
        drop(ours_too);
        drop(ours);
        assert!(database.wal().exists(), "we left the host's WAL alone");
        assert!(is_told_locked(other_process(&database.path, "insert into t values('other')")));
        host.execute("commit").expect("the host's commit");
        drop(host);
        assert_eq!(database.rows(), ["host"]);
    });
}

/// Rollback journals: our copy locks one byte of SQLite's SHARED range and stock copies lock all
/// 510. Readers of one kind must still keep out writers of the other, and writers everybody.
#[test]
fn readers_and_writers_of_both_kinds_exclude_each_other() {
    tell("two_copies::readers_and_writers_of_both_kinds_exclude_each_other", || {
        locks::install().expect("the locks are replaced");
        let database = Database::create(SqliteCopy::ours());
        let (ours, host) = open_both(&database);
        drop(host);
        ours.execute("pragma journal_mode=delete").expect("alone, the mode can change");
        let host = SqliteCopy::host().open(&database.path);

        for (reader, writer) in [(&ours, &host), (&host, &ours)] {
            reader.execute("begin; select count(*) from t").expect("a reader");
            writer.execute("begin immediate; insert into t values('x')").expect("RESERVED");
            assert!(is_told_locked(writer.execute("commit")), "a reader is there");
            reader.execute("commit").expect("the reader leaves");
            writer.execute("commit").expect("EXCLUSIVE");
            reader.execute("select count(*) from t").expect("EXCLUSIVE is gone");

            writer.execute("begin exclusive").expect("EXCLUSIVE");
            assert!(is_told_locked(reader.execute("select count(*) from t")));
            assert!(is_told_locked(other_process(&database.path, "select count(*) from t")));
            writer.execute("rollback").expect("the writer leaves");
            reader.execute("select count(*) from t").expect("EXCLUSIVE is gone");
        }
        assert_eq!(database.rows(), ["x", "x"]);
    });
}

/// Our last connection closes while a stock process has the database open, and then that process
/// is killed. Nobody is left, so the next one to come must find the "deadman switch" of the
/// wal-index free: only then does it rebuild what the killed process may have left half written.
#[test]
fn our_last_close_releases_the_deadman_switch() {
    tell("two_copies::our_last_close_releases_the_deadman_switch", || {
        locks::install().expect("the locks are replaced");
        let database = Database::create(SqliteCopy::ours());
        let ours = SqliteCopy::ours().open(&database.path);
        ours.execute("select count(*) from t").expect("ours reads");
        let mut shell = Shell::open(&database.path);
        shell.execute("select count(*) from t;");
        drop(ours);
        assert!(is_locked(&database.shared_memory(), DEADMAN_SWITCH), "the stock process is there");
        shell.kill();
        assert!(!is_locked(&database.shared_memory(), DEADMAN_SWITCH), "nobody is there");
    });
}

/// A reporting job opens the database read-only, first of all; a writer follows in the same
/// process. Write locks need a descriptor that can write, whoever was first.
#[test]
fn a_read_only_connection_may_come_first() {
    tell("two_copies::a_read_only_connection_may_come_first", || {
        locks::install().expect("the locks are replaced");
        let database = Database::create(SqliteCopy::host());
        let uri = format!("file:{}?mode=ro", database.path.display());
        let reader = SqliteCopy::ours().open(Path::new(&uri));
        assert_eq!(reader.execute("select count(*) from t").expect("a read"), ["0"]);
        let writer = SqliteCopy::ours().open(&database.path);
        writer.execute("begin immediate; insert into t values('ours')").expect("the write lock");
        assert!(is_told_locked(other_process(&database.path, "insert into t values('other')")));
        drop(reader);
        assert!(is_told_locked(other_process(&database.path, "insert into t values('other')")));
        writer.execute("commit").expect("our commit");
        assert_eq!(database.rows(), ["ours"]);
    });
}

/// The file may only be read when it is opened, and permission to write comes later. The locks of
/// the reader cannot move, so a writer is refused, in words that SQLite has for it, until the
/// reader is gone.
#[test]
fn a_writer_waits_for_a_reader_whose_locks_cannot_move() {
    tell("two_copies::a_writer_waits_for_a_reader_whose_locks_cannot_move", || {
        locks::install().expect("the locks are replaced");
        let database = Database::create(SqliteCopy::host());
        other_process(&database.path, "pragma journal_mode=delete").expect("a rollback journal");
        give_up_root(&database);
        let set_mode = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&database.path, permissions).expect("the owner may");
        };
        set_mode(0o444);
        let reader = SqliteCopy::ours().open(&database.path);
        reader.execute("begin; select count(*) from t").expect("a read");
        set_mode(0o644);
        let insert = "insert into t values('ours')";
        let too_early = SqliteCopy::ours().open(&database.path);
        let refusal = too_early.execute(insert).expect_err("its lock could not be held");
        assert_eq!(refusal, "attempt to write a readonly database");
        let try_again = || drop(SqliteCopy::ours().open(&database.path));
        try_again();
        let parked = locks::parked_descriptors();
        (0..20).for_each(|_| try_again());
        assert_eq!(locks::parked_descriptors(), parked, "a refusal leaves nothing behind");
        drop((reader, too_early));
        SqliteCopy::ours().open(&database.path).execute(insert).expect("now it can");
        set_mode(0o444);
        let too_late = SqliteCopy::ours().open(&database.path);
        assert_eq!(too_late.execute(insert).expect_err("no permission any more"), refusal);
        assert_eq!(database.rows(), ["ours"]);
    });
}

/// Whether anybody, this process's open file descriptions included, holds a lock on a byte.
fn is_locked(path: &Path, byte: i64) -> bool {
    let file = std::fs::File::open(path).expect("the file is there");
    let mut probe = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: F_GETLK takes a `struct flock` that lives through the call, and here it does.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut probe) };
    assert_eq!(result, 0, "the kernel answers");
    libc::c_int::from(probe.l_type) != libc::F_UNLCK
}

/// Permissions do not bind root, so root becomes nobody, who gets the database.
fn give_up_root(database: &Database) {
    const NOBODY: u32 = 65_534;
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    for path in [database.path.as_path(), database.path.parent().expect("a directory")] {
        std::os::unix::fs::chown(path, Some(NOBODY), None).expect("root may");
    }
    // SAFETY: an integer; the whole process changes, and it is this story's own.
    assert_eq!(unsafe { libc::seteuid(NOBODY) }, 0, "root may");
}
