//! Statements of a dictionary in any order, over one connection or several. Shared with the fuzz target
//! `fuzz/fuzz_targets/sql.rs`.
//!
//! * Alone: one connection gets the results and errors of plain SQLite, statement by statement, and leaves
//!   the same database.
//! * Together: connections of one thread take turns. Each autocommit statement, and each transaction that
//!   wrote, is played on plain SQLite when it is committed, and must have seen there what it saw here. So
//!   the whole equals one serial order, that of the commits.
//! * Wild: anything, over several connections, in any order. Nothing hangs, and the database is whole.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use manyhands::driver::ConnectionExt;
use manyhands::{Connection, Database, Error, TransactionMode, Value};
use manyhands_sqlite::{self as sqlite, OpenMode, Step};

use super::decisions::Decisions;

/// Statements of a round, at most.
const STATEMENTS_MAX: usize = 60;
/// How long a statement may take: its wait, and a busy machine.
const STATEMENT_MAX: Duration = Duration::from_secs(10);

/// Reads and writes; ids are always given, since reserved ones may leave gaps.
const COMMON: &[&str] = &[
    "INSERT INTO t VALUES (?1, ?2, ?3)",
    "INSERT OR REPLACE INTO t VALUES (?1, ?2, ?3)",
    "INSERT OR IGNORE INTO t VALUES (?1, ?2, ?3)",
    "INSERT OR ROLLBACK INTO t VALUES (?1, ?2, ?3)",
    "INSERT OR FAIL INTO t SELECT id + ?1, a, b + 100 FROM t ORDER BY id",
    "INSERT INTO t VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE SET a = excluded.a RETURNING *",
    "UPDATE t SET a = ?1 WHERE id = ?2",
    "UPDATE t SET a = a + 1 RETURNING id, a",
    "UPDATE t SET b = ?1 WHERE id > ?2",
    "UPDATE OR IGNORE t SET b = ?1",
    "DELETE FROM t WHERE id = ?1",
    "DELETE FROM t WHERE a IS ?1 RETURNING id",
    "INSERT INTO log (note) VALUES (?1)",
    "INSERT INTO log (note) SELECT a FROM t ORDER BY id",
    "INSERT INTO positive VALUES (?1)",
    "INSERT INTO child VALUES (?1, ?2)",
    "INSERT OR IGNORE INTO parent VALUES (?1)",
    "DELETE FROM parent WHERE id = ?1",
    "SELECT * FROM t ORDER BY id",
    "SELECT a FROM t WHERE id = ?1",
    "SELECT count(*), sum(a), min(b), typeof(max(a)) FROM t",
    "SELECT count(*) FROM log WHERE note IS ?1",
    "SELECT n FROM positive ORDER BY n",
    "SELECT json_group_array(id) FROM (SELECT id FROM parent ORDER BY id)",
    "SELECT * FROM t WHERE b > (SELECT avg(b) FROM t) ORDER BY id",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 50) SELECT sum(x) FROM c",
    "SELECT abs(-9223372036854775808)",
    "SELECT 1/0, 'a' || NULL, x'00ff', 1e400",
    "SELECT * FROM nowhere",
    "INSERT INTO t VALUES (1)",
    "SELEC 1",
    "CREATE TABLE IF NOT EXISTS later (a, b)",
    "DROP TABLE IF EXISTS later",
    "INSERT INTO later VALUES (?1, ?2)",
    "ALTER TABLE later ADD COLUMN c DEFAULT 7",
    "SELECT * FROM later ORDER BY 1, 2",
    "CREATE INDEX IF NOT EXISTS t_a ON t (a)",
    "DROP INDEX IF EXISTS t_a",
    "CREATE TRIGGER IF NOT EXISTS noted AFTER DELETE ON t BEGIN INSERT INTO log (note) VALUES (old.id); END",
    "DROP TRIGGER IF EXISTS noted",
    "CREATE VIEW IF NOT EXISTS v AS SELECT a, b FROM t",
    "SELECT * FROM v ORDER BY b",
    "REINDEX",
];

/// Those of the common ones that read no table.
const WITHOUT_TABLES: &[&str] = &[
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 50) SELECT sum(x) FROM c",
    "SELECT abs(-9223372036854775808)",
    "SELECT 1/0, 'a' || NULL, x'00ff', 1e400",
];

