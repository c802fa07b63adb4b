//! What [`TransactionMode::Auto`] could overlook: ways to see something without the turn, and transactions
//! that end otherwise than their caller was told.

use std::time::Duration;

use manyhands::driver::ConnectionExt;
use manyhands::{Connection, Database, Outcome, RowBuffer, TransactionMode, params};

use super::story::StockShell;
use crate::stage::{Stage, connect, execute, number};

const SCHEMA: &str = "
    CREATE TABLE counter (id INTEGER PRIMARY KEY, n); INSERT INTO counter VALUES (1, 0);
    CREATE TABLE entry (id INTEGER PRIMARY KEY, text UNIQUE);
    CREATE TABLE child (of REFERENCES entry (id) DEFERRABLE INITIALLY DEFERRED);";

fn open(mode: TransactionMode, timeout: Duration) -> (Stage, Database) {
    let stage = Stage::without_disk();
    let setup = Database::builder(stage.path()).open().expect("opens");
    connect(&setup).execute_script(SCHEMA).expect("the schema");
    let builder = Database::builder(stage.path()).timeout(timeout).foreign_keys(true);
    let database = builder.transaction_mode(mode).open().expect("opens");
    (stage, database)
}

fn auto() -> (Stage, Database) {
    open(TransactionMode::Auto, Duration::from_secs(5))
}

const COUNT_UP: &str = "UPDATE counter SET n = n + 1";

/// A setting that must wait for the turn is not lost when the turn is there.
#[test]
fn a_setting_works() {
    let (_stage, database) = auto();
    let mut connection = connect(&database);
    execute(&mut connection, "BEGIN");
    execute(&mut connection, COUNT_UP);
    execute(&mut connection, "PRAGMA recursive_triggers = ON");
    assert_eq!(number(&mut connection, "PRAGMA recursive_triggers"), 1);
    execute(&mut connection, "COMMIT");
}

/// RELEASE of the savepoint that began a transaction commits, also when the
/// transaction has moved to its turn for that.
#[test]
fn the_release_that_commits() {
    for others_write in [false, true] {
        let (_stage, database) = auto();
        let mut connection = connect(&database);
        execute(&mut connection, "SAVEPOINT s");
        if others_write {
            number(&mut connection, "SELECT count(*) FROM entry");
            execute(&mut connect(&database), COUNT_UP);
        }
        execute(&mut connection, "INSERT INTO child VALUES (9)");
        for _ in 0..2 {
            let error = connection.execute("RELEASE s", params![]).expect_err("9 is missing");
            assert!(error.is_constraint(), "{error}");
            assert!(!connection.is_autocommit(), "it can be mended");
        }
        execute(&mut connection, "INSERT INTO entry (id) VALUES (9)");
        execute(&mut connection, "RELEASE s");
        assert!(connection.is_autocommit() && !connection.holds_turn());
        assert_eq!(number(&mut connect(&database), "SELECT count(*) FROM child"), 1);
    }
}

/// An error that says nothing of the database, and comes through a cursor, is no reason to fail later.
#[test]
fn an_error_that_was_caught() {
    let (_stage, database) = auto();
    let mut connection = connect(&database);
    execute(&mut connection, "BEGIN");
    let mut cursor = connection.cursor("SELECT json('no')", params![]).expect("opens");
    cursor.next_row().expect_err("is no JSON");
    drop(cursor);
    execute(&mut connect(&database), COUNT_UP);
    execute(&mut connection, COUNT_UP);
    assert_eq!(number(&mut connection, "SELECT n FROM counter"), 2);
    execute(&mut connection, "COMMIT");
}

