//! What happens around a database: forks, files that vanish, missing permissions, odd paths, other
//! openers, a full disk. Either all goes on, or the error says what to do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fork::Fork;
use manyhands::{BlobPlace, Code, Connection, Database, Durability, Error, RowBuffer, params};

use crate::stage::{
    self, Actor, INSERT, ITEM, Stage, connect, copy_this_binary, execute, in_time, items, listen,
    number, refused, say, shell, until,
};

// ---- fork() ----

/// Runs `work` in a forked child, and fails if it panics there or hangs.
fn in_child(work: impl FnOnce()) {
    match fork::fork().expect("fork") {
        Fork::Child => {
            let done = catch_unwind(AssertUnwindSafe(work));
            // Not back into the test harness, of which the child has only this thread.
            let error = Command::new(if done.is_ok() { "true" } else { "false" }).exec();
            panic!("cannot end the child: {error}");
        }
        Fork::Parent(child) => {
            let mut status = None;
            until("the child ends", || {
                status = fork::waitpid_nohang(child).expect("a child of this process");
                status.is_some()
            });
            assert_eq!(status, Some(0), "the child failed: its panic is printed above");
        }
    }
}

/// A child that goes on with what it inherited is told so; it opens the database itself and writes; the
/// parent notices nothing.
#[test]
fn a_forked_child_opens_the_database_itself() {
    in_time(|| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let mut connection = connect(&database);
        execute(&mut connection, INSERT);
        in_child(|| {
            const WORDS: &[&str] = &["before fork()", "open the database itself"];
            refused(connection.execute(INSERT, params![]), WORDS);
            refused(connection.query("SELECT 1", params![]), WORDS);
            refused(connection.batch(&[(INSERT, params![])]), WORDS);
            refused(connection.begin_immediate().map(drop), WORDS);
            refused(connection.execute_script(INSERT), WORDS);
            refused(connection.query_each("SELECT 1", params![], |_| true), WORDS);
            refused(database.connect().and_then(|mut it| it.execute(INSERT, params![])), WORDS);
            connection.interrupt_handle().interrupt();

            let own = stage.database();
            let mut own_connection = connect(&own);
            execute(&mut own_connection, INSERT);
            drop((connection, database));
            execute(&mut own_connection, INSERT);
            assert_eq!(items(&mut own_connection), 3);
        });
        // What the child dropped was its copy.
        let mut connection = connect(&stage.database());
        execute(&mut connection, INSERT);
        assert_eq!(items(&mut connection), 4);
        drop(connection);
        stage::assert_sound(&stage.path());
    });
}

/// What reads or writes without its connection does not do so in a child, where its descriptors are others' by
/// now, and goes on in the parent.
#[test]
fn a_fork_under_cursors_and_blobs() {
    in_time(|| {
        let stage = Stage::new();
        let mut connection = connect(&stage.database_with_items());
        for _ in 0..3 {
            execute(&mut connection, INSERT);
        }
        let sql = "SELECT id FROM item";
        let mut cursor = Some(connection.cursor(sql, params![]).expect("opens"));
        cursor.as_mut().expect("open").next_row().expect("the first row");
        let mut buffer = RowBuffer::default();
        let (schema, table, column) = ("main".into(), "item".into(), "note".into());
        let place = BlobPlace { schema, table, column, rowid: 1 };
        let mut blob = Some(connection.open_blob(&place, false).expect("opens"));
        in_child(|| {
            const WORDS: &[&str] = &["before fork()", "open the database itself"];
            let own = stage.database();
            let mut own_connection = connect(&own);
            let mut own_cursor = own_connection.cursor(sql, params![]).expect("opens");
            own_cursor.next_row().expect("the first row");
            refused(cursor.as_mut().expect("open").next_row(), WORDS);
            refused(cursor.as_mut().expect("open").fetch(&mut buffer, 10), WORDS);
            refused(blob.as_mut().expect("open").read_at(&mut [0], 0), WORDS);
            drop((cursor.take(), blob.take()));
            assert_eq!(own_cursor.fetch(&mut buffer, 10).expect("its own"), 2);
            execute(&mut own_connection, INSERT);
            assert_eq!(items(&mut own_connection), 4);
        });
        assert_eq!(cursor.as_mut().expect("open").fetch(&mut buffer, 10).expect("more rows"), 2);
        blob.as_mut().expect("open").read_at(&mut [0], 0).expect("reads");
        drop(blob);
        assert_eq!(items(&mut connection), 4);
        stage::assert_sound(&stage.path());
    });
}

