//! A conflict is a value: something that a transaction looked at is now another. Everything else commits,
//! however much of the same rows two transactions touch.

use std::sync::atomic::{AtomicI64, Ordering};

use manyhands::{Connection, Error, params};

use super::story::{open, play, play_on, show};
use crate::stage::{ITEM, Stage, connect, execute, in_time, number, shell};

/// A transaction that changes a row and returns it, against an autocommit update of the row: the
/// transaction conflicts, in either order; the autocommit never does.
#[test]
fn a_returned_value_against_an_autocommit_update() {
    play(
        "
        A BEGIN
        A UPDATE test SET value = value - 100 WHERE id = 1 RETURNING value  -> -90
        B UPDATE test SET value = value + 1 WHERE id = 1
        A COMMIT                                                            -> conflict at 1
        table                                                               -> 1|11, 2|20",
    );
    play(
        "
        A BEGIN
        A UPDATE test SET value = value - 100 WHERE id = 1 RETURNING value  -> -90
        B UPDATE test SET value = value + 1 WHERE id = 1 RETURNING value    -> 11
        A ROLLBACK
        table                                                               -> 1|11, 2|20",
    );
    play(
        "
        A BEGIN
        A UPDATE test SET value = value - 100 WHERE id = 1 RETURNING value  -> -90
        A COMMIT
        B UPDATE test SET value = value + 1 WHERE id = 1 RETURNING value    -> -89
        table                                                               -> 1|-89, 2|20",
    );
}

/// Two transactions change and count the same set: exactly one commits.
#[test]
fn two_that_change_and_count_the_same_set() {
    play(
        "
        A BEGIN
        B BEGIN
        A DELETE FROM test WHERE value >= 10 # -> 2 changed
        B DELETE FROM test WHERE value >= 10 # -> 2 changed
        A COMMIT
        B COMMIT                               -> conflict at 1
        table",
    );
    play(
        "
        A BEGIN
        B BEGIN
        A UPDATE test SET value = -value WHERE value > 0
        A SELECT count(*) FROM test WHERE value > 0       -> 0
        B UPDATE test SET value = -value WHERE value > 0 # -> 2 changed
        B COMMIT
        A COMMIT
        table                                             -> 1|-10, 2|-20",
    );
    play(
        "
        A BEGIN
        B BEGIN
        A SELECT count(*) FROM test WHERE value > 0       -> 2
        A UPDATE test SET value = -value WHERE id = 1
        B SELECT count(*) FROM test WHERE value > 0       -> 2
        B UPDATE test SET value = -value WHERE id = 2
        B COMMIT
        A COMMIT                                          -> conflict at 1
        table                                             -> 1|10, 2|-20",
    );
}

/// Two transactions set the same columns of the same row and return what they set: both commit.
#[test]
fn two_that_return_only_what_they_set() {
    play(
        "
        A BEGIN
        B BEGIN
        A UPDATE test SET value = 11 WHERE id = 1 RETURNING id, value -> 1|11
        B UPDATE test SET value = 12 WHERE id = 1 RETURNING id, value -> 1|12
        A SELECT value FROM test WHERE id = 1                         -> 11
        B SELECT value FROM test WHERE id = 1                         -> 12
        A UPDATE test SET value = 13 WHERE id = 1 #                   -> 1 changed
        A COMMIT
        B COMMIT
        table                                                         -> 1|12, 2|20",
    );
}

/// A counted change, against an insert and a demotion that leave the count as it was: both commit.
#[test]
fn a_count_that_stays() {
    play_on(
        "CREATE TABLE test (id INTEGER PRIMARY KEY, amount INTEGER);
         INSERT INTO test VALUES (1, 50), (2, 150), (3, 250);",
        "
        A BEGIN
        A UPDATE test SET amount = amount + 1 WHERE amount > 100 # -> 2 changed
        B BEGIN
        B INSERT INTO test VALUES (4, 400)
        B UPDATE test SET amount = 99 WHERE id = 2
        B COMMIT
        A COMMIT
        table -> 1|50, 2|99, 3|251, 4|401",
    );
}