/// A caller that asks on after an error has seen no more than the error.
#[test]
fn asking_on_after_an_error() {
    let (_stage, database) = open(TransactionMode::Optimistic, Duration::from_secs(5));
    let mut connection = connect(&database);
    for many in [false, true] {
        execute(&mut connection, "BEGIN");
        execute(&mut connection, COUNT_UP);
        let sql = "SELECT json('no') FROM entry UNION ALL SELECT json('no')";
        let mut cursor = connection.cursor(sql, params![]).expect("opens");
        let mut buffer = RowBuffer::default();
        if many {
            cursor.fetch(&mut buffer, 10).expect_err("is no JSON");
            assert_eq!(cursor.fetch(&mut buffer, 10).expect("no more rows"), 0);
        } else {
            cursor.next_row().expect_err("is no JSON");
            assert!(cursor.next_row().expect("no more rows").is_none());
        }
        execute(&mut connect(&database), "UPDATE counter SET n = 7");
        execute(&mut connect(&database), "INSERT INTO entry (text) VALUES (random())");
        execute(&mut connection, "COMMIT");
    }
}

/// A new rowid that was looked at is the row's, or the transaction held its turn.
#[test]
fn a_rowid_that_was_looked_at() {
    fn check(insert: &str, meanwhile: &str) {
        let (_stage, database) = auto();
        let mut connection = connect(&database);
        execute(&mut connection, "BEGIN");
        let inserted: Outcome = connection.execute(insert, params![]).expect("inserts");
        let id = connection.last_insert_rowid_of(&inserted).expect("is known");
        let mut other = database.connect().expect("connects");
        if !connection.holds_turn() {
            execute(&mut other, meanwhile);
        }
        connection.execute("COMMIT", params![]).unwrap_or_else(|error| panic!("{insert}: {error}"));
        let found = format!("SELECT count(*) FROM entry WHERE text = 'a' AND id = {id}");
        assert_eq!(number(&mut connection, &found), 1, "{insert}");
    }
    let meanwhile = "INSERT INTO entry (text) VALUES ('b'), ('a')";
    check("INSERT OR IGNORE INTO entry (text) VALUES ('a')", meanwhile);
    check("INSERT INTO entry (text) VALUES ('a') ON CONFLICT DO NOTHING", meanwhile);
    check("INSERT INTO entry (text) VALUES ('a') ON CONFLICT DO UPDATE SET text = 'c'", meanwhile);
    check("INSERT OR REPLACE INTO entry (text) VALUES ('a')", meanwhile);
}

/// With no time to wait, a transaction that cannot write does not keep others from it.
#[test]
fn who_cannot_write_holds_no_turn() {
    let (_stage, database) = open(TransactionMode::Auto, Duration::ZERO);
    let (mut one, mut other) = (connect(&database), connect(&database));
    execute(&mut one, "BEGIN");
    assert_eq!(number(&mut one, "SELECT n FROM counter"), 0);
    execute(&mut other, COUNT_UP);
    let error = one.execute(COUNT_UP, params![]).expect_err("its snapshot is old");
    assert_eq!(error.code().map(|code| code.name()), Some("SQLITE_BUSY_SNAPSHOT"), "{error}");
    assert!(!one.holds_turn() && !one.is_autocommit());
    execute(&mut other, COUNT_UP);
    execute(&mut one, "ROLLBACK");
    execute(&mut one, COUNT_UP);
}

/// Waiting in vain for the turn undoes nothing: the transaction goes on where it was, as in SQLite.
#[test]
fn a_wait_in_vain() {
    fn check(what: &str, look: impl Fn(&mut Connection, &Outcome) -> bool) {
        let (_stage, database) = open(TransactionMode::Auto, Duration::from_millis(50));
        let (mut one, mut other) = (connect(&database), connect(&database));
        one.defer_writes(true);
        execute(&mut one, "BEGIN");
        execute(&mut one, "SAVEPOINT s");
        let done = one.execute(COUNT_UP, params![]).expect("writes");
        execute(&mut other, "BEGIN IMMEDIATE");
        assert!(look(&mut one, &done), "{what}: has to wait");
        assert!(!one.is_autocommit() && !one.holds_turn(), "{what}");
        execute(&mut other, "INSERT INTO entry (text) VALUES ('b')");
        execute(&mut other, "COMMIT");
        assert!(!look(&mut one, &done), "{what}: need not wait any more");
        assert!(one.holds_turn(), "{what}");
        execute(&mut one, "RELEASE s");
        execute(&mut one, "COMMIT");
        assert!(!one.holds_turn(), "{what}");
        assert_eq!(number(&mut other, "SELECT n FROM counter"), 1, "{what}");
    }
    check("a row", |it, _| it.query("SELECT n FROM counter", params![]).is_err());
    check("a cursor", |it, _| it.cursor("SELECT n FROM counter", params![]).is_err());
    check("row by row", |it, _| {
        it.query_each("SELECT n FROM counter", params![], |_| true).is_err()
    });
    check("a count", |it, done| it.changes_of(done).is_err());
    check("a schema", |it, _| {
        it.execute("CREATE TABLE IF NOT EXISTS made (a)", params![]).is_err()
    });
    check("a setting", |it, _| it.execute("PRAGMA recursive_triggers = ON", params![]).is_err());
}