/// The parent forks in mid-transaction: the child holds nothing of it, waits like any other process,
/// and its end does not end the transaction.
#[test]
fn a_fork_in_mid_transaction() {
    in_time(|| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let mut connection = connect(&database);
        let mut transaction = connection.begin_immediate().expect("begins");
        execute(&mut transaction, INSERT);
        let parent = std::process::id().to_string();
        in_child(|| {
            let own = Database::builder(stage.path())
                .timeout(Duration::from_millis(200))
                .open()
                .expect("opens");
            let error = refused(connect(&own).execute(INSERT, params![]), &["timed out", &parent]);
            assert!(error.is_timeout());
            assert_eq!(items(&mut connect(&own)), 0);
        });
        execute(&mut transaction, INSERT);
        transaction.commit().expect("commits");
        assert_eq!(items(&mut connection), 2);
    });
}

/// Forks while other threads write: each child writes one row, and no row is lost.
#[test]
fn forks_while_threads_write() {
    in_time(|| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let (done, written) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut connection = connect(&database);
                    while !done.load(Ordering::Acquire) {
                        execute(&mut connection, INSERT);
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..15 {
                in_child(|| execute(&mut connect(&stage.database()), INSERT));
            }
            done.store(true, Ordering::Release);
        });
        assert_eq!(items(&mut connect(&database)) as u64, written.load(Ordering::Relaxed) + 15);
    });
}

// ---- The queue file ----

/// Something happens to the queue file five times while four threads write. Writes go on; a write of
/// unknown outcome counts as perhaps.
fn damage_while_writing(damage: impl Fn(&Path)) {
    let stage = Stage::new();
    let database = stage.database_with_items();
    let (done, sure, perhaps) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut connection = connect(&database);
                while !done.load(Ordering::Acquire) {
                    match connection.execute(INSERT, params![]) {
                        Ok(_) => _ = sure.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            if !error.is_outcome_unknown() {
                                done.store(true, Ordering::Release);
                                panic!("{error}");
                            }
                            perhaps.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        for _ in 0..5 {
            let goal = sure.load(Ordering::Relaxed) + 100;
            until("writes go on", || {
                sure.load(Ordering::Relaxed) >= goal || done.load(Ordering::Acquire)
            });
            damage(&stage.beside("-hands"));
        }
        let goal = sure.load(Ordering::Relaxed) + 100;
        until("writes go on", || {
            sure.load(Ordering::Relaxed) >= goal || done.load(Ordering::Acquire)
        });
        done.store(true, Ordering::Release);
    });
    let (sure, perhaps) = (sure.load(Ordering::Relaxed), perhaps.load(Ordering::Relaxed));
    let found = items(&mut connect(&database)) as u64;
    assert!(
        found >= sure && found <= sure + perhaps,
        "{found} rows, {sure} sure, {perhaps} perhaps"
    );
    assert!(perhaps <= 5 * 4, "only what was in flight may be unknown, not {perhaps}");
    drop(database);
    stage::assert_sound(&stage.path());
}

/// The part of an actor: wants to write, and says who was in the way.
pub fn time_out(path: &Path) {
    let timeout = Duration::from_millis(200);
    let database = Database::builder(path).timeout(timeout).open().expect("opens");
    let error = refused(connect(&database).execute(INSERT, params![]), &["waiting for the turn"]);
    let text = error.to_string();
    let (_, rest) = text.split_once(": process ").expect("a process");
    let pid = rest.split(' ').next().expect("a number");
    say(&format!("process {pid} was in the way"));
}

/// Somebody tidies up and deletes the queue file of a database in use.
#[test]
fn the_queue_file_is_deleted() {
    in_time(|| {
        damage_while_writing(|path| {
            // Not there at this moment, if the last one is just being replaced.
            let _ = fs::remove_file(path);
        });
    });
}

