//! What a speculative transaction reads: its own snapshot and its own writes, whatever happens to the WAL meanwhile.

use manyhands_sqlite::{CheckpointMode, Connection, Promotion};

use super::{Stage, n, text};

/// A table whose rows have a page each.
fn many_pages(stage: &Stage) -> Connection {
    let writer = stage.connect();
    writer
        .execute(
            "CREATE TABLE p (id INTEGER PRIMARY KEY, n, filler);
             WITH s(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM s WHERE x < 500)
             INSERT INTO p SELECT x, 0, zeroblob(300) FROM s",
        )
        .expect("pages");
    writer
}

/// Commits until the WAL has `count` frames more, each with other values.
fn commit_frames(writer: &Connection, count: u32, seed: &mut i64) {
    let frames = || writer.speculation_status().live.expect("a header").frame_last;
    let until = frames() + count;
    while frames() < until {
        *seed += 1;
        writer
            .execute(&format!("UPDATE p SET n = n + {seed} * id WHERE id % 7 = {seed} % 7"))
            .expect("commits");
    }
}

fn all(connection: &Connection) -> String {
    text(connection, "SELECT group_concat(id || ':' || n || ':' || length(filler)) FROM p")
        + &text(connection, "SELECT group_concat(id || ':' || n) FROM t")
}

/// Frames before and behind the borders of the wal-index's regions (4062, 8158), and of its first
/// page, which the speculative transaction has for itself; a checkpointer goes as far as it can. The page cache is too
/// small to hide anything.
#[test]
fn a_fork_reads_its_snapshot_across_regions_and_checkpoints() {
    for frames_before in [500, 3_900, 4_100, 9_000] {
        let stage = Stage::new();
        let writer = many_pages(&stage);
        let mut seed = 0;
        commit_frames(&writer, frames_before / 2, &mut seed);
        let part = stage.connect();
        part.checkpoint(CheckpointMode::Passive).expect("a partial checkpoint");
        let older = stage.connect();
        older.execute("BEGIN; SELECT n FROM t").expect("holds the checkpoint back");
        commit_frames(&writer, frames_before / 2, &mut seed);

        let (speculative, plain) = (stage.connect(), stage.connect());
        for connection in [&speculative, &plain] {
            connection.execute("PRAGMA cache_size=10; PRAGMA cache_spill=OFF").expect("set");
        }
        speculative.arm_speculation(true);
        speculative
            .execute("BEGIN; UPDATE t SET n = 0 WHERE id = 1")
            .expect("writes what is there");
        assert!(speculative.speculation_status().speculating);
        plain.execute("BEGIN; SELECT n FROM t").expect("the same snapshot");
        let seen = all(&plain);
        for _ in 0..3 {
            assert!(all(&speculative) == seen, "{frames_before} frames");
            commit_frames(&writer, 1_500, &mut seed);
            let done = part.checkpoint(CheckpointMode::Passive).expect("a partial checkpoint");
            assert!(done.frames_done < done.frames);
        }
        older.execute("ROLLBACK").expect("ends");
        part.checkpoint(CheckpointMode::Passive).expect("a partial checkpoint");
        assert!(all(&speculative) == seen && all(&plain) == seen, "{frames_before} frames");
        assert!(all(&writer) != seen);
        assert_eq!(text(&speculative, "PRAGMA integrity_check"), "ok", "of the snapshot");
        assert_eq!(speculative.promote(), Promotion::Stale);
        speculative.execute("ROLLBACK").expect("rolls back");
        assert!(all(&speculative) == all(&writer));
        assert_eq!(text(&writer, "PRAGMA integrity_check"), "ok");
    }
}

/// Everything was in the database file when the speculative transaction began: it holds the read mark that lets others
/// restart the WAL, and they do, several times round.
#[test]
fn a_fork_reads_its_snapshot_after_the_wal_was_restarted() {
    let stage = Stage::new();
    let writer = many_pages(&stage);
    let mut seed = 0;
    commit_frames(&writer, 2_000, &mut seed);
    let done = writer.checkpoint(CheckpointMode::Passive).expect("nobody reads");
    assert_eq!(done.frames, done.frames_done);
    let speculative = stage.connect();
    speculative.execute("PRAGMA cache_size=10; PRAGMA cache_spill=OFF").expect("set");
    speculative.arm_speculation(true);
    speculative.execute("BEGIN; UPDATE t SET n = 10 WHERE id = 1").expect("writes");
    let (seen, snapshot) =
        (all(&speculative), speculative.speculation_status().snapshot.expect("a snapshot"));

    commit_frames_after_restart(&writer, &mut seed);
    let live = speculative.speculation_status().live.expect("a header");
    assert_ne!(live.salt, snapshot.salt, "the WAL was restarted");
    assert!(live.frame_last < snapshot.frame_last);
    assert!(all(&speculative) == seen);
    let done = writer.checkpoint(CheckpointMode::Passive).expect("as far as possible");
    assert_eq!(done.frames_done, 0, "the speculative transaction reads the database file");
    assert!(all(&speculative) == seen);
    assert_eq!(speculative.promote(), Promotion::Stale);
    let before = (stage.bytes("shm"), stage.bytes("wal"));
    speculative.execute("ROLLBACK").expect("rolls back");
    assert!(before == (stage.bytes("shm"), stage.bytes("wal")), "the wal-index is as it was");
    assert!(all(&speculative) == all(&writer));
    assert_eq!(text(&stage.connect(), "PRAGMA integrity_check"), "ok");
}

