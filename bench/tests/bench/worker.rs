//! No worker process outlives the command that started it, however that command ended.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
};

const ABANDONED: i32 = 3;

/// A worker that would write for an hour, ready to start.
fn ready_worker(directory: &std::path::Path) -> Child {
    let database = directory.join("worker.db");
    let connection = rusqlite::Connection::open(&database).expect("a new file");
    connection.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").expect("plain SQL");
    let job = serde_json::json!({
        "engine": "stock", "database": database, "member": 0, "seed": 1,
        "task": { "kind": "insert", "threads": 2, "value_bytes": 10, "seconds": 3600.0 },
    });
    let mut worker = Command::new(env!("CARGO_BIN_EXE_manyhands-bench"))
        .args(["worker", &job.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut line = String::new();
    let stdout = worker.stdout.as_mut().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("readable");
    assert!(line.contains("ready"), "{line}");
    worker
}

/// The command died before the start.
#[test]
fn an_abandoned_worker_does_not_start() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut worker = ready_worker(directory.path());
    drop(worker.stdin.take());
    assert_eq!(worker.wait().expect("it ends").code(), Some(ABANDONED));
}

/// The command died in the middle of a measurement.
#[test]
fn an_abandoned_worker_ends() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut worker = ready_worker(directory.path());
    let mut stdin = worker.stdin.take().expect("it is piped");
    writeln!(stdin, "0").expect("the worker reads");
    drop(stdin);
    assert_eq!(worker.wait().expect("it ends").code(), Some(ABANDONED));
}
