//! What a replay could overlook: reads that are not executed again although they would show something
//! else, results that did not come into the log, and settings, savepoints and turns that outlive what
//! they belong to.

use manyhands::{Connection, Database, Error, Value, ValueRef, params};

use super::story::{open, play_on};
use crate::stage::{Stage, connect, execute, in_time, number};

const TWO: &str = "
    CREATE TABLE test (id INTEGER PRIMARY KEY, v); INSERT INTO test VALUES (1, 10);
    CREATE TABLE u (n);";

/// What `A` does on [`TWO`] is a conflict after `meanwhile`.
fn check_conflict(work: impl Fn(&mut Connection), meanwhile: &str) {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    let (mut one, mut other) = (connect(&database), connect(&database));
    one.execute_script(TWO).expect("the setup");
    execute(&mut one, "BEGIN");
    execute(&mut one, "INSERT INTO u VALUES (1)");
    work(&mut one);
    execute(&mut other, meanwhile);
    let error = one.execute("COMMIT", params![]).expect_err("it conflicts");
    assert!(error.is_conflict(), "{error}");
    assert_eq!(number(&mut one, "SELECT count(*) FROM u"), 0);
}

fn all(connection: &mut Connection, sql: &str) -> Result<Vec<Value>, Error> {
    let mut values = Vec::new();
    connection.query_each(sql, params![], |row| {
        values.push(row.value(0).to_owned());
        true
    })?;
    Ok(values)
}

/// What was counted goes into a table, and is read there: another count is another row.
#[test]
fn a_count_that_was_stored() {
    play_on(
        TWO,
        "
        A BEGIN
        A UPDATE test SET v = v + 1
        A INSERT INTO u VALUES (changes())
        A SELECT n FROM u                                  -> 1
        B INSERT INTO test VALUES (2, 20)
        A COMMIT                                           -> conflict at 3
        table                                              -> 1|10, 2|20",
    );
}

/// The same error, which rolls back this time: what comes after it in the log was executed alone, and committed.
#[test]
fn an_error_that_was_survived_before() {
    play_on(
        "CREATE TABLE test (a UNIQUE, b UNIQUE ON CONFLICT ROLLBACK);
         CREATE TABLE u (n); INSERT INTO test VALUES (1, 10);",
        "
        A BEGIN
        A INSERT INTO u VALUES (1)
        A INSERT INTO test VALUES (1, 20)                  -> error 19
        A INSERT INTO u VALUES (2)
        B UPDATE test SET a = 2, b = 20
        A COMMIT                                           -> conflict at 2
        A ROLLBACK                                         -> error 1
        S SELECT count(*) FROM u                           -> 0",
    );
}

/// A view that was made anew reads other tables, also for a leader that knew the old one.
#[test]
fn a_view_that_was_made_anew() {
    play_on(
        "CREATE TABLE test (id INTEGER PRIMARY KEY, v); INSERT INTO test VALUES (1, 10);
         CREATE TABLE u (n); INSERT INTO u VALUES (7);
         CREATE TABLE w (n); CREATE VIEW shown AS SELECT v FROM test;",
        "
        A BEGIN
        A SELECT * FROM shown                              -> 10
        A INSERT INTO w VALUES (1)
        B UPDATE test SET id = 2
        A COMMIT
        B DROP VIEW shown
        B CREATE VIEW shown AS SELECT n FROM u
        A SELECT * FROM shown                              -> 7
        A BEGIN
        A SELECT * FROM shown                              -> 7
        A INSERT INTO w VALUES (2)
        B UPDATE u SET n = 8
        A COMMIT                                           -> conflict at 1
        S SELECT n FROM w                                  -> 1",
    );
}

