//! Hermitage (Kleppmann's list of anomalies), each between transactions of ours, with batches, with
//! turns, and with a stock sqlite3 process as one of the parties. A transaction that read nothing that
//! changed commits; nobody ever sees what no serial order shows.

use super::story::play;

/// Writes that cross do not mix: the second transaction's writes all come after the first's.
#[test]
fn g0_write_cycles() {
    play(
        "
        A BEGIN
        B BEGIN
        A UPDATE test SET value = 11 WHERE id = 1
        B UPDATE test SET value = 12 WHERE id = 1
        A UPDATE test SET value = 21 WHERE id = 2
        A COMMIT
        C SELECT * FROM test                                   -> 1|11, 2|21
        B UPDATE test SET value = 22 WHERE id = 2
        B COMMIT
        table                                                  -> 1|12, 2|22",
    );
    play(
        "
        B BEGIN
        B UPDATE test SET value = 12 WHERE id = 1
        A UPDATE test SET value = 11 WHERE id = 1; UPDATE test SET value = 21 WHERE id = 2
        C SELECT * FROM test                                   -> 1|11, 2|21
        B UPDATE test SET value = 22 WHERE id = 2
        B COMMIT
        table                                                  -> 1|12, 2|22",
    );
    play(
        "
        A BEGIN IMMEDIATE
        B BEGIN
        A UPDATE test SET value = 11 WHERE id = 1
        B UPDATE test SET value = 12 WHERE id = 1
        B UPDATE test SET value = 22 WHERE id = 2
        B COMMIT ...
        A UPDATE test SET value = 21 WHERE id = 2
        A COMMIT
        B
        table                                                  -> 1|12, 2|22",
    );
}

/// The same with a stock program, which may hold the lock when ours wants to commit.
#[test]
fn g0_beside_stock() {
    play(
        "
        S BEGIN
        A BEGIN
        S UPDATE test SET value = 11 WHERE id = 1
        A UPDATE test SET value = 12 WHERE id = 1
        S UPDATE test SET value = 21 WHERE id = 2
        S COMMIT
        A UPDATE test SET value = 22 WHERE id = 2
        A COMMIT
        table                                                  -> 1|12, 2|22",
    );
    play(
        "
        A BEGIN
        S BEGIN
        A UPDATE test SET value = 12 WHERE id = 1
        S UPDATE test SET value = 11 WHERE id = 1
        A UPDATE test SET value = 22 WHERE id = 2
        A COMMIT ...
        S UPDATE test SET value = 21 WHERE id = 2
        S COMMIT
        A
        table                                                  -> 1|12, 2|22",
    );
    play(
        "
        S BEGIN IMMEDIATE
        S UPDATE test SET value = 11 WHERE id = 1
        A UPDATE test SET value = 12 WHERE id = 1; UPDATE test SET value = 22 WHERE id = 2 ...
        S UPDATE test SET value = 21 WHERE id = 2
        S COMMIT
        A
        table                                                  -> 1|12, 2|22",
    );
    play(
        "
        A BEGIN
        S BEGIN
        A UPDATE test SET value = 11 WHERE id = 1
        A UPDATE test SET value = 21 WHERE id = 2
        A COMMIT
        S UPDATE test SET value = 12 WHERE id = 1
        S UPDATE test SET value = 22 WHERE id = 2
        S COMMIT
        table                                                  -> 1|12, 2|22",
    );
}

