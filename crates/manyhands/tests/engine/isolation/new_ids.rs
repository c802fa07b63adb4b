//! New rowids of a transaction's rows: one after the other, and never one that the table has. The highest one
//! is asked for only when something else may have changed it: so the statements have the same text.

use manyhands::driver::ConnectionExt;
use manyhands::{Connection, Database, TransactionMode, Value, params};

use super::story::{TEST, open, play, play_on};
use crate::stage::{Stage, connect, execute, number, shell};

fn stage(setup: &str) -> (Stage, Database) {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    connect(&database).execute_script(setup).expect("the setup");
    (stage, database)
}

fn insert(connection: &mut Connection, sql: &str, value: i64) -> i64 {
    connection.execute(sql, params![value]).expect("inserts").last_insert_rowid()
}

#[test]
fn each_row_has_the_next_id() {
    play(
        "A BEGIN
         A INSERT INTO test (value) VALUES (0) RETURNING id      -> 3
         A INSERT INTO test (value) VALUES (0) RETURNING id      -> 4
         A INSERT INTO test (value) VALUES (0), (0) RETURNING id -> 5, 6
         A INSERT INTO test (value) VALUES (0) RETURNING id      -> 7
         A COMMIT
         table -> 1|10, 2|20, 3|0, 4|0, 5|0, 6|0, 7|0",
    );
}

/// Ids that the application chooses lie before those that come after.
#[test]
fn after_an_id_of_the_applications_own() {
    play(
        "A BEGIN
         A INSERT INTO test (value) VALUES (0) RETURNING id -> 3
         A INSERT INTO test VALUES (10, 100)
         A INSERT INTO test (value) VALUES (0) RETURNING id -> 11
         A UPDATE test SET id = 20 WHERE id = 11
         A INSERT INTO test (value) VALUES (0) RETURNING id -> 21
         A INSERT OR IGNORE INTO test VALUES (21, 0)
         A INSERT INTO test (value) VALUES (0) RETURNING id -> 22
         A COMMIT
         table -> 1|10, 2|20, 3|0, 10|100, 20|0, 21|0, 22|0",
    );
}

/// What triggers insert is not counted as the statement's own, and may be the higher one.
#[test]
fn after_rows_of_triggers() {
    play_on(
        "CREATE TABLE test (id INTEGER PRIMARY KEY, value);
         CREATE TRIGGER again AFTER INSERT ON test WHEN new.id = 2
         BEGIN INSERT INTO test VALUES (new.id + 1, 'again'); END;
         CREATE TRIGGER instead BEFORE INSERT ON test WHEN (SELECT count(*) FROM test) = 4
         BEGIN INSERT INTO test VALUES (20, 'instead'); SELECT raise(IGNORE); END;",
        "A BEGIN
         A INSERT INTO test (value) VALUES (0)
         A INSERT INTO test (value) VALUES (0)
         A INSERT INTO test (value) VALUES (0)
         A INSERT INTO test (value) VALUES (0)
         A INSERT INTO test (value) VALUES (0)
         A COMMIT
         table -> 1|0, 2|0, 3|again, 4|0, 20|instead, 21|0",
    );
}

/// The next id is foreseen, while others insert, with ids that they were given or with some of their own, and while rows
/// go away.
#[test]
fn one_row_after_the_other() {
    play(
        "A BEGIN
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 3
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 4
         A COMMIT
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 5
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 6
         S INSERT INTO test VALUES (10, 0)
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 11
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 12
         B BEGIN
         B INSERT INTO test (value) VALUES (1) RETURNING id      -> 13
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 14
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 15
         B COMMIT
         A BEGIN IMMEDIATE
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 16
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 17
         A SAVEPOINT s
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 18
         A ROLLBACK TO s
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 19
         A INSERT OR IGNORE INTO test (value) VALUES (1) RETURNING id -> 20
         A COMMIT
         S SELECT count(*), max(id) FROM test                    -> 16|20",
    );
}

/// A row goes away that the next id was foreseen behind: an id below it is somebody else's.
#[test]
fn behind_a_row_that_is_gone() {
    play(
        "B BEGIN
         B INSERT INTO test (value) VALUES (1) RETURNING id      -> 3
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 4
         C DELETE FROM test WHERE id = 4
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 5
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 6
         S DELETE FROM test WHERE id > 4
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 7
         B COMMIT
         table -> 1|10, 2|20, 3|1, 7|1",
    );
}

/// With AUTOINCREMENT an id that was rolled back may be given to others, and is not used twice.
#[test]
fn behind_a_row_that_was_rolled_back() {
    play_on(
        "CREATE TABLE test (id INTEGER PRIMARY KEY AUTOINCREMENT, value);
         INSERT INTO test VALUES (4, 0);",
        "A BEGIN
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 5
         A ROLLBACK
         B BEGIN
         B INSERT INTO test (value) VALUES (2) RETURNING id      -> 5
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 6
         C DELETE FROM test WHERE id = 6
         B COMMIT
         A INSERT INTO test (value) VALUES (1) RETURNING id      -> 7
         table -> 4|0, 5|2, 7|1",
    );
}

