//! What is read through a mapping is what is read from the file, whatever others do to it.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use manyhands_sqlite::{CheckpointMode, Connection, Error, OpenMode};

use super::own_process::{Child, tell};

const PAGE: u64 = 4096;

/// The pages behind the large value, and its last one.
const GONE: u64 = 4 * PAGE;

/// A value that takes several pages.
const LARGE: usize = 10 * PAGE as usize;

fn connect(path: &Path) -> Connection {
    Connection::open(path, OpenMode::ReadWriteCreate, false).expect("a connection")
}

/// A database of some 400 pages, all of them in its file and none in the WAL.
fn database(directory: &Path) -> PathBuf {
    let path = directory.join("app.db");
    let connection = connect(&path);
    let large = LARGE;
    connection
        .execute(&format!(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER, filler TEXT);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
             INSERT INTO t SELECT i, i, hex(zeroblob(250)) FROM n;
             CREATE TABLE large(id INTEGER PRIMARY KEY, bytes BLOB, number INTEGER);
             CREATE TABLE behind(bytes BLOB);
             INSERT INTO large VALUES (1, randomblob({large}), 77);
             INSERT INTO behind VALUES (randomblob(3 * 4096));"
        ))
        .expect("the database is filled");
    empty_the_wal(&connection);
    path
}

fn empty_the_wal(connection: &Connection) {
    connection.checkpoint(CheckpointMode::Truncate).expect("a checkpoint");
}

/// Reads rows of many pages, as many as it takes until they are read through the mapping.
fn sum(connection: &Connection) -> Result<i64, Error> {
    connection.query_integer("SELECT sum(v) FROM t")
}

fn expected_sum() -> i64 {
    (1..=3000).sum()
}

/// The mappings of this process of a file of this name.
fn mappings(path: &Path) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is there");
    let name = path.to_str().expect("a path of the test's own");
    maps.lines().filter(|line| line.ends_with(name)).count()
}

fn cut(path: &Path, bytes: u64) {
    let file = OpenOptions::new().write(true).open(path).expect("the file is there");
    file.set_len(bytes).expect("it can be cut");
    // Not closed: that would drop what another copy of SQLite locks here, if there was one.
    std::mem::forget(file);
}

fn length(path: &Path) -> u64 {
    path.metadata().expect("the file is there").len()
}

#[test]
fn all_connections_of_a_process_read_through_one_mapping() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = database(directory.path());
    let (one, other) = (connect(&path), connect(&path));
    assert_eq!(one.query_integer("SELECT v FROM t WHERE id = 7").ok(), Some(7));
    assert_eq!(mappings(&path), 0, "a few pages are not worth it");
    assert_eq!((sum(&one), sum(&other)), (Ok(expected_sum()), Ok(expected_sum())));
    assert_eq!(mappings(&path), 1);
    drop((one, other));
    assert_eq!(mappings(&path), 0);
}

fn wal_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", path.display()))
}

/// What was committed and is not in the database file yet is read through a mapping, too.
#[test]
fn frames_are_read_through_one_mapping() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = database(directory.path());
    let (writer, one, other) = (connect(&path), connect(&path), connect(&path));
    let without = connect(&path);
    without.execute("PRAGMA mmap_size = 0").expect("without");
    writer.execute("UPDATE t SET v = v + 1").expect("an update");
    let expected = Ok(expected_sum() + 3000);
    assert_eq!(sum(&without), expected);
    assert_eq!(mappings(&wal_of(&path)), 0);
    assert_eq!((sum(&one), sum(&other)), (expected.clone(), expected));
    assert_eq!(mappings(&wal_of(&path)), 1);
    // The next ones are written over the first, and then behind the end of a file that was emptied.
    for (round, mode) in [(2, CheckpointMode::Restart), (3, CheckpointMode::Truncate)] {
        writer.checkpoint(mode).expect("a checkpoint");
        writer.execute("UPDATE t SET v = v + 1").expect("an update");
        assert_eq!(sum(&one), Ok(expected_sum() + round * 3000));
    }
    drop((writer, one, other, without));
    assert_eq!(mappings(&wal_of(&path)), 0);
}

