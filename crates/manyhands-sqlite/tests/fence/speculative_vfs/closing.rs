//! Lost commits, found by failing system calls: the last connection to close checkpoints without asking
//! for a lock of the wal-index, since it holds the whole file. One that had rolled back a speculative transaction still saw a
//! private page, so it checkpointed an old state, and deleted the WAL with everything newer in it.

use super::{Stage, n};

/// What others committed since the speculative transaction is there after the last connection, the speculative transaction's, was closed.
#[test]
fn the_last_to_close_after_a_fork_keeps_what_others_committed() {
    let stage = Stage::new();
    let one = stage.speculating(10);
    one.execute("ROLLBACK").expect("rolls back");
    let other = stage.connect();
    other.execute("UPDATE t SET n = 5 WHERE id = 2").expect("commits");
    drop(other);
    drop(one);
    assert!(!stage.beside("wal").exists(), "the last one to close has checkpointed");
    assert_eq!(n(&stage.connect(), 2), 5);
}
