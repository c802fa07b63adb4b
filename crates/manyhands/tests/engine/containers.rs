//! Processes that see less of the system than others do.

use std::fs;
use std::path::Path;
use std::process::Command;

use manyhands::Database;

use crate::stage::{
    Actor, INSERT, Stage, assert_sound, connect, execute, in_time, items, listen, say,
};

/// Where there is nothing in /proc, as in a chroot: neither descriptors by their numbers nor the id of the boot.
fn start_without_proc(part: &str, path: &Path) -> Actor {
    let me = std::env::current_exe().expect("this binary");
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let hidden = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";
    command.args(["--mount", "sh", "-c", hidden]).arg(me);
    Actor::start_by(command, part, path)
}

/// The part of an actor: writes, when it is told so, where there is no /proc.
pub fn write_without_proc(path: &Path) {
    assert!(fs::metadata("/proc/self").is_err(), "/proc is hidden");
    let database = Database::open(path).expect("opens");
    let mut connection = connect(&database);
    execute(&mut connection, INSERT);
    say("written");
    while listen() == "again" {
        for _ in 0..50 {
            execute(&mut connection, INSERT);
        }
        say("written");
    }
}

/// No database could be opened there. And whoever knew no id of the boot took the others' queue file for one of another
/// boot, and replaced it.
#[test]
fn a_process_without_proc_works_beside_others() {
    in_time(|| {
        for is_first in [false, true] {
            let stage = Stage::new();
            drop(stage.database_with_items());
            let mut others = (!is_first).then(|| connect(&stage.database()));
            let mut actor = start_without_proc("write without /proc", &stage.path());
            assert_eq!(actor.hear(), "written");
            let connection = others.get_or_insert_with(|| connect(&stage.database()));
            actor.tell("again");
            for _ in 0..50 {
                execute(connection, INSERT);
            }
            assert_eq!(actor.hear(), "written");
            assert_eq!(items(connection), 101);
            actor.tell("enough");
            assert!(actor.end().success());
            drop(others);
            assert_sound(&stage.path());
            assert!(!stage.beside("-hands").exists());
        }
    });
}
