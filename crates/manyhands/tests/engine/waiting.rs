//! A wait has an order, a deadline, and a way out; and when it fails it says who was in the way.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use manyhands::{Connection, Cursor, Database, Error, params};

use crate::stage::{
    self, Actor, INSERT, SHORT, Stage, assert_waited, connect, execute, in_time, items, listen,
    refused, say, until,
};

fn impatient(path: &Path) -> Database {
    Database::builder(path).timeout(SHORT).open().expect("the database opens")
}

/// The part of an actor.
pub fn hold_the_turn(path: &Path) {
    let database = Database::builder(path).label("night import").open().expect("opens");
    let mut connection = connect(&database);
    let mut transaction = connection.begin_immediate().expect("begins");
    execute(&mut transaction, INSERT);
    say("holding");
    listen();
    transaction.commit().expect("commits");
}

type Write = fn(&mut Connection) -> Result<(), Error>;

/// All kinds of write, each of which waits for its turn.
const WRITES: [Write; 5] = [
    |it| it.execute(INSERT, params![]).map(drop),
    |it| it.execute("CREATE TABLE IF NOT EXISTS other (a)", params![]).map(drop),
    |it| it.begin_immediate().map(drop),
    |it| it.batch(&[(INSERT, params![]), (INSERT, params![])]).map(drop),
    |it| it.execute("UPDATE item SET note = changes()", params![]).map(drop),
];

/// Another process holds the turn, and a write must not wait for ever: the error says who holds it and
/// for how long. When the turn is free again, the same connection goes on.
#[test]
fn a_timeout_names_who_holds_the_turn() {
    in_time(|| {
        let stage = Stage::new();
        drop(stage.database_with_items());
        let mut actor = Actor::start("hold the turn", &stage.path());
        assert_eq!(actor.hear(), "holding");
        let mut connection = connect(&impatient(&stage.path()));
        let pid = actor.pid().to_string();
        for write in WRITES {
            let began = Instant::now();
            let error = refused(
                write(&mut connection),
                &["timed out", &pid, "night import", "has been writing for", "nothing was written"],
            );
            assert!(error.is_timeout() && !error.is_outcome_unknown(), "{error}");
            assert_waited(began);
        }
        assert_eq!(items(&mut connection), 0, "reading needs no turn");
        actor.tell("enough");
        assert!(actor.end().success());
        for write in WRITES {
            write(&mut connection).expect("the turn is free");
        }
        assert_eq!(items(&mut connection), 4);
    });
}

/// The same for a transaction of this process, whose holder is this very thread: a deadlock with
/// oneself ends by the deadline.
#[test]
fn a_deadlock_with_oneself_times_out() {
    in_time(|| {
        let stage = Stage::new();
        stage.database_with_items();
        let database = impatient(&stage.path());
        let (mut one, mut other) = (connect(&database), connect(&database));
        let mut transaction = one.begin_immediate().expect("begins");
        execute(&mut transaction, INSERT);
        for write in WRITES {
            let error = refused(write(&mut other), &["timed out", "the very thread that waits"]);
            assert!(error.is_timeout(), "{error}");
        }
        transaction.commit().expect("commits");
        execute(&mut other, INSERT);
        assert_eq!(items(&mut other), 2);
    });
}

/// Two threads hold one database each and want the other's: nobody hangs.
#[test]
fn two_threads_in_a_deadlock_time_out() {
    in_time(|| {
        let (left, right) = (Stage::new(), Stage::new());
        left.database_with_items();
        right.database_with_items();
        let both_hold = std::sync::Barrier::new(2);
        let cross = |held: &Stage, wanted: &Stage| {
            let mut connection = connect(&impatient(&held.path()));
            let mut transaction = connection.begin_immediate().expect("begins");
            execute(&mut transaction, INSERT);
            both_hold.wait();
            let result = connect(&impatient(&wanted.path())).execute(INSERT, params![]);
            transaction.commit().expect("commits");
            result.map(drop)
        };
        let results = std::thread::scope(|scope| {
            let one = scope.spawn(|| cross(&left, &right));
            let other = scope.spawn(|| cross(&right, &left));
            [one.join().expect("no panic"), other.join().expect("no panic")]
        });
        let failed: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
        assert!(!failed.is_empty() && failed.iter().all(|error| error.is_timeout()), "{failed:?}");
    });
}

