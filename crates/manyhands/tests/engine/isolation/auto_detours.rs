//! Ways out of the contract of mode Auto that a reader of its code has found: what a transaction that waits in vain, or whose log
//! is not complete, could lose; and reads that failed since they were predicted to write.

use std::time::Duration;

use manyhands::driver::ConnectionExt;
use manyhands::{BlobPlace, Connection, Database, TransactionMode, Value, ValueRef, params};

use super::auto_contract::{COUNT_UP, READ, SCHEMA, deferring};
use crate::stage::{Actor, SHORT, Stage, connect, execute, number};

fn open(timeout: Duration) -> (Stage, Database) {
    let stage = Stage::without_disk();
    let builder = Database::builder(stage.path()).timeout(timeout).speculation_bytes_max(1 << 20);
    let database = builder.transaction_mode(TransactionMode::Auto).open().expect("opens");
    connect(&database).execute_script(SCHEMA).expect("the schema");
    (stage, database)
}
fn writers(one: &mut Connection, read: &str) {
    for _ in 0..4 {
        execute(one, "BEGIN");
        one.query(read, params![]).expect("reads");
        execute(one, "UPDATE session SET user = user");
        execute(one, "COMMIT");
    }
}

fn detached_then(between: impl Fn(&mut Connection)) {
    let (_stage, database) = open(SHORT);
    let (mut one, mut other) = (connect(&database), connect(&database));
    execute(&mut one, "BEGIN");
    assert_eq!(number(&mut one, READ), 0);
    execute(&mut other, "BEGIN IMMEDIATE");
    one.execute(COUNT_UP, params![]).expect_err("another one writes");
    execute(&mut other, "UPDATE counter SET n = 100 WHERE id = 1");
    execute(&mut other, "COMMIT");
    between(&mut one);
    let done = one.execute("UPDATE counter SET n = 0 + 1 WHERE id = 1", params![]);
    assert!(done.is_err(), "lost update: {done:?}");
}
/// A wait in vain, then a look at the schema, which began a new snapshot: what had been read in the one before was taken for
/// read in this one, and an update of another one was lost.
#[test]
fn what_did_not_compile_after_a_wait_in_vain() {
    detached_then(|it| drop(it.query("SELECT * FROM nowhere", params![])));
}

/// The same by a PRAGMA.
#[test]
fn a_pragma_after_a_wait_in_vain() {
    detached_then(|it| drop(it.query("PRAGMA data_version", params![])));
}

/// The same by trying the statement again, as programs do.
#[test]
fn the_same_statement_after_a_wait_in_vain() {
    let (_stage, database) = open(SHORT);
    let (mut one, mut other) = (connect(&database), connect(&database));
    let set = "UPDATE counter SET n = 1 WHERE id = 1";
    execute(&mut one, "UPDATE counter SET n = 0 WHERE id = 1");
    execute(&mut one, "BEGIN");
    assert_eq!(number(&mut one, READ), 0);
    execute(&mut other, "BEGIN IMMEDIATE");
    one.execute(set, params![]).expect_err("another one writes");
    execute(&mut other, "UPDATE counter SET n = 100 WHERE id = 1");
    execute(&mut other, "COMMIT");
    let done = one.execute(set, params![]);
    assert!(done.is_err(), "lost update: {done:?}");
}

/// More is staged in a temporary table than the log may hold, and another program has the file open: the rows were gone.
#[test]
fn rows_that_are_staged_beside_another_program() {
    let (stage, database) = open(Duration::from_secs(5));
    let mut one = connect(&database);
    let mut program = Actor::sqlite(&stage.path());
    program.tell("SELECT 1 FROM session;");
    std::thread::sleep(SHORT);
    execute(&mut one, "CREATE TEMP TABLE scratch (a)");
    execute(&mut one, "BEGIN");
    number(&mut one, READ);
    for n in 0..5000 {
        one.execute("INSERT INTO scratch VALUES (?1)", params![n]).expect("inserts");
    }
    let done = one.execute("INSERT INTO event (v) SELECT a FROM scratch", params![]);
    let changes = done.expect("inserts").changes();
    execute(&mut one, "COMMIT");
    program.end();
    assert_eq!(changes, 5000);
}

