//! BEGIN … COMMIT on one connection: it is SQLite's own, it holds the turn, and it gives the turn back
//! however it ends.

use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use manyhands::{Code, Connection, Database, Error, params};

use crate::stage::{self, Actor, INSERT, Stage, connect, execute, in_time, items, number, until};

const FAMILY: &str = "
    CREATE TABLE parent (id INTEGER PRIMARY KEY);
    CREATE TABLE child (p REFERENCES parent DEFERRABLE INITIALLY DEFERRED);";

fn family(stage: &Stage) -> Database {
    let database =
        Database::builder(stage.path()).foreign_keys(true).open().expect("the database opens");
    connect(&database).execute_script(FAMILY).expect("the schema");
    database
}

fn code(error: &Error) -> i32 {
    error.code().unwrap_or(Code(0)).0
}

/// Another connection writes: the turn is free.
fn assert_turn_is_free(database: &Database) {
    let database = database.clone();
    in_time(move || {
        let mut connection = connect(&database);
        execute(&mut connection, "CREATE TABLE IF NOT EXISTS free (a)");
        execute(&mut connection, "INSERT INTO free VALUES (1)");
        drop(connection.begin_immediate().expect("the turn is free"));
    });
}

/// However a transaction ends, its writes are there or not, and the next writer's turn comes.
#[test]
fn every_end_frees_the_turn() {
    let check = |end: fn(&mut Connection), expected: i64| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let mut connection = connect(&database);
        end(&mut connection);
        assert!(connection.is_autocommit());
        assert_turn_is_free(&database);
        assert_eq!(items(&mut connection), expected);
    };
    check(
        |it| {
            let mut transaction = it.begin_immediate().expect("begins");
            execute(&mut transaction, INSERT);
            transaction.commit().expect("commits");
        },
        1,
    );
    check(
        |it| {
            let mut transaction = it.begin_immediate().expect("begins");
            execute(&mut transaction, INSERT);
            transaction.rollback().expect("rolls back");
        },
        0,
    );
    check(
        |it| {
            let mut transaction = it.begin_immediate().expect("begins");
            execute(&mut transaction, INSERT);
        },
        0,
    );
    check(
        |it| {
            execute(it, "BEGIN IMMEDIATE");
            execute(it, INSERT);
            execute(it, "COMMIT");
        },
        1,
    );
    check(
        |it| {
            execute(it, "BEGIN EXCLUSIVE");
            execute(it, INSERT);
            execute(it, "ROLLBACK");
        },
        0,
    );
    check(
        |it| {
            execute(it, "BEGIN");
            execute(it, INSERT);
            execute(it, "END");
        },
        1,
    );
    check(
        |it| {
            execute(it, "SAVEPOINT s");
            execute(it, INSERT);
            execute(it, "RELEASE s");
        },
        1,
    );
    check(
        |it| {
            execute(it, "BEGIN IMMEDIATE");
            execute(it, INSERT);
            execute(it, "INSERT INTO item VALUES (50, 'x')");
            it.execute("INSERT OR ROLLBACK INTO item VALUES (50, 'x')", params![])
                .expect_err("a row with this key is there");
        },
        0,
    );
    check(
        |it| {
            let done = it.execute_script("BEGIN; INSERT INTO item VALUES (1, 'x'); COMMIT;");
            done.expect("a script may hold a transaction");
        },
        1,
    );
    check(
        |it| {
            drop(it.begin_immediate().expect("begins"));
            let mut transaction = it.begin_immediate().expect("begins again after the drop");
            let nested = transaction.begin_immediate().expect_err("a transaction in a transaction");
            assert_eq!(code(&nested), 1, "{nested}");
        },
        0,
    );
}