/// To go on in its turn is an offer: a bulk load does not wait for it beside another
/// program.
#[test]
fn a_bulk_load_beside_another_program() {
    let (stage, database) = open(TransactionMode::Auto, Duration::from_millis(50));
    let mut shell = StockShell::start(&stage.path());
    shell.ask("BEGIN IMMEDIATE");
    shell.answer();
    let mut connection = connect(&database);
    connection.defer_writes(true);
    execute(&mut connection, "BEGIN");
    for _ in 0..20 {
        execute(&mut connection, COUNT_UP);
    }
    assert!(!connection.holds_turn());
    shell.ask("COMMIT");
    shell.answer();
    execute(&mut connection, "COMMIT");
    assert_eq!(number(&mut connection, "SELECT n FROM counter"), 20);
}

/// In mode Immediate a savepoint begins a transaction that holds its turn, too.
#[test]
fn a_savepoint_may_hold_the_turn() {
    let (_stage, database) = open(TransactionMode::Immediate, Duration::from_secs(5));
    let mut connection = connect(&database);
    execute(&mut connection, "SAVEPOINT s");
    assert!(connection.holds_turn());
    execute(&mut connection, COUNT_UP);
    execute(&mut connection, "ROLLBACK TO s");
    execute(&mut connection, COUNT_UP);
    execute(&mut connection, "RELEASE s");
    assert!(connection.is_autocommit() && !connection.holds_turn());
    assert_eq!(number(&mut connection, "SELECT n FROM counter"), 1);
}

/// That a statement cannot be compiled is seen.
#[test]
fn what_did_not_compile() {
    for script in [false, true] {
        let (_stage, database) = auto();
        let mut connection = connect(&database);
        connection.defer_writes(true);
        execute(&mut connection, "BEGIN");
        execute(&mut connection, COUNT_UP);
        execute(&mut connect(&database), "CREATE TABLE made (a)");
        let sql = "INSERT INTO made VALUES (1)";
        if script {
            connection.execute_script(sql).expect("it is made");
        } else {
            execute(&mut connection, sql);
        }
        execute(&mut connection, "COMMIT");
        assert_eq!(number(&mut connection, "SELECT count(*) FROM made"), 1);
    }
}

/// What a cursor has shown before a transaction began belongs to no transaction, as with any read outside of
/// one: the transaction does not conflict for it. (SQLite alone could not write at all.)
#[test]
fn a_cursor_from_before() {
    let (_stage, database) = auto();
    let mut connection = connect(&database);
    let mut cursor = connection.cursor("SELECT n FROM counter", params![]).expect("opens");
    let n: i64 = cursor.next_row().expect("a row").expect("a row").get(0).expect("a number");
    execute(&mut connect(&database), "UPDATE counter SET n = 100");
    execute(&mut connection, "BEGIN");
    connection.execute("UPDATE counter SET n = ?1", params![n + 1]).expect("writes");
    execute(&mut connection, "COMMIT");
    drop(cursor);
    assert_eq!(number(&mut connection, "SELECT n FROM counter"), 1);
}

