use manyhands_sqlite::{self as sqlite, Step};

use super::*;
use crate::Connection;
use crate::Database;
use crate::Error;
use crate::params;

const SCHEMA: &str = "
    CREATE TABLE plain (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, text TEXT);
    CREATE INDEX by_text ON plain (text);
    CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT, n INTEGER);
    CREATE TABLE unnamed (rowid TEXT, n INTEGER);
    CREATE TABLE nameless (rowid, oid, _rowid_);
    CREATE TABLE single (id INTEGER PRIMARY KEY, n INTEGER UNIQUE);
    CREATE TABLE watched (id INTEGER PRIMARY KEY, n INTEGER);
    CREATE TRIGGER watching AFTER UPDATE ON watched BEGIN DELETE FROM plain; END;
    CREATE TABLE keyed (id INTEGER PRIMARY KEY, n INTEGER) WITHOUT ROWID;
    CREATE TABLE child (id INTEGER PRIMARY KEY, single REFERENCES single);
    CREATE TABLE made (id INTEGER PRIMARY KEY, n, twice AS (n + n), stored NOT NULL DEFAULT 3);
    CREATE TABLE partly (id INTEGER PRIMARY KEY, n, text);
    CREATE INDEX some ON partly (text) WHERE n > 20;
    CREATE UNIQUE INDEX others ON partly (n) WHERE n < 5;
    CREATE TABLE checked (id INTEGER PRIMARY KEY, n CHECK (n < 30));
    CREATE TABLE strict (id INTEGER PRIMARY KEY, n INT) STRICT;
    CREATE TABLE kept (id INTEGER PRIMARY KEY ON CONFLICT IGNORE, n NOT NULL ON CONFLICT REPLACE DEFAULT 4);
    CREATE TABLE loose (n TEXT, r REAL);
    CREATE TABLE other (n INTEGER);
    INSERT INTO plain VALUES (1, 10, 'a'), (2, 20, 'b'), (9, 90, 'c');
    INSERT INTO counted VALUES (3, 30);
    INSERT INTO unnamed VALUES ('x', 1);
    INSERT INTO nameless VALUES (1, 2, 3);
    INSERT INTO single VALUES (1, 1);
    INSERT INTO watched VALUES (1, 1);
    INSERT INTO keyed VALUES (1, 1);";

fn stage() -> (tempfile::TempDir, Database, Connection) {
    let directory = tempfile::tempdir().expect("a directory");
    let database = Database::open(directory.path().join("app.db")).expect("the database");
    let mut connection = database.connect().expect("a connection");
    connection.execute_script(SCHEMA).expect("the schema");
    (directory, database, connection)
}

fn kept(connection: &Connection) -> usize {
    let kept = connection.optimistic.as_ref().and_then(|it| it.deferred_writes.as_ref());
    kept.map_or(0, |kept| kept.entries.len())
}

/// Executes a statement often enough for it to be looked at, and takes back what it did.
fn warm_up(connection: &mut Connection, sql: &str, values: &[Value]) {
    for _ in 0..3 {
        begin(connection);
        let _ = connection.execute(sql, values);
        connection.execute("ROLLBACK", &[]).expect("rolls back");
    }
}

fn is_kept(connection: &mut Connection, sql: &str, values: &[Value]) -> bool {
    warm_up(connection, sql, values);
    begin(connection);
    let result = connection.execute(sql, values);
    let is_kept = kept(connection) == 1;
    assert!(!is_kept || result.is_ok_and(|it| it.changes() == 1), "{sql} {values:?}");
    connection.execute("ROLLBACK", &[]).expect("rolls back");
    is_kept
}

/// The row of a query that answers one, of integers.
fn one(connection: &mut Connection, sql: &str) -> Vec<i64> {
    let rows = connection.query(sql, &[]).expect(sql);
    let number = |column| rows[0].get(column).expect("an integer");
    (0..rows[0].values().len()).map(number).collect()
}

fn begin(connection: &mut Connection) {
    connection.execute("BEGIN CONCURRENT", &[]).expect("begins");
}

fn commit(connection: &mut Connection) {
    connection.execute("COMMIT", &[]).expect("commits");
}

/// Somebody else commits, so that the open transaction cannot be committed as it is.
fn interfere(database: &Database) {
    let mut other = database.connect().expect("a connection");
    other.execute("INSERT INTO other VALUES (1)", params![]).expect("inserts");
}

