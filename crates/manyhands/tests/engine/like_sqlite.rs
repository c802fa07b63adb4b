//! Whatever SQL an application sends, it gets what SQLite would have given it: rows with their types,
//! counts, rowids, error codes and messages, and the same database afterwards.
//!
//! Each script runs on plain SQLite, and through Manyhands in each [`Way`]; every outcome is compared.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use manyhands::{Connection, Database, Value, params};
use manyhands_sqlite as sqlite;
use sqlite::{OpenMode, Step};

use crate::stage::{self, PATIENCE, Stage, connect};

mod scripts;

/// A way that a statement can take.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// The queue is idle: every statement leads itself.
    Idle,
    /// Somebody holds the turn when each statement comes, so that it goes through the queue, and in
    /// one batch with a neighbour's.
    Queue,
    /// Inside BEGIN IMMEDIATE … COMMIT.
    Transaction,
}

const SETUP: &str = "
    CREATE TABLE neighbour (id INTEGER PRIMARY KEY);
    CREATE TABLE t (id INTEGER PRIMARY KEY, a, b);
    INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3);";

const SETUP_OTHER: &str = "CREATE TABLE o (id INTEGER PRIMARY KEY, a)";

/// One statement of a script.
#[derive(Clone)]
pub struct Statement {
    sql: String,
    values: Vec<Value>,
    /// Values of rows differ from run to run: their types are compared.
    types_only: bool,
}

/// A story in SQL.
#[derive(Clone)]
pub struct Script {
    name: &'static str,
    statements: Vec<Statement>,
}

fn script(name: &'static str) -> Script {
    Script { name, statements: Vec::new() }
}

impl Script {
    /// A statement without values.
    fn sql(self, sql: &str) -> Script {
        self.with(sql, params![])
    }

    fn with(mut self, sql: &str, values: &[Value]) -> Script {
        self.statements.push(Statement {
            sql: sql.to_string(),
            values: values.to_vec(),
            types_only: false,
        });
        self
    }

    /// A statement whose rows are compared by type only.
    fn types(mut self, sql: &str) -> Script {
        self = self.sql(sql);
        self.statements.last_mut().expect("just added").types_only = true;
        self
    }

    /// The script in a transaction of its own.
    fn in_transaction(&self) -> Script {
        let mut inside = script(self.name).sql("BEGIN IMMEDIATE");
        inside.statements.extend(self.statements.iter().cloned());
        inside.sql("COMMIT")
    }
}

/// Something that statements run on.
trait Runs {
    /// The outcome of a statement, as text.
    fn run(&mut self, sql: &str, statement: &Statement) -> String;
    /// What the session says about itself after it.
    fn session(&self) -> (i64, i64, i64, bool);
}

/// Values as text, with their types; long ones by their length and digest.
fn show(values: &[Value], types_only: bool) -> String {
    let bytes = |bytes: &[u8]| {
        if bytes.len() > 60 {
            let digest =
                bytes.iter().fold(0_u64, |d, &b| d.wrapping_mul(31).wrapping_add(b.into()));
            format!("{} bytes, {digest:x}", bytes.len())
        } else {
            format!("{:?}", bytes.escape_ascii().to_string())
        }
    };
    let show = |value: &Value| match value {
        _ if types_only => value.type_name().to_string(),
        Value::Null => "NULL".to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => format!("{number:?} ({:x})", number.to_bits()),
        Value::Text(text) => format!("text {}", bytes(text.as_bytes())),
        Value::Blob(blob) => format!("blob {}", bytes(blob)),
    };
    values.iter().map(show).collect::<Vec<_>>().join(" | ")
}

/// `Outcome::changes` is for INSERT, UPDATE and DELETE; 0 for everything else.
fn counts_changes(sql: &str) -> bool {
    let sql = sql.trim_start_matches("/* one */").trim_start();
    let first = sql.split(|c: char| !c.is_ascii_alphabetic()).next();
    let first = first.unwrap_or_default().to_ascii_uppercase();
    matches!(first.as_str(), "INSERT" | "UPDATE" | "DELETE" | "REPLACE")
        || first == "WITH" && sql.contains("DELETE FROM")
}

