//! What a request may not do to the executor.

use super::*;
use crate::Database;
use crate::commit::request::Counts;
use crate::row::Counted;
use crate::statement::observe::Seen;

/// A request comes through shared memory. It gets no statement of the executor's own, whatever its text.
#[test]
fn a_request_ends_no_batch() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = Database::open(directory.path().join("app.db")).expect("opens");
    database.enter().expect("the file is made");
    let connection = database.connect().expect("a connection");
    let file = connection.file.clone().expect("it has a queue");
    let queue = file.queue();
    let mut guard = file.executor(&queue).expect("an executor");
    let executor = guard.get();
    let session = connection.session_settings;
    let origin = Origin { change: 0, checksum: 0, pinned: sqlite::Pinned::now() };
    let deadline = || Deadline::after(Duration::from_secs(5));
    executor.adopt(session).expect("settings");
    for again in [false, true] {
        executor.begin(deadline()).expect("begins");
        // Now the executor has compiled all of its own.
        executor.internal("SAVEPOINT \"manyhands transaction\"").expect("a savepoint");
        executor.internal("RELEASE \"manyhands transaction\"").expect("its end");
        executor.commit().expect("commits");
        executor.begin(deadline()).expect("begins");
        for sql in [
            "COMMIT",
            "ROLLBACK",
            "SAVEPOINT \"manyhands transaction\"",
            "RELEASE \"manyhands transaction\"",
        ] {
            let mut request = Request::new(session, Counts::default(), again.then_some(origin));
            request.push(sql, 0, &[]);
            request.statements[0].seen =
                again.then(|| (Seen { to_end: true, ..Seen::default() }, Counted::default()));
            let (mut bytes, mut answer) = (Vec::new(), Vec::new());
            request::encode(&request, &mut bytes).expect("it is small");
            let executed = executor.execute(
                &bytes,
                limits::FIRST_REQUEST_TIME_MAX,
                |_| TableSet::ALL,
                &mut answer,
            );
            let refused = if again { Executed::Spoiled } else { Executed::NotHere };
            assert_eq!(executed, refused, "{sql}");
            assert!(!executor.connection().is_autocommit(), "{sql}");
            if again {
                executor.rollback().expect("rolls back");
                executor.begin(deadline()).expect("begins");
            }
        }
        executor.commit().expect("commits");
    }
}

/// The text of a request is what the application wrote, which may go on with a comment.
#[test]
fn a_statement_with_a_comment_after_it_is_executed_here() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = Database::open(directory.path().join("app.db")).expect("opens");
    let mut connection = database.connect().expect("a connection");
    connection.execute("CREATE TABLE t (n)", &[]).expect("a table");
    let file = connection.file.clone().expect("it has a queue");
    let queue = file.queue();
    let mut guard = file.executor(&queue).expect("an executor");
    let executor = guard.get();
    let settings = connection.session_settings;
    executor.adopt(settings).expect("settings");
    for (sql, expected) in [
        ("INSERT INTO t VALUES (1); -- and so on", Executed::Answered),
        ("INSERT INTO t VALUES (1); -- and so on", Executed::Answered),
        ("INSERT INTO t VALUES (1) /* one */ ;\n", Executed::Answered),
        ("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)", Executed::NotHere),
    ] {
        executor.begin(Deadline::after(Duration::from_secs(5))).expect("begins");
        let mut request = Request::new(settings, Counts::default(), None);
        request.push(sql, 0, &[]);
        let (mut bytes, mut answer) = (Vec::new(), Vec::new());
        request::encode(&request, &mut bytes).expect("it is small");
        let time_max = limits::FIRST_REQUEST_TIME_MAX;
        let executed = executor.execute(&bytes, time_max, |_| TableSet::ALL, &mut answer);
        assert_eq!(executed, expected, "{sql}");
        executor.commit().expect("commits");
    }
}