/// What the caller did not look at is no reason for a conflict: blind writes commit in any order.
#[test]
fn blind_writes_never_conflict() {
    play(
        "
        A BEGIN
        B BEGIN
        C BEGIN
        A UPDATE test SET value = value * 2
        B UPDATE test SET value = value + 1
        C DELETE FROM test WHERE value > 40
        A COMMIT
        B COMMIT
        C COMMIT
        table -> 1|21",
    );
    play(
        "
        A BEGIN
        A DELETE FROM test WHERE value = 20
        A INSERT INTO test VALUES (2, 22)
        B UPDATE test SET value = 99 WHERE id = 1
        A COMMIT
        table -> 1|99, 2|22",
    );
}

/// The same write conflicts if its row count was asked for, and has changed.
#[test]
fn a_row_count_counts_only_when_asked_for() {
    play(
        "
        A BEGIN
        A UPDATE test SET value = 0 WHERE value > 15
        B INSERT INTO test VALUES (3, 30)
        A COMMIT
        table -> 1|10, 2|0, 3|0",
    );
    play(
        "
        A BEGIN
        A INSERT INTO test VALUES (4, 1)
        A UPDATE test SET value = 0 WHERE value > 15 # -> 1 changed
        B INSERT INTO test VALUES (3, 30)
        A COMMIT                                       -> conflict at 2
        table                                          -> 1|10, 2|20, 3|30",
    );
}

/// A count that is asked for late, after other statements, and just before the COMMIT, still counts.
#[test]
fn a_row_count_may_be_asked_for_late() {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    execute(&mut connect(&database), ITEM);
    let (mut one, mut other) = (connect(&database), connect(&database));
    execute(&mut one, "INSERT INTO item VALUES (1, 'a'), (2, 'b')");
    for asks in [false, true] {
        let mut transaction = one.transaction().expect("begins");
        let outcome =
            transaction.execute("UPDATE item SET note = 'c'", params![]).expect("updates");
        transaction.query("SELECT 1", params![]).expect("reads");
        execute(&mut other, "INSERT INTO item (note) VALUES ('d')");
        if asks {
            assert_eq!(outcome.changes(), 3);
        }
        let result = transaction.commit();
        assert_eq!(result.as_ref().is_err_and(Error::is_conflict), asks, "{result:?}");
    }
}

/// A transaction that only reads commits, whatever others do; so does one that wrote nothing in effect.
#[test]
fn reading_never_conflicts() {
    play(
        "
        A BEGIN
        A SELECT * FROM test                          -> 1|10, 2|20
        B DELETE FROM test
        A SELECT * FROM test                          -> 1|10, 2|20
        A COMMIT
        table",
    );
    play(
        "
        A BEGIN
        A SELECT sum(value) FROM test                 -> 30
        S DELETE FROM test
        A SELECT sum(value) FROM test                 -> 30
        A COMMIT
        A SELECT sum(value) FROM test                 ->
        table",
    );
}

