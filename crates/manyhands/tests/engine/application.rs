//! What an application adds to a connection or changes about it, while others write: functions, collations,
//! an authorizer, a tracer, limits, blobs, backups. Each works as in SQLite, and concerns nobody else.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use manyhands::driver::ConnectionExt;
use manyhands::{
    Action, ActionKind, BackupStep, Blob, BlobPlace, Code, Connection, Database, Error, Limit,
    Progress, Setting, Traced, Value, ValueRef, Verdict, params,
};

use crate::stage::{INSERT, PATIENCE, Stage, connect, execute, in_time, items, number, refused};

fn double(connection: &mut Connection) {
    let double = |values: &[ValueRef<'_>]| match values {
        [ValueRef::Integer(number)] => Ok(Value::Integer(number * 2)),
        _ => Err("double() takes an integer".into()),
    };
    connection.create_function("double", Some(1), true, double).expect("a function");
}

/// Writes rows of a table of its own until the guard is dropped.
struct Neighbour(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

fn neighbour(database: &Database) -> Neighbour {
    let mut connection = connect(database);
    execute(&mut connection, "CREATE TABLE IF NOT EXISTS busy (n)");
    let ended = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&ended);
    let writes = std::thread::spawn(move || {
        while !ends.load(Relaxed) {
            execute(&mut connection, "INSERT INTO busy VALUES (1)");
        }
    });
    Neighbour(ended, Some(writes))
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        self.1.take().expect("running").join().expect("it writes");
    }
}

/// A trigger needs a function that only one connection has: that one writes, while others write other tables;
/// who has no such function is told what SQLite tells.
#[test]
fn a_trigger_that_calls_a_function() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = stage.database_with_items();
        let mut own = connect(&database);
        double(&mut own);
        execute(&mut own, "CREATE TABLE doubled (n)");
        let trigger = "CREATE TRIGGER doubles AFTER INSERT ON item BEGIN
                       INSERT INTO doubled VALUES (double(new.id)); END";
        execute(&mut own, trigger);
        let _busy = [neighbour(&database), neighbour(&database)];
        for _ in 0..50 {
            execute(&mut own, INSERT);
        }
        own.execute("BEGIN", params![]).expect("begins");
        execute(&mut own, INSERT);
        execute(&mut own, "COMMIT");
        assert_eq!(number(&mut own, "SELECT sum(n) FROM doubled"), 51 * 52);
        let mut other = connect(&database);
        refused(other.execute(INSERT, params![]), &["no such function: double"]);
    });
}

/// An UPDATE by a function on a fork is executed again at home, on what others have committed.
#[test]
fn a_function_in_a_transaction_that_is_replayed() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = stage.database_with_items();
        let (mut own, mut other) = (connect(&database), connect(&database));
        double(&mut own);
        execute(&mut own, "INSERT INTO item VALUES (1, 10)");
        execute(&mut own, "BEGIN");
        execute(&mut own, "UPDATE item SET note = double(note) WHERE id = 1");
        execute(&mut other, "UPDATE item SET note = note + 1 WHERE id = 1");
        execute(&mut own, "COMMIT");
        assert_eq!(number(&mut own, "SELECT note FROM item"), 22);
    });
}

/// What a function means changes in mid-transaction: what was logged before must not be replayed with it.
#[test]
fn a_function_that_is_replaced_in_a_transaction() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = stage.database_with_items();
        let (mut own, mut other) = (connect(&database), connect(&database));
        double(&mut own);
        execute(&mut own, "INSERT INTO item VALUES (1, 10)");
        execute(&mut own, "BEGIN");
        execute(&mut own, "UPDATE item SET note = double(note)");
        own.create_function("double", Some(1), true, |_| Ok(Value::Null)).expect("replaced");
        let waits = std::thread::spawn(move || execute(&mut other, INSERT));
        execute(&mut own, "COMMIT");
        waits.join().expect("it waits");
        assert_eq!(number(&mut own, "SELECT note FROM item WHERE id = 1"), 20);
    });
}