/// Tables that are functions read whatever they like.
#[test]
fn tables_that_are_functions() {
    let family = "
        CREATE TABLE test (id INTEGER PRIMARY KEY, v); CREATE TABLE u (n);
        CREATE TABLE child (p REFERENCES test DEFERRABLE INITIALLY DEFERRED);";
    play_on(
        family,
        "
        B PRAGMA foreign_keys = OFF
        A BEGIN
        A SELECT count(*) FROM pragma_foreign_key_check('child') -> 0
        A INSERT INTO u VALUES (1)
        B INSERT INTO child VALUES (5)
        A COMMIT                                           -> conflict at 1
        S SELECT count(*) FROM u                           -> 0",
    );
    play_on(
        TWO,
        "
        A BEGIN
        A SELECT sum(ncell) FROM dbstat WHERE name = 'test' -> 1
        A INSERT INTO u VALUES (1)
        B INSERT INTO test VALUES (2, 20)
        A COMMIT                                           -> conflict at 1
        S SELECT count(*) FROM u                           -> 0",
    );
}

/// Row by row is no other way to see.
#[test]
fn what_was_read_row_by_row() {
    let twice = |arguments: &[ValueRef<'_>]| match arguments {
        [ValueRef::Integer(number)] => Ok(Value::Integer(number * 2)),
        _ => Err("a number".into()),
    };
    check_conflict(
        |one| {
            one.create_function("twice", Some(1), true, twice).expect("a function");
            let seen = all(one, "SELECT twice(v) FROM test").expect("reads");
            assert_eq!(seen, [Value::Integer(20)]);
        },
        "UPDATE test SET v = 11",
    );
    check_conflict(
        |one| {
            execute(one, "CREATE TEMP TABLE mine AS SELECT 1 AS id");
            let seen = all(one, "SELECT v FROM mine JOIN test USING (id)").expect("reads");
            assert_eq!(seen, [Value::Integer(10)]);
        },
        "UPDATE test SET v = 11",
    );
    check_conflict(
        |one| {
            let seen = all(one, "PRAGMA user_version").expect("reads");
            assert_eq!(seen, [Value::Integer(0)]);
        },
        "PRAGMA user_version = 7",
    );
}

/// `query_each` reads. What does more is told to take another way, and nothing has happened.
#[test]
fn row_by_row_is_for_reading() {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    let mut one = connect(&database);
    one.execute_script(TWO).expect("the setup");
    execute(&mut one, "CREATE TEMP TABLE mine (a)");
    for sql in [
        "BEGIN",
        "SAVEPOINT s",
        "INSERT INTO mine VALUES (1) RETURNING a",
        "CREATE TEMP TABLE more (a)",
        "ATTACH ':memory:' AS other",
    ] {
        let error = all(&mut one, sql).expect_err(sql);
        assert!(error.to_string().contains("query_each takes statements that read"), "{error}");
        assert!(one.is_autocommit(), "{sql}");
    }
    execute(&mut one, "BEGIN");
    execute(&mut one, "INSERT INTO u VALUES (1)");
    all(&mut one, "COMMIT").expect_err("COMMIT is no reading");
    execute(&mut one, "COMMIT");
    assert_eq!(number(&mut one, "SELECT count(*) FROM u"), 1);
}

/// That a statement cannot be compiled is seen on every way.
#[test]
fn what_did_not_compile() {
    let sql = "SELECT w FROM test";
    check_conflict(
        |one| {
            all(one, sql).expect_err("there is no such column");
        },
        "ALTER TABLE test ADD COLUMN w",
    );
    check_conflict(
        |one| {
            let script = format!("{sql}; SELECT v FROM test");
            one.execute_script(&script).expect_err("there is no such column");
        },
        "ALTER TABLE test ADD COLUMN w",
    );
}

