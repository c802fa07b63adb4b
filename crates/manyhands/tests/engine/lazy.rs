//! Lazy transactions: what a driver begins by itself begins when it must.

use std::time::Duration;

use manyhands::driver::{ConnectionExt, InfallibleWrite, is_known};
use manyhands::{Connection, Database, Outcome, TransactionMode, params};

struct Scene {
    _directory: tempfile::TempDir,
    database: Database,
}

impl Scene {
    fn new() -> Scene {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::builder(directory.path().join("app.db"))
            .transaction_mode(TransactionMode::Auto)
            .timeout(Duration::from_millis(300))
            .open()
            .expect("opens");
        let mut connection = database.connect().expect("connects");
        connection
            .execute_script(
                "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO t VALUES (1, 1)",
            )
            .expect("a table");
        Scene { _directory: directory, database }
    }

    fn connect(&self) -> Connection {
        let mut connection = self.database.connect().expect("connects");
        connection.defer_writes(true);
        connection
    }

    fn sum(&self) -> i64 {
        let rows = self.connect().query("SELECT total(n) FROM t", params![]).expect("reads");
        rows[0].get::<f64>(0).expect("a number") as i64
    }
}

const ADD: &str = "UPDATE t SET n = n + ?1 WHERE id = ?2";
const INSERT: &str = "INSERT INTO t (n) VALUES (?1)";

fn lazily(connection: &mut Connection, sql: &str, n: i64) -> (Outcome, InfallibleWrite) {
    let values = if sql == ADD { vec![n.into(), 1.into()] } else { vec![n.into()] };
    connection.execute_lazily("BEGIN", sql, &values).expect("it cannot fail")
}

#[test]
fn a_lazy_transaction_commits_as_one() {
    let scene = Scene::new();
    let mut connection = scene.connect();
    let (added, _) = lazily(&mut connection, ADD, 10);
    let (inserted, infallible) = lazily(&mut connection, INSERT, 100);
    assert_eq!(infallible, InfallibleWrite::OneRow);
    assert!(connection.is_in_transaction() && connection.is_autocommit());
    assert!(!is_known(&added) && !is_known(&inserted));
    assert_eq!(scene.sum(), 1, "nobody sees it yet");
    connection.commit_open().expect("commits");
    assert!(is_known(&added) && is_known(&inserted));
    assert_eq!((added.changes(), inserted.last_insert_rowid()), (1, 2));
    assert_eq!(scene.sum(), 111);
    assert!(!connection.is_in_transaction());
}

#[test]
fn who_asks_begins_it_and_is_told_what_stays_so() {
    let scene = Scene::new();
    let mut connection = scene.connect();
    let (inserted, _) = lazily(&mut connection, INSERT, 100);
    assert_eq!(connection.last_insert_rowid_of(&inserted).expect("an id"), 2);
    assert!(!connection.is_autocommit() && connection.holds_turn());
    connection.roll_back_open().expect("rolls back");
    assert_eq!(scene.sum(), 1);
}

/// Whatever else the connection is called for finds what was written before.
#[test]
fn every_other_call_begins_it() {
    let scene = Scene::new();
    let reads = |connection: &mut Connection| {
        connection.query("SELECT total(n) FROM t", params![]).expect("reads")[0]
            .get::<f64>(0)
            .expect("n")
    };
    let mut connection = scene.connect();
    lazily(&mut connection, ADD, 10);
    assert_eq!(reads(&mut connection), 11.0);
    connection.roll_back_open().expect("rolls back");

    lazily(&mut connection, ADD, 10);
    let copy = connection.serialize("main").expect("its bytes");
    connection.roll_back_open().expect("rolls back");
    let memory = Database::open(":memory:").expect("opens");
    let mut copied = memory.connect().expect("connects");
    copied.deserialize("main", &copy).expect("a database");
    assert_eq!(reads(&mut copied), 11.0);

    // A copy has what is committed: SQLite's own steps would find the source busy until then.
    lazily(&mut connection, ADD, 100);
    let mut target = memory.connect().expect("connects");
    let mut backup = connection.backup("main", &mut target, "main").expect("a backup");
    backup.step(None).expect("copies");
    backup.finish().expect("is done");
    connection.roll_back_open().expect("rolls back");
    assert_eq!(reads(&mut target), 1.0);
    assert_eq!(scene.sum(), 1);
}

#[test]
fn names_of_a_write_begin_nothing() {
    let scene = Scene::new();
    let mut connection = scene.connect();
    lazily(&mut connection, ADD, 10);
    assert_eq!(connection.parameter_names("DELETE FROM t WHERE n = :n").expect("names").len(), 1);
    assert!(connection.is_autocommit());
    assert_eq!(connection.parameter_names("SELECT :n").expect("names").len(), 1);
    assert!(!connection.is_autocommit(), "what may do something when it is compiled begins it");
    connection.commit_open().expect("commits");
    assert_eq!(scene.sum(), 11);
}

/// It can be tried again.
#[test]
fn a_wait_in_vain_leaves_it_lazy() {
    let scene = Scene::new();
    let mut other = scene.connect();
    other.execute("BEGIN IMMEDIATE", params![]).expect("its turn");
    let mut connection = scene.connect();
    let (added, _) = lazily(&mut connection, ADD, 10);
    assert!(connection.commit_open().expect_err("no turn").is_timeout());
    assert!(connection.is_in_transaction() && !is_known(&added));
    other.execute("ROLLBACK", params![]).expect("ends");
    connection.commit_open().expect("commits");
    assert_eq!(scene.sum(), 11);
}

/// A driver that puts plain connections away would lose what was written.
#[test]
fn a_connection_with_a_lazy_transaction_is_not_plain() {
    let scene = Scene::new();
    let mut connection = scene.connect();
    lazily(&mut connection, ADD, 10);
    assert!(!connection.is_plain());
    connection.commit_open().expect("commits");
    assert!(connection.is_plain());
}

/// A statement that the log does not have, after one that was deferred: the last insert is the deferred one, as in SQLite.
#[test]
fn a_pragma_tells_the_id_of_the_insert_before_it() {
    let scene = Scene::new();
    let statements = ["PRAGMA foreign_keys = ON", "EXPLAIN SELECT 1", "PRAGMA cache_size"];
    for (place, sql) in statements.into_iter().enumerate() {
        let mut connection = scene.connect();
        connection.execute("BEGIN", ()).expect("begins");
        connection.execute(INSERT, (5,)).expect("inserts");
        let after = connection.start(sql, &[]).expect(sql).outcome;
        assert_eq!(connection.last_insert_rowid_of(&after).expect("an id"), 2 + place as i64);
        assert_eq!(after.changes(), 0);
        connection.commit_open().expect("commits");
    }
}