#[test]
fn an_index_in_an_order_that_others_lack() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = stage.database_with_items();
        let mut own = connect(&database);
        own.create_collation("backwards", |left, right| right.cmp(left)).expect("a collation");
        execute(&mut own, "CREATE INDEX ordered ON item (note COLLATE backwards)");
        let _busy = [neighbour(&database), neighbour(&database)];
        for note in ["a", "c", "b"] {
            own.execute("INSERT INTO item (note) VALUES (?1)", params![note]).expect("writes");
        }
        let rows = own
            .query("SELECT note FROM item ORDER BY note COLLATE backwards", params![])
            .expect("reads");
        let notes: Vec<String> = rows.iter().map(|row| row.get(0).expect("a text")).collect();
        assert_eq!(notes, ["c", "b", "a"]);
        for _ in 0..5 {
            let mut other = connect(&database);
            refused(other.execute(INSERT, params![]), &["no such collation sequence: backwards"]);
        }
        own.remove_collation("backwards").expect("removed");
        refused(own.execute(INSERT, params![]), &["no such collation sequence: backwards"]);
    });
}

/// The application's authorizer decides, ours hears all the same; it is not asked about what the connection
/// does of its own: here to roll a fork back before its log is replayed.
#[test]
fn an_authorizer_of_the_application() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = stage.database_with_items();
        let (mut own, mut other) = (connect(&database), connect(&database));
        execute(&mut own, "INSERT INTO item VALUES (1, 'secret')");
        execute(&mut own, "SELECT note FROM item");
        let verdict = |action: &Action<'_>| match (action.kind, action.first, action.second) {
            (ActionKind::Read, _, Some("note")) => Verdict::Ignore,
            (ActionKind::Transaction, Some("ROLLBACK"), _) => Verdict::Deny,
            (ActionKind::Attach, ..) => Verdict::Deny,
            (ActionKind::Function, _, Some("abs")) => Verdict::Deny,
            (ActionKind::Pragma, ..) => Verdict::Invalid,
            _ => Verdict::Allow,
        };
        own.set_authorizer(Some(verdict)).expect("set");
        assert_eq!(number(&mut own, "SELECT note IS NULL FROM item"), 1, "kept statements too");
        refused(own.query("SELECT abs(1)", params![]), &["not authorized to use function: abs"]);
        let error = refused(own.execute("ATTACH ':memory:' AS m", params![]), &["not authorized"]);
        assert_eq!(error.code().map(|code| code.name()), Some("SQLITE_AUTH"));
        refused(own.query("PRAGMA user_version", params![]), &["authorizer malfunction"]);
        refused(own.execute("ROLLBACK", params![]), &["not authorized"]);

        execute(&mut own, "BEGIN");
        execute(&mut own, INSERT);
        execute(&mut other, INSERT);
        execute(&mut own, "COMMIT");
        assert_eq!(items(&mut other), 3);
        own.set_authorizer(None::<fn(&Action<'_>) -> Verdict>).expect("unset");
        execute(&mut own, "SELECT abs(1)");
        assert_eq!(number(&mut own, "SELECT note = 'secret' FROM item"), 1);
    });
}

/// Each statement of the application is told once, whatever becomes of its transaction, and no other.
#[test]
fn a_tracer_is_told_of_what_the_application_does() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = stage.database_with_items();
        let (mut own, mut other) = (connect(&database), connect(&database));
        let told = Arc::new(Mutex::new(Vec::new()));
        let telling = Arc::clone(&told);
        let tracer = move |traced: &Traced<'_>| {
            telling.lock().expect("no panic").push(traced.expanded.clone().unwrap_or_default());
        };
        own.set_tracer(Some(tracer)).expect("set");
        execute(&mut own, "BEGIN");
        own.execute("UPDATE item SET note = ?1", params!["x"]).expect("writes");
        execute(&mut own, "INSERT INTO item VALUES (7, 'n')");
        own.execute("INSERT INTO item (note) VALUES (?1)", params!["its id is ours"])
            .expect("writes");
        execute(&mut other, INSERT);
        execute(&mut own, "COMMIT");
        {
            let _busy = neighbour(&database);
            execute(&mut own, "DELETE FROM item WHERE id = 7");
        }
        own.set_tracer(None::<fn(&Traced<'_>)>).expect("unset");
        execute(&mut own, INSERT);
        assert_eq!(
            *told.lock().expect("no panic"),
            [
                "BEGIN",
                "UPDATE item SET note = 'x'",
                "INSERT INTO item VALUES (7, 'n')",
                "INSERT INTO item (note) VALUES ('its id is ours')",
                "COMMIT",
                "DELETE FROM item WHERE id = 7"
            ]
        );
    });
}

