//! A stock program that the preload reaches writes through Manyhands.

use std::path::Path;

use crate::{
    programs::{PYTHON, library},
    running::{ended, run},
};

/// Writes for a second: long enough to be looked at.
const SCRIPT: &str = "import sqlite3, sys, time\n\
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
    connection.execute('CREATE TABLE IF NOT EXISTS t(v)')\n\
    end, count = time.monotonic() + 1, 0\n\
    while time.monotonic() < end:\n\
    \x20   connection.execute('INSERT INTO t VALUES (?)', (count,))\n\
    \x20   count += 1\n\
    print(connection.execute('SELECT count(*) = ? FROM t', (count,)).fetchone()[0])\n";

/// Debian's Python, unchanged: no alarm, and the report names it.
#[test]
fn debians_python() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let database = folder.path().canonicalize().expect("it is there").join("app.db");
    let command = ["--report", "--", PYTHON, "-c", SCRIPT].map(Path::new);
    let ended = ended(&mut run(&library(), &[&command[..], &[&database]].concat()));
    assert!(ended.status.success(), "{}", ended.rest);
    assert_eq!(ended.output, "1\n");
    assert!(!ended.rest.contains("WITHOUT MANYHANDS"), "{}", ended.rest);
    assert!(ended.rest.contains("1 process used SQLite through Manyhands"), "{}", ended.rest);
    assert!(ended.rest.contains(&format!("({})", database.display())), "{}", ended.rest);
}

/// With `--only`, another file is SQLite's alone, on purpose: that is no finding, and no use of Manyhands.
#[test]
fn a_file_that_was_not_chosen() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let [chosen, database] = ["chosen.db", "app.db"].map(|name| folder.path().join(name));
    let command = ["--report", "--", PYTHON, "-c", SCRIPT].map(Path::new);
    let arguments = [&[Path::new("--only"), &chosen][..], &command, &[&database]].concat();
    let ended = ended(&mut run(&library(), &arguments));
    assert_eq!(ended.output, "1\n", "{}", ended.rest);
    assert!(ended.rest.contains("0 processes used SQLite through Manyhands"), "{}", ended.rest);
    assert!(!folder.path().join("app.db-hands").exists(), "it has a queue");
    assert!(ended.rest.contains("0 processes used SQLite WITHOUT"), "{}", ended.rest);
}
