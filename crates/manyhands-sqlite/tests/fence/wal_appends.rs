//! Frames are gathered, and written together. Whatever a transaction did before, when its COMMIT returns the -wal file
//! has all of it: who copies the files then, or finds them after a crash, recovers exactly that.

use std::fs;
use std::path::Path;

use manyhands_sqlite::{Connection, OpenMode};

const CONTENT: &str =
    "SELECT coalesce(group_concat(n || ':' || length(v) || ':' || hex(substr(v, 1, 3))), '')
                       FROM (SELECT * FROM t ORDER BY n)";

/// What a recovery finds in copies of the two files.
fn recovered(database: &Path) -> (String, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let copy = directory.path().join("copy.db");
    fs::copy(database, &copy).expect("copies");
    let wal = |path: &Path| format!("{}-wal", path.display());
    fs::copy(wal(database), wal(&copy)).expect("copies");
    let connection = Connection::open(&copy, OpenMode::ReadWrite, false).expect("opens");
    let text = |sql| connection.query_text(sql).expect(sql);
    (text("PRAGMA integrity_check"), text(CONTENT))
}

fn check(parameters: &str, settings: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.db");
    let uri = format!("file:{}{parameters}", path.display());
    let writer = Connection::open(uri.as_ref(), OpenMode::ReadWriteCreate, true).expect("opens");
    writer
        .execute("PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER PRIMARY KEY, v)")
        .expect("a table");
    writer.execute(settings).expect(settings);
    let reader = Connection::open(&path, OpenMode::ReadWrite, false).expect("opens");
    let mut dice = 7_u32;
    let mut roll = |sides: u32| {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (dice >> 8) % sides
    };
    for round in 0..150 {
        writer.execute("BEGIN IMMEDIATE").expect("begins");
        for _ in 0..roll(6) {
            // With a cache of ten pages, most of these write into the WAL before the COMMIT.
            let (first, rows, bytes) = (roll(200), 1 + roll(60), roll(6000));
            let filled = format!(
                "WITH RECURSIVE i(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM i LIMIT {rows})
                 INSERT OR REPLACE INTO t SELECT n, randomblob({bytes}) FROM i"
            );
            let back = ["", "; ROLLBACK TO s"][usize::from(roll(4) == 0)];
            writer.execute(&format!("SAVEPOINT s; {filled}{back}; RELEASE s")).expect("writes");
            writer.execute(&format!("DELETE FROM t WHERE n % 7 = {}", roll(7))).expect("deletes");
        }
        let ending = if roll(5) == 0 { "ROLLBACK" } else { "COMMIT" };
        writer.execute(ending).expect(ending);
        let written = writer.query_text(CONTENT).expect("reads");
        assert_eq!(reader.query_text(CONTENT).expect("reads"), written, "round {round}");
        assert_eq!(recovered(&path), ("ok".to_owned(), written), "round {round}, {ending}");
    }
}

#[test]
fn when_a_commit_returns_the_file_has_it() {
    check("", "PRAGMA synchronous = FULL");
    check("", "PRAGMA synchronous = NORMAL");
}

/// A full page cache writes frames before the commit, reads and overwrites them; where a write may damage its
/// neighbours, SQLite fills the sector up with copies of the commit frame.
#[test]
fn when_a_large_commit_returns_the_file_has_it() {
    check("", "PRAGMA synchronous = NORMAL; PRAGMA cache_size = 10");
    check("?psow=0", "PRAGMA synchronous = FULL; PRAGMA cache_size = 10");
    check(
        "",
        "PRAGMA synchronous = NORMAL; PRAGMA cache_size = 10; PRAGMA wal_autocheckpoint = 100",
    );
}