fn ok(columns: &[String], rows: &[String], changes: i64) -> String {
    let columns = if rows.is_empty() { String::new() } else { columns.join(",") };
    format!("ok, {changes} changes; {columns} [{}]", rows.join("; "))
}

fn failed(code: Option<sqlite::Code>, message: &str) -> String {
    match code {
        Some(code) => format!("error {} {}: {message}", code.0, code.name()),
        None => format!("refused: {message}"),
    }
}

impl Runs for sqlite::Connection {
    fn run(&mut self, sql: &str, statement: &Statement) -> String {
        let mut columns = Vec::new();
        let mut run = || {
            let mut compiled = self.prepare_one(sql)?;
            compiled.bind_all(statement.values.iter().map(Value::as_ref))?;
            columns = (0..compiled.column_count())
                .map(|column| compiled.column_name(column).unwrap_or_default())
                .collect();
            let mut rows = Vec::new();
            while compiled.step()? == Step::Row {
                let values: Vec<_> =
                    (0..columns.len()).map(|column| compiled.column(column).to_owned()).collect();
                rows.push(show(&values, statement.types_only));
            }
            Ok(rows)
        };
        match run() {
            Ok(rows) => {
                let changes = if counts_changes(sql) { self.changes() } else { 0 };
                ok(&columns, &rows, changes)
            }
            Err(sqlite::Error { code, message }) => failed(Some(code), &message),
        }
    }

    fn session(&self) -> (i64, i64, i64, bool) {
        (self.changes(), self.total_changes(), self.last_insert_rowid(), self.is_autocommit())
    }
}

impl Runs for Connection {
    fn run(&mut self, sql: &str, statement: &Statement) -> String {
        match self.execute(sql, &statement.values) {
            Ok(outcome) => {
                assert!(
                    !counts_changes(sql) || outcome.last_insert_rowid() == self.last_insert_rowid()
                );
                let columns = outcome.rows.first().map_or(&[] as &[String], |row| row.columns());
                let rows: Vec<_> = outcome
                    .rows
                    .iter()
                    .map(|row| show(row.values(), statement.types_only))
                    .collect();
                ok(columns, &rows, i64::try_from(outcome.changes()).expect("not that many"))
            }
            Err(error) => match error.sqlite_message() {
                Some(message) => failed(error.code(), message),
                None => failed(None, &error.to_string()),
            },
        }
    }

    fn session(&self) -> (i64, i64, i64, bool) {
        (self.changes(), self.total_changes(), self.last_insert_rowid(), self.is_autocommit())
    }
}

/// Runs a script, and says what came of each statement.
fn perform(
    script: &Script,
    directory: &Path,
    on: &mut impl Runs,
    mut before_each: impl FnMut(&str, bool),
) -> Vec<String> {
    let path = directory.to_str().expect("a path of plain letters");
    // A full-text index writes its own tables when the transaction commits, which in a batch is after
    // the request was counted: documented at `Connection::total_changes`.
    let totals = script.statements.iter().all(|statement| !statement.sql.contains("USING fts5"));
    let outcome = |statement: &Statement| {
        before_each(&statement.sql, on.session().3);
        let sql = statement.sql.replace("{DIR}", path);
        let outcome = on.run(&sql, statement).replace(path, "{DIR}");
        let (changes, total, rowid, autocommit) = on.session();
        let total = if totals { total.to_string() } else { "not compared".to_string() };
        let state = if autocommit { "" } else { ", in a transaction" };
        let mut sql = statement.sql.clone();
        sql.truncate(100);
        format!(
            "{sql}\n      {outcome}\n      then changes {changes}, {total} in all, rowid {rowid}{state}"
        )
    };
    script.statements.iter().map(outcome).collect()
}

