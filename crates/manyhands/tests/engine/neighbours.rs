//! Requests of strangers share one transaction, and none of them notices: neither an `OR ROLLBACK`
//! beside it, nor a violated foreign key, nor a statement that takes seconds, nor an interrupt.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use manyhands::{Code, Connection, Database, params};

use crate::stage::{self, Stage, connect, execute, in_time, number, until};
use crate::waiting::Probe;

const ROUNDS: u64 = 60;

const SCHEMA: &str = "
    CREATE TABLE good (who, round);
    CREATE TABLE single (id INTEGER PRIMARY KEY);
    INSERT INTO single VALUES (1);
    CREATE TABLE guarded (a);
    CREATE TRIGGER guard BEFORE INSERT ON guarded BEGIN SELECT RAISE(ROLLBACK, 'guarded'); END;
    CREATE TABLE parent (id INTEGER PRIMARY KEY);
    CREATE TABLE child (p REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
    CREATE TABLE slow (n);
    CREATE TABLE interrupted (n);";

/// Who came first.
const ARRIVALS: &str = "
    CREATE TABLE item (note);
    CREATE TABLE arrival (id INTEGER PRIMARY KEY, what);
    CREATE TRIGGER a AFTER INSERT ON child BEGIN INSERT INTO arrival (what) VALUES ('child'); END;
    CREATE TRIGGER b AFTER INSERT ON parent BEGIN INSERT INTO arrival (what) VALUES ('parent'); END;";

const SLOW: &str = "INSERT INTO slow WITH RECURSIVE n(i) AS
    (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) SELECT count(*) FROM n";

fn fails_with(connection: &mut Connection, sql: &str, code: i32) {
    let error = connection.execute(sql, params![]).expect_err("it violates something");
    assert_eq!(error.code(), Some(Code(code)), "{sql}: {error}");
}

/// One round of a troublemaker.
type Trouble = fn(&mut Connection);

const TROUBLES: [Trouble; 7] = [
    |it| fails_with(it, "INSERT OR ROLLBACK INTO single VALUES (1)", 1555),
    |it| fails_with(it, "INSERT INTO guarded VALUES (1)", 1811),
    |it| fails_with(it, "INSERT INTO child VALUES (404)", 787),
    |it| {
        let error = it
            .batch(&[
                ("INSERT INTO single VALUES (77)", params![]),
                ("INSERT INTO single VALUES (1)", params![]),
            ])
            .expect_err("the second statement fails");
        assert_eq!(error.statement_index(), Some(1), "{error}");
    },
    |it| {
        it.batch(&[
            ("INSERT INTO child VALUES (?1)", params![5]),
            ("INSERT OR IGNORE INTO parent VALUES (?1)", params![5]),
        ])
        .expect("whole again at the end");
    },
    |it| {
        let rows =
            it.query("INSERT INTO good VALUES ('echo', 0) RETURNING zeroblob(3000)", params![]);
        assert_eq!(rows.expect("an answer too long for a slot").len(), 1);
    },
    |it| fails_with(it, "INSERT INTO good VALUES (json('x'), 0)", 1),
];

/// 16 threads: those that do no harm all succeed, and those that do are told what SQLite tells.
#[test]
fn trouble_stays_with_who_made_it() {
    in_time(|| {
        let stage = Stage::new();
        let database =
            Database::builder(stage.path()).foreign_keys(true).open().expect("the database opens");
        let mut connection = connect(&database);
        connection.execute_script(SCHEMA).expect("the schema");
        std::thread::scope(|scope| {
            for who in 0..7_u32 {
                let database = database.clone();
                scope.spawn(move || {
                    let mut connection = connect(&database);
                    for round in 0..ROUNDS as i64 {
                        connection
                            .execute("INSERT INTO good VALUES (?1, ?2)", params![who, round])
                            .expect("a harmless write succeeds");
                    }
                });
            }
            for trouble in TROUBLES {
                let database = database.clone();
                scope.spawn(move || {
                    let mut connection = connect(&database);
                    (0..ROUNDS).for_each(|_| trouble(&mut connection));
                });
            }
            let slow = database.clone();
            scope.spawn(move || {
                let mut connection = connect(&slow);
                for _ in 0..2 {
                    execute(&mut connection, SLOW);
                }
            });
            let database = database.clone();
            scope.spawn(move || interrupt_again_and_again(&database));
        });
        assert_eq!(
            number(&mut connection, "SELECT count(*) FROM good WHERE who != 'echo'"),
            7 * 60
        );
        assert_eq!(
            number(&mut connection, "SELECT count(DISTINCT who || '/' || round) FROM good"),
            7 * 60 + 1
        );
        assert_eq!(number(&mut connection, "SELECT count(*) FROM good WHERE who = 'echo'"), 60);
        assert_eq!(number(&mut connection, "SELECT count(*) FROM single"), 1);
        assert_eq!(number(&mut connection, "SELECT count(*) FROM guarded"), 0);
        assert_eq!(number(&mut connection, "SELECT count(*) FROM child"), 60);
        assert_eq!(number(&mut connection, "SELECT count(*) FROM slow WHERE n = 3000000"), 2);
        let statistics = database.statistics().expect("it has a queue");
        assert!(statistics.requests > 100, "hardly anything was queued: {statistics:?}");
        stage::assert_sound(&stage.path());
    });
}

/// A writer that is interrupted at random moments: what it was told failed is not there, all else is.
fn interrupt_again_and_again(database: &Database) {
    let mut connection = connect(database);
    let handle = connection.interrupt_handle();
    let (written, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                handle.interrupt();
                std::thread::yield_now();
            }
        });
        for _ in 0..ROUNDS * 5 {
            match connection.execute("INSERT INTO interrupted VALUES (1)", params![]) {
                Ok(_) => _ = written.fetch_add(1, Ordering::Relaxed),
                Err(error) => assert!(error.is_interrupt(), "{error}"),
            }
        }
        done.store(true, Ordering::Release);
    });
    drop(connection);
    let found = number(&mut connect(database), "SELECT count(*) FROM interrupted");
    assert_eq!(found as u64, written.load(Ordering::Relaxed));
}

