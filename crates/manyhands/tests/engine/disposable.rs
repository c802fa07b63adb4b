//! The queue file is disposable: README, python-compat.md and durability.md say that it can be deleted at any time.

use std::fs;
use std::path::Path;

use manyhands::params;

use crate::stage::{
    Actor, Stage, assert_sound, connect, execute, in_time, listen, number, say, until,
};

const ADDITIONS: i64 = 300;

/// The part of an actor: adds one to a number again and again, in one statement and in transactions that read it first.
pub fn add_ones(path: &Path) {
    let database = manyhands::Database::open(path).expect("opens");
    let mut connection = connect(&database);
    say("ready");
    listen();
    for addition in 0..ADDITIONS {
        if addition % 3 == 0 {
            let added = connection.run(|transaction| {
                let rows = transaction.query("SELECT n FROM counter", params![])?;
                let next = rows[0].get::<i64>(0)? + 1;
                transaction.execute("UPDATE counter SET n = ?1", params![next])
            });
            added.unwrap_or_else(|error| panic!("{addition}: {error}"));
        } else {
            execute(&mut connection, "UPDATE counter SET n = n + 1");
        }
    }
    say("done");
}

/// Somebody deletes it again and again while processes write: for a moment some of them queue in one file and some in
/// another. Each write is carried out once, and none fails.
#[test]
fn it_is_deleted_while_processes_write() {
    in_time(|| {
        let stage = Stage::new();
        let setup = "CREATE TABLE counter (n); INSERT INTO counter VALUES (0)";
        connect(&stage.database()).execute_script(setup).expect("a counter");
        let mut actors: Vec<_> = (0..4).map(|_| Actor::start("add ones", &stage.path())).collect();
        actors.iter().for_each(|actor| assert_eq!(actor.hear(), "ready"));
        actors.iter_mut().for_each(|actor| actor.tell("go"));
        let goal = ADDITIONS * actors.len() as i64;
        let (mut reader, mut deleted, mut seen) = (connect(&stage.database()), 0, 0);
        until("all is added", || {
            let sum = number(&mut reader, "SELECT n FROM counter");
            if sum >= seen + 10 {
                seen = sum;
                deleted += u32::from(fs::remove_file(stage.beside("-hands")).is_ok());
            }
            sum == goal
        });
        for actor in actors {
            assert_eq!(actor.hear(), "done");
            assert!(actor.end().success());
        }
        assert!(deleted > 3, "deleted {deleted} times");
        assert_eq!(number(&mut reader, "SELECT n FROM counter"), goal);
        drop(reader);
        assert_sound(&stage.path());
        assert!(!stage.beside("-hands").exists());
    });
}
