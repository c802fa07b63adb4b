//! The contract of [`TransactionMode::Auto`]: what a program may rely on with SQLite alone it may rely on here. Who only reads
//! holds nothing; what a transaction was told is final; ids become visible in their order; who waits keeps nobody from
//! going on.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use manyhands::driver::ConnectionExt;
use manyhands::{BlobPlace, Connection, Database, Error, TransactionMode, Value, ValueRef, params};

use super::story::StockShell;
use crate::stage::{SHORT, Stage, connect, execute, in_time, number, shell};

pub const SCHEMA: &str = "
    CREATE TABLE counter (id INTEGER PRIMARY KEY, n, note BLOB);
    INSERT INTO counter VALUES (1, 0, x'00'), (2, 0, x'00');
    CREATE TABLE entry (id INTEGER PRIMARY KEY, text UNIQUE);
    CREATE TABLE event (id INTEGER PRIMARY KEY AUTOINCREMENT, v);
    CREATE TABLE session (id INTEGER PRIMARY KEY, user); INSERT INTO session VALUES (1, 'a');";

pub const READ: &str = "SELECT n FROM counter WHERE id = 1";
pub const COUNT_UP: &str = "UPDATE counter SET n = n + 1 WHERE id = 1";

fn open(timeout: Duration) -> (Stage, Database) {
    let stage = Stage::without_disk();
    let builder = Database::builder(stage.path()).timeout(timeout);
    let database = builder.transaction_mode(TransactionMode::Auto).open().expect("opens");
    connect(&database).execute_script(SCHEMA).expect("the schema");
    (stage, database)
}

fn auto() -> (Stage, Database) {
    open(Duration::from_secs(20))
}

/// A connection whose owner asks for counts and ids as deferred writes want it.
pub fn deferring(database: &Database) -> Connection {
    let mut connection = connect(database);
    connection.defer_writes(true);
    connection
}

/// Three transactions that read and then write: from then on a write is predicted.
fn write_three_times(connection: &mut Connection) {
    for _ in 0..3 {
        execute(connection, "BEGIN");
        number(connection, READ);
        execute(connection, COUNT_UP);
        execute(connection, "COMMIT");
    }
}

fn is_stale<T>(result: Result<T, Error>) -> bool {
    let Err(error) = result else { return false };
    assert_eq!(error.to_string(), "database is locked");
    let code = error.nearest_code().expect("SQLite's code");
    assert_eq!(code.name(), "SQLITE_BUSY_SNAPSHOT");
    error.is_stale_snapshot()
}

