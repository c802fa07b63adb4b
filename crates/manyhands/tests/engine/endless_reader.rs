//! A reader that does not end keeps the WAL from being reused. With a limit the WAL stays below it, and the
//! writers who wait learn who the reader is: a process of ours, another SQLite program, or they themselves.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use manyhands::{Connection, Database, Error, TransactionMode, params};

use crate::stage::{
    Actor, INSERT, SHORT, Stage, assert_sound, assert_waited, connect, execute, in_time, items,
    listen, number, refused, say, shell,
};

const LIMIT: u64 = 8 << 20;
/// What one insert adds to the WAL, and what lies between two looks of the checkpointer.
const SLACK: u64 = 2 << 20;
const LARGE: &str = "INSERT INTO item (note) VALUES (zeroblob(200000))";

fn limited(path: &Path, timeout: Duration) -> Database {
    let builder = Database::builder(path).wal_bytes_limit(LIMIT).timeout(timeout).label("writer");
    builder.open().expect("the database opens")
}

fn wal_bytes(stage: &Stage) -> u64 {
    std::fs::metadata(stage.beside("-wal")).expect("the WAL is there").len()
}

/// Writes until a write is refused.
fn fill(connection: &mut Connection) -> Error {
    // Ten times as much as the limit allows.
    for _ in 0..10 * LIMIT / 200_000 {
        if let Err(error) = connection.execute(LARGE, params![]) {
            return error;
        }
    }
    panic!("the WAL has no limit");
}

/// The part of an actor: begins to read at each line that it hears, and ends with the next.
pub fn read_endlessly(path: &Path) {
    let database = Database::builder(path).label("monthly report").open().expect("opens");
    let mut connection = connect(&database);
    let mut transaction = connection.read_transaction().expect("begins");
    items(&mut transaction);
    say("reading");
    listen();
    transaction.commit().expect("ends");
    say("ended");
    listen();
}

/// The part of an actor without a limit: a transaction of its own reads while it writes far beyond the limit
/// of others. It holds the turn when it says so.
pub fn hold_back_and_lead(path: &Path) {
    let database = Database::open(path).expect("opens");
    let mut reading = connect(&database);
    let mut transaction = reading.read_transaction().expect("begins");
    items(&mut transaction);
    let mut writing = connect(&database);
    for _ in 0..2 * LIMIT / 200_000 {
        execute(&mut writing, LARGE);
    }
    let turn = writing.begin_immediate().expect("its turn");
    say("leading");
    listen();
    drop((turn, transaction));
}

type Write = fn(&mut Connection) -> Result<(), Error>;

/// All ways of a write.
const WRITES: [Write; 5] = [
    |it| it.execute(INSERT, params![]).map(drop),
    |it| it.execute("CREATE TABLE IF NOT EXISTS other (a)", params![]).map(drop),
    |it| it.begin_immediate().map(drop),
    |it| it.batch(&[(INSERT, params![]), (INSERT, params![])]).map(drop),
    |it| {
        let mut transaction = it.transaction()?;
        transaction.execute(INSERT, params![])?;
        transaction.commit()
    },
];

/// The WAL is full because of a reader: each write says so and names it by `words`, and reading goes on. When
/// `end` has ended the reader, the same connection writes again, in the same WAL.
fn check(stage: &Stage, words: &[&str], end: impl FnOnce()) {
    let database = limited(&stage.path(), SHORT);
    let mut connection = connect(&database);
    fill(&mut connection);
    let reader = database.statistics().expect("a queue").wal_reader.expect("it is there");
    let told = reader.to_string();
    for write in WRITES {
        let began = Instant::now();
        let error =
            refused(write(&mut connection), &[words, &["reused", "nothing was written"]].concat());
        assert!(error.is_timeout(), "{error}");
        assert_eq!(error.wal_reader().map(|reader| reader.pid), Some(reader.pid), "{told}");
        assert_waited(began);
    }
    let written = items(&mut connection);
    assert!(written > 10, "reading waits for nobody, and there was room for some: {written}");
    assert!(wal_bytes(stage) < LIMIT + SLACK, "{} bytes", wal_bytes(stage));
    end();
    let mut connection = connect(&limited(&stage.path(), Duration::from_secs(30)));
    for _ in 0..2 * LIMIT / 200_000 {
        execute(&mut connection, LARGE);
    }
    assert!(wal_bytes(stage) < LIMIT + SLACK, "{} bytes", wal_bytes(stage));
    assert_eq!(database.statistics().expect("a queue").wal_reader, None);
    assert_sound(&stage.path());
}

/// A report of ours, in another process, that never ends.
#[test]
fn a_reader_of_ours_is_named() {
    in_time(|| {
        let stage = Stage::new();
        drop(stage.database_with_items());
        let mut actor = Actor::start("read endlessly", &stage.path());
        assert_eq!(actor.hear(), "reading");
        let pid = format!("process {} (monthly report: ", actor.pid());
        check(&stage, &[&pid, "has been reading for"], || {
            actor.tell("enough");
            assert_eq!(actor.hear(), "ended");
        });
        assert!(actor.end().success());
    });
}