/// Of transactions; several times, so that they begin and end often enough.
const CONTROL: &[&str] = &[
    "BEGIN",
    "BEGIN",
    "BEGIN DEFERRED TRANSACTION",
    "BEGIN IMMEDIATE",
    "BEGIN EXCLUSIVE",
    "COMMIT",
    "COMMIT",
    "END TRANSACTION",
    "ROLLBACK",
    "SAVEPOINT one",
    "SAVEPOINT two",
    "RELEASE one",
    "RELEASE two",
    "ROLLBACK TO one",
    "ROLLBACK TO two",
    "ROLLBACK TO nothing",
];

/// What belongs to one connection.
const OWN: &[&str] = &[
    "CREATE TEMP TABLE IF NOT EXISTS mine (id INTEGER PRIMARY KEY, a)",
    "CREATE TEMP TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, a, b)",
    "DROP TABLE IF EXISTS temp.t",
    "DROP TABLE IF EXISTS mine",
    "INSERT INTO mine VALUES (?1, ?2)",
    "INSERT INTO mine SELECT id, a FROM main.t WHERE true ON CONFLICT DO NOTHING",
    "SELECT * FROM mine ORDER BY id",
    "INSERT INTO main.t SELECT id + 50, a, id + 50 FROM mine",
    "CREATE TEMP TRIGGER IF NOT EXISTS counted AFTER INSERT ON main.t BEGIN DELETE FROM log; END",
    "DROP TRIGGER IF EXISTS temp.counted",
    "CREATE TABLE IF NOT EXISTS other.o (id INTEGER PRIMARY KEY, a)",
    "INSERT INTO other.o VALUES (?1, ?2)",
    "INSERT INTO main.t SELECT id, a, id FROM other.o",
    "SELECT * FROM other.o ORDER BY id",
    "CREATE TABLE memory.m (a)",
    "INSERT INTO memory.m VALUES (?1)",
    "SELECT count(*) FROM memory.m",
    "PRAGMA foreign_keys = ON",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA foreign_keys",
    "PRAGMA recursive_triggers = ON",
    "PRAGMA ignore_check_constraints = ON",
    "PRAGMA ignore_check_constraints = OFF",
    "PRAGMA defer_foreign_keys = ON",
    "PRAGMA user_version = 7",
    "PRAGMA user_version",
    "PRAGMA table_info(t)",
    "PRAGMA case_sensitive_like = ON",
    "PRAGMA integrity_check",
    "PRAGMA foreign_key_check",
    "PRAGMA encoding",
    "PRAGMA query_only = ON",
    "PRAGMA query_only = OFF",
    "ATTACH '{DIR}/other.db' AS other",
    "ATTACH ':memory:' AS memory",
];

/// What may come first, too, so that there is something to find there.
const ATTACH: &[&str] = &["ATTACH '{DIR}/other.db' AS other", "ATTACH ':memory:' AS memory"];

/// What answers differently by design, or about files. Without `PRAGMA schema_version`, of which SQLite
/// says that it can corrupt a database.
const WILD: &[&str] = &[
    "DETACH other",
    "DETACH memory",
    "SELECT 1; SELECT 2",
    "",
    "-- nothing",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA journal_mode",
    "PRAGMA synchronous = OFF",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA wal_checkpoint(RESTART)",
    "PRAGMA wal_autocheckpoint = 1",
    "PRAGMA mmap_size = 1000000",
    "PRAGMA cache_size = 1",
    "PRAGMA page_size = 512",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA secure_delete = ON",
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA incremental_vacuum",
    "PRAGMA optimize",
    "PRAGMA busy_timeout = 5",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA soft_heap_limit",
    "PRAGMA nonsense = 7",
    "VACUUM",
    "ANALYZE",
    "INSERT INTO log (note) VALUES (random())",
    "INSERT INTO log (note) VALUES (last_insert_rowid())",
    "SELECT CURRENT_TIMESTAMP, changes(), total_changes()",
    "SELECT load_extension('nowhere')",
    "DELETE FROM sqlite_schema",
    "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (word)",
    "INSERT INTO words VALUES (?1)",
    "DROP TABLE IF EXISTS words",
    "SELECT * FROM words WHERE words MATCH 'a'",
    "INSERT INTO t (a) VALUES (?1)",
];