/// Nobody sees what is rolled back.
#[test]
fn g1a_aborted_reads() {
    play(
        "
        A BEGIN
        B BEGIN
        A UPDATE test SET value = 101 WHERE id = 1
        B SELECT * FROM test                                   -> 1|10, 2|20
        A ROLLBACK
        B SELECT * FROM test                                   -> 1|10, 2|20
        B COMMIT
        table                                                  -> 1|10, 2|20",
    );
    play(
        "
        A BEGIN
        A UPDATE test SET value = 101 WHERE id = 1
        B SELECT value FROM test WHERE id = 1; UPDATE test SET value = 21 WHERE id = 2 -> 10
        A ROLLBACK
        table                                                  -> 1|10, 2|21",
    );
    play(
        "
        B BEGIN
        B SELECT * FROM test                                   -> 1|10, 2|20
        A UPDATE test SET value = 101 WHERE id = 1; INSERT INTO test VALUES (2, 2) -> error 19
        B UPDATE test SET value = 21 WHERE id = 2
        B SELECT * FROM test                                   -> 1|10, 2|21
        B COMMIT
        table                                                  -> 1|10, 2|21",
    );
}

/// Neither from a stock program, nor the other way round.
#[test]
fn g1a_beside_stock() {
    play(
        "
        S BEGIN
        A BEGIN
        S UPDATE test SET value = 101 WHERE id = 1
        A SELECT * FROM test                                   -> 1|10, 2|20
        S ROLLBACK
        A SELECT * FROM test                                   -> 1|10, 2|20
        A UPDATE test SET value = 21 WHERE id = 2
        A COMMIT
        table                                                  -> 1|10, 2|21",
    );
    play(
        "
        A BEGIN
        S BEGIN
        A UPDATE test SET value = 101 WHERE id = 1
        S SELECT * FROM test                                   -> 1|10, 2|20
        A ROLLBACK
        S SELECT * FROM test                                   -> 1|10, 2|20
        S COMMIT
        table                                                  -> 1|10, 2|20",
    );
    play(
        "
        S BEGIN
        S UPDATE test SET value = 101 WHERE id = 1
        A UPDATE test SET value = value + 1 WHERE id = 2; SELECT * FROM test ...
        S ROLLBACK
        A                                                      -> 1|10, 2|21
        table                                                  -> 1|10, 2|21",
    );
}

/// Nobody sees a value that its writer replaced before it committed.
#[test]
fn g1b_intermediate_reads() {
    play(
        "
        A BEGIN
        B BEGIN
        A UPDATE test SET value = 101 WHERE id = 1
        B SELECT * FROM test                                   -> 1|10, 2|20
        A UPDATE test SET value = 11 WHERE id = 1
        A COMMIT
        B SELECT * FROM test                                   -> 1|10, 2|20
        B COMMIT
        table                                                  -> 1|11, 2|20",
    );
    play(
        "
        B BEGIN
        B SELECT * FROM test                                   -> 1|10, 2|20
        A UPDATE test SET value = 101 WHERE id = 1; UPDATE test SET value = 11 WHERE id = 1
        B SELECT * FROM test                                   -> 1|10, 2|20
        B UPDATE test SET value = 22 WHERE id = 2
        B COMMIT                                               -> conflict at 1
        table                                                  -> 1|11, 2|20",
    );
    play(
        "
        S BEGIN
        A BEGIN
        S UPDATE test SET value = 101 WHERE id = 1
        A SELECT * FROM test                                   -> 1|10, 2|20
        S UPDATE test SET value = 11 WHERE id = 1
        S COMMIT
        A SELECT * FROM test                                   -> 1|10, 2|20
        A COMMIT
        table                                                  -> 1|11, 2|20",
    );
    play(
        "
        A BEGIN
        S BEGIN
        A UPDATE test SET value = 101 WHERE id = 1
        S SELECT * FROM test                                   -> 1|10, 2|20
        A UPDATE test SET value = 11 WHERE id = 1
        A COMMIT
        S SELECT * FROM test                                   -> 1|10, 2|20
        S COMMIT
        table                                                  -> 1|11, 2|20",
    );
}