/// The classics, in one line each: write skew on call duty, and a withdrawal that a phantom spoils.
#[test]
fn the_classics() {
    play(
        "
        A BEGIN
        B BEGIN
        A SELECT count(*) FROM test WHERE value > 0   -> 2
        B SELECT count(*) FROM test WHERE value > 0   -> 2
        A UPDATE test SET value = 0 WHERE id = 1
        B UPDATE test SET value = 0 WHERE id = 2
        B COMMIT
        A COMMIT                                      -> conflict at 1
        table                                         -> 1|10, 2|0",
    );
    play(
        "
        A BEGIN
        A SELECT sum(value) FROM test                 -> 30
        B INSERT INTO test VALUES (3, -25)
        A INSERT INTO test VALUES (4, -30)
        A COMMIT                                      -> conflict at 1
        table                                         -> 1|10, 2|20, 3|-25",
    );
    // The sum is the same again: nothing that was seen has changed.
    play(
        "
        A BEGIN
        A SELECT sum(value) FROM test                 -> 30
        B UPDATE test SET value = value - 5 WHERE id = 1; UPDATE test SET value = value + 5 WHERE id = 2
        A INSERT INTO test VALUES (3, -30)
        A COMMIT
        table                                         -> 1|5, 2|25, 3|-30",
    );
    // A row that is not there is seen, too.
    play(
        "
        A BEGIN
        B BEGIN
        A SELECT id FROM test WHERE id = 3
        B SELECT id FROM test WHERE id = 3
        A INSERT INTO test VALUES (3, 1)
        B INSERT INTO test VALUES (4, 2)
        A COMMIT
        B COMMIT                                      -> conflict at 1
        table                                         -> 1|10, 2|20, 3|1",
    );
}

/// An error that was seen is an observation: two that both insert the same key, and one whose duplicate
/// is gone at its commit.
#[test]
fn errors_are_values() {
    play(
        "
        A BEGIN
        B BEGIN
        A INSERT INTO test VALUES (3, 1)
        B INSERT INTO test VALUES (3, 2)
        A COMMIT
        B COMMIT                                      -> conflict at 1
        table                                         -> 1|10, 2|20, 3|1",
    );
    play(
        "
        A BEGIN
        A INSERT INTO test VALUES (2, 1)              -> error 19
        A INSERT INTO test VALUES (3, 1)
        B DELETE FROM test WHERE id = 2
        A COMMIT                                      -> conflict at 1
        table                                         -> 1|10",
    );
    play(
        "
        A BEGIN
        A INSERT INTO test VALUES (2, 1)              -> error 19
        A INSERT INTO test VALUES (3, 1)
        B UPDATE test SET value = 0 WHERE id = 2
        A COMMIT
        table                                         -> 1|10, 2|0, 3|1",
    );
}

/// A read inside a savepoint that was rolled back was seen all the same.
#[test]
fn a_read_that_was_rolled_back_was_seen() {
    play(
        "
        A BEGIN
        A SAVEPOINT s
        A SELECT value FROM test WHERE id = 1         -> 10
        A ROLLBACK TO s
        A RELEASE s
        A UPDATE test SET value = 21 WHERE id = 2
        B UPDATE test SET value = 11 WHERE id = 1
        A COMMIT                                      -> conflict at 2
        table                                         -> 1|11, 2|20",
    );
}

fn totals<'a>(connections: impl Iterator<Item = &'a mut Connection>, sql: &str, rounds: usize) {
    std::thread::scope(|scope| {
        for connection in connections {
            scope.spawn(move || {
                for _ in 0..rounds {
                    let mut transaction = connection.transaction().expect("begins");
                    execute(&mut transaction, sql);
                    execute(&mut transaction, "UPDATE hot SET m = m + n WHERE id = 1");
                    transaction.commit().expect("nothing was looked at");
                }
            });
        }
    });
}

/// Increments of a hot counter that look at nothing never conflict, and none is lost.
#[test]
fn a_hot_counter_without_reading() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = open(&stage, false);
        connect(&database)
            .execute_script(
                "CREATE TABLE hot (id INTEGER PRIMARY KEY, n, m); INSERT INTO hot VALUES (1, 0, 0)",
            )
            .expect("the schema");
        let mut connections: Vec<_> = (0..4).map(|_| connect(&database)).collect();
        totals(connections.iter_mut(), "UPDATE hot SET n = n + 1 WHERE id = 1", 100);
        assert_eq!(shell(&stage.path(), "SELECT n, m FROM hot"), format!("400|{}", 401 * 200));
    });
}