/// An idle reader made every writer fail: it held the turn from its first SELECT on.
#[test]
fn who_only_reads_holds_nothing() {
    fn check(what: &str, read: impl Fn(&mut Connection)) {
        let (_stage, database) = open(Duration::from_secs(5));
        let (mut reader, mut writer) = (connect(&database), connect(&database));
        for _ in 0..2 {
            execute(&mut reader, "BEGIN");
            read(&mut reader);
            assert!(!reader.holds_turn(), "{what}");
            let before = number(&mut reader, READ);
            execute(&mut writer, COUNT_UP);
            execute(&mut writer, "BEGIN IMMEDIATE");
            execute(&mut writer, COUNT_UP);
            read(&mut reader);
            assert_eq!(number(&mut reader, READ), before, "{what}: one snapshot");
            execute(&mut writer, "COMMIT");
            execute(&mut reader, "COMMIT");
        }
    }
    check("a row", |it| assert!(number(it, "SELECT count(*) FROM entry") >= 0));
    check("a cursor", |it| {
        let mut cursor = it.cursor("SELECT * FROM counter", params![]).expect("opens");
        cursor.next_row().expect("a row");
    });
    check("row by row", |it| {
        it.query_each("SELECT * FROM counter", params![], |_| true).expect("reads");
    });
    check("the schema", |it| drop(it.query("PRAGMA table_info(entry)", params![]).expect("reads")));
    check("what does not compile", |it| {
        it.query("SELECT * FROM nowhere", params![]).expect_err("there is none");
    });
    check("a temporary table", |it| {
        execute(it, "CREATE TEMP TABLE IF NOT EXISTS scratch (a)");
        execute(it, "INSERT INTO temp.scratch SELECT id FROM counter");
    });
    check("a function", |it| {
        let one = |_: &[ValueRef<'_>]| Ok(Value::Integer(1));
        it.create_function("one", Some(0), true, one).expect("a function");
        assert_eq!(number(it, "SELECT one() FROM counter"), 1);
    });
    check("a value in pieces", |it| {
        let (schema, table, column) = ("main".into(), "counter".into(), "note".into());
        let mut blob =
            it.open_blob(&BlobPlace { schema, table, column, rowid: 2 }, false).expect("opens");
        let mut byte = [1];
        blob.read_at(&mut byte, 0).expect("reads");
        blob.close().expect("closes");
    });
    check("all bytes", |it| assert!(!it.serialize("main").expect("copies").is_empty()));
    check("a savepoint", |it| execute(it, "SAVEPOINT s"));
    check("a failing statement", |it| {
        it.query("SELECT json('no') FROM counter", params![]).expect_err("is no JSON");
    });
}

/// More reads than a log may hold are no reason to queue.
#[test]
fn a_long_reader_holds_nothing() {
    let stage = Stage::without_disk();
    let builder = Database::builder(stage.path()).speculation_bytes_max(1 << 20);
    let database = builder.transaction_mode(TransactionMode::Auto).open().expect("opens");
    connect(&database).execute_script(SCHEMA).expect("the schema");
    let mut reader = connect(&database);
    execute(&mut reader, "BEGIN");
    for n in 0..5_000 {
        let sql = "SELECT n + ?1 FROM counter WHERE id = 1";
        let rows = reader.query(sql, params![n]).expect("reads");
        assert_eq!(rows[0].get::<i64>(0).expect("a number"), n);
    }
    assert!(!reader.holds_turn());
    // Nobody has written: it may, too.
    execute(&mut reader, COUNT_UP);
    execute(&mut reader, "COMMIT");
    execute(&mut reader, "BEGIN");
    for n in 0..5_000 {
        reader.query("SELECT n + ?1 FROM counter", params![n]).expect("reads");
    }
    execute(&mut connect(&database), "UPDATE session SET user = 'b'");
    // What it has read cannot be compared.
    assert!(is_stale(reader.execute(COUNT_UP, params![])));
    execute(&mut reader, "ROLLBACK");
}

/// The first write after a read: what was seen is compared by value, and the transaction goes on where it still holds.
#[test]
fn the_first_write_after_a_read() {
    fn check(meanwhile: &str, goes_on: bool) {
        for by_shell in [false, true] {
            let (stage, database) = auto();
            let mut connection = connect(&database);
            execute(&mut connection, "BEGIN");
            let n = number(&mut connection, READ);
            if by_shell {
                shell(&stage.path(), meanwhile);
            } else {
                connect(&database).execute_script(meanwhile).expect(meanwhile);
            }
            let update = "UPDATE counter SET n = ?1 WHERE id = 1";
            let written = connection.execute(update, params![n + 1]);
            if goes_on {
                written.unwrap_or_else(|error| panic!("{meanwhile}: {error}"));
                assert!(connection.holds_turn());
                execute(&mut connection, "COMMIT");
                assert_eq!(number(&mut connection, READ), 1, "{meanwhile}");
            } else {
                assert!(is_stale(written), "{meanwhile}");
                assert!(!connection.holds_turn() && !connection.is_autocommit());
                execute(&mut connection, "ROLLBACK");
            }
        }
    }
    check("SELECT 1", true);
    check("UPDATE session SET user = 'b'", true);
    check("UPDATE counter SET n = 7 WHERE id = 2", true);
    check("UPDATE counter SET n = n WHERE id = 1", true);
    check("UPDATE counter SET n = 7 WHERE id = 1", false);
    check("DELETE FROM counter", false);
    check("ALTER TABLE counter RENAME TO other; CREATE TABLE counter (id, n)", false);
}

/// As in SQLite, such a transaction is still open, and can read on and be ended: what a program does that tries the
/// statement again is not executed alone.
#[test]
fn a_stale_transaction_can_read_on() {
    for end in ["COMMIT", "ROLLBACK"] {
        let (_stage, database) = auto();
        let mut connection = connect(&database);
        execute(&mut connection, "BEGIN");
        assert_eq!(number(&mut connection, READ), 0);
        execute(&mut connection, "SAVEPOINT inner");
        execute(&mut connect(&database), COUNT_UP);
        for again in [COUNT_UP, "INSERT INTO entry (text) VALUES ('a')", "CREATE TABLE t (a)"] {
            assert!(is_stale(connection.execute(again, params![])), "{again}");
            assert_eq!(number(&mut connection, READ), 0, "after {again}");
        }
        let conflict = connection.execute(COUNT_UP, params![]).expect_err("stale");
        let conflict = conflict.conflict().expect("what has changed");
        assert_eq!((conflict.number, &*conflict.seen, &*conflict.now), (1, "(0)", "(1)"));
        // What frameworks do with the block in which the error came.
        execute(&mut connection, "ROLLBACK TO inner");
        execute(&mut connection, "RELEASE inner");
        execute(&mut connection, end);
        assert!(connection.is_autocommit());
        assert_eq!(number(&mut connection, READ), 1);
        execute(&mut connection, COUNT_UP);
    }
}

/// A function of the application is not called again to see whether what it made is still so.
#[test]
fn functions_that_read_are_called_once() {
    let meanwhile = "UPDATE session SET user = 'b'";
    check(meanwhile, true);
    check(COUNT_UP, false);
    fn check(meanwhile: &str, goes_on: bool) {
        let (_stage, database) = auto();
        let (mut connection, mut other) = (connect(&database), connect(&database));
        let calls = Arc::new(std::sync::atomic::AtomicI64::new(0));
        let counted = Arc::clone(&calls);
        let called = move |_: &[ValueRef<'_>]| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(Value::Null)
        };
        connection.create_function("called", Some(1), false, called).expect("a function");
        for _ in 0..3 {
            // Used before: now it is known which tables they touch.
            execute(&mut connection, "BEGIN");
            drop(connection.query("SELECT called(n) FROM counter WHERE id = 1", params![]));
            execute(&mut connection, "COMMIT");
            execute(&mut other, "BEGIN IMMEDIATE");
            execute(&mut other, meanwhile);
            execute(&mut other, "COMMIT");
        }
        calls.store(0, std::sync::atomic::Ordering::Relaxed);
        execute(&mut connection, "BEGIN");
        drop(connection.query("SELECT called(n) FROM counter WHERE id = 1", params![]));
        execute(&mut other, meanwhile);
        let written = connection.execute("INSERT INTO entry (text) VALUES (random())", params![]);
        assert_eq!(written.is_ok(), goes_on, "{meanwhile}");
        execute(&mut connection, "COMMIT");
        assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 1, "{meanwhile}");
    }
}