/// A connection that is dropped in mid-transaction undoes it and lets others write, and so does a
/// thread that panics.
#[test]
fn a_dropped_connection_frees_the_turn() {
    let stage = Stage::new();
    let database = stage.database_with_items();
    let mut connection = connect(&database);
    execute(&mut connection, "BEGIN IMMEDIATE");
    execute(&mut connection, INSERT);
    drop(connection);
    assert_turn_is_free(&database);

    let mut connection = connect(&database);
    execute(&mut connection, "BEGIN");
    execute(&mut connection, INSERT);
    drop(connection);
    assert_turn_is_free(&database);

    let panicking = database.clone();
    let panicked = std::thread::spawn(move || {
        let mut connection = connect(&panicking);
        let mut transaction = connection.begin_immediate().expect("begins");
        execute(&mut transaction, INSERT);
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(panicked.join().is_err());
    assert_turn_is_free(&database);
    assert_eq!(items(&mut connect(&database)), 0);
}

/// Nobody writes between the statements of a BEGIN IMMEDIATE, and nobody sees them before the COMMIT.
#[test]
fn a_transaction_is_alone() {
    in_time(|| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let mut connection = connect(&database);
        let mut transaction = connection.begin_immediate().expect("begins");
        execute(&mut transaction, INSERT);
        let (started, start) = mpsc::channel();
        let other = database.clone();
        let thread = std::thread::spawn(move || {
            let mut connection = connect(&other);
            assert_eq!(items(&mut connection), 0, "a reader neither waits nor sees");
            started.send(()).expect("the test listens");
            execute(&mut connection, INSERT);
            number(&mut connection, "SELECT last_insert_rowid()")
        });
        start.recv().expect("the other thread starts");
        for _ in 0..99 {
            execute(&mut transaction, INSERT);
        }
        transaction.commit().expect("commits");
        assert_eq!(thread.join().expect("no panic"), 101);
        assert_eq!(items(&mut connection), 101);
    });
}

/// `BEGIN` reads first and writes then. Nobody wrote in between: it commits. Somebody did, and what was
/// read has changed: a conflict, at its commit. Somebody wrote something else: it commits.
#[test]
fn a_read_transaction_that_writes() {
    in_time(|| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let (mut one, mut other) = (connect(&database), connect(&database));
        execute(&mut one, "BEGIN");
        assert_eq!(items(&mut one), 0);
        execute(&mut one, INSERT);
        execute(&mut one, "COMMIT");

        execute(&mut one, "BEGIN CONCURRENT");
        assert_eq!(items(&mut one), 1);
        execute(&mut other, INSERT);
        assert_eq!(items(&mut one), 1, "a snapshot");
        execute(&mut one, INSERT);
        assert_eq!(items(&mut one), 2, "its own write");
        let error = one.execute("COMMIT", params![]).expect_err("the count has changed");
        assert!(one.is_autocommit());
        assert_turn_is_free(&database);
        assert_eq!(items(&mut one), 2);
        let conflict = error.conflict().expect("a conflict");
        assert_eq!((&*conflict.seen, &*conflict.now), ("(1)", "(2)"), "{error}");

        execute(&mut one, "BEGIN DEFERRED");
        execute(&mut one, "CREATE TEMP TABLE seen AS SELECT count(*) FROM sqlite_schema");
        execute(&mut one, INSERT);
        execute(&mut other, INSERT);
        execute(&mut one, "COMMIT");
        assert_eq!(items(&mut one), 4);
    });
}

/// It ended with an error of something that is no statement, and its connection only read from then on.
#[test]
fn after_a_read_transaction_that_failed_it_writes() {
    in_time(|| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let (mut one, mut other) = (connect(&database), connect(&database));
        let mut report = one.read_transaction().expect("begins");
        assert_eq!(items(&mut report), 0);
        execute(&mut other, INSERT);
        assert!(report.serialize("main").expect_err("another count").is_conflict());
        drop(report);
        execute(&mut one, INSERT);
        assert_eq!(items(&mut one), 2);
    });
}

/// Savepoints in all their combinations, checked against what must be left.
#[test]
fn savepoints_nest() {
    let check = |sql: &[&str], expected: &str| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let mut connection = connect(&database);
        sql.iter().for_each(|sql| execute(&mut connection, sql));
        let left = "SELECT group_concat(note, '') FROM (SELECT note FROM item ORDER BY note)";
        let rows = connection.query(left, params![]).expect("reads");
        let found: Option<String> = rows[0].get(0).expect("text or NULL");
        assert_eq!(found.unwrap_or_default(), expected, "{sql:?}");
        assert!(connection.is_autocommit(), "{sql:?}");
        assert_turn_is_free(&database);
    };
    const A: &str = "INSERT INTO item (note) VALUES ('a')";
    const B: &str = "INSERT INTO item (note) VALUES ('b')";
    const C: &str = "INSERT INTO item (note) VALUES ('c')";
    check(&["BEGIN IMMEDIATE", A, "SAVEPOINT s", B, "ROLLBACK TO s", C, "COMMIT"], "ac");
    check(&["BEGIN", A, "SAVEPOINT s", B, "RELEASE s", C, "COMMIT"], "abc");
    check(&["SAVEPOINT s", A, "SAVEPOINT s", B, "ROLLBACK TO s", "RELEASE s", "RELEASE s"], "a");
    check(&["SAVEPOINT s", A, "ROLLBACK TO s", B, "RELEASE s"], "b");
    check(&["SAVEPOINT s", A, "SAVEPOINT u", B, "RELEASE s"], "ab");
    check(&["SAVEPOINT s", A, "ROLLBACK TO s", "COMMIT", B], "b");
    check(&["BEGIN", A, "SAVEPOINT s", B, "ROLLBACK", C], "c");
    check(&["SAVEPOINT s", "SELECT 1", A, "ROLLBACK TO s", "RELEASE s"], "");
}

