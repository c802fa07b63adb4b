//! A transaction whose log is executed again at its commit does what it would have done had it run
//! there: same database, same answers.
//!
//! Each [`Plot`] runs on Manyhands, where somebody else commits to the same tables before the COMMIT, so
//! that the transaction cannot simply be published; and on plain SQLite one after the other, the other
//! one first. Everything that the transaction saw, and the two databases, are compared.

use std::path::Path;

use manyhands::{Connection, Value, params};
use manyhands_sqlite as sqlite;
use sqlite::{OpenMode, Step, ValueRef};

use super::story::{self, show};
use crate::stage::{ITEM, Stage, connect, execute, in_time, number, shell};

/// A transaction, and what happens around it.
///
/// A step is SQL. `first N: …` reads N rows only, row by row; `blind: …` looks at nothing.
struct Plot<'a> {
    setup: &'a str,
    /// What the transaction's connection does before it.
    session: &'a [&'a str],
    /// What somebody else commits meanwhile.
    other: &'a [&'a str],
    /// Before which step; after the last by default.
    other_comes_before: Option<usize>,
    steps: &'a [&'a str],
    /// `twice(x)`, an application's function.
    has_function: bool,
    foreign_keys: bool,
    /// A full-text index counts its own writes at the commit.
    counts_differ: bool,
}

const PLOT: Plot<'_> = Plot {
    setup: "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b);
            INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3), (90, 'far', 0);",
    session: &[],
    other: &["UPDATE t SET b = b + 1 WHERE id = 90"],
    other_comes_before: None,
    steps: &[],
    has_function: false,
    foreign_keys: false,
    counts_differ: false,
};

/// What the transaction saw, step by step, and at the end what its session says of itself.
type Seen = Vec<String>;