/// A checkpoint that waits for readers keeps the turn, or SQLite's write lock, from everybody. A transaction that waited for
/// its turn with a snapshot in hand kept it from ending: all writers stood still for a timeout.
#[test]
fn who_waits_for_the_turn_holds_no_snapshot() {
    for by_shell in [false, true] {
        in_time(move || {
            let (stage, database) = auto();
            let (mut older, mut waiter) = (connect(&database), connect(&database));
            execute(&mut older, "BEGIN");
            number(&mut older, READ);
            execute(&mut connect(&database), "UPDATE session SET user = 'b'");
            execute(&mut waiter, "BEGIN");
            assert_eq!(number(&mut waiter, READ), 0);
            let (path, checkpointer) = (stage.path(), database.clone());
            let checkpoint = std::thread::spawn(move || {
                if by_shell {
                    let sql = "PRAGMA busy_timeout = 30000; PRAGMA wal_checkpoint(TRUNCATE)";
                    return shell(&path, sql).lines().last() == Some("0|0|0");
                }
                let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
                number(&mut connect(&checkpointer), sql) == 0
            });
            std::thread::sleep(SHORT);
            let waiting = std::thread::spawn(move || {
                execute(&mut waiter, COUNT_UP);
                execute(&mut waiter, "COMMIT");
            });
            std::thread::sleep(SHORT);
            // Nobody else reads then.
            execute(&mut older, "COMMIT");
            assert!(checkpoint.join().expect("no panic"), "it waited for a reader in vain");
            waiting.join().expect("its turn came");
            assert_eq!(number(&mut older, READ), 1);
        });
    }
}