/// Everything that two databases in `directory` hold, but for the neighbour's rows.
fn dump(directory: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for name in ["app.db", "other.db"] {
        let mut connection =
            sqlite::Connection::open(&directory.join(name), OpenMode::ReadWrite, false)
                .expect("the database opens");
        let mut ask = |sql: &str| {
            let statement = Statement { sql: sql.to_string(), values: vec![], types_only: false };
            let answer = connection.run(sql, &statement);
            lines.push(format!("{name}: {sql}: {answer}"));
            answer
        };
        ask("PRAGMA integrity_check");
        ask("PRAGMA foreign_key_check");
        ask("PRAGMA user_version");
        ask("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name");
        let tables = "SELECT group_concat(name, '/') FROM (SELECT name FROM sqlite_schema \
                      WHERE type = 'table' AND name != 'neighbour' AND name NOT LIKE 'sqlite_stat%' ORDER BY name)";
        let tables = connection.query_text(tables).expect("a list");
        for table in tables.split('/') {
            let mut ask = |sql: &str| {
                let statement =
                    Statement { sql: sql.to_string(), values: vec![], types_only: false };
                let answer = connection.run(sql, &statement);
                lines.push(format!("{name}: {sql}: {answer}"));
            };
            ask(&format!("SELECT * FROM \"{table}\""));
        }
    }
    lines
}

fn stock(path: PathBuf, setup: &str) -> sqlite::Connection {
    let connection = sqlite::Connection::open(&path, OpenMode::ReadWriteCreate, false)
        .expect("a new database opens");
    connection.execute("PRAGMA journal_mode = WAL").expect("WAL mode");
    connection.execute(setup).expect("the setup");
    connection
}

fn with_stock_sqlite(script: &Script) -> (Vec<String>, Vec<String>) {
    let stage = Stage::without_disk();
    drop(stock(stage.directory().join("other.db"), SETUP_OTHER));
    drop(stock(stage.path(), SETUP));
    let mut connection =
        sqlite::Connection::open(&stage.path(), OpenMode::ReadWriteCreate, false).expect("opens");
    // SQLite's own default, which the bundled build changes.
    connection.set(sqlite::Setting::ForeignKeys, false);
    let outcomes = perform(script, stage.directory(), &mut connection, |_, _| {});
    drop(connection);
    (outcomes, dump(stage.directory()))
}

fn with_manyhands(script: &Script, way: Way, queued: &mut u64) -> (Vec<String>, Vec<String>) {
    let stage = Stage::without_disk();
    drop(stock(stage.directory().join("other.db"), SETUP_OTHER));
    drop(stock(stage.path(), SETUP));
    let database = stage.database();
    let mut connection = connect(&database);
    let outcomes = if way == Way::Queue {
        let crowd = Crowd::start(&database);
        let outcomes = perform(script, stage.directory(), &mut connection, |sql, autocommit| {
            if matches!(sql.split(' ').next(), Some("SAVEPOINT")) || sql == "BEGIN" {
                // What somebody writes after the first read is a conflict in SQLite too.
                crowd.rest();
            } else if autocommit {
                // Whoever is in a transaction may hold the turn that the crowd would wait for.
                crowd.come();
            }
        });
        drop(connection);
        crowd.go_home(&database);
        *queued += database.statistics().expect("it has a queue").requests;
        outcomes
    } else {
        perform(script, stage.directory(), &mut connection, |_, _| {})
    };
    drop(database);
    (outcomes, dump(stage.directory()))
}

/// What the crowd is asked to do; it answers when it is there.
enum Call {
    Come(Sender<()>),
    Rest(Sender<()>),
}

/// What one of the crowd does; returns how many rows it wrote.
type Role = fn(&mut Connection, Receiver<Call>) -> i64;

/// Keeps the queue busy: one holds the turn when a statement comes, another waits for it too.
struct Crowd {
    call: Vec<Sender<Call>>,
    threads: Vec<std::thread::JoinHandle<i64>>,
}

/// How long the turn is held after the statement was announced. It decides how many statements go
/// through the queue, never a result.
const HOLD: Duration = Duration::from_micros(700);

impl Crowd {
    fn start(database: &Database) -> Crowd {
        let mut crowd = Crowd { call: Vec::new(), threads: Vec::new() };
        for role in [hold_the_turn as Role, be_a_neighbour] {
            let (call, calls) = mpsc::channel();
            let mut connection = connect(database);
            crowd.call.push(call);
            crowd.threads.push(std::thread::spawn(move || role(&mut connection, calls)));
        }
        crowd
    }