#[test]
fn what_changes_one_row_is_deferred() {
    let (_directory, _, mut connection) = stage();
    for (sql, values) in [
        ("INSERT INTO plain VALUES (?1, ?2, 'x')", params![5, 50]),
        ("INSERT INTO plain (n, id) VALUES (?, ?)", params![50, -5]),
        ("INSERT INTO plain (n) VALUES (?)", params![50]),
        ("INSERT INTO plain (text, n) VALUES ('it''s', 50)", params![]),
        ("INSERT INTO plain (n) VALUES (?) RETURNING id", params![50]),
        ("INSERT INTO plain VALUES (?1, ?2, 'x') RETURNING rowid AS it", params![5, 50]),
        ("INSERT INTO counted (n) VALUES (?) RETURNING id", params![70]),
        ("INSERT INTO counted VALUES (?, ?)", params![7, 70]),
        ("INSERT INTO counted (n) VALUES (?)", params![70]),
        ("INSERT INTO unnamed (oid, n) VALUES (?, ?)", params![7, 70]),
        ("INSERT INTO unnamed VALUES (?, ?)", params!["x", 70]),
        ("UPDATE plain SET n = n + ?2 WHERE id = ?1", params![2, 5]),
        ("UPDATE plain SET text = ?2, n = ?3 WHERE rowid = ?1", params![9, "z", 5]),
        ("UPDATE single SET id = id WHERE id = ?", params![1]),
        ("UPDATE unnamed SET n = ? WHERE oid = ?", params![5, 1]),
        ("UPDATE keyed SET n = ? WHERE id = ?", params![5, 1]),
    ] {
        let expected = !sql.contains("single") && !sql.contains("keyed");
        assert_eq!(is_kept(&mut connection, sql, values), expected, "{sql}");
    }
}

#[test]
fn what_may_change_another_or_none_is_not() {
    let (_directory, _, mut connection) = stage();
    for (sql, values) in [
        ("INSERT INTO plain VALUES (?1, ?2, 'x')", params![9, 50]),
        ("INSERT INTO plain VALUES (?1, ?2, 'x')", params!["5", 50]),
        ("INSERT INTO plain VALUES (?1, ?2, 'x')", params![5.0, 50]),
        ("INSERT INTO plain VALUES (?1, ?2, 'x')", params![5, Option::<i64>::None]),
        ("INSERT INTO plain VALUES (?1, ?2, 'x')", params![Option::<i64>::None, 50]),
        ("INSERT INTO plain VALUES (?1 + 1, ?2, 'x')", params![5, 50]),
        ("INSERT OR REPLACE INTO plain VALUES (?1, ?2, 'x')", params![5, 50]),
        ("INSERT OR ROLLBACK INTO plain VALUES (?1, ?2, 'x')", params![5, 50]),
        ("INSERT OR FAIL INTO plain VALUES (?1, ?2, 'x')", params![5, 50]),
        ("INSERT INTO plain VALUES (?1, ?2, 'x') ON CONFLICT DO NOTHING", params![5, 50]),
        ("INSERT INTO plain VALUES (?1, ?2, 'x'), (6, 6, 'x')", params![5, 50]),
        ("INSERT INTO plain VALUES (?1, ?2, 'x') RETURNING n", params![5, 50]),
        ("INSERT INTO plain VALUES (?1, ?2, 'x') RETURNING *", params![5, 50]),
        ("INSERT INTO plain VALUES (?1, ?2, 'x') RETURNING id, id", params![5, 50]),
        ("INSERT INTO plain (n) VALUES (?) RETURNING id + 1", params![50]),
        ("INSERT INTO plain (n) VALUES (?), (1) RETURNING id", params![50]),
        ("INSERT INTO plain (n) SELECT n FROM plain RETURNING id", params![]),
        ("INSERT INTO nameless VALUES (?, 1, 1)", params![5]),
        ("INSERT INTO single VALUES (?, ?)", params![5, 50]),
        ("INSERT INTO keyed VALUES (?, ?)", params![5, 50]),
        ("UPDATE plain SET n = n + ?2 WHERE id = ?1", params![5, 5]),
        ("UPDATE plain SET n = n + ?2 WHERE id = ?1", params!["2", 5]),
        ("UPDATE plain SET n = n + ?2 WHERE id = ?1 AND n > 5", params![2, 5]),
        ("UPDATE plain SET n = n + ?2 WHERE id >= ?1", params![2, 5]),
        ("UPDATE plain SET n = n + ?2 WHERE id IN (?1, 1)", params![2, 5]),
        ("UPDATE plain SET n = (SELECT n FROM single) WHERE id = ?", params![2]),
        ("UPDATE plain SET text = (SELECT n FROM single) WHERE id = ?", params![2]),
        ("UPDATE plain SET text = CASE WHEN ?2 THEN 'x' END WHERE id = ?1", params![2, 5]),
        ("UPDATE plain SET id = ?2 WHERE id = ?1", params![2, 5]),
        ("UPDATE plain SET id = ?2, n = 5 WHERE id = ?1", params![2, 2]),
        ("UPDATE OR REPLACE plain SET id = ?2 WHERE id = ?1", params![2, 5]),
        ("UPDATE plain SET n = s.n FROM single s WHERE s.id = ?1 AND plain.id = s.n", params![1]),
        ("UPDATE plain SET n = ?2 WHERE id = ?1 RETURNING n", params![2, 5]),
        ("UPDATE plain SET n = ?2 WHERE id = ?1 RETURNING id", params![2, 5]),
        ("UPDATE plain SET n = n WHERE id = 2", params![]),
        ("UPDATE watched SET n = ?2 WHERE id = ?1", params![1, 5]),
        ("DELETE FROM plain WHERE id = ?", params![2]),
    ] {
        assert!(!is_kept(&mut connection, sql, values), "{sql}");
    }
}