/// The sqlite3 shell holds SQLite's write lock: the error says that it is another SQLite program, and
/// which.
#[test]
fn a_timeout_names_another_program() {
    in_time(|| {
        let stage = Stage::new();
        drop(stage.database_with_items());
        let mut shell = Actor::sqlite(&stage.path());
        shell.tell("PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE; SELECT '@held';");
        // The answer to the first pragma is no line of ours.
        assert_eq!(shell.hear(), "held");
        let mut connection = connect(&impatient(&stage.path()));
        let pid = format!("process {}", shell.pid());
        for write in WRITES {
            let began = Instant::now();
            let error =
                refused(write(&mut connection), &["timed out", "another SQLite program", &pid]);
            assert!(error.is_timeout(), "{error}");
            assert_waited(began);
        }
        shell.tell("ROLLBACK; SELECT '@free';");
        assert_eq!(shell.hear(), "free");
        for write in WRITES {
            write(&mut connection).expect("the lock is free");
        }
        assert!(shell.end().success());
    });
}

/// SQLite makes these settings when it compiles them, and before the text was refused: SQLite's own handler, or
/// none, waited in the place of ours, also for the connection's next user.
#[test]
fn a_setting_that_was_only_compiled_is_not_handed_on() {
    in_time(|| {
        let stage = Stage::new();
        drop(stage.database_with_items());
        let database = impatient(&stage.path());
        let _open = connect(&database);
        let mut shell = Actor::sqlite(&stage.path());
        shell.tell("BEGIN IMMEDIATE; SELECT '@held';");
        assert_eq!(shell.hear(), "held");
        let keys = |it: &mut Connection| stage::number(it, "PRAGMA foreign_keys");
        let default = keys(&mut connect(&database));
        for setting in
            ["busy_timeout = 0", "busy_timeout = 60000", "foreign_keys = 1", "foreign_keys = 0"]
        {
            let mut connection = connect(&database);
            let text = format!("PRAGMA {setting}; SELECT 1");
            refused(connection.execute(&text, params![]), &["statement"]);
            for _ in 0..2 {
                let began = Instant::now();
                refused(connection.execute(INSERT, params![]), &["timed out"]);
                assert_waited(began);
                drop(connection);
                connection = connect(&database);
                assert_eq!(keys(&mut connection), default, "{setting}");
            }
        }
        shell.tell("ROLLBACK; SELECT '@free';");
        assert_eq!(shell.hear(), "free");
        assert!(shell.end().success());
    });
}

/// A patient writer gets the lock when the shell is done with it.
#[test]
fn a_write_waits_for_another_program() {
    in_time(|| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let mut shell = Actor::sqlite(&stage.path());
        shell.tell("BEGIN IMMEDIATE; INSERT INTO item (note) VALUES ('shell'); SELECT '@held';");
        assert_eq!(shell.hear(), "held");
        let writers: Vec<_> = WRITES
            .into_iter()
            .map(|write| {
                let database = database.clone();
                std::thread::spawn(move || write(&mut connect(&database)))
            })
            .collect();
        shell.tell("COMMIT; SELECT '@free';");
        assert_eq!(shell.hear(), "free");
        for writer in writers {
            writer.join().expect("no panic").expect("its turn came");
        }
        assert_eq!(items(&mut connect(&database)), 4);
        assert!(shell.end().success());
    });
}

/// An interrupt ends a wait at once, whatever the write is, and nothing was written.
#[test]
fn an_interrupt_ends_a_wait() {
    in_time(|| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let mut holder = connect(&database);
        let transaction = holder.begin_immediate().expect("begins");
        for write in WRITES {
            let mut connection = connect(&database);
            let handle = connection.interrupt_handle();
            let waiting = std::thread::spawn(move || write(&mut connection));
            until("the interrupted wait ends", || {
                handle.interrupt();
                waiting.is_finished()
            });
            let error = waiting.join().expect("no panic").expect_err("it was interrupted");
            assert!(error.is_interrupt() && !error.is_timeout(), "{error}");
        }
        transaction.rollback().expect("rolls back");
        assert_eq!(items(&mut connect(&database)), 0);
    });
}

