//! Transactions that are too large for a fork: they move to their turn, keep their memory, and are not
//! executed twice if nobody else writes.

use manyhands::params;

use crate::stage::{Stage, connect, in_time, shell};

/// What this process holds in memory, in bytes.
fn memory_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a figure");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

/// The part of an actor of its own, whose memory nobody else uses: 1,000,000 rows in one transaction, by
/// single statements. The log of a fork would take hundreds of megabytes.
pub fn load(path: &std::path::Path) {
    let database = manyhands::Database::open(path).expect("opens");
    let mut connection = connect(&database);
    connection
        .execute("CREATE TABLE row (id INTEGER PRIMARY KEY, text TEXT)", params![])
        .expect("DDL");
    let mut transaction = connection.transaction().expect("begins");
    let insert = "INSERT INTO row VALUES (?1, ?2)";
    let text = "some text of sixty bytes, that is neither long nor very short";
    let mut before = 0;
    for id in 0..1_000_000 {
        transaction.execute(insert, params![id, text]).expect("inserts");
        if id == 300_000 {
            before = memory_bytes();
        }
    }
    let grown = memory_bytes().saturating_sub(before);
    transaction.commit().expect("commits");
    let statistics = database.statistics().expect("a queue");
    let [escalations, replays] = [statistics.escalations, statistics.replays];
    assert_eq!((escalations, replays), (1, 0), "{statistics:?}");
    assert!(grown < 4 << 20, "{grown} bytes more for 700,000 rows");
    assert!(memory_bytes() < 64 << 20, "{} bytes", memory_bytes());
    crate::stage::say("loaded");
}

/// A bulk load.
#[test]
fn a_million_rows_in_one_transaction() {
    in_time(|| {
        let stage = Stage::new();
        let actor = crate::stage::Actor::start("load", &stage.path());
        assert_eq!(actor.hear(), "loaded");
        assert!(actor.end().success());
        assert_eq!(
            shell(&stage.path(), "SELECT count(*), sum(id) FROM row"),
            "1000000|499999500000"
        );
    });
}

/// One statement that writes more than a fork may hold: it is executed again, in the turn, after what
/// was before it in the transaction.
#[test]
fn a_statement_that_overflows_the_fork() {
    in_time(|| {
        let stage = Stage::new();
        let database = manyhands::Database::builder(stage.path())
            .speculation_bytes_max(1 << 20)
            .open()
            .expect("opens");
        let (mut one, mut other) = (connect(&database), connect(&database));
        one.execute("CREATE TABLE row (id INTEGER PRIMARY KEY, text TEXT)", params![])
            .expect("DDL");
        one.execute("INSERT INTO row VALUES (0, 'before')", params![]).expect("inserts");
        let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50000)
                    INSERT INTO row SELECT i + ?1, hex(zeroblob(40)) FROM n";

        let mut transaction = one.transaction().expect("begins");
        let seen =
            transaction.query("SELECT text FROM row WHERE id = 0", params![]).expect("reads");
        assert_eq!(seen[0].get::<String>(0).expect("text"), "before");
        let done = transaction.execute(many, params![10]).expect("moves to its turn");
        assert_eq!(done.changes(), 50_000);
        transaction.commit().expect("commits");
        assert_eq!(database.statistics().expect("a queue").escalations, 1);

        // What it saw before is no longer so: it learns it now, and not at its commit.
        let mut transaction = one.transaction().expect("begins");
        transaction.query("SELECT text FROM row WHERE id = 0", params![]).expect("reads");
        transaction.execute("INSERT INTO row VALUES (-1, 'mine')", params![]).expect("inserts");
        other.execute("UPDATE row SET text = 'after' WHERE id = 0", params![]).expect("updates");
        let error = transaction.execute(many, params![100_000]).expect_err("a conflict");
        assert!(error.is_conflict(), "{error}");
        drop(transaction);
        assert!(one.is_autocommit());
        let expected = "50001|0";
        let count = "SELECT count(*), sum(id = -1) FROM row";
        assert_eq!(shell(&stage.path(), count), expected);
        assert_eq!(shell(&stage.path(), "PRAGMA integrity_check"), "ok");
    });
}