/// Each would have to come before the other: the second conflicts.
#[test]
fn g1c_circular_information_flow() {
    play(
        "
        A BEGIN
        B BEGIN
        A UPDATE test SET value = 11 WHERE id = 1
        B UPDATE test SET value = 22 WHERE id = 2
        A SELECT value FROM test WHERE id = 2                  -> 20
        B SELECT value FROM test WHERE id = 1                  -> 10
        A COMMIT
        B COMMIT                                               -> conflict at 2
        table                                                  -> 1|11, 2|20",
    );
    play(
        "
        B BEGIN
        B UPDATE test SET value = 22 WHERE id = 2
        B SELECT value FROM test WHERE id = 1                  -> 10
        A UPDATE test SET value = 11 WHERE id = 1; SELECT value FROM test WHERE id = 2 -> 20
        B COMMIT                                               -> conflict at 2
        table                                                  -> 1|11, 2|20",
    );
    play(
        "
        A BEGIN IMMEDIATE
        B BEGIN
        A UPDATE test SET value = 11 WHERE id = 1
        B UPDATE test SET value = 22 WHERE id = 2
        A SELECT value FROM test WHERE id = 2                  -> 20
        B SELECT value FROM test WHERE id = 1                  -> 10
        B COMMIT ...
        A COMMIT
        B                                                      -> conflict at 2
        table                                                  -> 1|11, 2|20",
    );
}

/// A stock program holds the lock; ours conflicts when it has committed.
#[test]
fn g1c_beside_stock() {
    play(
        "
        S BEGIN
        A BEGIN
        S UPDATE test SET value = 11 WHERE id = 1
        A UPDATE test SET value = 22 WHERE id = 2
        S SELECT value FROM test WHERE id = 2                  -> 20
        A SELECT value FROM test WHERE id = 1                  -> 10
        S COMMIT
        A COMMIT                                               -> conflict at 2
        table                                                  -> 1|11, 2|20",
    );
    play(
        "
        A BEGIN
        S BEGIN
        A UPDATE test SET value = 11 WHERE id = 1
        A SELECT value FROM test WHERE id = 2                  -> 20
        S SELECT value FROM test WHERE id = 1                  -> 10
        A COMMIT
        S UPDATE test SET value = 22 WHERE id = 2              -> error 5
        S ROLLBACK
        table                                                  -> 1|11, 2|20",
    );
}

/// Once one of a transaction's writes is seen, so are the others, for as long as the reader goes on.
#[test]
fn otv_observed_transaction_vanishes() {
    play(
        "
        A BEGIN
        B BEGIN
        A UPDATE test SET value = 11 WHERE id = 1
        A UPDATE test SET value = 19 WHERE id = 2
        B UPDATE test SET value = 12 WHERE id = 1
        A COMMIT
        C BEGIN
        C SELECT value FROM test WHERE id = 1                  -> 11
        B UPDATE test SET value = 18 WHERE id = 2
        C SELECT value FROM test WHERE id = 2                  -> 19
        B COMMIT
        C SELECT value FROM test WHERE id = 2                  -> 19
        C SELECT value FROM test WHERE id = 1                  -> 11
        C COMMIT
        table                                                  -> 1|12, 2|18",
    );
    play(
        "
        A UPDATE test SET value = 11 WHERE id = 1; UPDATE test SET value = 19 WHERE id = 2
        C BEGIN
        C SELECT value FROM test WHERE id = 1                  -> 11
        B UPDATE test SET value = 12 WHERE id = 1; UPDATE test SET value = 18 WHERE id = 2
        C SELECT value FROM test WHERE id = 2                  -> 19
        C UPDATE test SET value = 1 WHERE id = 2
        C COMMIT                                               -> conflict at 1
        table                                                  -> 1|12, 2|18",
    );
    play(
        "
        S BEGIN
        B BEGIN
        S UPDATE test SET value = 11 WHERE id = 1
        S UPDATE test SET value = 19 WHERE id = 2
        B UPDATE test SET value = 12 WHERE id = 1
        S COMMIT
        C BEGIN
        C SELECT value FROM test WHERE id = 1                  -> 11
        B UPDATE test SET value = 18 WHERE id = 2
        C SELECT value FROM test WHERE id = 2                  -> 19
        B COMMIT
        C SELECT value FROM test WHERE id = 2                  -> 19
        C COMMIT
        table                                                  -> 1|12, 2|18",
    );
    play(
        "
        A BEGIN
        A UPDATE test SET value = 11 WHERE id = 1
        A UPDATE test SET value = 19 WHERE id = 2
        A COMMIT
        S BEGIN
        S SELECT value FROM test WHERE id = 1                  -> 11
        B UPDATE test SET value = 12 WHERE id = 1; UPDATE test SET value = 18 WHERE id = 2
        S SELECT value FROM test WHERE id = 2                  -> 19
        S COMMIT
        table                                                  -> 1|12, 2|18",
    );
}