/// The same where a read was predicted to write.
#[test]
fn staged_rows_and_a_prediction() {
    let (_stage, database) = open(Duration::from_secs(5));
    let mut one = connect(&database);
    writers(&mut one, READ);
    execute(&mut one, "CREATE TEMP TABLE scratch (a)");
    execute(&mut one, "BEGIN");
    execute(&mut one, "INSERT INTO scratch VALUES (1)");
    number(&mut one, "SELECT count(*) FROM entry");
    assert!(!one.serialize("main").expect("bytes").is_empty());
    number(&mut one, READ);
    execute(&mut one, "COMMIT");
    assert_eq!(number(&mut one, "SELECT count(*) FROM scratch"), 1);
}

/// The same after a wait in vain: COMMIT said success.
#[test]
fn staged_rows_and_a_commit_after_a_wait_in_vain() {
    let (_stage, database) = open(SHORT);
    let (mut one, mut other) = (connect(&database), connect(&database));
    execute(&mut one, "CREATE TEMP TABLE scratch (a)");
    execute(&mut one, "BEGIN");
    execute(&mut one, "INSERT INTO scratch VALUES (1)");
    assert!(!one.serialize("main").expect("bytes").is_empty());
    execute(&mut other, "BEGIN IMMEDIATE");
    one.execute(COUNT_UP, params![]).expect_err("waits in vain");
    execute(&mut other, "COMMIT");
    one.execute("COMMIT", params![]).expect("commits");
    assert_eq!(number(&mut one, "SELECT count(*) FROM scratch"), 1);
}

/// The same beside an attached database.
#[test]
fn staged_rows_and_an_attached_database() {
    let (stage, database) = open(Duration::from_secs(5));
    let path = stage.beside("-aux");
    let aux = Database::builder(&path).open().expect("opens");
    execute(&mut connect(&aux), "CREATE TABLE x (id INTEGER PRIMARY KEY, b)");
    let mut one = connect(&database);
    execute(&mut one, &format!("ATTACH '{}' AS aux", path.display()));
    execute(&mut one, "CREATE TEMP TABLE scratch (a)");
    execute(&mut one, "BEGIN");
    number(&mut one, READ);
    for n in 0..5000 {
        one.execute("INSERT INTO scratch VALUES (?1)", params![n]).expect("inserts");
    }
    execute(&mut one, COUNT_UP);
    execute(&mut one, "COMMIT");
    assert_eq!(number(&mut one, "SELECT count(*) FROM scratch"), 5000);
}

/// A savepoint was gone with the log that had it.
#[test]
fn a_savepoint_of_an_incomplete_log() {
    let (stage, database) = open(Duration::from_secs(5));
    let mut one = connect(&database);
    let mut program = Actor::sqlite(&stage.path());
    program.tell("SELECT 1 FROM session;");
    std::thread::sleep(SHORT);
    execute(&mut one, "BEGIN");
    execute(&mut one, "SAVEPOINT s");
    number(&mut one, READ);
    assert!(!one.serialize("main").expect("bytes").is_empty());
    execute(&mut one, COUNT_UP);
    let back = one.execute("ROLLBACK TO s", params![]);
    program.end();
    back.expect("there is a savepoint");
}

/// A read that was predicted to write failed, in a transaction whose log is not complete.
#[test]
fn an_incomplete_log_and_a_prediction() {
    let (_stage, database) = open(Duration::from_secs(5));
    let (mut one, mut other) = (connect(&database), connect(&database));
    writers(&mut one, READ);
    execute(&mut one, "BEGIN");
    number(&mut one, "SELECT count(*) FROM entry");
    assert!(!one.serialize("main").expect("bytes").is_empty());
    execute(&mut other, "UPDATE counter SET n = 7 WHERE id = 1");
    let read = one.query(READ, params![]);
    let n: i64 = read.expect("it only reads")[0].get(0).expect("a number");
    assert_eq!(n, 0);
}

