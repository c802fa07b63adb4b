//! Hooks that tell of changed rows, commits and rollbacks: each event once, in SQLite's order, in every mode.

use std::sync::Mutex;

use manyhands::{Code, Database, Progress, RowChange, TransactionMode};
use manyhands_sqlite as sqlite;

use super::*;

/// What was told, in its order.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    fn note(&self, event: impl Into<String>) {
        self.0.lock().expect("no panic").push(event.into());
    }

    fn take(&self) -> Vec<String> {
        core::mem::take(&mut self.0.lock().expect("no panic"))
    }

    fn changed(&self) -> impl Fn(&RowChange<'_>) + Send + 'static {
        let events = self.clone();
        move |it| events.note(format!("{:?} {}.{} {}", it.kind, it.schema, it.table, it.rowid))
    }

    fn committing(&self) -> impl Fn() -> Progress + Send + 'static {
        let events = self.clone();
        move || {
            events.note("commit");
            Progress::Continue
        }
    }

    fn rolled_back(&self) -> impl Fn() + Send + 'static {
        let events = self.clone();
        move || events.note("rollback")
    }
}

const SETUP: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, n UNIQUE); CREATE TABLE log (id INTEGER PRIMARY KEY, n);
    CREATE TRIGGER follow AFTER INSERT ON t BEGIN INSERT INTO log (n) VALUES (new.n); END;
    CREATE TABLE elsewhere (n)";

/// Each group is one transaction, or a statement alone.
const SCRIPT: [&str; 9] = [
    "INSERT INTO t (n) VALUES (1), (2)",
    "UPDATE t SET n = n + 10 WHERE id = 1",
    "INSERT INTO t (n) VALUES (2)",
    "BEGIN; SELECT count(*) FROM t; INSERT INTO t (n) VALUES (3); COMMIT",
    "BEGIN; INSERT INTO t (n) VALUES (4); SELECT n FROM t; ROLLBACK",
    "BEGIN; SELECT max(n) FROM t; COMMIT",
    "BEGIN IMMEDIATE; DELETE FROM t WHERE id = 1; COMMIT",
    "BEGIN; INSERT INTO t (n) VALUES (5); SAVEPOINT s; DELETE FROM t WHERE id > 1; ROLLBACK TO s; COMMIT",
    "INSERT INTO t (n) VALUES (6) RETURNING id",
];

/// `begin` is what BEGIN means.
fn with_stock(begin: &str) -> Vec<String> {
    let stage = Stage::without_disk();
    let mode = sqlite::OpenMode::ReadWriteCreate;
    let connection = sqlite::Connection::open(&stage.path(), mode, false).expect("opens");
    connection.execute("PRAGMA journal_mode = WAL").expect("WAL mode");
    connection.execute(SETUP).expect("the setup");
    let events = Events::default();
    connection.set_update_hook(Some(events.changed()));
    connection.set_commit_hook(Some(events.committing()));
    connection.set_rollback_hook(Some(events.rolled_back()));
    for sql in SCRIPT.iter().flat_map(|group| group.split("; ")) {
        events.note(sql);
        let _ = connection.execute(if sql == "BEGIN" { begin } else { sql });
    }
    events.take()
}

/// As in SQLite, while another connection commits between the statements of each transaction: so that each log would have
/// been executed again.
#[test]
fn each_event_is_told_once() {
    use TransactionMode::{Auto, Immediate, Optimistic};
    // One that could conflict takes its turn at once.
    for (mode, begin) in
        [(Optimistic, "BEGIN IMMEDIATE"), (Auto, "BEGIN"), (Immediate, "BEGIN IMMEDIATE")]
    {
        let expected = with_stock(begin);
        assert!(expected.iter().filter(|it| *it == "commit").count() > 5, "{expected:?}");
        let stage = Stage::new();
        let database =
            Database::builder(stage.path()).transaction_mode(mode).open().expect("opens");
        let (mut connection, mut other) = (connect(&database), connect(&database));
        connection.execute_script(SETUP).expect("the setup");
        let events = Events::default();
        connection.set_update_hook(Some(events.changed())).expect("is set");
        connection.set_commit_hook(Some(events.committing())).expect("is set");
        connection.set_rollback_hook(Some(events.rolled_back())).expect("is set");
        for sql in SCRIPT.iter().flat_map(|group| group.split("; ")) {
            events.note(sql);
            let _ = connection.execute(sql, ());
            if !connection.holds_turn() {
                other
                    .execute("INSERT INTO elsewhere VALUES (1)", ())
                    .expect("somebody else writes");
            }
        }
        assert_eq!(events.take(), expected, "{mode:?}");
    }
}

/// A hook that is set in a transaction is told of what follows, once, whatever others commit meanwhile; one that is unset is
/// told nothing.
#[test]
fn hooks_are_set_in_a_transaction() {
    let stage = Stage::new();
    let (mut one, mut other) = (with_items(&stage), connect(&stage.database()));
    for before in ["SELECT 1", "SELECT count(*) FROM item", "INSERT INTO item VALUES (8, 'y')"] {
        let events = Events::default();
        let mut transaction = one.transaction().expect("begins");
        transaction.execute(before, ()).expect(before);
        other
            .execute("UPDATE item SET note = note WHERE id = 2", ())
            .expect("somebody else writes");
        transaction.set_update_hook(Some(events.changed())).expect("is set");
        transaction.execute("INSERT INTO item VALUES (9, 'x')", ()).expect("inserts");
        transaction.commit().expect("commits in its turn");
        assert_eq!(events.take(), ["Insert main.item 9"], "{before}");
        one.set_update_hook(None::<fn(&RowChange<'_>)>).expect("is unset");
        one.execute("DELETE FROM item WHERE id > 3", ()).expect("deletes");
        assert_eq!(events.take(), [""; 0]);
        one = connect(&stage.database());
    }
}

/// A commit that its hook forbids does not happen, and the connection goes on.
#[test]
fn a_commit_is_forbidden() {
    let stage = Stage::new();
    let mut connection = with_items(&stage);
    connection.set_commit_hook(Some(|| Progress::Stop)).expect("is set");
    let forbidden = Code(19 | 2 << 8);
    let alone = connection.execute("DELETE FROM item", ()).expect_err("forbidden");
    assert_eq!(alone.code(), Some(forbidden));
    let mut transaction = connection.transaction().expect("begins");
    transaction.execute("DELETE FROM item", ()).expect("deletes");
    assert_eq!(transaction.commit().expect_err("forbidden").code(), Some(forbidden));
    connection.set_commit_hook(None::<fn() -> Progress>).expect("is unset");
    assert_eq!(stage::items(&mut connection), 3);
    connection.execute("DELETE FROM item WHERE id = 1", ()).expect("deletes");
    assert_eq!(stage::items(&mut connect(&stage.database())), 2);
}
