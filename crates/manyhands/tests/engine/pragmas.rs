//! PRAGMAs that answer as SQLite's do: a checkpoint in a transaction, and what concerns another schema than `main`.

use std::fs;
use std::time::Duration;

use manyhands::{Connection, Database, TransactionMode, params};

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
