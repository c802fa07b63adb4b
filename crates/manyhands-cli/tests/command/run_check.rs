//! `--check` says before a command is run whether Manyhands would be in it.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use crate::{
    programs::{BUNDLED, PYTHON, STAND_IN, STATIC},
    running::{ended, run},
};

fn check(command: &[&Path], is_reached: bool, expected: &str) {
    let arguments: Vec<_> =
        [Path::new("--check"), Path::new("--")].iter().chain(command).copied().collect();
    let ended = ended(&mut run(&STAND_IN, &arguments));
    assert_eq!(
        ended.status.code(),
        Some(i32::from(!is_reached)),
        "{command:?}: {}{}",
        ended.output,
        ended.rest
    );
    let told = [ended.output, ended.rest].concat();
    assert!(told.contains(expected), "{command:?}: {expected:?} is missing:\n{told}");
}

/// Programs, scripts, and what is neither.
#[test]
fn what_files_say() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = folder.path().join("script");
    let write = |interpreter: &Path| {
        fs::write(&script, format!("#!{}\n", interpreter.display())).expect("writable");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("ours");
    };
    check(&[Path::new(PYTHON)], true, "replaced  libsqlite3.so.0, for /usr/lib/python3");
    check(&[Path::new("sh")], true, "No SQLite was found");
    check(&[&STATIC], false, "statically linked");
    check(&[&BUNDLED], false, "has a SQLite of its own");
    check(&[Path::new("manyhands-nonexistent")], false, "there is no command");
    write(&STATIC);
    check(&[&script], false, "statically linked");
    write(Path::new(PYTHON));
    check(&[&script], true, "run by    /usr/bin/python3");
}

/// A driver of Node.js is found where npm puts it, though nothing of it is linked to the program.
#[test]
fn a_driver_of_a_script() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let module =
        folder.path().join("node_modules/better-sqlite3/build/Release/better_sqlite3.node");
    fs::create_dir_all(module.parent().expect("a folder")).expect("writable");
    fs::copy(&*BUNDLED, &module).expect("writable");
    // Any program called so: it is not run.
    let node = folder.path().join("node");
    fs::copy("/bin/true", &node).expect("writable");
    check(&[&node, &folder.path().join("server.js")], true, "No SQLite was found");
    fs::write(folder.path().join("server.js"), "").expect("writable");
    check(&[&node, &folder.path().join("server.js")], false, "npm rebuild better-sqlite3");
}