/// A progress handler stops a write too, though others could execute it.
#[test]
fn a_progress_handler_stops_what_takes_too_long() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = stage.database_with_items();
        let mut own = connect(&database);
        let long = "INSERT INTO item (note) WITH RECURSIVE c(v) AS
                    (VALUES (0) UNION ALL SELECT v + 1 FROM c WHERE v < 100000) SELECT v FROM c";
        own.set_progress_handler(1000, Some(|| Progress::Stop)).expect("set");
        let _busy = neighbour(&database);
        let error = own.execute(long, params![]).expect_err("stopped");
        assert!(error.is_interrupt(), "{error}");
        // Beside it the check that ends waits is asked, with it and after it.
        let (asked, checked) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (asking, checking) = (Arc::clone(&asked), Arc::clone(&checked));
        own.check_while_waiting(move || checking.fetch_add(1, Relaxed) == u32::MAX);
        let counts = move || {
            asking.fetch_add(1, Relaxed);
            Progress::Continue
        };
        own.set_progress_handler(7, Some(counts)).expect("set");
        let reads = "WITH RECURSIVE c(v) AS
                     (VALUES (0) UNION ALL SELECT v + 1 FROM c WHERE v < 100000) SELECT count(*) FROM c";
        assert_eq!(number(&mut own, reads), 100_001);
        let (asks, checks) = (asked.load(Relaxed), checked.load(Relaxed));
        assert!(asks > 100_000 && checks > 10 && checks < asks / 10, "{asks}, {checks}");
        own.set_progress_handler(1000, None::<fn() -> Progress>).expect("unset");
        execute(&mut own, long);
        assert_eq!(asked.load(Relaxed), asks);
        assert!(checked.load(Relaxed) > checks);
        assert_eq!(items(&mut own), 100_001);
    });
}

