//! Thousands of async tasks write one file: exactly once, on few threads, and without ever holding up the
//! executor that runs them.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use manyhands::aio::AsyncDatabase;
use manyhands::{Database, Error, params};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, yield_now};

use crate::stage::{
    Actor, INSERT, ITEM, Stage, assert_sound, connect, execute, in_time, items, listen, number,
    say, shell, until,
};

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn some_threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(4).enable_time().build().expect("a runtime")
}

fn with_items(stage: &Stage) -> AsyncDatabase {
    stage.database_with_items().tokio().expect("an async database")
}

async fn count(database: &AsyncDatabase) -> i64 {
    let rows = database.query("SELECT count(*) FROM item", params![]).await.expect("reads");
    rows[0].get(0).expect("a number")
}

/// Waits for all, none of which may fail.
async fn all<T: 'static>(mut tasks: JoinSet<Result<T, Error>>) {
    while let Some(task) = tasks.join_next().await {
        task.expect("no panic").expect("no error");
    }
}

/// Our threads in this process.
fn our_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("proc");
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    tasks.filter_map(name).filter(|name| name.starts_with("manyhands")).count()
}

/// How often this process has the database open.
fn descriptors(path: &Path) -> usize {
    let all = std::fs::read_dir("/proc/self/fd").expect("proc");
    let target = |fd: std::io::Result<std::fs::DirEntry>| std::fs::read_link(fd.ok()?.path()).ok();
    all.filter_map(target).filter(|target| target == path).count()
}

/// The part of an actor: 10,000 tasks, on both kinds of runtime.
pub fn insert_from_tasks(path: &Path) {
    const TASKS: i64 = 10_000;
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    // What the documentation says: the writer, reads, turns.
    let threads_max = 1 + (processors + 2) + 8;
    let database = Database::open(path).expect("opens").tokio().expect("an async database");
    for (round, runtime) in [one_thread(), some_threads()].into_iter().enumerate() {
        let over = Arc::new(AtomicBool::new(false));
        let watcher = {
            let (over, path) = (Arc::clone(&over), path.to_path_buf());
            std::thread::spawn(move || {
                let (mut threads, mut open) = (0, 0);
                while !over.load(Ordering::Relaxed) {
                    threads = threads.max(our_threads());
                    open = open.max(descriptors(&path));
                    std::thread::sleep(Duration::from_millis(1));
                }
                (threads, open)
            })
        };
        let began = std::time::Instant::now();
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for task in 0..TASKS {
                let (database, note) = (database.clone(), round as i64 * TASKS + task);
                tasks.spawn(async move {
                    database.execute("INSERT INTO item (note) VALUES (?1)", params![note]).await
                });
            }
            all(tasks).await;
        });
        say(&format!("{TASKS} tasks: {:?}", began.elapsed()));
        over.store(true, Ordering::Relaxed);
        let (threads, open) = watcher.join().expect("no panic");
        assert!(threads >= 1 && threads <= threads_max, "{threads} threads");
        // Each with a connection, which SQLite's locks may keep one more descriptor for.
        assert!(open <= 2 * (threads_max + 2), "{open} descriptors");
    }
    drop(database);
    until("the threads end", || our_threads() == 0);
    say("done");
}

/// A service with a task per request must not need a thread or a connection for each: 10,000 tasks insert
/// at once, each exactly once, and the process has a handful of threads of ours.
#[test]
fn ten_thousand_tasks_insert_once_on_few_threads() {
    in_time(|| {
        let stage = Stage::new();
        drop(stage.database_with_items());
        let actor = Actor::start("insert from tasks", &stage.path());
        for _ in 0..2 {
            println!("{}", actor.hear());
        }
        assert_eq!(actor.hear(), "done");
        assert!(actor.end().success());
        let sql = "SELECT count(*) || ' ' || count(DISTINCT note) || ' ' || max(note) FROM item";
        assert_eq!(shell(&stage.path(), sql), "20000 20000 19999");
        assert_sound(&stage.path());
    });
}

