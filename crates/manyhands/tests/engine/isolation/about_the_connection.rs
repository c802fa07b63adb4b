//! Statements about the connection, inside an optimistic transaction: they behave as in plain SQLite.

use manyhands::{Database, params};

use super::story::{play, play_on};
use crate::stage::{Stage, connect, execute, number};

/// A transaction in which only reading was allowed moves to its turn when writing is allowed again. It began there
/// with SQLite's write lock, which SQLite refuses to who may only read: `PRAGMA query_only = OFF` failed, and
/// ended the transaction.
#[test]
fn writing_is_allowed_again() {
    play(
        "A PRAGMA query_only = ON
         A BEGIN
         A SELECT value FROM test WHERE id = 1               -> 10
         A UPDATE test SET value = 12 WHERE id = 1           -> error 8
         B UPDATE test SET value = 21 WHERE id = 2
         A PRAGMA query_only = OFF
         A UPDATE test SET value = 11 WHERE id = 1
         A COMMIT
         table                                               -> 1|11, 2|21",
    );
    play(
        "A BEGIN
         A UPDATE test SET value = 11 WHERE id = 1
         A PRAGMA query_only = ON
         A UPDATE test SET value = 12 WHERE id = 1           -> error 8
         A PRAGMA query_only = OFF
         A UPDATE test SET value = 13 WHERE id = 1
         A COMMIT
         table                                               -> 1|13, 2|20",
    );
}

/// A statement did not compile, since its database was not attached yet. That it does now was reported as a
/// conflict, though nobody else had committed.
#[test]
fn a_database_is_attached_after_it_was_missed() {
    play(
        "A BEGIN
         A UPDATE test SET value = 11 WHERE id = 1
         A SELECT * FROM other.sqlite_schema                 -> error 1
         A ATTACH ':memory:' AS other
         A SELECT * FROM other.sqlite_schema
         A CREATE TABLE more (a)
         A COMMIT
         table                                               -> 1|11, 2|20",
    );
    // Somebody else commits, and the statements are executed again.
    play(
        "A BEGIN
         A SELECT count(*) FROM other.sqlite_schema          -> error 1
         A UPDATE test SET value = 11 WHERE id = 1
         B UPDATE test SET value = 21 WHERE id = 2
         A ATTACH ':memory:' AS other
         A SELECT count(*) FROM other.sqlite_schema          -> 0
         A COMMIT
         table                                               -> 1|11, 2|21",
    );
}

/// SQLite detaches a database that the transaction has not read, and no other. One that has its turn has the locks
/// of all.
#[test]
fn a_database_that_was_read_stays_attached() {
    let cases = [
        ("A SELECT 1 -> 1", ""),
        ("A SELECT count(*) FROM other.u -> 0", "error 1"),
        ("A INSERT INTO test SELECT n, n FROM other.u", "error 1"),
        ("A PRAGMA other.data_version -> 1", "error 1"),
    ];
    for (read, on_the_fork) in cases {
        let again = if on_the_fork.is_empty() { "error 1" } else { "" };
        play(&format!(
            "A ATTACH ':memory:' AS other
             A CREATE TABLE other.u (n)
             A BEGIN
             {read}
             A UPDATE test SET value = 11 WHERE id = 1
             A DETACH other                                  -> {on_the_fork}
             A COMMIT
             A DETACH other                                  -> {again}
             table                                           -> 1|11, 2|20",
        ));
        play(&format!(
            "A ATTACH ':memory:' AS other
             A CREATE TABLE other.u (n)
             A BEGIN
             {read}
             B UPDATE test SET value = 21 WHERE id = 2
             A PRAGMA user_version = 5
             A DETACH other                                  -> error 1
             A COMMIT
             table                                           -> 1|10, 2|21",
        ));
    }
}

/// SQLite forgets that foreign keys are deferred at each ROLLBACK, and so when the transaction leaves its fork, to be
/// executed again: then it was refused for a key that it has put right before its COMMIT.
#[test]
fn foreign_keys_are_deferred_from_before() {
    play_on(
        "CREATE TABLE test (id INTEGER PRIMARY KEY);
         CREATE TABLE child (test REFERENCES test);
         CREATE TABLE u (a);",
        "A PRAGMA foreign_keys = ON
         A PRAGMA defer_foreign_keys = ON
         A BEGIN
         A INSERT INTO child VALUES (1)
         B INSERT INTO u VALUES (1)
         A INSERT INTO test VALUES (1)
         A COMMIT
         A SELECT count(*) FROM child                         -> 1
         A INSERT INTO child VALUES (2)                       -> error 19",
    );
}

/// Somebody else led, and executed the write: it went beyond the limit, which then was another one.
#[test]
fn a_limit_of_pages_is_kept_beside_others() {
    let stage = Stage::without_disk();
    let database: Database = stage.database_with_items();
    let mut limited = connect(&database);
    execute(&mut limited, "PRAGMA max_page_count = 20");
    let mut holder = connect(&database);
    execute(&mut holder, "BEGIN IMMEDIATE");
    let write = std::thread::spawn(move || {
        let insert = "INSERT INTO item (note) VALUES (zeroblob(200000))";
        let error = limited.execute(insert, params![]).expect_err("it is too large");
        assert_eq!(error.code().map(|it| it.0), Some(13), "{error}");
        assert_eq!(number(&mut limited, "PRAGMA max_page_count"), 20);
    });
    execute(&mut holder, "COMMIT");
    write.join().expect("it is refused");
}