/// The same beside a checkpoint, as of a connection here and of another program: it ends, and so do both writers.
#[test]
fn a_checkpoint_beside_transactions_ends() {
    for by_shell in [false, true] {
        in_time(move || {
            let (stage, database) = auto();
            let mut reader = deferring(&database);
            for _ in 0..3 {
                execute(&mut reader, "BEGIN");
                execute(&mut reader, "UPDATE counter SET n = n + 1 WHERE id > 0");
                let path = stage.path();
                let checkpointer = database.clone();
                let checkpoint = std::thread::spawn(move || {
                    if by_shell {
                        let sql = "PRAGMA busy_timeout = 30000; PRAGMA wal_checkpoint(TRUNCATE)";
                        shell(&path, sql);
                    } else {
                        drop(
                            connect(&checkpointer)
                                .query("PRAGMA wal_checkpoint(TRUNCATE)", params![]),
                        );
                    }
                });
                std::thread::sleep(Duration::from_millis(30));
                let third = database.clone();
                let third = std::thread::spawn(move || {
                    execute(&mut connect(&third), "UPDATE session SET user = user || 'x'");
                });
                assert!(number(&mut reader, "SELECT count(*) FROM counter") > 0);
                execute(&mut reader, "COMMIT");
                checkpoint.join().expect("ends");
                third.join().expect("ends");
            }
        });
    }
}

/// A transaction whose turn did not come in time is as open as before, and may try again. What it has read is compared
/// then.
#[test]
fn a_reader_that_waits_in_vain() {
    for changes in [false, true] {
        let (_stage, database) = open(SHORT);
        let (mut one, mut other) = (connect(&database), connect(&database));
        execute(&mut one, "BEGIN");
        execute(&mut one, "SAVEPOINT s");
        let n = number(&mut one, READ);
        execute(&mut other, "BEGIN IMMEDIATE");
        for _ in 0..2 {
            let error = one.execute(COUNT_UP, params![]).expect_err("another one writes");
            assert!(error.is_timeout(), "{error}");
            assert!(!one.is_autocommit() && !one.holds_turn());
            execute(&mut one, "ROLLBACK TO s");
        }
        let meanwhile = if changes { COUNT_UP } else { "UPDATE session SET user = 'b'" };
        execute(&mut other, meanwhile);
        execute(&mut other, "COMMIT");
        if changes {
            assert!(is_stale(one.execute(COUNT_UP, params![])));
            execute(&mut one, "ROLLBACK");
        } else {
            execute(&mut one, COUNT_UP);
            execute(&mut one, "RELEASE s");
            execute(&mut one, "COMMIT");
            assert_eq!(number(&mut other, READ), n + 1);
        }
    }
}

/// What it has written into its own temporary tables is there when it commits, wherever it waited in vain.
#[test]
fn temporary_rows_of_a_reader_that_waits_in_vain() {
    let (_stage, database) = open(SHORT);
    let (mut one, mut other) = (connect(&database), connect(&database));
    execute(&mut one, "CREATE TEMP TABLE scratch (a)");
    execute(&mut one, "BEGIN");
    execute(&mut one, "INSERT INTO scratch SELECT id FROM counter");
    execute(&mut other, "BEGIN IMMEDIATE");
    one.execute(COUNT_UP, params![]).expect_err("another one writes");
    execute(&mut other, "COMMIT");
    execute(&mut one, "COMMIT");
    assert_eq!(number(&mut one, "SELECT count(*) FROM scratch"), 2);
}

