//! What it takes to have a database open, and to open it: time, descriptors, room on the disk.

use std::path::Path;
use std::time::Duration;

use manyhands::Database;

use crate::stage::{Actor, Stage, connect, in_time, listen, say, shell};

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