const SCHEMA: &str = "
    CREATE TABLE t (id INTEGER PRIMARY KEY, a, b UNIQUE);
    CREATE TABLE log (note);
    CREATE TABLE positive (n CHECK (n > 0));
    CREATE TABLE parent (id INTEGER PRIMARY KEY);
    CREATE TABLE child (id INTEGER PRIMARY KEY,
                        parent REFERENCES parent DEFERRABLE INITIALLY DEFERRED);";

const ROWS: &str = "
    INSERT INTO t VALUES (1, 10, 1), (2, 20, 2), (3, NULL, 3);
    INSERT INTO parent VALUES (1), (2);";

/// Takes away what a round may leave, but for a schema that these do not know.
const CLEAR: &str = "
    PRAGMA ignore_check_constraints = OFF;
    PRAGMA foreign_keys = OFF;
    BEGIN IMMEDIATE;
    DROP TRIGGER IF EXISTS noted;
    DROP VIEW IF EXISTS v;
    DROP INDEX IF EXISTS t_a;
    DROP TABLE IF EXISTS later;
    DROP TABLE IF EXISTS words;
    DROP TABLE IF EXISTS sqlite_stat1;
    DROP TABLE IF EXISTS sqlite_stat4;
    PRAGMA user_version = 0;
    DELETE FROM t;
    DELETE FROM log;
    DELETE FROM positive;
    DELETE FROM parent;
    DELETE FROM child;";

/// How long a statement waits for another connection. All are one thread's: none goes on meanwhile.
const TIMEOUT: Duration = Duration::from_micros(100);
/// The same where nothing is to be waited for, but the processor.
const TIMEOUT_ALONE: Duration = Duration::from_secs(5);

/// A database for Manyhands, which stays open and is as new in each round, and plain SQLite beside it, in memory.
///
/// So a connection of a round may be one that an earlier round gave back, as in a process that runs all day. Some
/// rounds begin with new files instead, and their last connection tidies up.
pub struct Stand {
    /// The directory of the database, and that of what plain SQLite attaches.
    ours: PathBuf,
    plain: PathBuf,
    open: Option<Open>,
}

/// What stays open between rounds.
struct Open {
    /// Plain SQLite, on the database of Manyhands.
    plain: sqlite::Connection,
    schema: Vec<String>,
    /// As long as it lives, the files stay, and connections are kept.
    _database: Database,
}

/// A statement and its values.
#[derive(Clone, Debug)]
struct Statement {
    sql: String,
    values: Vec<Value>,
}

impl Stand {
    /// In an empty directory.
    pub fn new(directory: &Path) -> Stand {
        let (ours, plain) = (directory.join("ours"), directory.join("plain"));
        std::fs::create_dir(&ours).expect("an empty directory");
        std::fs::create_dir(&plain).expect("an empty directory");
        Stand { ours, plain, open: None }
    }

    /// One round, as `bytes` say.
    ///
    /// # Panics
    /// When something does not hold that must.
    pub fn play(&mut self, bytes: &[u8]) {
        let mut decisions = Decisions(bytes);
        let mode = match decisions.byte() % 3 {
            0 => TransactionMode::Optimistic,
            1 => TransactionMode::Auto,
            _ => TransactionMode::Immediate,
        };
        let settings = decisions.byte();
        let (foreign_keys, from_new_files) = (settings.is_multiple_of(2), settings / 2 % 64 == 63);
        let way = decisions.byte() % 3;
        self.prepare(from_new_files);
        let database = Database::builder(self.ours.join("app.db"))
            .foreign_keys(foreign_keys)
            .timeout(if way == 0 { TIMEOUT_ALONE } else { TIMEOUT })
            .transaction_mode(mode)
            .open()
            .expect("a sound database");
        let model = open_plain(Path::new(":memory:"));
        model.execute(SCHEMA).expect("the schema");
        model.execute(ROWS).expect("the rows");
        model.execute(&format!("PRAGMA foreign_keys = {foreign_keys}")).expect("a setting");
        let mut story = Vec::new();
        match way {
            0 => self.play_alone(&database, &model, &mut decisions, &mut story),
            1 => self.play_together(&database, mode, &model, &mut decisions, &mut story),
            _ => self.play_wild(&database, &mut decisions, &mut story),
        }
        drop(database);
        end(&model);
        let fresh = self.open.is_none().then(|| open_plain(&self.ours.join("app.db")));
        let ours = fresh.as_ref().or(self.open.as_ref().map(|open| &open.plain));
        let ours = ours.expect("one of the two");
        if way != 2 {
            assert_eq!(dump(ours, &self.ours), dump(&model, &self.plain), "after {story:#?}");
        }
        // A statement may have asked for it.
        ours.execute("PRAGMA ignore_check_constraints = ON").expect("a setting");
        assert_eq!(ours.query_text("PRAGMA integrity_check").expect("readable"), "ok");
    }

