//! Who may read and write what lies beside the database.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use manyhands::params;

use crate::stage::{Actor, INSERT, ITEM, Stage, connect, execute, items, shell};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("changes the mode");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

/// Whoever may read a database found values in the queue file that were never in the database: the passwords and tokens
/// that others compare.
#[test]
fn who_may_only_read_sees_no_values_of_others() {
    for (of_database, of_queue) in [(0o644, 0o600), (0o664, 0o660), (0o666, 0o666), (0o640, 0o600)]
    {
        let stage = Stage::new();
        shell(&stage.path(), ITEM);
        set_mode(&stage.path(), of_database);
        let mut connection = connect(&stage.database());
        let delete = "DELETE FROM item WHERE note = ?1";
        connection.execute(delete, params!["token"]).expect("executes");
        assert_eq!(mode(&stage.beside("-hands")), of_queue, "{of_database:o}");
    }
}

/// `chmod` of a database that is open, or whose last process was killed: whoever opened it then was told that the queue
/// file's permissions are wider.
#[test]
fn the_mode_of_an_open_database_changes() {
    for is_killed in [false, true] {
        for (of_database, of_queue) in [(0o640, 0o600), (0o664, 0o660)] {
            let stage = Stage::new();
            shell(&stage.path(), ITEM);
            set_mode(&stage.path(), 0o666);
            let actor = Actor::start("keep it open", &stage.path());
            assert_eq!(actor.hear(), "open");
            assert_eq!(mode(&stage.beside("-hands")), 0o666);
            set_mode(&stage.path(), of_database);
            let actor = (!is_killed).then_some(actor);
            let mut connection = connect(&stage.database());
            execute(&mut connection, INSERT);
            assert_eq!(items(&mut connection), 2);
            assert_eq!(mode(&stage.beside("-hands")), of_queue, "{of_database:o}");
            drop(actor);
        }
    }
}
