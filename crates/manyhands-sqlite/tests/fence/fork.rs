//! A pre-forking server: children open the database that their parent has open, and either side may
//! die at any time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use manyhands_sqlite::locks;

use crate::own_process::{Child, Signal, tell};
use crate::sqlite_copy::{Database, SqliteCopy, other_process};

fn is_locked(result: Result<Vec<String>, String>) -> bool {
    result.is_err_and(|message| message.contains("database is locked"))
}

fn names_database(database: &Database) -> bool {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc is there");
    let mut targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.any(|target| target == database.path || target == database.shared_memory())
}

/// The parent is in a write transaction, in another thread, when it forks: the child must see a
/// lock where it could see its own, and its end must not release it.
#[test]
fn a_child_respects_and_outlives_its_parents_transaction() {
    tell("fork::a_child_respects_and_outlives_its_parents_transaction", || {
        locks::install().expect("the locks are replaced");
        let database = Database::create(SqliteCopy::ours());
        let path = database.path.clone();
        let (begun, wait_for_begun) = mpsc::channel();
        let (commit, wait_for_commit) = mpsc::channel::<()>();
        let parent = std::thread::spawn(move || {
            let connection = SqliteCopy::ours().open(&path);
            connection.execute("begin immediate; insert into t values('parent')").expect("a lock");
            begun.send(()).expect("the test listens");
            wait_for_commit.recv().expect("the test says when");
            connection.execute("commit").expect("the parent's commit");
        });
        wait_for_begun.recv().expect("the parent begins");

        Child::fork(|| {
            assert_eq!(locks::generation(), 1);
            assert!(!names_database(&database), "nothing of the parent's is held here");
            let connection = SqliteCopy::ours().open(&database.path);
            connection.execute("select count(*) from t").expect("the child reads");
        })
        .join();
        assert!(is_locked(other_process(&database.path, "insert into t values('other')")));

        let (refused, committed) = (Signal::new(), Signal::new());
        let child = Child::fork(|| {
            let connection = SqliteCopy::ours().open(&database.path);
            assert_eq!(connection.execute("select count(*) from t"), Ok(vec!["0".into()]));
            assert!(is_locked(connection.execute("insert into t values('too early')")));
            refused.give();
            committed.take();
            connection.execute("insert into t values('child')").expect("the child's turn");
        });
        refused.take();
        commit.send(()).expect("the parent listens");
        parent.join().expect("the parent's story");
        committed.give();
        child.join();
        assert_eq!(locks::generation(), 0);
        assert_eq!(database.rows(), ["parent", "child"]);
    });
}

/// The parent is killed in its transaction while its child lives on: an inherited descriptor would
/// keep its locks for as long as the child lives, and the database would be locked for everybody.
#[test]
fn a_killed_parents_locks_are_gone_though_its_child_lives() {
    tell("fork::a_killed_parents_locks_are_gone_though_its_child_lives", || {
        locks::install().expect("the locks are replaced");
        let database = Database::create(SqliteCopy::ours());
        let (forked, ended) = (Signal::new(), Signal::new());
        let parent = Child::fork(|| {
            let connection = SqliteCopy::ours().open(&database.path);
            connection.execute("begin immediate; insert into t values('parent')").expect("a lock");
            let child = Child::fork(|| {
                assert_eq!(locks::generation(), 2);
                forked.give();
                ended.take();
            });
            child.join();
        });
        forked.take();
        assert!(is_locked(other_process(&database.path, "insert into t values('too early')")));
        parent.kill();
        other_process(&database.path, "insert into t values('other')").expect("no lock is left");
        ended.give();
        assert_eq!(database.rows(), ["other"]);
    });
}

/// Fork at any moment, with four threads in the middle of SQLite: a mutex that one of them held
/// would stay locked in the child for ever.
#[test]
fn children_forked_from_busy_threads_do_not_hang() {
    tell("fork::children_forked_from_busy_threads_do_not_hang", || {
        const FORKS: usize = 200;
        locks::install().expect("the locks are replaced");
        let databases = [(); 4].map(|()| Database::create(SqliteCopy::ours()));
        let insert = |database: &Database| {
            let connection = SqliteCopy::ours().open(&database.path);
            connection
                .execute(
                    "pragma busy_timeout=8000; pragma synchronous=off; insert into t values(1)",
                )
                .expect("an insert");
        };
        let finished = AtomicBool::new(false);
        let inserted = std::thread::scope(|scope| {
            let threads = databases.each_ref().map(|database| {
                let finished = &finished;
                scope.spawn(move || {
                    let mut count = 0;
                    while !finished.load(Ordering::Relaxed) {
                        insert(database);
                        count += 1;
                    }
                    count
                })
            });
            for turn in 0..FORKS {
                Child::fork(|| insert(&databases[turn % databases.len()])).join();
            }
            finished.store(true, Ordering::Relaxed);
            threads.map(|thread| thread.join().expect("the thread's story"))
        });
        for (database, count) in databases.iter().zip(inserted) {
            assert_eq!(database.rows().len(), count + FORKS / databases.len());
        }
    });
}
