//! What it takes to have a database open, and to open it: time, descriptors, room on the disk.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use manyhands::{Connection, Database, Error, Journal, TransactionMode, params};
use manyhands_queue::{Deadline, JoinOptions, Queue};

use crate::stage::{
    self, Actor, INSERT, ITEM, Stage, connect, copy_this_binary, execute, in_time, items, listen,
    number, say, shell, until,
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
    assert!(items(&mut connection) > 0);
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

/// What `PRAGMA page_size` and `PRAGMA auto_vacuum` choose before the first table is part of the first page of the file. It
/// was made when the database was opened, and they had no effect: diskcache kept none of its items.
#[test]
fn what_is_chosen_before_the_first_table_is_chosen() {
    const NAMES: [&str; 3] = ["page_size", "auto_vacuum", "encoding"];
    let check = |chosen: &[&str], expected: &str, then: &str| {
        let stage = Stage::new();
        let mut connection = connect(&stage.database());
        for sql in chosen {
            // Some of them ask in vain.
            let _ = connection.query(sql, params![]);
        }
        connection.execute_script(then).expect(then);
        execute(&mut connection, INSERT);
        let ask: Vec<String> = NAMES.iter().map(|name| format!("PRAGMA {name}")).collect();
        assert_eq!(shell(&stage.path(), &ask.join(";")).replace('\n', " "), expected, "{chosen:?}");
        assert_eq!(shell(&stage.path(), "PRAGMA journal_mode"), "wal");
        assert!(stage.beside("-hands").exists());
        assert_eq!(items(&mut connect(&stage.database())), 1);
    };
    let in_transaction = format!("BEGIN; {ITEM}; COMMIT");
    for then in [ITEM, &in_transaction, &format!("BEGIN IMMEDIATE; {ITEM}; COMMIT")] {
        check(&[], "4096 0 UTF-8", then);
        check(&["PRAGMA page_size = 512"], "512 0 UTF-8", then);
        check(&["PRAGMA auto_vacuum = 1"], "4096 1 UTF-8", then);
        check(
            &["PRAGMA page_size = 8192", "PRAGMA encoding = 'UTF-16le'", "PRAGMA auto_vacuum = 2"],
            "8192 2 UTF-16le",
            then,
        );
        // As diskcache begins, and others that look first.
        check(
            &[
                "SELECT key, value FROM Settings",
                "SELECT count(*) FROM sqlite_schema",
                "PRAGMA journal_mode",
                "PRAGMA auto_vacuum = 1",
                "PRAGMA cache_size = 8192",
                "PRAGMA journal_mode = wal",
                "PRAGMA mmap_size = 67108864",
                "PRAGMA synchronous = 1",
            ],
            "4096 1 UTF-8",
            then,
        );
        // SQLite makes the file for the first.
        check(&["PRAGMA journal_mode = wal", "PRAGMA page_size = 512"], "4096 0 UTF-8", then);
    }
}

/// Whoever makes an empty database is the one whose choices hold; all others find it, with whatever they do next, and so
/// do those that another program was faster than.
#[test]
fn an_empty_database_is_found_when_another_has_made_it() {
    let stage = Stage::new();
    let (database, again) = (stage.database(), stage.database());
    let (mut one, mut other) = (connect(&database), connect(&again));
    assert_eq!(fs::metadata(stage.path()).expect("a file").len(), 0);
    execute(&mut other, "PRAGMA page_size = 512");
    execute(&mut one, "PRAGMA page_size = 1024");
    assert_eq!(number(&mut one, "SELECT count(*) FROM sqlite_schema"), 0);
    assert!(database.statistics().is_none());
    execute(&mut other, ITEM);
    execute(&mut one, INSERT);
    assert_eq!((items(&mut one), items(&mut other)), (1, 1));
    assert_eq!(number(&mut one, "PRAGMA page_size"), 512);
    assert!(database.statistics().is_some() && again.statistics().is_some());

    let stage = Stage::new();
    let mut connection = connect(&stage.database());
    let rows = connection.query("PRAGMA journal_mode = DELETE", params![]).expect("answers");
    assert_eq!(rows[0].get::<String>(0).expect("text"), "wal");
    shell(&stage.path(), ITEM);
    execute(&mut connection, INSERT);
    assert_eq!(shell(&stage.path(), "PRAGMA journal_mode; SELECT count(*) FROM item"), "wal\n1");
    assert!(stage.beside("-hands").exists());
}

/// The part of an actor: makes the table that all of them need, and writes into it, without patience.
pub fn make_it_first(path: &Path) {
    let database = Database::builder(path).timeout(Duration::from_secs(5)).open().expect("opens");
    let mut connection = connect(&database);
    say("ready");
    listen();
    execute(&mut connection, "PRAGMA page_size = 1024");
    execute(&mut connection, ITEM);
    execute(&mut connection, INSERT);
    say("done");
}

/// Many that make an empty database at once: each of them finds it made, or makes it.
#[test]
fn many_make_an_empty_database_at_once() {
    in_time(|| {
        for _ in 0..5 {
            let stage = Stage::new();
            let mut actors: Vec<_> =
                (0..6).map(|_| Actor::start("make it first", &stage.path())).collect();
            actors.iter().for_each(|actor| assert_eq!(actor.hear(), "ready"));
            actors.iter_mut().for_each(|actor| actor.tell("go"));
            for actor in actors {
                assert_eq!(actor.hear(), "done");
                assert!(actor.end().success());
            }
            assert_eq!(items(&mut connect(&stage.database())), 6);
            stage::assert_sound(&stage.path());
            assert_eq!(shell(&stage.path(), "PRAGMA page_size"), "1024");
        }
    });
}

/// The part of an actor: has two thousand databases open at once, and then opens and closes some again and again.
pub fn open_many(directory: &Path) {
    raise_the_limit_of_descriptors();
    // All of them, unless the system gives the process fewer descriptors.
    let may_open = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX).saturating_sub(100);
    let count = (may_open / 5).min(2000);
    assert!(count > 100, "{may_open} descriptors");
    let before = open_descriptors();
    let paths: Vec<_> = (0..count).map(|number| directory.join(format!("{number}.db"))).collect();
    let mut open: Vec<_> = paths.iter().map(|path| write_a_little(path)).collect();
    for connection in &mut open {
        execute(connection, INSERT);
        assert_eq!(items(connection), 2);
    }
    drop(open);
    for number in 0..1000 {
        let path = directory.join(format!("{}.db", number % 100));
        drop(connect(&Database::open(path).expect("opens")));
    }
    assert_eq!(fs::read_dir(directory).expect("lists").count() as u64, count);
    say(&format!("{} kept", open_descriptors() - before));
}