/// Somebody writes garbage all over the queue file of a database in use.
#[test]
fn the_queue_file_is_overwritten() {
    in_time(|| {
        damage_while_writing(|path| {
            let Ok(found) = fs::metadata(path) else { return };
            let garbage = vec![0xAB; found.len() as usize];
            let Ok(file) = fs::OpenOptions::new().write(true).open(path) else { return };
            std::os::unix::fs::FileExt::write_all_at(&file, &garbage, 0).expect("overwrites");
        });
    });
}

/// Somebody writes garbage over the order of arrival alone. A leader then finds nobody who waits: all waited
/// until their deadlines, and so did whoever came after them.
#[test]
fn the_order_of_arrival_is_overwritten() {
    const RING: std::ops::Range<u64> = 4096..36864;
    in_time(|| {
        damage_while_writing(|path| {
            let garbage = vec![0xAB; (RING.end - RING.start) as usize];
            let Ok(file) = fs::OpenOptions::new().write(true).open(path) else { return };
            std::os::unix::fs::FileExt::write_all_at(&file, &garbage, RING.start)
                .expect("overwrites");
        });
    });
}

/// A queue file of random bytes that lies there from before is no obstacle.
#[test]
fn garbage_from_before_is_no_obstacle() {
    let stage = Stage::new();
    for garbage in [vec![], vec![7; 100], vec![0xFF; 9_000_000]] {
        fs::write(stage.beside("-hands"), garbage).expect("writes");
        let mut connection = connect(&stage.database());
        execute(&mut connection, ITEM);
        execute(&mut connection, INSERT);
    }
    assert_eq!(items(&mut connect(&stage.database())), 3);
}

// ---- The database file ----

/// Writes until that fails, and returns how many writes there were before.
fn write_until_refused(connection: &mut Connection) -> (i64, Error) {
    let end = Instant::now() + Duration::from_secs(10);
    let mut count = 0;
    while Instant::now() < end {
        if let Err(error) = connection.execute(INSERT, params![]) {
            return (count, error);
        }
        count += 1;
    }
    panic!("{count} writes, and no error");
}

/// The database is renamed, deleted or replaced by another while it is open: writes end with an error
/// that says so, and the file that is there now gets none of them.
#[test]
fn the_database_is_moved_away() {
    let check = |disturb: fn(&Stage), is_there_after: bool| {
        let stage = Stage::new();
        let database = stage.database_with_items();
        let mut connection = connect(&database);
        execute(&mut connection, INSERT);
        shell(
            &stage.directory().join("new.db"),
            "CREATE TABLE mine (a); INSERT INTO mine VALUES (1)",
        );
        let new = fs::read(stage.directory().join("new.db")).expect("reads");
        disturb(&stage);
        let (_, error) = write_until_refused(&mut connection);
        refused(Err::<(), _>(error), &["app.db", "replaced, renamed or deleted", "open it again"]);
        refused(connection.begin_immediate().map(drop), &["open it again"]);
        drop((connection, database));
        assert_eq!(stage.path().exists(), is_there_after);
        if is_there_after {
            assert!(fs::read(stage.path()).expect("reads") == new, "the new file was written");
        }
    };
    check(
        |stage| fs::rename(stage.path(), stage.directory().join("moved.db")).expect("renames"),
        false,
    );
    check(|stage| fs::remove_file(stage.path()).expect("deletes"), false);
    check(
        |stage| fs::rename(stage.directory().join("new.db"), stage.path()).expect("renames"),
        true,
    );
}

/// After the error, opening again finds the new database, and writes go there. Whoever replaces a
/// database removes its WAL too: SQLite would take the old one for the new database's.
#[test]
fn a_replaced_database_is_opened_again() {
    let stage = Stage::new();
    let database = stage.database_with_items();
    let mut connection = connect(&database);
    execute(&mut connection, INSERT);
    let new = stage.directory().join("new.db");
    shell(&new, &format!("{ITEM}; INSERT INTO item (note) VALUES ('new')"));
    fs::rename(new, stage.path()).expect("renames");
    fs::remove_file(stage.beside("-wal")).expect("removes the WAL");
    fs::remove_file(stage.beside("-shm")).expect("removes its index");
    write_until_refused(&mut connection);
    drop((connection, database));
    let mut connection = connect(&stage.database());
    execute(&mut connection, INSERT);
    assert_eq!(items(&mut connection), 2);
    assert_eq!(number(&mut connection, "SELECT count(*) FROM item WHERE note = 'new'"), 1);
}

