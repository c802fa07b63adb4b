//! The write lock, taken before the transaction that needs it.

use manyhands_sqlite::{Connection, OpenMode};

fn connect(path: &std::path::Path) -> Connection {
    let connection = Connection::open(path, OpenMode::ReadWriteCreate, false).expect("opens");
    connection.execute("PRAGMA journal_mode=WAL; CREATE TABLE IF NOT EXISTS t (n)").expect("set");
    connection
}

/// A leader that waits for a program which commits again and again found the lock free when its own snapshot was old
/// already, and began anew: 8 threads made 548 commits/s beside a stock writer, and 9,118 alone.
#[test]
fn who_has_the_lock_begins_with_the_newest_snapshot() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("app.db");
    let (one, other) = (connect(&path), connect(&path));
    let count = |it: &Connection| it.query_integer("SELECT count(*) FROM t").expect("reads");

    other.execute("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").expect("the lock is free");
    assert!(!one.lock_ahead(), "the other one has it");
    other.execute("COMMIT").expect("commits");
    assert!(one.lock_ahead() && one.lock_ahead(), "again is no error");
    assert!(other.execute("BEGIN IMMEDIATE").is_err_and(|error| error.code.is_lock_held()));
    assert_eq!(count(&other), 1, "readers notice nothing");
    one.execute("BEGIN IMMEDIATE; INSERT INTO t VALUES (2)").expect("it has the lock");
    one.give_lock_back();
    assert!(other.execute("BEGIN IMMEDIATE").is_err(), "it is the transaction's now");
    one.execute("COMMIT").expect("commits");
    other.execute("BEGIN IMMEDIATE; INSERT INTO t VALUES (3); COMMIT").expect("it is free");
    assert_eq!(count(&one), 3);

    // Nothing came of it.
    assert!(one.lock_ahead());
    one.give_lock_back();
    one.give_lock_back();
    other.execute("INSERT INTO t VALUES (4)").expect("it is free");
    assert!(one.lock_ahead());
    drop(one);
    other.execute("INSERT INTO t VALUES (5)").expect("it is free");

    let unread = Connection::open(&path, OpenMode::ReadWrite, false).expect("opens");
    assert!(!unread.lock_ahead(), "it does not use the WAL yet");
}
