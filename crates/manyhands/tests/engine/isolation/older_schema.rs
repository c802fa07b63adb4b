//! What was known of a statement in another schema than the one in which it takes effect.
//!
//! An INSERT whose ids are given is executed in a rewritten form, which SQLite compiles for itself: what is known
//! of the statement as it was written may be that of an older schema, in which it wrote fewer tables. So may be what
//! SQLite itself knows of a table, when it compiles a statement again.

use manyhands::{Action, ActionKind, Connection, Value, Verdict, params};

use super::story::{open, play_on};
use crate::stage::{Stage, connect, execute, number, shell};

const COUNTED: &str = "
    CREATE TABLE test (id INTEGER PRIMARY KEY, v);
    CREATE TABLE u (n); INSERT INTO u VALUES (0);
    CREATE TABLE next (id); INSERT INTO next VALUES (NULL);";

/// `A` has read the schema before the trigger was made, and compiles the INSERT after it.
#[test]
fn a_trigger_that_came_before_the_first_insert() {
    play_on(
        COUNTED,
        "
        A SELECT v FROM test
        S CREATE TRIGGER counts AFTER INSERT ON test BEGIN UPDATE u SET n = n + 1; END
        A BEGIN
        A INSERT INTO test (v) VALUES ('x')
        A COMMIT
        B BEGIN
        B SELECT n FROM u                                  -> 1
        B COMMIT
        B BEGIN
        B SELECT n FROM u                                  -> 1
        A BEGIN
        A INSERT INTO test (v) VALUES ('x')
        A COMMIT
        B UPDATE u SET n = 2
        B COMMIT                                           -> conflict at 1
        S SELECT n FROM u                                  -> 2",
    );
}

/// The trigger comes when the INSERT is well known, and the statement does not ask for an id any more.
#[test]
fn a_trigger_that_came_between_two_inserts() {
    play_on(
        COUNTED,
        "
        A BEGIN
        A INSERT OR REPLACE INTO test VALUES ((SELECT id FROM next), 'x')
        A COMMIT
        A BEGIN
        A INSERT OR REPLACE INTO test VALUES ((SELECT id FROM next), 'x')
        A COMMIT
        S CREATE TRIGGER counts AFTER INSERT ON test BEGIN UPDATE u SET n = n + 1; END
        C UPDATE next SET id = 5
        B BEGIN
        B SELECT n FROM u                                  -> 0
        B COMMIT
        B BEGIN
        B SELECT n FROM u                                  -> 0
        A BEGIN
        A INSERT OR REPLACE INTO test VALUES ((SELECT id FROM next), 'x')
        A COMMIT
        B UPDATE u SET n = 7
        B COMMIT                                           -> conflict at 1
        S SELECT n FROM u                                  -> 1",
    );
}

/// The leader has compiled the INSERT before the trigger was made, when nobody had reserved an id.
#[test]
fn a_trigger_that_the_leader_does_not_know() {
    play_on(
        COUNTED,
        "
        C BEGIN IMMEDIATE
        A INSERT INTO test (v) VALUES ('x') ...
        D INSERT INTO test (v) VALUES ('x') ...
        C COMMIT
        A
        D
        S CREATE TRIGGER counts AFTER INSERT ON test BEGIN UPDATE u SET n = n + 1; END
        B BEGIN
        B SELECT n FROM u                                  -> 0
        B COMMIT
        B BEGIN
        B SELECT n FROM u                                  -> 0
        B INSERT INTO test (v) VALUES ('y')
        C BEGIN IMMEDIATE
        A INSERT INTO test (v) VALUES ('x') ...
        D INSERT INTO test (v) VALUES ('x') ...
        C COMMIT
        A
        D
        B COMMIT                                           -> conflict at 1
        S SELECT n FROM u                                  -> 2",
    );
}