#[test]
fn a_connection_that_is_not_plain_keeps_nothing_back() {
    let (_directory, _, mut connection) = stage();
    let (sql, values) = ("INSERT INTO plain VALUES (?1, ?2, 'x')", params![5, 50]);
    assert!(is_kept(&mut connection, sql, values));
    connection.execute("CREATE TEMP TABLE mine (n)", params![]).expect("creates");
    assert!(!is_kept(&mut connection, sql, values));
}

#[test]
fn settings_that_all_connections_would_have_are_none_of_its_own() {
    let (_directory, _, mut connection) = stage();
    let plain = ("INSERT INTO plain (n) VALUES (?)", params![5]);
    let children = [
        ("INSERT INTO child VALUES (?, ?)", params![5, 7]),
        ("INSERT INTO child (single) VALUES (?)", params![7]),
    ];
    for foreign_keys in [false, true, false] {
        let sql = format!("PRAGMA foreign_keys = {foreign_keys}");
        connection.execute(&sql, &[]).expect("sets");
        assert!(is_kept(&mut connection, plain.0, plain.1));
        for (sql, values) in children {
            assert_eq!(is_kept(&mut connection, sql, values), !foreign_keys, "{sql}");
        }
    }
    for setting in ["query_only = 1", "max_page_count = 5"] {
        connection.execute(&format!("PRAGMA {setting}"), &[]).expect("sets");
        assert!(!is_kept(&mut connection, plain.0, plain.1), "{setting}");
    }
}

/// Whatever it asks: the statement was executed, for all that it can see.
#[test]
fn the_transaction_sees_what_it_has_deferred() {
    let (_directory, database, mut connection) = stage();
    let (put, add) = ("INSERT INTO plain VALUES (?, ?, 'x')", "INSERT INTO plain (n) VALUES (?)");
    let change = "UPDATE plain SET n = n + ? WHERE id = ?";
    warm_up(&mut connection, put, params![5, 50]);
    warm_up(&mut connection, add, params![5]);
    warm_up(&mut connection, change, params![1, 1]);
    begin(&mut connection);
    let total = connection.total_changes();
    let done = connection.execute(put, params![5, 50]).expect("inserts");
    assert_eq!((done.changes(), done.last_insert_rowid()), (1, 5));
    assert_eq!((connection.changes(), connection.last_insert_rowid()), (1, 5));
    let done = connection.execute(add, params![100]).expect("inserts");
    assert_eq!((done.changes(), done.last_insert_rowid()), (1, 10));
    let done = connection.execute(change, params![7, 10]).expect("updates its own row");
    assert_eq!((done.changes(), done.last_insert_rowid()), (1, 10));
    assert_eq!(connection.total_changes(), total + 3);
    assert_eq!(kept(&connection), 3);
    // An id that is its own by now.
    let error = connection.execute(put, params![10, 1]).expect_err("there is such a row");
    assert_eq!(error.code().map(crate::Code::name), Some("SQLITE_CONSTRAINT_PRIMARYKEY"));
    assert_eq!(kept(&connection), 0);
    let row = one(&mut connection, "SELECT n, total_changes() FROM plain WHERE id = 10");
    assert_eq!(row, [107, total + 3]);
    connection.execute(change, params![1, 5]).expect("updates");
    assert_eq!(kept(&connection), 1);
    interfere(&database);
    commit(&mut connection);
    assert_eq!(one(&mut connection, "SELECT n FROM plain WHERE id = 5"), [51]);
    assert_eq!(one(&mut connection, "SELECT n FROM plain WHERE id = 10"), [107]);
    assert_eq!(connection.total_changes(), total + 4);
}

