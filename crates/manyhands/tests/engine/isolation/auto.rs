//! [`TransactionMode::Auto`]: applications that were written for SQLite's own transactions, whose units of
//! work nobody can run again, meet no conflict.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use manyhands::driver::ConnectionExt;
use manyhands::{
    BlobPlace, Connection, Database, RowBuffer, TransactionMode, Value, ValueRef, params,
};

use super::auto_contract::deferring;
use super::story::StockShell;
use crate::stage::{Stage, connect, execute, in_time, number};

fn open(stage: &Stage, mode: TransactionMode) -> Database {
    let database = Database::builder(stage.path()).transaction_mode(mode).open().expect("opens");
    connect(&database)
        .execute_script(
            "CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY, n);
             INSERT OR IGNORE INTO counter VALUES (1, 0);
             CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY, text UNIQUE);
             CREATE TABLE IF NOT EXISTS log (id INTEGER PRIMARY KEY, text);",
        )
        .expect("the schema");
    database
}

fn auto() -> (Stage, Database) {
    let stage = Stage::without_disk();
    let database = open(&stage, TransactionMode::Auto);
    (stage, database)
}

/// The plainest way to lose: many read, compute, and write what they read, in plain transactions. None of them fails, once
/// one of them has shown what they do.
#[test]
fn read_modify_write_never_fails() {
    in_time(|| {
        let (_stage, database) = auto();
        let mut first = connect(&database);
        execute(&mut first, "BEGIN");
        number(&mut first, "SELECT n FROM counter WHERE id = 1");
        execute(&mut first, "UPDATE counter SET n = 0 WHERE id = 1");
        execute(&mut first, "COMMIT");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut connection = connect(&database);
                    for _ in 0..50 {
                        execute(&mut connection, "BEGIN");
                        let n = number(&mut connection, "SELECT n FROM counter WHERE id = 1");
                        std::thread::yield_now();
                        let update = "UPDATE counter SET n = ?1 WHERE id = 1";
                        connection.execute(update, params![n + 1]).expect("writes");
                        execute(&mut connection, "COMMIT");
                    }
                });
            }
        });
        assert_eq!(number(&mut connect(&database), "SELECT n FROM counter"), 400);
        let statistics = database.statistics().expect("it has a queue");
        assert_eq!(statistics.conflicts, 0);
    });
}

/// Who only writes what cannot fail holds no turn: two transactions are open at once, in one thread, and both commit.
#[test]
fn who_only_writes_waits_for_nobody() {
    let (_stage, database) = auto();
    let (mut one, mut other) = (deferring(&database), deferring(&database));
    for connection in [&mut one, &mut other] {
        execute(connection, "BEGIN");
        execute(connection, "UPDATE counter SET n = n + 1");
        execute(connection, "INSERT INTO log (text) VALUES (NULL)");
        assert!(!connection.holds_turn());
    }
    execute(&mut one, "COMMIT");
    execute(&mut other, "COMMIT");
    assert_eq!(number(&mut one, "SELECT n FROM counter"), 2);
    assert_eq!(number(&mut one, "SELECT count(*) FROM log"), 2);
}

/// Who loads in bulk goes on in its turn, if nobody is in the way; if somebody is, it goes on as it was.
#[test]
fn a_bulk_load_takes_its_turn() {
    let (_stage, database) = auto();
    let (mut one, mut other) = (deferring(&database), deferring(&database));
    let load = |connection: &mut Connection| {
        execute(connection, "BEGIN");
        for n in 0..200 {
            connection.execute("INSERT INTO log (text) VALUES (?1)", params![n]).expect("writes");
        }
    };
    load(&mut one);
    assert!(one.holds_turn());
    load(&mut other);
    assert!(!other.holds_turn());
    execute(&mut one, "COMMIT");
    execute(&mut other, "COMMIT");
    assert_eq!(number(&mut one, "SELECT count(*) FROM log"), 400);
}

