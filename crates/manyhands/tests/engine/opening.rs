//! What it takes to have a database open, and to open it: time, descriptors, room on the disk.

use std::fs;
use std::path::Path;
use std::time::Duration;

use manyhands::{Connection, Database};

use crate::stage::{
    Actor, INSERT, ITEM, Stage, connect, execute, in_time, items, listen, say, shell,
};

/// The part of an actor: opens and closes a database again and again, and never waits for a lock.
pub fn open_without_waiting(path: &Path) {
    say("ready");
    listen();
    for _ in 0..100 {
        let database = Database::builder(path).timeout(Duration::ZERO).open();
        match database.and_then(|database| database.connect()) {
            Ok(connection) => drop(connection),
            Err(error) => return say(&error.to_string()),
        }
    }
    say("done");
}

/// Who has no patience for a writer must still wait for those who open or close the database at that moment:
/// they failed with "timed out joining the queue", where SQLite opens at once.
#[test]
fn a_timeout_of_zero_opens_beside_others() {
    in_time(|| {
        let stage = Stage::new();
        for is_new in [true, false] {
            if !is_new {
                shell(&stage.path(), "PRAGMA journal_mode=WAL; CREATE TABLE t (v)");
            }
            let mut actors: Vec<_> =
                (0..6).map(|_| Actor::start("open without waiting", &stage.path())).collect();
            actors.iter().for_each(|actor| assert_eq!(actor.hear(), "ready"));
            actors.iter_mut().for_each(|actor| actor.tell("go"));
            for actor in actors {
                assert_eq!(actor.hear(), "done", "a new file: {is_new}");
                assert!(actor.end().success());
            }
        }
        drop(connect(&stage.database()));
        assert!(!stage.beside("-hands").exists());
    });
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("/proc").count()
}

/// The part of an actor: counts its descriptors while it has a database open, and then.
pub fn count_descriptors(path: &Path) {
    let before = open_descriptors();
    let connection = write_a_little(path);
    let open = open_descriptors();
    drop(connection);
    say(&format!("{} open, {} closed", open - before, open_descriptors() - before));
}

fn write_a_little(path: &Path) -> Connection {
    let mut connection = connect(&Database::open(path).expect("opens"));
    execute(&mut connection, ITEM);
    execute(&mut connection, INSERT);
    assert_eq!(items(&mut connection), 1);
    connection
}

/// SQLite alone has three; the locks of the -shm file and the queue file take one each.
#[test]
fn an_open_database_takes_five_descriptors() {
    let stage = Stage::new();
    let actor = Actor::start("count descriptors", &stage.path());
    assert_eq!(actor.hear(), "5 open, 0 closed");
    assert!(actor.end().success());
}
