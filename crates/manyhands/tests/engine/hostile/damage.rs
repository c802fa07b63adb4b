//! A small database and its WAL, damaged, then opened through Manyhands. Shared with the fuzz target
//! `fuzz/fuzz_targets/damaged_database.rs`.
//!
//! What must hold: every call returns an error or a result, in time, and the error says something. What was
//! acknowledged is there, once and whole, when plain SQLite opens the file afterwards and `integrity_check`
//! says ok. If it finds damage, there is no promise: the damage was there before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use manyhands::{Connection, Database, Error, params};
use manyhands_sqlite::{self as sqlite, OpenMode, Step, ValueRef};

use super::decisions::Decisions;

/// How long a round may take: nobody else has the file.
const ROUND_MAX: Duration = Duration::from_secs(10);
/// Places that are damaged at once, at most.
const DAMAGES_MAX: usize = 6;
/// Bytes of the first page and of the WAL's header and first frame headers: where damage says most.
const HEADER_BYTES: usize = 160;

/// A database to damage.
pub struct Patient {
    directory: PathBuf,
    database: Vec<u8>,
    wal: Vec<u8>,
    round: i64,
}

impl Patient {
    /// Makes the files in an empty directory.
    pub fn new(directory: &Path) -> Patient {
        let path = directory.join("healthy.db");
        let database = Database::open(&path).expect("an empty directory");
        let mut connection = database.connect().expect("a connection");
        connection
            .execute_script(
                "PRAGMA page_size = 1024;
                 CREATE TABLE item (id INTEGER PRIMARY KEY, note TEXT UNIQUE, size INTEGER);
                 CREATE INDEX item_size ON item (size);
                 CREATE TABLE counter (n INTEGER NOT NULL);
                 INSERT INTO counter VALUES (0);
                 INSERT INTO item WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 60)
                   SELECT i, 'note ' || i, i % 7 FROM n;
                 INSERT INTO item VALUES (1000, printf('%.*c', 5000, 'x'), 5000);
                 PRAGMA wal_checkpoint(TRUNCATE);
                 DELETE FROM item WHERE id BETWEEN 20 AND 40;
                 UPDATE counter SET n = 1;
                 INSERT INTO item VALUES (2000, 'in the WAL', 8);",
            )
            .expect("the files");
        let read = |path: PathBuf| std::fs::read(path).expect("the file is there");
        let (main, wal) = (read(path), read(directory.join("healthy.db-wal")));
        assert!(main.len() > 5000 && wal.len() > 1000, "{} {}", main.len(), wal.len());
        Patient { directory: directory.to_owned(), database: main, wal, round: 0 }
    }

    /// Damages copies as `bytes` say, and works with them.
    ///
    /// # Panics
    /// When something does not hold that must.
    pub fn open_damaged(&mut self, bytes: &[u8]) {
        self.round += 1;
        let mut decisions = Decisions(bytes);
        let (mut database, mut wal) = (self.database.clone(), self.wal.clone());
        for _ in 0..usize::from(decisions.byte()) % DAMAGES_MAX + 1 {
            let file = if decisions.byte().is_multiple_of(2) { &mut database } else { &mut wal };
            damage(file, &mut decisions);
        }
        let path = self.directory.join("damaged.db");
        let beside = |suffix: &str| self.directory.join(format!("damaged.db{suffix}"));
        for suffix in ["-shm", "-hands", "-journal"] {
            let _ = std::fs::remove_file(beside(suffix));
        }
        std::fs::write(&path, &database).expect("a file");
        std::fs::write(beside("-wal"), &wal).expect("a file");
        let began = Instant::now();
        let acknowledged = work(&path, &mut decisions);
        assert!(began.elapsed() < ROUND_MAX, "{:?}", began.elapsed());
        examine(&path, &acknowledged);
    }
}