// ---- Permissions ----

/// The part of an actor: says what opening, reading and writing came to.
pub fn open_as_nobody(path: &Path) {
    let short = |result: Result<String, Error>| match result {
        Ok(text) => text,
        Err(error) => format!("error {}: {error}", error.code().map_or(0, |code| code.0)),
    };
    match Database::open(path).and_then(|database| database.connect()) {
        Err(error) => say(&short(Err(error))),
        Ok(mut connection) => {
            say("open");
            let count = connection.query("SELECT count(*) FROM item", params![]);
            say(&short(count.and_then(|rows| rows[0].get::<i64>(0)).map(|it| it.to_string())));
            say(&short(connection.execute(INSERT, params![]).map(|_| "written".to_string())));
        }
    }
}

/// What a process without rights on a directory of `directory_mode` and a file of `file_mode` sees.
fn without_rights(directory_mode: u32, file_mode: u32, answers: usize) -> Vec<String> {
    let stage = Stage::new();
    let place = stage.directory().join("place");
    let path = place.join("app.db");
    fs::create_dir(&place).expect("makes a directory");
    shell(&path, &format!("{ITEM}; {INSERT}"));
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("changes the mode");
    };
    mode(&path, file_mode);
    mode(&place, directory_mode);
    mode(stage.directory(), 0o755);
    let me = Command::new("id").arg("-u").output().expect("id runs");
    let part = "open as nobody";
    let actor = if me.stdout.starts_with(b"0\n") {
        // Where nobody may execute it.
        let program = stage.directory().join("engine");
        copy_this_binary(&program);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
        Actor::start_by(command, part, &path)
    } else {
        Actor::start(part, &path)
    };
    let heard = (0..answers).map(|_| actor.hear()).collect();
    assert!(actor.end().success());
    mode(&place, 0o755);
    heard
}

/// A file that may only be read is read, and a write fails as SQLite's does.
#[test]
fn a_read_only_file() {
    let heard = in_time(|| without_rights(0o777, 0o444, 3));
    assert_eq!(heard[..2], ["open", "1"]);
    assert!(heard[2].contains("attempt to write a readonly database"), "{heard:?}");
}

/// Who may write a database without owning it makes its queue file, and the owner takes that.
#[test]
fn a_database_of_another_user() {
    let heard = in_time(|| without_rights(0o777, 0o666, 3));
    assert_eq!(heard, ["open", "1", "written"]);
}

/// In a directory that may only be read no queue can be: the file is read, as SQLite reads it, and a write fails as in a
/// file that may only be read.
#[test]
fn a_read_only_directory() {
    let heard = in_time(|| without_rights(0o555, 0o666, 3));
    assert_eq!(heard[..2], ["open", "1"]);
    assert!(heard[2].starts_with("error 8: attempt to write a readonly database"), "{heard:?}");
}

// ---- Odd paths and odd openers ----

/// Databases without a file pass straight through, each connection with its own.
#[test]
fn databases_without_a_file() {
    for path in [":memory:", ""] {
        let database = Database::open(path).expect("opens");
        assert_eq!(database.statistics(), None);
        let (mut one, mut other) = (connect(&database), connect(&database));
        execute(&mut one, ITEM);
        execute(&mut one, INSERT);
        let mut transaction = one.begin_immediate().expect("begins");
        execute(&mut transaction, INSERT);
        transaction.commit().expect("commits");
        one.batch(&[(INSERT, params![]), (INSERT, params![])]).expect("a batch");
        assert_eq!(items(&mut one), 4, "{path:?}");
        other.query("SELECT * FROM item", params![]).expect_err("another database");
    }
    assert!(!Path::new(":memory:-hands").exists() && !Path::new("-hands").exists());
}