/// The new ids that two transactions both read stay theirs: both commit.
#[test]
fn new_ids_that_both_read() {
    const IDS: [&str; 3] =
        ["id INTEGER PRIMARY KEY, ", "id INTEGER PRIMARY KEY AUTOINCREMENT, ", ""];
    for (columns, begins_empty) in
        IDS.iter().flat_map(|columns| [(columns, true), (columns, false)])
    {
        let stage = Stage::without_disk();
        let database = open(&stage, false);
        let (mut one, mut other) = (connect(&database), connect(&database));
        execute(&mut one, &format!("CREATE TABLE made ({columns}note)"));
        if !begins_empty {
            execute(&mut one, "INSERT INTO made (note) VALUES ('first'), ('second')");
        }
        execute(&mut one, "BEGIN");
        execute(&mut other, "BEGIN");
        let ids = [&mut one, &mut other].map(|connection| {
            let insert = "INSERT INTO made (note) VALUES ('returned') RETURNING rowid";
            let returned = number(connection, insert);
            let outcome = connection
                .execute("INSERT INTO made (note) VALUES ('asked')", params![])
                .expect("inserts");
            assert_eq!(
                outcome.last_insert_rowid(),
                number(connection, "SELECT last_insert_rowid()")
            );
            [returned, outcome.last_insert_rowid()]
        });
        execute(&mut one, "COMMIT");
        execute(&mut other, "COMMIT");
        let mut all = ids.concat();
        all.sort_unstable();
        let rows = "SELECT rowid FROM made WHERE note IN ('returned', 'asked') ORDER BY rowid";
        let there = connect(&database).query(rows, params![]).expect("reads");
        let expected = all.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        assert_eq!(show(&there), expected, "{columns} {begins_empty}");
        all.dedup();
        assert_eq!(all.len(), 4, "{columns} {begins_empty}: {ids:?}");
    }
}

/// Several new rows in one statement, and an upsert that inserts: their ids stay theirs, too.
#[test]
fn new_ids_of_several_rows() {
    for insert in [
        "INSERT INTO made (note) VALUES ('x'), ('y'), ('z') RETURNING id",
        "INSERT INTO made (note) VALUES ('x') ON CONFLICT (id) DO UPDATE SET note = 'y' RETURNING id",
        "INSERT INTO made DEFAULT VALUES RETURNING id",
        "REPLACE INTO made (id, note) VALUES (NULL, 'x') RETURNING id",
    ] {
        let stage = Stage::without_disk();
        let database = open(&stage, false);
        let (mut one, mut other) = (connect(&database), connect(&database));
        execute(&mut one, "CREATE TABLE made (id INTEGER PRIMARY KEY, note)");
        let seen = [&mut one, &mut other].map(|connection| {
            execute(connection, "BEGIN");
            connection.query(insert, params![]).expect("inserts")
        });
        execute(&mut one, "COMMIT");
        let second = other.execute("COMMIT", params![]);
        assert!(second.is_ok(), "{insert}: {second:?}");
        let mut expected: Vec<i64> =
            seen.iter().flatten().map(|row| row.get(0).expect("an id")).collect();
        expected.sort_unstable();
        let expected = expected.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        assert_eq!(shell(&stage.path(), "SELECT group_concat(id) FROM made"), expected, "{insert}");
    }
}

/// Nobody knows how many ids an INSERT … SELECT takes: two that both look at theirs conflict, as values do.
#[test]
fn new_ids_of_a_select() {
    play(
        "
        A BEGIN
        B BEGIN
        A INSERT INTO test (value) SELECT value + 1 FROM test WHERE id = 1 RETURNING id -> 3
        B INSERT INTO test (value) SELECT value + 2 FROM test WHERE id = 1 RETURNING id -> 3
        A COMMIT
        B COMMIT                                                                        -> conflict at 1
        table                                                                           -> 1|10, 2|20, 3|11",
    );
    play(
        "
        A BEGIN
        B BEGIN
        A INSERT INTO test (value) SELECT value + 1 FROM test WHERE id = 1
        B INSERT INTO test (value) SELECT value + 2 FROM test WHERE id = 1
        A COMMIT
        B COMMIT
        table -> 1|10, 2|20, 3|11, 4|12",
    );
}