/// A statement that runs is interrupted as in SQLite.
#[test]
fn an_interrupt_ends_a_running_statement() {
    const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) ";
    in_time(|| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        for sql in [
            format!("{ENDLESS} SELECT count(*) FROM n"),
            format!("INSERT INTO item (note) {ENDLESS} SELECT count(*) FROM n"),
        ] {
            let mut connection = connect(&database);
            let handle = connection.interrupt_handle();
            let running = std::thread::spawn(move || connection.execute(&sql, params![]).map(drop));
            until("the interrupted statement ends", || {
                handle.interrupt();
                running.is_finished()
            });
            let error = running.join().expect("no panic").expect_err("it was interrupted");
            assert!(error.is_interrupt(), "{error}");
        }
        execute(&mut connect(&database), INSERT);
    });
}

/// An interrupt that finds nothing to interrupt does nothing, as SQLite's: a later statement is not
/// its victim.
#[test]
fn an_interrupt_of_nothing_is_forgotten() {
    in_time(|| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let mut connection = connect(&database);
        connection.interrupt_handle().interrupt();
        execute(&mut connection, INSERT);
        connection.interrupt_handle().interrupt();
        let mut holder = connect(&impatient(&stage.path()));
        let transaction = holder.begin_immediate().expect("begins");
        let waiting = std::thread::spawn(move || connection.execute(INSERT, params![]));
        let mut probe = Probe::new(&stage.path());
        until("the probe sees that somebody waits", || probe.waiting() == 1);
        transaction.rollback().expect("rolls back");
        waiting.join().expect("no panic").expect("nobody interrupted this one");
    });
}

/// How many rows a cursor, which can be read on, still has.
fn rows_left(mut cursor: Cursor) -> usize {
    core::iter::from_fn(|| cursor.next_row().expect("goes on")).count()
}

/// A cancellation ends a wait, and a statement that runs, and leaves cursors and what comes after it alone: SQLite
/// would interrupt all statements as long as a cursor has rows left.
#[test]
fn a_cancellation_lasts_until_it_is_taken_back() {
    const ENDLESS: &str =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    in_time(|| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let mut holder = connect(&database);
        (0..500).for_each(|_| execute(&mut holder, INSERT));
        let transaction = holder.begin_immediate().expect("begins");
        let mut connection = connect(&database);
        let mut cursor = connection.cursor("SELECT note FROM item", params![]).expect("reads");
        cursor.next_row().expect("a row");
        let handle = connection.interrupt_handle();
        // Before or while it waits or runs.
        for (sql, delay) in [
            (ENDLESS, false),
            (ENDLESS, true),
            ("BEGIN IMMEDIATE", false),
            ("BEGIN IMMEDIATE", true),
        ] {
            let canceller = handle.clone();
            let cancelling = std::thread::spawn(move || {
                if delay {
                    std::thread::sleep(SHORT);
                }
                canceller.cancel();
            });
            let error = connection.execute(sql, params![]).expect_err("it was cancelled");
            assert!(error.is_interrupt(), "{error}");
            cancelling.join().expect("no panic");
            handle.resume();
            assert_eq!(items(&mut connection), 500);
        }
        transaction.rollback().expect("rolls back");
        execute(&mut connection, "BEGIN IMMEDIATE");
        handle.cancel();
        execute(&mut connection, "ROLLBACK");
        handle.resume();
        assert_eq!(1 + rows_left(cursor), 500);
    });
}

/// What undoes is done although it was told to stop: SQLite asks whether to go on when a ROLLBACK is over too.
#[test]
fn a_rollback_is_not_cancelled() {
    let stage = Stage::new();
    let mut connection = connect(&stage.database_with_items());
    let handle = connection.interrupt_handle();
    for _ in 0..5000 {
        execute(&mut connection, "BEGIN");
        handle.cancel();
        execute(&mut connection, "ROLLBACK");
        handle.resume();
    }
}

/// What has been committed is not reported as cancelled: SQLite asks whether to go on after a COMMIT too, and whoever
/// tried again would write twice.
#[test]
fn what_was_cancelled_was_not_written() {
    let stage = Stage::without_disk();
    let mut connection = connect(&stage.database_with_items());
    let handle = connection.interrupt_handle();
    let mut written = 0;
    for _ in 0..3000 {
        handle.cancel();
        written += i64::from(connection.execute(INSERT, params![]).is_ok());
        handle.resume();
        execute(&mut connection, "BEGIN IMMEDIATE");
        execute(&mut connection, INSERT);
        handle.cancel();
        written += i64::from(connection.execute("COMMIT", params![]).is_ok());
        handle.resume();
        if !connection.is_autocommit() {
            execute(&mut connection, "ROLLBACK");
        }
    }
    assert_eq!(items(&mut connection), written);
}