/// A row that appears under a condition: the reader does not see it, and conflicts if it writes.
#[test]
fn pmp_predicate_many_preceders() {
    play(
        "
        A BEGIN
        B BEGIN
        A SELECT * FROM test WHERE value = 30
        B INSERT INTO test VALUES (3, 30)
        B COMMIT
        A SELECT * FROM test WHERE value % 3 = 0
        A COMMIT
        table                                                  -> 1|10, 2|20, 3|30",
    );
    play(
        "
        A BEGIN
        B BEGIN
        A SELECT * FROM test WHERE value = 30
        B INSERT INTO test VALUES (3, 30)
        B COMMIT
        A INSERT INTO test VALUES (4, 40)
        A COMMIT                                               -> conflict at 1
        table                                                  -> 1|10, 2|20, 3|30",
    );
    play(
        "
        A BEGIN
        A SELECT * FROM test WHERE value % 3 = 0
        B INSERT INTO test VALUES (3, 30); INSERT INTO test VALUES (4, 40)
        A INSERT INTO test VALUES (5, 50)
        A COMMIT                                               -> conflict at 1
        table                                                  -> 1|10, 2|20, 3|30, 4|40",
    );
    play(
        "
        A BEGIN
        A SELECT * FROM test WHERE value = 30
        S INSERT INTO test VALUES (3, 30)
        A INSERT INTO test VALUES (5, 50)
        A COMMIT                                               -> conflict at 1
        table                                                  -> 1|10, 2|20, 3|30",
    );
    play(
        "
        S BEGIN
        S SELECT * FROM test WHERE value = 30
        A BEGIN
        A INSERT INTO test VALUES (3, 30)
        A COMMIT
        S SELECT * FROM test WHERE value % 3 = 0
        S INSERT INTO test VALUES (4, 40)                      -> error 5
        S ROLLBACK
        table                                                  -> 1|10, 2|20, 3|30",
    );
}

/// A condition of a write holds where the write takes effect. What it hit is a reason for a conflict only
/// if it was looked at.
#[test]
fn pmp_with_a_write_predicate() {
    play(
        "
        A BEGIN
        B BEGIN
        A UPDATE test SET value = value + 10
        B DELETE FROM test WHERE value = 20
        A COMMIT
        B COMMIT
        table                                                  -> 2|30",
    );
    play(
        "
        A BEGIN
        B BEGIN
        A UPDATE test SET value = value + 10
        B DELETE FROM test WHERE value = 20 #                  -> 1 changed
        A COMMIT
        B COMMIT
        table                                                  -> 2|30",
    );
    play(
        "
        A BEGIN
        B BEGIN
        A UPDATE test SET value = value + 10
        B DELETE FROM test WHERE value = 20 RETURNING id       -> 2
        A COMMIT
        B COMMIT                                               -> conflict at 1
        table                                                  -> 1|20, 2|30",
    );
    play(
        "
        A BEGIN
        B BEGIN
        A UPDATE test SET value = value + 10
        B DELETE FROM test WHERE value = 20
        B SELECT * FROM test                                   -> 1|10
        A COMMIT
        B COMMIT                                               -> conflict at 2
        table                                                  -> 1|20, 2|30",
    );
    play(
        "
        B BEGIN
        B DELETE FROM test WHERE value = 20
        A UPDATE test SET value = value + 10; SELECT count(*) FROM test -> 2
        B COMMIT
        table                                                  -> 2|30",
    );
    play(
        "
        A BEGIN
        A DELETE FROM test WHERE value = 20
        S UPDATE test SET value = value + 10
        A COMMIT
        table                                                  -> 2|30",
    );
    play(
        "
        S BEGIN
        S UPDATE test SET value = value + 10
        A BEGIN
        A DELETE FROM test WHERE value = 20 RETURNING id       -> 2
        A COMMIT ...
        S COMMIT
        A                                                      -> conflict at 1
        table                                                  -> 1|20, 2|30",
    );
}