    /// Returns when the turn is taken and the neighbour is on its way.
    fn come(&self) {
        self.ask(Call::Come);
    }

    /// Returns when nobody of the crowd does anything.
    fn rest(&self) {
        self.ask(Call::Rest);
    }

    fn ask(&self, what: fn(Sender<()>) -> Call) {
        for call in &self.call {
            let (here, wait) = mpsc::channel();
            call.send(what(here)).expect("the crowd is alive");
            wait.recv_timeout(PATIENCE).expect("the crowd answers");
        }
    }

    /// No neighbour lost a row.
    fn go_home(self, database: &Database) {
        drop(self.call);
        let count: i64 =
            self.threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        let found = stage::number(&mut connect(database), "SELECT count(*) FROM neighbour");
        assert_eq!(found, count, "rows of the neighbour");
    }
}

fn hold_the_turn(connection: &mut Connection, calls: Receiver<Call>) -> i64 {
    for call in calls {
        match call {
            Call::Rest(here) => here.send(()).expect("somebody waits for this"),
            Call::Come(here) => {
                let transaction = connection.begin_immediate().expect("the turn comes");
                here.send(()).expect("the statement waits for this");
                let end = Instant::now() + HOLD;
                while Instant::now() < end {
                    std::thread::yield_now();
                }
                transaction.rollback().expect("a rollback");
            }
        }
    }
    0
}

fn be_a_neighbour(connection: &mut Connection, calls: Receiver<Call>) -> i64 {
    let mut count = 0;
    for call in calls {
        match call {
            Call::Rest(here) => here.send(()).expect("somebody waits for this"),
            Call::Come(here) => {
                here.send(()).expect("the statement waits for this");
                stage::execute(connection, "INSERT INTO neighbour DEFAULT VALUES");
                count += 1;
            }
        }
    }
    count
}

fn differences(expected: &[String], found: &[String]) -> String {
    expected
        .iter()
        .zip(found)
        .filter(|(expected, found)| expected != found)
        .map(|(expected, found)| format!("    SQLite:    {expected}\n    Manyhands: {found}\n"))
        .collect()
}

/// Runs a script in one way on both; returns how they differ.
fn compare(script: &Script, way: Way, queued: &mut u64) -> Option<String> {
    let inside = (way == Way::Transaction).then(|| script.in_transaction());
    let script = inside.as_ref().unwrap_or(script);
    let (expected, expected_dump) = with_stock_sqlite(script);
    let (found, found_dump) = with_manyhands(script, way, queued);
    let differences =
        differences(&expected, &found) + &differences_of_dumps(&expected_dump, &found_dump);
    (!differences.is_empty()).then(|| format!("{} ({way:?})\n{differences}", script.name))
}

fn differences_of_dumps(expected: &[String], found: &[String]) -> String {
    let lengths = if expected.len() == found.len() { "" } else { "    other tables afterwards\n" };
    differences(expected, found) + lengths
}

/// All scripts in one way. `ENGINE_SCRIPT` runs those whose name contains it.
fn check_all(way: Way) -> u64 {
    stage::in_time(move || {
        let only = std::env::var("ENGINE_SCRIPT").unwrap_or_default();
        let mut queued = 0;
        let all: Vec<_> =
            scripts::all().into_iter().filter(|script| script.name.contains(&only)).collect();
        let count = all.len();
        let different: Vec<_> =
            all.iter().filter_map(|script| compare(script, way, &mut queued)).collect();
        assert!(
            different.is_empty(),
            "{} of {count} scripts differ:\n\n{}",
            different.len(),
            different.join("\n")
        );
        queued
    })
}

/// An application that is alone notices no difference to SQLite.
#[test]
fn alone_it_is_like_sqlite() {
    check_all(Way::Idle);
}