/// A function of the application over a temporary table, then a write: it failed though nobody had written.
#[test]
fn a_function_of_staged_rows() {
    let (_stage, database) = open(Duration::from_secs(5));
    let mut one = connect(&database);
    let twice = |it: &[ValueRef<'_>]| match it {
        [ValueRef::Integer(n)] => Ok(Value::Integer(n * 2)),
        _ => Ok(Value::Null),
    };
    one.create_function("twice", Some(1), true, twice).expect("a function");
    execute(&mut one, "CREATE TEMP TABLE scratch (a)");
    execute(&mut one, "INSERT INTO scratch VALUES (1)");
    execute(&mut one, "BEGIN");
    assert_eq!(number(&mut one, "SELECT twice(a) FROM scratch"), 2);
    one.execute(COUNT_UP, params![]).expect("nobody else is there");
    execute(&mut one, "COMMIT");
}

/// Another program holds SQLite's lock: a read that was predicted to write failed.
#[test]
fn a_prediction_beside_an_external_writer() {
    let (stage, database) = open(SHORT);
    let mut one = connect(&database);
    for round in 0..8 {
        execute(&mut one, "BEGIN");
        number(&mut one, "SELECT count(*) FROM session WHERE user = 'a'");
        if round % 2 == 0 {
            number(&mut one, READ);
            execute(&mut one, COUNT_UP);
        }
        execute(&mut one, "COMMIT");
    }
    let mut program = Actor::sqlite(&stage.path());
    program.tell("BEGIN IMMEDIATE; UPDATE session SET user = 'b';");
    std::thread::sleep(SHORT);
    execute(&mut one, "BEGIN");
    number(&mut one, "SELECT count(*) FROM session WHERE user = 'a'");
    let read = one.query(READ, params![]);
    let again = one.query("SELECT count(*) FROM entry", params![]);
    program.end();
    read.expect("it only reads");
    again.expect("it only reads");
}

/// A large cursor is open: a read that was predicted to write failed.
#[test]
fn a_large_cursor_and_a_prediction() {
    let (_stage, database) = open(Duration::from_secs(5));
    let mut one = connect(&database);
    execute(&mut one, "CREATE TABLE big (a, b)");
    execute(
        &mut one,
        "WITH c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 30000)
         INSERT INTO big SELECT x, zeroblob(1000) FROM c",
    );
    writers(&mut one, READ);
    execute(&mut one, "BEGIN");
    let mut cursor = one.cursor("SELECT * FROM big", params![]).expect("opens");
    cursor.next_row().expect("a row");
    one.query(READ, params![]).expect("it only reads");
    drop(cursor);
}

/// What a blob showed of an attached database had changed there: an update was lost.
#[test]
fn a_blob_of_an_attached_database() {
    for by_blob in [true, false] {
        let (stage, database) = open(Duration::from_secs(5));
        let path = stage.beside("-aux");
        let aux = Database::builder(&path).open().expect("opens");
        let mut there = connect(&aux);
        execute(&mut there, "CREATE TABLE x (id INTEGER PRIMARY KEY, b)");
        execute(&mut there, "INSERT INTO x VALUES (1, x'00')");
        let mut one = connect(&database);
        execute(&mut one, &format!("ATTACH '{}' AS aux", path.display()));
        execute(&mut one, "BEGIN");
        if by_blob {
            let place =
                BlobPlace { schema: "aux".into(), table: "x".into(), column: "b".into(), rowid: 1 };
            let mut blob = one.open_blob(&place, false).expect("opens");
            let mut byte = [1];
            blob.read_at(&mut byte, 0).expect("reads");
            assert_eq!(byte, [0]);
            blob.close().expect("closes");
        } else {
            assert!(!one.serialize("aux").expect("bytes").is_empty());
        }
        execute(&mut there, "UPDATE x SET b = x'07'");
        number(&mut one, READ);
        let done = one.execute("UPDATE aux.x SET b = x'01'", params![]);
        assert!(done.is_err(), "lost update by_blob={by_blob}: {done:?}");
    }
}

