//! Programs begin with CREATE TABLE IF NOT EXISTS. Where the table is there, SQLite only reads: nobody waits for a writer, and
//! with a timeout of 0 nobody fails.

use std::time::Duration;

use manyhands::{Connection, Database, TransactionMode, params};

use crate::stage::{SHORT, Stage, connect, execute, number};

const SCHEMA: &str = "
    CREATE TABLE entry (a);
    CREATE INDEX entry_a ON entry (a);
    CREATE VIEW seen AS SELECT a FROM entry;
    CREATE TRIGGER noted AFTER INSERT ON entry BEGIN SELECT 1; END;";

const NOTHING_TO_DO: [&str; 9] = [
    "CREATE TABLE IF NOT EXISTS entry (a)",
    "CREATE INDEX IF NOT EXISTS entry_a ON entry (a)",
    "CREATE VIEW IF NOT EXISTS seen AS SELECT a FROM entry",
    "CREATE TRIGGER IF NOT EXISTS noted AFTER INSERT ON entry BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE IF NOT EXISTS entry USING fts5 (a)",
    "DROP TABLE IF EXISTS nowhere",
    "DROP INDEX IF EXISTS nowhere",
    "DROP VIEW IF EXISTS nowhere",
    "DROP TRIGGER IF EXISTS nowhere",
];

fn open(mode: TransactionMode) -> (Stage, Database) {
    let stage = Stage::without_disk();
    let builder = Database::builder(stage.path()).timeout(Duration::ZERO).transaction_mode(mode);
    let database = builder.open().expect("opens");
    connect(&database).execute_script(SCHEMA).expect("the schema");
    (stage, database)
}

/// diskcache drops an index IF EXISTS when it starts, without a timeout: processes failed to start.
#[test]
fn who_has_nothing_to_do_waits_for_nobody() {
    for mode in [TransactionMode::Auto, TransactionMode::Optimistic, TransactionMode::Immediate] {
        let (_stage, database) = open(mode);
        let (mut writer, mut other) = (connect(&database), connect(&database));
        execute(&mut writer, "BEGIN IMMEDIATE");
        execute(&mut writer, "INSERT INTO entry VALUES (1)");
        for sql in NOTHING_TO_DO {
            // The second time a statement may be one that was kept.
            for _ in 0..2 {
                let outcome = other.execute(sql, params![]);
                outcome.unwrap_or_else(|error| panic!("{mode:?}: {sql}: {error}"));
            }
        }
        execute(&mut writer, "COMMIT");
    }
}

#[test]
fn a_transaction_with_nothing_to_do_waits_for_nobody() {
    for (sql, timeout) in NOTHING_TO_DO.iter().flat_map(|it| [(it, Duration::ZERO), (it, SHORT)]) {
        let (stage, _database) = open(TransactionMode::Auto);
        let builder = Database::builder(stage.path()).timeout(timeout);
        let database = builder.transaction_mode(TransactionMode::Auto).open().expect("opens");
        let (mut writer, mut other) = (connect(&database), connect(&database));
        // Compiled in a turn, it is not kept for when it has nothing to do.
        execute(&mut other, "BEGIN IMMEDIATE");
        execute(&mut other, sql);
        execute(&mut other, "ROLLBACK");
        execute(&mut writer, "BEGIN IMMEDIATE");
        execute(&mut writer, "INSERT INTO entry VALUES (1)");
        execute(&mut other, "BEGIN");
        other.execute(sql, params![]).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert!(!other.holds_turn(), "{sql}");
        assert_eq!(number(&mut other, "SELECT count(*) FROM entry"), 0, "{sql}");
        execute(&mut other, "COMMIT");
        execute(&mut writer, "COMMIT");
    }
}

/// What was there a moment ago may be gone: the schema is read again, each time.
#[test]
fn what_others_have_dropped_is_made() {
    let (_stage, database) = open(TransactionMode::Auto);
    let (mut here, mut there) = (connect(&database), connect(&database));
    let makes = |connection: &mut Connection| {
        execute(connection, "CREATE TABLE IF NOT EXISTS entry (a)");
        number(connection, "SELECT count(*) FROM sqlite_schema WHERE name = 'entry'")
    };
    for _ in 0..3 {
        assert_eq!(makes(&mut here), 1);
        execute(&mut there, "DROP VIEW IF EXISTS seen");
        execute(&mut there, "DROP TABLE IF EXISTS entry");
        assert_eq!(makes(&mut here), 1);
        execute(&mut here, "DROP TABLE IF EXISTS entry");
        assert_eq!(makes(&mut there), 1);
    }
}

/// Each of two transactions makes its table, if the other one's was not there: one of them must be told.
#[test]
fn that_there_was_nothing_to_do_is_seen() {
    for timeout in [Duration::ZERO, SHORT] {
        that_there_was_nothing_to_do_is_seen_within(timeout);
    }
}

fn that_there_was_nothing_to_do_is_seen_within(timeout: Duration) {
    let (stage, _database) = open(TransactionMode::Auto);
    let builder = Database::builder(stage.path()).timeout(timeout);
    let database = builder.transaction_mode(TransactionMode::Auto).open().expect("opens");
    let (mut one, mut other) = (connect(&database), connect(&database));
    execute(&mut one, "BEGIN");
    execute(&mut one, "DROP TABLE IF EXISTS of_other");
    execute(&mut other, "BEGIN");
    execute(&mut other, "DROP TABLE IF EXISTS of_one");
    execute(&mut one, "CREATE TABLE of_one (a)");
    execute(&mut one, "COMMIT");
    let error = other.execute("CREATE TABLE of_other (a)", params![]).expect_err("is stale");
    assert_eq!(
        error.nearest_code().map(manyhands::Code::name),
        Some("SQLITE_BUSY_SNAPSHOT"),
        "{error}"
    );
    execute(&mut other, "ROLLBACK");
}

#[test]
fn a_tracer_is_told_of_the_statement_that_was_written() {
    let (_stage, database) = open(TransactionMode::Auto);
    let mut connection = connect(&database);
    let (tells, told) = std::sync::mpsc::channel();
    let tracer =
        move |traced: &manyhands::Traced<'_>| tells.send(traced.sql.to_string()).expect("is heard");
    connection.set_tracer(Some(tracer)).expect("is set");
    for sql in NOTHING_TO_DO {
        execute(&mut connection, sql);
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [sql]);
    }
}