/// A row without its parent is an error, even if the next request of the same batch brings the parent:
/// alone it could not have been committed.
#[test]
fn a_neighbour_does_not_put_it_right() {
    in_time(|| {
        let stage = Stage::new();
        let database = Database::builder(stage.path()).foreign_keys(true).open().expect("opens");
        let mut holder = connect(&database);
        holder.execute_script(SCHEMA).expect("the schema");
        holder.execute_script(ARRIVALS).expect("the triggers");
        let transaction = holder.begin_immediate().expect("begins");
        let write = |sql: &'static str| {
            let database = database.clone();
            std::thread::spawn(move || connect(&database).execute(sql, params![]).map(drop))
        };
        let child = write("INSERT INTO child VALUES (9)");
        let mut probe = Probe::new(&stage.path());
        until("the child waits", || probe.waiting() == 1);
        let parent = write("INSERT INTO parent VALUES (9)");
        until("the parent waits", || probe.waiting() == 2);
        transaction.rollback().expect("rolls back");
        let child = child.join().expect("no panic");
        parent.join().expect("no panic").expect("a parent may come at any time");
        let first = holder.query("SELECT what FROM arrival ORDER BY id", params![]).expect("reads");
        let error = child.expect_err(&format!("it came before its parent; arrived: {first:?}"));
        assert_eq!(error.code(), Some(Code(787)), "{error}");
    });
}

/// Two programs that want foreign keys on and off write at once: each gets its own.
#[test]
fn neighbours_keep_their_own_settings() {
    in_time(|| {
        let stage = Stage::new();
        let strict = Database::builder(stage.path()).foreign_keys(true).open().expect("opens");
        let loose = Database::builder(stage.path()).foreign_keys(false).open().expect("opens");
        connect(&strict)
            .execute_script(
                "CREATE TABLE parent (id INTEGER PRIMARY KEY); CREATE TABLE child (p REFERENCES parent)",
            )
            .expect("the schema");
        let (strict, loose) = (Arc::new(strict), Arc::new(loose));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (strict, loose) = (Arc::clone(&strict), Arc::clone(&loose));
                scope.spawn(move || {
                    let mut connection = connect(&strict);
                    for _ in 0..ROUNDS {
                        fails_with(&mut connection, "INSERT INTO child VALUES (1)", 787);
                    }
                });
                scope.spawn(move || {
                    let mut connection = connect(&loose);
                    for _ in 0..ROUNDS {
                        execute(&mut connection, "INSERT INTO child VALUES (1)");
                    }
                });
            }
        });
        let count = number(&mut connect(&loose), "SELECT count(*) FROM child");
        assert_eq!(count as u64, 4 * ROUNDS);
    });
}