/// A row with a trigger that writes elsewhere has its id all the same.
#[test]
fn a_foreseen_id_with_a_trigger() {
    play_on(
        "CREATE TABLE test (id INTEGER PRIMARY KEY, value);
         CREATE TABLE large (value);
         CREATE TRIGGER notes AFTER INSERT ON test WHEN new.value > 10
         BEGIN INSERT INTO large VALUES (new.value); END;",
        "A BEGIN
         A INSERT INTO test (value) VALUES (CASE WHEN (SELECT count(*) FROM test) = 1 THEN 11 ELSE 1 END) RETURNING id -> 1
         A INSERT INTO test (value) VALUES (CASE WHEN (SELECT count(*) FROM test) = 1 THEN 11 ELSE 1 END) RETURNING id -> 2
         B BEGIN
         B INSERT INTO test (value) VALUES (5) RETURNING id      -> 3
         B COMMIT
         A COMMIT
         S SELECT count(*), max(id), (SELECT count(*) FROM large) FROM test -> 3|3|1",
    );
}

/// Between two transactions another program takes the next id.
#[test]
fn after_an_id_of_another_program() {
    play(
        "A BEGIN
         A INSERT INTO test (value) VALUES (0)
         A COMMIT
         S INSERT INTO test VALUES (4, 40)
         A BEGIN
         A INSERT INTO test (value) VALUES (0)
         A COMMIT
         A INSERT INTO test (value) VALUES (0)
         S INSERT INTO test VALUES (7, 70)
         A INSERT INTO test (value) VALUES (0)
         table -> 1|10, 2|20, 3|0, 4|40, 5|0, 6|0, 7|70, 8|0",
    );
}

/// The same before the transaction moves to its turn, where its first row gets another id: nobody has seen it.
#[test]
fn after_an_id_of_another_program_in_the_middle() {
    play(
        "A BEGIN
         A INSERT INTO test (value) VALUES (0)
         S INSERT INTO test VALUES (3, 0), (4, 0), (5, 0)
         A CREATE TABLE other (id)
         A INSERT INTO test (value) VALUES (0)
         A INSERT INTO test (value) VALUES (0)
         A COMMIT
         table -> 1|10, 2|20, 3|0, 4|0, 5|0, 6|0, 7|0, 8|0",
    );
}

#[test]
fn after_a_rollback() {
    play(
        "A BEGIN
         A INSERT INTO test (value) VALUES (0)
         A INSERT INTO test (value) VALUES (0)
         A ROLLBACK
         A BEGIN
         A INSERT INTO test (value) VALUES (0)
         A SAVEPOINT s
         A INSERT INTO test (value) VALUES (0)
         A ROLLBACK TO s
         A INSERT INTO test (value) VALUES (0)
         A COMMIT
         table -> 1|10, 2|20, 3|0, 5|0",
    );
}

/// A connection was dropped in the middle of its transaction, and is the next user's.
#[test]
fn after_a_connection_that_was_dropped() {
    const SQL: &str = "INSERT INTO test (value) VALUES (?1)";
    let (stage, database) = stage(TEST);
    for _ in 0..2 {
        let mut dropped = connect(&database);
        execute(&mut dropped, "BEGIN");
        insert(&mut dropped, SQL, 0);
    }
    shell(&stage.path(), "INSERT INTO test VALUES (3, 0), (4, 0), (5, 0), (6, 0)");
    let mut next = connect(&database);
    execute(&mut next, "BEGIN");
    assert_eq!(insert(&mut next, SQL, 0), 7);
    execute(&mut next, "COMMIT");
}

/// An upsert gives a row a higher id than the one that it was given for a new row, and which a row of
/// another table has by chance.
#[test]
fn after_an_upsert_that_changes_an_id() {
    const SQL: &str =
        "INSERT INTO test (value) VALUES (?1) ON CONFLICT (value) DO UPDATE SET id = 5";
    let (stage, database) = stage(
        "CREATE TABLE test (id INTEGER PRIMARY KEY, value UNIQUE);
         CREATE TABLE other (id INTEGER PRIMARY KEY);
         INSERT INTO test VALUES (1, 10), (2, 20);",
    );
    let mut connection = connect(&database);
    execute(&mut connection, "BEGIN");
    execute(&mut connection, "INSERT INTO other VALUES (3)");
    insert(&mut connection, SQL, 10);
    assert_eq!(insert(&mut connection, SQL, 30), 6);
    assert_eq!(insert(&mut connection, SQL, 40), 7);
    execute(&mut connection, "COMMIT");
    let rows = "SELECT group_concat(id) FROM (SELECT id FROM test ORDER BY id)";
    assert_eq!(shell(&stage.path(), rows), "2,5,6,7");
}