/// Whoever commits, checkpoints or makes the file shorter or longer.
#[test]
fn what_others_write_is_seen() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = database(directory.path());
    let (reader, writer) = (connect(&path), connect(&path));
    assert_eq!(sum(&reader), Ok(expected_sum()));
    let mut expected = expected_sum();
    for round in 1..=20 {
        writer.execute("UPDATE t SET v = v + 1 WHERE id % 100 = 0").expect("an update");
        expected += 30;
        assert_eq!(sum(&reader), Ok(expected), "from the WAL, round {round}");
        if round % 2 == 0 {
            empty_the_wal(&writer);
            assert_eq!(sum(&reader), Ok(expected), "from the file, round {round}");
        }
    }
    let full = length(&path);
    writer
        .execute("DELETE FROM large; DELETE FROM behind; DELETE FROM t WHERE id > 100; VACUUM")
        .expect("it shrinks");
    empty_the_wal(&writer);
    assert!(length(&path) < full / 2);
    assert_eq!(reader.query_integer("SELECT count(*) FROM t"), Ok(100));
    writer
        .execute(
            "WITH RECURSIVE n(i) AS (SELECT 101 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
             INSERT INTO t SELECT i, 1, hex(zeroblob(250)) FROM n",
        )
        .expect("it grows");
    empty_the_wal(&writer);
    assert!(length(&path) > full);
    assert_eq!(reader.query_integer("SELECT count(*) FROM t"), Ok(6000));
    assert_eq!(reader.query_text("PRAGMA integrity_check").as_deref(), Ok("ok"));
}

/// A snapshot is one, though others write and checkpoint as far as they may.
#[test]
fn a_snapshot_stays_as_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = database(directory.path());
    let (reader, writer) = (connect(&path), connect(&path));
    reader.execute("BEGIN").expect("a transaction");
    let mut rows = reader.prepare_one("SELECT v FROM t ORDER BY id").expect("a statement");
    for expected in 1..=1000 {
        rows.step().expect("a row");
        assert_eq!(rows.row(), [manyhands_sqlite::Value::Integer(expected)]);
        if expected % 100 == 0 {
            writer.execute("UPDATE t SET v = v + 1").expect("an update");
            writer.checkpoint(CheckpointMode::Passive).expect("a checkpoint");
        }
    }
    drop(rows);
    assert_eq!(sum(&reader), Ok(expected_sum()));
    reader.execute("COMMIT").expect("its end");
    assert_eq!(sum(&reader), Ok(expected_sum() + 10 * 3000));
}

#[test]
fn a_connection_reads_the_file_that_it_has_open() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = database(directory.path());
    let old = connect(&path);
    let moved = directory.path().join("moved.db");
    std::fs::rename(&path, &moved).expect("it is renamed");
    assert_eq!(database(directory.path()), path);
    let new = connect(&path);
    new.execute("UPDATE t SET v = 0").expect("another database");
    empty_the_wal(&new);
    assert_eq!((sum(&old), sum(&new)), (Ok(expected_sum()), Ok(0)));
    assert_eq!((mappings(&path), mappings(&moved)), (1, 1));
}

#[test]
fn an_application_can_do_without() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = database(directory.path());
    let connection = connect(&path);
    assert_eq!(connection.query_integer("PRAGMA mmap_size"), Ok(256 << 20));
    connection.execute("PRAGMA mmap_size = 0").expect("without");
    assert_eq!(connection.query_integer("PRAGMA mmap_size"), Ok(0));
    assert_eq!(sum(&connection), Ok(expected_sum()));
    assert_eq!(mappings(&path), 0);
    connection.execute("PRAGMA mmap_size = 65536").expect("sixteen pages");
    assert_eq!(sum(&connection), Ok(expected_sum()));
    connect(&path).execute("UPDATE t SET v = v + 1").expect("more than sixteen pages in the WAL");
    assert_eq!(sum(&connection), Ok(expected_sum() + 3000));
    assert_eq!(connection.query_integer("PRAGMA mmap_size"), Ok(65536));
}

