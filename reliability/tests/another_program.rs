//! Another program commits between the commit of a batch that wrote nothing and the leader's note of it. The leader
//! noted that program's commit as its own, of no tables: a transaction that had read what the program changed was
//! spared its reads, and committed what it had made of them.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use manyhands::{Connection, Database, Value, params};
use manyhands_queue::crash;

const NONE: &[Value] = &[];
/// A batch that writes nothing.
const NOTHING: &[(&str, &[Value])] = &[("UPDATE z SET n = 1 WHERE n = -1", NONE)];

fn read(connection: &mut Connection) -> i64 {
    connection.query("SELECT n FROM x", params![]).expect("reads")[0].get(0).expect("a number")
}

#[test]
fn its_commit_is_nobodys_note() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("app.db");
    let database = Database::open(&path).expect("opens");
    let mut one = database.connect().expect("a connection");
    let mut two = database.connect().expect("a connection");
    for sql in ["CREATE TABLE x (n)", "CREATE TABLE y (n)", "CREATE TABLE z (n)"] {
        one.execute(sql, params![]).expect("made");
    }
    one.execute("INSERT INTO x VALUES (1)", params![]).expect("made");
    one.execute("INSERT INTO y VALUES (0)", params![]).expect("made");
    let writes = Arc::new(AtomicBool::new(false));
    let visitor = {
        let (writes, path) = (Arc::clone(&writes), path.clone());
        move |point| {
            if point == "committed" && writes.swap(false, Ordering::SeqCst) {
                let sqlite3 =
                    Command::new("sqlite3").arg(&path).arg("UPDATE x SET n = 100").status();
                assert!(sqlite3.expect("it starts").success());
            }
        }
    };
    crash::visit(visitor);
    let transact = |one: &mut Connection, meanwhile: &mut dyn FnMut()| {
        one.execute("BEGIN", params![]).expect("begins");
        let n = read(one);
        one.execute("UPDATE y SET n = ?1", params![n]).expect("writes");
        meanwhile();
        one.execute("COMMIT", params![])
    };
    // What a statement touches is known when it is used again.
    for _ in 0..3 {
        two.batch(NOTHING).expect("nothing");
        transact(&mut one, &mut || drop(two.batch(NOTHING).expect("nothing"))).expect("commits");
    }
    let committed = transact(&mut one, &mut || {
        writes.store(true, Ordering::SeqCst);
        two.batch(NOTHING).expect("nothing");
        assert!(!writes.load(Ordering::SeqCst), "the other program has written");
    });
    assert!(committed.is_err(), "x is {}, and it saw another", read(&mut two));
}
