//! SQLite's own shell over Manyhands.

use std::process::{Command, Stdio};

use crate::MANYHANDS;
use crate::programs::library;

/// Debian's shell is of an older version, and refuses any library but its own. The version that SQL tells is that of ours.
#[test]
fn debians_shell_writes_through_the_queue() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let database = folder.path().join("app.db");
    let shell = |sql: &str| {
        let mut command = Command::new(MANYHANDS);
        command
            .arg("shell")
            .arg("--library")
            .arg(library())
            .args(["-batch", "-bail"])
            .arg(&database)
            .arg(sql);
        let output = command.stdin(Stdio::null()).output().expect("the command starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(shell("CREATE TABLE t (a); INSERT INTO t VALUES (6), (7) RETURNING a"), "6\n7\n");
    assert_eq!(
        shell(
            "BEGIN IMMEDIATE; UPDATE t SET a = a + 1; COMMIT; SELECT sum(a), sqlite_version() FROM t"
        ),
        "15|3.54.1\n"
    );
}

#[test]
fn a_shell_that_is_not_there() {
    let mut command = Command::new(MANYHANDS);
    let output = command
        .args(["shell", "--shell", "/no/such/shell", "--library"])
        .arg(library())
        .output()
        .expect("the command starts");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("install it"));
}