/// New ids while others insert, too: autocommit, a batch, a stock program. What nobody looked at never
/// conflicts; ids that were read and that somebody else has taken do.
#[test]
fn new_ids_beside_other_inserts() {
    let setup =
        "CREATE TABLE test (id INTEGER PRIMARY KEY, note); INSERT INTO test VALUES (1, 'a')";
    play_on(
        setup,
        "
        A BEGIN
        A INSERT INTO test (note) VALUES ('b')
        S INSERT INTO test (note) VALUES ('c')
        A COMMIT
        S SELECT count(*), count(DISTINCT id) FROM test -> 3|3",
    );
    play_on(
        setup,
        "
        A BEGIN
        A INSERT INTO test (note) VALUES ('b')
        B INSERT INTO test (note) VALUES ('c')
        B INSERT INTO test (note) VALUES ('d'); INSERT INTO test (note) VALUES ('e')
        A COMMIT
        S SELECT count(*), count(DISTINCT id) FROM test -> 5|5",
    );
    play_on(
        setup,
        "
        A BEGIN
        A INSERT INTO test (note) VALUES ('b') RETURNING note -> b
        B INSERT INTO test (note) VALUES ('c')
        A COMMIT
        S SELECT count(*), count(DISTINCT id) FROM test -> 3|3",
    );
}

/// AUTOINCREMENT never gives an id twice, also when a stock program has used and deleted the one that was
/// reserved. Who has seen it conflicts, who has not gets another.
#[test]
fn an_id_that_a_stock_program_has_used_up() {
    let setup = "
        CREATE TABLE test (id INTEGER PRIMARY KEY AUTOINCREMENT, note);
        INSERT INTO test (note) VALUES ('a');";
    play_on(
        setup,
        "
        A BEGIN
        A INSERT INTO test (note) VALUES ('b')
        S INSERT INTO test (note) VALUES ('c') RETURNING id   -> 2
        S DELETE FROM test WHERE note = 'c'
        A COMMIT
        S SELECT id > 2 FROM test WHERE note = 'b'            -> 1",
    );
    play_on(
        setup,
        "
        A BEGIN
        A INSERT INTO test (note) VALUES ('b') RETURNING id   -> 2
        S INSERT INTO test (note) VALUES ('c') RETURNING id   -> 2
        S DELETE FROM test WHERE note = 'c'
        A COMMIT                                              -> conflict at 1
        table                                                 -> 1|a",
    );
}

/// A turn that wrote nothing, and waited for a stock program's commit, does not hide that commit from a
/// transaction that read before.
#[test]
fn a_turn_that_wrote_nothing_hides_no_commit_of_others() {
    // Meanwhile B gets its turn, and waits for the lock.
    const LONG_WORK: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
                             WHERE i < 1000000) SELECT count(*) FROM n";
    for end in ["ROLLBACK", "COMMIT"] {
        play(&format!(
            "
            B SELECT count(*) FROM test                   -> 2
            A BEGIN
            A SELECT value FROM test WHERE id = 1         -> 10
            S BEGIN IMMEDIATE
            S UPDATE test SET value = 11 WHERE id = 1
            B BEGIN IMMEDIATE ...
            S {LONG_WORK}                                 -> 1000000
            S COMMIT
            B
            B {end}
            A UPDATE test SET value = 21 WHERE id = 2
            A COMMIT                                      -> conflict at 1
            table                                         -> 1|11, 2|20"
        ));
    }
}

/// `run` tries again after a conflict, at most once, and then holds the turn.
#[test]
fn run_tries_again_and_commits() {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    execute(&mut connect(&database), ITEM);
    let mut other = connect(&database);
    let tries = AtomicI64::new(0);
    let seen = connect(&database)
        .run(|transaction| {
            let seen = number(transaction, "SELECT count(*) FROM item");
            if tries.fetch_add(1, Ordering::Relaxed) == 0 {
                execute(&mut other, "INSERT INTO item (note) VALUES ('other')");
            }
            execute(transaction, "INSERT INTO item (note) VALUES ('own')");
            Ok::<_, Error>(seen)
        })
        .expect("commits");
    assert_eq!((seen, tries.into_inner()), (1, 2));
    assert_eq!(shell(&stage.path(), "SELECT count(*) FROM item"), "2");
}