fn twice(arguments: &[ValueRef<'_>]) -> Result<Value, manyhands::FunctionError> {
    match arguments {
        [ValueRef::Integer(number)] => Ok(Value::Integer(number * 2)),
        _ => Err("twice takes an integer".into()),
    }
}

fn limit_and_sql(step: &str) -> (usize, &str) {
    match step.strip_prefix("first ").and_then(|rest| rest.split_once(": ")) {
        Some((count, sql)) => (count.parse().expect("a number of rows"), sql),
        None => (usize::MAX, step),
    }
}

fn is_change(sql: &str) -> bool {
    ["INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"].iter().any(|word| sql.starts_with(word))
}

fn ours_sees(connection: &mut Connection, step: &str) -> String {
    if let Some(sql) = step.strip_prefix("blind: ") {
        execute(connection, sql);
        return String::new();
    }
    let (limit, sql) = limit_and_sql(step);
    let result = if limit < usize::MAX {
        let mut rows = Vec::new();
        connection
            .query_each(sql, params![], |row| {
                rows.push(format!("{:?}", row.value(0).to_owned()));
                rows.len() < limit
            })
            .map(|()| rows.join("; "))
    } else {
        connection.execute(sql, params![]).map(|outcome| {
            let rows: Vec<_> =
                outcome.rows.iter().map(|row| format!("{:?}", row.values())).collect();
            let mut told = rows.join("; ");
            if is_change(sql) {
                told += &format!(" {} changed", outcome.changes());
            }
            if sql.starts_with("INSERT") {
                told += &format!(" last {}", outcome.last_insert_rowid());
            }
            told
        })
    };
    result.unwrap_or_else(|error| match error.sqlite_message() {
        Some(message) => format!("error {}: {message}", error.code().map_or(0, |code| code.0)),
        None => error.to_string(),
    })
}

fn stock_sees(connection: &sqlite::Connection, step: &str) -> String {
    if let Some(sql) = step.strip_prefix("blind: ") {
        connection.execute(sql).expect("a blind step succeeds");
        return String::new();
    }
    let (limit, sql) = limit_and_sql(step);
    let run = || {
        let mut statement = connection.prepare_one(sql)?;
        let columns = statement.column_count();
        let mut rows = Vec::new();
        while rows.len() < limit && statement.step()? == Step::Row {
            let values: Vec<_> = (0..columns).map(|at| statement.column(at).to_owned()).collect();
            rows.push(match limit {
                usize::MAX => format!("{values:?}"),
                _ => format!("{:?}", values[0]),
            });
        }
        let mut told = rows.join("; ");
        if is_change(sql) {
            told += &format!(" {} changed", connection.changes());
        }
        if sql.starts_with("INSERT") {
            told += &format!(" last {}", connection.last_insert_rowid());
        }
        Ok(told)
    };
    run().unwrap_or_else(|sqlite::Error { code, message }| format!("error {}: {message}", code.0))
}

fn on_manyhands(plot: &Plot<'_>, stage: &Stage) -> Seen {
    let database = story::open(stage, plot.foreign_keys);
    connect(&database).execute_script(plot.setup).expect("the setup");
    let (mut one, mut other) = (connect(&database), connect(&database));
    if plot.has_function {
        one.create_function("twice", Some(1), true, twice).expect("a function");
    }
    plot.session.iter().for_each(|sql| execute(&mut one, sql));
    let mut meanwhile = || plot.other.iter().for_each(|sql| execute(&mut other, sql));
    execute(&mut one, "BEGIN");
    let mut seen = Vec::new();
    for (index, step) in plot.steps.iter().enumerate() {
        if plot.other_comes_before == Some(index) {
            meanwhile();
        }
        seen.push(format!("{step} -> {}", ours_sees(&mut one, step)));
    }
    if plot.other_comes_before.is_none() {
        meanwhile();
    }
    if let Err(error) = one.execute("COMMIT", params![]) {
        panic!("COMMIT: {error}; it had seen: {seen:#?}");
    }
    let (changes, total) = (one.changes(), one.total_changes());
    let counts = if plot.counts_differ { (0, 0) } else { (changes, total) };
    seen.push(format!("then {counts:?}, last {}", one.last_insert_rowid()));
    seen
}

fn on_stock_sqlite(plot: &Plot<'_>, stage: &Stage) -> Seen {
    let open = || {
        let connection = sqlite::Connection::open(&stage.path(), OpenMode::ReadWriteCreate, false)
            .expect("the database opens");
        connection.set(sqlite::Setting::ForeignKeys, plot.foreign_keys);
        connection
    };
    let setup = open();
    setup.execute("PRAGMA journal_mode = WAL").expect("WAL mode");
    setup.execute(plot.setup).expect("the setup");
    let (one, other) = (open(), open());
    if plot.has_function {
        one.create_function("twice", Some(1), true, twice).expect("a function");
    }
    let execute = |connection: &sqlite::Connection, sql: &str| {
        connection.execute(sql).unwrap_or_else(|error| panic!("{sql}: {}", error.message));
    };
    plot.session.iter().for_each(|sql| execute(&one, sql));
    plot.other.iter().for_each(|sql| execute(&other, sql));
    execute(&one, "BEGIN");
    let mut seen: Seen =
        plot.steps.iter().map(|step| format!("{step} -> {}", stock_sees(&one, step))).collect();
    execute(&one, "COMMIT");
    let (changes, total) = (one.changes(), one.total_changes());
    let counts = if plot.counts_differ { (0, 0) } else { (changes, total) };
    seen.push(format!("then {counts:?}, last {}", one.last_insert_rowid()));
    seen
}

/// All rows of all tables.
fn dump(path: &Path) -> Vec<String> {
    let connection =
        sqlite::Connection::open(path, OpenMode::ReadWrite, false).expect("the database opens");
    let mut lines = vec![
        stock_sees(&connection, "PRAGMA integrity_check"),
        stock_sees(&connection, "PRAGMA foreign_key_check"),
        stock_sees(
            &connection,
            "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2",
        ),
    ];
    let tables =
        "SELECT coalesce(group_concat(name, '/'), '') FROM sqlite_schema WHERE type = 'table'";
    for table in connection.query_text(tables).expect("a list").split('/') {
        let rows = stock_sees(&connection, &format!("SELECT * FROM \"{table}\""));
        lines.extend(rows.split("; ").map(|row| format!("{table}: {row}")));
    }
    lines
}

fn check(plot: Plot<'_>) {
    let (ours, stock) = (Stage::without_disk(), Stage::without_disk());
    let expected = on_stock_sqlite(&plot, &stock);
    assert_eq!(on_manyhands(&plot, &ours), expected, "what it saw, and what it should have seen");
    let (found, expected) = (dump(&ours.path()), dump(&stock.path()));
    let differ = found.iter().zip(&expected).find(|(found, expected)| found != expected);
    assert_eq!(differ, None, "the first difference of the two databases");
    assert_eq!(found.len(), expected.len());
}

/// The same steps on [`PLOT`]'s table.
fn check_steps(steps: &[&str]) {
    check(Plot { steps, ..PLOT });
}

#[test]
fn reads_and_writes() {
    check_steps(&[
        "SELECT * FROM t WHERE id < 10 ORDER BY id",
        "UPDATE t SET b = b * 10 WHERE id IN (1, 2)",
        "INSERT INTO t VALUES (4, 'four', (SELECT sum(b) FROM t WHERE id < 10))",
        "DELETE FROM t WHERE id = 3",
        "SELECT group_concat(a), sum(b) FROM t WHERE id < 10",
    ]);
}

/// The session's functions answer for the transaction's own connection, during the replay too.
#[test]
fn the_session_functions() {
    let steps = [
        "SELECT changes(), total_changes(), last_insert_rowid()",
        "INSERT INTO t VALUES (7, 'seven', 7)",
        "INSERT INTO t VALUES (8, last_insert_rowid(), changes())",
        "UPDATE t SET b = b + 1 WHERE id IN (1, 2, 3)",
        "UPDATE t SET a = changes() || '/' || last_insert_rowid() WHERE id = 1",
        "UPDATE t SET a = total_changes() WHERE id = 2",
        "SELECT changes(), total_changes(), last_insert_rowid()",
        "SELECT * FROM t WHERE id < 10",
    ];
    check_steps(&steps);
    let session = [
        "INSERT INTO t VALUES (50, 'session', 1), (51, 'session', 1)",
        "DELETE FROM t WHERE id = 51",
    ];
    check(Plot { session: &session, steps: &steps, ..PLOT });
}

#[test]
fn savepoints() {
    check_steps(&[
        "INSERT INTO t VALUES (10, 'stays', 0)",
        "SAVEPOINT outer_one",
        "INSERT INTO t VALUES (11, 'gone', 0)",
        "SAVEPOINT inner_one",
        "UPDATE t SET a = 'gone' WHERE id = 1",
        "SELECT count(*) FROM t WHERE a = 'gone'",
        "ROLLBACK TO inner_one",
        "SELECT count(*) FROM t WHERE a = 'gone'",
        "RELEASE inner_one",
        "ROLLBACK TO outer_one",
        "INSERT INTO t VALUES (12, 'stays', 0)",
        "RELEASE outer_one",
        "SAVEPOINT s",
        "SAVEPOINT s",
        "DELETE FROM t WHERE id = 2",
        "ROLLBACK TO s",
        "RELEASE s",
        "DELETE FROM t WHERE id = 3",
        "RELEASE s",
        "SELECT * FROM t WHERE id < 20",
        "ROLLBACK TO nothing",
    ]);
}

/// A statement that failed, and was caught, fails again; what `OR FAIL` left is there.
#[test]
fn statements_that_failed() {
    check_steps(&[
        "INSERT INTO t VALUES (5, 'five', 5)",
        "INSERT INTO t VALUES (1, 'again', 5)",
        "INSERT INTO t VALUES (6, 'six', 6), (1, 'again', 6)",
        "INSERT OR FAIL INTO t VALUES (7, 'seven', 7), (1, 'again', 7)",
        "INSERT OR IGNORE INTO t VALUES (1, 'again', 8), (8, 'eight', 8)",
        "INSERT OR REPLACE INTO t VALUES (2, 'another', 8)",
        "SELECT nothing FROM t",
        "UPDATE t SET a = json('{') WHERE id = 1",
        "SELECT json('{')",
        "SELECT * FROM t WHERE id < 10",
    ]);
}

/// Of a read that ended early only the part that was seen counts.
#[test]
fn reads_that_end_early() {
    check_steps(&[
        "first 2: SELECT a FROM t ORDER BY id",
        "first 1: SELECT id FROM t WHERE b > 1 AND id < 50",
        "first 50: SELECT id FROM t",
        "UPDATE t SET b = 5 WHERE id = 1",
    ]);
    // The row that changes lies behind the end.
    check(Plot {
        other: &["DELETE FROM t WHERE id = 90", "INSERT INTO t VALUES (91, 'new', 1)"],
        steps: &["first 3: SELECT a FROM t ORDER BY id", "UPDATE t SET b = 0 WHERE id = 1"],
        ..PLOT
    });
}

const FAMILY: &str = "
    CREATE TABLE parent (id INTEGER PRIMARY KEY, note);
    CREATE TABLE child (id INTEGER PRIMARY KEY, p REFERENCES parent ON DELETE CASCADE);
    CREATE TABLE late (id INTEGER PRIMARY KEY, p REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
    CREATE TABLE log (id INTEGER PRIMARY KEY, what);
    CREATE TRIGGER born AFTER INSERT ON child BEGIN
        INSERT INTO log VALUES (100 + new.id, 'born ' || new.id || ' ' || (SELECT count(*) FROM child));
    END;
    CREATE TRIGGER gone AFTER DELETE ON child BEGIN
        INSERT INTO log VALUES (200 + old.id, 'gone ' || old.id);
        UPDATE parent SET note = note || '-' WHERE id = 9;
    END;
    CREATE TRIGGER no BEFORE INSERT ON parent WHEN new.note = 'no' BEGIN
        SELECT RAISE(ABORT, 'not this one');
    END;
    INSERT INTO parent VALUES (1, 'a'), (2, 'b'), (9, 'nine');
    INSERT INTO child VALUES (1, 1), (2, 1), (3, 2);";

#[test]
fn triggers_and_foreign_keys() {
    check(Plot {
        setup: FAMILY,
        other: &[
            "INSERT INTO log VALUES (1, 'other')",
            "UPDATE parent SET note = 'B' WHERE id = 2",
        ],
        steps: &[
            "INSERT INTO child VALUES (10, 1)",
            "INSERT INTO child VALUES (11, 77)",
            "DELETE FROM parent WHERE id = 1",
            "INSERT INTO parent VALUES (5, 'no')",
            "SELECT * FROM log WHERE id > 99 ORDER BY id",
            "SELECT note FROM parent WHERE id = 9",
            "SELECT changes(), total_changes()",
        ],
        foreign_keys: true,
        ..PLOT
    });
}

#[test]
fn deferred_foreign_keys() {
    check(Plot {
        setup: FAMILY,
        other: &["UPDATE parent SET note = 'B' WHERE id = 2"],
        steps: &[
            "INSERT INTO late VALUES (1, 50)",
            "SAVEPOINT s",
            "INSERT INTO late VALUES (2, 60)",
            "ROLLBACK TO s",
            "RELEASE s",
            "INSERT INTO parent VALUES (50, 'in time')",
            "DELETE FROM parent WHERE id = 9",
        ],
        foreign_keys: true,
        ..PLOT
    });
}

/// A COMMIT that violates a deferred foreign key where it takes effect fails as SQLite's does, and the
/// transaction is over.
#[test]
fn a_deferred_foreign_key_that_others_violate() {
    let stage = Stage::without_disk();
    let database = story::open(&stage, true);
    connect(&database).execute_script(FAMILY).expect("the schema");
    let (mut one, mut other) = (connect(&database), connect(&database));
    let mut transaction = one.transaction().expect("begins");
    execute(&mut transaction, "INSERT INTO late VALUES (1, 2)");
    execute(&mut other, "DELETE FROM parent WHERE id = 2");
    let error = transaction.commit().expect_err("the parent is gone");
    assert!(error.is_constraint(), "{error}");
    assert!(one.is_autocommit());
    assert_eq!(shell(&stage.path(), "SELECT count(*) FROM late"), "0");
}

#[test]
fn upsert_returning_and_generated_columns() {
    check(Plot {
        setup: "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE, n INTEGER,
                    doubled AS (n * 2) STORED, shown AS (name || ':' || n));
                INSERT INTO t (id, name, n) VALUES (1, 'a', 1), (2, 'b', 2), (90, 'z', 9);",
        steps: &[
            "INSERT INTO t (id, name, n) VALUES (3, 'a', 10) ON CONFLICT (name) DO UPDATE SET n = n + excluded.n RETURNING id, n, doubled",
            "INSERT INTO t (id, name, n) VALUES (4, 'b', 0) ON CONFLICT DO NOTHING RETURNING id",
            "INSERT INTO t (id, name, n) VALUES (5, 'e', 5) RETURNING *",
            "UPDATE t SET n = n + 1 WHERE id < 50 RETURNING id, shown",
            "DELETE FROM t WHERE doubled > 10 AND id < 50 RETURNING name",
            "SELECT shown FROM t WHERE id < 50",
        ],
        other: &["UPDATE t SET n = 10 WHERE id = 90"],
        ..PLOT
    });
}

#[test]
fn full_text_search() {
    check(Plot {
        setup: "CREATE VIRTUAL TABLE t USING fts5(body);
                INSERT INTO t (rowid, body) VALUES (1, 'red apple'), (2, 'green pear'), (90, 'far away');",
        steps: &[
            "SELECT rowid, body FROM t WHERE t MATCH 'apple'",
            "INSERT INTO t (rowid, body) VALUES (3, 'yellow apple')",
            "UPDATE t SET body = 'red pear' WHERE rowid = 2",
            "DELETE FROM t WHERE rowid = 1",
            "SELECT rowid, body FROM t WHERE t MATCH 'red OR apple' ORDER BY rowid",
        ],
        other: &["UPDATE t SET body = 'farther away' WHERE rowid = 90"],
        counts_differ: true,
        ..PLOT
    });
}

#[test]
fn r_trees() {
    check(Plot {
        setup: "CREATE VIRTUAL TABLE t USING rtree(id, x0, x1, y0, y1);
                INSERT INTO t VALUES (1, 0, 1, 0, 1), (2, 5, 6, 5, 6), (90, 900, 901, 900, 901);",
        steps: &[
            "SELECT id FROM t WHERE x0 < 3",
            "INSERT INTO t VALUES (3, 2, 3, 2, 3)",
            "DELETE FROM t WHERE id = 1",
            "UPDATE t SET x1 = 7 WHERE id = 2",
            "SELECT id, x1 FROM t WHERE x1 < 100 ORDER BY id",
        ],
        other: &["UPDATE t SET x1 = 950 WHERE id = 90"],
        ..PLOT
    });
}

#[test]
fn tables_without_rowid_and_strict_tables() {
    check(Plot {
        setup: "CREATE TABLE w (k TEXT, n INTEGER, v, PRIMARY KEY (k, n)) WITHOUT ROWID;
                CREATE TABLE s (id INTEGER PRIMARY KEY, n INTEGER, d ANY) STRICT;
                INSERT INTO w VALUES ('a', 1, 'x'), ('b', 1, 'y'), ('z', 1, 'far');
                INSERT INTO s VALUES (1, 1, 'one'), (90, 9, 1.5);",
        steps: &[
            "INSERT INTO w VALUES ('a', 2, x'00ff')",
            "INSERT INTO w VALUES ('a', 1, 'again')",
            "INSERT INTO s VALUES (2, 'no number', 1)",
            "INSERT INTO s VALUES (2, '22', '007')",
            "UPDATE w SET n = n + 10 WHERE k = 'a'",
            "SELECT * FROM w WHERE k < 'm'",
            "SELECT id, n, d, typeof(n), typeof(d) FROM s WHERE id < 50",
        ],
        other: &["UPDATE w SET v = 'farther' WHERE k = 'z'", "UPDATE s SET n = 10 WHERE id = 90"],
        ..PLOT
    });
}

/// What only the own connection can do is executed again there.
#[test]
fn functions_of_the_application() {
    check(Plot {
        steps: &[
            "SELECT twice(b) FROM t WHERE id = 2",
            "UPDATE t SET b = twice(b) WHERE id < 50",
            "INSERT INTO t VALUES (twice(10), 'twenty', twice(4))",
            "SELECT twice('x')",
            "SELECT sum(b) FROM t WHERE id < 50",
        ],
        has_function: true,
        ..PLOT
    });
}

#[test]
fn temporary_tables() {
    check(Plot {
        session: &[
            "CREATE TEMP TABLE mine (id INTEGER PRIMARY KEY, n)",
            "INSERT INTO mine VALUES (1, 100), (2, 200)",
            "CREATE TEMP TRIGGER copies AFTER UPDATE ON t WHEN new.id < 50 BEGIN
                 INSERT INTO mine VALUES (10 + new.id, new.b); END",
        ],
        steps: &[
            "UPDATE mine SET n = n + 1 WHERE id = 1",
            "INSERT INTO t SELECT id + 20, 'from mine', n FROM mine",
            "UPDATE t SET b = 7 WHERE id = 1",
            "SELECT * FROM mine ORDER BY id",
            "SELECT * FROM t WHERE id < 50",
        ],
        ..PLOT
    });
    // Temporary tables made, and only they changed, in the transaction.
    check(Plot {
        steps: &[
            "CREATE TEMP TABLE mine AS SELECT id, b FROM t WHERE id < 50",
            "INSERT INTO t SELECT id + 20, 'copy', b FROM mine",
            "SELECT count(*) FROM mine",
        ],
        ..PLOT
    });
}

/// A change of the schema takes the turn in the middle: what was done before is executed again there.
#[test]
fn a_schema_change_in_the_middle() {
    let steps = [
        "SELECT a FROM t WHERE id = 1",
        "UPDATE t SET b = 10 WHERE id = 1",
        "CREATE TABLE made (id INTEGER PRIMARY KEY, a REFERENCES t)",
        "INSERT INTO made VALUES (1, 1)",
        "ALTER TABLE t ADD COLUMN c DEFAULT 'c'",
        "CREATE INDEX by_a ON t (a)",
        "SELECT * FROM t WHERE id < 50",
        "DROP INDEX by_a",
    ];
    for before in [0, 1, 2] {
        check(Plot { steps: &steps, other_comes_before: Some(before), ..PLOT });
    }
    check(Plot { steps: &steps[2..], other_comes_before: Some(0), ..PLOT });
}

/// What no longer holds is a conflict there and then.
#[test]
fn a_schema_change_after_a_stale_read() {
    let stage = Stage::without_disk();
    let database = story::open(&stage, false);
    execute(&mut connect(&database), ITEM);
    let (mut one, mut other) = (connect(&database), connect(&database));
    let mut transaction = one.transaction().expect("begins");
    assert_eq!(number(&mut transaction, "SELECT count(*) FROM item"), 0);
    execute(&mut other, "INSERT INTO item (note) VALUES ('n')");
    let error = transaction.execute("CREATE TABLE made (a)", params![]).expect_err("it is stale");
    let conflict = error.conflict().unwrap_or_else(|| panic!("no conflict: {error}"));
    assert_eq!((conflict.number, conflict.seen.as_str() != conflict.now), (1, true), "{error}");
    assert!(transaction.is_autocommit(), "it was rolled back");
    drop(transaction);
    execute(&mut one, "CREATE TABLE made (a)");
}

/// Somebody else changes the schema under an open transaction.
#[test]
fn the_schema_changes_meanwhile() {
    check(Plot {
        other: &["ALTER TABLE t ADD COLUMN c DEFAULT 'c'", "CREATE INDEX by_a ON t (a)"],
        steps: &["SELECT a, b FROM t WHERE id = 1", "UPDATE t SET b = 10 WHERE a = 'one'"],
        ..PLOT
    });
}

/// 100,000 rows by 100,000 statements, while others write the same table.
#[test]
fn a_bulk_load() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = story::open(&stage, false);
        connect(&database).execute_script(PLOT.setup).expect("the schema");
        let (mut one, mut other) = (connect(&database), connect(&database));
        let mut transaction = one.transaction().expect("begins");
        for id in 1_000..101_000 {
            if id < 1_010 {
                // Later the load may have moved to its turn, and holds off all others.
                other.execute("UPDATE t SET b = b + 1 WHERE id = 90", params![]).expect("updates");
            }
            transaction
                .execute("INSERT INTO t VALUES (?1, ?2, ?3)", params![id, "some text", id % 7])
                .expect("inserts");
        }
        transaction.commit().expect("commits");
        let path = stage.path();
        assert_eq!(shell(&path, "SELECT count(*), max(id) FROM t"), "100004|100999");
        assert_eq!(shell(&path, "PRAGMA integrity_check"), "ok");
    });
}

