//! An INSERT whose ids are given is executed in a rewritten form, which SQLite compiles for itself: what is known
//! of the statement as it was written may be that of an older schema, in which it wrote fewer tables.

use super::story::play_on;

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