/// A connection about which anything was changed is not given to the next user.
#[test]
fn what_is_changed_stays_with_its_connection() {
    type Change = fn(&mut Connection) -> Result<(), Error>;
    const CHANGES: &[(Change, &str)] = &[
        (|it| it.create_function("mine", None, true, |_| Ok(Value::Null)), "SELECT mine()"),
        (|it| it.remove_function("abs", Some(1)), "SELECT max(1, 2)"),
        (|it| it.create_collation("mine", |_, _| Ordering::Equal), "SELECT 'a' < 'b' COLLATE mine"),
        (|it| it.set_authorizer(Some(|_: &Action<'_>| Verdict::Allow)), "SELECT 1"),
        (|it| it.set_progress_handler(1, Some(|| Progress::Continue)), "SELECT 1"),
        (|it| it.set_tracer(Some(|_: &Traced<'_>| {})), "SELECT 1"),
        (|it| it.set_limit(Limit::FunctionArguments, 5).map(drop), "SELECT max(1, 2, 3, 4, 5)"),
        (|it| it.set_setting(Setting::Triggers, false).map(drop), "SELECT 1"),
        (let_extensions_be_loaded, "SELECT 1"),
    ];
    in_time(|| {
        let stage = Stage::without_disk();
        let database = stage.database_with_items();
        for (index, (change, uses)) in CHANGES.iter().enumerate() {
            let mut changed = connect(&database);
            change(&mut changed).expect("changes");
            execute(&mut changed, uses);
            drop(changed);
            let mut next = connect(&database);
            assert_eq!(number(&mut next, "SELECT abs(-1)"), 1, "{index}");
            next.query("SELECT mine()", params![]).expect_err("another's function");
            next.query("SELECT 'a' < 'b' COLLATE mine", params![]).expect_err("another's order");
            assert_ne!(next.limit(Limit::FunctionArguments), 5, "{index}");
            assert!(next.setting(Setting::Triggers), "{index}");
            assert!(!next.setting(Setting::LoadExtension), "{index}");
        }
    });
}

/// A lower limit and a switch of this connection hold for its writes, also while others lead.
#[test]
fn limits_and_switches_hold_for_writes() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = stage.database_with_items();
        let mut own = connect(&database);
        execute(
            &mut own,
            "CREATE TRIGGER two AFTER INSERT ON item WHEN new.note = 'n'
                           BEGIN INSERT INTO item (note) VALUES ('by trigger'); END",
        );
        let _busy = [neighbour(&database), neighbour(&database)];
        assert_eq!(own.set_limit(Limit::Length, 100).expect("set"), 1_000_000_000);
        for _ in 0..20 {
            // Not too long to be given, but to be made of it.
            let text = "x".repeat(60);
            let insert = own.execute("INSERT INTO item (note) VALUES (?1 || ?1)", params![text]);
            refused(insert, &["string or blob too big"]);
        }
        own.set_limit(Limit::Length, 1000).expect("set");
        assert!(!own.set_setting(Setting::Triggers, false).expect("set"));
        for _ in 0..20 {
            execute(&mut own, INSERT);
        }
        assert_eq!(items(&mut own), 20, "no trigger ran");
        assert!(own.set_setting(Setting::ForeignKeys, true).expect("set"));
        execute(&mut own, "CREATE TABLE child (parent REFERENCES item)");
        for _ in 0..20 {
            refused(own.execute("INSERT INTO child VALUES (999)", params![]), &["FOREIGN KEY"]);
        }
    });
}

/// In the places of built-in ones: others would use those.
#[test]
fn an_order_and_a_function_of_a_built_in_name() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = stage.database_with_items();
        execute(&mut connect(&database), INSERT);
        let _busy = [neighbour(&database), neighbour(&database)];
        let (mut ordered, mut calling) = (connect(&database), connect(&database));
        ordered.create_collation("nocase", |_, _| Ordering::Equal).expect("a collation");
        let own = |_: &[ValueRef<'_>]| Ok(Value::from("own"));
        calling.create_function("abs", Some(1), true, own).expect("a function");
        for _ in 0..20 {
            execute(&mut ordered, "UPDATE item SET note = ('a' = 'b' COLLATE nocase)");
            assert_eq!(number(&mut ordered, "SELECT note FROM item"), 1);
            execute(&mut calling, "UPDATE item SET note = (abs(-1) = 'own')");
            assert_eq!(number(&mut calling, "SELECT note FROM item"), 1);
        }
    });
}

#[expect(unsafe_code, reason = "it has an obligation")]
fn let_extensions_be_loaded(connection: &mut Connection) -> Result<(), Error> {
    // SAFETY: no statement of these tests loads one.
    unsafe { connection.enable_load_extension() }
}

#[test]
#[expect(unsafe_code, reason = "they are asked for, and are not there")]
fn extensions_are_refused_until_they_are_allowed() {
    let stage = Stage::without_disk();
    let mut own = connect(&stage.database());
    let missing = stage.beside("-none");
    // SAFETY: extensions are not allowed, and there is no such file.
    let unallowed = unsafe { own.load_extension(&missing, None) };
    refused(unallowed, &["not authorized"]);
    let_extensions_be_loaded(&mut own).expect("allowed");
    // SAFETY: there is no such file.
    let unknown = unsafe { own.load_extension(&missing, Some("entry")) };
    refused(unknown, &["none"]);
    own.disable_load_extension().expect("forbidden");
    // SAFETY: extensions are not allowed, and there is no such file.
    let forbidden = unsafe { own.load_extension(&missing, None) };
    refused(forbidden, &["not authorized"]);
}

// ---- Blobs ----

fn place(rowid: i64) -> BlobPlace {
    let [schema, table, column] = ["main", "item", "note"].map(str::to_string);
    BlobPlace { schema, table, column, rowid }
}

fn database_with_blob(stage: &Stage) -> Database {
    let database = stage.database_with_items();
    execute(&mut connect(&database), "INSERT INTO item VALUES (1, zeroblob(10))");
    database
}

fn text(blob: &mut Blob) -> Result<String, Error> {
    let mut bytes = vec![0; blob.len()];
    blob.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// While a blob is open for writing nobody else writes; its own connection does, in its turn; all of it is
/// there for others when it is closed.
#[test]
fn a_blob_that_writes_holds_the_turn() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = database_with_blob(&stage);
        let (mut own, mut other) = (connect(&database), connect(&database));
        let mut blob = own.open_blob(&place(1), true).expect("opens");
        blob.write_at(b"abc", 0).expect("writes");
        let began = Instant::now();
        let waits = std::thread::spawn(move || {
            execute(&mut other, INSERT);
            (began.elapsed(), other)
        });
        std::thread::sleep(Duration::from_millis(50));
        execute(&mut own, "INSERT INTO item VALUES (2, 'with it')");
        refused(own.batch(&[(INSERT, params![])]), &["close the blob"]);
        execute(&mut own, "CREATE TABLE more (n)");
        assert_eq!(items(&mut connect(&database)), 1, "not committed yet");
        let mut second = own.open_blob(&place(1), true).expect("in the same turn");
        second.write_at(b"def", 3).expect("writes");
        blob.close().expect("closes");
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished(), "the other blob holds the turn too");
        second.close().expect("commits");
        let (waited, mut other) = waits.join().expect("it waits");
        assert!(waited > Duration::from_millis(50), "{waited:?}");
        assert_eq!(number(&mut other, "SELECT substr(note, 1, 6) = x'616263646566' FROM item"), 1);
        assert_eq!(items(&mut own), 3);
        assert!(began.elapsed() < PATIENCE / 2);
    });
}