/// Time, chance and defaults: what the transaction saw is what is stored, though it was executed twice.
#[test]
fn time_and_chance() {
    let stage = Stage::without_disk();
    let database = story::open(&stage, false);
    connect(&database)
        .execute_script(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, at DEFAULT CURRENT_TIMESTAMP,
                 fine DEFAULT (julianday('now')), chance DEFAULT (random()),
                 bytes DEFAULT (hex(randomblob(8))), v);
             INSERT INTO t (id, v) VALUES (1, 'first');",
        )
        .expect("the schema");
    let (mut one, mut other) = (connect(&database), connect(&database));
    let clock = "SELECT strftime('%s')";
    let before = clock_of(&mut one, clock);
    execute(&mut one, "BEGIN");
    let mut seen = Vec::new();
    for sql in [
        "INSERT INTO t (id, v) VALUES (2, 'x') RETURNING *",
        "INSERT INTO t VALUES (3, datetime('now', 'subsec'), julianday(), random(), randomblob(9), unixepoch('subsec')) RETURNING *",
        "UPDATE t SET chance = random() % 1000, v = strftime('%f') WHERE id = 1 RETURNING *",
    ] {
        seen.push(show(&one.query(sql, params![]).expect("runs")));
    }
    execute(&mut one, "INSERT INTO t (id, v) VALUES (4, 'unread default')");
    seen.push(show(&one.query("SELECT * FROM t WHERE id = 4", params![]).expect("reads")));
    let free = "SELECT random(), hex(randomblob(4)), CURRENT_TIME, julianday('now')";
    let chance = show(&one.query(free, params![]).expect("reads"));
    assert_ne!(chance, show(&one.query(free, params![]).expect("reads")), "chance goes on");
    // Time passes, and the table is written.
    for id in 100..130 {
        execute(&mut other, &format!("INSERT INTO t (id, v) VALUES ({id}, 'other')"));
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    if let Err(error) = one.execute("COMMIT", params![]) {
        panic!("{error}; seen: {seen:#?}");
    }
    let stored = one.query("SELECT * FROM t WHERE id < 10 ORDER BY id", params![]).expect("reads");
    seen.sort();
    assert_eq!(show(&stored), seen.join(", "));
    let stored = "SELECT unixepoch(at) FROM t WHERE id = 2";
    let at = number(&mut one, stored);
    assert!((before..=clock_of(&mut one, clock)).contains(&at), "{at} is not now");
    let distinct =
        "SELECT count(*) = count(DISTINCT chance) AND count(*) = count(DISTINCT bytes) FROM t";
    assert_eq!(number(&mut one, distinct), 1, "nobody's dice are another's");
}

