//! Speculative transactions beside others in the process: stock copies of SQLite, children, and many other speculative transactions.

use manyhands_sqlite::{Promotion, locks};

use super::{Stage, n, text};
use crate::own_process::{Child, tell};
use crate::sqlite_copy::{SqliteCopy, other_process};

fn is_locked(result: Result<Vec<String>, String>) -> bool {
    result.is_err_and(|message| message.contains("database is locked"))
}

/// Python's `sqlite3` holds locks on the database and the -shm file, which belong to the process: to
/// close any descriptor of them drops them. Speculative transactions come and go meanwhile.
#[test]
fn a_stock_copys_locks_survive_forks() {
    tell("speculative_vfs::neighbours::a_stock_copys_locks_survive_forks", || {
        let stage = Stage::new();
        let host = SqliteCopy::host().open(&stage.path);
        host.execute("begin immediate; update t set n = 1 where id = 2").expect("the write lock");
        let keep = stage.speculating(10);
        for n in 0..50 {
            let speculative = stage.speculating(n);
            assert_eq!(speculative.promote(), Promotion::Busy, "the stock copy's lock is seen");
            if n % 2 == 0 {
                speculative.execute("ROLLBACK").expect("rolls back");
            }
            drop(speculative);
            if n % 10 == 0 {
                let refused = other_process(&stage.path, "update t set n = 9");
                assert!(is_locked(refused), "the stock copy's lock is there");
            }
        }
        drop(keep);
        assert!(is_locked(other_process(&stage.path, "update t set n = 9")));
        host.execute("commit").expect("commits");
        let speculative = stage.speculating(20);
        assert_eq!(n(&speculative, 2), 1);
        assert_eq!(speculative.promote(), Promotion::Promoted);
        assert!(is_locked(host.execute("begin immediate")), "our lock is seen by the stock copy");
        speculative.execute("COMMIT").expect("commits");
        assert_eq!(host.execute("select n from t order by id"), Ok(vec!["20".into(), "1".into()]));
        assert_eq!(text(&speculative, "PRAGMA integrity_check"), "ok");
    });
}

/// A stock copy commits, and checkpoints, while many speculative transactions hold snapshots.
#[test]
fn a_stock_copy_commits_beside_forks() {
    let stage = Stage::new();
    let host = SqliteCopy::host().open(&stage.path);
    let connections: Vec<_> = (0..20)
        .map(|i| {
            let speculative = stage.speculating(100 + i);
            host.execute("update t set n = n + 1 where id = 2").expect("nobody holds the lock");
            host.execute("pragma wal_checkpoint(passive)").expect("as far as possible");
            speculative
        })
        .collect();
    for (i, speculative) in (0..).zip(&connections) {
        assert_eq!((n(speculative, 1), n(speculative, 2)), (100 + i, i));
        assert_eq!(speculative.promote(), Promotion::Stale);
    }
    drop(connections);
    assert_eq!(host.execute("select n from t order by id"), Ok(vec!["0".into(), "20".into()]));
    assert_eq!(host.execute("pragma integrity_check"), Ok(vec!["ok".into()]));
}

/// A server forks a child while a connection of its is a speculative transaction. The child's copy of the private page is
/// its own, it opens the database anew, and neither disturbs the other.
#[test]
fn a_child_process_leaves_its_parents_fork_alone() {
    tell("speculative_vfs::neighbours::a_child_process_leaves_its_parents_fork_alone", || {
        let stage = Stage::new();
        let speculative = stage.speculating(10);
        Child::fork(|| {
            assert_eq!(locks::generation(), 1);
            assert!(speculative.is_inherited());
            let own = stage.speculating(30);
            assert_eq!((n(&own, 1), n(&own, 2)), (30, 0));
            assert_eq!(own.promote(), Promotion::Promoted);
            own.execute("UPDATE t SET n = 6 WHERE id = 2; COMMIT").expect("commits");
        })
        .join();
        assert_eq!(
            (n(&speculative, 1), n(&speculative, 2)),
            (10, 0),
            "the parent's speculative transaction is what it was"
        );
        assert_eq!(speculative.promote(), Promotion::Stale);
        speculative.execute("ROLLBACK").expect("rolls back");
        assert_eq!((n(&speculative, 1), n(&speculative, 2)), (30, 6));

        // The parent commits, as a promoted fork, with a child that ends in between.
        speculative.arm_speculation(true);
        speculative.execute("BEGIN; UPDATE t SET n = 40 WHERE id = 1").expect("writes");
        Child::fork(|| assert!(speculative.is_inherited())).join();
        assert_eq!(speculative.promote(), Promotion::Promoted);
        Child::fork(|| assert!(is_locked(other_process(&stage.path, "delete from t")))).join();
        assert!(is_locked(other_process(&stage.path, "delete from t")), "the lock is held on");
        speculative.execute("COMMIT").expect("commits");
        let seen = other_process(&stage.path, "pragma integrity_check; select n from t");
        assert_eq!(seen.expect("another process reads"), ["ok", "40", "6"]);
    });
}

/// The parent is killed in the middle of a speculative transaction: there is nothing to recover.
#[test]
fn a_killed_fork_leaves_nothing() {
    tell("speculative_vfs::neighbours::a_killed_fork_leaves_nothing", || {
        let stage = Stage::new();
        let reader = stage.connect();
        assert_eq!(n(&reader, 1), 0);
        let before = stage.bytes("shm");
        let (begun, never) = (crate::own_process::Signal::new(), crate::own_process::Signal::new());
        let child = Child::fork(|| {
            let _fork = stage.speculating(10);
            begun.give();
            never.take();
        });
        begun.take();
        child.kill();
        assert!(stage.bytes("shm") == before, "the wal-index is as it was");
        let seen = other_process(&stage.path, "update t set n = 1; select n from t");
        assert_eq!(seen.expect("no lock is left"), ["1", "1"]);
    });
}

/// Five hundred transactions at once, each on its own snapshot, from four threads.
#[test]
fn five_hundred_forks_at_once() {
    const THREADS: i64 = 4;
    const FORKS: i64 = 125;
    let stage = Stage::new();
    let barrier = std::sync::Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (stage, barrier) = (&stage, &barrier);
            scope.spawn(move || {
                let connections: Vec<_> =
                    (0..FORKS).map(|i| stage.speculating(1_000 * thread + i)).collect();
                barrier.wait();
                for (i, speculative) in (0..).zip(&connections) {
                    assert_eq!((n(speculative, 1), n(speculative, 2)), (1_000 * thread + i, 0));
                }
                barrier.wait();
                if thread == 0 {
                    assert_eq!(connections[7].promote(), Promotion::Promoted);
                    connections[7].execute("COMMIT").expect("commits");
                }
                barrier.wait();
                for (i, speculative) in
                    (0..).zip(&connections).filter(|(i, _)| (thread, *i) != (0, 7))
                {
                    assert_eq!(n(speculative, 1), 1_000 * thread + i);
                    assert_eq!(speculative.promote(), Promotion::Stale);
                    speculative.execute("ROLLBACK").expect("rolls back");
                    assert_eq!(n(speculative, 1), 7);
                }
            });
        }
    });
    assert_eq!(text(&stage.connect(), "PRAGMA integrity_check"), "ok");
}
