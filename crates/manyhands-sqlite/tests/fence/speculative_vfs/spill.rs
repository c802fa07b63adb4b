//! A speculative transaction that outgrows the page cache is refused, and nothing of it reaches a file.

use manyhands_sqlite::{CheckpointMode, Connection, Promotion};

use super::{Stage, n, text};

const ROWS: &str = "WITH s(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM s WHERE x < 300)
    INSERT INTO t SELECT x + 1000, zeroblob(400) FROM s";

/// SQLite writes dirty pages to the WAL when the cache is full, and before that restarts the WAL if it
/// can. `prepare` brings the WAL into the state where the speculative transaction finds it.
fn check(prepare: impl FnOnce(&Stage, &Connection)) {
    let stage = Stage::new();
    let other = stage.connect();
    prepare(&stage, &other);
    let speculative = stage.connect();
    speculative.execute("PRAGMA cache_size=10; PRAGMA cache_spill=10").expect("set");
    speculative.arm_speculation(true);
    speculative.execute("BEGIN; UPDATE t SET n = 10 WHERE id = 1").expect("writes");
    let files =
        || (stage.bytes("wal"), stage.bytes("shm"), std::fs::read(&stage.path).expect("a file"));
    let before = files();
    let mut reader = speculative.prepare_one("SELECT n FROM t").expect("compiles");
    reader.step().expect("a row");
    let refused = speculative.execute(ROWS).expect_err("too many pages");
    assert_eq!(refused.code.0, libsqlite3_sys::SQLITE_IOERR_WRITE, "{refused}");
    assert!(before == files(), "no byte is written");
    assert!(speculative.speculation_status().overflowed);
    assert!(speculative.is_autocommit(), "SQLite has rolled back");
    // Its pager is in the error state until the reader has ended.
    speculative.arm_speculation(false);
    speculative.arm_speculation(true);
    assert!(speculative.speculation_status().overflowed);
    assert_eq!(speculative.promote(), Promotion::Stale);
    other.execute("UPDATE t SET n = 5 WHERE id = 2").expect("nobody holds the lock");
    reader.step().expect_err("rolled back under it");
    drop(reader);
    let status = speculative.speculation_status();
    assert!(status.overflowed && !status.speculating, "{status:?}");

    assert_eq!((n(&speculative, 1), n(&speculative, 2)), (0, 5));
    speculative.execute("BEGIN; UPDATE t SET n = 20 WHERE id = 1").expect("a small one");
    let status = speculative.speculation_status();
    assert!(!status.overflowed && status.speculating, "{status:?}");
    assert_eq!(speculative.promote(), Promotion::Promoted);
    speculative.execute(ROWS).expect("with the real lock it may be as large as it likes");
    speculative.execute("COMMIT").expect("commits");
    assert_eq!(n(&other, 1), 20);
    assert_eq!(other.query_integer("SELECT count(*) FROM t").expect("reads"), 302);
    assert_eq!(text(&stage.connect(), "PRAGMA integrity_check"), "ok");
}

#[test]
fn behind_committed_frames() {
    check(|_, other| other.execute("UPDATE t SET n = 1 WHERE id = 2").expect("commits"));
}

/// All frames are in the database: SQLite would restart the WAL.
#[test]
fn behind_checkpointed_frames() {
    check(|_, other| {
        other.execute("UPDATE t SET n = 1 WHERE id = 2").expect("commits");
        let done = other.checkpoint(CheckpointMode::Passive).expect("nobody reads");
        assert_eq!(done.frames, done.frames_done);
    });
}

#[test]
fn in_a_truncated_wal() {
    check(|_, other| {
        other.checkpoint(CheckpointMode::Truncate).expect("nobody reads");
    });
}

/// A WAL that nobody has written to since it was created. SQLite had no read mark to come back to, and
/// forgot to give back its write lock: the connection would have been a speculative transaction for ever.
#[test]
fn in_a_new_wal() {
    check(|stage, other| {
        assert_eq!(text(other, "PRAGMA journal_mode=DELETE"), "delete");
        assert_eq!(text(other, "PRAGMA journal_mode=WAL"), "wal");
        other.execute("BEGIN; SELECT n FROM t; ROLLBACK").expect("reads");
        assert_eq!(stage.bytes("wal"), []);
    });
}