/// 1,000 tasks count on one row, each in a function that reads and writes: no count is lost.
#[test]
fn a_thousand_functions_on_one_row_lose_nothing() {
    in_time(|| {
        for runtime in [one_thread(), some_threads()] {
            let stage = Stage::without_disk();
            let database = with_items(&stage);
            runtime.block_on(async {
                database
                    .execute("INSERT INTO item VALUES (1, 0)", params![])
                    .await
                    .expect("inserts");
                let mut tasks = JoinSet::new();
                for _ in 0..1000 {
                    let database = database.clone();
                    tasks.spawn(async move {
                        database
                            .run(|it| {
                                let n: i64 =
                                    it.query("SELECT note FROM item", params![])?[0].get(0)?;
                                it.execute("UPDATE item SET note = ?1", params![n + 1])
                            })
                            .await
                    });
                }
                all(tasks).await;
            });
            assert_eq!(number(&mut connect(&stage.database()), "SELECT note FROM item"), 1000);
        }
    });
}

/// A stock program holds the write lock, so no write can be done, and it lets go only when the runtime says
/// so. On a runtime of one thread this ends only if no write of any kind blocks that thread.
#[test]
fn the_executor_goes_on_while_every_write_waits() {
    in_time(|| {
        let stage = Stage::new();
        let database = with_items(&stage);
        let mut peer = Actor::sqlite(&stage.path());
        peer.tell("PRAGMA journal_mode; BEGIN IMMEDIATE;\n.print @holding");
        assert_eq!(peer.hear(), "holding");
        one_thread().block_on(async {
            let done = Arc::new(AtomicUsize::new(0));
            let mut tasks = JoinSet::new();
            for task in 0..200 {
                let (database, done) = (database.clone(), Arc::clone(&done));
                tasks.spawn(async move {
                    match task % 5 {
                        0 => {
                            drop(database.batch(&[(INSERT, params![]), (INSERT, params![])]).await?)
                        }
                        1 => drop(database.run(|it| it.execute(INSERT, params![])).await?),
                        2 => {
                            let mut transaction = database.transaction().await?;
                            transaction.execute(INSERT, params![]).await?;
                            transaction.commit().await?;
                        }
                        3 => {
                            let sql = format!("CREATE TABLE t{task} (a)");
                            database.execute(&sql, params![]).await?;
                        }
                        _ => drop(database.execute(INSERT, params![]).await?),
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                });
            }
            let mut beats = 0;
            for _ in 0..500 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                // Reading waits for nobody.
                beats += usize::from(count(&database).await == 0);
            }
            assert_eq!((beats, done.load(Ordering::Relaxed)), (500, 0));
            peer.tell("COMMIT;");
            all(tasks).await;
            assert_eq!(count(&database).await, 40 * 2 + 40 * 3);
        });
        assert!(peer.end().success());
    });
}

/// All threads for turns wait for the turn that a transaction of tasks holds: its own steps must not queue
/// up behind them.
#[test]
fn who_holds_the_turn_is_never_behind_who_waits_for_it() {
    in_time(|| {
        let stage = Stage::new();
        let database = with_items(&stage);
        one_thread().block_on(async {
            let mut transaction = database.begin_immediate().await.expect("begins");
            let mut tasks = JoinSet::new();
            for task in 0..60 {
                let database = database.clone();
                tasks.spawn(async move {
                    if task % 2 == 0 {
                        database.run(|it| it.execute(INSERT, params![])).await.map(drop)
                    } else {
                        let mut transaction = database.begin_immediate().await?;
                        transaction.execute(INSERT, params![]).await?;
                        transaction.commit().await
                    }
                });
            }
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                transaction.execute(INSERT, params![]).await.expect("a step");
            }
            transaction.commit().await.expect("commits");
            all(tasks).await;
            assert_eq!(count(&database).await, 80);
        });
    });
}

