//! The speculative transaction: a transaction that writes on its own snapshot while others commit.

mod lock;
mod snapshot;
mod rollback;
mod spill;
mod neighbours;
mod memory;
mod closing;
mod private_page;
mod race;

use manyhands_sqlite::{Connection, OpenMode, Promotion};
use tempfile::TempDir;

struct Stage {
    _directory: TempDir,
    path: std::path::PathBuf,
}

impl Stage {
    fn new() -> Stage {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.db");
        let stage = Stage { _directory: directory, path };
        let first = stage.connect();
        first.execute("PRAGMA page_size=512; PRAGMA journal_mode=WAL").expect("WAL");
        first.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n)").expect("a table");
        first.execute("INSERT INTO t VALUES (1, 0), (2, 0)").expect("rows");
        stage
    }

    fn connect_without_reading(&self) -> Connection {
        Connection::open(&self.path, OpenMode::ReadWriteCreate, false).expect("opens")
    }

    fn connect(&self) -> Connection {
        let connection = self.connect_without_reading();
        connection.execute("PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=OFF").expect("set");
        connection
    }

    /// The bytes of a file beside the database: `wal` or `shm`. No stock copy of SQLite may be on it in
    /// this process: to close a file drops its locks.
    fn bytes(&self, suffix: &str) -> Vec<u8> {
        std::fs::read(self.beside(suffix)).expect("the file is there")
    }

    fn beside(&self, suffix: &str) -> std::path::PathBuf {
        self.path.with_extension(format!("db-{suffix}"))
    }

    /// A connection whose fork has set the first row to `n`.
    fn speculating(&self, n: i64) -> Connection {
        let connection = self.connect();
        connection.arm_speculation(true);
        connection.execute("BEGIN").expect("begins");
        connection.execute(&format!("UPDATE t SET n = {n} WHERE id = 1")).expect("writes");
        let status = connection.speculation_status();
        assert!(status.speculating && !status.overflowed, "{status:?}");
        connection
    }
}

fn text(connection: &Connection, sql: &str) -> String {
    connection.query_text(sql).expect("reads")
}

fn n(connection: &Connection, id: i64) -> i64 {
    connection.query_integer(&format!("SELECT n FROM t WHERE id = {id}")).expect("reads")
}

/// The promise itself: two transactions write at once, and somebody commits meanwhile.
#[test]
fn forks_write_while_others_commit() {
    let stage = Stage::new();
    let (one, two) = (stage.speculating(10), stage.speculating(20));
    let other = stage.connect();
    other.execute("UPDATE t SET n = 5 WHERE id = 2").expect("nobody holds the write lock");
    assert_eq!((n(&one, 1), n(&one, 2)), (10, 0), "its own write, and its own snapshot");
    assert_eq!((n(&two, 1), n(&two, 2)), (20, 0));
    assert_eq!(one.promote(), Promotion::Stale);
    one.execute("ROLLBACK").expect("rolls back");
    two.execute("ROLLBACK").expect("rolls back");
    assert_eq!((n(&one, 1), n(&one, 2)), (0, 5));
    assert_eq!(other.query_text("PRAGMA integrity_check").expect("checks"), "ok");
}

/// A speculative transaction of the newest snapshot commits as SQLite commits.
#[test]
fn a_promoted_fork_commits() {
    let stage = Stage::new();
    let speculative = stage.speculating(10);
    assert_eq!(speculative.promote(), Promotion::Promoted);
    let other = stage.connect();
    let refused =
        other.execute("UPDATE t SET n = 5 WHERE id = 2").expect_err("the lock is real now");
    assert!(refused.code.is_busy());
    speculative.execute("COMMIT").expect("commits");
    assert_eq!(n(&other, 1), 10);
    other.execute("UPDATE t SET n = 5 WHERE id = 2").expect("the lock was given back");
    assert_eq!(n(&speculative, 2), 5);
}