/// A deferred INSERT fires a trigger that was made meanwhile: that this wrote another table was not noted, and an update lost.
#[test]
fn a_trigger_that_was_made_meanwhile() {
    let (_stage, database) = open(Duration::from_secs(5));
    let (mut a, mut b, mut c) = (deferring(&database), connect(&database), connect(&database));
    for _ in 0..3 {
        execute(&mut a, "BEGIN");
        a.execute("INSERT INTO event (v) VALUES (?1)", params![1]).expect("inserts");
        execute(&mut a, "COMMIT");
    }
    execute(&mut a, "BEGIN");
    let outcome = a.execute("INSERT INTO event (v) VALUES (?1)", params![1]).expect("inserts");
    assert!(!a.holds_turn(), "deferred");
    execute(
        &mut b,
        "CREATE TRIGGER tr AFTER INSERT ON event BEGIN
             UPDATE counter SET n = n + 1 WHERE id = 1; END",
    );
    for _ in 0..3 {
        c.query(READ, params![]).expect("reads");
    }
    execute(&mut c, "BEGIN");
    let n = number(&mut c, READ);
    let n = n + number(&mut c, READ) - number(&mut c, READ);
    a.last_insert_rowid_of(&outcome).expect("the turn");
    assert!(a.holds_turn());
    execute(&mut a, "COMMIT");
    assert_eq!(number(&mut b, READ), n + 1);
    let done = c.execute("UPDATE counter SET n = ?1 WHERE id = 1", params![n + 10]);
    assert!(done.is_err(), "lost update {done:?}");
}

/// ROLLBACK of a deferred write that does not fit into memory failed.
#[test]
fn a_rollback_of_much() {
    let (_stage, database) = open(Duration::from_secs(5));
    let mut one = deferring(&database);
    execute(&mut one, "CREATE TABLE big (a, b)");
    execute(
        &mut one,
        "WITH c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 60000)
         INSERT INTO big SELECT x, zeroblob(1000) FROM c",
    );
    execute(&mut one, "BEGIN");
    one.execute("UPDATE big SET a = ?1", params![7]).expect("deferred");
    let done = one.execute("ROLLBACK", params![]);
    done.expect("rolls back");
    assert!(one.is_autocommit());
}

/// A function of the application makes another value when it is called again, and that was read: this is a conflict.
#[test]
fn another_value_in_the_same_snapshot() {
    let (stage, database) = open(Duration::from_secs(5));
    let path = stage.beside("-aux");
    let aux = Database::builder(&path).open().expect("opens");
    execute(&mut connect(&aux), "CREATE TABLE x (id INTEGER PRIMARY KEY, b)");
    let mut one = connect(&database);
    let calls = std::sync::atomic::AtomicI64::new(0);
    let next = move |_: &[ValueRef<'_>]| {
        Ok(Value::Integer(calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1))
    };
    one.create_function("next", Some(0), false, next).expect("a function");
    execute(&mut one, &format!("ATTACH '{}' AS aux", path.display()));
    execute(&mut one, "BEGIN CONCURRENT");
    execute(&mut one, "UPDATE counter SET n = next() WHERE id = 1");
    let seen = number(&mut one, READ);
    let moved = one.execute("INSERT INTO aux.x VALUES (1, 1)", params![]);
    if moved.is_ok() {
        execute(&mut one, "COMMIT");
        assert_eq!(number(&mut one, READ), seen);
    }
}

/// The clock stood still in a transaction that read.
#[test]
fn the_clock_goes_on() {
    let (_stage, database) = open(Duration::from_secs(5));
    let mut one = deferring(&database);
    execute(&mut one, "BEGIN");
    let real = || {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("now").as_secs()
            as i64
    };
    std::thread::sleep(Duration::from_secs(3));
    let now = number(&mut one, "SELECT CAST(strftime('%s', 'now') AS INTEGER)");
    let late = real() - now;
    execute(&mut one, "INSERT INTO event (v) VALUES (strftime('%s', 'now'))");
    let inserted = real();
    execute(&mut one, "COMMIT");
    let then = number(&mut one, "SELECT CAST(v AS INTEGER) FROM event");
    assert!(late < 2 && inserted - then < 2);
}

