//! What SQLite refuses in a transaction leaves nothing of it, and the transaction goes on.

use manyhands::{Database, TransactionMode, params};

use crate::stage::{Stage, connect, execute, number};

const MODES: [TransactionMode; 3] =
    [TransactionMode::Auto, TransactionMode::Optimistic, TransactionMode::Immediate];

fn open(mode: TransactionMode) -> (Stage, Database) {
    let stage = Stage::without_disk();
    let database = Database::builder(stage.path()).transaction_mode(mode).open().expect("opens");
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE log (note)";
    connect(&database).execute_script(schema).expect("the schema");
    (stage, database)
}

/// SQLite takes the lock for a BEGIN IMMEDIATE before it refuses it, and the transaction then wrote without its turn: its commit
/// failed.
#[test]
fn a_second_begin_takes_no_lock() {
    for mode in MODES {
        let (_stage, database) = open(mode);
        let mut connection = connect(&database);
        execute(&mut connection, "BEGIN");
        execute(&mut connection, "CREATE TEMP TABLE mine (a)");
        execute(&mut connection, "INSERT INTO mine VALUES (1)");
        let refused = connection.execute("BEGIN IMMEDIATE", params![]).expect_err("a second one");
        assert!(refused.to_string().contains("within a transaction"), "{refused}");
        execute(&mut connection, "ATTACH ':memory:' AS memory");
        execute(&mut connection, "INSERT INTO log SELECT a FROM mine");
        execute(&mut connection, "COMMIT");
        assert_eq!(number(&mut connection, "SELECT count(*) FROM log"), 1, "{mode:?}");
    }
}

/// A temporary trigger was taken for a write that needs the turn, and what the transaction had written was executed again, where it
/// was refused: all that followed failed.
#[test]
fn a_temporary_trigger_while_only_queries_are_allowed() {
    for mode in MODES {
        let (_stage, database) = open(mode);
        let mut connection = connect(&database);
        execute(&mut connection, "BEGIN");
        execute(&mut connection, "CREATE TEMP TABLE mine (a)");
        execute(&mut connection, "PRAGMA query_only = ON");
        let trigger = "CREATE TEMP TRIGGER noted AFTER INSERT ON main.t BEGIN DELETE FROM log; END";
        let refused = connection.execute(trigger, params![]).expect_err("it writes");
        assert!(refused.to_string().contains("readonly"), "{refused}");
        assert_eq!(number(&mut connection, "SELECT count(*) FROM t"), 0, "{mode:?}");
        execute(&mut connection, "COMMIT");
    }
}
