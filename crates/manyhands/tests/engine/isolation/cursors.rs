//! Cursors: rows that are shown one by one, while the transaction goes on.

use manyhands::{Cursor, Database, params};

use crate::stage::{Stage, connect, execute, in_time, number, shell};

const SETUP: &str = "CREATE TABLE job (id INTEGER PRIMARY KEY, done INTEGER NOT NULL DEFAULT 0);
                     CREATE TABLE other (n INTEGER);
                     INSERT INTO job (id) VALUES (1), (2), (3);
                     INSERT INTO other VALUES (0);";
const JOBS: &str = "SELECT id, done FROM job ORDER BY id";

fn stage() -> (Stage, Database) {
    let stage = Stage::new();
    let database = Database::open(stage.path()).expect("opens");
    connect(&database).execute_script(SETUP).expect("the schema");
    (stage, database)
}

fn next(cursor: &mut Cursor) -> Option<(i64, i64)> {
    let row = cursor.next_row().expect("steps")?;
    Some((row.get(0).expect("an id"), row.get(1).expect("a number")))
}

/// Workers read jobs and mark each one while they go on reading. Others commit meanwhile, so that the
/// log is executed again: each write in its place, and the cursor as it was when it was opened.
#[test]
fn writes_in_the_middle_of_a_cursor() {
    in_time(|| {
        let (stage, database) = stage();
        let (mut one, mut other) = (connect(&database), connect(&database));
        let mut transaction = one.transaction().expect("begins");
        let mut jobs = transaction.cursor(JOBS, params![]).expect("opens");
        let mut shown = Vec::new();
        while let Some((id, done)) = next(&mut jobs) {
            shown.push((id, done));
            let sql = "UPDATE job SET done = done + 1";
            assert_eq!(transaction.execute(sql, params![]).expect("updates").changes(), 3);
            other.execute("UPDATE other SET n = n + 1", params![]).expect("others go on");
        }
        assert_eq!(shown, [(1, 0), (2, 0), (3, 0)], "as they were before the first write");
        transaction.commit().expect("nothing that it saw has changed");
        assert_eq!(shell(&stage.path(), "SELECT group_concat(done) FROM job"), "3,3,3");
        assert_eq!(database.statistics().expect("a queue").replays, 1);
    });
}

/// What a cursor has not shown by the commit was not seen.
#[test]
fn only_what_was_shown_was_seen() {
    in_time(|| {
        let check = |rows_shown: usize, change: &str, conflicts: bool| {
            let (_stage, database) = stage();
            let (mut one, mut other) = (connect(&database), connect(&database));
            let mut transaction = one.transaction().expect("begins");
            let mut jobs = transaction.cursor(JOBS, params![]).expect("opens");
            // A write in the middle makes the cursor fetch rows that nobody has seen.
            for index in 0..rows_shown {
                assert!(next(&mut jobs).is_some());
                if index == 0 {
                    transaction.execute("UPDATE other SET n = 5", params![]).expect("writes");
                }
            }
            transaction.execute("UPDATE other SET n = 6", params![]).expect("writes");
            other.execute(change, params![]).expect("others go on");
            let committed = transaction.commit();
            let conflicted = committed.as_ref().is_err_and(manyhands::Error::is_conflict);
            assert_eq!(conflicted, conflicts, "{rows_shown} rows, {change}: {committed:?}");
            assert_eq!(committed.is_ok(), !conflicts, "{committed:?}");
            // Rows that were fetched for the cursor are still there.
            if rows_shown < 3 {
                assert_eq!(next(&mut jobs), Some((rows_shown as i64 + 1, 0)));
            }
        };
        check(0, "UPDATE job SET done = 9", false);
        check(1, "UPDATE job SET done = 9 WHERE id = 1", true);
        check(1, "UPDATE job SET done = 9 WHERE id = 2", false);
        check(2, "UPDATE job SET done = 9 WHERE id = 2", true);
        check(2, "INSERT INTO job VALUES (4, 0)", false);
        check(2, "INSERT INTO job VALUES (0, 0)", true);
        check(3, "INSERT INTO job VALUES (4, 0)", false);
    });
}

/// To be told that there are no more rows is to see something too.
#[test]
fn the_end_is_seen() {
    in_time(|| {
        let (_stage, database) = stage();
        let (mut one, mut other) = (connect(&database), connect(&database));
        let mut transaction = one.transaction().expect("begins");
        let mut jobs = transaction.cursor(JOBS, params![]).expect("opens");
        while next(&mut jobs).is_some() {}
        drop(jobs);
        transaction.execute("UPDATE other SET n = 6", params![]).expect("writes");
        other.execute("INSERT INTO job VALUES (4, 0)", params![]).expect("others go on");
        let error = transaction.commit().expect_err("there is one more");
        let conflict = error.conflict().expect("a conflict");
        assert!(conflict.now.contains("4 rows"), "{error}");
    });
}