/// Where there is no trigger, SQLite compiles its removal to nothing, and says nothing of it.
#[test]
fn a_trigger_that_was_not_there_to_remove() {
    play_on(
        COUNTED,
        "
        A BEGIN
        A DROP TRIGGER IF EXISTS counts
        S CREATE TRIGGER counts AFTER INSERT ON test BEGIN UPDATE u SET n = n + 1; END ...
        A INSERT INTO u SELECT count(*) FROM sqlite_schema WHERE name = 'counts'
        A COMMIT
        S
        S SELECT max(n) FROM u                             -> 0",
    );
}

/// The rewritten form names the column of the id, which has another name now.
#[test]
fn a_column_that_was_renamed() {
    play_on(
        COUNTED,
        "
        A BEGIN
        A INSERT INTO test (v) VALUES ('x')
        A COMMIT
        S ALTER TABLE test RENAME COLUMN id TO number
        A BEGIN
        A INSERT INTO test (v) VALUES ('x')
        A COMMIT
        table                                              -> 1|x, 2|x",
    );
}

/// The same for who leads, and executes what others insert.
#[test]
fn a_column_that_was_renamed_under_the_leader() {
    let contended = |statement: &str| {
        format!(
            "
        A BEGIN
        A {statement}
        B INSERT INTO u VALUES (1)
        C BEGIN IMMEDIATE
        A COMMIT ...
        D INSERT INTO u VALUES (1) ...
        C COMMIT
        A
        D"
        )
    };
    let insert = contended("INSERT INTO test (v) VALUES ('x')");
    play_on(
        COUNTED,
        &format!(
            "{insert}
        S ALTER TABLE test RENAME COLUMN id TO number
        {insert}
        {insert}
        table                                              -> 1|x, 2|x, 3|x"
        ),
    );
}

/// SQLite compiles a statement again where it is executed, with the schema that it read last, and says then what is wrong
/// there (seen with 3.40 and 3.54: "table later has 3 columns but 2 values were supplied").
#[test]
fn a_table_that_another_program_has_made_anew() {
    let insert = "INSERT INTO later VALUES (3, 4)";
    for begin in ["SELECT 1", "BEGIN", "BEGIN IMMEDIATE"] {
        for (anew, error) in
            [("", Some("no such table: later")), ("CREATE TABLE later (a, b)", None)]
        {
            let stage = Stage::without_disk();
            let database = open(&stage, false);
            let mut one = connect(&database);
            execute(&mut one, "CREATE TABLE later (a, b)");
            execute(&mut one, "BEGIN");
            execute(&mut one, insert);
            execute(&mut one, "ALTER TABLE later ADD COLUMN c");
            one.execute(insert, params![]).expect_err("a column more");
            execute(&mut one, "ROLLBACK");
            execute(&mut one, "ALTER TABLE later ADD COLUMN c");
            shell(&stage.path(), &format!("DROP TABLE later; {anew}"));
            execute(&mut one, begin);
            let said = one.execute(insert, params![]).err();
            let said = said.as_ref().and_then(|error| error.sqlite_message());
            assert_eq!(said, error, "{begin}");
        }
    }
}

/// What RETURNING shows has the columns that the table has now.
#[test]
fn a_column_that_was_added() {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    let (mut one, mut other) = (connect(&database), connect(&database));
    one.execute_script(COUNTED).expect("the setup");
    execute(&mut one, "SELECT * FROM test");
    execute(&mut other, "ALTER TABLE test ADD COLUMN w DEFAULT 3");
    for id in 1..4 {
        execute(&mut one, "BEGIN");
        let sql = "INSERT INTO test (v) VALUES ('x') RETURNING *";
        let rows = one.query(sql, params![]).expect("a row");
        assert_eq!(rows[0].columns(), ["id", "v", "w"]);
        assert_eq!(rows[0].get::<i64>(0).expect("an id"), id);
        assert_eq!(rows[0].get::<i64>(2).expect("the default"), 3);
        execute(&mut one, "COMMIT");
    }
}