/// The ways of a transaction to its end, all of which execute what is deferred once.
#[test]
fn what_is_deferred_is_executed_in_the_end() {
    type End = fn(&mut Connection, &Database);
    let ends: &[(&str, End, i64)] = &[
        ("nobody else has committed", |it, _| commit(it), 2),
        (
            "somebody else has",
            |it, database| {
                interfere(database);
                commit(it);
            },
            2,
        ),
        (
            "on a fork that is promoted",
            |it, _| {
                it.execute("UPDATE plain SET n = 0 WHERE n > 1000", &[]).expect("updates");
                it.execute("UPDATE plain SET n = n + ? WHERE id = ?", params![1, 1]).expect("too");
                assert_eq!(kept(it), 1);
                commit(it);
            },
            3,
        ),
        (
            "on a fork that is replayed",
            |it, database| {
                it.execute("UPDATE plain SET n = 0 WHERE n > 1000", &[]).expect("updates");
                it.execute("UPDATE plain SET n = n + ? WHERE id = ?", params![1, 1]).expect("too");
                interfere(database);
                commit(it);
            },
            3,
        ),
        (
            "in its turn",
            |it, database| {
                interfere(database);
                it.execute("CREATE TABLE late (n)", &[]).expect("creates");
                commit(it);
            },
            2,
        ),
        ("rolled back", |it, _| drop(it.execute("ROLLBACK", &[]).expect("rolls back")), 0),
        (
            "to a savepoint",
            |it, _| {
                it.execute("SAVEPOINT s", &[]).expect("a savepoint");
                it.execute("UPDATE plain SET n = n + ? WHERE id = ?", params![1, 1]).expect("too");
                it.execute("ROLLBACK TO s", &[]).expect("goes back");
                commit(it);
            },
            2,
        ),
    ];
    for (end, finish, added) in ends {
        let (_directory, database, mut connection) = stage();
        let change = "UPDATE plain SET n = n + ? WHERE id = ?";
        warm_up(&mut connection, change, params![1, 1]);
        begin(&mut connection);
        for _ in 0..2 {
            connection.execute(change, params![1, 1]).expect("updates");
        }
        assert_eq!(kept(&connection), 2, "{end}");
        finish(&mut connection, &database);
        assert_eq!(one(&mut connection, "SELECT n FROM plain WHERE id = 1"), [10 + added], "{end}");
    }
}

#[test]
fn nothing_is_executed_twice_where_nobody_else_writes() {
    let (_directory, database, mut connection) = stage();
    let (put, values) = ("INSERT INTO plain (n) VALUES (?)", params![5]);
    warm_up(&mut connection, put, values);
    let before = database.statistics().expect("statistics");
    begin(&mut connection);
    connection.execute(put, values).expect("inserts");
    commit(&mut connection);
    let now = database.statistics().expect("statistics");
    assert_eq!((now.promotions, now.replays), (before.promotions + 1, before.replays));
}

/// Its caller was told that there is one such row, or none.
#[test]
fn who_was_told_something_else_conflicts() {
    for (sql, values, other) in [
        (
            "INSERT INTO plain VALUES (?, ?, 'x')",
            params![5, 50],
            "INSERT INTO plain VALUES (5, 1, 'y')",
        ),
        (
            "UPDATE plain SET n = n + ? WHERE id = ?",
            params![1, 2],
            "DELETE FROM plain WHERE id = 2",
        ),
    ] {
        for is_asked in [true, false] {
            let (_directory, database, mut connection) = stage();
            warm_up(&mut connection, sql, values);
            begin(&mut connection);
            let done = connection.execute(sql, values).expect(sql);
            assert_eq!(kept(&connection), 1, "{sql}");
            if is_asked {
                assert_eq!(done.changes(), 1);
            }
            let mut another = database.connect().expect("a connection");
            another.execute(other, &[]).expect(other);
            let ended = connection.execute("COMMIT", &[]);
            // How many rows an UPDATE changes, nobody knows who has not asked.
            let conflicts = is_asked || sql.starts_with("INSERT");
            assert_eq!(ended.is_err_and(|error| error.is_conflict()), conflicts, "{sql}");
            assert!(connection.is_autocommit());
        }
    }
}