/// A deferred write fails, since another one has changed the schema: the transaction ended there, and what followed was
/// executed alone.
#[test]
fn a_deferred_write_that_does_not_fit_any_more() {
    let (_stage, database) = open(Duration::from_secs(5));
    let (mut a, mut b) = (deferring(&database), connect(&database));
    execute(&mut a, "BEGIN");
    a.execute("INSERT INTO event (v) VALUES (?1)", params![1]).expect("is deferred");
    assert!(!a.holds_turn());
    execute(&mut b, "ALTER TABLE event RENAME TO happening");
    let error = a.query(READ, params![]).expect_err("what was deferred fails");
    assert!(error.to_string().contains("no such table"), "{error}");
    for refused in ["INSERT INTO entry VALUES (1, 'alone')", READ, "COMMIT"] {
        assert!(a.execute(refused, params![]).is_err(), "{refused}");
        assert!(!a.is_autocommit(), "{refused}");
    }
    execute(&mut a, "ROLLBACK");
    assert_eq!(number(&mut b, "SELECT count(*) FROM entry"), 0);
}

/// A large cursor is open, and another program has the file open: the first write failed.
#[test]
fn a_large_cursor_beside_an_idle_program() {
    let (stage, database) = open(Duration::from_secs(5));
    let mut one = connect(&database);
    execute(&mut one, "CREATE TABLE big (a, b)");
    execute(
        &mut one,
        "WITH c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 30000)
         INSERT INTO big SELECT x, zeroblob(1000) FROM c",
    );
    let mut program = Actor::sqlite(&stage.path());
    program.tell("SELECT 1 FROM session;");
    std::thread::sleep(SHORT);
    execute(&mut one, "BEGIN");
    let mut cursor = one.cursor("SELECT * FROM big", params![]).expect("opens");
    cursor.next_row().expect("a row");
    let done = one.execute(COUNT_UP, params![]);
    program.end();
    done.expect("nobody else writes");
    drop(cursor);
}

/// Deferred, asked for in vain, and committed.
#[test]
fn deferred_writes_asked_for_in_vain() {
    let (_stage, database) = open(SHORT);
    let (mut one, mut other) = (deferring(&database), connect(&database));
    execute(&mut one, "BEGIN");
    let first =
        one.execute("UPDATE counter SET n = n + 1 WHERE id > 0", params![]).expect("deferred");
    execute(&mut other, "BEGIN IMMEDIATE");
    one.changes_of(&first).expect_err("another one writes");
    execute(&mut one, "INSERT INTO event (v) VALUES (2)");
    drop(one.query("SELECT * FROM nowhere", params![]));
    drop(one.query("PRAGMA data_version", params![]));
    execute(&mut other, "UPDATE counter SET n = n + 10");
    execute(&mut other, "COMMIT");
    execute(&mut one, "COMMIT");
    assert_eq!(number(&mut other, "SELECT sum(n) FROM counter"), 22);
    assert_eq!(number(&mut other, "SELECT count(*) FROM event"), 1);
    assert_eq!(first.changes(), 2);
    // Rolled back.
    execute(&mut one, "BEGIN");
    let first =
        one.execute("UPDATE counter SET n = n + 1 WHERE id > 0", params![]).expect("deferred");
    execute(&mut other, "BEGIN IMMEDIATE");
    one.changes_of(&first).expect_err("another one writes");
    execute(&mut one, "ROLLBACK");
    execute(&mut other, "COMMIT");
}

/// A savepoint was rolled back before the turn came.
#[test]
fn reads_that_were_rolled_back() {
    let (_stage, database) = open(SHORT);
    let (mut one, mut other) = (deferring(&database), connect(&database));
    execute(&mut one, "CREATE TEMP TABLE scratch (a)");
    execute(&mut one, "SAVEPOINT a");
    execute(&mut one, "INSERT INTO scratch VALUES (1)");
    execute(&mut one, "SAVEPOINT b");
    execute(&mut one, "INSERT INTO scratch VALUES (2)");
    number(&mut one, READ);
    execute(&mut other, "BEGIN IMMEDIATE");
    one.execute(COUNT_UP, params![]).expect_err("waits");
    execute(&mut one, "ROLLBACK TO b");
    execute(&mut one, "RELEASE b");
    one.execute("ROLLBACK TO nosuch", params![]).expect_err("none");
    execute(&mut other, "ROLLBACK");
    execute(&mut one, "INSERT INTO scratch VALUES (3)");
    execute(&mut one, COUNT_UP);
    execute(&mut one, "RELEASE a");
    assert!(one.is_autocommit());
    assert_eq!(number(&mut one, "SELECT sum(a) FROM scratch"), 4);
    assert_eq!(number(&mut one, READ), 1);
}