/// A statement that fails and keeps what it did before is executed once.
#[test]
fn a_statement_that_fails_in_the_middle() {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    let mut one = connect(&database);
    one.execute_script(
        "CREATE TABLE test (id INTEGER PRIMARY KEY, v, k UNIQUE); INSERT INTO test VALUES (1, 'a', 1);
         CREATE TABLE u (n);",
    )
    .expect("the setup");
    execute(&mut one, "SELECT * FROM test");
    execute(&mut one, "BEGIN");
    one.execute_script("INSERT OR FAIL INTO test (v, k) VALUES ('x', NULL), ('z', 1)")
        .expect_err("the second row");
    shell(
        &stage.path(),
        "CREATE TRIGGER counts AFTER INSERT ON test BEGIN INSERT INTO u VALUES (new.v); END",
    );
    execute(&mut one, "CREATE TABLE late (n)");
    execute(&mut one, "COMMIT");
    assert_eq!(number(&mut one, "SELECT count(*) FROM test WHERE v = 'x'"), 1);
    assert_eq!(number(&mut one, "SELECT count(*) FROM u"), 1);
}

/// Makes a table, of which the connection's authorizer says `verdict`.
fn keep_a_secret(one: &mut Connection, verdict: Verdict) {
    one.execute_script(COUNTED).expect("the setup");
    one.execute_script("CREATE TABLE secret (word); INSERT INTO secret VALUES ('open')")
        .expect("the secret");
    one.set_authorizer(Some(move |action: &Action<'_>| match (action.kind, action.first) {
        (ActionKind::Read, Some("secret")) => verdict,
        _ => Verdict::Allow,
    }))
    .expect("an authorizer");
}

/// The application's authorizer is asked of the INSERT as it was written, and of what is executed.
#[test]
fn what_the_authorizer_leaves_out() {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    let mut one = connect(&database);
    keep_a_secret(&mut one, Verdict::Ignore);
    execute(&mut one, "BEGIN");
    let sql = "INSERT INTO test (v) VALUES ((SELECT word FROM secret)) RETURNING v";
    let rows = one.query(sql, params![]).expect("a row");
    assert_eq!(rows[0].values(), [Value::Null]);
    execute(&mut one, "COMMIT");
    assert_eq!(number(&mut one, "SELECT count(*) FROM test WHERE v IS NULL"), 1);
}

/// What finds nothing to make leaves the ids alone that others have reserved.
#[test]
fn an_index_that_is_there() {
    play_on(
        &format!("{COUNTED} CREATE INDEX by_v ON test (v);"),
        "
        A BEGIN
        A INSERT INTO test (v) VALUES ('x') RETURNING id   -> 1
        C CREATE INDEX IF NOT EXISTS by_v ON test (v)
        B BEGIN
        B INSERT INTO test (v) VALUES ('x') RETURNING id   -> 2
        A COMMIT
        B COMMIT
        table                                              -> 1|x, 2|x",
    );
}

/// The name means another table now, whose ids are its own.
#[test]
fn a_temp_table_that_came_between() {
    play_on(
        COUNTED,
        "
        A BEGIN
        A INSERT INTO test (v) VALUES ('x') RETURNING id   -> 1
        A CREATE TEMP TABLE test (id INTEGER PRIMARY KEY, v)
        A INSERT INTO test (v) VALUES ('x') RETURNING id   -> 1
        A COMMIT
        table                                              -> 1|x",
    );
}

/// A transaction whose first statements were executed again in its turn renames the column itself.
#[test]
fn a_column_that_it_renamed_itself() {
    play_on(
        COUNTED,
        "
        A BEGIN
        A INSERT INTO test (v) VALUES ('x')
        S INSERT INTO u VALUES (1)
        A ALTER TABLE test RENAME COLUMN id TO number
        B BEGIN
        B INSERT INTO test (v) VALUES ('y')
        A INSERT INTO test (v) VALUES ('x')
        A COMMIT
        B ROLLBACK
        S SELECT count(*) FROM test WHERE v = 'x'          -> 2",
    );
}