/// The connection's own figures are asked for after other statements.
#[test]
fn figures_that_are_asked_for_later() {
    let more = "INSERT INTO test VALUES (2, 20)";
    let update = "UPDATE test SET v = v + 1";
    check_conflict(
        |one| {
            execute(one, update);
            execute(one, "SAVEPOINT s");
            assert_eq!(one.changes(), 1);
        },
        more,
    );
    check_conflict(
        |one| {
            execute(one, update);
            all(one, "SELECT 1").expect("reads");
            assert_eq!(one.changes(), 1);
        },
        more,
    );
    check_conflict(
        |one| {
            execute(one, "INSERT INTO test SELECT NULL, 1");
            all(one, "SELECT 1").expect("reads");
            assert_eq!(one.last_insert_rowid(), 2);
        },
        more,
    );
    let fails = "INSERT OR FAIL INTO test SELECT * FROM (VALUES (7, 1), (8, 1), (1, 1), (9, 1))";
    check_conflict(
        |one| {
            one.execute(fails, params![]).expect_err("1 is there");
            assert_eq!(one.changes(), 2);
        },
        "INSERT INTO test VALUES (8, 20)",
    );
    check_conflict(
        |one| {
            execute(one, update);
            assert_eq!(one.total_changes(), 3);
        },
        more,
    );
}

/// The savepoint that began the transaction can be gone back to, wherever it is executed again.
#[test]
fn back_to_the_outermost_savepoint() {
    play_on(
        TWO,
        "
        A SAVEPOINT s
        A INSERT INTO test VALUES (2, 20)
        A ROLLBACK TO s
        A INSERT INTO test VALUES (3, 30)
        B UPDATE test SET v = 11 WHERE id = 1
        A RELEASE s
        table                                              -> 1|11, 3|30",
    );
    play_on(
        TWO,
        "
        A SAVEPOINT s
        A INSERT INTO test VALUES (2, 20)
        B UPDATE test SET v = 11 WHERE id = 1
        A CREATE TABLE made (a)
        A ROLLBACK TO s
        A INSERT INTO test VALUES (3, 30)
        A RELEASE s
        B SELECT count(*) FROM sqlite_schema WHERE name = 'made' -> 0
        table                                              -> 1|11, 3|30",
    );
}

/// A savepoint may have any name: what conflicts leaves nothing.
#[test]
fn savepoints_of_any_name() {
    play_on(
        TWO,
        r#"
        A BEGIN
        A INSERT INTO u VALUES (1)
        A SAVEPOINT "manyhands transaction"
        A SELECT v FROM test                               -> 10
        B UPDATE test SET v = 11 WHERE id = 1
        A COMMIT                                           -> conflict at 3
        S SELECT count(*) FROM u                           -> 0"#,
    );
}

/// A COMMIT that failed is executed again as what it was: nothing is committed by it.
#[test]
fn a_commit_that_failed() {
    let family = "
        CREATE TABLE test (id INTEGER PRIMARY KEY);
        CREATE TABLE child (p REFERENCES test DEFERRABLE INITIALLY DEFERRED);";
    play_on(
        family,
        "
        A BEGIN
        A INSERT INTO child VALUES (5)
        A COMMIT                                           -> error 19
        A INSERT OR IGNORE INTO test VALUES (5)
        B INSERT INTO test VALUES (5)
        A COMMIT                                           -> conflict at 2
        B SELECT count(*) FROM child                       -> 0
        table                                              -> 5",
    );
    play_on(
        family,
        "
        A SAVEPOINT s
        A INSERT INTO child VALUES (5)
        A RELEASE s                                        -> error 19
        A INSERT INTO test VALUES (5)
        B INSERT INTO test VALUES (6)
        A RELEASE s
        B SELECT count(*) FROM child                       -> 1
        table                                              -> 5, 6",
    );
}

