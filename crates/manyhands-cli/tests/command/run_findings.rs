//! Each way in which a process can use SQLite without Manyhands is told, with the file and the way out.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{
    MANYHANDS,
    programs::{BUNDLED, PYTHON, STAND_IN, STATIC, stock},
    running::{Running, ended, run},
};

const ALARM: &str = "WITHOUT MANYHANDS";

fn new_database() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().canonicalize().expect("it is there").join("app.db");
    (folder, path)
}

/// The command holds a database open until all is told that was expected.
fn check(command: &[&Path], expected: &[&str]) {
    let arguments: Vec<_> =
        [Path::new("--report"), Path::new("--")].iter().chain(command).copied().collect();
    let running = Running::start(&mut run(&STAND_IN, &arguments));
    let mut told = running.told(ALARM);
    // A doubt may come first on a machine that is slow.
    while !told.contains("has a database open") {
        told += &running.told(ALARM);
    }
    told += &running.told("way out");
    let ended = running.end();
    assert!(ended.status.success(), "{told}{}", ended.rest);
    for part in expected {
        assert!(told.contains(part), "{part:?} is missing:\n{told}");
    }
    assert!(ended.rest.contains("1 process used SQLite WITHOUT Manyhands"), "{}", ended.rest);
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// A Go program, most often: no loader, no libraries, no way in.
#[test]
fn a_static_program() {
    let (_folder, database) = new_database();
    check(&[&STATIC, &database], &[text(&STATIC), text(&database), "statically linked", "way out"]);
}

/// SQLite inside a program that has the library too, and calls its own functions.
#[test]
fn sqlite_inside_a_program_with_the_library() {
    let (_folder, database) = new_database();
    check(&[&BUNDLED, &database], &[text(&BUNDLED), text(&database), "way out"]);
}

/// A grandchild, whose parent has ended meanwhile.
#[test]
fn an_orphan() {
    let (_folder, database) = new_database();
    let script = r#"("$0" "$1" <&3 &) 3<&0; read line; exit 0"#;
    let command = [Path::new("sh"), Path::new("-c"), Path::new(script), &STATIC, &database];
    check(&command, &[text(&STATIC), text(&database)]);
}

/// A program that does not let the loader choose: ctypes with a path.
#[test]
fn the_stock_library_by_its_path() {
    let (_folder, database) = new_database();
    let stock = stock();
    let script = "import ctypes, sys\n\
        stock, handle = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()\n\
        stock.sqlite3_open(sys.argv[2].encode(), ctypes.byref(handle))\n\
        stock.sqlite3_exec(handle, b'CREATE TABLE t(v)', None, None, None)\n\
        sys.stdin.read()\n";
    let command = [Path::new(PYTHON), Path::new("-c"), Path::new(script), &stock, &database];
    let file = stock.canonicalize().expect("it is there");
    check(&command, &[text(&file), text(&database), "RTLD_DEEPBIND"]);
}

/// sudo, cron, service managers and some test runners start from an environment of their own.
#[test]
fn an_environment_that_was_cleaned() {
    let (_folder, database) = new_database();
    let script = "import sqlite3, sys\n\
        connection = sqlite3.connect(sys.argv[1])\n\
        connection.execute('CREATE TABLE t(v)')\n\
        sys.stdin.read()\n";
    let clean = ["env", "-u", "LD_PRELOAD", PYTHON, "-c", script].map(Path::new);
    let command = [&clean[..], &[&database]].concat();
    check(&command, &["libsqlite3.so", text(&database), "taken LD_PRELOAD out", "pass LD_PRELOAD"]);
}

/// A file that was not chosen does not count as a use, and one that was chosen need not have the header yet.
#[test]
fn only_chosen_databases_count() {
    let (folder, database) = new_database();
    let other = folder.path().join("other.db");
    let mut command =
        run(&STAND_IN, &[Path::new("--only"), &other, Path::new("--"), &STATIC, &database]);
    let mut running = Running::start(&mut command);
    assert_eq!(running.first_line(), "written");
    let ended = running.end();
    assert!(ended.rest.contains("SQLite of its own inside"), "{}", ended.rest);
    assert!(!ended.rest.contains("has a database open"), "{}", ended.rest);
}

/// A program that ends before anybody can look at its process is known by its file.
#[test]
fn a_program_of_a_moment() {
    let (_folder, database) = new_database();
    let ended =
        ended(&mut run(&STAND_IN, &[Path::new("--"), &STATIC, &database, Path::new("at once")]));
    assert_eq!(ended.rest.matches("way out").count(), ended.rest.matches(ALARM).count());
    assert!(ended.rest.contains(text(&STATIC)), "{}", ended.rest);
}

/// A server with a hundred workers says it once.
#[test]
fn once_for_each_program_and_library() {
    let (_folder, database) = new_database();
    let script = r#"for n in 1 2 3 4 5; do "$0" "$1" <&3 & done 3<&0; wait"#;
    let command = ["--", "sh", "-c", script].map(Path::new);
    let mut command = run(&STAND_IN, &[&command[..], &[&STATIC, &database]].concat());
    let running = Running::start(&mut command);
    let told = running.told("has a database open");
    let ended = running.end();
    let certain = [told, ended.rest].concat().matches("has a database open").count();
    assert_eq!(certain, 1);
}

/// The command ends, its server goes on: what is alive then is told.
#[test]
fn a_child_that_outlives_the_command() {
    let (_folder, database) = new_database();
    let script = r#"mkfifo "$1.line"; "$0" "$1" <&3 3<&- > "$1.line" & read line < "$1.line""#;
    let command = ["--", "sh", "-c", &format!("exec 3<&0; {script}")].map(PathBuf::from);
    let words = command.iter().map(PathBuf::as_path).chain([STATIC.as_path(), &database]);
    let running = Running::start(&mut run(&STAND_IN, &words.collect::<Vec<_>>()));
    let told = running.told("has a database open");
    assert!(told.contains(ALARM));
    running.end();
}

/// Programs with Manyhands inside have a SQLite of their own as well, which is no finding.
#[test]
fn manyhands_itself_is_no_finding() {
    let (_folder, database) = new_database();
    let arguments = ["--", MANYHANDS, "exec", text(&database), "CREATE TABLE t(v)"];
    let ended = ended(&mut run(&STAND_IN, &arguments));
    assert!(ended.status.success(), "{}", ended.rest);
    assert!(!ended.rest.contains(ALARM), "{}", ended.rest);
}

/// A process may end between two looks: twenty of them, each of which loads a driver with a SQLite of its own.
#[test]
fn processes_of_a_moment_say_farewell() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for number in 0..20 {
        // Each is another library, so that each is told.
        let module = folder.path().join(format!("driver-{number}.node"));
        std::fs::copy(stock(), &module).expect("writable");
    }
    let script = format!(
        "for module in \"$0\"/*.node; do {PYTHON} -S -E -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' $module; done"
    );
    let arguments = ["--", "sh", "-c", &script].map(Path::new);
    let ended = ended(&mut run(&STAND_IN, &[&arguments[..], &[folder.path()]].concat()));
    let told = ended.rest.matches("has loaded a SQLite of its own").count();
    assert_eq!(told, 20, "{}", ended.rest);
}