    /// Makes the database as new: its files, or what is in them.
    fn prepare(&mut self, from_new_files: bool) {
        for directory in [&self.ours, &self.plain] {
            for suffix in ["", "-wal", "-shm", "-journal"] {
                let _ = std::fs::remove_file(directory.join(format!("other.db{suffix}")));
            }
        }
        if from_new_files || !self.open.as_ref().is_some_and(Open::is_as_new_again) {
            self.open = None;
            for file in std::fs::read_dir(&self.ours).expect("a directory") {
                std::fs::remove_file(file.expect("an entry").path()).expect("a file");
            }
            let path = self.ours.join("app.db");
            let plain = open_plain(&path);
            plain.execute("PRAGMA journal_mode = WAL").expect("WAL mode");
            plain.execute(SCHEMA).expect("the schema");
            plain.execute(ROWS).expect("the rows");
            if !from_new_files {
                let _database = Database::open(path).expect("a sound database");
                self.open = Some(Open { schema: schema(&plain), plain, _database });
            }
        }
    }

    fn play_alone(
        &self,
        database: &Database,
        plain: &sqlite::Connection,
        decisions: &mut Decisions<'_>,
        story: &mut Vec<String>,
    ) {
        let mut ours = database.connect().expect("a connection");
        let attach = ATTACH.iter().filter(|_| decisions.byte().is_multiple_of(2));
        let mut first: Vec<Statement> =
            attach.map(|sql| Statement { sql: (*sql).to_owned(), values: Vec::new() }).collect();
        while let Some(statement) =
            first.pop().or_else(|| next(decisions, &[COMMON, CONTROL, COMMON, OWN], story))
        {
            let expected = run_plain(plain, &statement, &self.plain);
            let outcome = run_ours(&mut ours, &statement, &self.ours);
            let (outcome, is_lock) = outcome.map_or_else(|error| error, |rows| (rows, false));
            assert!(!is_lock, "{outcome} without anybody else, after {story:#?}");
            assert_eq!(outcome, expected, "after {story:#?}");
            assert_eq!(ours.is_autocommit(), plain.is_autocommit(), "after {story:#?}");
        }
    }

    fn play_together(
        &self,
        database: &Database,
        mode: TransactionMode,
        model: &sqlite::Connection,
        decisions: &mut Decisions<'_>,
        story: &mut Vec<String>,
    ) {
        let mut parties: Vec<Party> = (0..2 + decisions.byte() % 2)
            .map(|_| Party {
                connection: database.connect().expect("a connection"),
                mode,
                log: Vec::new(),
                has_snapshot: false,
                writes: false,
            })
            .collect();
        loop {
            let who = usize::from(decisions.byte()) % parties.len();
            let Some(statement) = next(decisions, &[COMMON, CONTROL, COMMON], story) else {
                return;
            };
            let said = parties[who].say(&statement, &self.ours, model, &self.plain);
            let Err(different) = said else {
                let last = story.last_mut().expect("just pushed");
                *last = format!("{who}: {last}");
                continue;
            };
            panic!("{who} {different}, after {story:#?}");
        }
    }

    fn play_wild(
        &self,
        database: &Database,
        decisions: &mut Decisions<'_>,
        story: &mut Vec<String>,
    ) {
        let mut connections: Vec<Connection> =
            (0..3).map(|_| database.connect().expect("a connection")).collect();
        loop {
            let who = usize::from(decisions.byte()) % connections.len();
            let lists = &[COMMON, CONTROL, OWN, WILD, COMMON];
            let Some(statement) = next(decisions, lists, story) else { return };
            let began = Instant::now();
            let _ = run_ours(&mut connections[who], &statement, &self.ours);
            assert!(began.elapsed() < STATEMENT_MAX, "{statement:?} after {story:#?}");
        }
    }
}

