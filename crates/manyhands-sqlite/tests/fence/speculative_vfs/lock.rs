//! When the write lock is imaginary, and when it is not.

use manyhands_sqlite::{CheckpointMode, Connection, OpenMode, Promotion};

use super::{Stage, n, text};
use crate::own_process::{Child, Signal, tell};

/// Damages the second copy of the wal-index header, and holds the recovery lock until `end`: from
/// another process, for to close the -shm file drops the locks of the process.
fn damage_header(stage: &Stage, damaged: &Signal, end: &Signal) -> Child {
    Child::fork(|| {
        let shm = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(stage.beside("shm"))
            .expect("opens");
        std::os::unix::fs::FileExt::write_all_at(&shm, &[0xAA; 4], 48 + 8).expect("writes");
        let lock = libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 122,
            l_len: 1,
            l_pid: 0,
        };
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&shm);
        // SAFETY: an open descriptor and a lock's description.
        let code = unsafe { libc::fcntl(descriptor, libc::F_SETLK, &raw const lock) };
        assert_eq!(code, 0, "nobody recovers yet");
        damaged.give();
        end.take();
    })
}

/// A process died while it wrote the header, and somebody else writes at this moment. An armed reader
/// that imagined the lock would see a private header that is whole, or recover under the writer.
#[test]
fn a_torn_header_is_read_under_the_real_lock() {
    tell("speculative_vfs::lock::a_torn_header_is_read_under_the_real_lock", || {
        let stage = Stage::new();
        let armed = stage.connect();
        armed.arm_speculation(true);
        assert_eq!(n(&armed, 1), 0, "a snapshot is taken, and given back");
        assert_eq!(armed.speculation_status().snapshot, None);
        let writer = stage.connect();
        writer.execute("BEGIN IMMEDIATE").expect("the write lock");
        let (damaged, end) = (Signal::new(), Signal::new());
        let child = damage_header(&stage, &damaged, &end);
        damaged.take();
        let refused = armed.query_integer("SELECT n FROM t WHERE id = 1").expect_err("torn");
        assert!(refused.code.is_busy(), "{refused}");
        let refused = armed.execute("UPDATE t SET n = 1").expect_err("torn");
        assert!(refused.code.is_busy(), "{refused}");
        assert!(!armed.speculation_status().speculating);
        end.give();
        child.join();
        writer.execute("ROLLBACK").expect("the lock is given back");
        assert_eq!(n(&armed, 1), 0, "the reader has recovered the header under the real lock");
        armed.execute("BEGIN; UPDATE t SET n = 1 WHERE id = 1").expect("speculates again");
        assert_eq!(armed.promote(), Promotion::Promoted);
        armed.execute("COMMIT").expect("commits");
        assert_eq!(n(&writer, 1), 1);
    });
}

/// A speculative transaction whose snapshot is older than the recovery of a torn header is stale, whatever was recovered.
#[test]
fn a_recovered_header_makes_a_fork_stale() {
    tell("speculative_vfs::lock::a_recovered_header_makes_a_fork_stale", || {
        let stage = Stage::new();
        let (speculative, other) = (stage.speculating(10), stage.connect());
        let (damaged, end) = (Signal::new(), Signal::new());
        let child = damage_header(&stage, &damaged, &end);
        damaged.take();
        end.give();
        child.join();
        assert_eq!(speculative.promote(), Promotion::Stale, "while torn");
        other.execute("UPDATE t SET n = 5 WHERE id = 2").expect("recovers, and commits");
        assert_eq!(speculative.promote(), Promotion::Stale, "when recovered");
        assert_eq!((n(&speculative, 1), n(&speculative, 2)), (10, 0), "the snapshot is whole");
        speculative.execute("ROLLBACK").expect("rolls back");
        assert_eq!((n(&speculative, 1), n(&speculative, 2)), (0, 5));
    });
}

fn frames(connection: &Connection) -> u32 {
    connection.speculation_status().live.expect("a header").frame_last
}

/// A checkpoint that restarts the WAL takes the write lock, and no read lock. Were that one imagined,
/// the WAL would start anew under a writer's hands. In a transaction SQLite takes no checkpoint.
#[test]
fn a_checkpoint_on_an_armed_connection_is_as_real_as_any() {
    let stage = Stage::new();
    let (armed, writer) = (stage.connect(), stage.connect());
    armed.arm_speculation(true);
    assert_eq!(n(&armed, 1), 0);
    writer.execute("PRAGMA cache_size=10; BEGIN IMMEDIATE").expect("begins");
    writer
        .execute(
            "WITH s(x) AS (SELECT 11 UNION ALL SELECT x + 1 FROM s WHERE x < 210)
             INSERT INTO t SELECT x, zeroblob(300) FROM s",
        )
        .expect("appends frames");
    let salt = armed.speculation_status().live.expect("a header").salt;
    for mode in [CheckpointMode::Restart, CheckpointMode::Truncate] {
        let refused = armed.checkpoint(mode).expect_err("somebody writes");
        assert!(refused.code.is_busy(), "{refused}");
    }
    assert_eq!(armed.speculation_status().live.expect("a header").salt, salt, "the WAL goes on");
    writer.execute("COMMIT").expect("commits");

    for begin in ["BEGIN; SELECT n FROM t", "BEGIN; UPDATE t SET n = 7 WHERE id = 1"] {
        armed.execute(begin).expect("begins");
        let before = (stage.bytes("shm"), stage.bytes("wal"));
        for mode in [CheckpointMode::Passive, CheckpointMode::Restart, CheckpointMode::Truncate] {
            let refused = armed.checkpoint(mode).expect_err("in a transaction");
            assert_eq!(refused.code.primary(), libsqlite3_sys::SQLITE_LOCKED, "{refused}");
        }
        armed.execute("PRAGMA wal_checkpoint(TRUNCATE)").expect_err("in a transaction");
        assert!(before == (stage.bytes("shm"), stage.bytes("wal")), "{begin}: nothing is written");
        armed.execute("ROLLBACK").expect("rolls back");
    }

    let all = frames(&armed);
    let done = armed.checkpoint(CheckpointMode::Restart).expect("nobody writes or reads");
    assert_eq!((done.frames, done.frames_done), (all, all));
    assert_eq!(n(&writer, 1), 0);
    assert_eq!(text(&writer, "PRAGMA integrity_check"), "ok");
    assert_eq!(writer.query_integer("SELECT count(*) FROM t").expect("reads"), 202);
}