/// A transaction that begins while a blob writes goes on in its turn; COMMIT waits for the blob, as in SQLite.
#[test]
fn a_transaction_takes_over_the_turn_of_a_blob() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = database_with_blob(&stage);
        for begin in ["BEGIN", "BEGIN IMMEDIATE"] {
            let mut own = connect(&database);
            let mut blob = own.open_blob(&place(1), true).expect("opens");
            execute(&mut own, begin);
            blob.write_at(b"abc", 0).expect("writes");
            execute(&mut own, INSERT);
            refused(own.execute("COMMIT", params![]), &["SQL statements in progress"]);
            drop(blob);
            let waits = std::thread::spawn({
                let mut other = connect(&database);
                move || execute(&mut other, INSERT)
            });
            execute(&mut own, "COMMIT");
            waits.join().expect("it waits");

            let mut blob = own.open_blob(&place(1), true).expect("opens");
            execute(&mut own, begin);
            execute(&mut own, "ROLLBACK");
            let expired = blob.write_at(b"x", 0).expect_err("expired");
            assert_eq!(expired.code().map(Code::primary), Some(Code::ABORT.0));
            execute(&mut connect(&database), INSERT);
            // Blobs end with their connection.
            let mut writing = own.open_blob(&place(1), true).expect("opens");
            drop(own);
            execute(&mut connect(&database), INSERT);
            assert_eq!(writing.write_at(b"x", 0).expect_err("closed").code(), Some(Code::ABORT));
        }
        assert_eq!(items(&mut connect(&database)), 9);
    });
}

/// In an optimistic transaction what a blob shows cannot be checked: so the transaction holds its turn.
#[test]
fn a_blob_in_an_optimistic_transaction() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = database_with_blob(&stage);
        for writable in [false, true] {
            let mut own = connect(&database);
            execute(&mut own, "BEGIN");
            execute(&mut own, "UPDATE item SET note = CAST('0123456789' AS BLOB) WHERE id = 1");
            let mut blob = own.open_blob(&place(1), writable).expect("opens");
            assert_eq!(text(&mut blob).expect("reads"), "0123456789", "what it wrote itself");
            let waits = std::thread::spawn({
                let mut other = connect(&database);
                move || execute(&mut other, "UPDATE item SET note = 'other' WHERE id = 1")
            });
            if writable {
                blob.write_at(b"x", 0).expect("writes");
            }
            drop(blob);
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waits.is_finished(), "the transaction holds the turn");
            execute(&mut own, "COMMIT");
            waits.join().expect("it waits");
        }
    });
}

/// A blob that reads holds an old snapshot, from which its connection could not write on: it expires.
#[test]
fn a_blob_that_reads_is_in_nobodys_way() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = database_with_blob(&stage);
        let (mut own, mut other) = (connect(&database), connect(&database));
        double(&mut own);
        let mut blob = own.open_blob(&place(1), false).expect("opens");
        execute(&mut other, INSERT);
        execute(&mut own, INSERT);
        assert_eq!(blob.len(), 10);
        assert!(text(&mut blob).is_ok());
        execute(&mut own, "BEGIN");
        execute(&mut own, "UPDATE item SET note = double(4) WHERE id = 2");
        execute(&mut own, "COMMIT");
        assert_eq!(
            (blob.len(), text(&mut blob).expect_err("expired").code()),
            (0, Some(Code::ABORT))
        );
        drop((own, blob));
        execute(&mut other, INSERT);
    });
}

