//! What SQLite's authorizer does not tell of a statement, or tells of another: columns that USING and NATURAL compare, and
//! what a virtual table compiles when a connection first uses it.

use std::time::Duration;

use manyhands::driver::ConnectionExt;
use manyhands::{Connection, Database, TransactionMode, params};

use super::story::play_on;
use crate::stage::{Stage, connect, execute, number};

const JOINED: &str = "
    CREATE TABLE u (id, name); INSERT INTO u VALUES (1, 'ann'), (2, 'bob');
    CREATE TABLE o (id, item); INSERT INTO o VALUES (1, 'lamp');
    CREATE TABLE res (n);
    CREATE VIEW bought AS SELECT name FROM u JOIN o USING (id);";

#[test]
fn columns_that_a_join_compares() {
    for read in [
        "SELECT count(*) FROM u JOIN o USING (id)",
        "SELECT count(*) FROM u NATURAL JOIN o",
        "SELECT count(name) FROM u JOIN o using(id)",
        "SELECT count(*) FROM bought",
        "SELECT count(*) FROM u WHERE EXISTS (SELECT 1 FROM u JOIN o USING (id) WHERE u.name = 'bob') OR id = 1",
    ] {
        for times in 1..4 {
            let warm = format!("A {read} -> 1\n").repeat(times - 1);
            play_on(
                JOINED,
                &format!(
                    "{warm}
                    A BEGIN
                    A INSERT INTO res VALUES (0)
                    A {read}                                   -> 1
                    B INSERT INTO o VALUES (2, 'chair')
                    A COMMIT                                   -> conflict at 2"
                ),
            );
        }
    }
}

#[test]
fn what_is_written_from_a_join() {
    play_on(
        JOINED,
        "
        A BEGIN
        A INSERT INTO res SELECT 1 FROM u JOIN o USING (id)
        A SELECT count(*) FROM res                         -> 1
        B INSERT INTO o VALUES (2, 'chair')
        A COMMIT                                           -> conflict at 2",
    );
}

fn auto(schema: &str) -> (Stage, Database) {
    let stage = Stage::without_disk();
    let builder = Database::builder(stage.path()).timeout(Duration::from_secs(5));
    let database = builder.transaction_mode(TransactionMode::Auto).open().expect("opens");
    connect(&database).execute_script(schema).expect("the schema");
    (stage, database)
}

#[test]
fn a_join_is_seen_in_the_turn() {
    let (_stage, database) = auto(JOINED);
    let mut connection = connect(&database);
    execute(&mut connection, "BEGIN");
    execute(&mut connection, "INSERT INTO res VALUES (0)");
    assert_eq!(number(&mut connection, "SELECT count(*) FROM u JOIN o USING (id)"), 1);
    assert!(connection.holds_turn());
    execute(&mut connection, "COMMIT");
}

