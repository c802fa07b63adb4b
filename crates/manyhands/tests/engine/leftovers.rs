//! What fails says why, and leaves nothing behind: no attached database, no file.

use std::fs;

use manyhands::{Database, params};

use crate::stage::{self, Actor, INSERT, ITEM, SHORT, Stage, connect, execute, number, shell};

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

/// A URI that chooses a VFS was answered by "unknown operation", and left a queue file. One that only reads may choose.
#[test]
fn a_uri_that_chooses_a_vfs() {
    let stage = Stage::new();
    shell(&stage.path(), ITEM);
    let open = |choice: &str| {
        let uri = format!("file:{}?{choice}", stage.path().display());
        Database::builder(&uri).uri(true).open()
    };
    for choice in ["vfs=unix", "vfs=unix-none&mode=rw"] {
        stage::refused(open(choice), &["VFS", "leave out `vfs=`"]);
    }
    // It was said that the file is not on a local disk.
    stage::refused(open("nolock=1"), &["nolock=1", "needs locks"]);
    assert_eq!(stage::items(&mut connect(&open("nolock=1&mode=ro").expect("reads"))), 0);
    assert!(!stage.beside("-hands").exists());
    assert_eq!(stage::items(&mut connect(&open("vfs=unix&mode=ro").expect("reads"))), 0);
    execute(&mut connect(&open("vfs=manyhands").expect("it is the one")), INSERT);
}

/// A file that is no database, or that cannot be switched to WAL mode while another program has it locked, left an empty
/// queue file beside it.
#[test]
fn an_open_that_fails_leaves_no_queue_file() {
    let stage = Stage::new();
    let names = || {
        let entries = fs::read_dir(stage.directory()).expect("lists");
        let names =
            entries.map(|it| it.expect("an entry").file_name().into_string().expect("text"));
        names.collect::<Vec<_>>()
    };
    fs::write(stage.path(), "no database ".repeat(1000)).expect("writes");
    stage::refused(Database::open(stage.path()), &["file is not a database"]);
    assert_eq!(names(), ["app.db"]);

    fs::remove_file(stage.path()).expect("removed");
    shell(&stage.path(), ITEM);
    let mut other = Actor::sqlite(&stage.path());
    other.tell("BEGIN EXCLUSIVE; SELECT '@locked';");
    assert_eq!(other.hear(), "locked");
    let opened = Database::builder(stage.path()).timeout(SHORT).open();
    stage::refused(opened, &["database is locked"]);
    assert!(!stage.beside("-hands").exists());
    other.tell("ROLLBACK;");
    assert!(other.end().success());
    execute(&mut connect(&stage.database()), INSERT);
}