/// Changes a part of a file: a few bytes, a page, its length.
fn damage(file: &mut Vec<u8>, decisions: &mut Decisions<'_>) {
    if file.is_empty() {
        return;
    }
    let anywhere = decisions.below(file.len());
    let at = match decisions.byte() % 4 {
        0 => anywhere % HEADER_BYTES.min(file.len()),
        // The start of a page, and of a frame.
        1 => anywhere / 1024 * 1024,
        2 => (32 + anywhere / 1048 * 1048).min(file.len() - 1),
        _ => anywhere,
    };
    let count = usize::from(decisions.byte() % 9).min(file.len() - at);
    let place = &mut file[at..at + count];
    match decisions.byte() % 8 {
        0 => place.fill(0),
        1 => place.fill(0xFF),
        2 | 3 => place.iter_mut().for_each(|byte| *byte = decisions.byte()),
        4 => place.iter_mut().for_each(|byte| *byte ^= 1 << (decisions.byte() % 8)),
        5 => file.truncate(at),
        // A page or a frame of another place.
        6 => {
            let from = decisions.below(file.len());
            let length = 1048.min(file.len() - from.max(at));
            file.copy_within(from..from + length, at);
        }
        _ => file.extend_from_within(at..),
    }
}

/// Rows that were acknowledged, by their id.
type Acknowledged = BTreeMap<i64, String>;

/// Reads and writes as an application would, and goes on after errors.
fn work(path: &Path, decisions: &mut Decisions<'_>) -> Acknowledged {
    let mut acknowledged = Acknowledged::new();
    let database = Database::builder(path).timeout(Duration::from_millis(500)).open();
    let connections = told(database).map(|database| [database.connect(), database.connect()]);
    let Some([Ok(mut one), Ok(mut other)]) = connections else { return acknowledged };
    for number in 0..usize::from(decisions.byte() % 12) + 4 {
        let id = 10_000 + number as i64;
        let note = format!("new {number}");
        let connection = if decisions.byte().is_multiple_of(2) { &mut one } else { &mut other };
        let insert = "INSERT INTO item VALUES (?1, ?2, ?3)";
        let values = params![id, &note, number as i64];
        let done = match decisions.byte() % 8 {
            0 | 1 => told(connection.execute(insert, values)).is_some(),
            2 => {
                let count = "UPDATE counter SET n = n + 1";
                told(connection.batch(&[(insert, values), (count, params![])])).is_some()
            }
            3 => told(optimistic(connection, insert, values)).is_some(),
            4 => {
                let sql = "SELECT count(*), sum(size), max(note) FROM item";
                told(connection.query(sql, params![]));
                told(connection.query("SELECT * FROM item ORDER BY size, id", params![]));
                false
            }
            5 => {
                told(connection.execute("DELETE FROM item WHERE id = ?1", params![number as i64]));
                false
            }
            6 => {
                told(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)", params![]));
                false
            }
            _ => {
                told(connection.execute("CREATE TABLE IF NOT EXISTS more (a)", params![]));
                told(connection.execute("UPDATE item SET size = size + 1 WHERE id < 9", params![]));
                false
            }
        };
        if done {
            acknowledged.insert(id, note);
        }
    }
    acknowledged
}

fn optimistic(
    connection: &mut Connection,
    insert: &str,
    values: &[manyhands::Value],
) -> Result<(), Error> {
    let mut transaction = connection.transaction()?;
    transaction.query("SELECT n FROM counter", params![])?;
    transaction.execute(insert, values)?;
    transaction.execute("UPDATE counter SET n = n + 1", params![])?;
    transaction.commit()
}

/// The result, if it is one; an error must say something.
fn told<T>(result: Result<T, Error>) -> Option<T> {
    let error = match result {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    let text = error.to_string();
    assert!(text.len() > 8, "{text:?}");
    assert!(!error.is_outcome_unknown(), "nobody died, no sync failed: {text}");
    None
}

/// Looks at the files with plain SQLite.
fn examine(path: &Path, acknowledged: &Acknowledged) {
    let Ok(connection) = sqlite::Connection::open(path, OpenMode::ReadWrite, false) else { return };
    if connection.query_text("PRAGMA integrity_check").ok().as_deref() != Some("ok") {
        return;
    }
    let Ok(mut statement) = connection.prepare_one("SELECT note FROM item WHERE id = ?1") else {
        assert!(
            acknowledged.is_empty(),
            "the table is gone, and {acknowledged:?} was acknowledged"
        );
        return;
    };
    for (id, note) in acknowledged {
        statement.bind(1, ValueRef::Integer(*id)).expect("a parameter");
        let mut rows = Vec::new();
        while statement.step().expect("integrity_check said ok") == Step::Row {
            rows.push(statement.column(0).to_owned());
        }
        statement.reset();
        assert_eq!(rows, [manyhands::Value::from(note)], "row {id} was acknowledged");
    }
}