/// After a write of its own, it holds its turn from the moment that it would see what could change.
#[test]
fn who_looks_holds_the_turn() {
    fn check(what: &str, look: impl FnOnce(&mut Connection)) {
        let (_stage, database) = auto();
        let mut connection = deferring(&database);
        execute(&mut connection, "BEGIN");
        execute(&mut connection, "INSERT INTO log (text) VALUES ('a')");
        execute(&mut connection, "INSERT INTO log (text) VALUES ('a')");
        execute(&mut connection, "ROLLBACK");
        execute(&mut connection, "BEGIN");
        execute(&mut connection, "INSERT INTO log (text) VALUES ('a')");
        assert!(!connection.holds_turn(), "{what}: too early");
        look(&mut connection);
        assert!(connection.holds_turn(), "{what}");
        execute(&mut connection, "COMMIT");
        assert!(!connection.holds_turn(), "{what}: for too long");
    }
    check("a row", |it| assert_eq!(number(it, "SELECT n FROM counter"), 0));
    check("RETURNING", |it| {
        assert_eq!(number(it, "INSERT INTO entry (text) VALUES ('b') RETURNING 7"), 7);
    });
    check("a cursor", |it| drop(it.cursor("SELECT * FROM entry", params![]).expect("opens")));
    check("a schema", |it| drop(it.query("PRAGMA table_info(entry)", params![]).expect("reads")));
    check("an error", |it| {
        execute(it, "INSERT INTO entry VALUES (1, 'b')");
        let error = it.execute("INSERT INTO entry VALUES (1, 'c')", params![]);
        assert!(error.expect_err("1 is there").is_constraint());
    });
    check("a new id", |it| {
        let inserted = it.execute("INSERT INTO log (text) VALUES ('a')", params![]);
        let id = it.last_insert_rowid_of(&inserted.expect("writes")).expect("its turn");
        assert_eq!(id, 2);
    });
    check("a value in pieces", |it| {
        let (schema, table, column) = ("main".into(), "log".into(), "text".into());
        it.open_blob(&BlobPlace { schema, table, column, rowid: 1 }, false).expect("opens");
    });
    check("a count", |it| {
        let updated = it.execute("UPDATE counter SET n = 5", params![]).expect("writes");
        assert_eq!(it.changes_of(&updated).expect("its turn"), 1);
    });
    check("all counts", |it| {
        it.execute_deferred_in_turn().expect("its turn");
        // What was rolled back has been counted, too.
        assert_eq!(it.total_changes(), 3);
    });
}

/// What says nothing of the database may be looked at, and so may the count of an INSERT of one row.
#[test]
fn what_cannot_change_may_be_seen() {
    let (_stage, database) = auto();
    let mut connection = deferring(&database);
    execute(&mut connection, "BEGIN");
    assert_eq!(number(&mut connection, "SELECT 1 + 1"), 2);
    execute(&mut connection, "PRAGMA foreign_keys");
    let inserted = connection.execute("INSERT INTO log (text) VALUES (?1)", params!["a"]);
    let inserted = inserted.expect("inserts");
    assert_eq!(connection.changes_of(&inserted).expect("is known"), 1);
    assert!(!connection.holds_turn());
    execute(&mut connect(&database), "INSERT INTO log (text) VALUES ('b')");
    execute(&mut connection, "COMMIT");
    // It has the id that its row got where it took effect.
    assert_eq!(inserted.last_insert_rowid(), 2);
    assert_eq!(number(&mut connection, "SELECT id FROM log WHERE text = 'a'"), 2);
}

/// A deferred foreign key fails at COMMIT, and the transaction can be mended.
#[test]
fn a_deferred_violation_can_be_mended() {
    let (_stage, database) = auto();
    let mut connection = connect(&database);
    connection
        .execute_script(
            "PRAGMA foreign_keys = ON;
             CREATE TABLE child (of REFERENCES entry (id) DEFERRABLE INITIALLY DEFERRED);
             BEGIN; INSERT INTO child VALUES (9)",
        )
        .expect("begins");
    connection.execute("COMMIT", params![]).expect_err("9 is missing");
    assert!(connection.holds_turn() && !connection.is_autocommit());
    execute(&mut connection, "INSERT INTO entry (id) VALUES (9)");
    execute(&mut connection, "COMMIT");
    assert_eq!(number(&mut connection, "SELECT count(*) FROM child"), 1);
}