/// FTS3 asks for the page size when a connection first uses such a table: the statement is no PRAGMA for that.
#[test]
fn a_virtual_table_that_is_connected() {
    const SCHEMA: &str = "
        CREATE VIRTUAL TABLE doc USING fts4 (w); INSERT INTO doc VALUES ('old');
        CREATE VIRTUAL TABLE place USING rtree (id, least, most); INSERT INTO place VALUES (1, 2, 3);
        CREATE TABLE log (a);";
    let (_stage, database) = auto(SCHEMA);
    let (mut one, mut other) = (connect(&database), connect(&database));
    execute(&mut one, "BEGIN CONCURRENT");
    execute(&mut one, "INSERT INTO doc VALUES ('hello')");
    execute(&mut one, "INSERT INTO log VALUES ('hello')");
    execute(&mut other, "INSERT INTO log VALUES ('other')");
    execute(&mut one, "COMMIT");
    assert_eq!(number(&mut other, "SELECT count(*) FROM doc"), 2);

    play_on(
        SCHEMA,
        "
        A SELECT count(*) FROM doc                         -> 1
        A BEGIN
        A SELECT count(*) FROM doc                         -> 1
        A INSERT INTO log VALUES (1)
        B INSERT INTO doc VALUES ('new')
        A COMMIT                                           -> conflict at 1",
    );

    // An R-Tree compiles what it writes with.
    let mut writer = connect(&database);
    let mut turn = writer.begin_immediate().expect("the turn");
    execute(&mut turn, "INSERT INTO log VALUES ('turn')");
    let mut reader = connect(&database);
    assert_eq!(number(&mut reader, "SELECT count(*) FROM place"), 1);
    assert_eq!(number(&mut reader, "SELECT count(*) FROM place"), 1);
    turn.rollback().expect("rolls back");
    execute(&mut connect(&database), "DROP TABLE doc");
    assert_eq!(number(&mut other, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'doc%'"), 0);
}

/// A row that FAIL keeps behind an INSTEAD OF trigger is not counted, and is kept once.
#[test]
fn what_a_failed_statement_keeps_uncounted() {
    let (_stage, database) = auto(
        "CREATE TABLE tg (a); CREATE VIEW v AS SELECT a FROM tg;
         CREATE TRIGGER i INSTEAD OF INSERT ON v BEGIN INSERT INTO tg VALUES (new.a); END;
         CREATE TRIGGER w AFTER INSERT ON tg WHEN new.a = 4 BEGIN SELECT RAISE(FAIL, 'four'); END;",
    );
    let mut connection = connect(&database);
    execute(&mut connection, "BEGIN");
    execute(&mut connection, "INSERT INTO tg VALUES (1)");
    connection.execute("INSERT INTO v VALUES (4)", params![]).expect_err("it fails");
    execute(&mut connection, "COMMIT");
    assert_eq!(number(&mut connection, "SELECT count(*) FROM tg"), 2);
}

/// That a statement with parameters does not compile is seen when they are asked for.
#[test]
fn parameters_of_what_does_not_compile() {
    let stage = Stage::without_disk();
    let database = stage.database();
    let (mut one, mut other) = (connect(&database), connect(&database));
    execute(&mut one, "CREATE TABLE t (a)");
    execute(&mut one, "BEGIN");
    one.parameter_names("SELECT c FROM later WHERE c > ?").expect_err("no such table");
    execute(&mut other, "CREATE TABLE later (c)");
    execute(&mut one, "INSERT INTO t VALUES ('later was missing')");
    let error = one.execute("COMMIT", params![]).expect_err("it conflicts");
    assert!(error.is_conflict(), "{error}");
}

/// A statement that is in no log tells the last rowid all the same.
#[test]
fn the_rowid_that_another_statement_tells() {
    for mode in [TransactionMode::Optimistic, TransactionMode::Auto] {
        let stage = Stage::without_disk();
        let builder = Database::builder(stage.path()).timeout(Duration::from_millis(300));
        let database = builder.transaction_mode(mode).open().expect("opens");
        let (mut one, mut other) = (connect(&database), connect(&database));
        execute(&mut one, "CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
        execute(&mut one, "BEGIN");
        execute(&mut one, "INSERT INTO t (a) SELECT 'one'");
        let outcome = one.start("PRAGMA foreign_keys", params![]).expect("answers").outcome;
        assert_eq!(one.last_insert_rowid_of(&outcome).expect("an id"), 1);
        let inserted = other.execute("INSERT INTO t (a) SELECT 'other'", params![]);
        let committed = one.execute("COMMIT", params![]);
        if mode == TransactionMode::Auto {
            inserted.expect_err("one holds the turn");
            committed.expect("commits");
        } else {
            inserted.expect("inserts");
            assert!(committed.expect_err("it conflicts").is_conflict());
        }
    }
}

/// A statement that was compiled before fails for the schema of a moment: that moment is the transaction's.
#[test]
fn a_table_that_is_missed_before_the_snapshot() {
    let stage = Stage::without_disk();
    let database = stage.database();
    let (mut one, mut other) = (connect(&database), connect(&database));
    one.execute_script("CREATE TABLE t (a); CREATE TABLE g (a)").expect("tables");
    let update = |one: &mut Connection| one.execute("UPDATE g SET a = 1", params![]);
    update(&mut one).expect("an update");
    execute(&mut other, "DROP TABLE g");
    update(&mut one).expect_err("no such table");
    execute(&mut one, "BEGIN");
    update(&mut one).expect_err("no such table");
    execute(&mut other, "CREATE TABLE g (a)");
    execute(&mut one, "INSERT INTO t VALUES (1)");
    assert_eq!(number(&mut one, "SELECT count(*) FROM sqlite_schema WHERE name = 'g'"), 0);
    assert!(one.execute("COMMIT", params![]).expect_err("it conflicts").is_conflict());
}

/// A statement that rolls its transaction back has been executed, and is not executed again. (It was, outside of the
/// transaction, where what it had found was gone: it reported success, and the rest was committed without the first half.)
#[test]
fn a_statement_that_rolls_back() {
    let setup = "CREATE TABLE purchase (id INTEGER PRIMARY KEY, count UNIQUE);
         CREATE TABLE payment (purchase);
         CREATE TRIGGER enough BEFORE UPDATE ON purchase WHEN new.count < 0
         BEGIN SELECT raise(ROLLBACK, 'not enough'); END;";
    for mode in [TransactionMode::Auto, TransactionMode::Optimistic, TransactionMode::Immediate] {
        for failing in [
            "UPDATE purchase SET count = count - 10",
            "INSERT OR ROLLBACK INTO purchase SELECT id + 1, count FROM purchase",
        ] {
            let stage = Stage::without_disk();
            let database = Database::builder(stage.path()).transaction_mode(mode).open();
            let mut connection = connect(&database.expect("opens"));
            connection.execute_script(setup).expect("the setup");
            execute(&mut connection, "BEGIN");
            execute(&mut connection, "INSERT INTO purchase VALUES (1, 5)");
            connection.execute(failing, params![]).expect_err("it fails");
            assert!(connection.is_autocommit(), "{mode:?}: {failing}");
            assert_eq!(number(&mut connection, "SELECT count(*) FROM purchase"), 0);
        }
    }
}