fn raise_the_limit_of_descriptors() {
    limit_descriptors(getrlimit(Resource::Nofile).maximum);
}

fn limit_descriptors(current: Option<u64>) {
    let limits = Rlimit { current, ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limits).expect("up to the hard limit");
}

/// The part of an actor that may have 64 descriptors: opens, writes and closes 400 databases one after the other.
pub fn open_in_turn(directory: &Path) {
    limit_descriptors(Some(64));
    for number in 0..400 {
        drop(write_a_little(&directory.join(format!("{number}.db"))));
    }
    let free = (0..).map_while(|_| fs::File::open("/dev/null").ok()).collect::<Vec<_>>();
    say(if free.len() > 32 { "most are free" } else { "few are free" });
}

/// What a process has closed gives way to what it opens next, whoever else has it open: they failed after 17.
#[test]
fn databases_in_turn_need_few_descriptors() {
    raise_the_limit_of_descriptors();
    for is_shared in [false, true] {
        let stage = Stage::without_disk();
        let shared: Vec<_> = (0..if is_shared { 400 } else { 0 })
            .map(|number| write_a_little(&stage.directory().join(format!("{number}.db"))))
            .collect();
        let actor = Actor::start("open in turn", stage.directory());
        assert_eq!(actor.hear(), "most are free", "shared: {is_shared}");
        assert!(actor.end().success());
        drop(shared);
    }
}