/// Opened for reading only: nothing is made, nothing is written, what others write is seen.
#[test]
fn opened_for_reading_only() {
    let stage = Stage::new();
    let missing = Database::builder(stage.path()).read_only(true).open();
    assert_eq!(missing.expect_err("nothing to read").code().map(Code::primary), Some(14));
    let missing = Database::builder(stage.path()).create(false).open();
    assert_eq!(missing.expect_err("nothing to open").code().map(Code::primary), Some(14));
    assert_eq!(fs::read_dir(stage.directory()).expect("lists").count(), 0);

    shell(&stage.path(), ITEM);
    let uri = format!("file:{}?mode=ro", stage.path().display());
    for builder in
        [Database::builder(stage.path()).read_only(true), Database::builder(&uri).uri(true)]
    {
        let database = builder.open().expect("opens");
        let mut reader = connect(&database);
        let before = items(&mut reader);
        assert_eq!(database.statistics(), None);
        for sql in [INSERT, "CREATE TABLE x (a)", "PRAGMA user_version = 4"] {
            let error = reader.execute(sql, params![]).expect_err("read-only");
            assert_eq!(error.code().map(Code::primary), Some(8), "{sql}: {error}");
        }
        assert!(!stage.beside("-hands").exists());
        shell(&stage.path(), INSERT);
        assert_eq!(items(&mut reader), before + 1);
    }
}

/// A `file:` URI that may write has the queue of its file.
#[test]
fn a_uri_has_the_queue_of_its_file() {
    let stage = Stage::new();
    let uri = format!("file:{}?cache=private", stage.path().display());
    let database = Database::builder(&uri).uri(true).open().expect("opens");
    execute(&mut connect(&database), ITEM);
    execute(&mut connect(&stage.database()), INSERT);
    assert!(stage.beside("-hands").exists());
    assert_eq!(items(&mut connect(&database)), 1);
}

/// Without that choice a path is a path, whatever it begins with: an application that opens what a user
/// typed does not hand over SQLite's switches.
#[test]
fn a_path_is_no_uri() {
    let stage = Stage::new();
    let uri = format!("file:{}", stage.path().display());
    let opened = Database::open(&uri).map(drop);
    assert!(!stage.path().exists(), "it was taken for a URI: {opened:?}");
    assert!(opened.is_err(), "there is no directory of this name");
}

/// The part of an actor: keeps the database open until told to end.
pub fn keep_it_open(path: &Path) {
    let database = Database::open(path).expect("opens");
    let mut connection = connect(&database);
    execute(&mut connection, INSERT);
    say("open");
    listen();
}

/// Through a symbolic link it is the same database, with the same queue: a holder by one path is
/// waited for by the other, in this process and from another.
#[test]
fn a_link_leads_to_the_same_queue() {
    in_time(|| {
        let stage = Stage::new();
        drop(stage.database_with_items());
        let link = stage.directory().join("link.db");
        std::os::unix::fs::symlink(stage.path(), &link).expect("links");
        let mut actor = Actor::start("hold the turn", &link);
        assert_eq!(actor.hear(), "holding");
        let impatient = |path: &PathBuf| {
            Database::builder(path).timeout(Duration::from_millis(100)).open().expect("opens")
        };
        for path in [&stage.path(), &link] {
            let result = connect(&impatient(path)).execute(INSERT, params![]);
            refused(result, &["timed out", "night import"]);
        }
        actor.tell("enough");
        assert!(actor.end().success());
        let (direct, linked) = (stage.database(), Database::open(&link).expect("opens"));
        let mut connection = connect(&linked);
        let transaction = connection.begin_immediate().expect("begins");
        refused(connect(&impatient(&stage.path())).execute(INSERT, params![]), &["timed out"]);
        transaction.rollback().expect("rolls back");
        execute(&mut connect(&direct), INSERT);
        assert!(!stage.directory().join("link.db-hands").exists());
        assert_eq!(items(&mut connection), 2);
    });
}