/// Two read and write the same row: the second does not overwrite what it has not seen.
#[test]
fn p4_lost_update() {
    play(
        "
        A BEGIN
        B BEGIN
        A SELECT value FROM test WHERE id = 1                  -> 10
        B SELECT value FROM test WHERE id = 1                  -> 10
        A UPDATE test SET value = 11 WHERE id = 1
        B UPDATE test SET value = 11 WHERE id = 1
        A COMMIT
        B COMMIT                                               -> conflict at 1
        table                                                  -> 1|11, 2|20",
    );
    play(
        "
        B BEGIN
        B SELECT value FROM test WHERE id = 1                  -> 10
        A SELECT value FROM test WHERE id = 1; UPDATE test SET value = 11 WHERE id = 1 -> 10
        B UPDATE test SET value = 11 WHERE id = 1
        B COMMIT                                               -> conflict at 1
        table                                                  -> 1|11, 2|20",
    );
    play(
        "
        A BEGIN
        B BEGIN IMMEDIATE
        A SELECT value FROM test WHERE id = 1                  -> 10
        B SELECT value FROM test WHERE id = 1                  -> 10
        A UPDATE test SET value = 11 WHERE id = 1
        A COMMIT ...
        B UPDATE test SET value = 12 WHERE id = 1
        B COMMIT
        A                                                      -> conflict at 1
        table                                                  -> 1|12, 2|20",
    );
    play(
        "
        S BEGIN
        A BEGIN
        S SELECT value FROM test WHERE id = 1                  -> 10
        A SELECT value FROM test WHERE id = 1                  -> 10
        S UPDATE test SET value = 12 WHERE id = 1
        A UPDATE test SET value = 11 WHERE id = 1
        A COMMIT ...
        S COMMIT
        A                                                      -> conflict at 1
        table                                                  -> 1|12, 2|20",
    );
    play(
        "
        S BEGIN
        A BEGIN
        S SELECT value FROM test WHERE id = 1                  -> 10
        A SELECT value FROM test WHERE id = 1                  -> 10
        A UPDATE test SET value = 11 WHERE id = 1
        A COMMIT
        S UPDATE test SET value = 12 WHERE id = 1              -> error 5
        S ROLLBACK
        table                                                  -> 1|11, 2|20",
    );
}