/// Read, compute, write in `run` from 8 threads: no increment is lost.
#[test]
fn run_loses_no_increment() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = open(&stage, false);
        connect(&database)
            .execute_script("CREATE TABLE counter (n); INSERT INTO counter VALUES (0)")
            .expect("the schema");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        database
                            .run(|transaction| {
                                let n = number(transaction, "SELECT n FROM counter");
                                transaction.execute("UPDATE counter SET n = ?1", params![n + 1])
                            })
                            .expect("commits");
                    }
                });
            }
        });
        assert_eq!(shell(&stage.path(), "SELECT n FROM counter"), "400");
    });
}

/// The message says which statement, what it showed, what it shows now, and on which tables.
#[test]
fn a_conflict_names_what_has_changed() {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    connect(&database)
        .execute_script(
            "CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER);
             CREATE TABLE journal (note TEXT);
             INSERT INTO account VALUES (1, 500), (2, 700);",
        )
        .expect("the schema");
    let check = |work: &dyn Fn(&mut Connection), meanwhile: &str, number: usize, words: &[&str]| {
        let (mut one, mut other) = (connect(&database), connect(&database));
        let mut transaction = one.transaction().expect("begins");
        work(&mut transaction);
        execute(&mut transaction, "INSERT INTO journal VALUES ('wrote')");
        execute(&mut other, meanwhile);
        let error = transaction.commit().expect_err("it conflicts");
        let text = error.to_string();
        let conflict = error.conflict().unwrap_or_else(|| panic!("no conflict: {text}"));
        assert_eq!(conflict.number, number, "{text}");
        let [statement, seen, now, table] = *words else { panic!("four words") };
        assert!(conflict.statement.contains(statement), "{text}");
        assert!(conflict.seen.contains(seen), "{seen:?} was seen: {conflict:?}");
        assert!(conflict.now.contains(now), "{now:?} is now: {conflict:?}");
        assert_eq!(conflict.tables, [table.to_string()], "{text}");
        for word in words.iter().copied().chain(["conflict", "run"]) {
            assert!(text.contains(word), "{word:?} is missing in: {text}");
        }
        assert!(error.is_conflict() && !error.is_timeout() && !error.is_constraint(), "{text}");
        assert!(error.code().is_none() && one.is_autocommit(), "{text}");
    };
    let query = |sql: &'static str| {
        move |connection: &mut Connection| {
            connection.query(sql, params![]).expect("reads");
        }
    };
    let one = "SELECT cents FROM account WHERE id = 1";
    check(
        &|connection| {
            execute(connection, "UPDATE account SET cents = 0 WHERE id = 2");
            connection.query(one, params![]).expect("reads");
        },
        "UPDATE account SET cents = 400 WHERE id = 1",
        2,
        &[one, "500", "400", "account"],
    );
    let set = "SELECT id FROM account WHERE cents > 600";
    check(&query(set), "INSERT INTO account VALUES (3, 900)", 1, &[set, "", "3", "account"]);
    let change = "UPDATE account SET cents = cents + 1 WHERE cents > 800";
    check(
        &|connection| {
            assert_eq!(connection.execute(change, params![]).expect("updates").changes(), 1);
        },
        "UPDATE account SET cents = 0 WHERE id = 3",
        1,
        &[change, "1 row", "no row", "account"],
    );
    let insert = "INSERT INTO account VALUES (4, 1)";
    check(
        &|connection| execute(connection, insert),
        insert,
        1,
        &[insert, "", "CONSTRAINT_PRIMARYKEY", "account"],
    );
}