/// A statement that a stranger executes, in one batch with others, gives what it would have given at
/// home.
#[test]
fn in_the_queue_it_is_like_sqlite() {
    let queued = check_all(Way::Queue);
    assert!(queued > 300, "only {queued} statements went through the queue");
}

/// BEGIN IMMEDIATE … COMMIT is SQLite's.
#[test]
fn in_a_transaction_it_is_like_sqlite() {
    check_all(Way::Transaction);
}

/// What Manyhands decided to answer in its own words, where SQLite's C interface has no answer of its
/// own, or one that would break the queue.
#[test]
fn what_is_answered_in_own_words() {
    let stage = Stage::new();
    let mut connection = connect(&stage.database_with_items());
    let mut check = |sql: &str, words: &[&str]| {
        let error = stage::refused(connection.execute(sql, params![]), words);
        assert_eq!(error.code(), None, "{sql}");
    };
    check("", &["no SQL statement"]);
    check(" -- only a comment", &["no SQL statement"]);
    check(";", &["no SQL statement"]);
    check("SELECT 1; SELECT 2", &["more than one statement", "execute_script"]);
    connection.execute_script("; -- nothing\n ;").expect("a script may be empty");
}

/// As in the sqlite3 shell, and in Python's `executescript`.
#[test]
fn what_a_script_gives_no_value_is_null() {
    let stage = Stage::new();
    let mut connection = connect(&stage.database_with_items());
    for script in [
        "CREATE TABLE given (a, b); INSERT INTO given VALUES (?, :name)",
        "BEGIN; INSERT INTO given VALUES (?3, 1), (2, $other); COMMIT",
    ] {
        connection.execute_script(script).expect(script);
    }
    let rows = connection.query("SELECT quote(a), quote(b) FROM given", params![]).expect("reads");
    let text = |row: &manyhands::Row, at| row.get::<String>(at).expect("text");
    let given: Vec<_> = rows.iter().map(|row| text(row, 0) + " " + &text(row, 1)).collect();
    assert_eq!(given, ["NULL NULL", "NULL 1", "2 NULL"]);
}

/// A mode that stays as it is: the answer is the mode that remains, as SQLite's is where it cannot change it.
#[test]
fn modes_that_stay() {
    let stage = Stage::new();
    let mut connection = connect(&stage.database_with_items());
    let mut check = |sql: &str, answer: &[&str]| {
        let rows = connection.query(sql, params![]).expect(sql);
        let answers: Vec<String> = rows.iter().map(|it| it.get(0).expect("text")).collect();
        assert_eq!(answers, answer, "{sql}");
    };
    check("PRAGMA journal_mode = DELETE", &["wal"]);
    check("PRAGMA main.journal_mode = MEMORY", &["wal"]);
    check("PRAGMA locking_mode = EXCLUSIVE", &["normal"]);
    connection.execute("BEGIN", params![]).expect("begins");
    stage::execute(&mut connection, stage::INSERT);
    let rows = connection.query("PRAGMA journal_mode = OFF", params![]).expect("answers");
    assert_eq!(rows[0].get::<String>(0).expect("text"), "wal");
    stage::execute(&mut connection, "COMMIT");
}

/// The harness itself: a difference in one row, code or count must show.
#[test]
fn a_difference_is_seen() {
    let stage = Stage::new();
    let mut connection = stock(stage.path(), SETUP);
    let mut run = |sql: &str| {
        perform(&script("one").sql(sql), stage.directory(), &mut connection, |_, _| {})[0].clone()
    };
    let mut check = |one: &str, other: &str| {
        assert_ne!(
            run(one).split_once('\n').map(|it| it.1.to_string()),
            run(other).split_once('\n').map(|it| it.1.to_string()),
            "{one} / {other}"
        );
    };
    check("SELECT 1", "SELECT '1'");
    check("SELECT 1.0", "SELECT 1");
    check("SELECT 0.0", "SELECT -0.0");
    check("SELECT x''", "SELECT ''");
    check("SELECT 1 AS a", "SELECT 1 AS b");
    check("SELECT * FROM missing", "SELECT missing FROM t");
    check("UPDATE t SET b = 1", "UPDATE t SET b = 1 WHERE id = 1");
}