/// One database for each tenant: more than 1,024 were refused. Nothing of them is kept.
#[test]
fn a_process_has_thousands_of_databases() {
    let stage = Stage::without_disk();
    let actor = Actor::start("open many", stage.directory());
    assert_eq!(actor.hear(), "0 kept");
    assert!(actor.end().success());
}

/// To open a database that is not in WAL mode switches it, which others who use it may not expect. Who says so leaves it as it
/// is: plain SQLite, until somebody has switched it.
#[test]
fn a_database_may_keep_its_journal_mode() {
    let stage = Stage::new();
    shell(&stage.path(), ITEM);
    let keep = || Database::builder(stage.path()).journal(Journal::Keep).open().expect("opens");
    let database = keep();
    let (mut one, mut other) = (connect(&database), connect(&database));
    let answer = |connection: &mut Connection, sql: &str| {
        let rows = connection.query(sql, params![]).expect(sql);
        rows[0].values()[0].clone()
    };
    execute(&mut one, INSERT);
    execute(&mut other, "BEGIN");
    execute(&mut other, INSERT);
    execute(&mut other, "COMMIT");
    other.batch(&[(INSERT, params![]), (INSERT, params![])]).expect("a batch");
    assert_eq!((items(&mut one), items(&mut other)), (4, 4));
    assert_eq!(answer(&mut one, "PRAGMA journal_mode = MEMORY"), "memory".to_string().into());
    assert_eq!(shell(&stage.path(), "PRAGMA journal_mode"), "delete");
    assert!(database.statistics().is_none() && !stage.beside("-hands").exists());
    execute(&mut one, "PRAGMA synchronous = OFF");

    assert_eq!(answer(&mut one, "PRAGMA journal_mode = WAL"), "wal".to_string().into());
    until("they join", || {
        (items(&mut one), items(&mut other)) == (4, 4) && database.statistics().is_some()
    });
    for connection in [&mut one, &mut other] {
        until("each joins", || {
            execute(connection, "BEGIN IMMEDIATE");
            let holds = connection.holds_turn();
            execute(connection, "ROLLBACK");
            holds
        });
    }
    assert_eq!(number(&mut one, "PRAGMA synchronous"), 0);
    assert_eq!(number(&mut other, "PRAGMA synchronous"), 2);
    assert_eq!(answer(&mut one, "PRAGMA journal_mode = MEMORY"), "wal".to_string().into());
    execute(&mut one, INSERT);
    assert_eq!(items(&mut other), 5);
    assert!(keep().statistics().is_some(), "who opens it next finds it in WAL mode");
    drop((one, other, database));
    assert!(keep().statistics().is_some());

    let stage = Stage::new();
    let database = Database::builder(stage.path()).journal(Journal::Keep).open().expect("opens");
    execute(&mut connect(&database), ITEM);
    assert_eq!(shell(&stage.path(), "PRAGMA journal_mode"), "delete");
}

/// The part of an actor: writes, and says whose the files are.
pub fn write_for_the_group(path: &Path) {
    let connection = write_a_little(path);
    for suffix in ["", "-wal", "-shm", "-hands"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        let found = fs::metadata(file).expect("a file");
        say(&format!("{} {:o}", found.gid(), found.mode() & 0o777));
    }
    drop(connection);
}