/// Two reads of one transaction never show two moments.
#[test]
fn g_single_read_skew() {
    play(
        "
        A BEGIN
        B BEGIN
        A SELECT value FROM test WHERE id = 1                  -> 10
        B SELECT * FROM test                                   -> 1|10, 2|20
        B UPDATE test SET value = 12 WHERE id = 1
        B UPDATE test SET value = 18 WHERE id = 2
        B COMMIT
        A SELECT value FROM test WHERE id = 2                  -> 20
        A COMMIT
        table                                                  -> 1|12, 2|18",
    );
    play(
        "
        A BEGIN
        A SELECT value FROM test WHERE id = 1                  -> 10
        B UPDATE test SET value = 12 WHERE id = 1; UPDATE test SET value = 18 WHERE id = 2
        A SELECT value FROM test WHERE id = 2                  -> 20
        A INSERT INTO test VALUES (3, 30)
        A COMMIT                                               -> conflict at 1
        table                                                  -> 1|12, 2|18",
    );
    play(
        "
        A BEGIN
        A SELECT value FROM test WHERE id = 1                  -> 10
        S BEGIN
        S UPDATE test SET value = 12 WHERE id = 1
        S UPDATE test SET value = 18 WHERE id = 2
        S COMMIT
        A SELECT value FROM test WHERE id = 2                  -> 20
        A INSERT INTO test VALUES (3, 30)
        A COMMIT                                               -> conflict at 1
        table                                                  -> 1|12, 2|18",
    );
    play(
        "
        S BEGIN
        S SELECT value FROM test WHERE id = 1                  -> 10
        A BEGIN
        A UPDATE test SET value = 12 WHERE id = 1
        A UPDATE test SET value = 18 WHERE id = 2
        A COMMIT
        S SELECT value FROM test WHERE id = 2                  -> 20
        S COMMIT
        table                                                  -> 1|12, 2|18",
    );
}

/// The same, with conditions in the place of keys.
#[test]
fn g_single_with_predicates() {
    play(
        "
        A BEGIN
        B BEGIN
        A SELECT * FROM test WHERE value % 5 = 0               -> 1|10, 2|20
        B UPDATE test SET value = 12 WHERE value = 10
        B COMMIT
        A SELECT * FROM test WHERE value % 3 = 0
        A COMMIT
        table                                                  -> 1|12, 2|20",
    );
    play(
        "
        A BEGIN
        A SELECT * FROM test WHERE value % 5 = 0               -> 1|10, 2|20
        B UPDATE test SET value = 12 WHERE value = 10; SELECT 1 -> 1
        A SELECT * FROM test WHERE value % 3 = 0
        A UPDATE test SET value = 21 WHERE id = 2
        A COMMIT                                               -> conflict at 1
        table                                                  -> 1|12, 2|20",
    );
    play(
        "
        A BEGIN
        A SELECT * FROM test WHERE value % 3 = 0
        S UPDATE test SET value = 12 WHERE value = 10
        A UPDATE test SET value = 21 WHERE id = 2
        A COMMIT                                               -> conflict at 1
        table                                                  -> 1|12, 2|20",
    );
}

/// The write's condition is judged where it takes effect; the earlier read is not forgotten.
#[test]
fn g_single_with_a_write_predicate() {
    play(
        "
        A BEGIN
        B BEGIN
        A SELECT value FROM test WHERE id = 1                  -> 10
        B SELECT * FROM test                                   -> 1|10, 2|20
        B UPDATE test SET value = 12 WHERE id = 1
        B UPDATE test SET value = 18 WHERE id = 2
        B COMMIT
        A DELETE FROM test WHERE value = 20
        A SELECT value FROM test WHERE id = 2
        A COMMIT                                               -> conflict at 1
        table                                                  -> 1|12, 2|18",
    );
    play(
        "
        A BEGIN
        A DELETE FROM test WHERE value = 20
        B UPDATE test SET value = 12 WHERE id = 1; UPDATE test SET value = 18 WHERE id = 2
        A COMMIT
        table                                                  -> 1|12, 2|18",
    );
    play(
        "
        A BEGIN
        A DELETE FROM test WHERE value = 20 #                  -> 1 changed
        B UPDATE test SET value = 12 WHERE id = 1; UPDATE test SET value = 18 WHERE id = 2
        A COMMIT                                               -> conflict at 1
        table                                                  -> 1|12, 2|18",
    );
    play(
        "
        A BEGIN
        A SELECT value FROM test WHERE id = 1                  -> 10
        S BEGIN
        S UPDATE test SET value = 12 WHERE id = 1
        S UPDATE test SET value = 18 WHERE id = 2
        A DELETE FROM test WHERE value = 20
        A COMMIT ...
        S COMMIT
        A                                                      -> conflict at 1
        table                                                  -> 1|12, 2|18",
    );
}

