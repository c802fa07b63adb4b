//! The demo, and its writers.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
};

use crate::MANYHANDS;

/// Both engines hold what they have acknowledged, as the sqlite3 shell finds, and nothing is left behind.
#[test]
fn a_small_demo() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new(MANYHANDS)
        .args(["demo", "--processes", "3", "--seconds", "0.5", "--directory"])
        .arg(directory.path())
        .output()
        .expect("the command starts");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(!told.contains('\u{1b}'), "no control codes outside a terminal:\n{told}");
    let sound = told.lines().filter(|line| line.contains(" = ") && line.ends_with("ok")).count();
    assert_eq!(sound, 2, "{told}");
    assert!(told.contains("the commits of stock SQLite"), "{told}");
    assert_eq!(std::fs::read_dir(directory.path()).expect("still there").count(), 0);
}

/// A writer that would write for an hour, connected.
fn ready_writer(directory: &std::path::Path) -> Child {
    let database = directory.join("demo.db");
    let connection = rusqlite::Connection::open(&database).expect("a new file");
    connection.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").expect("plain SQL");
    let mut writer = Command::new(MANYHANDS)
        .args(["demo-writer", "stock"])
        .arg(&database)
        .arg("3600")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let mut line = String::new();
    let stdout = writer.stdout.as_mut().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("readable");
    assert!(line.contains("ready"), "{line}");
    writer
}

/// The demo died before the start, or in the middle: no writer outlives it.
#[test]
fn an_abandoned_writer_ends() {
    for has_started in [false, true] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut writer = ready_writer(directory.path());
        let mut stdin = writer.stdin.take().expect("it is piped");
        if has_started {
            stdin.write_all(b"\n").expect("the writer reads");
        }
        drop((stdin, writer.stdout.take()));
        assert!(!writer.wait().expect("it ends").success());
    }
}
