//! What a statement reads and writes beside the tables that it names: by triggers, foreign keys, views,
//! virtual tables, and the schema. A read that was spared the second look would be a wrong answer here.

use super::story::play_on;

/// A trigger of the other one's write changes what was read; a trigger of the own write reads what the
/// other one changes.
#[test]
fn by_triggers() {
    let setup = "
        CREATE TABLE test (id INTEGER PRIMARY KEY, v); CREATE TABLE log (n); CREATE TABLE u (n);
        CREATE TRIGGER logs AFTER UPDATE ON u BEGIN INSERT INTO log VALUES (new.n); END;
        CREATE TRIGGER counts AFTER INSERT ON test BEGIN
        UPDATE test SET v = (SELECT count(*) FROM log) WHERE id = new.id; END;
        INSERT INTO u VALUES (1);";
    play_on(
        setup,
        "
        A BEGIN
        A SELECT count(*) FROM log                         -> 0
        A INSERT INTO test VALUES (1, 'a')
        B UPDATE u SET n = 2
        A COMMIT                                           -> conflict at 1
        table",
    );
    play_on(
        setup,
        "
        A BEGIN
        A INSERT INTO test VALUES (1, 'a')
        A SELECT v FROM test                               -> 0
        B UPDATE u SET n = 2
        A COMMIT                                           -> conflict at 2
        table",
    );
    play_on(
        setup,
        "
        A BEGIN
        A INSERT INTO test VALUES (1, 'a')
        B UPDATE u SET n = 2
        B UPDATE u SET n = 3
        A COMMIT
        table                                              -> 1|2",
    );
    play_on(
        setup,
        "
        A BEGIN
        A INSERT INTO test VALUES (1, 'a') RETURNING id, v -> 1|a
        B BEGIN
        B UPDATE u SET n = 2
        B COMMIT
        A COMMIT
        table                                              -> 1|1",
    );
}