/// Each writes what the other read.
#[test]
fn g2_item_write_skew() {
    play(
        "
        A BEGIN
        B BEGIN
        A SELECT * FROM test WHERE id IN (1, 2)                -> 1|10, 2|20
        B SELECT * FROM test WHERE id IN (1, 2)                -> 1|10, 2|20
        A UPDATE test SET value = 11 WHERE id = 1
        B UPDATE test SET value = 21 WHERE id = 2
        A COMMIT
        B COMMIT                                               -> conflict at 1
        table                                                  -> 1|11, 2|20",
    );
    play(
        "
        B BEGIN
        B SELECT * FROM test WHERE id IN (1, 2)                -> 1|10, 2|20
        A SELECT * FROM test WHERE id IN (1, 2); UPDATE test SET value = 11 WHERE id = 1 -> 1|10, 2|20
        B UPDATE test SET value = 21 WHERE id = 2
        B COMMIT                                               -> conflict at 1
        table                                                  -> 1|11, 2|20",
    );
    play(
        "
        A BEGIN
        B BEGIN IMMEDIATE
        A SELECT * FROM test                                   -> 1|10, 2|20
        B SELECT * FROM test                                   -> 1|10, 2|20
        A UPDATE test SET value = 11 WHERE id = 1
        A COMMIT ...
        B UPDATE test SET value = 21 WHERE id = 2
        B COMMIT
        A                                                      -> conflict at 1
        table                                                  -> 1|10, 2|21",
    );
    play(
        "
        S BEGIN
        A BEGIN
        S SELECT * FROM test                                   -> 1|10, 2|20
        A SELECT * FROM test                                   -> 1|10, 2|20
        S UPDATE test SET value = 11 WHERE id = 1
        A UPDATE test SET value = 21 WHERE id = 2
        S COMMIT
        A COMMIT                                               -> conflict at 1
        table                                                  -> 1|11, 2|20",
    );
    play(
        "
        S BEGIN
        A BEGIN
        S SELECT * FROM test                                   -> 1|10, 2|20
        A SELECT * FROM test                                   -> 1|10, 2|20
        A UPDATE test SET value = 21 WHERE id = 2
        A COMMIT
        S UPDATE test SET value = 11 WHERE id = 1              -> error 5
        S ROLLBACK
        table                                                  -> 1|10, 2|21",
    );
}

/// Write skew through a condition: each inserts what the other looked for.
#[test]
fn g2_anti_dependency_cycles() {
    play(
        "
        A BEGIN
        B BEGIN
        A SELECT * FROM test WHERE value % 3 = 0
        B SELECT * FROM test WHERE value % 3 = 0
        A INSERT INTO test VALUES (3, 30)
        B INSERT INTO test VALUES (4, 42)
        A COMMIT
        B COMMIT                                               -> conflict at 1
        table                                                  -> 1|10, 2|20, 3|30",
    );
    play(
        "
        B BEGIN
        B SELECT * FROM test WHERE value % 3 = 0
        A SELECT * FROM test WHERE value % 3 = 0; INSERT INTO test VALUES (3, 30)
        B INSERT INTO test VALUES (4, 42)
        B COMMIT                                               -> conflict at 1
        table                                                  -> 1|10, 2|20, 3|30",
    );
    play(
        "
        S BEGIN
        A BEGIN
        S SELECT * FROM test WHERE value % 3 = 0
        A SELECT * FROM test WHERE value % 3 = 0
        S INSERT INTO test VALUES (3, 30)
        A INSERT INTO test VALUES (4, 42)
        A COMMIT ...
        S COMMIT
        A                                                      -> conflict at 1
        table                                                  -> 1|10, 2|20, 3|30",
    );
}