/// The sqlite3 shell, left open in the middle of a transaction.
#[test]
fn another_program_that_reads_is_named() {
    in_time(|| {
        let stage = Stage::new();
        drop(stage.database_with_items());
        let mut shell = Actor::sqlite(&stage.path());
        shell.tell("BEGIN; SELECT '@' || count(*) FROM item;");
        assert_eq!(shell.hear(), "0");
        let pid = format!("process {} (sqlite3 ", shell.pid());
        check(&stage, &[&pid, "another SQLite program"], || {
            shell.tell("COMMIT; SELECT '@ended';");
            assert_eq!(shell.hear(), "ended");
        });
        assert!(shell.end().success());
    });
}

/// A transaction that this very program has forgotten.
#[test]
fn a_reader_of_this_process_is_named() {
    in_time(|| {
        let stage = Stage::new();
        drop(stage.database_with_items());
        let mut forgotten = connect(&limited(&stage.path(), SHORT));
        let mut transaction = forgotten.read_transaction().expect("begins");
        items(&mut transaction);
        let pid = format!("process {} (writer: ", std::process::id());
        check(&stage, &[&pid], || transaction.commit().expect("ends"));
    });
}

/// Writers with patience do not fail: they wait until the reader ends.
#[test]
fn writers_wait_for_a_reader() {
    in_time(|| {
        let stage = Stage::new();
        let patient = limited(&stage.path(), Duration::from_secs(30));
        execute(&mut connect(&patient), crate::stage::ITEM);
        let mut connection = connect(&patient);
        let mut transaction = connection.read_transaction().expect("begins");
        items(&mut transaction);
        fill(&mut connect(&limited(&stage.path(), SHORT)));
        let writers: Vec<_> = WRITES
            .into_iter()
            .map(|write| {
                let database = patient.clone();
                std::thread::spawn(move || write(&mut connect(&database)))
            })
            .collect();
        std::thread::sleep(SHORT);
        assert!(writers.iter().all(|writer| !writer.is_finished()), "they wait");
        transaction.commit().expect("ends");
        for writer in writers {
            writer.join().expect("no panic").expect("there is room again");
        }
    });
}

/// Without a limit the WAL grows, as with SQLite; statistics say who is at it.
#[test]
fn without_a_limit_nobody_waits() {
    in_time(|| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let mut reader = connect(&database);
        let mut transaction = reader.read_transaction().expect("begins");
        items(&mut transaction);
        let mut connection = connect(&database);
        for _ in 0..2 * LIMIT / 200_000 {
            execute(&mut connection, LARGE);
        }
        assert!(wal_bytes(&stage) > LIMIT + SLACK);
        let statistics = database.statistics().expect("a queue");
        assert!(statistics.wal_bytes_starved > LIMIT, "{statistics:?}");
        let reader = statistics.wal_reader.expect("it is there");
        assert_eq!(reader.pid, Some(std::process::id()));
        transaction.commit().expect("ends");
        assert_eq!(
            shell(&stage.path(), "SELECT count(*) FROM item"),
            items(&mut connection).to_string()
        );
    });
}

/// The leader was killed while the WAL was full. Whoever had a limit waited for room before it could see that
/// the leader was dead, and nobody else came: all writes failed for ever.
#[test]
fn a_leader_dies_while_the_wal_is_full() {
    in_time(|| {
        let stage = Stage::new();
        drop(stage.database_with_items());
        let database = limited(&stage.path(), Duration::from_secs(10));
        let mut connection = connect(&database);
        let actor = Actor::start("hold back and lead", &stage.path());
        assert_eq!(actor.hear(), "leading");
        assert!(database.statistics().expect("a queue").wal_bytes_starved > LIMIT);
        let killed = Command::new("kill").args(["-KILL", &actor.pid().to_string()]).status();
        assert!(killed.expect("kill runs").success());
        execute(&mut connection, INSERT);
    });
}

/// A transaction that has to go on in its turn held back the WAL itself, and waited for itself.
#[test]
fn a_transaction_does_not_wait_for_itself() {
    in_time(|| {
        let stage = Stage::new();
        let unlimited = stage.database_with_items();
        let builder = Database::builder(stage.path()).wal_bytes_limit(LIMIT).timeout(SHORT);
        let cautious = builder.transaction_mode(TransactionMode::Auto).open().expect("opens");
        let mut connection = connect(&cautious);
        execute(&mut connection, "BEGIN");
        assert_eq!(number(&mut connection, "SELECT count(*) FROM sqlite_schema"), 1);
        let mut other = connect(&unlimited);
        for _ in 0..2 * LIMIT / 200_000 {
            execute(&mut other, LARGE);
        }
        assert!(cautious.statistics().expect("a queue").wal_bytes_starved > LIMIT);
        // To write, after it has read, it leaves its snapshot, and goes on in its turn.
        execute(&mut connection, INSERT);
        assert!(items(&mut connection) > 1);
        execute(&mut connection, "COMMIT");
    });
}