/// A transaction moved to its turn, where it sees what others have committed, and a cursor went on showing rows of
/// the snapshot that it had left: nobody compared them. Its caller wrote what it made of them over what was there.
#[test]
fn what_a_cursor_shows_after_a_move_was_seen() {
    in_time(|| {
        let check = |shown: usize, change: &str, drops: bool, conflicts: bool| {
            let (_stage, database) = stage();
            let (mut one, mut other) = (connect(&database), connect(&database));
            let mut transaction = one.transaction().expect("begins");
            let mut jobs = transaction.cursor(JOBS, params![]).expect("opens");
            for _ in 0..shown {
                assert!(next(&mut jobs).is_some());
            }
            execute(&mut other, change);
            let mut jobs = Some(jobs).filter(|_| !drops);
            let moved = transaction.execute("CREATE TABLE made (a)", params![]);
            assert_eq!(moved.is_err(), conflicts, "{shown} shown, {change}: {moved:?}");
            match moved {
                Err(error) => assert!(error.is_conflict(), "{error}"),
                Ok(_) => {
                    let rest = std::iter::from_fn(|| jobs.as_mut().and_then(next)).count();
                    assert_eq!(rest, if drops { 0 } else { 3 - shown });
                    transaction.commit().expect("nothing that it saw has changed");
                }
            }
        };
        check(1, "UPDATE job SET done = 7 WHERE id = 2", false, true);
        check(1, "UPDATE job SET done = 7 WHERE id = 2", true, false);
        check(1, "INSERT INTO job VALUES (4, 0)", false, true);
        check(3, "INSERT INTO job VALUES (4, 0)", false, true);
        check(3, "INSERT INTO job VALUES (4, 0)", true, false);
        check(1, "UPDATE other SET n = 7", false, false);
    });
}

/// A write must not have to remember a table of any size for a cursor that somebody forgot.
#[test]
fn a_cursor_with_too_much_left() {
    in_time(|| {
        let stage = Stage::new();
        let database =
            Database::builder(stage.path()).speculation_bytes_max(1 << 20).open().expect("opens");
        let mut one = connect(&database);
        one.execute_script(SETUP).expect("the schema");
        let many = "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n LIMIT 250000)
                    INSERT INTO job SELECT i, 0 FROM n";
        one.execute(many, params![]).expect("inserts");
        let mut transaction = one.transaction().expect("begins");
        let mut jobs = transaction.cursor(JOBS, params![]).expect("opens");
        assert!(next(&mut jobs).is_some());
        let refused =
            transaction.execute("UPDATE other SET n = 6", params![]).expect_err("too much");
        assert!(refused.to_string().contains("read it to its end, or drop it"), "{refused}");
        drop(jobs);
        transaction.execute("UPDATE other SET n = 6", params![]).expect("writes");
        transaction.commit().expect("commits");
    });
}

/// Outside a transaction a cursor keeps its snapshot, and the connection writes all the same.
#[test]
fn a_cursor_outside_a_transaction() {
    in_time(|| {
        let (_stage, database) = stage();
        let mut one = connect(&database);
        let mut jobs = one.cursor(JOBS, params![]).expect("opens");
        let mut shown = Vec::new();
        while let Some(job) = next(&mut jobs) {
            shown.push(job);
            one.execute("UPDATE job SET done = done + 1", params![]).expect("writes");
        }
        assert_eq!(shown, [(1, 0), (2, 0), (3, 0)]);
        assert!(one.cursor("UPDATE job SET done = 0", params![]).is_err());
        drop(jobs);
        let rows = one.query("SELECT sum(done) FROM job", params![]).expect("reads");
        assert_eq!(rows[0].get::<i64>(0).expect("a sum"), 9);
    });
}

/// A cursor cannot read, and SQLite ends the transaction for that: its turn ends with the next call.
#[test]
fn a_cursor_that_fails_in_a_turn() {
    in_time(|| {
        let (stage, database) = stage();
        let (mut one, mut other) = (connect(&database), connect(&database));
        other
            .execute(
                "WITH s(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM s WHERE x < 200)
                 INSERT INTO other SELECT zeroblob(4000) FROM s",
                params![],
            )
            .expect("several pages");
        execute(&mut one, "BEGIN IMMEDIATE");
        let mut rows = one.cursor("SELECT n FROM other", params![]).expect("opens");
        assert!(rows.next_row().expect("the first page is read").is_some());
        let (wal, path) = (stage.beside("-wal"), stage.path());
        let bytes = std::fs::read(&wal).expect("the WAL");
        let file = std::fs::OpenOptions::new().write(true).open(&wal).expect("opens");
        file.set_len(0).expect("truncated");
        let failed = std::iter::from_fn(|| rows.next_row().transpose()).find_map(Result::err);
        assert_eq!(
            failed.expect("there is nothing to read").code().map(|it| it.primary()),
            Some(10)
        );
        std::fs::write(&wal, bytes).expect("as it was");
        drop(rows);
        assert!(one.is_autocommit());
        assert_eq!(number(&mut one, "SELECT count(*) FROM job"), 3);
        assert!(!one.holds_turn());
        execute(&mut other, "UPDATE job SET done = 1");
        assert_eq!(shell(&path, "PRAGMA integrity_check"), "ok");
    });
}