/// Who writes to a database of his group leaves no file there that the others of the group cannot write: SQLite makes -wal and
/// -shm in the group of the process.
#[test]
fn what_lies_beside_a_database_is_of_its_group() {
    let stage = Stage::new();
    let place = stage.directory().join("place");
    fs::create_dir(&place).expect("makes a directory");
    let path = place.join("app.db");
    shell(&path, "PRAGMA journal_mode = WAL; PRAGMA user_version = 1");
    let is_root = fs::metadata(&path).expect("a file").uid() == 0;
    let group = if is_root { 4321 } else { fs::metadata(&path).expect("a file").gid() };
    for (file, mode) in [(&place, 0o770), (&path, 0o660)] {
        std::os::unix::fs::chown(file, None, Some(group)).expect("changes the group");
        fs::set_permissions(file, PermissionsExt::from_mode(mode)).expect("changes the mode");
    }
    fs::set_permissions(stage.directory(), PermissionsExt::from_mode(0o755)).expect("the mode");
    let part = "write for the group";
    let actor = if is_root {
        // Where nobody may execute it.
        let program = stage.directory().join("engine");
        copy_this_binary(&program);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--groups=4321"]).arg(program);
        Actor::start_by(command, part, &path)
    } else {
        Actor::start(part, &path)
    };
    for suffix in ["", "-wal", "-shm", "-hands"] {
        assert_eq!(actor.hear(), format!("{group} 660"), "{suffix}");
    }
    assert!(actor.end().success());
}

/// While one process with another version had a database open, nobody new could open it: a wheel, a gem and a command of
/// different versions would have locked each other out. A newcomer is a guest until the others have gone.
#[test]
fn beside_programs_of_another_version() {
    let modes = [TransactionMode::Optimistic, TransactionMode::Auto, TransactionMode::Immediate];
    for mode in modes {
        let stage = Stage::new();
        shell(&stage.path(), &format!("PRAGMA journal_mode = WAL; {ITEM}"));
        let options = JoinOptions {
            program: 3_099_000,
            mode: 0o644,
            owner: fs::metadata(stage.path()).expect("a file").uid(),
            group: fs::metadata(stage.path()).expect("a file").gid(),
            deadline: Deadline::after(Duration::from_secs(10)),
        };
        let others = Queue::join(&stage.beside("-hands"), &options, || Ok::<(), String>(()));
        let others = others.expect("the first");
        let builder = Database::builder(stage.path()).transaction_mode(mode);
        let database = builder.open().expect("it is no error");
        let (mut one, mut other) = (connect(&database), connect(&database));
        assert!(database.statistics().is_none());
        execute(&mut one, INSERT);
        execute(&mut one, "BEGIN");
        assert_eq!(items(&mut one), 1);
        if mode == TransactionMode::Auto {
            // Who only reads holds nothing.
            execute(&mut other, INSERT);
            assert_eq!(items(&mut one), 1, "its snapshot");
        } else {
            execute(&mut one, INSERT);
        }
        execute(&mut one, "COMMIT");
        let sum = other.run(|transaction| {
            let before: i64 =
                transaction.query("SELECT count(*) FROM item", params![])?[0].get(0)?;
            transaction.execute(INSERT, params![])?;
            Ok::<_, Error>(before)
        });
        assert_eq!(sum.expect("it runs"), 2);
        other.batch(&[(INSERT, params![])]).expect("a batch");
        let mut reading = one.read_transaction().expect("begins");
        assert_eq!(items(&mut reading), 4);
        execute(&mut other, INSERT);
        reading.commit().expect("ends");
        assert_eq!(shell(&stage.path(), "SELECT count(*) FROM item"), "5");
        assert!(database.statistics().is_none(), "the others are still there");

        drop(others);
        let joins = |connection: &mut Connection| {
            until("each joins", || {
                execute(connection, "BEGIN IMMEDIATE");
                let holds = connection.holds_turn();
                execute(connection, "ROLLBACK");
                holds
            });
        };
        [&mut one, &mut other].into_iter().for_each(joins);
        assert!(database.statistics().is_some());
        execute(&mut one, INSERT);
        assert_eq!(items(&mut other), 6);
    }
}
