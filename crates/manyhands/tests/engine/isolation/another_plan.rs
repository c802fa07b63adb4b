//! SQLite compiles a statement again for a value that makes another plan better. What was known of the statement is true
//! then as before, unless a new schema came with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use manyhands::{Action, ActionKind, Connection, Database, Error, Outcome, Verdict, params};

use super::story::open;
use crate::stage::{Stage, connect, execute, in_time, number, shell, until};
use crate::waiting::Probe;

/// Most items have the same note: what SQLite knows of it by ANALYZE decides whether the index helps.
const SCHEMA: &str = "
    CREATE TABLE item (id INTEGER PRIMARY KEY, note, n DEFAULT 0);
    WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 500)
        INSERT INTO item (note) SELECT iif(n % 10, 0, n) FROM i;
    CREATE INDEX of_note ON item (note);
    CREATE TABLE entry (id INTEGER PRIMARY KEY AUTOINCREMENT, text);
    CREATE TABLE counter (n); INSERT INTO counter VALUES (0);
    ANALYZE;";

/// Compiled again for each value, and never.
const BY_NOTE: &str = "UPDATE item SET n = n + 1 WHERE note = ?1";
const BY_ID: &str = "UPDATE item SET n = n + 1 WHERE id = ?1";

const TRIGGER: &str = "CREATE TRIGGER counts AFTER UPDATE ON item WHEN NEW.note = 20
    BEGIN UPDATE counter SET n = n + 1; END";

fn stage() -> (Stage, Database) {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    connect(&database).execute_script(SCHEMA).expect("the schema");
    (stage, database)
}

fn count(connection: &mut Connection, by: &str, number: i64) -> Result<Outcome, Error> {
    connection.execute(by, params![number])
}

/// Counts items in one batch of several connections, whoever leads it.
fn count_together(stage: &Stage, database: &Database, by: &'static str, numbers: &[i64]) {
    let mut holder = connect(database);
    let held = holder.begin_immediate().expect("begins");
    let mut probe = Probe::new(&stage.path());
    let mut waiting = Vec::new();
    for &number in numbers {
        let mut connection = connect(database);
        waiting.push(std::thread::spawn(move || count(&mut connection, by, number)));
        until("it waits", || probe.waiting() == waiting.len());
    }
    held.rollback().expect("rolls back");
    for thread in waiting {
        thread.join().expect("no panic").expect("counts");
    }
}

/// A statement that is compiled again on its way stays in its batch.
#[test]
fn it_spoils_no_batch() {
    in_time(|| {
        let (stage, database) = stage();
        let turns = || database.statistics().expect("a queue").turns;
        let before = turns();
        count_together(&stage, &database, BY_NOTE, &[10, 20, 30, 40]);
        assert_eq!(turns(), before, "somebody was sent to its own turn");
        assert_eq!(number(&mut connect(&database), "SELECT sum(n) FROM item"), 4);
    });
}

/// It has written its tables, and no others: an id that somebody was told is still theirs, though another has a higher one.
#[test]
fn it_takes_no_id() {
    in_time(|| {
        for together in [false, true] {
            let (stage, database) = stage();
            let (mut one, mut other) = (connect(&database), connect(&database));
            let insert = "INSERT INTO entry (text) VALUES ('a') RETURNING id";
            execute(&mut one, "BEGIN");
            assert_eq!(number(&mut one, insert), 1);
            assert_eq!(number(&mut other, insert), 2);
            if together {
                count_together(&stage, &database, BY_NOTE, &[20, 30]);
            } else {
                count(&mut other, BY_NOTE, 20).expect("counts");
            }
            execute(&mut one, "COMMIT");
        }
    });
}

/// A read is compiled for its value, and not once more for the next: rows at once, and one by one.
#[test]
fn it_is_kept() {
    let (_stage, database) = stage();
    let mut connection = connect(&database);
    let compiled = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&compiled);
    let note = move |action: &Action<'_>| {
        counts.fetch_add(usize::from(action.kind == ActionKind::Select), Ordering::Relaxed);
        Verdict::Allow
    };
    connection.set_authorizer(Some(note)).expect("asks");
    let sql = "SELECT n FROM item WHERE note = ?1 ORDER BY id LIMIT ?2";
    for by_cursor in [false, true] {
        compiled.store(0, Ordering::Relaxed);
        for number in [10, 20, 30, 40, 50] {
            let values = params![number, 1];
            if by_cursor {
                let mut cursor = connection.cursor(sql, values).expect("reads");
                assert!(cursor.next_row().expect("a row").is_some());
            } else {
                assert_eq!(connection.query(sql, values).expect("reads").len(), 1);
            }
        }
        let compiled = compiled.load(Ordering::Relaxed);
        assert!(compiled <= 6, "compiled {compiled} times for 5 values, by cursor: {by_cursor}");
    }
}

/// A trigger that is new writes more than was known: who has read that must hear of it.
#[test]
fn a_trigger_came_with_it() {
    in_time(|| {
        for (by, together) in [(BY_NOTE, false), (BY_NOTE, true), (BY_ID, false), (BY_ID, true)] {
            let (stage, database) = stage();
            let (mut one, mut other) = (connect(&database), connect(&database));
            let mut work = |number| {
                if together {
                    count_together(&stage, &database, by, &[number]);
                } else {
                    count(&mut other, by, number).expect("counts");
                }
            };
            (0..3).for_each(|_| work(10));
            shell(&stage.path(), TRIGGER);
            // Before the last round it is known what it reads, and who has written what.
            for changes in [false, false, true] {
                execute(&mut one, "BEGIN");
                assert_eq!(number(&mut one, "SELECT n FROM counter"), 0);
                if changes {
                    work(20);
                }
                execute(&mut one, "INSERT INTO entry (text) VALUES ('a')");
                let committed = one.execute("COMMIT", params![]);
                let conflicts = committed.is_err_and(|error| error.is_conflict());
                assert_eq!(conflicts, changes, "{by}, together: {together}");
            }
        }
    });
}

/// The same in a transaction, whose reads are not executed again where nobody has written what they read.
#[test]
fn a_view_came_with_it() {
    in_time(|| {
        let (stage, database) = stage();
        let (mut one, mut other) = (connect(&database), connect(&database));
        execute(&mut other, "CREATE VIEW shown AS SELECT note, n FROM item");
        let sql = "SELECT count(*) FROM shown WHERE note = 0";
        let insert = "INSERT INTO entry (text) VALUES (0)";
        for _ in 0..3 {
            execute(&mut one, "BEGIN");
            assert_eq!(number(&mut one, sql), 450);
            execute(&mut one, "COMMIT");
            execute(&mut other, insert);
        }
        shell(
            &stage.path(),
            "DROP VIEW shown; CREATE VIEW shown AS SELECT text AS note, 0 AS n FROM entry",
        );
        execute(&mut one, "UPDATE counter SET n = 1");
        execute(&mut one, "BEGIN");
        assert_eq!(number(&mut one, sql), 3);
        execute(&mut one, "UPDATE counter SET n = 1");
        execute(&mut other, insert);
        let error = one.execute("COMMIT", params![]).expect_err("there is one more now");
        assert!(error.is_conflict(), "{error}");
    });
}
