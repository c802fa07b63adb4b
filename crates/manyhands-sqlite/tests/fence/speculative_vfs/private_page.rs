//! Writing under the real write lock, with the first page of the wal-index private since an earlier fork.

use manyhands_sqlite::{Connection, Promotion};

use super::{Stage, n};
use crate::own_process::{Child, Signal, tell};
use crate::sqlite_copy::other_process;

/// So many frames that some are written before the commit.
const MANY_ROWS: &str = "WITH s(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM s WHERE x < 300)
    INSERT INTO t SELECT x + 1000, zeroblob(400) FROM s";

/// Frames that the first region's hash table knows of, and the last one that is committed.
fn known_and_committed(stage: &Stage) -> (usize, usize) {
    let shm = stage.bytes("shm");
    let slots = shm[16384..32768].chunks_exact(2).filter(|slot| **slot != [0, 0]).count();
    (slots, u32::from_ne_bytes(shm[16..20].try_into().expect("four bytes")) as usize)
}

fn check_index(stage: &Stage) {
    let (known, committed) = known_and_committed(stage);
    assert_eq!(known, committed, "the hash table has the committed frames, once each");
}

fn check(stage: &Stage, rows: &[&str]) {
    check_index(stage);
    let seen =
        other_process(&stage.path, "pragma integrity_check; select n from t where id < 1000");
    let expected: Vec<&str> = ["ok"].into_iter().chain(rows.iter().copied()).collect();
    assert_eq!(seen.expect("another process reads"), expected);
}

fn promoted(stage: &Stage, n: i64) -> Connection {
    let speculative = stage.speculating(n);
    assert_eq!(speculative.promote(), Promotion::Promoted);
    speculative.execute("PRAGMA cache_size = 10").expect("small enough to spill");
    speculative
}

/// Leaves the connection with a private page, as a speculative transaction that was rolled back does.
fn become_private(connection: &Connection) {
    connection.arm_speculation(true);
    connection.execute("BEGIN; UPDATE t SET n = -1 WHERE id = 1; ROLLBACK").expect("rolls back");
    connection.arm_speculation(false);
}

/// A process dies in the middle of a transaction whose frames are in the WAL.
fn kill_a_writer(stage: &Stage, prepare: impl Fn(&Connection), sql: &str) {
    let (written, never) = (Signal::new(), Signal::new());
    let writer = Child::fork(|| {
        let writer = stage.connect();
        prepare(&writer);
        writer.execute("PRAGMA cache_size = 10; BEGIN IMMEDIATE").expect("begins");
        writer.execute(sql).expect("writes");
        written.give();
        never.take();
    });
    written.take();
    writer.kill();
    let (known, committed) = known_and_committed(stage);
    assert!(known > committed + 100, "{known} and {committed}");
}

/// Transaction after transaction, each seen by everybody.
#[test]
fn promoted_forks_and_autocommits_in_turns() {
    let stage = Stage::new();
    let (speculative, other) = (stage.connect(), stage.connect());
    for round in 1..=200 {
        speculative.arm_speculation(true);
        speculative.execute("BEGIN").expect("begins");
        speculative.execute(&format!("UPDATE t SET n = {round} WHERE id = 1")).expect("writes");
        assert_eq!(speculative.promote(), Promotion::Promoted);
        speculative.execute("COMMIT").expect("commits");
        assert_eq!(n(&other, 1), round);
        speculative.execute(&format!("UPDATE t SET n = {} WHERE id = 1", -round)).expect("writes");
        assert_eq!(n(&other, 1), -round);
        other.execute(&format!("UPDATE t SET n = {round} WHERE id = 2")).expect("writes");
        assert_eq!(n(&speculative, 2), round);
    }
    check(&stage, &["-200", "200"]);
}

#[test]
fn a_large_promoted_commit() {
    let stage = Stage::new();
    let speculative = promoted(&stage, 10);
    speculative.execute(MANY_ROWS).expect("writes");
    speculative.execute("COMMIT").expect("commits");
    check(&stage, &["10", "0"]);
    assert_eq!(speculative.query_integer("SELECT count(*) FROM t").expect("reads"), 302);
}