/// Two parts of one program open the same file with different choices, and each has its own.
#[test]
fn two_databases_with_different_options() {
    let stage = Stage::new();
    let one = Database::builder(stage.path())
        .foreign_keys(true)
        .timeout(Duration::from_millis(50))
        .label("one")
        .open()
        .expect("opens");
    let two = Database::builder(stage.path())
        .durability(Durability::Normal)
        .label("two")
        .open()
        .expect("opens");
    let (mut first, mut second) = (connect(&one), connect(&two));
    let check = |connection: &mut Connection, pragma: &str, expected: i64| {
        assert_eq!(number(connection, pragma), expected, "{pragma}");
    };
    check(&mut first, "PRAGMA foreign_keys", 1);
    check(&mut second, "PRAGMA foreign_keys", 0);
    check(&mut first, "PRAGMA synchronous", 2);
    check(&mut second, "PRAGMA synchronous", 1);
    // A connection that was used before is no different from a new one.
    execute(&mut second, "PRAGMA foreign_keys = ON");
    execute(&mut second, "PRAGMA recursive_triggers = ON");
    execute(&mut second, "CREATE TEMP TABLE mine (a)");
    drop((first, second));
    let (mut first, mut second) = (connect(&one), connect(&two));
    check(&mut first, "PRAGMA foreign_keys", 1);
    check(&mut second, "PRAGMA foreign_keys", 0);
    check(&mut second, "PRAGMA recursive_triggers", 0);
    check(&mut second, "SELECT count(*) FROM sqlite_temp_schema", 0);
    check(&mut second, "SELECT changes() + total_changes() + last_insert_rowid()", 0);
    let transaction = second.begin_immediate().expect("begins");
    let error = refused(first.execute(ITEM, params![]), &["(two)"]);
    assert!(error.is_timeout());
    drop(transaction);
}

/// The last connection of all closes: one plain file is left. As long as another program has it open,
/// its WAL stays.
#[test]
fn the_last_one_tidies_up() {
    in_time(|| {
        let left = |stage: &Stage| {
            let mut names: Vec<_> = fs::read_dir(stage.directory())
                .expect("lists")
                .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
                .collect();
            names.sort();
            names.join(" ")
        };
        let stage = Stage::new();
        let database = stage.database_with_items();
        let (mut one, mut other) = (connect(&database), connect(&database));
        execute(&mut one, INSERT);
        drop(database);
        execute(&mut other, INSERT);
        drop(one);
        assert!(stage.beside("-wal").exists());
        drop(other);
        assert_eq!(left(&stage), "app.db");

        let actor = Actor::start("keep it open", &stage.path());
        assert_eq!(actor.hear(), "open");
        execute(&mut connect(&stage.database()), INSERT);
        assert!(stage.beside("-wal").exists() && stage.beside("-hands").exists());
        assert!(actor.end().success());
        // The other one was the last: what this process keeps for a while does not count.
        drop(stage.database());
        assert_eq!(left(&stage), "app.db");
        assert_eq!(shell(&stage.path(), "SELECT count(*) FROM item"), "4");
    });
}

// ---- The WAL ----