/// A batch in a transaction, that waits in vain in the middle.
#[test]
fn a_batch_in_a_transaction_that_waits_in_vain() {
    let (_stage, database) = open(SHORT);
    let (mut one, mut other) = (deferring(&database), connect(&database));
    execute(&mut one, "BEGIN");
    execute(&mut one, "INSERT INTO event (v) VALUES (1)");
    execute(&mut other, "BEGIN IMMEDIATE");
    one.batch(&[
        ("INSERT INTO event (v) VALUES (2)", params![]),
        ("INSERT INTO entry VALUES (1, 'x')", params![]),
    ])
    .expect_err("waits");
    assert!(!one.is_autocommit());
    execute(&mut other, "COMMIT");
    one.batch(&[
        ("INSERT INTO event (v) VALUES (3)", params![]),
        ("INSERT INTO event (v) VALUES (4)", params![]),
    ])
    .expect("batch");
    execute(&mut one, "COMMIT");
    assert_eq!(number(&mut other, "SELECT group_concat(v) = '1,3,4' FROM event"), 1);
    assert_eq!(number(&mut other, "SELECT count(*) FROM entry"), 0);
}

/// All reads of a transaction that came too late were learnt from, and not the one that had changed, if its text ended in a
/// comment or in white space: readers that begin with the same statement then took turns.
#[test]
fn which_read_has_changed_is_known_by_its_text() {
    for end in ["", " ", "; -- counted"] {
        let (_stage, database) = open(SHORT);
        let (mut one, mut other) = (connect(&database), connect(&database));
        let session = "SELECT count(*) FROM session";
        for _ in 0..4 {
            execute(&mut one, "BEGIN");
            number(&mut one, session);
            execute(&mut one, "COMMIT");
        }
        execute(&mut one, "BEGIN");
        number(&mut one, session);
        assert_eq!(number(&mut one, &format!("{READ}{end}")), 0);
        execute(&mut other, COUNT_UP);
        one.execute("UPDATE counter SET n = 1 WHERE id = 1", params![]).expect_err("is stale");
        execute(&mut one, "ROLLBACK");
        execute(&mut one, "BEGIN");
        number(&mut one, session);
        assert!(!one.holds_turn(), "{end:?}");
        number(&mut one, &format!("{READ}{end}"));
        assert!(one.holds_turn(), "{end:?}");
        execute(&mut one, "ROLLBACK");
    }
}

/// A database that is attached to itself: a write timed out, since the transaction wanted to lock the file twice.
#[test]
fn a_database_that_is_attached_to_itself() {
    let (stage, database) = open(SHORT);
    let mut one = connect(&database);
    execute(&mut one, &format!("ATTACH '{}' AS again", stage.path().display()));
    execute(&mut one, "BEGIN");
    assert_eq!(number(&mut one, READ), 0);
    execute(&mut one, COUNT_UP);
    // As in SQLite: the other one is another connection to the file.
    one.execute("UPDATE again.counter SET n = 5", params![]).expect_err("is locked");
    execute(&mut one, "COMMIT");
    execute(&mut one, "BEGIN");
    execute(&mut one, "UPDATE again.counter SET n = n + 1 WHERE id = 1");
    execute(&mut one, "COMMIT");
    assert_eq!(number(&mut one, READ), 2);
}

/// What did not compile before the snapshot began was compared when the transaction wrote.
#[test]
fn what_did_not_compile_before_the_snapshot() {
    let (_stage, database) = open(SHORT);
    let (mut one, mut other) = (connect(&database), connect(&database));
    execute(&mut one, "BEGIN");
    one.query("SELECT * FROM later", params![]).expect_err("no such table");
    execute(&mut other, "CREATE TABLE later (a)");
    execute(&mut one, COUNT_UP);
    execute(&mut one, "COMMIT");
}