/// A client that hangs up drops its future. Thousands do while nobody can write: nothing of theirs is
/// applied later, and each slot comes back, or the queue would be full for ever.
#[test]
fn a_write_that_waits_is_withdrawn_with_its_future() {
    in_time(|| {
        let stage = Stage::new();
        let database = with_items(&stage);
        let mut holder = connect(&stage.database());
        let held = holder.begin_immediate().expect("begins");
        one_thread().block_on(async {
            // It keeps the way into the queue open: from here on each task publishes its write itself.
            let patient = tokio::spawn({
                let database = database.clone();
                async move { database.execute(INSERT, params![]).await }
            });
            for wave in 0..20 {
                let mut tasks = JoinSet::new();
                for task in 0..700 {
                    let database = database.clone();
                    tasks.spawn(async move {
                        if task % 100 == 0 {
                            database.run(|it| it.execute(INSERT, params![])).await.map(drop)
                        } else {
                            database.execute(INSERT, params![]).await.map(drop)
                        }
                    });
                }
                tokio::time::sleep(Duration::from_millis(wave % 4)).await;
                yield_now().await;
                tasks.abort_all();
                while let Some(task) = tasks.join_next().await {
                    assert!(task.expect_err("nobody could write").is_cancelled());
                }
            }
            held.commit().expect("commits");
            patient.await.expect("no panic").expect("it waited");
            database.execute(INSERT, params![]).await.expect("there is room");
            // What a thread had begun (one function for each) may take effect after all.
            let count = count(&database).await;
            assert!((2..=2 + 8).contains(&count), "{count}");
        });
    });
}

/// The same while leaders execute: a dropped future's write is there once or not at all, one that was
/// acknowledged is there, and no slot is lost.
#[test]
fn a_write_that_is_executed_keeps_its_slot_until_its_fate_is_known() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = with_items(&stage);
        some_threads().block_on(async {
            let mut dice = fastrand(7);
            let mut acknowledged = Vec::new();
            for wave in 0..40 {
                let mut tasks = JoinSet::new();
                for task in 0..200 {
                    let (database, note) = (database.clone(), wave * 200 + task);
                    tasks.spawn(async move {
                        let sql = "INSERT INTO item (note) VALUES (?1)";
                        database.execute(sql, params![note]).await.map(|_| note)
                    });
                }
                for _ in 0..dice() % 120 {
                    acknowledged.push(tasks.join_next().await.expect("a task").expect("no panic"));
                }
                tasks.abort_all();
                while let Some(task) = tasks.join_next().await {
                    acknowledged.extend(task.ok());
                }
            }
            let mut sum = 0;
            for note in &acknowledged {
                sum += *note.as_ref().expect("no error") as i64;
            }
            database.execute(INSERT, params![]).await.expect("there is room");
            let twice = "SELECT note FROM item GROUP BY note HAVING count(*) > 1";
            assert!(database.query(twice, params![]).await.expect("reads").is_empty());
            let there = "SELECT count(*), coalesce(sum(note), 0) FROM item WHERE note <> 'n'";
            let rows = database.query(there, params![]).await.expect("reads");
            assert!(rows[0].get::<i64>(0).expect("a number") >= acknowledged.len() as i64);
            assert!(rows[0].get::<i64>(1).expect("a number") >= sum);
        });
    });
}

/// Numbers that look random, the same each time.
fn fastrand(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}

/// Whatever waits ends by its deadline, and says who was in the way.
#[test]
fn a_task_that_waits_too_long_is_told_who_holds_the_turn() {
    in_time(|| {
        let stage = Stage::new();
        drop(stage.database_with_items());
        let mut actor = Actor::start("hold the turn", &stage.path());
        assert_eq!(actor.hear(), "holding");
        let patient = Duration::from_millis(200);
        let database = Database::builder(stage.path()).timeout(patient).open().expect("opens");
        let database = database.tokio().expect("an async database");
        one_thread().block_on(async {
            let mut tasks = JoinSet::new();
            for task in 0..600 {
                let database = database.clone();
                tasks.spawn(async move {
                    match task % 100 {
                        0 => database.run(|it| it.execute(INSERT, params![])).await.map(drop),
                        1 => database.execute("CREATE TABLE other (a)", params![]).await.map(drop),
                        2 => database.batch(&[(INSERT, params![])]).await.map(drop),
                        3 => database.begin_immediate().await.map(drop),
                        _ => database.execute(INSERT, params![]).await.map(drop),
                    }
                });
            }
            while let Some(task) = tasks.join_next().await {
                let error = task.expect("no panic").expect_err("nobody can write");
                let text = error.to_string();
                assert!(error.is_timeout() && text.contains(&actor.pid().to_string()), "{text}");
            }
            assert_eq!(count(&database).await, 0);
            actor.tell("enough");
            assert!(actor.end().success());
            database.execute(INSERT, params![]).await.expect("the turn is free");
            assert_eq!(count(&database).await, 2);
        });
    });
}

