//! PRAGMAs that answer as SQLite's do: a checkpoint in a transaction, and what concerns another schema than `main`.

use std::fs;
use std::time::Duration;

use manyhands::{Connection, Database, Durability, TransactionMode, params};

use crate::stage::{self, INSERT, Stage, connect, execute, items};

/// The first row of the answer.
fn integers(connection: &mut Connection, sql: &str) -> Vec<i64> {
    let rows = connection.query(sql, params![]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    (0..rows[0].values().len()).map(|column| rows[0].get(column).expect("an integer")).collect()
}

/// A transaction that has neither read nor written has no snapshot: `PRAGMA wal_checkpoint` in it works as outside.
/// Python's `autocommit=False` keeps a transaction open at all times. It was refused: the transaction had moved to
/// its turn first.
#[test]
fn a_checkpoint_before_the_first_statement_of_a_transaction() {
    let modes = [TransactionMode::Optimistic, TransactionMode::Auto];
    for (mode, seconds) in modes.into_iter().flat_map(|mode| [(mode, 60), (mode, 0)]) {
        for begin in ["BEGIN", "SAVEPOINT s"] {
            checkpoint_after(begin, mode, Duration::from_secs(seconds));
        }
    }
}

fn checkpoint_after(begin: &str, mode: TransactionMode, timeout: Duration) {
    let stage = Stage::new();
    let mut other = connect(&stage.database_with_items());
    let builder = Database::builder(stage.path()).transaction_mode(mode).timeout(timeout);
    let mut connection = connect(&builder.open().expect("opens"));
    execute(&mut connection, begin);
    assert_ne!(fs::metadata(stage.beside("-wal")).expect("a WAL").len(), 0);
    assert_eq!(integers(&mut connection, "PRAGMA wal_checkpoint(TRUNCATE)"), [0, 0, 0]);
    assert_eq!(fs::metadata(stage.beside("-wal")).expect("a WAL").len(), 0);
    assert!(!connection.is_autocommit() && !connection.holds_turn(), "{begin}, {timeout:?}");
    execute(&mut other, INSERT);

    execute(&mut connection, INSERT);
    assert_eq!(items(&mut connection), 2, "the snapshot is taken after the checkpoint");
    let refused = connection.query("PRAGMA wal_checkpoint", params![]);
    stage::refused(refused, &["database table is locked"]);
    execute(&mut connection, if begin == "BEGIN" { "COMMIT" } else { "RELEASE s" });
    assert_eq!(items(&mut other), 2);
    assert_eq!(integers(&mut connection, "PRAGMA wal_checkpoint(TRUNCATE)"), [0, 0, 0]);
}

/// A checkpoint failed with LockTimeout beside a writer. A passive one waits for nobody in SQLite, and the others say in their
/// row that they have waited in vain.
#[test]
fn a_checkpoint_waits_as_it_says() {
    let stage = Stage::without_disk();
    let mut writer = connect(&stage.database_with_items());
    execute(&mut writer, INSERT);
    let builder = Database::builder(stage.path()).timeout(stage::SHORT);
    let mut connection =
        connect(&builder.transaction_mode(TransactionMode::Auto).open().expect("opens"));
    execute(&mut writer, "BEGIN IMMEDIATE");
    execute(&mut writer, INSERT);
    for begin in [None, Some("BEGIN")] {
        begin.into_iter().for_each(|sql| execute(&mut connection, sql));
        let passive = integers(&mut connection, "PRAGMA wal_checkpoint");
        assert!(passive[0] == 0 && passive[1] > 0 && passive[1] == passive[2], "{passive:?}");
        let began = std::time::Instant::now();
        assert_eq!(integers(&mut connection, "PRAGMA wal_checkpoint(TRUNCATE)")[0], 1);
        stage::assert_waited(began);
        assert!(!connection.holds_turn());
    }
    assert_eq!(items(&mut connection), 1);
    stage::refused(
        connection.query("PRAGMA wal_checkpoint", params![]),
        &["database table is locked"],
    );
    assert!(!connection.holds_turn());
    execute(&mut writer, "COMMIT");
}

/// A PRAGMA about the connection took the turn of an open transaction of mode Auto.
#[test]
fn a_setting_holds_nothing() {
    let stage = Stage::without_disk();
    let mut writer = connect(&stage.database_with_items());
    let builder = Database::builder(stage.path()).timeout(stage::SHORT);
    let database = builder.transaction_mode(TransactionMode::Auto).open().expect("opens");
    for setting in [
        "PRAGMA query_only = ON",
        "PRAGMA defer_foreign_keys = ON",
        "PRAGMA max_page_count = 100000",
        "PRAGMA recursive_triggers = ON",
        "PRAGMA case_sensitive_like = ON",
        "PRAGMA ignore_check_constraints = ON",
    ] {
        let mut connection = connect(&database);
        execute(&mut connection, "BEGIN");
        let before = items(&mut connection);
        execute(&mut writer, "BEGIN IMMEDIATE");
        execute(&mut writer, INSERT);
        connection.execute(setting, params![]).unwrap_or_else(|it| panic!("{setting}: {it}"));
        assert!(!connection.holds_turn(), "{setting}");
        assert_eq!(items(&mut connection), before, "{setting}");
        if setting.contains("query_only") {
            stage::refused(connection.execute(INSERT, params![]), &["readonly"]);
            stage::refused(connection.execute("CREATE TABLE t (a)", params![]), &["readonly"]);
        }
        execute(&mut writer, "COMMIT");
        execute(&mut connection, "COMMIT");
        if setting.contains("query_only") {
            // Nor does it ask for a lock first, that another one holds.
            execute(&mut writer, "BEGIN IMMEDIATE");
            stage::refused(connection.execute("BEGIN IMMEDIATE", params![]), &["readonly"]);
            stage::refused(connection.execute("PRAGMA user_version = 5", params![]), &["readonly"]);
            execute(&mut writer, "COMMIT");
        }
    }
}

/// The modes of a schema that is no file are the connection's own affair, as in SQLite: they were refused.
#[test]
fn modes_of_the_temp_schema_and_of_attached_memory() {
    let stage = Stage::new();
    let mut connection = connect(&stage.database_with_items());
    let other = stage.directory().join("other.db");
    stage::shell(&other, "PRAGMA journal_mode=WAL; CREATE TABLE t (a)");
    execute(&mut connection, "ATTACH ':memory:' AS m");
    execute(&mut connection, &format!("ATTACH '{}' AS other", other.display()));
    let mut check = |sql: &str, answer: &[&str]| {
        let rows = connection.query(sql, params![]).unwrap_or_else(|it| panic!("{sql}: {it}"));
        let text: Vec<String> = rows.iter().map(|it| it.get(0).expect("text")).collect();
        assert_eq!(text, answer, "{sql}");
    };
    for begin in [&["BEGIN", INSERT][..], &[]] {
        begin.iter().for_each(|sql| check(sql, &[]));
        check("PRAGMA temp.journal_mode = memory", &["memory"]);
        check("PRAGMA temp.locking_mode = EXCLUSIVE", &["exclusive"]);
        check("PRAGMA m.journal_mode = off", &["off"]);
        check("PRAGMA main.journal_mode = off", &["wal"]);
        if !begin.is_empty() {
            check("COMMIT", &[]);
        }
    }
    check("PRAGMA m.synchronous = off", &[]);
    check("PRAGMA temp.synchronous = off", &[]);
    let number = |connection: &mut Connection, sql| integers(connection, sql)[0];
    assert_eq!(number(&mut connection, "PRAGMA m.synchronous"), 0);
    assert_eq!(number(&mut connection, "PRAGMA main.synchronous"), 2);
    let refused = connection.query("PRAGMA other.journal_mode = off", params![]);
    stage::refused(refused, &["refused", "WAL"]);

    execute(&mut connection, "DETACH m");
    execute(&mut connection, "DETACH other");
    execute(&mut connection, &format!("ATTACH '{}' AS m", other.display()));
    execute(&mut connection, "PRAGMA m.synchronous = extra");
    assert_eq!(number(&mut connection, "PRAGMA m.synchronous"), 3);
    execute(&mut connection, "PRAGMA m.synchronous = off");
    assert_eq!(number(&mut connection, "PRAGMA m.synchronous"), 0);
    assert_eq!(number(&mut connection, "PRAGMA synchronous"), 2);
    execute(&mut connection, "DETACH m");
    execute(&mut connection, &format!("ATTACH '{}' AS m", other.display()));
    assert_eq!(number(&mut connection, "PRAGMA m.synchronous"), 2, "that of a new one");
}

/// `PRAGMA synchronous` was refused, or had no effect. Django's `init_command`, Rails and most guides set it.
#[test]
fn synchronous_is_each_connections_own() {
    let stage = Stage::new();
    let database = stage.database_with_items();
    let level = |connection: &mut Connection| integers(connection, "PRAGMA synchronous")[0];
    let (mut one, mut other) = (connect(&database), connect(&database));
    for (argument, answer) in [("OFF", 0), ("NORMAL", 1), ("1", 1), ("FULL", 2), ("EXTRA", 3)] {
        execute(&mut one, &format!("PRAGMA synchronous = {argument}"));
        assert_eq!(level(&mut one), answer, "{argument}");
        execute(&mut one, INSERT);
        assert_eq!(level(&mut one), answer, "after a write");
        assert_eq!(level(&mut other), 2, "another connection");
    }
    for sql in ["PRAGMA synchronous = NORMAL", "PRAGMA main.synchronous = 0"] {
        for begin in ["BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT s"] {
            execute(&mut one, begin);
            let refused = one.query(sql, params![]);
            let words = ["Safety level may not be changed inside a transaction"];
            assert!(stage::refused(refused, &words).code().is_some_and(|it| it.0 == 1), "{begin}");
            execute(&mut one, INSERT);
            assert_eq!(level(&mut one), 3, "in a transaction");
            execute(&mut one, if begin == "SAVEPOINT s" { "RELEASE s" } else { "COMMIT" });
        }
    }
    // The next user of the connection finds what the database was opened with.
    execute(&mut one, "PRAGMA synchronous = OFF");
    drop((one, other));
    assert_eq!(level(&mut connect(&database)), 2);
    let normal = Database::builder(stage.path()).durability(Durability::Normal);
    let normal = normal.open().expect("opens");
    for _ in 0..2 {
        let mut connection = connect(&normal);
        assert_eq!(level(&mut connection), 1);
        execute(&mut connection, "PRAGMA synchronous = FULL");
        assert_eq!(level(&mut connection), 2);
    }
}

/// Programs look whether their setting was accepted: peewee and huey assert that `PRAGMA busy_timeout` answers it.
/// SQLite would answer 0, since it neither waits nor checkpoints by itself here.
#[test]
fn the_timeout_and_the_pages_until_a_checkpoint_answer_what_was_set() {
    let stage = Stage::new();
    let database = stage.database_with_items();
    let patient = Database::builder(stage.path()).timeout(Duration::from_millis(1_234));
    for (database, default_ms) in [(patient.open().expect("opens"), 1_234), (database, 5_000)] {
        let mut connection = connect(&database);
        for begin in ["SELECT 1", "BEGIN", "BEGIN CONCURRENT", "BEGIN IMMEDIATE"] {
            execute(&mut connection, begin);
            let mut check = |sql: &str, answer: i64| {
                assert_eq!(integers(&mut connection, sql), [answer], "{begin}: {sql}");
            };
            check("PRAGMA busy_timeout", default_ms);
            check("PRAGMA busy_timeout = 700", 700);
            check("PRAGMA busy_timeout", 700);
            check("PRAGMA busy_timeout = -1", 0);
            check("PRAGMA busy_timeout", 0);
            check(&format!("PRAGMA busy_timeout = {default_ms}"), default_ms);
            check("PRAGMA wal_autocheckpoint", 1000);
            check("PRAGMA wal_autocheckpoint = 500", 500);
            check("PRAGMA wal_autocheckpoint", 500);
            check("PRAGMA main.wal_autocheckpoint", 500);
            check("PRAGMA wal_autocheckpoint = 0", 0);
            check("PRAGMA wal_autocheckpoint", 0);
            check("PRAGMA wal_autocheckpoint = 1000", 1000);
            if !connection.is_autocommit() {
                execute(&mut connection, "COMMIT");
            }
        }
    }
    let mut in_memory = connect(&Database::open(":memory:").expect("opens"));
    assert_eq!(integers(&mut in_memory, "PRAGMA busy_timeout"), [5_000]);
    assert_eq!(integers(&mut in_memory, "PRAGMA wal_autocheckpoint"), [1_000]);
}

/// A connection that was closed and is given to its next user answers as a new one.
#[test]
fn the_next_user_of_a_connection_finds_the_defaults() {
    let stage = Stage::new();
    let database = stage.database_with_items();
    let mut connection = connect(&database);
    execute(&mut connection, "PRAGMA busy_timeout = 700");
    execute(&mut connection, "PRAGMA wal_autocheckpoint = 500");
    drop(connection);
    let mut next = connect(&database);
    assert_eq!(integers(&mut next, "PRAGMA busy_timeout"), [5_000]);
    assert_eq!(integers(&mut next, "PRAGMA wal_autocheckpoint"), [1_000]);
}