/// COMMIT of deferred writes may wait in vain, too, and be tried again.
#[test]
fn a_commit_that_waits_in_vain() {
    let (_stage, database) = open(SHORT);
    let (mut one, mut other) = (deferring(&database), connect(&database));
    execute(&mut one, "BEGIN");
    execute(&mut one, "INSERT INTO event (v) VALUES (1)");
    execute(&mut one, "SAVEPOINT s");
    execute(&mut one, "INSERT INTO event (v) VALUES (2)");
    execute(&mut one, "ROLLBACK TO s");
    execute(&mut one, "INSERT INTO event (v) VALUES (3)");
    execute(&mut other, "BEGIN IMMEDIATE");
    for _ in 0..2 {
        let error = one.execute("COMMIT", params![]).expect_err("another one writes");
        assert!(error.is_timeout(), "{error}");
        assert!(!one.is_autocommit());
    }
    execute(&mut other, "INSERT INTO event (v) VALUES (0)");
    execute(&mut other, "COMMIT");
    execute(&mut one, "COMMIT");
    assert!(one.is_autocommit());
    let found = "SELECT group_concat(v) = '0,1,3' FROM (SELECT v FROM event ORDER BY id)";
    assert_eq!(number(&mut one, found), 1);
}

/// An error comes at its statement, not at the COMMIT: a success that was told cannot become a failure.
#[test]
fn a_violation_comes_at_its_statement() {
    in_time(|| {
        let (_stage, database) = auto();
        let inserts = [
            "INSERT INTO entry (text) VALUES ('same')",
            "INSERT INTO entry VALUES (5, 'five')",
            "UPDATE entry SET text = 'same' WHERE id = 7",
        ];
        execute(&mut connect(&database), "INSERT INTO entry VALUES (7, 'seven')");
        let start = Arc::new(Barrier::new(4));
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let (mut connection, start) = (deferring(&database), Arc::clone(&start));
                std::thread::spawn(move || {
                    for insert in inserts {
                        start.wait();
                        execute(&mut connection, "BEGIN");
                        let written = connection.execute(insert, params![]);
                        if let Err(error) = written {
                            assert!(error.is_constraint(), "{error}");
                        }
                        execute(&mut connection, "COMMIT");
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|it| it.join().expect("no error at COMMIT"));
        assert_eq!(number(&mut connect(&database), "SELECT count(*) FROM entry"), 3);
    });
}

/// A consumer that polls `id > last` saw 6 and never 5: ids were told, and taken, before their commits.
#[test]
fn ids_become_visible_in_their_order() {
    fn check(what: &'static str, insert: impl Fn(&mut Connection) + Send + Copy + 'static) {
        in_time(move || {
            let (_stage, database) = auto();
            let writers: Vec<_> = (0..3)
                .map(|_| {
                    let mut connection = deferring(&database);
                    std::thread::spawn(move || (0..100).for_each(|_| insert(&mut connection)))
                })
                .collect();
            let mut poller = connect(&database);
            let (mut last, mut seen) = (0, 0);
            while seen < 300 {
                let over = writers.iter().all(|it| it.is_finished());
                let sql = "SELECT id FROM event WHERE id > ?1 ORDER BY id";
                for row in poller.query(sql, params![last]).expect("reads") {
                    (last, seen) = (row.get(0).expect("an id"), seen + 1);
                }
                assert!(!over || seen == 300, "{what}: {seen} of 300 rows seen");
            }
            writers.into_iter().for_each(|it| it.join().expect("inserts"));
        });
    }
    const INSERT: &str = "INSERT INTO event (v) VALUES (?1)";
    check("nothing asked", |it| {
        execute(it, "BEGIN");
        it.execute(INSERT, params![1]).expect("inserts");
        it.execute(INSERT.replace("(?1)", "(1)").as_str(), params![]).expect("inserts");
        execute(it, "ROLLBACK");
        execute(it, "BEGIN");
        it.execute(INSERT, params![1]).expect("inserts");
        std::thread::yield_now();
        execute(it, "COMMIT");
    });
    check("the id asked", |it| {
        execute(it, "BEGIN");
        let inserted = it.execute(INSERT, params![1]).expect("inserts");
        let id = it.last_insert_rowid_of(&inserted).expect("its turn");
        std::thread::yield_now();
        execute(it, "COMMIT");
        let found = format!("SELECT count(*) FROM event WHERE id = {id}");
        assert_eq!(number(it, &found), 1);
    });
    check("RETURNING", |it| {
        execute(it, "BEGIN");
        it.query("INSERT INTO event (v) VALUES (2) RETURNING id", params![]).expect("inserts");
        std::thread::yield_now();
        execute(it, "COMMIT");
    });
    check("alone", |it| drop(it.execute(INSERT, params![1]).expect("inserts")));
    check("a batch", |it| {
        it.batch(&[("UPDATE counter SET n = n + 1", params![]), (INSERT, params![1])])
            .expect("inserts");
    });
}

/// Transactions that read and then write take their turn before they read, once it is known that they write: then
/// nothing that they have read can change. Those that only read never wait, also where they begin as those do.
#[test]
fn what_a_transaction_will_do_is_learnt() {
    let (_stage, database) = auto();
    let (mut writer, mut reader) = (connect(&database), connect(&database));
    let write = |connection: &mut Connection| {
        execute(connection, "BEGIN");
        number(connection, "SELECT count(*) FROM session");
        let n = number(connection, READ);
        let taken = connection.holds_turn();
        connection.execute("UPDATE counter SET n = ?1", params![n + 1]).expect("writes");
        execute(connection, "COMMIT");
        taken
    };
    let read = |connection: &mut Connection| {
        execute(connection, "BEGIN");
        number(connection, "SELECT count(*) FROM session");
        number(connection, "SELECT count(*) FROM entry");
        let taken = connection.holds_turn();
        execute(connection, "COMMIT");
        taken
    };
    assert!(!write(&mut writer), "nobody knows yet");
    for round in 0..20 {
        assert!(!read(&mut reader) || round < 3, "every second one only reads: {round}");
        assert!(write(&mut writer), "it wrote the last time");
    }
    // It is shared by all, and known when a write comes that was not there before.
    assert!(write(&mut connect(&database)));
}

/// Those who wait for the first of its kind learn what it does when it writes, and not when its commit has ended.
#[test]
fn the_first_writer_may_take_long() {
    in_time(|| {
        let (_stage, database) = auto();
        let mut first = connect(&database);
        execute(&mut first, "BEGIN");
        number(&mut first, READ);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let mut second = connect(&database);
                execute(&mut second, "BEGIN");
                number(&mut second, READ);
                execute(&mut second, COUNT_UP);
                execute(&mut second, "COMMIT");
            });
            std::thread::sleep(Duration::from_millis(100));
            execute(&mut first, COUNT_UP);
            // Longer than anybody waits for the first.
            std::thread::sleep(Duration::from_millis(900));
            execute(&mut first, "COMMIT");
            second.join().expect("it did not fail");
        });
        assert_eq!(number(&mut first, READ), 2);
    });
}