/// The schema that was looked at is not the one of the snapshot any more.
#[test]
fn after_a_change_of_the_schema_it_is_looked_at_again() {
    let (_directory, database, mut connection) = stage();
    let mut another = database.connect().expect("a connection");
    let (sql, values) = ("UPDATE plain SET text = ? WHERE id = ?", params!["a", 2]);
    warm_up(&mut connection, sql, values);
    begin(&mut connection);
    connection.execute(sql, values).expect("updates");
    assert_eq!(kept(&connection), 1);
    connection.execute("ROLLBACK", &[]).expect("rolls back");
    another.execute("CREATE UNIQUE INDEX single_text ON plain (text)", &[]).expect("creates");
    begin(&mut connection);
    let error: Error = connection.execute(sql, values).expect_err("there is such a text");
    assert_eq!(error.code().map(crate::Code::name), Some("SQLITE_CONSTRAINT_UNIQUE"));
    connection.execute("ROLLBACK", &[]).expect("rolls back");
    another.execute("DROP INDEX single_text", &[]).expect("drops");
    assert!(is_kept(&mut connection, sql, values));
    // In the middle of a transaction that has kept something back.
    begin(&mut connection);
    connection.execute(sql, values).expect("updates");
    assert_eq!(kept(&connection), 1);
    another.execute("CREATE UNIQUE INDEX single_text ON plain (text)", &[]).expect("creates");
    let ended = connection.execute("COMMIT", &[]);
    assert!(ended.is_err_and(|error| error.is_conflict()), "its caller saw no error");
}

#[test]
fn who_loads_in_bulk_keeps_a_bounded_number_back() {
    let (_directory, _, mut connection) = stage();
    let sql = "INSERT INTO counted (n) VALUES (?)";
    warm_up(&mut connection, sql, params![1]);
    begin(&mut connection);
    let mut most = 0;
    for n in 0..2500_i64 {
        connection.execute(sql, params![n]).expect("inserts");
        most = most.max(kept(&connection));
    }
    assert_eq!(most, limits::DEFERRED_WRITES_MAX);
    commit(&mut connection);
    assert_eq!(one(&mut connection, "SELECT count(*), max(id) FROM counted"), [2501, 2503]);
}

/// What a statement told: what it counted, the last rowid, the total, and its rows; or its error.
type Told = Result<(i64, i64, i64, Vec<Vec<Value>>), i32>;

fn told(connection: &mut Connection, sql: &str, values: &[Value], total: i64) -> Told {
    let done = connection.execute(sql, values);
    let total = connection.total_changes() - total;
    let rows = |done: &Outcome| done.rows.iter().map(|row| row.values().to_vec()).collect();
    done.map(|done| (connection.changes(), done.last_insert_rowid(), total, rows(&done)))
        .map_err(|error| error.code().map_or(0, |code| code.0))
}

fn told_by_sqlite(model: &sqlite::Connection, sql: &str, values: &[Value], total: i64) -> Told {
    let run = || {
        let mut statement = model.prepare_one(sql)?;
        statement.bind_all(values.iter().map(Value::as_ref))?;
        let mut rows = Vec::new();
        while statement.step()? == Step::Row {
            rows.push(statement.row());
        }
        Ok(rows)
    };
    let counted =
        |rows| (model.changes(), model.last_insert_rowid(), model.total_changes() - total, rows);
    run().map(counted).map_err(|error: sqlite::Error| error.code.0)
}