/// Errors are those of a connection.
#[test]
fn errors_are_those_of_a_connection() {
    in_time(|| {
        let stage = Stage::new();
        let database = with_items(&stage);
        one_thread().block_on(async {
            let insert = "INSERT INTO item VALUES (1, 'n')";
            for _ in 0..2 {
                // Known by its text the second time.
                let _ = database.execute(insert, params![]).await;
                let error = database.execute(insert, params![]).await.expect_err("it is there");
                assert!(error.is_constraint() && error.statement_index().is_none(), "{error}");
                let error = database.batch(&[(INSERT, params![]), (insert, params![])]).await;
                let error = error.expect_err("it is there");
                assert!(error.is_constraint() && error.statement_index() == Some(1), "{error}");
                let error = database.execute("INSERT INTO nowhere VALUES (1)", params![]).await;
                assert!(error.expect_err("no table").to_string().contains("nowhere"));
            }
            assert_eq!(count(&database).await, 1);
            for sql in [
                "BEGIN",
                "COMMIT",
                "SAVEPOINT a",
                "PRAGMA foreign_keys = ON",
                "ATTACH ':memory:' AS other",
                "CREATE TEMP TABLE other (a)",
            ] {
                let error = database.execute(sql, params![]).await.expect_err("about a session");
                assert!(error.to_string().contains("session"), "{sql}: {error}");
            }
            let off = database.query("PRAGMA foreign_keys", params![]).await.expect("reads");
            assert_eq!(off[0].get::<i64>(0).expect("a number"), 0);

            let mut transaction = database.transaction().await.expect("begins");
            let sql = "SELECT note FROM item WHERE id = 1";
            transaction.query(sql, params![]).await.expect("reads");
            database.execute("UPDATE item SET note = 'm'", params![]).await.expect("updates");
            transaction
                .execute("UPDATE item SET note = 'o'", params![])
                .await
                .expect("on its fork");
            let error = transaction.commit().await.expect_err("it saw what is no longer so");
            assert!(error.is_conflict(), "{error}");
        });
        let error = Database::open(":memory:").expect("opens").tokio().expect_err("not shared");
        assert!(error.to_string().contains("memory"), "{error}");
    });
}

/// A statement known by its text means something else after the schema has changed, by a stock program too.
#[test]
fn a_known_statement_follows_the_schema() {
    in_time(|| {
        let stage = Stage::new();
        let database = with_items(&stage);
        one_thread().block_on(async {
            let sql = "INSERT INTO item DEFAULT VALUES RETURNING *";
            for columns in 2..5 {
                for _ in 0..3 {
                    let rows = database.query(sql, params![]).await.expect("inserts");
                    assert_eq!(
                        (rows[0].columns().len(), rows[0].values().len()),
                        (columns, columns)
                    );
                }
                shell(&stage.path(), &format!("ALTER TABLE item ADD COLUMN c{columns}"));
            }
            // Each call is a session of its own.
            let rows =
                database.query("SELECT last_insert_rowid()", params![]).await.expect("reads");
            assert_eq!(rows[0].get::<i64>(0).expect("a number"), 0);
            let done = database.execute(INSERT, params![]).await.expect("inserts");
            assert_eq!((done.changes(), done.last_insert_rowid()), (1, 10));
            // More than travels.
            let large = "x".repeat(3 << 20);
            let update = "UPDATE item SET note = ?1 WHERE id = 1";
            database.execute(update, params![large.as_str()]).await.expect("updates");
            let select = "SELECT length(note) FROM item WHERE id = 1";
            let rows = database.query(select, params![]).await.expect("reads");
            assert_eq!(rows[0].get::<i64>(0).expect("a number"), 3 << 20);
        });
    });
}