/// A setting holds from its statement on, not for the statements before it.
#[test]
fn a_setting_does_not_work_backwards() {
    let setup = "
        CREATE TABLE test (id INTEGER PRIMARY KEY, v);
        CREATE TRIGGER again AFTER INSERT ON test WHEN new.id < 3
            BEGIN INSERT INTO test VALUES (new.id + 1, 0); END;
        CREATE TABLE u (n);";
    play_on(
        setup,
        "
        A BEGIN
        A INSERT INTO test VALUES (1, 1)
        B INSERT INTO u VALUES (1)
        A PRAGMA recursive_triggers = ON
        A COMMIT
        table                                              -> 1|1, 2|0",
    );
    play_on(
        setup,
        "
        A PRAGMA recursive_triggers = OFF
        A BEGIN
        A SELECT count(*) FROM u                           -> 0
        A INSERT INTO u VALUES (5)
        B INSERT INTO u VALUES (1)
        A PRAGMA recursive_triggers = ON                   -> conflict at 1
        A PRAGMA recursive_triggers                        -> 0
        A PRAGMA recursive_triggers = ON
        A INSERT INTO test VALUES (1, 1)
        table                                              -> 1|1, 2|0, 3|0",
    );
}

/// However SQLite ends a transaction that holds its turn, the turn is free.
#[test]
fn a_rollback_by_a_statement_frees_the_turn() {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    let mut one = connect(&database);
    one.execute_script(TWO).expect("the setup");
    execute(&mut one, "CREATE TEMP TABLE mine (a UNIQUE)");
    execute(&mut one, "INSERT INTO mine VALUES (1)");
    let mut transaction = one.begin_immediate().expect("begins");
    transaction
        .execute("INSERT OR ROLLBACK INTO mine VALUES (1)", params![])
        .expect_err("1 is there");
    drop(transaction);
    in_time(move || execute(&mut connect(&database), "INSERT INTO u VALUES (1)"));
}

/// A PRAGMA that is refused has not worked.
#[test]
fn a_refused_setting_has_not_worked() {
    let stage = Stage::without_disk();
    let mut one = connect(&open(&stage, true));
    let check = |one: &mut Connection, pragma: &str, refused: &str, expected: Value| {
        // SQLite, too, says nothing when it leaves a mode as it is.
        let _ = one.execute(refused, params![]);
        let rows = one.query(&format!("PRAGMA {pragma}"), params![]).expect("reads");
        assert_eq!(rows[0].values()[0], expected, "{refused}");
    };
    let full = Value::Integer(2);
    check(&mut one, "synchronous", "SELECT 1; PRAGMA synchronous = OFF", full);
    let normal = Value::from("normal".to_string());
    check(&mut one, "locking_mode", "PRAGMA locking_mode = EXCLUSIVE", normal);
    let on = Value::Integer(1);
    check(&mut one, "foreign_keys", "SELECT 1; PRAGMA foreign_keys = OFF", on);
}

/// A large transaction reads row by row: it moves to its turn, or it fails, but it does not end by itself.
#[test]
fn reading_row_by_row_in_a_full_fork() {
    let stage = Stage::without_disk();
    let database =
        Database::builder(stage.path()).speculation_bytes_max(4 << 20).open().expect("opens");
    let mut one = connect(&database);
    one.execute_script(
        "CREATE TABLE big (id INTEGER PRIMARY KEY, v BLOB);
         CREATE TABLE other (id INTEGER PRIMARY KEY, v BLOB);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1100)
             INSERT INTO other SELECT i, randomblob(3000) FROM n;",
    )
    .expect("the setup");
    for rows in 950..1030 {
        execute(&mut one, "BEGIN");
        let insert = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
             INSERT INTO big SELECT i, zeroblob(3000) FROM n";
        one.execute(insert, params![rows]).expect("inserts");
        let seen = all(&mut one, "SELECT length(v) FROM other").expect("reads");
        assert_eq!(seen.len(), 1100, "{rows}");
        assert!(!one.is_autocommit(), "{rows}");
        execute(&mut one, "ROLLBACK");
    }
}

/// Clock and dice are the transaction's, not those of others that its caller uses meanwhile.
#[test]
fn dice_between_the_rows() {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    let (mut one, mut other) = (connect(&database), connect(&database));
    one.execute_script(TWO).expect("the setup");
    execute(&mut one, "INSERT INTO test VALUES (2, 20), (3, 30)");
    execute(&mut one, "BEGIN");
    execute(&mut one, "INSERT INTO u VALUES (1)");
    one.query_each("SELECT random() FROM test", params![], |_| {
        number(&mut other, "SELECT random()");
        true
    })
    .expect("reads");
    execute(&mut other, "UPDATE test SET v = 11");
    execute(&mut one, "COMMIT");
}