/// Rows of a cursor that are fetched for another call, which is cancelled, are no part of that call.
#[test]
fn a_cancellation_spares_the_cursors_of_others() {
    let stage = Stage::without_disk();
    let mut connection = connect(&stage.database_with_items());
    execute(&mut connection, "BEGIN");
    (0..20_000).for_each(|_| execute(&mut connection, INSERT));
    execute(&mut connection, "COMMIT");
    let mut cursor = connection.cursor("SELECT note FROM item", params![]).expect("reads");
    cursor.next_row().expect("a row");
    let handle = connection.interrupt_handle();
    handle.cancel();
    let _ = connection.execute("UPDATE item SET note = 'other'", params![]);
    handle.resume();
    assert_eq!(1 + rows_left(cursor), 20_000);
}

/// After an interrupt a transaction can be rolled back, and a connection closed, although SQLite interrupts whatever it
/// executes while a cursor has rows left: others wait for what they hold.
#[test]
fn an_interrupted_transaction_can_be_ended() {
    in_time(|| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        execute(&mut connect(&database), INSERT);
        execute(&mut connect(&database), INSERT);
        for begin in ["BEGIN IMMEDIATE", "BEGIN CONCURRENT"] {
            for end in ["ROLLBACK", " rollback;", "close"] {
                let mut connection = connect(&database);
                execute(&mut connection, begin);
                execute(&mut connection, INSERT);
                let mut cursor = connection.cursor("SELECT * FROM item", params![]).expect("reads");
                cursor.next_row().expect("a row");
                connection.interrupt_handle().interrupt();
                if end == "close" {
                    drop(connection);
                } else {
                    execute(&mut connection, end);
                    assert!(connection.is_autocommit());
                    assert!(cursor.next_row().expect_err("it ended").is_interrupt());
                    assert_eq!(items(&mut connection), 2);
                }
                let mut other = connect(&impatient(&stage.path()));
                execute(&mut other, "UPDATE item SET note = 'free'");
            }
        }
    });
}

/// Sees how many requests wait while somebody holds the turn.
pub struct Probe {
    database: Database,
    asked: usize,
}

impl Probe {
    pub fn new(path: &Path) -> Probe {
        let timeout = Duration::from_millis(1);
        let database = Database::builder(path).timeout(timeout).open().expect("opens");
        Probe { database, asked: 0 }
    }

    /// From the text of its own timeout: it takes a place itself, and leaves it.
    pub fn waiting(&mut self) -> usize {
        let result = connect(&self.database).execute(INSERT, params![]);
        let text = refused(result, &["requests were before"]).to_string();
        let (before, _) = text.split_once(" requests were before").expect("looked for above");
        let before = before.rsplit(' ').next().expect("a number");
        let before: usize = before.parse().expect("a number");
        self.asked += 1;
        (before + 1).saturating_sub(self.asked)
    }
}

/// First come, first served: 8 threads come one after the other while the turn is held, with writes of
/// all kinds, and are served in that order.
#[test]
fn first_come_first_served() {
    in_time(|| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let mut holder = connect(&database);
        let transaction = holder.begin_immediate().expect("begins");
        let mut waiting = Vec::new();
        let mut probe = Probe::new(&stage.path());
        for number in 0..8_i64 {
            let database = database.clone();
            waiting.push(std::thread::spawn(move || {
                let mut connection = connect(&database);
                let sql = "INSERT INTO item (note) VALUES (?1)";
                match number % 3 {
                    0 => connection.execute(sql, params![number]).map(drop),
                    1 => connection.begin_immediate().and_then(|mut transaction| {
                        transaction.execute(sql, params![number])?;
                        transaction.commit()
                    }),
                    _ => connection.batch(&[(sql, params![number])]).map(drop),
                }
            }));
            until("the next one waits", || probe.waiting() > number as usize);
        }
        transaction.rollback().expect("rolls back");
        for thread in waiting {
            thread.join().expect("no panic").expect("its turn came");
        }
        let rows = holder.query("SELECT note FROM item ORDER BY id", params![]).expect("reads");
        let order: Vec<i64> = rows.iter().map(|row| row.get(0).expect("a number")).collect();
        assert_eq!(order, (0..8).collect::<Vec<_>>());
    });
}