fn clock_of(connection: &mut Connection, sql: &str) -> i64 {
    show(&connection.query(sql, params![]).expect("reads")).parse().expect("seconds")
}

/// A setting that holds until the transaction ends, in the middle of it.
#[test]
fn foreign_keys_deferred_in_the_middle() {
    check(Plot {
        setup: FAMILY,
        other: &["UPDATE parent SET note = 'B' WHERE id = 2"],
        // A setting takes the turn.
        other_comes_before: Some(1),
        steps: &[
            "SELECT count(*) FROM child",
            "PRAGMA defer_foreign_keys = ON",
            "INSERT INTO child VALUES (20, 50)",
            "SELECT count(*) FROM child",
            "INSERT INTO parent VALUES (50, 'in time')",
        ],
        foreign_keys: true,
        ..PLOT
    });
}

/// What the session was told holds where the log is executed again, too.
#[test]
fn the_sessions_own_settings() {
    check(Plot {
        session: &["PRAGMA case_sensitive_like = ON"],
        steps: &[
            "SELECT count(*) FROM t WHERE a LIKE 'ONE'",
            "UPDATE t SET b = 100 WHERE a LIKE 'T%'",
            "SELECT * FROM t WHERE id < 50",
        ],
        ..PLOT
    });
    check(Plot {
        session: &["PRAGMA reverse_unordered_selects = ON"],
        steps: &["SELECT id FROM t", "INSERT INTO t VALUES (5, 'five', (SELECT id FROM t))"],
        ..PLOT
    });
    check(Plot {
        session: &["PRAGMA ignore_check_constraints = ON"],
        setup: "CREATE TABLE t (id INTEGER PRIMARY KEY, b CHECK (b < 10));
                INSERT INTO t VALUES (1, 1), (90, 1)",
        steps: &["UPDATE t SET b = 50 WHERE id = 1", "SELECT b FROM t WHERE id = 1"],
        ..PLOT
    });
    check(Plot {
        session: &["PRAGMA recursive_triggers = ON"],
        setup: "CREATE TABLE t (id INTEGER PRIMARY KEY, b);
                CREATE TRIGGER down AFTER INSERT ON t WHEN new.b > 0 BEGIN
                    INSERT INTO t VALUES (new.id + 1, new.b - 1); END;
                INSERT INTO t VALUES (90, 0);",
        steps: &[
            "INSERT INTO t VALUES (1, 5)",
            "SELECT count(*), total_changes() FROM t WHERE id < 50",
        ],
        ..PLOT
    });
}

