//! `changes()` and `total_changes()` belong to a session, wherever its statements run.

use std::sync::Arc;

use manyhands_sqlite::{Connection, OpenMode, SessionCounters};

/// An executor runs the statements of two sessions by turns on its own connection. Each session sees
/// what it would see alone.
#[test]
fn an_executor_counts_for_the_session_whose_statements_it_runs() {
    let executor = Connection::open(":memory:".as_ref(), OpenMode::ReadWriteCreate, false)
        .expect("a connection");
    let counters = Arc::new(SessionCounters::default());
    executor.count_session(&counters).expect("the functions are replaced");
    let run = |sql| executor.execute(sql).expect("a statement");
    let counted = || {
        let ask = |sql| executor.query_integer(sql).expect("a count");
        (ask("select changes()"), ask("select total_changes()"))
    };
    run("create table t(a); insert into t values(1), (2), (3)");

    counters.set_counters(5, 70, executor.total_changes());
    assert_eq!(counted(), (5, 70), "what the first session counted elsewhere");
    run("insert into t select changes()");
    assert_eq!(executor.query_integer("select max(a) from t").expect("a row"), 5);
    assert_eq!(counted(), (1, 71));

    counters.set_counters(0, 0, executor.total_changes());
    assert_eq!(counted(), (0, 0), "the second session has changed nothing");
    run("update t set a = a");
    assert_eq!(counted(), (4, 4));
    run("delete from t where a > 100");
    assert_eq!(counted(), (0, 4), "a statement that changed nothing, after one that did");

    counters.set_counters(1, 71, executor.total_changes());
    assert_eq!(counted(), (1, 71), "the first session again");
    run("delete from t where a > 100");
    counters.ran_here();
    assert_eq!(counted(), (0, 71), "a statement that changed nothing, and was told of");
}