/// Somebody cuts the file while it is read. SQLite takes what is missing for zeros, and so it does here; it is not the
/// end of the process.
#[test]
fn a_file_that_was_cut_is_read_as_without_a_mapping() {
    tell("mapped_file::a_file_that_was_cut_is_read_as_without_a_mapping", || {
        let directory = tempfile::tempdir().expect("a directory");
        let path = database(directory.path());
        let whole = std::fs::read(&path).expect("the file");
        let (mapped, plain) = (connect(&path), connect(&path));
        plain.execute("PRAGMA mmap_size = 0").expect("without");
        for connection in [&mapped, &plain] {
            connection.execute("PRAGMA cache_size = 10").expect("little to remember");
            assert_eq!(sum(connection), Ok(expected_sum()));
            connection.execute("BEGIN; SELECT count(*) FROM t").expect("a transaction");
        }
        let first = |connection: &Connection| {
            connection.query_integer("SELECT sum(v) FROM t WHERE id < 1000").map_err(|it| it.code)
        };
        let number = |connection: &Connection| connection.query_integer("SELECT number FROM large");
        cut(&path, length(&path) - GONE);
        assert_eq!(number(&mapped), Ok(0), "the end of its row is gone");
        assert_eq!(number(&mapped), number(&plain));
        assert_eq!(first(&mapped), Ok((1..1000).sum()), "what is left is as it was");
        // In the middle of a tree.
        cut(&path, 20 * PAGE);
        assert!(first(&mapped).is_err());
        assert_eq!(first(&mapped), first(&plain));
        drop((mapped, plain));
        assert_eq!(mappings(&path), 0);

        std::fs::write(&path, whole).expect("the file is mended");
        let connection = connect(&path);
        assert_eq!((sum(&connection), number(&connection)), (Ok(expected_sum()), Ok(77)));
        assert_eq!(mappings(&path), 1);
    });
}

/// A database whose pages are in its -wal file, and two connections that have read them all and remember few: with a
/// mapping, and without.
fn database_in_its_wal(directory: &Path) -> (PathBuf, Connection, Connection) {
    let path = database(directory);
    let (writer, mapped, plain) = (connect(&path), connect(&path), connect(&path));
    plain.execute("PRAGMA mmap_size = 0").expect("without");
    writer.execute("UPDATE t SET v = v + 1").expect("an update");
    for connection in [&mapped, &plain] {
        connection.execute("PRAGMA cache_size = 10").expect("little to remember");
        assert_eq!(sum(connection), Ok(expected_sum() + 3000));
    }
    assert_eq!(mappings(&wal_of(&path)), 1);
    (path, mapped, plain)
}

/// The same of the -wal file, which SQLite says it cannot read then.
#[test]
fn a_wal_that_was_cut_is_read_as_without_a_mapping() {
    tell("mapped_file::a_wal_that_was_cut_is_read_as_without_a_mapping", || {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, mapped, plain) = database_in_its_wal(directory.path());
        cut(&wal_of(&path), 20 * PAGE);
        let code = |connection: &Connection| sum(connection).map_err(|error| error.code.name());
        assert_eq!(code(&mapped), Err("SQLITE_IOERR_SHORT_READ"));
        assert_eq!(code(&mapped), code(&plain));
        let first = |connection: &Connection| {
            connection.query_integer("SELECT sum(v) FROM t WHERE id < 30")
        };
        assert_eq!(first(&mapped), Ok((1..30).map(|v| v + 1).sum()), "what is left is as it was");
        assert_eq!(first(&mapped), first(&plain));
    });
}

/// Where the file ends in a page of memory, the rest of that page is zeros in the mapping.
#[test]
fn a_wal_that_was_cut_in_a_page_is_read_as_without_a_mapping() {
    tell("mapped_file::a_wal_that_was_cut_in_a_page_is_read_as_without_a_mapping", || {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, mapped, plain) = database_in_its_wal(directory.path());
        // 500 bytes of the twenty-first frame are missing: less than what it has in its last page of memory.
        cut(&wal_of(&path), 32 + 21 * (24 + PAGE) - 500);
        let row = |connection: &Connection, id: i64| {
            let sql = format!("SELECT v || filler FROM t WHERE id = {id}");
            connection.query_text(&sql).map_err(|error| error.code.name())
        };
        let mut failed = 0;
        for id in 1..200 {
            let expected = row(&plain, id);
            assert_eq!(row(&mapped, id), expected, "{id}");
            failed += u32::from(expected.is_err());
        }
        assert!(failed > 1);
    });
}