/// The last connection of all is armed, even forked, and closes: SQLite then checkpoints and deletes
/// the WAL. What the speculative transaction wrote is gone, what was committed is in the database.
#[test]
fn the_last_connection_may_be_a_fork() {
    let stage = Stage::new();
    let speculative = stage.speculating(10);
    drop(speculative);
    assert!(!stage.beside("wal").exists());
    assert_eq!(n(&stage.connect(), 1), 0);
}

/// The engine arms a connection once, and the application changes the journal mode to and fro: the
/// connection's view of the wal-index goes and comes again.
#[test]
fn a_connection_stays_armed_through_other_journal_modes() {
    let stage = Stage::new();
    let armed = stage.connect();
    armed.arm_speculation(true);
    assert_eq!(n(&armed, 1), 0);
    assert_eq!(text(&armed, "PRAGMA journal_mode=DELETE"), "delete");
    assert_eq!(armed.speculation_status().live, None, "there is no wal-index to look into");
    armed
        .execute("UPDATE t SET n = 1 WHERE id = 1")
        .expect("a rollback journal knows no speculation");
    assert_eq!(text(&armed, "PRAGMA journal_mode=WAL"), "wal");
    armed.execute("BEGIN; UPDATE t SET n = 2 WHERE id = 1").expect("writes");
    assert!(armed.speculation_status().speculating);
    assert_eq!(text(&armed, "PRAGMA journal_mode=DELETE"), "wal", "not in a transaction");
    let other = stage.connect();
    other.execute("UPDATE t SET n = 5 WHERE id = 2").expect("nobody holds the lock");
    assert_eq!(text(&other, "PRAGMA journal_mode"), "wal");
    other.execute("PRAGMA journal_mode=DELETE").expect_err("the speculative transaction reads");
    assert_eq!(armed.promote(), Promotion::Stale);
    armed.execute("ROLLBACK").expect("rolls back");
    assert_eq!((n(&armed, 1), n(&armed, 2)), (1, 5));
}

/// Exclusive connections ask for no locks, some have no wal-index in shared memory at all: they cannot
/// fork, and write as ever.
#[test]
fn an_exclusive_connection_writes_as_ever() {
    let stage = Stage::new();
    let armed = stage.connect();
    armed.arm_speculation(true);
    armed.execute("PRAGMA locking_mode=EXCLUSIVE").expect("set");
    armed.execute("BEGIN; UPDATE t SET n = 1 WHERE id = 1").expect("writes");
    assert!(!armed.speculation_status().speculating);
    assert_eq!(armed.promote(), Promotion::Stale, "there is nothing to promote");
    armed.execute("COMMIT").expect("commits");
    drop(armed);

    let armed = stage.connect();
    armed.arm_speculation(true);
    assert_eq!(n(&armed, 1), 1, "with shared memory at first");
    armed.execute("PRAGMA locking_mode=EXCLUSIVE").expect("set");
    armed.execute("BEGIN; UPDATE t SET n = 2 WHERE id = 1").expect("writes");
    assert!(!armed.speculation_status().speculating);
    armed.execute("COMMIT; PRAGMA locking_mode=NORMAL").expect("commits");
    armed
        .execute("UPDATE t SET n = 2 WHERE id = 1")
        .expect("SQLite gives its lock back after this");
    armed.execute("BEGIN; UPDATE t SET n = 3 WHERE id = 1").expect("writes");
    assert!(armed.speculation_status().speculating, "it shares again");
    armed.execute("ROLLBACK").expect("rolls back");
    assert_eq!(n(&stage.connect(), 1), 2);
}

/// A reader cannot write, armed or not.
#[test]
fn a_read_only_connection_stays_one() {
    let stage = Stage::new();
    let _keeps_the_wal = stage.connect();
    let reader = Connection::open(&stage.path, OpenMode::ReadOnly, false).expect("opens");
    reader.arm_speculation(true);
    assert_eq!(n(&reader, 1), 0);
    let refused = reader.execute("UPDATE t SET n = 1").expect_err("read-only");
    assert_eq!(refused.code.primary(), libsqlite3_sys::SQLITE_READONLY, "{refused}");
    assert!(!reader.speculation_status().speculating);
    assert_eq!(n(&reader, 1), 0);
}