/// What was read in an attached database, and has changed there, is a conflict, not a lock.
#[test]
fn an_attached_database_that_has_changed() {
    let stage = Stage::without_disk();
    let path = stage.directory().join("other.db");
    let database = open(&stage, false);
    let second = Database::open(&path).expect("opens");
    execute(&mut connect(&second), "CREATE TABLE apart (v)");
    let mut one = connect(&database);
    one.execute_script(TWO).expect("the setup");
    one.execute("ATTACH ?1 AS apart", params![path.to_string_lossy().into_owned()])
        .expect("attaches");
    execute(&mut one, "BEGIN");
    assert_eq!(number(&mut one, "SELECT count(*) FROM apart.apart"), 0);
    execute(&mut one, "INSERT INTO u VALUES (1)");
    execute(&mut connect(&second), "INSERT INTO apart VALUES (1)");
    let error = one.execute("INSERT INTO apart.apart VALUES (2)", params![]).expect_err("conflict");
    assert!(error.is_conflict(), "{error}");
}

/// An id is given to a table that has one, not to another of the same name.
#[test]
fn a_table_that_was_made_anew() {
    play_on(
        TWO,
        "
        A BEGIN
        A INSERT INTO test (v) VALUES (5)
        A ROLLBACK
        B DROP TABLE test
        B CREATE TABLE test (id TEXT, v)
        A BEGIN
        A INSERT INTO test (v) VALUES (5)
        A COMMIT
        table                                              -> |5",
    );
}

/// A cursor looks at the view as it is, not as it was when its statement was compiled.
#[test]
fn a_cursor_on_a_view_that_was_made_anew() {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    let (mut one, mut other) = (connect(&database), connect(&database));
    one.execute_script(TWO).expect("the setup");
    one.execute_script("INSERT INTO u VALUES (7); CREATE VIEW shown AS SELECT v FROM test")
        .expect("the setup");
    let sql = "SELECT * FROM shown";
    assert_eq!(number(&mut one, sql), 10);
    execute(&mut other, "DROP VIEW shown");
    execute(&mut other, "CREATE VIEW shown AS SELECT n FROM u");
    execute(&mut one, "BEGIN");
    let mut cursor = one.cursor(sql, params![]).expect("a cursor");
    let row = cursor.next_row().expect("reads").expect("a row");
    assert_eq!(row.get::<i64>(0).expect("a number"), 7);
    execute(&mut one, "INSERT INTO test VALUES (2, 20)");
    execute(&mut other, "UPDATE u SET n = 8");
    let error = one.execute("COMMIT", params![]).expect_err("it conflicts");
    assert!(error.is_conflict(), "{error}");
}

/// A cursor with more rows than there is room for keeps a transaction from its commit, not from its end.
#[test]
fn a_cursor_that_is_too_large() {
    let stage = Stage::without_disk();
    let database =
        Database::builder(stage.path()).speculation_bytes_max(1 << 20).open().expect("opens");
    let mut one = connect(&database);
    one.execute_script(TWO).expect("the setup");
    let mut transaction = one.transaction().expect("begins");
    execute(&mut transaction, "INSERT INTO u VALUES (1)");
    let mut cursor = transaction
        .cursor(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000)
             SELECT i, zeroblob(10000) FROM n",
            params![],
        )
        .expect("a cursor");
    cursor.next_row().expect("reads").expect("a row");
    transaction.commit().expect_err("there is no room for its rows");
    assert!(one.is_autocommit());
    execute(&mut one, "INSERT INTO u VALUES (2)");
    assert_eq!(number(&mut one, "SELECT count(*) FROM u"), 1);
}