/// A database that has become shorter, and its file not yet: a checkpoint cuts it under its readers, right behind their
/// last page.
#[test]
fn a_checkpoint_cuts_what_no_snapshot_has() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("app.db");
    let writer = connect(&path);
    writer
        .execute(
            "PRAGMA auto_vacuum = INCREMENTAL;
             PRAGMA journal_mode = WAL;
             CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER, filler TEXT);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
             INSERT INTO t SELECT i, i, hex(zeroblob(250)) FROM n;
             CREATE TABLE behind(bytes BLOB);
             CREATE INDEX by_v ON t(v);
             INSERT INTO behind VALUES (randomblob(40960));",
        )
        .expect("a database");
    empty_the_wal(&writer);
    let full = length(&path);
    writer.execute("DELETE FROM behind; PRAGMA incremental_vacuum").expect("it becomes shorter");

    let reader = connect(&path);
    reader.execute("BEGIN").expect("a transaction");
    assert_eq!(sum(&reader), Ok(expected_sum()));
    let by_index = || {
        for v in 2500..=3000 {
            let sql = format!("SELECT count(*) FROM t INDEXED BY by_v WHERE v = {v}");
            assert_eq!(reader.query_integer(&sql), Ok(1), "{v}");
        }
    };
    by_index();
    writer.checkpoint(CheckpointMode::Passive).expect("a checkpoint");
    assert!(length(&path) < full, "the file is cut");
    by_index();
    assert_eq!(sum(&reader), Ok(expected_sum()));
    // A page that was missing would be another mapping.
    assert_eq!(mappings(&path), 1);
}

#[test]
fn who_may_only_read_maps_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = database(directory.path());
    let reader = Connection::open(&path, OpenMode::ReadOnly, false).expect("a connection");
    assert_eq!(sum(&reader), Ok(expected_sum()));
    assert_eq!(mappings(&path), 0);
}

/// Where SQLite compares records it reads some bytes behind them, which must be there too: an index on the last page
/// of the file was taken for missing.
#[test]
fn the_last_page_is_read() {
    tell("mapped_file::the_last_page_is_read", || {
        let directory = tempfile::tempdir().expect("a directory");
        let path = database(directory.path());
        let connection = connect(&path);
        connection
            .execute(
                "CREATE TABLE u(a INTEGER);
                 INSERT INTO u SELECT v FROM t WHERE v <= 100;
                 CREATE INDEX by_a ON u(a)",
            )
            .expect("an index");
        empty_the_wal(&connection);
        assert_eq!(sum(&connection), Ok(expected_sum()));
        for a in 1..=100 {
            let sql = format!("SELECT count(*) FROM u INDEXED BY by_a WHERE a = {a}");
            assert_eq!(connection.query_integer(&sql), Ok(1), "{a}");
        }
        assert_eq!(connection.query_text("PRAGMA integrity_check").as_deref(), Ok("ok"));
    });
}

#[test]
fn a_child_reads_what_its_parent_has_mapped() {
    tell("mapped_file::a_child_reads_what_its_parent_has_mapped", || {
        let directory = tempfile::tempdir().expect("a directory");
        let path = database(directory.path());
        let connection = connect(&path);
        assert_eq!(sum(&connection), Ok(expected_sum()));
        Child::fork(|| {
            let own = connect(&path);
            own.execute("UPDATE t SET v = v + 1").expect("an update");
            assert_eq!(sum(&own), Ok(expected_sum() + 3000));
            own.checkpoint(CheckpointMode::Passive).expect("a checkpoint");
            assert_eq!(sum(&own), Ok(expected_sum() + 3000));
        })
        .join();
        assert_eq!(sum(&connection), Ok(expected_sum() + 3000));
    });
}