/// Others commit so much that the WAL is checkpointed many times, while the transaction's snapshot stands.
#[test]
fn a_long_transaction_over_many_checkpoints() {
    in_time(|| {
        let stage = Stage::without_disk();
        let database = story::open(&stage, false);
        connect(&database).execute_script(PLOT.setup).expect("the schema");
        let (mut one, mut other) = (connect(&database), connect(&database));
        for stale in [false, true] {
            let mut transaction = one.transaction().expect("begins");
            let seen = number(&mut transaction, "SELECT sum(b) FROM t WHERE id < 50");
            execute(&mut transaction, "UPDATE t SET a = 'written early' WHERE id = 1");
            for _ in 0..3_000 {
                execute(&mut other, "UPDATE t SET b = b + 1 WHERE id = 90");
            }
            if stale {
                execute(&mut other, "UPDATE t SET b = b + 1 WHERE id = 2");
            }
            shell(&stage.path(), "PRAGMA wal_checkpoint(TRUNCATE)");
            assert_eq!(number(&mut transaction, "SELECT sum(b) FROM t WHERE id < 50"), seen);
            execute(&mut transaction, "UPDATE t SET a = 'written late' WHERE id = 3");
            let result = transaction.commit();
            assert_eq!(result.is_err(), stale, "{result:?}");
            drop(result);
        }
        let path = stage.path();
        assert_eq!(shell(&path, "PRAGMA integrity_check"), "ok");
        assert_eq!(
            shell(&path, "SELECT a, b FROM t WHERE id IN (3, 90)"),
            "written late|3\nfar|6000"
        );
    });
}