/// A cycle through a third transaction that only reads (Fekete and others, 2004).
#[test]
fn g2_with_two_edges() {
    play(
        "
        A BEGIN
        A SELECT * FROM test                                   -> 1|10, 2|20
        B BEGIN
        B UPDATE test SET value = value + 5 WHERE id = 2
        B COMMIT
        C BEGIN
        C SELECT * FROM test                                   -> 1|10, 2|25
        C COMMIT
        A UPDATE test SET value = 0 WHERE id = 1
        A COMMIT                                               -> conflict at 1
        table                                                  -> 1|10, 2|25",
    );
    play(
        "
        A BEGIN
        A SELECT * FROM test                                   -> 1|10, 2|20
        B UPDATE test SET value = value + 5 WHERE id = 2; SELECT 1 -> 1
        S SELECT * FROM test                                   -> 1|10, 2|25
        A UPDATE test SET value = 0 WHERE id = 1
        A COMMIT                                               -> conflict at 1
        table                                                  -> 1|10, 2|25",
    );
    play(
        "
        A BEGIN
        A SELECT * FROM test                                   -> 1|10, 2|20
        S UPDATE test SET value = value + 5 WHERE id = 2
        C BEGIN
        C SELECT * FROM test                                   -> 1|10, 2|25
        C COMMIT
        A UPDATE test SET value = 0 WHERE id = 1
        A COMMIT                                               -> conflict at 1
        table                                                  -> 1|10, 2|25",
    );
}

/// BEGIN, BEGIN DEFERRED and BEGIN CONCURRENT are the same. A conflict ends the transaction, and the
/// same connection may begin the next.
#[test]
fn every_kind_of_begin() {
    play(
        "
        A BEGIN
        A SELECT value FROM test WHERE id = 1                  -> 10
        B UPDATE test SET value = 11 WHERE id = 1
        A UPDATE test SET value = 21 WHERE id = 2
        A COMMIT                                               -> conflict at 1
        A BEGIN
        A SELECT value FROM test WHERE id = 1                  -> 11
        A UPDATE test SET value = 21 WHERE id = 2
        A COMMIT
        table                                                  -> 1|11, 2|21",
    );
    play(
        "
        A BEGIN DEFERRED
        A SELECT value FROM test WHERE id = 1                  -> 10
        B UPDATE test SET value = 11 WHERE id = 1
        A UPDATE test SET value = 21 WHERE id = 2
        A COMMIT                                               -> conflict at 1
        A BEGIN DEFERRED
        A SELECT value FROM test WHERE id = 1                  -> 11
        A UPDATE test SET value = 21 WHERE id = 2
        A COMMIT
        table                                                  -> 1|11, 2|21",
    );
    play(
        "
        A BEGIN CONCURRENT
        A SELECT value FROM test WHERE id = 1                  -> 10
        B UPDATE test SET value = 11 WHERE id = 1
        A UPDATE test SET value = 21 WHERE id = 2
        A COMMIT                                               -> conflict at 1
        A BEGIN CONCURRENT
        A SELECT value FROM test WHERE id = 1                  -> 11
        A UPDATE test SET value = 21 WHERE id = 2
        A COMMIT
        table                                                  -> 1|11, 2|21",
    );
    play(
        "
        A BEGIN TRANSACTION
        A SELECT value FROM test WHERE id = 1                  -> 10
        B UPDATE test SET value = 11 WHERE id = 1
        A UPDATE test SET value = 21 WHERE id = 2
        A COMMIT                                               -> conflict at 1
        A BEGIN TRANSACTION
        A SELECT value FROM test WHERE id = 1                  -> 11
        A UPDATE test SET value = 21 WHERE id = 2
        A COMMIT
        table                                                  -> 1|11, 2|21",
    );
}