fn commit_frames_after_restart(writer: &Connection, seed: &mut i64) {
    writer.execute("UPDATE p SET n = n - 1 WHERE id = 1").expect("restarts the WAL, and commits");
    commit_frames(writer, 1_000, seed);
}

/// A speculative transaction with read mark 0 that is promoted restarts the WAL itself, as any writer would.
#[test]
fn a_promoted_fork_restarts_the_wal() {
    let stage = Stage::new();
    let other = stage.connect();
    other.checkpoint(CheckpointMode::Passive).expect("nobody reads");
    let speculative = stage.speculating(10);
    let salt = speculative.speculation_status().live.expect("a header").salt;
    assert_eq!(speculative.promote(), Promotion::Promoted);
    speculative.execute("COMMIT").expect("commits");
    assert_ne!(speculative.speculation_status().live.expect("a header").salt, salt);
    assert_eq!(n(&other, 1), 10);
    assert_eq!(text(&other, "PRAGMA integrity_check"), "ok");
}

/// Savepoints and failed statements roll back inside the speculative transaction, before and after promotion.
#[test]
fn savepoints_and_statements_roll_back_in_a_fork() {
    let stage = Stage::new();
    let speculative = stage.speculating(10);
    speculative.execute("SAVEPOINT a; UPDATE t SET n = 11 WHERE id = 1").expect("writes");
    speculative.execute("SAVEPOINT b; INSERT INTO t VALUES (3, 3), (4, 4)").expect("writes");
    speculative.execute("INSERT INTO t VALUES (5, 5), (6, 6), (1, 1)").expect_err("a duplicate");
    assert_eq!(text(&speculative, "SELECT group_concat(id) FROM t"), "1,2,3,4");
    speculative.execute("ROLLBACK TO b; INSERT INTO t VALUES (7, 7)").expect("goes on");
    assert_eq!(text(&speculative, "SELECT group_concat(id) FROM t"), "1,2,7");
    speculative.execute("ROLLBACK TO a").expect("goes on");
    assert_eq!(n(&speculative, 1), 10);
    assert!(speculative.speculation_status().speculating, "it is speculative still");
    speculative.execute("SAVEPOINT c; UPDATE t SET n = 12 WHERE id = 1").expect("writes");
    assert_eq!(speculative.promote(), Promotion::Promoted);
    speculative.execute("ROLLBACK TO c; INSERT INTO t VALUES (8, 8)").expect("goes on");
    speculative.execute("COMMIT").expect("commits");
    let other = stage.connect();
    assert_eq!(text(&other, "SELECT group_concat(id || ':' || n) FROM t"), "1:10,2:0,8:8");
    assert_eq!(text(&other, "PRAGMA integrity_check"), "ok");
}

/// Only the main database speculates: temporary tables are the connection's own, and an attached file is
/// locked and written as ever.
#[test]
fn temporary_and_attached_databases_do_not_fork() {
    let stage = Stage::new();
    let attached = Stage::new();
    let speculative = stage.connect();
    speculative.execute(&format!("ATTACH '{}' AS b", attached.path.display())).expect("attaches");
    speculative.execute("CREATE TEMP TABLE mine (a)").expect("a temporary table");
    speculative.arm_speculation(true);
    speculative.execute("BEGIN; UPDATE main.t SET n = 10 WHERE id = 1").expect("writes");
    speculative.execute("INSERT INTO mine SELECT n FROM main.t").expect("writes");
    let mut others = (stage.connect(), attached.connect());
    others.0.execute("UPDATE t SET n = 5 WHERE id = 2").expect("nobody holds the lock");
    others.1.execute("UPDATE t SET n = 6 WHERE id = 2").expect("nobody holds the lock");
    speculative.execute("UPDATE b.t SET n = 20 WHERE id = 1").expect("writes");
    let refused = others.1.execute("UPDATE t SET n = 7 WHERE id = 2").expect_err("a real lock");
    assert!(refused.code.is_busy(), "{refused}");
    assert_eq!(speculative.query_integer("SELECT sum(a) FROM mine").expect("reads"), 10);
    assert_eq!(speculative.promote(), Promotion::Stale);
    let refused = speculative.execute("COMMIT").expect_err("nobody promoted it");
    assert_eq!(refused.code.primary(), libsqlite3_sys::SQLITE_IOERR, "{refused}");
    assert!(speculative.is_autocommit());
    others = (stage.connect(), attached.connect());
    assert_eq!((n(&others.0, 1), n(&others.0, 2)), (0, 5));
    assert_eq!((n(&others.1, 1), n(&others.1, 2)), (0, 6), "neither file has anything of it");
    assert_eq!(speculative.query_integer("SELECT count(*) FROM mine").expect("reads"), 0);
}
