//! The database file of a measurement: created before it, checked after it, by stock SQLite, whatever the engine.
//!
//! The invariant: what the file holds is exactly what was acknowledged. A row more is as wrong as a row less: the
//! client was told that its write failed.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OpenFlags};

use super::job::Task;

/// Rows that the counter's writers share.
pub const COUNTER_ROWS: i64 = 4;

/// Creates the file, in WAL mode, with the tables of the task.
pub fn prepare(database: &Path, task: &Task) -> Result<()> {
    let schema = match task {
        Task::Insert { .. } | Task::Physics { .. } | Task::Echo => {
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v)"
        }
        Task::Count { .. } => {
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER NOT NULL);
             INSERT INTO t VALUES (1, 0), (2, 0), (3, 0), (4, 0)"
        }
        Task::Storm { .. } => "CREATE TABLE test(id INTEGER PRIMARY KEY AUTOINCREMENT)",
    };
    let connection = Connection::open(database).context("create the database")?;
    connection.pragma_update(None, "journal_mode", "WAL").context("switch to WAL")?;
    connection.execute_batch(schema).context("create the tables")?;
    Ok(())
}

/// Holds the file what was acknowledged, and is it sound? The error says what is wrong.
pub fn verify(database: &Path, task: &Task, acknowledged: u64) -> Result<()> {
    let what_counts = match task {
        Task::Insert { .. } | Task::Physics { .. } | Task::Echo => "SELECT count(*) FROM t",
        Task::Count { .. } => "SELECT sum(a) FROM t",
        Task::Storm { .. } => "SELECT count(*) FROM test",
    };
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let stored: i64 =
        connection.query_row(what_counts, (), |row| row.get(0)).context(what_counts)?;
    ensure!(
        u64::try_from(stored) == Ok(acknowledged),
        "{stored} in the file, {acknowledged} acknowledged"
    );
    let verdict: String =
        connection.query_row("PRAGMA integrity_check(1)", (), |row| row.get(0))?;
    ensure!(verdict == "ok", "integrity_check: {verdict}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(task: &Task, sql: &str, acknowledged: u64, expected: Result<(), &str>) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let database = directory.path().join("check.db");
        prepare(&database, task).expect("a fresh file");
        let connection = Connection::open(&database).expect("just created");
        connection.execute_batch(sql).expect("plain SQL");
        let outcome = verify(&database, task, acknowledged).map_err(|error| error.to_string());
        assert_eq!(outcome, expected.map_err(str::to_owned));
    }

    /// A lost row, a row that nobody was promised, and a lost update are all found.
    #[test]
    fn the_file_must_hold_exactly_what_was_acknowledged() {
        let insert = Task::Insert { threads: 1, value_bytes: 1, seconds: 1.0 };
        check(&insert, "INSERT INTO t(v) VALUES (1), (2)", 2, Ok(()));
        check(&insert, "INSERT INTO t(v) VALUES (1)", 2, Err("1 in the file, 2 acknowledged"));
        check(
            &insert,
            "INSERT INTO t(v) VALUES (1), (2), (3)",
            2,
            Err("3 in the file, 2 acknowledged"),
        );
        let count = Task::Count { threads: 1, seconds: 1.0 };
        check(&count, "UPDATE t SET a = 5", 20, Ok(()));
        check(&count, "UPDATE t SET a = 5 WHERE id = 1", 20, Err("5 in the file, 20 acknowledged"));
        check(&Task::Storm { rounds: 1 }, "INSERT INTO test DEFAULT VALUES", 1, Ok(()));
    }
}
