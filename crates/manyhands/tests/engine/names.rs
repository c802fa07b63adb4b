//! One database file under several names.

use std::fs;

use manyhands::Database;

use crate::stage::{Actor, INSERT, Stage, assert_sound, connect, execute, in_time, items, refused};

/// Each name has a -wal file of its own, and two of these destroy the database: SQLite does not notice. Here who comes
/// by another name than those who have it open is refused, whoever they are.
#[test]
fn a_hard_link_is_refused_while_the_other_name_is_in_use() {
    in_time(|| {
        for is_stock in [false, true] {
            let stage = Stage::new();
            drop(stage.database_with_items());
            let link = stage.directory().join("link.db");
            fs::hard_link(stage.path(), &link).expect("links");
            let mut actor;
            if is_stock {
                actor = Actor::sqlite(&stage.path());
                actor.tell("SELECT '@open' FROM (SELECT count(*) FROM item);");
            } else {
                actor = Actor::start("keep it open", &stage.path());
            }
            assert_eq!(actor.hear(), "open");
            refused(Database::open(&link), &["link.db", "under another name"]);
            let beside: Vec<_> = ["-hands"]
                .iter()
                .filter(|suffix| stage.directory().join(format!("link.db{suffix}")).exists())
                .collect();
            assert!(beside.is_empty(), "{beside:?}");
            execute(&mut connect(&stage.database()), INSERT);
            actor.tell(".quit");
            assert!(actor.end().success());
            let mut linked = connect(&Database::open(&link).expect("nobody else has it open"));
            execute(&mut linked, INSERT);
            assert_eq!(items(&mut linked), if is_stock { 2 } else { 3 });
            drop(linked);
            assert_sound(&stage.path());
        }
    });
}

/// In one process it is one database by whatever name, with the files of the first.
#[test]
fn two_names_in_one_process_are_one_database() {
    let stage = Stage::new();
    let mut one = connect(&stage.database_with_items());
    let link = stage.directory().join("link.db");
    fs::hard_link(stage.path(), &link).expect("links");
    let mut other = connect(&Database::open(&link).expect("opens"));
    execute(&mut one, INSERT);
    execute(&mut other, INSERT);
    assert_eq!((items(&mut one), items(&mut other)), (2, 2));
    assert!(!stage.directory().join("link.db-wal").exists());
    drop((one, other));
    assert_sound(&stage.path());
}