/// An application's function may do what must not be done twice.
#[test]
fn functions_are_called_once() {
    let (_stage, database) = auto();
    let calls = Arc::new(AtomicI64::new(0));
    let mut connection = connect(&database);
    let counted = Arc::clone(&calls);
    let call =
        move |_: &[ValueRef<'_>]| Ok(Value::Integer(counted.fetch_add(1, Ordering::Relaxed)));
    connection.create_function("called", Some(0), false, call).expect("a function");
    execute(&mut connection, "BEGIN");
    execute(&mut connection, "UPDATE counter SET n = called()");
    assert!(connection.holds_turn());
    execute(&mut connection, "COMMIT");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

/// BEGIN CONCURRENT says that conflicts are welcome; so does `transaction()`.
#[test]
fn optimism_can_be_asked_for() {
    let (_stage, database) = auto();
    let mut one = connect(&database);
    for begin in ["BEGIN CONCURRENT", ""] {
        if begin.is_empty() {
            core::mem::forget(one.transaction().expect("begins"));
        } else {
            execute(&mut one, begin);
        }
        let n = number(&mut one, "SELECT n FROM counter");
        assert!(!one.holds_turn());
        execute(&mut connect(&database), "UPDATE counter SET n = n + 1");
        one.execute("UPDATE counter SET n = ?1", params![n + 1]).expect("writes");
        assert!(one.execute("COMMIT", params![]).expect_err("it changed").is_conflict());
    }
}

/// In mode Immediate a plain BEGIN takes the turn.
#[test]
fn a_plain_begin_may_hold_the_turn() {
    let stage = Stage::without_disk();
    let mut connection = connect(&open(&stage, TransactionMode::Immediate));
    execute(&mut connection, "BEGIN");
    assert!(connection.holds_turn());
    execute(&mut connection, "COMMIT");
    execute(&mut connection, "BEGIN CONCURRENT");
    assert!(!connection.holds_turn());
    execute(&mut connection, "ROLLBACK");
}

/// A timeout of 0 is SQLite's own: nobody waits, and the first write of a transaction has the lock or fails.
#[test]
fn without_a_timeout_nobody_waits() {
    let stage = Stage::without_disk();
    open(&stage, TransactionMode::Auto);
    let builder = Database::builder(stage.path()).timeout(Duration::ZERO);
    let database = builder.transaction_mode(TransactionMode::Auto).open().expect("opens");
    let (mut one, mut other) = (connect(&database), connect(&database));
    execute(&mut one, "BEGIN");
    execute(&mut other, "BEGIN");
    execute(&mut one, "UPDATE counter SET n = n + 1");
    // Compiled now, and found again below.
    other.parameter_names("UPDATE counter SET n = n + 1").expect("compiles");
    for refused in ["UPDATE counter SET n = n + 1", "INSERT INTO entry (text) VALUES ('a')"] {
        let error = other.execute(refused, params![]).expect_err("one writes");
        assert!(error.is_timeout(), "{error}");
        assert!(error.to_string().starts_with("database is locked"), "{error}");
    }
    execute(&mut one, "COMMIT");
    // Who could not write has seen nothing yet.
    assert_eq!(number(&mut other, "SELECT n FROM counter"), 1);
    execute(&mut other, "ROLLBACK");
    execute(&mut other, "UPDATE counter SET n = n + 1");
    assert_eq!(number(&mut one, "SELECT n FROM counter"), 2);
}

/// A wait asks the application whether to go on: an interpreter's Ctrl-C must end it.
#[test]
fn a_wait_asks_whether_to_go_on() {
    in_time(|| {
        let (_stage, database) = auto();
        let (mut one, mut other) = (connect(&database), connect(&database));
        execute(&mut one, "BEGIN IMMEDIATE");
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        other.check_while_waiting(move || count.fetch_add(1, Ordering::Relaxed) % 3 == 2);
        for write in ["UPDATE counter SET n = 1", "BEGIN IMMEDIATE", "CREATE TABLE t (a)"] {
            let error = other.execute(write, params![]).expect_err("it was to end");
            assert!(error.is_interrupt(), "{error}");
        }
        assert!(asked.load(Ordering::Relaxed) >= 9);
        execute(&mut one, "COMMIT");
        execute(&mut other, "UPDATE counter SET n = 1");
    });
}

/// A lock of another SQLite program is waited for in SQLite's own way, and asks too.
#[test]
fn a_wait_for_another_program_asks_too() {
    in_time(|| {
        let (stage, database) = auto();
        let mut shell = StockShell::start(&stage.path());
        shell.ask("BEGIN IMMEDIATE");
        shell.answer();
        let mut connection = connect(&database);
        connection.check_while_waiting(|| true);
        for write in ["UPDATE counter SET n = 1", "BEGIN IMMEDIATE"] {
            let error = connection.execute(write, params![]).expect_err("it was to end");
            assert!(error.is_interrupt(), "{error}");
        }
        shell.ask("COMMIT");
        shell.answer();
    });
}

/// `start` tells the columns of every statement, and gives the rows of any kind of it.
#[test]
fn any_statement_can_be_started() {
    let (_stage, database) = auto();
    let mut connection = connect(&database);
    let mut check = |sql: &str, columns: &[&str], expected: &[i64]| {
        let execution = connection.start(sql, params![]).expect(sql);
        assert_eq!(&*execution.columns, columns, "{sql}");
        assert_eq!(execution.rows.is_some(), !columns.is_empty(), "{sql}");
        let (mut buffer, mut found) = (RowBuffer::default(), Vec::new());
        if let Some(mut rows) = execution.rows {
            while rows.fetch(&mut buffer, 2).expect(sql) > 0 {}
        }
        for row in 0..buffer.rows() {
            let ValueRef::Integer(number) = buffer.value(row, 0) else { panic!("{sql}") };
            found.push(number);
        }
        assert_eq!(found, expected, "{sql}");
        assert_eq!(buffer.value(buffer.rows(), 0), ValueRef::Null);
        assert_eq!(buffer.value(0, 99), ValueRef::Null);
    };
    check("", &[], &[]);
    check(" -- nothing", &[], &[]);
    check("SELECT n, 'x' AS x FROM counter WHERE 0", &["n", "x"], &[]);
    check("VALUES (1), (2), (3)", &["column1"], &[1, 2, 3]);
    check("UPDATE counter SET n = 4", &[], &[]);
    check("UPDATE counter SET n = n + 1 RETURNING n", &["n"], &[5]);
    check("PRAGMA user_version", &["user_version"], &[0]);
    check("CREATE TEMP TABLE scratch (a)", &[], &[]);
    check("INSERT INTO scratch VALUES (7) RETURNING a", &["a"], &[7]);
    check("SELECT a FROM scratch", &["a"], &[7]);
    check("BEGIN", &[], &[]);
    check("SELECT n FROM counter", &["n"], &[5]);
    check("COMMIT", &[], &[]);
}

/// A statement that failed ran again in the transaction's turn. If it was OR FAIL, the rows that it had
/// kept before its failure were still there: they were there twice, or collided with themselves.
#[test]
fn a_statement_that_keeps_its_part_keeps_it_once() {
    let (_stage, database) = auto();
    let mut connection = connect(&database);
    execute(&mut connection, "CREATE TABLE part (n CHECK (n < 3))");
    for reads in [false, true] {
        execute(&mut connection, "BEGIN");
        if reads {
            number(&mut connection, "SELECT count(*) FROM part");
        }
        execute(&mut connection, "INSERT INTO part VALUES (-1)");
        let sql = "INSERT OR FAIL INTO part VALUES (1), (2), (3), (4)";
        let error = connection.execute(sql, params![]).expect_err("the third violates the CHECK");
        assert!(error.is_constraint(), "{error}");
        execute(&mut connection, "COMMIT");
        let rows = "SELECT json_group_array(n) = '[-1,1,2]' FROM part";
        assert_eq!(number(&mut connection, rows), 1, "reads: {reads}");
        execute(&mut connection, "DELETE FROM part");
    }
}

/// Names of parameters come with their sign.
#[test]
fn parameters_have_names() {
    let (_stage, database) = auto();
    let mut connection = connect(&database);
    let sql = "SELECT ?, :a, @b, $c, ?7";
    let names = connection.parameter_names(sql).expect("compiles");
    let expected = [None, Some(":a"), Some("@b"), Some("$c"), None, None, Some("?7")];
    assert_eq!(names.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
    assert_eq!(connection.parameter_names("-- none").expect("compiles"), []);
}
