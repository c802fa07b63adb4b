//! Transactions that write attached databases. Each file has its queue, and BEGIN IMMEDIATE locks all files: so a
//! transaction takes the turns of all of them, in the same order as any other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use manyhands::{Connection, Database, TransactionMode, Value, params};

use crate::stage::{Stage, connect, execute, in_time, number};

const OWN: &str = "UPDATE main.counter SET n = n + 1";
const OTHER: &str = "UPDATE other.counter SET n = n + 1";
const BOTH: &str = "UPDATE main.counter SET n = n + (SELECT 1 FROM other.counter)";

fn file(stage: &Stage, name: &str) -> PathBuf {
    let path = stage.directory().join(name);
    let mut connection = connect(&Database::open(&path).expect("opens"));
    connection
        .execute_script("CREATE TABLE counter (n); INSERT INTO counter VALUES (0)")
        .expect("the setup");
    path
}

fn open(path: &Path, mode: TransactionMode, attached: Option<&Path>) -> Connection {
    let builder = Database::builder(path).transaction_mode(mode).timeout(Duration::from_secs(20));
    let mut connection = connect(&builder.open().expect("opens"));
    attached.into_iter().for_each(|attached| attach(&mut connection, attached));
    connection
}

fn impatient(path: &Path) -> Connection {
    let builder = Database::builder(path).timeout(Duration::from_millis(200));
    connect(&builder.open().expect("opens"))
}

fn attach(connection: &mut Connection, path: &Path) {
    let path = Value::from(path.to_str().expect("a path of text"));
    connection.execute("ATTACH ?1 AS other", &[path]).expect("attaches");
}

/// Both make so many transactions at the same time, and neither waits until its timeout has passed.
fn beside_each_other(mut work: [(Connection, &'static [&'static str]); 2]) {
    const TRANSACTIONS: usize = 40;
    in_time(move || {
        std::thread::scope(|scope| {
            for (connection, statements) in &mut work {
                scope.spawn(move || {
                    for _ in 0..TRANSACTIONS {
                        statements.iter().for_each(|sql| execute(connection, sql));
                    }
                });
            }
        });
    });
}

/// (They waited for each other: one held a file's turn and waited for its lock, which the other held and waited for
/// the turn.)
#[test]
fn writers_of_two_files_do_not_wait_for_each_other() {
    for mode in [TransactionMode::Auto, TransactionMode::Optimistic, TransactionMode::Immediate] {
        let stage = Stage::without_disk();
        let (a, b) = (file(&stage, "a.db"), file(&stage, "b.db"));
        let both = || [open(&a, mode, Some(&b)), open(&b, mode, Some(&a))];
        let [one, other] = both();
        let plain = open(&b, mode, None);
        beside_each_other([(one, &["BEGIN", OTHER, "COMMIT"]), (plain, &["BEGIN", OWN, "COMMIT"])]);
        let [one, _] = both();
        beside_each_other([
            (one, &["BEGIN", OTHER, "COMMIT"]),
            (other, &["BEGIN", OTHER, "COMMIT"]),
        ]);
        let [one, other] = both();
        if mode != TransactionMode::Optimistic {
            // What the other has read there changes: a conflict.
            beside_each_other([
                (one, &["BEGIN", BOTH, "COMMIT"]),
                (other, &["BEGIN", BOTH, "COMMIT"]),
            ]);
        }
        let [one, other] = both();
        beside_each_other([
            (one, &["BEGIN", OWN, OTHER, "COMMIT"]),
            (other, &["BEGIN IMMEDIATE", OTHER, OWN, "COMMIT"]),
        ]);
        let [mut one, _] = both();
        let all = number(&mut one, "SELECT n FROM main.counter")
            + number(&mut one, "SELECT n FROM other.counter");
        let written = if mode == TransactionMode::Optimistic { 8 } else { 10 };
        assert_eq!(all, 40 * written, "{mode:?}");
    }
}

/// A file that waits for its turn is no reason for another to wait: BEGIN IMMEDIATE takes both turns, or none.
#[test]
fn who_waits_for_two_turns_holds_none() {
    let stage = Stage::without_disk();
    let (a, b) = (file(&stage, "a.db"), file(&stage, "b.db"));
    let mut both = impatient(&a);
    attach(&mut both, &b);
    let mut holder = open(&b, TransactionMode::Optimistic, None);
    execute(&mut holder, "BEGIN IMMEDIATE");
    let late =
        both.execute("BEGIN IMMEDIATE", params![]).expect_err("the other's turn does not come");
    assert!(late.is_timeout(), "{late}");
    assert!(!both.holds_turn());
    execute(&mut open(&a, TransactionMode::Optimistic, None), OWN);
    execute(&mut holder, "COMMIT");
    execute(&mut both, "BEGIN IMMEDIATE");
    execute(&mut both, OTHER);
    execute(&mut both, "COMMIT");
}

/// A BEGIN inside a transaction is SQLite's error, and takes no turn and gives none back.
#[test]
fn a_transaction_keeps_its_turn() {
    let stage = Stage::without_disk();
    let (a, b) = (file(&stage, "a.db"), file(&stage, "b.db"));
    let mut both = impatient(&a);
    execute(&mut both, "BEGIN IMMEDIATE");
    execute(&mut both, OWN);
    attach(&mut both, &b);
    let mut holder = open(&b, TransactionMode::Optimistic, None);
    let error = both.execute("BEGIN", params![]).expect_err("one is open");
    assert!(!error.is_timeout(), "{error}");
    assert!(both.holds_turn());
    execute(&mut holder, "BEGIN IMMEDIATE");
    both.execute(OTHER, params![]).expect_err("the other's turn does not come");
    assert!(both.holds_turn());
    execute(&mut both, "COMMIT");
    assert_eq!(number(&mut both, "SELECT n FROM main.counter"), 1);
}
