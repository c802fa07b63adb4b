//! `manyhands cancel` ends what a process waits for or executes, with an error that says so, and nothing else.

use std::{path::Path, process::Command};

use rustix::process::Signal;

use crate::{
    MANYHANDS,
    player::{Player, wait_for},
    top::{Place, Stock, state},
};

const SLOW: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

/// What it prints, on either stream, and its exit status.
fn cancel(pid: i32, file: &Path) -> (String, Option<i32>) {
    let mut command = Command::new(MANYHANDS);
    let output = command.arg("cancel").arg(pid.to_string()).arg(file).output().expect("it starts");
    let told = [output.stdout, output.stderr].concat();
    (String::from_utf8(told).expect("text"), output.status.code())
}

fn is_cancelled(heard: &str) -> bool {
    heard.starts_with("error: interrupted: somebody has cancelled this process's work")
}

#[test]
fn a_wait_ends_and_the_holder_goes_on() {
    let place = Place::new();
    let (mut job, mut web) =
        (Player::open(&place.file(), "job"), Player::open(&place.file(), "web"));
    job.does("BEGIN IMMEDIATE");
    job.does("INSERT INTO t VALUES (7)");
    for statement in ["INSERT INTO t VALUES (8)", "BEGIN IMMEDIATE"] {
        web.begin(statement);
        wait_for("a waiter", || {
            (state(&place.file())["queue"].as_array()?.len() == 1).then_some(())
        });
        let (told, status) = cancel(web.pid(), &place.file());
        assert!(told.contains("(web): 1 operation cancelled"), "{told}");
        assert_eq!(status, Some(0));
        let heard = web.hear();
        assert!(is_cancelled(&heard), "{heard}");
    }
    job.does("COMMIT");
    // What begins later does not notice.
    web.does("INSERT INTO t VALUES (9)");
    let database = manyhands::Database::open(place.file()).expect("opens");
    let rows = database.connect().and_then(|mut it| it.query("SELECT a FROM t WHERE a > 6", &[]));
    let rows: Vec<i64> =
        rows.expect("reads").iter().map(|it| it.get(0).expect("a number")).collect();
    assert_eq!(rows, [7, 9]);
}

#[test]
fn a_running_statement_ends() {
    let place = Place::new();
    let mut job = Player::open(&place.file(), "job");
    // In its turn, and outside of one.
    for statement in [&format!("INSERT INTO t {SLOW}"), SLOW] {
        job.begin(statement);
        if statement != SLOW {
            wait_for("the statement", || {
                (state(&place.file())["leader"]["does"] == "statement").then_some(())
            });
        }
        wait_for("the cancel", || (cancel(job.pid(), &place.file()).1 == Some(0)).then_some(()));
        let heard = job.hear();
        assert!(is_cancelled(&heard), "{heard}");
    }
    job.does("INSERT INTO t VALUES (9)");
    assert!(state(&place.file())["leader"].is_null());
}

#[test]
fn where_there_is_nothing_to_cancel() {
    let place = Place::new();
    let mut job = Player::open(&place.file(), "job");
    let (told, status) = cancel(job.pid(), &place.file());
    assert!(told.contains("waits for nothing and executes nothing"), "{told}");
    assert_eq!(status, Some(1));
    job.does("BEGIN IMMEDIATE");
    job.does("INSERT INTO t VALUES (7)");
    let (told, status) = cancel(job.pid(), &place.file());
    assert!(told.contains("Only the program can end it"), "{told}");
    assert_eq!(status, Some(1));
    job.does("COMMIT");
    job.signal(Signal::STOP);
    let (told, _) = cancel(job.pid(), &place.file());
    assert!(told.contains("is stopped, and notices nothing"), "{told}");
    let stock = Stock::open(&place.file(), "SELECT count(*) FROM t;");
    let (told, status) = cancel(stock.pid(), &place.file());
    assert!(told.contains("has not opened") && told.contains("sqlite3"), "{told}");
    assert_eq!(status, Some(1));
}