impl Open {
    /// True when what the last round left could be taken away.
    fn is_as_new_again(&self) -> bool {
        let cleared = [CLEAR, ROWS, "COMMIT"].iter().try_for_each(|sql| self.plain.execute(sql));
        cleared.is_ok() && schema(&self.plain) == self.schema
    }
}

/// A connection, and what it has been told since its transaction began.
struct Party {
    connection: Connection,
    mode: TransactionMode,
    log: Vec<(Statement, String)>,
    /// Something of the database was read.
    has_snapshot: bool,
    writes: bool,
}

impl Party {
    /// Executes a statement, and what that commits on `model` too. `Err` tells what differs.
    fn say(
        &mut self,
        statement: &Statement,
        directory: &Path,
        model: &sqlite::Connection,
        model_directory: &Path,
    ) -> Result<(), String> {
        let outside = self.connection.is_autocommit();
        let before = self.connection.session_counts().total_changes;
        let began = Instant::now();
        let outcome = run_ours(&mut self.connection, statement, directory);
        assert!(began.elapsed() < STATEMENT_MAX, "{statement:?}: {:?}", began.elapsed());
        let ended = self.connection.is_autocommit();
        let failed = outcome.is_err();
        let (outcome, not_executed) = outcome.map_or_else(|error| error, |rows| (rows, false));
        if !not_executed {
            let first = statement.sql.split(' ').next().unwrap_or_default();
            // ROLLBACK TO, too, leaves a transaction that has only read where its snapshot is.
            let harmless =
                ["SELECT", "WITH", "BEGIN", "COMMIT", "END", "SAVEPOINT", "RELEASE", "ROLLBACK"];
            // CREATE and DROP that have nothing to do are a read, and take no turn.
            let may_do_nothing =
                ["IF EXISTS", "IF NOT EXISTS"].iter().any(|it| statement.sql.contains(it));
            let did_nothing = may_do_nothing && !self.connection.holds_turn();
            self.writes |= !failed && !harmless.contains(&first) && !did_nothing;
            // What an OR FAIL has kept.
            self.writes |= self.connection.session_counts().total_changes != before;
            let reads = !CONTROL.iter().chain(WITHOUT_TABLES).any(|it| *it == statement.sql);
            let did_not_compile = outcome.starts_with("error 1: ");
            self.has_snapshot |= reads && !did_not_compile || self.connection.holds_turn();
            // As in SQLite, what does not compile before a transaction has a snapshot is of no snapshot. An optimistic one compares it.
            let is_compared =
                outside || self.has_snapshot || self.mode == TransactionMode::Optimistic;
            if is_compared || !did_not_compile {
                self.log.push((statement.clone(), outcome));
            }
        }
        if !ended {
            return Ok(());
        }
        let log = std::mem::take(&mut self.log);
        self.has_snapshot = false;
        let counts = outside || std::mem::take(&mut self.writes);
        self.writes = false;
        let undone = not_executed || failed || statement.sql.starts_with("ROLLBACK");
        if !counts || undone && !outside {
            return Ok(());
        }
        // Where others have changed the schema before a transaction commits, what does not compile may do so for another
        // reason: the code is what must be so.
        let compared = |outcome: &str| match outcome.split_once(": ") {
            Some(("error 1", _)) if !outside => "error 1".to_owned(),
            _ => outcome.to_owned(),
        };
        for (statement, outcome) in log {
            let expected = run_plain(model, &statement, model_directory);
            if compared(&outcome) != compared(&expected) {
                return Err(format!("was told by {statement:?}: {outcome}, and not: {expected}"));
            }
        }
        assert!(model.is_autocommit(), "{statement:?}");
        Ok(())
    }
}

/// The next statement, noted in the story.
fn next(
    decisions: &mut Decisions<'_>,
    lists: &[&[&str]],
    story: &mut Vec<String>,
) -> Option<Statement> {
    if decisions.is_over() || story.len() == STATEMENTS_MAX {
        return None;
    }
    let list = lists[usize::from(decisions.byte()) % lists.len()];
    let sql = list[usize::from(decisions.byte()) % list.len()].to_owned();
    let count = (1..=3).filter(|number| sql.contains(&format!("?{number}"))).count();
    // An id that SQLite chooses is not compared: reserved ones may leave gaps.
    let names_id = |index: usize| index == 0 && sql.starts_with("INSERT");
    let values = (0..count)
        .map(|index| match decisions.byte() % 16 {
            0 if !names_id(index) => Value::Null,
            1 => Value::from("text"),
            2 => Value::Real(2.5),
            3 if !names_id(index) => decisions.value(),
            small => Value::from(i64::from(small) - 4),
        })
        .collect();
    story.push(format!("{sql} {values:?}"));
    Some(Statement { sql, values })
}