/// Two threads take turn after turn, and are back at once each time. A third one gets its turns among theirs.
#[test]
fn who_comes_back_at_once_lets_others_in() {
    in_time(|| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let turn = |connection: &mut Connection| {
            let mut transaction = connection.begin_immediate().expect("its turn comes");
            execute(&mut transaction, INSERT);
            transaction.commit().expect("commits");
        };
        let (others, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut connection = connect(&database);
                    while !stop.load(Ordering::Relaxed) {
                        turn(&mut connection);
                        others.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let mut connection = connect(&database);
            for _ in 0..50 {
                turn(&mut connection);
            }
            stop.store(true, Ordering::Relaxed);
        });
        let count = items(&mut connect(&database));
        assert_eq!(count as usize, 50 + others.into_inner());
    });
}

/// 2,500 threads want to write at once, more than the queue has slots: the rest waits for a slot, and
/// everybody's write is there once.
#[test]
fn more_clients_than_slots() {
    const CLIENTS: usize = 2500;
    in_time(|| {
        let stage = Stage::new();
        stage.database_with_items();
        let patient = Database::builder(stage.path()).timeout(stage::PATIENCE);
        let database = patient.open().expect("opens");
        let mut holder = connect(&database);
        let transaction = holder.begin_immediate().expect("begins");
        let ready = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    let mut connection = connect(&database);
                    let ready = &ready;
                    std::thread::Builder::new()
                        .stack_size(256 * 1024)
                        .spawn_scoped(scope, move || {
                            ready.fetch_add(1, Ordering::Relaxed);
                            connection.execute(INSERT, params![]).map(drop)
                        })
                        .expect("a thread")
                })
                .collect();
            until("all have come", || ready.load(Ordering::Relaxed) == CLIENTS);
            transaction.rollback().expect("rolls back");
            for client in clients {
                client.join().expect("no panic").expect("its turn came");
            }
        });
        assert_eq!(items(&mut holder), CLIENTS as i64);
        stage::assert_sound(&stage.path());
    });
}

/// Another SQLite program writes one commit after the other, and so do our threads, alone or in transactions: both go on. Ours met the lock
/// in one of twenty tries, and theirs could wait for ever.
#[test]
fn a_program_that_polls_and_a_queue_share_the_lock() {
    const COMMITS: usize = 300;
    in_time(|| {
        for begin in ["", "BEGIN IMMEDIATE"] {
            let stage = Stage::new();
            let database = stage.database_with_items();
            let (path, over) = (stage.path(), AtomicBool::new(false));
            let ours = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let mut connection = connect(&database);
                        while !over.load(Ordering::Relaxed) {
                            let sql = [begin, INSERT, if begin.is_empty() { "" } else { "COMMIT" }];
                            sql.iter()
                                .filter(|sql| !sql.is_empty())
                                .for_each(|sql| execute(&mut connection, sql));
                            ours.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
                until("they write", || ours.load(Ordering::Relaxed) > 10);
                let before = ours.load(Ordering::Relaxed);
                let mut shell = Command::new("sqlite3");
                let script = format!("{INSERT};").repeat(COMMITS);
                let done = shell.args(["-cmd", ".timeout 20000"]).arg(&path).arg(script).output();
                let done = done.expect("the shell runs");
                assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
                over.store(true, Ordering::Relaxed);
                let meanwhile = ours.load(Ordering::Relaxed) - before;
                assert_ne!(meanwhile, 0, "{begin}: ours made no commit");
            });
            let all = ours.load(Ordering::Relaxed) + COMMITS;
            assert_eq!(items(&mut connect(&database)) as usize, all);
        }
    });
}

/// With `PRAGMA query_only` a write fails, and not only when the turn has come: it waited for it.
#[test]
fn a_connection_that_only_reads_waits_for_no_turn() {
    let stage = Stage::new();
    let database = stage.database_with_items();
    let (mut one, mut other) = (connect(&database), connect(&database));
    execute(&mut other, "PRAGMA query_only = ON");
    let transaction = one.begin_immediate().expect("begins");
    for sql in [INSERT, "CREATE TABLE x (a)", "DELETE FROM item"] {
        let error = refused(other.execute(sql, params![]), &["readonly"]);
        assert!(!error.is_timeout() && error.code().is_some_and(|it| it.0 == 8), "{sql}: {error}");
    }
    drop(transaction);
    execute(&mut other, "PRAGMA query_only = OFF");
    execute(&mut other, INSERT);
}
