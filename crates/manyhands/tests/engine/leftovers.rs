//! What fails leaves nothing behind: no attached database, no file.

use std::fs;

use manyhands::params;

use crate::stage::{self, INSERT, Stage, connect, execute, number, shell};

/// An attached file whose queue file cannot be made, as on a full disk: ATTACH failed, and the file was attached all the
/// same. It could be written without a turn then, and the name was taken.
#[test]
fn an_attach_that_fails_attaches_nothing() {
    let stage = Stage::new();
    let other = stage.directory().join("other.db");
    shell(&other, "PRAGMA journal_mode=WAL; CREATE TABLE t (a)");
    let obstacle = stage.directory().join("other.db-hands");
    let mut connection = connect(&stage.database_with_items());
    execute(&mut connection, "ATTACH ':memory:' AS before");
    let attach = format!("ATTACH '{}' AS \"the other\"", other.display());
    for begin in [None, Some("BEGIN"), Some("BEGIN IMMEDIATE")] {
        fs::create_dir(&obstacle).expect("a directory in its place");
        if let Some(begin) = begin {
            execute(&mut connection, begin);
            execute(&mut connection, INSERT);
        }
        for sql in [attach.clone(), format!("EXPLAIN {attach}")] {
            if sql == attach {
                stage::refused(connection.execute(&sql, params![]), &["other.db-hands"]);
            } else {
                execute(&mut connection, &sql);
            }
            let attached = "SELECT group_concat(name) = 'main,before' FROM pragma_database_list";
            assert_eq!(number(&mut connection, attached), 1, "{begin:?}, {sql}");
        }
        if begin.is_some() {
            execute(&mut connection, "COMMIT");
        }
        fs::remove_dir(&obstacle).expect("removed");
        execute(&mut connection, &attach);
        execute(&mut connection, "INSERT INTO \"the other\".t VALUES (1)");
        execute(&mut connection, "DETACH \"the other\"");
    }
    assert_eq!(shell(&other, "SELECT count(*) FROM t"), "3");
    assert_eq!(shell(&stage.path(), "SELECT count(*) FROM item"), "2");
}