#[test]
fn a_large_promoted_rollback() {
    let stage = Stage::new();
    let other = stage.connect();
    other.execute("UPDATE t SET n = 5 WHERE id = 2").expect("a frame to go back to");
    let (speculative, before) = (promoted(&stage, 10), known_and_committed(&stage));
    let written = stage.bytes("wal").len();
    speculative.execute(MANY_ROWS).expect("writes");
    assert!(stage.bytes("wal").len() > written + 100 * 536, "frames are appended");
    speculative.execute("ROLLBACK").expect("rolls back");
    assert_eq!(known_and_committed(&stage), before);
    check(&stage, &["0", "5"]);
    speculative.execute("UPDATE t SET n = 7 WHERE id = 1").expect("writes");
    check(&stage, &["7", "5"]);
}

/// A writer is killed that has appended frames since the speculative transaction's page became private: SQLite clears their
/// entries away when it sees them.
#[test]
fn a_promotion_after_a_killed_writer() {
    tell("speculative_vfs::private_page::a_promotion_after_a_killed_writer", || {
        let stage = Stage::new();
        let speculative = stage.connect();
        speculative.execute("UPDATE t SET n = 5 WHERE id = 2").expect("a frame to go back to");
        speculative.arm_speculation(true);
        speculative.execute("BEGIN; UPDATE t SET n = 10 WHERE id = 1").expect("writes");
        kill_a_writer(&stage, |_| (), MANY_ROWS);
        assert_eq!(speculative.promote(), Promotion::Promoted, "nothing was committed");
        speculative.execute("COMMIT").expect("commits");
        check(&stage, &["10", "5"]);
    });
}

/// The first writer after a kill is no fork; its page is private since the last one.
#[test]
fn an_autocommit_after_a_killed_writer() {
    tell("speculative_vfs::private_page::an_autocommit_after_a_killed_writer", || {
        let stage = Stage::new();
        let speculative = stage.connect();
        speculative.execute("UPDATE t SET n = 5 WHERE id = 2").expect("a frame to go back to");
        become_private(&speculative);
        kill_a_writer(&stage, |_| (), MANY_ROWS);
        speculative.execute("UPDATE t SET n = 8 WHERE id = 1").expect("writes");
        check(&stage, &["8", "5"]);
    });
}

/// The page of the writer that is killed is private: others clear away what it has left in the hash table,
/// which lies behind that page.
#[test]
fn an_autocommit_after_a_killed_writer_with_a_private_page() {
    tell(
        "speculative_vfs::private_page::an_autocommit_after_a_killed_writer_with_a_private_page",
        || {
            let stage = Stage::new();
            let other = stage.connect();
            other.execute("UPDATE t SET n = 5 WHERE id = 2").expect("a frame to go back to");
            kill_a_writer(&stage, become_private, MANY_ROWS);
            other.execute("UPDATE t SET n = 8 WHERE id = 1").expect("writes");
            check(&stage, &["8", "5"]);
        },
    );
}

/// The same with so many frames that the last ones have their entries behind the private page. Whoever
/// found those first would clear away its own before them.
#[test]
fn a_large_commit_after_a_killed_writer_with_a_private_page() {
    tell(
        "speculative_vfs::private_page::a_large_commit_after_a_killed_writer_with_a_private_page",
        || {
            let stage = Stage::new();
            let other = stage.connect();
            other.execute("UPDATE t SET n = 5 WHERE id = 2").expect("a frame to go back to");
            let rows = &MANY_ROWS.replace("x < 300", "x < 1500");
            kill_a_writer(&stage, become_private, rows);
            other.execute(rows).expect("writes");
            check(&stage, &["0", "5"]);
            assert_eq!(other.query_integer("SELECT count(*) FROM t").expect("reads"), 1502);
        },
    );
}