/// The name means another table now, in which the next id is taken. Somebody else has reserved ids of the old one.
#[test]
fn after_another_table_got_the_name() {
    play_on(
        "CREATE TABLE test (id INTEGER PRIMARY KEY, value);
         CREATE TABLE larger (id INTEGER PRIMARY KEY, value);
         INSERT INTO test VALUES (1, 10);
         INSERT INTO larger VALUES (2, 0), (3, 0), (4, 0);",
        "A BEGIN
         A INSERT INTO test (value) VALUES (0)
         A ALTER TABLE test RENAME TO old
         A ALTER TABLE larger RENAME TO test
         B BEGIN
         B INSERT INTO test (value) VALUES (0)
         A INSERT INTO test (value) VALUES (0)
         A COMMIT
         B ROLLBACK
         table -> 2|0, 3|0, 4|0, 5|0",
    );
}

/// What a statement touches is looked up when it is executed again. A commit with a statement that was executed for
/// the first time counted as one of another program, which may have used up any id of AUTOINCREMENT: a
/// transaction that had seen its new id conflicted with each process's first insert.
#[test]
fn whoever_executes_a_statement_for_the_first_time_uses_up_no_ids() {
    for first in ["INSERT INTO test (value) VALUES (0)", "UPDATE test SET value = 7 WHERE id = 1"] {
        play_on(
            "CREATE TABLE test (id INTEGER PRIMARY KEY AUTOINCREMENT, value);
             INSERT INTO test VALUES (1, 10), (2, 20)",
            &format!(
                "A BEGIN
                 A INSERT INTO test (value) VALUES (0) RETURNING id -> 3
                 B {first}
                 A COMMIT"
            ),
        );
    }
}

/// The same, when a leader replays a log whose statements it executes for the first time.
#[test]
fn whoever_replays_a_statement_for_the_first_time_uses_up_no_ids() {
    play_on(
        "CREATE TABLE test (id INTEGER PRIMARY KEY AUTOINCREMENT, value);
         INSERT INTO test VALUES (1, 10), (2, 20)",
        "A BEGIN
         A INSERT INTO test (value) VALUES (0) RETURNING id -> 3
         B BEGIN
         B INSERT INTO test (value) VALUES (1) RETURNING id -> 4
         C INSERT INTO test (value) VALUES (2)
         B COMMIT
         A COMMIT
         table -> 1|10, 2|20, 3|0, 4|1, 5|2",
    );
}

/// An INSERT without a list of columns names those that the table had when its ids were first asked for. It did so, too,
/// after the table got another column: where SQLite refuses it, it was executed.
#[test]
fn a_table_that_gets_another_column() {
    const INSERT: &str = "INSERT INTO test VALUES (1, 2)";
    for replays_locally in [false, true] {
        for again in [false, true] {
            let (stage, database) = stage("CREATE TABLE test (a, b)");
            let (mut one, mut other) = (connect(&database), connect(&database));
            if replays_locally {
                one.create_function("own", Some(0), true, |_| Ok(1.into())).expect("a function");
            }
            execute(&mut one, "BEGIN");
            execute(&mut one, INSERT);
            if again {
                execute(&mut one, "ROLLBACK");
            }
            execute(&mut other, "ALTER TABLE test ADD COLUMN c");
            if again {
                execute(&mut one, "BEGIN");
                let error = one.execute(INSERT, params![]).expect_err("two values, three columns");
                assert!(error.to_string().contains("3 columns but 2 values"), "{error}");
            } else {
                let error = one.execute("COMMIT", params![]).expect_err("it would now fail");
                assert!(error.is_conflict(), "{error}");
            }
            assert_eq!(shell(&stage.path(), "SELECT count(*) FROM test"), "0");
        }
    }
}

/// The same where the statement means what it meant: it is executed as it was written.
#[test]
fn a_table_that_gets_an_index() {
    for replays_locally in [false, true] {
        let (stage, database) = stage("CREATE TABLE test (a, b)");
        let (mut one, mut other) = (connect(&database), connect(&database));
        if replays_locally {
            one.create_function("own", Some(0), true, |_| Ok(1.into())).expect("a function");
        }
        for index in 0..4 {
            execute(&mut one, "BEGIN");
            execute(&mut one, "INSERT INTO test VALUES (1, 2)");
            // Whoever executes it again has done so before.
            if index == 3 {
                execute(&mut other, "CREATE INDEX test_a ON test (a)");
            }
            execute(&mut other, "INSERT INTO test VALUES (5, 6)");
            execute(&mut one, "COMMIT");
        }
        assert_eq!(shell(&stage.path(), "SELECT count(*) FROM test"), "8");
    }
}