/// The turn is taken in the middle of a transaction only if what it has read until then still holds: by value, since
/// others write the same tables all the time. Otherwise it reads on, on its snapshot. So it is on a connection whose writes
/// nobody else can execute, as Django's are, which replaces built-in functions.
#[test]
fn a_turn_is_taken_in_the_middle() {
    fn check(meanwhile: &str, is_taken: bool) {
        check_on(meanwhile, is_taken, false);
        check_on(meanwhile, is_taken, true);
    }
    fn check_on(meanwhile: &str, is_taken: bool, replaces_function: bool) {
        let (_stage, database) = auto();
        let (mut one, mut other) = (connect(&database), connect(&database));
        if replaces_function {
            one.create_function("upper", Some(1), true, |_| Ok(1.into())).expect("a function");
        }
        // A statement that writers begin with, and readers too.
        for round in 0..8 {
            execute(&mut one, "BEGIN");
            number(&mut one, "SELECT count(*) FROM session WHERE user = 'a'");
            if round % 2 == 0 {
                number(&mut one, READ);
                execute(&mut one, COUNT_UP);
            }
            execute(&mut one, "COMMIT");
        }
        execute(&mut one, "BEGIN");
        assert_eq!(number(&mut one, "SELECT count(*) FROM session WHERE user = 'a'"), 1);
        assert!(!one.holds_turn(), "half of them only read");
        other.execute_script(meanwhile).expect(meanwhile);
        let n = number(&mut one, READ);
        assert_eq!(one.holds_turn(), is_taken, "{meanwhile}");
        if is_taken {
            one.execute("UPDATE counter SET n = ?1", params![n + 1]).expect("nobody came between");
        } else {
            assert_eq!(n, 4, "its snapshot");
            assert!(is_stale(one.execute(COUNT_UP, params![])));
        }
        execute(&mut one, "COMMIT");
    }
    check("SELECT 1", true);
    check("UPDATE counter SET n = 50", true);
    check("INSERT INTO session VALUES (2, 'b')", true);
    check("UPDATE session SET user = 'b'; UPDATE counter SET n = 50", false);
}