/// A schema that was rolled back has the number of the one that comes then: what was rewritten for the first is of no
/// use in the second.
#[test]
fn a_column_whose_new_name_was_rolled_back() {
    play_on(
        COUNTED,
        "
        A BEGIN IMMEDIATE
        A ALTER TABLE test RENAME COLUMN id TO number
        B BEGIN
        B INSERT INTO test (v) VALUES ('y')
        A INSERT INTO test (v) VALUES ('x')
        A UPDATE u SET n = 1
        A ROLLBACK
        S CREATE INDEX by_n ON u (n)
        A INSERT INTO test (v) VALUES ('x')
        A BEGIN
        A INSERT INTO test (v) VALUES ('x')
        A COMMIT
        B COMMIT
        S SELECT count(*), count(DISTINCT id) FROM test    -> 3|3",
    );
}

/// The column is gone that SQLite, with the schema that it knows, would find in its way: it must not say so of a
/// statement alone, in a turn, or in a transaction.
#[test]
fn a_column_that_is_in_the_way_no_more() {
    for (begin, commit) in [("", ""), ("A BEGIN IMMEDIATE", "A COMMIT"), ("A BEGIN", "A COMMIT")] {
        play_on(
            COUNTED,
            &format!(
                "
                A ALTER TABLE test ADD w
                S ALTER TABLE test DROP w
                {begin}
                A ALTER TABLE test ADD COLUMN w
                A ALTER TABLE test ADD COLUMN w                -> error 1
                {commit}
                S INSERT INTO test (w) VALUES (1)"
            ),
        );
    }
}

/// The application's authorizer is asked about a trigger that came since.
#[test]
fn what_the_authorizer_denies() {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    let mut one = connect(&database);
    keep_a_secret(&mut one, Verdict::Deny);
    let insert = "INSERT INTO test (v) VALUES ('x')";
    for sql in ["BEGIN", insert, insert, "COMMIT"] {
        execute(&mut one, sql);
    }
    shell(
        &stage.path(),
        "CREATE TRIGGER tells AFTER INSERT ON test BEGIN INSERT INTO u SELECT word FROM secret; END",
    );
    for _ in 0..2 {
        execute(&mut one, "BEGIN");
        let error = one.execute(insert, params![]).expect_err("the trigger reads the secret");
        assert!(error.to_string().contains("prohibited"), "{error}");
        execute(&mut one, "COMMIT");
    }
    assert_eq!(number(&mut one, "SELECT count(*) FROM u"), 1);
}

/// The same where the log is executed again, and the statement is compiled for it.
#[test]
fn what_the_authorizer_leaves_out_at_home() {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    let (mut one, mut other) = (connect(&database), connect(&database));
    keep_a_secret(&mut one, Verdict::Ignore);
    execute(&mut one, "BEGIN");
    one.execute_script("INSERT INTO test (v) VALUES ((SELECT word FROM secret))").expect("a row");
    execute(&mut other, "INSERT INTO u VALUES (1)");
    execute(&mut one, "COMMIT");
    assert_eq!(number(&mut other, "SELECT count(*) FROM test WHERE v IS NULL"), 1);
}

/// An id that was shown stays, whatever changes the schema meanwhile.
#[test]
fn an_id_behind_an_authorizer() {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    let (mut one, mut other) = (connect(&database), connect(&database));
    one.execute_script(COUNTED).expect("the setup");
    one.set_authorizer(Some(|_: &Action<'_>| Verdict::Allow)).expect("an authorizer");
    let insert = "INSERT INTO test (v) VALUES ('x') RETURNING id";
    execute(&mut other, "BEGIN");
    assert_eq!(number(&mut other, insert), 1);
    execute(&mut one, "BEGIN");
    assert_eq!(number(&mut one, insert), 2);
    shell(&stage.path(), "CREATE INDEX by_k ON next (id)");
    execute(&mut one, "COMMIT");
    execute(&mut other, "COMMIT");
    assert_eq!(number(&mut one, "SELECT count(*) FROM test"), 2);
}
