//! A speculative transaction that ends in a rollback leaves no trace in what others share.

use manyhands_sqlite::{Connection, Promotion};

use super::{Stage, n, text};
use crate::sqlite_copy::other_process;

/// One page each: frames.
const ROWS: &str = "WITH s(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM s WHERE x < 300)
    INSERT INTO t SELECT x + 1000, zeroblob(400) FROM s";

/// Everything ends with a writer in the middle of its transaction: its frames are in the WAL and in the
/// hash tables behind the last committed one. There SQLite's rollback cleans up, if it finds that the
/// header is not what it was.
fn check(end: impl FnOnce(Connection)) {
    let stage = Stage::new();
    let speculative = stage.connect();
    speculative
        .execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON t WHEN new.id = 3 BEGIN
         SELECT raise(ROLLBACK, 'refused'); END",
        )
        .expect("a trigger");
    speculative.arm_speculation(true);
    speculative.execute("BEGIN; UPDATE t SET n = 10 WHERE id = 1").expect("writes");
    let writer = stage.connect();
    for n in 1..=20 {
        writer.execute(&format!("UPDATE t SET n = {n} WHERE id = 2")).expect("commits");
    }
    let committed = stage.bytes("wal").len();
    writer.execute("PRAGMA cache_size=10; BEGIN IMMEDIATE").expect("begins");
    writer.execute(ROWS).expect("writes");
    assert!(stage.bytes("wal").len() > committed + 100 * 536, "frames are appended");

    let before = stage.bytes("shm");
    end(speculative);
    assert!(stage.bytes("shm") == before, "the wal-index is as it was");

    // From the WAL, through the hash table: the cache is small.
    assert_eq!(writer.query_integer("SELECT sum(length(n)) FROM t").expect("reads"), 120_003);
    writer.execute("COMMIT").expect("commits");
    let fresh = stage.connect();
    assert_eq!((n(&fresh, 1), n(&fresh, 2)), (0, 20));
    assert_eq!(fresh.query_integer("SELECT sum(length(n)) FROM t").expect("reads"), 120_003);
    assert_eq!(text(&fresh, "PRAGMA integrity_check"), "ok");
    let seen = other_process(&stage.path, "pragma integrity_check; select count(*) from t");
    assert_eq!(seen.expect("another process reads"), ["ok", "302"]);
}

fn ends(connection: &Connection) {
    assert!(connection.is_autocommit());
    assert!(!connection.speculation_status().speculating);
    assert_eq!((n(connection, 1), n(connection, 2)), (0, 20), "it sees what is committed");
}

#[test]
fn rollback_leaves_the_index_whole() {
    check(|speculative| {
        speculative.execute("ROLLBACK").expect("rolls back");
        ends(&speculative);
    });
}

#[test]
fn or_rollback_leaves_the_index_whole() {
    check(|speculative| {
        speculative.execute("INSERT OR ROLLBACK INTO t VALUES (1, 1)").expect_err("a duplicate");
        ends(&speculative);
    });
}

#[test]
fn raise_rollback_leaves_the_index_whole() {
    check(|speculative| {
        speculative.execute("INSERT INTO t VALUES (3, 1)").expect_err("the trigger");
        ends(&speculative);
    });
}

#[test]
fn close_leaves_the_index_whole() {
    check(drop);
}

/// A COMMIT that nobody promoted is refused, and ends the transaction.
#[test]
fn a_commit_without_promotion_leaves_the_index_whole() {
    check(|speculative| {
        let refused = speculative.execute("COMMIT").expect_err("nobody promoted it");
        assert_eq!(refused.code.primary(), libsqlite3_sys::SQLITE_IOERR, "{refused}");
        ends(&speculative);
    });
}

#[test]
fn a_stale_promotion_leaves_the_index_whole() {
    check(|speculative| {
        assert_eq!(speculative.promote(), Promotion::Stale, "it does not ask for the lock first");
        speculative.execute("ROLLBACK").expect("rolls back");
        ends(&speculative);
    });
}

/// A statement interrupted, with readers of the same connection in their middle.
#[test]
fn a_rollback_under_open_statements_leaves_the_index_whole() {
    check(|speculative| {
        let mut reader = speculative.prepare_one("SELECT n FROM t").expect("compiles");
        reader.step().expect("a row");
        speculative.execute("ROLLBACK").expect("rolls back");
        drop(reader);
        ends(&speculative);
    });
}