/// Values that are longer than a request may be, results of many rows, and SQL of every shape.
#[test]
fn large_values_and_many_rows() {
    check_steps(&[
        "INSERT INTO t VALUES (4, zeroblob(100000), hex(zeroblob(30000)))",
        "SELECT a, b FROM t WHERE id = 4",
        "INSERT INTO t SELECT 1000 + value, 'many', value FROM json_each('[1,2,3,4,5,6,7,8,9]')",
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
             INSERT INTO t SELECT 2000 + i, 'row ' || i, i * 0.5 FROM n",
        "SELECT * FROM t WHERE id >= 1000",
        "SELECT id, sum(b) OVER (ORDER BY id) FROM t WHERE id BETWEEN 1000 AND 1010",
        "UPDATE t SET b = other.b FROM t AS other WHERE other.id = t.id - 1 AND t.id IN (2, 3)",
        "REPLACE INTO t VALUES (1, 'replaced', 0)",
        "SELECT * FROM t WHERE id < 50",
        "PRAGMA user_version",
    ]);
}

/// An attached database in the same transaction: both files are written, or none.
#[test]
fn attached_databases() {
    let stage = Stage::without_disk();
    let database = story::open(&stage, false);
    connect(&database).execute_script(PLOT.setup).expect("the setup");
    let attached = stage.directory().join("attached.db");
    shell(&attached, "CREATE TABLE o (id INTEGER PRIMARY KEY, a); INSERT INTO o VALUES (1, 'one')");
    let (mut one, mut other) = (connect(&database), connect(&database));
    execute(&mut one, &format!("ATTACH '{}' AS side", attached.display()));
    for (round, conflicts) in [(0, false), (1, true)] {
        execute(&mut one, "BEGIN");
        let seen = number(&mut one, "SELECT b FROM t WHERE id = 1");
        execute(&mut one, &format!("INSERT INTO t VALUES ({}, 'x', {seen})", 10 + round));
        let id = if conflicts { 1 } else { 90 };
        execute(&mut other, &format!("UPDATE t SET b = b + 1 WHERE id = {id}"));
        // Writes of an attached database take the turn: a conflict may show here already.
        let insert = format!("INSERT INTO side.o VALUES ({}, 'y')", 10 + round);
        let written = one.execute(&insert, params![]).map(drop);
        let committed = written.and_then(|()| one.execute("COMMIT", params![]).map(drop));
        match committed {
            Err(error) if conflicts => assert!(error.is_conflict(), "{error}"),
            result => result.expect("nothing that it saw has changed"),
        }
        assert!(one.is_autocommit());
    }
    assert_eq!(shell(&attached, "SELECT group_concat(id) FROM o"), "1,10");
    assert_eq!(shell(&stage.path(), "SELECT group_concat(id) FROM t"), "1,2,3,10,90");
}

/// The checks above can fail: a plot whose transaction reads what the other one writes conflicts.
#[test]
fn a_plot_that_does_not_hold_is_noticed() {
    let told = std::panic::catch_unwind(|| {
        check_steps(&["SELECT sum(b) FROM t", "UPDATE t SET b = 0 WHERE id = 1"]);
    });
    let text = told.expect_err("the sum has changed");
    let text = text.downcast_ref::<String>().expect("a message");
    assert!(text.contains("conflict: statement 1"), "{text}");
}