/// What is predicted to write does not wait longer to read than for its turn, and then reads all the same.
#[test]
fn a_prediction_is_no_error() {
    let (_stage, database) = open(SHORT);
    let (mut one, mut other) = (connect(&database), connect(&database));
    write_three_times(&mut one);
    execute(&mut other, "BEGIN IMMEDIATE");
    execute(&mut one, "BEGIN");
    assert_eq!(number(&mut one, READ), 3);
    assert!(!one.holds_turn());
    execute(&mut other, "COMMIT");
    execute(&mut one, COUNT_UP);
    execute(&mut one, "COMMIT");
    assert_eq!(number(&mut one, READ), 4);
}

/// One thread with two open transactions, as tests of applications have them: what the second one reads does not wait for a turn that
/// only this thread can end. SQLite lets it read at once.
#[test]
fn a_predicted_turn_is_not_waited_for_in_the_holders_own_thread() {
    in_time(|| {
        let (_stage, database) = open(Duration::from_hours(1));
        let (mut one, mut other) = (connect(&database), connect(&database));
        write_three_times(&mut one);
        execute(&mut other, "BEGIN");
        execute(&mut other, COUNT_UP);
        execute(&mut one, "BEGIN");
        assert_eq!(number(&mut one, READ), 3);
        assert!(!one.holds_turn());
        execute(&mut one, "COMMIT");
        execute(&mut other, "COMMIT");
    });
}

/// Another program holds the write lock when a transaction that has read comes to its first write: that waits, and what was
/// read is compared then. (SQLite waits for nobody with a snapshot in hand: it failed at once.)
#[test]
fn the_first_write_waits_for_another_program() {
    fn check(write: &str, goes_on: bool) {
        let (stage, database) = auto();
        let mut connection = connect(&database);
        execute(&mut connection, "BEGIN");
        assert_eq!(number(&mut connection, READ), 0);
        let mut shell = StockShell::start(&stage.path());
        shell.ask("BEGIN IMMEDIATE");
        shell.answer();
        let waiting = std::thread::spawn(move || {
            let written = connection.execute(COUNT_UP, params![]);
            if goes_on {
                written.expect("it waited, and what it has read is so still");
            } else {
                assert!(is_stale(written));
            }
            execute(&mut connection, "COMMIT");
        });
        std::thread::sleep(SHORT);
        assert!(!waiting.is_finished());
        for sql in [write, "COMMIT"] {
            shell.ask(sql);
            shell.answer();
        }
        waiting.join().expect("its turn came");
    }
    in_time(|| {
        check("UPDATE session SET user = 'b'", true);
        check(COUNT_UP, false);
    });
}

/// A timeout may be longer than the clock can tell.
#[test]
fn a_timeout_without_end() {
    in_time(|| {
        let (_stage, database) = open(Duration::MAX);
        let mut one = connect(&database);
        execute(&mut one, "BEGIN");
        assert_eq!(number(&mut one, READ), 0);
        execute(&mut one, COUNT_UP);
        execute(&mut one, "COMMIT");
        assert_eq!(number(&mut one, READ), 1);
    });
}