/// Whichever statements a transaction has (but for what leaves gaps in ids, as ROLLBACK TO and an INSERT that fails), however it ends, and whether others commit meanwhile.
#[test]
fn it_is_all_as_sqlite_alone_does_it() {
    let (_directory, database, mut connection) = stage();
    let model = crate::statement::in_memory();
    model.execute(SCHEMA).expect("the schema");
    let keys = "PRAGMA foreign_keys = ON";
    model.execute(keys).expect(keys);
    connection.execute(keys, &[]).expect(keys);
    let statements = [
        "INSERT INTO plain VALUES (?1, ?2, ?3)",
        "INSERT INTO plain (id, n) VALUES (?1, ?2)",
        "INSERT INTO plain (n) VALUES (?2)",
        "INSERT INTO counted VALUES (?1, ?2)",
        "INSERT INTO counted (n) VALUES (?2)",
        "INSERT INTO counted (n) VALUES (?2) RETURNING id",
        "UPDATE plain SET n = n + ?2 WHERE id = ?1",
        "UPDATE plain SET text = ?3, n = ?2 WHERE id = ?1",
        "INSERT INTO made (id, n) VALUES (?1, ?3)",
        "INSERT INTO made (n, stored) VALUES (?3, ?2) RETURNING rowid",
        "UPDATE made SET n = ?3, stored = stored + ?2 WHERE id = ?1",
        "INSERT INTO partly VALUES (?1, ?2, ?3)",
        "UPDATE partly SET n = ?2, text = ?3 WHERE id = ?1",
        "INSERT INTO checked VALUES (?1, ?2)",
        "UPDATE checked SET n = ?2 WHERE id = ?1",
        "INSERT INTO strict VALUES (?1, ?3)",
        "UPDATE strict SET n = ?3 WHERE id = ?1",
        "INSERT INTO kept VALUES (?1, ?3)",
        "INSERT INTO kept (n) VALUES (?3)",
        "UPDATE kept SET n = ?3 WHERE id = ?1",
        "INSERT INTO child VALUES (?1, ?2)",
        "UPDATE child SET single = ?2 WHERE id = ?1",
        "INSERT INTO single VALUES (?1, ?2)",
        "DELETE FROM single WHERE id = ?1",
        "INSERT INTO loose (rowid, n, r) VALUES (?1, ?2, ?3)",
        "INSERT INTO loose VALUES (?2, ?3)",
        "UPDATE loose SET n = ?3, r = r + ?2 WHERE rowid = ?1",
        "UPDATE counted SET n = ?2 WHERE id = ?1",
        "UPDATE plain SET id = ?2 WHERE id = ?1",
        "DELETE FROM plain WHERE id = ?1",
        "DELETE FROM counted WHERE id > ?1",
        "SELECT count(*), max(id), sum(n) FROM plain WHERE id <= ?1",
        "SELECT changes(), total_changes() * 0, last_insert_rowid()",
        "SAVEPOINT s",
        "RELEASE s",
    ];
    let mut dice = 11_u64;
    let mut roll = |sides: usize| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (dice >> 33) as usize % sides
    };
    let (mut most, mut of_kinds) = (0, [0; 3]);
    for round in 0..600 {
        begin(&mut connection);
        model.execute("BEGIN").expect("begins");
        for _ in 0..1 + roll(8) {
            let sides = if roll(3) == 0 { statements.len() } else { 28 };
            let sql = statements[roll(sides)];
            let count = model.prepare_one(sql).expect(sql).parameter_count();
            let other = [
                Value::Null,
                Value::from("text"),
                Value::from("7"),
                Value::Real(0.5),
                Value::Real(-0.0),
                Value::from(vec![0_u8]),
                Value::from(i64::MAX),
                Value::from(3),
            ];
            let other = other[roll(8)].clone();
            // After the greatest of all, SQLite chooses ids at random.
            let is_last = other == Value::from(i64::MAX);
            let id = if roll(12) == 0 && !is_last {
                other.clone()
            } else {
                Value::from(roll(40) as i64)
            };
            let values = [id, Value::from(roll(40) as i64), other];
            let values = &values[..count];
            let totals = (connection.total_changes(), model.total_changes());
            let expected = told_by_sqlite(&model, sql, values, totals.1);
            let found = told(&mut connection, sql, values, totals.0);
            assert_eq!(found, expected, "{sql} {values:?} in round {round}");
            most = most.max(kept(&connection));
        }
        let end = roll(5);
        if end < 2 {
            interfere(&database);
        }
        let sql = if end == 4 { "ROLLBACK" } else { "COMMIT" };
        connection.execute(sql, &[]).expect(sql);
        model.execute(sql).expect(sql);
        of_kinds[[1, 1, 0, 0, 2][end]] += 1;
        let tables =
            ["plain", "counted", "made", "partly", "checked", "strict", "kept", "child", "loose"];
        for table in tables {
            let all = format!("SELECT oid, * FROM {table} ORDER BY oid");
            let found = told(&mut connection, &all, &[], 0).map(|(.., rows)| rows);
            let expected = told_by_sqlite(&model, &all, &[], 0).map(|(.., rows)| rows);
            assert_eq!(found, expected, "after round {round}");
        }
    }
    assert!(most > 3 && of_kinds.iter().all(|&times| times > 80), "{most} {of_kinds:?}");
    let counts = database.statistics().expect("statistics");
    assert!(counts.promotions > 80 && counts.replays > 80 && counts.conflicts == 0, "{counts:?}");
}