/// A transaction that is dropped, or whose step is, is rolled back, and the turn it held is free again.
#[test]
fn a_dropped_transaction_is_rolled_back() {
    in_time(|| {
        let stage = Stage::new();
        let database = with_items(&stage);
        one_thread().block_on(async {
            for immediate in [false, true] {
                let begin = || async {
                    let begun = if immediate {
                        database.begin_immediate().await
                    } else {
                        database.transaction().await
                    };
                    let mut transaction = begun.expect("begins");
                    transaction.execute(INSERT, params![]).await.expect("a step");
                    transaction
                };
                drop(begin().await);
                begin().await.rollback().await.expect("rolls back");
                let mut transaction = begin().await;
                // A step may be faster than the poll.
                while poll_once(transaction.execute(INSERT, params![])).is_ready() {}
                let error = transaction.execute(INSERT, params![]).await.expect_err("given up");
                assert!(error.to_string().contains("given up"), "{error}");
                assert!(transaction.commit().await.is_err());
                database.execute("UPDATE item SET note = 1", params![]).await.expect("a free turn");
                assert_eq!(count(&database).await, 0);
            }
        });
    });
}

/// Polls a future once, and drops it.
fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A panic in a function is its task's, and nobody else's.
#[test]
fn a_panic_in_a_function_reaches_its_task() {
    in_time(|| {
        let stage = Stage::new();
        let database = with_items(&stage);
        one_thread().block_on(async {
            for _ in 0..20 {
                let database = database.clone();
                let task = tokio::spawn(async move {
                    database
                        .run(|it| -> Result<(), Error> {
                            it.execute(INSERT, params![])?;
                            panic!("on purpose")
                        })
                        .await
                });
                assert!(task.await.expect_err("it panics").is_panic());
            }
            database.execute(INSERT, params![]).await.expect("goes on");
            assert_eq!(count(&database).await, 1);
        });
    });
}

/// A runtime that shuts down gives its calls up; the database goes on with the next runtime. When the last
/// handle is dropped the threads close what they have open, and one plain file is left.
#[test]
fn a_runtime_may_end_before_its_calls() {
    in_time(|| {
        let stage = Stage::new();
        let database = with_items(&stage);
        {
            let peer = stage.database();
            let mut holder = connect(&peer);
            let held = holder.begin_immediate().expect("begins");
            for runtime in [one_thread(), some_threads()] {
                runtime.block_on(async {
                    for task in 0..300 {
                        let database = database.clone();
                        tokio::spawn(async move {
                            if task % 3 == 0 {
                                let mut transaction = database.transaction().await?;
                                transaction.execute(INSERT, params![]).await?;
                                transaction.commit().await
                            } else {
                                database.execute(INSERT, params![]).await.map(drop)
                            }
                        });
                    }
                    for _ in 0..20 {
                        yield_now().await;
                    }
                });
                runtime.shutdown_background();
            }
            held.commit().expect("commits");
        }
        one_thread().block_on(async {
            database.execute(INSERT, params![]).await.expect("the database goes on");
            assert!(count(&database).await >= 1);
        });
        drop(database);
        until("the WAL is removed", || !stage.beside("-wal").exists());
        // SQLite may be about to let its last lock go: ours waits for it.
        assert!(items(&mut connect(&stage.database())) >= 1);
    });
}

/// A child of a fork has none of the threads: it is told, and does not hang.
#[test]
fn a_child_of_a_fork_is_refused() {
    in_time(|| {
        let stage = Stage::new();
        let database = with_items(&stage);
        one_thread()
            .block_on(async { database.execute(INSERT, params![]).await })
            .expect("inserts");
        match fork::fork().expect("forks") {
            fork::Fork::Child => {
                let refused = |poll: Poll<Result<(), Error>>| match poll {
                    Poll::Ready(Err(error)) => error.to_string().contains("fork()"),
                    _ => false,
                };
                let all_refused =
                    refused(poll_once(async {
                        database.execute(INSERT, params![]).await.map(drop)
                    })) && refused(poll_once(async {
                        database.run(|it| it.execute(INSERT, params![]).map(drop)).await
                    })) && refused(poll_once(async { database.transaction().await.map(drop) }));
                drop(database);
                std::process::exit(if all_refused { 0 } else { 1 });
            }
            fork::Fork::Parent(child) => {
                let status = fork::waitpid(child).expect("a child");
                assert!(fork::WIFEXITED(status) && fork::WEXITSTATUS(status) == 0, "{status}");
            }
        }
    });
}