fn open_plain(path: &Path) -> sqlite::Connection {
    sqlite::Connection::open(path, OpenMode::ReadWriteCreate, false).expect("the database opens")
}

/// Undoes the transaction that is open, as the end of a connection does.
fn end(connection: &sqlite::Connection) {
    if !connection.is_autocommit() {
        connection.execute("ROLLBACK").expect("a transaction is open");
    }
}

fn show(rows: &[Vec<Value>], changes: i64) -> String {
    format!("{rows:?}, {changes} changes")
}

fn counts_changes(sql: &str) -> bool {
    ["INSERT", "UPDATE", "DELETE FROM"].iter().any(|verb| sql.starts_with(verb))
}

fn run_plain(on: &sqlite::Connection, statement: &Statement, directory: &Path) -> String {
    let place = directory.display().to_string();
    let sql = statement.sql.replace("{DIR}", &place);
    let run = || {
        let mut compiled = on.prepare_one(&sql)?;
        compiled.bind_all(statement.values.iter().map(Value::as_ref))?;
        let mut rows = Vec::new();
        while compiled.step()? == Step::Row {
            rows.push(compiled.row());
        }
        Ok(rows)
    };
    match run() {
        Ok(rows) => show(&rows, if counts_changes(&sql) { on.changes() } else { 0 }),
        Err(sqlite::Error { code, message }) => {
            format!("error {}: {message}", code.0).replace(&place, "{DIR}")
        }
    }
}

/// The rows; or the error, and whether it says that nothing was executed: a wait that ended, a conflict.
fn run_ours(
    on: &mut Connection,
    statement: &Statement,
    directory: &Path,
) -> Result<String, (String, bool)> {
    let place = directory.display().to_string();
    let sql = statement.sql.replace("{DIR}", &place);
    let outcome = on.execute(&sql, &statement.values);
    let outcome = outcome.map_err(|error| describe(&error, &place))?;
    let rows: Vec<Vec<Value>> = outcome.rows.iter().map(|row| row.values().to_vec()).collect();
    let changes = if counts_changes(&sql) { outcome.changes() } else { 0 };
    Ok(show(&rows, i64::try_from(changes).expect("not that many")))
}

fn describe(error: &Error, place: &str) -> (String, bool) {
    let lock = error.is_timeout() || error.is_conflict();
    let locked = [5, 6];
    match (error.code(), error.sqlite_message()) {
        (Some(code), Some(message)) => {
            let text = format!("error {}: {message}", code.0).replace(place, "{DIR}");
            (text, lock || locked.contains(&code.primary()))
        }
        _ => (error.to_string(), lock || error.is_refused()),
    }
}

/// Everything that a database holds, and one that was attached in this directory.
fn dump(main: &sqlite::Connection, directory: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let other =
        sqlite::Connection::open(&directory.join("other.db"), OpenMode::ReadWrite, false).ok();
    for connection in [Some(main), other.as_ref()].into_iter().flatten() {
        lines.extend(schema(connection));
        let tables = connection.query_text(
            "SELECT ifnull(group_concat(name), '') FROM main.sqlite_schema WHERE type = 'table'",
        );
        for table in tables.expect("names").split(',').filter(|name| !name.is_empty()) {
            lines.push(table.to_owned());
            let mut rows = all(connection, &format!("SELECT * FROM main.{table}"));
            rows.sort();
            lines.extend(rows);
        }
    }
    lines
}

fn schema(connection: &sqlite::Connection) -> Vec<String> {
    all(connection, "SELECT type, name, sql FROM main.sqlite_schema ORDER BY name")
}

fn all(connection: &sqlite::Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare_one(sql).expect("it compiles");
    let mut rows = Vec::new();
    while statement.step().expect("it can be read") == Step::Row {
        rows.push(format!("{:?}", statement.row()));
    }
    rows
}