/// Cascades write, and checks read, other tables.
#[test]
fn by_foreign_keys() {
    let setup = "
        CREATE TABLE parent (id INTEGER PRIMARY KEY);
        CREATE TABLE test (id INTEGER PRIMARY KEY, p REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
        CREATE TABLE other (n);
        INSERT INTO parent VALUES (1), (2); INSERT INTO test VALUES (10, 1);";
    play_on(
        setup,
        "
        A BEGIN
        A SELECT count(*) FROM test                        -> 1
        A INSERT INTO other VALUES (1)
        B DELETE FROM parent WHERE id = 1
        A COMMIT                                           -> conflict at 1
        table",
    );
    play_on(
        setup,
        "
        A BEGIN
        A SELECT p FROM test                               -> 1
        A INSERT INTO other VALUES (1)
        B UPDATE parent SET id = 7 WHERE id = 1; SELECT 1  -> 1
        A COMMIT                                           -> conflict at 1
        table                                              -> 10|7",
    );
    play_on(
        setup,
        "
        A BEGIN
        A INSERT INTO test VALUES (11, 2)
        B DELETE FROM parent WHERE id = 2
        A COMMIT                                           -> conflict at 1
        table                                              -> 10|1",
    );
    play_on(
        setup,
        "
        A BEGIN
        A INSERT INTO test VALUES (11, 3)                  -> error 19
        A INSERT INTO other VALUES (1)
        B INSERT INTO parent VALUES (3)
        A COMMIT                                           -> conflict at 1
        table                                              -> 10|1",
    );
    play_on(
        setup,
        "
        A BEGIN
        A DELETE FROM parent WHERE id = 1
        A SELECT count(*) FROM test                        -> 0
        B INSERT INTO test VALUES (12, 2)
        A COMMIT                                           -> conflict at 2
        table                                              -> 10|1, 12|2",
    );
    play_on(
        setup,
        "
        A BEGIN
        A DELETE FROM parent WHERE id = 1
        B INSERT INTO test VALUES (12, 1)
        A COMMIT
        table",
    );
}

/// A view is its tables, and so is a subquery of a write.
#[test]
fn by_views_and_subqueries() {
    let setup = "
        CREATE TABLE test (id INTEGER PRIMARY KEY, v); CREATE TABLE u (n);
        CREATE VIEW both AS SELECT v, n FROM test, u;
        INSERT INTO test VALUES (1, 10); INSERT INTO u VALUES (5);";
    play_on(
        setup,
        "
        A BEGIN
        A SELECT * FROM both                               -> 10|5
        A UPDATE test SET v = 11
        B UPDATE u SET n = 6
        A COMMIT                                           -> conflict at 1
        table                                              -> 1|10",
    );
    play_on(
        setup,
        "
        A BEGIN
        A UPDATE test SET v = (SELECT n FROM u)
        A SELECT v FROM test                               -> 5
        B UPDATE u SET n = 6
        A COMMIT                                           -> conflict at 2
        table                                              -> 1|10",
    );
    play_on(
        setup,
        "
        A BEGIN
        A DELETE FROM test WHERE v > (SELECT n FROM u) #   -> 1 changed
        B UPDATE u SET n = 60
        A COMMIT                                           -> conflict at 1
        table                                              -> 1|10",
    );
    play_on(
        setup,
        "
        A BEGIN
        A DELETE FROM test WHERE v > (SELECT n FROM u)
        B UPDATE u SET n = 60
        A COMMIT
        table                                              -> 1|10",
    );
    play_on(
        setup,
        "
        A BEGIN
        A INSERT INTO test SELECT 2, n FROM u
        A INSERT INTO test SELECT 3, v FROM test WHERE id = 2
        A SELECT v FROM test WHERE id = 3                  -> 5
        B UPDATE u SET n = 6
        A COMMIT                                           -> conflict at 3
        table                                              -> 1|10",
    );
}

/// A full-text index and an R-tree keep their rows in tables of their own.
#[test]
fn by_virtual_tables() {
    let setup = "
        CREATE TABLE test (id INTEGER PRIMARY KEY, v); CREATE VIRTUAL TABLE f USING fts5(body);
        CREATE VIRTUAL TABLE r USING rtree(id, a, b);
        INSERT INTO f VALUES ('red apple'); INSERT INTO r VALUES (1, 0, 1);";
    play_on(
        setup,
        "
        A BEGIN
        A SELECT count(*) FROM f WHERE f MATCH 'apple'     -> 1
        A INSERT INTO test VALUES (1, 1)
        B INSERT INTO f VALUES ('green apple')
        A COMMIT                                           -> conflict at 1
        table",
    );
    play_on(
        setup,
        "
        A BEGIN
        A SELECT count(*) FROM f WHERE f MATCH 'pear'      -> 0
        A INSERT INTO test VALUES (1, 1)
        B INSERT INTO f VALUES ('green apple')
        A COMMIT
        table                                              -> 1|1",
    );
    play_on(
        setup,
        "
        A BEGIN
        A SELECT id FROM r WHERE a < 5                     -> 1
        A INSERT INTO test VALUES (1, 1)
        B INSERT INTO r VALUES (2, 1, 2)
        A COMMIT                                           -> conflict at 1
        table",
    );
    play_on(
        setup,
        "
        A BEGIN
        A INSERT INTO f VALUES ('my apple')
        A INSERT INTO r VALUES (3, 3, 3)
        B INSERT INTO f VALUES ('your apple')
        B INSERT INTO r VALUES (2, 1, 2)
        A COMMIT
        S SELECT count(*) FROM f WHERE f MATCH 'apple'     -> 3
        S SELECT count(*) FROM r                           -> 3",
    );
}

/// The schema is read by every statement: what it shows changes with it.
#[test]
fn by_the_schema() {
    let setup = "
        CREATE TABLE test (id INTEGER PRIMARY KEY, v); CREATE TABLE u (n);
        INSERT INTO test VALUES (1, 10);";
    play_on(
        setup,
        "
        A BEGIN
        A SELECT * FROM test                               -> 1|10
        A INSERT INTO u VALUES (1)
        B ALTER TABLE test ADD COLUMN w DEFAULT 5
        A COMMIT                                           -> conflict at 1
        table                                              -> 1|10|5",
    );
    play_on(
        setup,
        "
        A BEGIN
        A SELECT id, v FROM test                           -> 1|10
        A INSERT INTO u VALUES (1)
        B CREATE INDEX by_v ON test (v)
        A COMMIT
        S SELECT count(*) FROM u                           -> 1",
    );
    play_on(
        setup,
        "
        A BEGIN
        A SELECT count(*) FROM sqlite_schema               -> 2
        A INSERT INTO u VALUES (1)
        B CREATE TABLE made (a)
        A COMMIT                                           -> conflict at 1
        S SELECT count(*) FROM u                           -> 0",
    );
    play_on(
        setup,
        "
        A BEGIN
        A SELECT count(*) FROM pragma_table_info('test')   -> 2
        A INSERT INTO u VALUES (1)
        B ALTER TABLE test ADD COLUMN w
        A COMMIT                                           -> conflict at 1
        S SELECT count(*) FROM u                           -> 0",
    );
    play_on(
        setup,
        "
        A BEGIN
        A PRAGMA user_version                              -> 0
        A INSERT INTO u VALUES (1)
        B PRAGMA user_version = 7
        A COMMIT                                           -> conflict at 1
        S SELECT count(*) FROM u                           -> 0",
    );
    play_on(
        setup,
        "
        A BEGIN
        A SELECT v FROM test                               -> 10
        A INSERT INTO u VALUES (1)
        B DROP TABLE u
        A COMMIT                                           -> conflict at 2
        table                                              -> 1|10",
    );
}

/// That a statement cannot be compiled is an error like others: it was seen.
#[test]
fn by_what_did_not_compile() {
    let setup = "
        CREATE TABLE test (id INTEGER PRIMARY KEY, v); CREATE TABLE u (n);
        INSERT INTO test VALUES (1, 10);";
    play_on(
        setup,
        "
        A BEGIN
        A SELECT absent FROM test                          -> error 1
        A INSERT INTO u VALUES (1)
        B ALTER TABLE test ADD COLUMN absent
        A COMMIT                                           -> conflict at 1
        S SELECT count(*) FROM u                           -> 0",
    );
    // Also as the first that it does: what comes next has the same snapshot. It had a later one, and committed.
    play_on(
        setup,
        "
        A BEGIN
        A SELECT absent FROM test                          -> error 1
        B ALTER TABLE test ADD COLUMN absent
        A SELECT absent FROM test                          -> error 1
        A INSERT INTO u VALUES (1)
        A COMMIT                                           -> conflict at 1
        S SELECT count(*) FROM u                           -> 0",
    );
}

/// The same number as another type is another value; so is another order of the same rows.
#[test]
fn by_types_and_order() {
    let setup = "
        CREATE TABLE test (id INTEGER PRIMARY KEY, v); CREATE TABLE u (n);
        INSERT INTO test VALUES (1, 10), (2, 20);";
    play_on(
        setup,
        "
        A BEGIN
        A SELECT v FROM test WHERE id = 1                  -> 10
        A INSERT INTO u VALUES (1)
        B UPDATE test SET v = 10.0 WHERE id = 1
        A COMMIT                                           -> conflict at 1
        table                                              -> 1|10.0, 2|20",
    );
    play_on(
        setup,
        "
        A BEGIN
        A SELECT v FROM test WHERE id = 1                  -> 10
        A INSERT INTO u VALUES (1)
        B UPDATE test SET v = '10' WHERE id = 1
        A COMMIT                                           -> conflict at 1
        table                                              -> 1|10, 2|20",
    );
    play_on(
        setup,
        "
        A BEGIN
        A SELECT v FROM test ORDER BY v                    -> 10, 20
        A INSERT INTO u VALUES (1)
        B UPDATE test SET v = 30 - v
        A COMMIT
        table                                              -> 1|20, 2|10",
    );
    play_on(
        setup,
        "
        A BEGIN
        A SELECT v FROM test ORDER BY id                   -> 10, 20
        A INSERT INTO u VALUES (1)
        B UPDATE test SET v = 30 - v
        A COMMIT                                           -> conflict at 1
        table                                              -> 1|20, 2|10",
    );
    play_on(
        setup,
        "
        A BEGIN
        A SELECT NULL                                      ->
        A SELECT sum(n) FROM u                             ->
        A INSERT INTO u VALUES (1)
        B INSERT INTO u VALUES ('')
        A COMMIT                                           -> conflict at 2
        table                                              -> 1|10, 2|20",
    );
}

/// AUTOINCREMENT's table can be read; a DELETE of everything does not visit its rows.
#[test]
fn by_sequences_and_truncation() {
    let setup = "
        CREATE TABLE test (id INTEGER PRIMARY KEY AUTOINCREMENT, v); CREATE TABLE u (n);
        INSERT INTO test (v) VALUES ('a');";
    play_on(
        setup,
        "
        A BEGIN
        A SELECT seq FROM sqlite_sequence                  -> 1
        A INSERT INTO u VALUES (1)
        B INSERT INTO test VALUES (9, 'b')
        A COMMIT                                           -> conflict at 1
        table                                              -> 1|a, 9|b",
    );
    play_on(
        setup,
        "
        A BEGIN
        A SELECT max(id) FROM test                         -> 1
        A INSERT INTO u VALUES (1)
        B DELETE FROM test
        A COMMIT                                           -> conflict at 1
        table",
    );
    play_on(
        setup,
        "
        A BEGIN
        A DELETE FROM test
        A SELECT count(*) FROM test                        -> 0
        B INSERT INTO test VALUES (9, 'b')
        A COMMIT
        table",
    );
}

/// SAVEPOINT outside a transaction begins one, as BEGIN does; RELEASE commits it.
#[test]
fn by_an_outermost_savepoint() {
    let setup = "
        CREATE TABLE test (id INTEGER PRIMARY KEY, v); INSERT INTO test VALUES (1, 10);";
    play_on(
        setup,
        "
        A SAVEPOINT s
        A SELECT v FROM test                               -> 10
        A INSERT INTO test VALUES (2, 20)
        B UPDATE test SET v = 11 WHERE id = 1
        A RELEASE s                                        -> conflict at 2
        A SELECT count(*) FROM test                        -> 1
        table                                              -> 1|11",
    );
    play_on(
        setup,
        "
        A SAVEPOINT s
        A SELECT v FROM test                               -> 10
        A INSERT INTO test VALUES (2, 20)
        B UPDATE test SET v = 10 WHERE id = 1
        A RELEASE s
        table                                              -> 1|10, 2|20",
    );
}

/// A batch in a transaction is a part of it; one that fails leaves nothing, and was seen to fail.
#[test]
fn by_batches_inside() {
    let setup = "
        CREATE TABLE test (id INTEGER PRIMARY KEY, v); INSERT INTO test VALUES (1, 10), (2, 20);";
    play_on(
        setup,
        "
        A BEGIN
        A UPDATE test SET v = v + 1 WHERE id = 1; INSERT INTO test VALUES (3, 30)
        B UPDATE test SET v = 50 WHERE id = 2
        A COMMIT
        table                                              -> 1|11, 2|50, 3|30",
    );
    play_on(
        setup,
        "
        A BEGIN
        A UPDATE test SET v = 0; INSERT INTO test VALUES (1, 1) -> error 19
        A INSERT INTO test VALUES (3, 30)
        B UPDATE test SET v = 50 WHERE id = 2
        A COMMIT
        table                                              -> 1|10, 2|50, 3|30",
    );
}

/// The file is rewritten, a table is made anew, statistics are gathered: what was seen decides.
#[test]
fn by_rewriting_the_file() {
    let setup = "
        CREATE TABLE test (id INTEGER PRIMARY KEY, v); CREATE TABLE u (n);
        INSERT INTO test VALUES (1, 10), (5, 50); INSERT INTO u VALUES (1), (2), (3);
        DELETE FROM u WHERE n = 1;";
    for rewrites in ["VACUUM", "REINDEX", "ANALYZE", "CREATE INDEX by_v ON test (v)"] {
        play_on(
            setup,
            &format!(
                "
                A BEGIN
                A SELECT v FROM test ORDER BY id                   -> 10, 50
                A INSERT INTO test VALUES (2, 20)
                B {rewrites}
                A END
                table                                              -> 1|10, 2|20, 5|50"
            ),
        );
    }
    play_on(
        setup,
        "
        A BEGIN
        A SELECT v FROM test ORDER BY id                           -> 10, 50
        A INSERT INTO test VALUES (2, 20)
        B BEGIN
        B DROP TABLE test
        B CREATE TABLE test (id INTEGER PRIMARY KEY, v)
        B INSERT INTO test VALUES (1, 11)
        B COMMIT
        A COMMIT                                                   -> conflict at 1
        table                                                      -> 1|11",
    );
    play_on(
        setup,
        "
        A BEGIN
        A SELECT v FROM test WHERE id = 1                          -> 10
        A INSERT INTO test VALUES (2, 20)
        S VACUUM
        A COMMIT
        table                                                      -> 1|10, 2|20, 5|50",
    );
}

/// SQLite names no schema to the authorizer where a statement only counts rows and names none either: the
/// count of an attached table was taken for that of a table of the main schema, which nobody had written.
#[test]
fn by_the_count_of_an_attached_table() {
    use manyhands::params;

    use crate::stage::{Stage, connect, in_time};
    in_time(|| {
        let (stage, attached) = (Stage::new(), Stage::new());
        let database = manyhands::Database::open(stage.path()).expect("opens");
        let elsewhere = manyhands::Database::open(attached.path()).expect("opens");
        let (mut one, mut other) = (connect(&database), connect(&elsewhere));
        let mut third = connect(&database);
        one.execute_script("CREATE TABLE u (n);").expect("the schema");
        other.execute("CREATE TABLE far (n)", params![]).expect("the schema");
        let path = attached.path().to_str().expect("text").to_string();
        one.execute("ATTACH ?1 AS aux", params![path]).expect("attaches");
        let mut transaction = one.transaction().expect("begins");
        let rows = transaction.query("SELECT count(*) FROM far", params![]).expect("counts");
        assert_eq!(rows[0].get::<i64>(0).expect("a count"), 0);
        transaction.execute("INSERT INTO u VALUES (1)", params![]).expect("inserts");
        other.execute("INSERT INTO far VALUES (1)", params![]).expect("inserts");
        third.execute("INSERT INTO u VALUES (2)", params![]).expect("inserts");
        let error = transaction.commit().expect_err("the count has changed");
        assert!(error.is_conflict(), "{error}");
    });
}