/// A COMMIT that violates a deferred foreign key fails. As SQL it leaves the transaction open, to be
/// put right; the guard cannot be used again, so it rolls back.
#[test]
fn a_commit_may_fail() {
    let stage = Stage::new();
    let database = family(&stage);
    let mut connection = connect(&database);
    execute(&mut connection, "BEGIN IMMEDIATE");
    execute(&mut connection, "INSERT INTO child VALUES (1)");
    let error = connection.execute("COMMIT", params![]).expect_err("no such parent");
    assert_eq!(code(&error), 787, "{error}");
    assert!(error.is_constraint() && !connection.is_autocommit());
    execute(&mut connection, "INSERT INTO parent VALUES (1)");
    execute(&mut connection, "COMMIT");
    assert_turn_is_free(&database);

    let mut transaction = connection.begin_immediate().expect("begins");
    execute(&mut transaction, "INSERT INTO child VALUES (2)");
    let error = transaction.commit().expect_err("no such parent");
    assert_eq!(code(&error), 787, "{error}");
    assert!(connection.is_autocommit());
    assert_turn_is_free(&database);
    assert_eq!(number(&mut connection, "SELECT count(*) FROM child"), 1);
}

/// All or none, and the error says which statement it was: alone, in a transaction, and whatever the
/// statements are.
#[test]
fn a_batch_is_all_or_nothing() {
    let good = ("INSERT INTO item (note) VALUES (?1)", params!["good"]);
    let returning = ("INSERT INTO item (note) VALUES (?1) RETURNING note", params!["back"]);
    let duplicate = ("INSERT INTO item VALUES (1, 'again')", params![]);
    let unknown = ("INSERT INTO missing VALUES (1)", params![]);
    let few = ("INSERT INTO item VALUES (?1, ?2)", params![1]);
    let rolls_back = ("INSERT OR ROLLBACK INTO item VALUES (1, 'again')", params![]);
    let run_time = ("UPDATE item SET note = json('x')", params![]);
    let session = ("UPDATE item SET note = changes()", params![]);
    let schema = ("CREATE TABLE made (a)", params![]);
    let reads = ("SELECT count(*) FROM item", params![]);
    type Batch<'a> = &'a [(&'a str, &'a [manyhands::Value])];
    let check = |batch: Batch<'_>, fails_at: Option<usize>, added: i64| {
        for inside in [false, true] {
            let stage = Stage::new();
            let database = stage.database_with_items();
            let mut connection = connect(&database);
            execute(&mut connection, "INSERT INTO item VALUES (1, 'first')");
            if inside {
                execute(&mut connection, "BEGIN IMMEDIATE");
                execute(&mut connection, "INSERT INTO item VALUES (2, 'second')");
            }
            let result = connection.batch(batch);
            let index = result.as_ref().err().map(|error| {
                error.statement_index().unwrap_or_else(|| panic!("no index: {error}"))
            });
            assert_eq!(index, fails_at, "{batch:?} {result:?}");
            if let Ok(outcomes) = result {
                assert_eq!(outcomes.len(), batch.len());
            }
            let gone = inside && connection.is_autocommit();
            if inside && !gone {
                execute(&mut connection, "COMMIT");
            }
            let before = if inside && !gone { 2 } else { 1 };
            assert_eq!(items(&mut connection), before + added, "{batch:?} inside {inside}");
            assert!(connection.is_autocommit());
            assert_turn_is_free(&database);
        }
    };
    check(&[], None, 0);
    check(&[good], None, 1);
    check(&[good, returning, reads], None, 2);
    check(&[good, duplicate, good], Some(1), 0);
    check(&[good, good, unknown], Some(2), 0);
    check(&[good, few], Some(1), 0);
    check(&[good, rolls_back], Some(1), 0);
    check(&[good, run_time], Some(1), 0);
    check(&[good, session], None, 1);
    check(&[good, session, duplicate], Some(2), 0);
    check(&[good, schema, good], None, 2);
    check(&[good, schema, duplicate], Some(2), 0);
    let long = "x".repeat(3000);
    let large = ("INSERT INTO item (note) VALUES (?1)", params![long.as_str()]);
    check(&[good, large, returning], None, 3);
    check(&[good, large, duplicate], Some(2), 0);
    check(&[duplicate], Some(0), 0);
}