/// 50,000 writes without a reader: the WAL is used again and again, and stays small.
#[test]
fn the_wal_stays_small() {
    in_time(|| {
        let stage = Stage::new();
        let database = Database::builder(stage.path())
            .durability(Durability::Normal)
            .open()
            .expect("the database opens");
        execute(&mut connect(&database), ITEM);
        let largest = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut connection = connect(&database);
                    for count in 0..25_000 {
                        execute(&mut connection, INSERT);
                        if count % 100 == 0 {
                            let bytes = fs::metadata(stage.beside("-wal")).expect("a WAL").len();
                            largest.fetch_max(bytes, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let frames = largest.load(Ordering::Relaxed) / 4120;
        // Seldom more than 2,300. On a busy machine whoever copies beside the commits may have to wait for a processor, and nobody
        // else can copy meanwhile.
        assert!(frames < 10_000, "the WAL had {frames} frames");
        let statistics = database.statistics().expect("it has a queue");
        assert!(statistics.checkpoints > 10, "{statistics:?}");
        assert_eq!(statistics.checkpoint_error, None);
        assert_eq!(items(&mut connect(&database)), 50_000);
    });
}

/// The part of an actor whose files may not grow beyond 8 MB: says what the statistics say when
/// checkpoints fail.
pub fn fill_the_disk(path: &Path) {
    let database = Database::open(path).expect("opens");
    let mut connection = connect(&database);
    execute(&mut connection, ITEM);
    let (mut written, mut refused) = (0, 0);
    for _ in 0..4000 {
        match connection.execute("INSERT INTO item (note) VALUES (zeroblob(4000))", params![]) {
            Ok(_) => written += 1,
            Err(error) => {
                assert!(error.code().is_some(), "{error}");
                refused += 1;
            }
        }
        let error = database.statistics().expect("it has a queue").checkpoint_error;
        if let Some(error) = error {
            say(&format!("checkpoint failed: {error}"));
            break;
        }
    }
    assert_eq!(items(&mut connection), written);
    say(&format!("{written} written, {refused} refused"));
}

/// The database file cannot grow, the WAL still can: writes go on, and the statistics say what is
/// wrong.
#[test]
fn a_failing_checkpoint_shows_in_the_statistics() {
    in_time(|| {
        let stage = Stage::new();
        let mut command = Command::new("bash");
        // 8 MB; beyond them a write is an error and no signal.
        command
            .args(["-c", "trap '' XFSZ; ulimit -f 8192; exec \"$@\"", "bash"])
            .arg(std::env::current_exe().expect("this binary"));
        let actor = Actor::start_by(command, "fill the disk", &stage.path());
        let first = actor.hear();
        assert!(first.starts_with("checkpoint failed: "), "{first}");
        assert!(actor.hear().ends_with(" 0 refused"));
        assert!(actor.end().success());
        stage::assert_sound(&stage.path());
    });
}

// ---- Many processes ----

/// The part of an actor: opens a database that may not be there yet, with all others.
pub fn open_at_once(path: &Path) {
    say("ready");
    listen();
    let database = Database::open(path).expect("opens");
    let mut connection = connect(&database);
    execute(&mut connection, ITEM);
    for _ in 0..10 {
        execute(&mut connection, INSERT);
    }
    say("done");
}

/// 30 processes open a database that does not exist, make the same schema and write: as a program does
/// that starts 30 workers.
#[test]
fn thirty_processes_open_a_new_database() {
    in_time(|| {
        let stage = Stage::new();
        let mut actors: Vec<_> =
            (0..30).map(|_| Actor::start("open at once", &stage.path())).collect();
        actors.iter().for_each(|actor| assert_eq!(actor.hear(), "ready"));
        actors.iter_mut().for_each(|actor| actor.tell("go"));
        for actor in actors {
            assert_eq!(actor.hear(), "done");
            assert!(actor.end().success());
        }
        assert_eq!(shell(&stage.path(), "SELECT count(*) FROM item"), "300");
        stage::assert_sound(&stage.path());
    });
}

// ---- Attached databases ----

/// ATTACH of a file that does not exist makes it, as it does for a connection of SQLite's own.
#[test]
fn an_attached_database_is_made() {
    let (stage, folder) = (Stage::new(), tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("new.db");
    let mut connection = connect(&Database::open(stage.path()).expect("opens"));
    connection
        .execute("ATTACH ?1 AS other", params![path.to_str().expect("text")])
        .expect("attaches");
    connection
        .execute_script("CREATE TABLE other.made (x); INSERT INTO other.made VALUES (1)")
        .expect("writes");
    drop(connection);
    assert_eq!(
        number(&mut connect(&Database::open(&path).expect("opens")), "SELECT count(*) FROM made"),
        1
    );
}

/// The WAL of an attached database grew until the last connection closed: the hook that takes the place of SQLite's
/// automatic checkpoint looked after the main database alone.
#[test]
fn the_wal_of_an_attached_database_is_checkpointed() {
    let (stage, folder) = (Stage::new(), tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("other.db");
    shell(&path, "PRAGMA journal_mode=WAL; CREATE TABLE t (x)");
    let mut connection = connect(&Database::open(stage.path()).expect("opens"));
    let text = path.to_str().expect("text");
    connection.execute("ATTACH ?1 AS other", params![text]).expect("attaches");
    let rows =
        "INSERT INTO other.t WITH s(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM s WHERE x < 600)
         SELECT zeroblob(4000) FROM s";
    for _ in 0..6 {
        connection.execute(rows, params![]).expect("writes");
    }
    let frames = fs::metadata(folder.path().join("other.db-wal")).expect("a WAL").len() / 4120;
    assert!(frames < 2500, "{frames} frames after 3600 pages");
}