// ---- Backups ----

/// Transfers between two accounts go on while the file is copied, and while another is copied over it: no copy
/// shows half of one.
#[test]
fn a_backup_of_a_live_file_is_consistent() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = stage.database();
        let mut source = connect(&database);
        let setup = "CREATE TABLE account (id INTEGER PRIMARY KEY, cents, filler);
                     INSERT INTO account VALUES (1, 1000, zeroblob(50000)), (2, 0, zeroblob(50000))";
        source.execute_script(setup).expect("sets up");
        let copy = Database::open(stage.beside("-copy.db")).expect("opens");
        execute(&mut connect(&copy), "CREATE TABLE old (n)");
        let ended = Arc::new(AtomicBool::new(false));
        let movers: Vec<_> = (0..2)
            .map(|_| {
                let (mut connection, ended) = (connect(&database), Arc::clone(&ended));
                std::thread::spawn(move || {
                    while !ended.load(Relaxed) {
                        let moves = [
                            ("UPDATE account SET cents = cents - 1 WHERE id = 1", params![]),
                            ("UPDATE account SET cents = cents + 1 WHERE id = 2", params![]),
                        ];
                        connection.batch(&moves).expect("moves");
                        std::thread::sleep(Duration::from_millis(1));
                    }
                })
            })
            .collect();
        for pages in [None, Some(7), Some(10)] {
            for target in [&copy, &Database::open(":memory:").expect("opens")] {
                let mut target = connect(target);
                let mut backup = source.backup("main", &mut target, "main").expect("begins");
                let deadline = Instant::now() + PATIENCE / 8;
                loop {
                    // Steps are many, and begin again with each transfer: in the end all at once.
                    let pages = pages.filter(|_| Instant::now() < deadline);
                    if backup.step(pages).expect("copies") == BackupStep::Done {
                        break;
                    }
                }
                assert_eq!(backup.remaining(), 0);
                assert!(backup.page_count() > 20);
                backup.finish().expect("finishes");
                assert_eq!(number(&mut target, "SELECT sum(cents) FROM account"), 1000);
                assert_eq!(number(&mut target, "SELECT count(*) FROM sqlite_schema"), 1);
                execute(&mut target, "INSERT INTO account VALUES (3, 0, NULL)");
            }
        }
        ended.store(true, Relaxed);
        movers.into_iter().for_each(|mover| mover.join().expect("moves"));
        let mut other = connect(&copy);
        assert_eq!(number(&mut other, "SELECT count(*) FROM account"), 3);
        drop(other);
        crate::stage::assert_sound(&stage.beside("-copy.db"));
    });
}