/// A cursor that is open outside a transaction held its snapshot: the connection did not see what it wrote
/// itself, and could not begin a transaction that writes natively.
#[test]
fn own_writes_under_a_cursor() {
    let (_stage, database) = auto();
    let mut connection = connect(&database);
    execute(&mut connection, "INSERT INTO entry (id) VALUES (1), (2), (3)");
    let mut cursor = connection.cursor("SELECT id FROM entry", params![]).expect("opens");
    cursor.next_row().expect("a row");
    execute(&mut connection, "INSERT INTO entry (id) VALUES (9)");
    assert_eq!(number(&mut connection, "SELECT count(*) FROM entry"), 4);
    for begin in ["BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT s"] {
        let mut other = connection.cursor("SELECT id FROM entry", params![]).expect("opens");
        other.next_row().expect("a row");
        execute(&mut connect(&database), "UPDATE counter SET n = n + 1");
        execute(&mut connection, begin);
        execute(&mut connection, "UPDATE counter SET n = n + 1");
        execute(&mut connection, "COMMIT");
        assert_eq!(core::iter::from_fn(|| other.next_row().expect("reads")).count(), 3);
    }
    assert_eq!(number(&mut connection, "SELECT n FROM counter"), 6);
    // What the first cursor has to show is as it was when it was opened.
    assert_eq!(core::iter::from_fn(|| cursor.next_row().expect("reads")).count(), 2);
}

/// The mode of an attached database is its own, and is not asked of the main one.
#[test]
fn the_mode_of_an_attached_database() {
    let (stage, database) = auto();
    let mut connection = connect(&database);
    let path = stage.directory().join("other.db");
    std::fs::write(&path, "").expect("an empty file");
    connection
        .execute("ATTACH ?1 AS other", params![path.to_str().expect("a path")])
        .expect("attaches");
    execute(&mut connection, "CREATE TABLE other.t (a)");
    let sql = "PRAGMA other.journal_mode = truncate";
    let answer = connection.query(sql, params![]).map(|rows| rows[0].get::<String>(0));
    assert!(!matches!(&answer, Ok(Ok(mode)) if mode == "wal"), "{answer:?}");
}

/// Columns may change between compiling and the first row: what `start` tells of
/// them before the first row is of the older schema: ask the cursor.
#[test]
fn the_columns_of_the_rows() {
    let (_stage, database) = auto();
    let mut connection = connect(&database);
    let sql = "SELECT * FROM counter";
    drop(connection.start(sql, params![]).expect("starts"));
    execute(&mut connect(&database), "ALTER TABLE counter ADD COLUMN more");
    let execution = connection.start(sql, params![]).expect("starts");
    let mut rows = execution.rows.expect("rows");
    let row = rows.next_row().expect("a row").expect("a row");
    assert_eq!((row.values().len(), row.columns().len(), rows.columns().len()), (3, 3, 3));
    assert_eq!(execution.columns.len(), 2);
}

/// A write that does not compile any more takes the turn of its transaction, to say so. Where that does not come, the write
/// is not executed alone.
#[test]
fn a_write_whose_table_was_dropped() {
    let (_stage, database) = open(TransactionMode::Auto, Duration::from_millis(50));
    let (mut one, mut other) = (connect(&database), connect(&database));
    one.defer_writes(true);
    let insert = "INSERT INTO later VALUES (1)";
    execute(&mut other, "CREATE TABLE later (a)");
    for _ in 0..2 {
        execute(&mut one, insert);
    }
    execute(&mut one, "BEGIN");
    execute(&mut one, COUNT_UP);
    execute(&mut other, "BEGIN IMMEDIATE");
    execute(&mut other, "DROP TABLE later");
    execute(&mut other, "COMMIT");
    execute(&mut other, "BEGIN IMMEDIATE");
    let error = one.execute(insert, params![]).expect_err("the turn does not come");
    assert!(error.is_timeout() && !one.is_autocommit(), "{error}");
    execute(&mut other, "CREATE TABLE later (a)");
    execute(&mut other, "COMMIT");
    execute(&mut one, "COMMIT");
    assert_eq!(number(&mut other, "SELECT count(*) FROM later"), 0);
    assert_eq!(number(&mut other, "SELECT n FROM counter"), 1);
}