/// The numbers of AUTOINCREMENT may be any value, and may be made to begin anew.
#[test]
fn a_sequence_that_the_application_writes() {
    for (seq, first) in [("'0'", 4), ("'abc'", 4), ("10.7", 11), ("NULL", 4), ("20", 21)] {
        for insert in ["INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE"] {
            let stage = Stage::without_disk();
            let mut connection = connect(&stage.database());
            let setup = "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a);
                         INSERT INTO t (a) VALUES ('one'), ('two'), ('three')";
            connection.execute_script(setup).expect("the setup");
            execute(&mut connection, &format!("UPDATE sqlite_sequence SET seq = {seq}"));
            execute(&mut connection, "BEGIN");
            execute(&mut connection, &format!("{insert} INTO t (a) VALUES ('four')"));
            execute(&mut connection, "COMMIT");
            let found = number(&mut connection, "SELECT max(id) + count(*) * 100 FROM t");
            assert_eq!(found, first + 400, "{insert} {seq}");
        }
    }
    let stage = Stage::without_disk();
    let mut connection = connect(&stage.database());
    execute(&mut connection, "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a)");
    for in_transaction in [true, false] {
        for _ in 0..2 {
            execute(&mut connection, "BEGIN");
            execute(&mut connection, "INSERT INTO t (a) VALUES (1)");
            execute(&mut connection, "COMMIT");
        }
        let begin = if in_transaction { "BEGIN" } else { "SELECT 1" };
        connection
            .execute_script(&format!("{begin}; DELETE FROM t; DELETE FROM sqlite_sequence"))
            .expect("resets");
        if in_transaction {
            execute(&mut connection, "COMMIT");
        }
        execute(&mut connection, "BEGIN");
        execute(&mut connection, "INSERT INTO t (a) VALUES (1)");
        assert_eq!(connection.last_insert_rowid(), 1, "{in_transaction}");
        execute(&mut connection, "COMMIT");
    }
}

/// A row of a statement may have an id above all before it, and its next row asks for a new one.
#[test]
fn rows_with_and_without_ids() {
    let stage = Stage::without_disk();
    let database = stage.database();
    let (mut one, mut other) = (connect(&database), connect(&database));
    one.execute_script(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 'first')",
    )
    .expect("setup");
    let insert = "INSERT OR IGNORE INTO t (id, a) VALUES (?1, ?2), (?3, ?4)";
    let null = || Value::Null;
    execute(&mut one, "BEGIN");
    one.execute(insert, params![1, "x", null(), "y"]).expect("one row");
    execute(&mut other, "BEGIN");
    execute(&mut other, "INSERT INTO t (a) VALUES ('b')");
    one.execute(insert, params![4, "p", null(), "q"]).expect("two rows");
    execute(&mut one, "COMMIT");
    execute(&mut other, "COMMIT");
    assert_eq!(
        number(&mut one, "SELECT count(*) FROM t WHERE a IN ('first', 'y', 'b', 'p', 'q')"),
        5
    );
}

/// A row that a constraint of the table may leave out may not get its id.
#[test]
fn a_table_that_ignores_conflicts() {
    let stage = Stage::without_disk();
    let builder = Database::builder(stage.path()).transaction_mode(TransactionMode::Auto);
    let mut connection = connect(&builder.open().expect("opens"));
    execute(
        &mut connection,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE ON CONFLICT IGNORE)",
    );
    execute(&mut connection, "BEGIN");
    let outcome = connection.execute("INSERT INTO t (a) VALUES ('x')", params![]).expect("inserts");
    assert_eq!(connection.last_insert_rowid_of(&outcome).expect("an id"), 1);
    assert!(connection.holds_turn());
    execute(&mut connection, "COMMIT");
}

/// After a setting SQLite compiles all statements again, and nothing else has changed. (The INSERT was then executed
/// as it was written, and took an id that another transaction had reserved.)
#[test]
fn after_a_setting() {
    let (_stage, database) = stage("CREATE TABLE log (id INTEGER PRIMARY KEY, n)");
    let mut one = connect(&database);
    let mut other = connect(&database);
    let insert_log = |it: &mut Connection| insert(it, "INSERT INTO log (n) VALUES (?1)", 0);
    for pragma in ["foreign_keys", "recursive_triggers", "query_only", "case_sensitive_like"] {
        for _ in 0..3 {
            execute(&mut one, "BEGIN");
            let first = insert_log(&mut one);
            execute(&mut other, &format!("PRAGMA {pragma} = ON"));
            execute(&mut other, &format!("PRAGMA {pragma} = OFF"));
            execute(&mut other, "BEGIN");
            assert_ne!(insert_log(&mut other), first, "{pragma}");
            execute(&mut other, "COMMIT");
            execute(&mut one, "COMMIT");
        }
    }
}