/// The target is written in its turn: others wait. One that is in a transaction is refused, as is a
/// connection's own database.
#[test]
fn a_backup_holds_the_turn_of_its_target() {
    in_time(|| {
        let stage = Stage::without_disk();
        let mut source = connect(&Database::open(":memory:").expect("opens"));
        execute(&mut source, "CREATE TABLE item (id INTEGER PRIMARY KEY, note)");
        execute(&mut source, "INSERT INTO item VALUES (1, zeroblob(100000))");
        let database = stage.database_with_items();
        let mut target = connect(&database);
        for begin in ["BEGIN", "BEGIN IMMEDIATE"] {
            execute(&mut target, begin);
            execute(&mut target, INSERT);
            let begun = source.backup("main", &mut target, "main");
            refused(begun, &["destination database is in use"]);
            execute(&mut target, "ROLLBACK");
        }
        refused(source.backup("none", &mut target, "main"), &["unknown database none"]);

        // Half a copy is none.
        let mut backup = source.backup("main", &mut target, "main").expect("begins");
        assert_eq!(backup.step(Some(2)).expect("copies"), BackupStep::More);
        drop(backup);
        assert_eq!(items(&mut target), 0);

        // A transaction that has done nothing yet is not in the way, and goes on.
        execute(&mut target, "BEGIN");
        let mut backup = source.backup("main", &mut target, "main").expect("begins");
        backup.step(Some(2)).expect("copies");
        let waits = std::thread::spawn({
            let mut other = connect(&database);
            move || execute(&mut other, INSERT)
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished(), "the backup holds the turn");
        assert_eq!(backup.step(None).expect("copies"), BackupStep::Done);
        backup.finish().expect("finishes");
        waits.join().expect("it waits");
        execute(&mut target, INSERT);
        execute(&mut connect(&database), INSERT);
        execute(&mut target, "COMMIT");
        assert_eq!(items(&mut target), 4);
    });
}

#[test]
fn a_database_as_bytes() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = stage.database_with_items();
        let (mut own, mut other) = (connect(&database), connect(&database));
        execute(&mut own, INSERT);
        execute(&mut own, "BEGIN");
        execute(&mut own, INSERT);
        let bytes = own.serialize("main").expect("serializes");
        execute(&mut own, "COMMIT");
        refused(own.serialize("none"), &["unable to serialize 'none'"]);

        let mut memory = connect(&Database::open(":memory:").expect("opens"));
        memory.deserialize("main", &bytes).expect("deserializes");
        assert_eq!(items(&mut memory), 2, "with what the transaction wrote");
        memory.deserialize("main", b"no database").expect("is found out later");
        refused(memory.query("SELECT * FROM item", params![]), &["file is not a database"]);

        // In the place of a file: the connection has no part in the file any more.
        execute(&mut own, "BEGIN");
        refused(own.deserialize("main", &bytes), &["end them"]);
        execute(&mut own, "COMMIT");
        execute(&mut own, "DELETE FROM item");
        own.deserialize("main", &bytes).expect("deserializes");
        assert_eq!((items(&mut own), items(&mut other)), (2, 0));
        execute(&mut own, "BEGIN");
        execute(&mut own, INSERT);
        execute(&mut other, INSERT);
        execute(&mut own, "COMMIT");
        assert_eq!((items(&mut own), items(&mut other)), (3, 1));
        drop(own);
        let mut next = connect(&database);
        execute(&mut next, INSERT);
        assert_eq!(items(&mut next), 2, "the next connection is one to the file");
    });
}

/// PRAGMAs that ask for what is so already, as most programs do when they connect.
#[test]
fn settings_that_change_nothing_leave_a_connection_plain() {
    let stage = Stage::new();
    let mut connection = connect(&stage.database());
    for sql in [
        "PRAGMA journal_mode = WAL",
        "PRAGMA main.journal_mode=wal",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA synchronous = FULL",
        "PRAGMA locking_mode = EXCLUSIVE",
    ] {
        connection.query(sql, params![]).expect(sql);
        assert!(connection.is_plain(), "{sql}");
    }
    connection.query("PRAGMA synchronous = OFF", params![]).expect("a setting");
    assert!(!connection.is_plain());
    connection.query("PRAGMA synchronous = FULL", params![]).expect("a setting");
    assert!(connection.is_plain(), "as it was opened");
    connection.query("PRAGMA cache_size = 100", params![]).expect("a setting");
    assert!(!connection.is_plain());
}

/// A full-text index executes statements of its own: that one of them has failed, and why, SQLite tells programs that have
/// not asked for extended codes in few words. It told `SQLITE_CONSTRAINT_PRIMARYKEY` (1555) here, where others are told
/// `SQLITE_CONSTRAINT` (19).
#[test]
fn codes_of_full_text_indexes() {
    let stage = Stage::new();
    let mut connection = connect(&stage.database());
    execute(&mut connection, "CREATE VIRTUAL TABLE word USING fts5(a)");
    execute(&mut connection, "CREATE TABLE t (id INTEGER PRIMARY KEY)");
    let insert = "INSERT INTO word (rowid, a) VALUES (1, 'x')";
    execute(&mut connection, insert);
    for begin in ["", "BEGIN", "BEGIN IMMEDIATE"] {
        if !begin.is_empty() {
            execute(&mut connection, begin);
        }
        let code =
            |result: Result<_, Error>| result.expect_err("it is there").code().map(|it| it.0);
        assert_eq!(code(connection.execute(insert, params![])), Some(19), "{begin}");
        execute(&mut connection, "INSERT OR IGNORE INTO t VALUES (1)");
        let again = connection.execute("INSERT INTO t VALUES (1)", params![]);
        assert_eq!(code(again), Some(1555), "{begin}: that of a table");
        if !begin.is_empty() {
            execute(&mut connection, "ROLLBACK");
        }
    }
}