/// A transaction whose snapshot is too old to write is refused, for which its private page became the newest.
/// Armed, it writes on its snapshot as another would.
#[test]
fn a_fork_after_a_refused_write() {
    let stage = Stage::new();
    let (speculative, other) = (stage.connect(), stage.connect());
    become_private(&speculative);
    speculative.execute("BEGIN").expect("begins");
    assert_eq!(n(&speculative, 2), 0);
    other.execute("UPDATE t SET n = 5 WHERE id = 2").expect("commits");
    let refused = speculative.execute("UPDATE t SET n = 1 WHERE id = 1").expect_err("too old");
    assert!(refused.code.is_busy(), "{refused}");
    speculative.arm_speculation(true);
    speculative.execute("UPDATE t SET n = 10 WHERE id = 1").expect("writes on its snapshot");
    assert!(speculative.speculation_status().speculating);
    assert_eq!((n(&speculative, 1), n(&speculative, 2)), (10, 0));
    assert_eq!(speculative.promote(), Promotion::Stale);
    speculative.execute("ROLLBACK").expect("rolls back");
    speculative.arm_speculation(false);
    assert_eq!((n(&speculative, 1), n(&speculative, 2)), (0, 5));
    speculative.execute("UPDATE t SET n = 7 WHERE id = 1").expect("writes");
    check(&stage, &["7", "5"]);
}

/// How many bytes of the -shm file this process has mapped.
fn mapped(stage: &Stage) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is there");
    let name = stage.beside("shm").into_os_string().into_string().expect("a plain name");
    let ends = maps.lines().filter(|line| line.ends_with(&name)).map(|line| {
        let range = line.split(' ').next().and_then(|it| it.split_once('-')).expect("a range");
        [range.0, range.1].map(|end| usize::from_str_radix(end, 16).expect("an address"))
    });
    ends.map(|[from, to]| to - from).sum()
}

/// Who does not fork any more pays no more for the private page than a number of reads, and then none.
#[test]
fn a_page_that_is_shared_again_when_there_are_no_more_forks() {
    let stage = Stage::new();
    let (speculative, other) = (stage.connect(), stage.connect());
    let shared = mapped(&stage);
    become_private(&speculative);
    let page_bytes = shared - mapped(&stage);
    assert_eq!(page_bytes, rustix::param::page_size());
    for round in 1..=400 {
        other.execute(&format!("UPDATE t SET n = {round} WHERE id = 2")).expect("writes");
        assert_eq!(n(&speculative, 2), round);
        speculative.execute(&format!("UPDATE t SET n = {round} WHERE id = 1")).expect("writes");
        assert_eq!(n(&other, 1), round);
        // A read that meets a new commit takes its lock twice.
        if round < 60 {
            assert_eq!(mapped(&stage), shared - page_bytes, "after {round} reads and writes");
        }
    }
    assert_eq!(mapped(&stage), shared, "it is shared again");
    // Who speculates now and then keeps it.
    for _ in 0..4 {
        become_private(&speculative);
        (0..200).for_each(|_| assert_eq!(n(&speculative, 2), 400));
        assert_eq!(mapped(&stage), shared - page_bytes);
    }
    // Transactions that only read are no speculative transactions either.
    speculative.arm_speculation(true);
    (0..400).for_each(|_| speculative.execute("BEGIN; SELECT n FROM t; COMMIT").expect("reads"));
    assert_eq!(mapped(&stage), shared);
    speculative.execute("BEGIN; UPDATE t SET n = 10 WHERE id = 1").expect("writes");
    assert_eq!(speculative.promote(), Promotion::Promoted);
    speculative.execute("COMMIT").expect("commits");
    check(&stage, &["10", "400"]);
}

/// It restarts the WAL, for which it needs the shared page itself.
#[test]
fn a_promoted_commit_that_restarts_the_wal() {
    let stage = Stage::new();
    let (speculative, other) = (stage.connect(), stage.connect());
    other.execute("PRAGMA wal_checkpoint").expect("all of it");
    speculative.arm_speculation(true);
    speculative.execute("BEGIN; UPDATE t SET n = 10 WHERE id = 1").expect("writes");
    assert_eq!(speculative.promote(), Promotion::Promoted);
    speculative.execute("COMMIT").expect("commits");
    assert_eq!(n(&other, 1), 10);
    let (_, committed) = known_and_committed(&stage);
    assert!(committed < 3, "the WAL starts again: {committed}");
    check(&stage, &["10", "0"]);
}