const MIXED_TASKS: i64 = 600;

/// The part of an actor: tasks of all kinds at once.
pub fn mix_tasks(path: &Path) {
    some_threads().block_on(async {
        let database = AsyncDatabase::open(path).await.expect("opens");
        database.execute(ITEM, params![]).await.expect("there is the table");
        say("ready");
        listen();
        let mut tasks = JoinSet::new();
        for task in 0..MIXED_TASKS {
            let database = database.clone();
            tasks.spawn(async move {
                let add = "UPDATE item SET note = note + 1 WHERE id = 1";
                match task % 4 {
                    0 => database.execute(add, params![]).await.map(drop),
                    1 => database.batch(&[(add, params![]), (INSERT, params![])]).await.map(drop),
                    2 => database
                        .run(|it| {
                            let sql = "SELECT note FROM item WHERE id = 1";
                            let n: i64 = it.query(sql, params![])?[0].get(0)?;
                            it.execute("UPDATE item SET note = ?1 WHERE id = 1", params![n + 1])
                        })
                        .await
                        .map(drop),
                    _ => loop {
                        let mut transaction = database.transaction().await?;
                        transaction.execute(add, params![]).await?;
                        yield_now().await;
                        match transaction.commit().await {
                            Err(error) if error.is_conflict() => {}
                            ended => break ended,
                        }
                    },
                }
            });
        }
        all(tasks).await;
    });
    say("done");
}

/// Tasks of three processes, and a plain connection, do everything at once to one row and one table.
#[test]
fn tasks_of_several_processes_share_one_file() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = stage.database_with_items();
        let mut connection = connect(&database);
        execute(&mut connection, "INSERT INTO item VALUES (1, 0)");
        let mut actors: Vec<Actor> =
            (0..3).map(|_| Actor::start("mix tasks", &stage.path())).collect();
        for actor in &mut actors {
            assert_eq!(actor.hear(), "ready");
        }
        actors.iter_mut().for_each(|actor| actor.tell("go"));
        for _ in 0..100 {
            execute(&mut connection, "UPDATE item SET note = note + 1 WHERE id = 1");
        }
        for actor in actors {
            assert_eq!(actor.hear(), "done");
            assert!(actor.end().success());
        }
        let sum = number(&mut connection, "SELECT note FROM item WHERE id = 1");
        assert_eq!(sum, 100 + 3 * MIXED_TASKS);
        assert_eq!(items(&mut connection), 1 + 3 * MIXED_TASKS / 4);
        assert_sound(&stage.path());
    });
}

/// A reader that does not end, and a limit for the WAL: tasks wait as threads do, and are told who reads.
#[test]
fn tasks_wait_for_a_reader() {
    in_time(|| {
        let stage = Stage::new();
        let plain = stage.database_with_items();
        let mut reader = connect(&plain);
        let mut transaction = reader.read_transaction().expect("begins");
        items(&mut transaction);
        let limited = |timeout| {
            let builder = Database::builder(stage.path()).wal_bytes_limit(6 << 20);
            builder.timeout(timeout).open().expect("opens").tokio().expect("async")
        };
        one_thread().block_on(async {
            let large = "INSERT INTO item (note) VALUES (zeroblob(200000))";
            let hasty = limited(Duration::from_millis(200));
            let mut error = None;
            for _ in 0..200 {
                error = hasty.execute(large, params![]).await.err();
                if error.is_some() {
                    break;
                }
            }
            let error = error.expect("the WAL has a limit");
            assert!(error.is_timeout(), "{error}");
            assert_eq!(error.wal_reader().and_then(|it| it.pid), Some(std::process::id()));
            let patient = limited(Duration::from_secs(30));
            let mut tasks = JoinSet::new();
            for _ in 0..100 {
                let patient = patient.clone();
                tasks.spawn(async move { patient.execute(INSERT, params![]).await.map(drop) });
            }
            let waiting = tokio::time::timeout(Duration::from_millis(300), tasks.join_next()).await;
            assert!(waiting.is_err(), "none has written");
            transaction.commit().expect("ends");
            all(tasks).await;
        });
    });
}