/// A batch without a transaction may still end in a violated deferred foreign key: it fails as its
/// COMMIT would, and leaves nothing.
#[test]
fn a_batch_that_cannot_commit_leaves_nothing() {
    let stage = Stage::new();
    let database = family(&stage);
    let mut connection = connect(&database);
    let error = connection
        .batch(&[
            ("INSERT INTO parent VALUES (1)", params![]),
            ("INSERT INTO child VALUES (2)", params![]),
        ])
        .expect_err("no such parent");
    assert_eq!(code(&error), 787, "{error}");
    assert_eq!(number(&mut connection, "SELECT count(*) FROM parent"), 0);
    assert_turn_is_free(&database);
}

/// A row-by-row read goes on while its connection's database is written by others, and by nobody else
/// is it disturbed.
#[test]
fn a_read_row_by_row_keeps_its_snapshot() {
    in_time(|| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let (mut reader, mut writer) = (connect(&database), connect(&database));
        for _ in 0..20 {
            execute(&mut writer, INSERT);
        }
        let mut seen = 0;
        reader
            .query_each("SELECT id FROM item", params![], |_| {
                execute(&mut writer, INSERT);
                seen += 1;
                true
            })
            .expect("reads");
        assert_eq!((seen, items(&mut reader)), (20, 40));
        let error = reader.query_each(INSERT, params![], |_| true).expect_err("it writes");
        assert!(error.to_string().contains("query"), "{error}");
    });
}

/// 8 threads read, compute and write inside BEGIN IMMEDIATE: no update is lost.
#[test]
fn increments_are_not_lost() {
    in_time(|| {
        let stage = Stage::new();
        let database =
            Database::builder(stage.path()).timeout(Duration::from_secs(30)).open().expect("opens");
        connect(&database)
            .execute_script("CREATE TABLE counter (n); INSERT INTO counter VALUES (0)")
            .expect("the schema");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let database = database.clone();
                scope.spawn(move || {
                    let mut connection = connect(&database);
                    for _ in 0..50 {
                        let mut transaction = connection.begin_immediate().expect("begins");
                        let n = number(&mut transaction, "SELECT n FROM counter");
                        transaction
                            .execute("UPDATE counter SET n = ?1", params![n + 1])
                            .expect("writes");
                        transaction.commit().expect("commits");
                    }
                });
            }
        });
        assert_eq!(number(&mut connect(&database), "SELECT n FROM counter"), 400);
        stage::assert_sound(&stage.path());
    });
}

/// A checkpoint of another program may hold the write lock until nobody reads the WAL any more. Who commits at that
/// moment does not read while it waits for the lock: each waited for the other until one gave up, and a program that
/// did nothing but checkpoint starved the writer.
#[test]
fn a_commit_does_not_wait_for_who_waits_for_it() {
    in_time(|| {
        let stage = Stage::new();
        let builder = Database::builder(stage.path()).timeout(Duration::from_secs(10));
        let database = builder.open().expect("the database opens");
        let mut connection = connect(&database);
        execute(&mut connection, stage::ITEM);
        execute(&mut connection, "BEGIN");
        assert_eq!(items(&mut connection), 0);
        execute(&mut connection, INSERT);
        let mut peer = Actor::sqlite(&stage.path());
        peer.tell(".timeout 100000\nPRAGMA wal_checkpoint(RESTART);\n.print @done");
        until("the checkpoint has the write lock", || {
            let mut other = Command::new("sqlite3");
            let output = other.arg(stage.path()).arg("BEGIN IMMEDIATE").output();
            !output.expect("the sqlite3 shell runs").status.success()
        });
        execute(&mut connection, "COMMIT");
        assert_eq!(peer.hear(), "done");
        assert!(peer.end().success());
        assert_eq!(items(&mut connection), 1);
    });
}
