//! What is foreseen of statements, for one schema after the other.

use manyhands_sqlite as sqlite;

use super::*;
use crate::Database;
use crate::TransactionMode;

const SCHEMA: &str = "
    CREATE TABLE plain (a, b);
    CREATE TABLE numbered (id INTEGER PRIMARY KEY AUTOINCREMENT, a);
    CREATE TABLE note (id INTEGER PRIMARY KEY, level TEXT NOT NULL, text TEXT, n REAL NOT NULL DEFAULT 2);
    CREATE INDEX by_level ON note (level);
    CREATE TABLE single (a, b UNIQUE);
    CREATE TABLE checked (a CHECK (a > 1));
    CREATE TABLE dated (a, at DEFAULT CURRENT_TIMESTAMP);
    CREATE TABLE strict (a INT, b TEXT) STRICT;
    CREATE TABLE keyed (a PRIMARY KEY, b) WITHOUT ROWID;
    CREATE TABLE made (a, b AS (a + 1));
    CREATE TABLE partly (a, b);
    CREATE INDEX some ON partly (a) WHERE b > 1;
    CREATE TABLE watched (a);
    CREATE TRIGGER watching AFTER INSERT ON watched BEGIN INSERT INTO plain VALUES (1, 1); END;
    CREATE TABLE parent (id INTEGER PRIMARY KEY);
    CREATE TABLE child (a REFERENCES parent);
    CREATE TABLE added (a);
    INSERT INTO added VALUES (1);
    ALTER TABLE added ADD COLUMN n INT NOT NULL DEFAULT (CAST(NULL AS INT));
    ALTER TABLE added ADD COLUMN m INT NOT NULL DEFAULT -1;
    ALTER TABLE added ADD COLUMN o TEXT NOT NULL DEFAULT 'x';
    CREATE VIEW shown AS SELECT a FROM plain;
    CREATE TRIGGER instead INSTEAD OF INSERT ON shown BEGIN INSERT INTO plain VALUES (1, 1); END;
    CREATE VIRTUAL TABLE words USING fts5 (word);";

/// A database, and a connection that its last statement does not hold.
fn stage() -> (tempfile::TempDir, Connection) {
    let directory = tempfile::tempdir().expect("a directory");
    let builder = Database::builder(directory.path().join("app.db"));
    let database = builder.transaction_mode(TransactionMode::Auto).foreign_keys(true);
    let mut connection = database.open().and_then(|it| it.connect()).expect("the database opens");
    connection.execute_script(SCHEMA).expect("the schema");
    (directory, connection)
}

/// What is foreseen of a statement when it has been executed once.
fn foreseen(connection: &mut Connection, sql: &str, values: &[Value]) -> Option<InfallibleWrite> {
    let _ = connection.execute(sql, values);
    connection.infallible_write(sql, values)
}

fn is_infallible(connection: &mut Connection, sql: &str, values: &[Value]) -> bool {
    foreseen(connection, sql, values) == Some(InfallibleWrite::OneRow)
}

fn adds_row(connection: &mut Connection, sql: &str, values: &[Value]) -> bool {
    connection.infallible_write(sql, values) == Some(InfallibleWrite::OneRow)
}

#[test]
fn a_text_with_values_is_looked_at_when_it_comes_again() {
    let (_directory, mut connection) = stage();
    for sql in ["INSERT INTO plain VALUES (7, 8)", "INSERT INTO plain (a) VALUES ('x')"] {
        assert!(!adds_row(&mut connection, sql, &[]), "{sql}");
        assert!(is_infallible(&mut connection, sql, &[]), "{sql}");
    }
    assert!(adds_row(&mut connection, "INSERT INTO plain DEFAULT VALUES", &[]));
    assert!(adds_row(&mut connection, "INSERT INTO plain (a) VALUES (?1)", &[Value::Null]));
}

#[test]
fn a_row_that_nothing_is_asked_of_is_infallible() {
    let (_directory, mut connection) = stage();
    let one = Value::from(1);
    for (sql, count) in [
        ("INSERT INTO plain VALUES (?1, ?2)", 2),
        ("INSERT INTO plain VALUES (7, NULL) -- a comment", 0),
        ("INSERT INTO plain (b) VALUES (:b);", 1),
        ("INSERT INTO plain DEFAULT VALUES", 0),
        ("REPLACE INTO plain VALUES (?, ?)", 2),
        ("INSERT INTO numbered DEFAULT VALUES", 0),
        ("INSERT INTO numbered (a) VALUES (?)", 1),
        ("INSERT INTO note (level, text) VALUES (?, ?)", 2),
        ("INSERT INTO note (level) VALUES ('low')", 0),
        ("INSERT OR REPLACE INTO note (n, level) VALUES (?, 'low')", 1),
    ] {
        let values = vec![one.clone(); count];
        assert!(is_infallible(&mut connection, sql, &values), "{sql}");
        // And so it is: one row more, whatever the values.
        for value in [Value::from("x"), Value::Real(0.5), Value::from(vec![0_u8])] {
            let values = vec![value; count];
            assert!(adds_row(&mut connection, sql, &values), "{sql}");
            let outcome = connection.execute(sql, &values).expect(sql);
            assert_eq!((outcome.changes(), outcome.rows.len()), (1, 0), "{sql}");
        }
    }
}

#[test]
fn what_may_do_nothing_or_more_succeeds() {
    let (_directory, mut connection) = stage();
    for (sql, count) in [
        ("INSERT INTO plain VALUES (?1, ?2), (1, 2)", 2),
        ("INSERT INTO plain SELECT ?, ?", 2),
        ("INSERT INTO plain VALUES (?1 + 1, 2)", 1),
        ("INSERT INTO plain (rowid, a) VALUES (?, 1) ON CONFLICT DO NOTHING", 1),
        ("INSERT INTO note VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET n = n + 1", 4),
        ("INSERT OR IGNORE INTO note (level) VALUES (?)", 1),
        ("INSERT OR IGNORE INTO single VALUES (?, ?)", 2),
        ("REPLACE INTO single VALUES (?, ?)", 2),
        ("INSERT INTO single VALUES (?, ?) ON CONFLICT DO UPDATE SET a = excluded.a", 2),
        ("INSERT INTO made VALUES (?)", 1),
        ("INSERT INTO partly VALUES (?, ?)", 2),
        ("UPDATE plain SET a = ? WHERE b = 1", 1),
        ("UPDATE plain SET a = a + ?, b = b * a WHERE rowid IN (?, 2) OR b > ?", 3),
        ("UPDATE note SET level = ?, n = n - ? WHERE id = ?", 3),
        ("UPDATE note SET text = (SELECT b FROM single WHERE b = ?) WHERE level < 'x'", 1),
        ("UPDATE added SET m = m + ?, o = o - ?", 2),
        ("UPDATE keyed SET b = ? WHERE a BETWEEN ? AND ?", 3),
        ("UPDATE single SET a = CASE WHEN b THEN ? ELSE a END", 1),
        ("DELETE FROM plain WHERE a = ?", 1),
        ("DELETE FROM plain", 0),
        ("DELETE FROM keyed WHERE a IN (SELECT b FROM single)", 0),
    ] {
        let values = vec![Value::from(1); count];
        let found = foreseen(&mut connection, sql, &values);
        assert_eq!(found, Some(InfallibleWrite::Success), "{sql}");
    }
}

#[test]
fn what_may_fail_is_not_infallible() {
    let (_directory, mut connection) = stage();
    for (sql, count) in [
        ("INSERT INTO plain VALUES (?1 + 1, random())", 1),
        ("INSERT INTO plain VALUES (?, ?) RETURNING a", 2),
        ("INSERT INTO plain (rowid, a) VALUES (?, 1)", 1),
        ("INSERT INTO numbered VALUES (?, 1)", 1),
        ("INSERT INTO note VALUES (?, ?, ?, ?)", 4),
        ("INSERT INTO note (text) VALUES (?)", 1),
        ("INSERT INTO note (level) SELECT b FROM single WHERE b = ?", 1),
        ("INSERT INTO single VALUES (?, ?)", 2),
        ("INSERT INTO checked VALUES (?)", 1),
        ("INSERT INTO dated (a) VALUES (?)", 1),
        ("INSERT INTO strict VALUES (?, ?)", 2),
        ("INSERT INTO keyed VALUES (?, ?)", 2),
        ("INSERT INTO watched VALUES (?)", 1),
        ("INSERT INTO child VALUES (?)", 1),
        ("INSERT INTO shown VALUES (?)", 1),
        ("INSERT INTO words VALUES (?)", 1),
        ("UPDATE note SET n = text WHERE id = ?", 1),
        ("UPDATE note SET n = n * ?", 1),
        ("UPDATE note SET n = n + n WHERE id = ?", 1),
        ("UPDATE note SET n = text + ? WHERE id = 1", 1),
        ("UPDATE note SET n = CASE WHEN id > ? THEN n + 1 ELSE text END", 1),
        ("UPDATE note SET id = id + ?", 1),
        ("UPDATE single SET b = ? WHERE a = 1", 1),
        ("UPDATE plain SET a = a || ?", 1),
        ("UPDATE plain SET a = abs(?)", 1),
        ("UPDATE checked SET a = a + ?", 1),
        ("UPDATE strict SET a = ?", 1),
        ("UPDATE child SET a = ?", 1),
        ("UPDATE added SET n = n + ?", 1),
        ("UPDATE plain SET a = ? RETURNING b", 1),
        ("DELETE FROM plain WHERE a = ? RETURNING b", 1),
        ("DELETE FROM parent WHERE id = ?", 1),
        ("DELETE FROM words WHERE word = ?", 1),
        ("SELECT ?", 1),
        ("INSERT INTO nowhere VALUES (?)", 1),
    ] {
        let values = vec![Value::from(1); count];
        assert_eq!(foreseen(&mut connection, sql, &values), None, "{sql}");
    }
}

#[test]
fn what_is_foreseen_comes() {
    let (_directory, mut connection) = stage();
    let values = [
        Value::Null,
        Value::from(0),
        Value::from(3),
        Value::from(i64::MAX),
        Value::Real(0.5),
        Value::Real(f64::INFINITY),
        Value::Real(f64::NEG_INFINITY),
        Value::Real(f64::NAN),
        Value::from("3"),
        Value::from("9e999"),
        Value::from(vec![0_u8]),
    ];
    let statements = [
        "INSERT INTO note VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) DO UPDATE SET n = n + ?4, text = ?1",
        "INSERT OR IGNORE INTO note VALUES (?1, ?2, ?3, ?4)",
        "INSERT OR REPLACE INTO note VALUES (?1, ?2, ?3, ?4)",
        "INSERT INTO note (level, text, n) VALUES (?1, ?2, ?3), (?4, ?3, ?2)",
        "INSERT INTO note (level, n) VALUES (?1, ?2), ('x', 4) ON CONFLICT DO NOTHING -- ?3 ?4",
        "UPDATE note SET n = n + ?1, level = level - ?2 WHERE n > ?3 OR text = ?4",
        "UPDATE note SET n = ?1 - n, level = n + ?2 WHERE id <> ?3 AND id IN (?4, 3)",
        "UPDATE note SET level = CASE WHEN n > ?1 THEN ?2 ELSE ?3 END WHERE text IS NOT ?4",
        "UPDATE note SET n = CASE WHEN n > ?1 THEN n + ?2 ELSE n - 1 END WHERE text IS NOT ?4",
        "UPDATE OR REPLACE single SET b = ?1 WHERE a IN (?2, ?3, ?4)",
        "REPLACE INTO single VALUES (?1, ?2)",
        "DELETE FROM partly WHERE a BETWEEN ?1 AND ?2 AND b = ?3",
    ];
    let mut dice = 7_u64;
    let mut roll = |sides: usize| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (dice >> 33) as usize % sides
    };
    let mut infallible_write_with = [0; 12];
    for _ in 0..4000 {
        let chosen = roll(statements.len());
        let sql = statements[chosen];
        let count = connection.parameter_names(sql).expect(sql).len();
        let values: Vec<Value> = (0..count).map(|_| values[roll(values.len())].clone()).collect();
        let foreseen = connection.infallible_write(sql, &values);
        let outcome = connection.execute(sql, &values);
        if foreseen.is_some() {
            infallible_write_with[chosen] += 1;
            let changes = outcome.map(|it| it.changes());
            let changes = changes.unwrap_or_else(|error| panic!("{sql} {values:?}: {error}"));
            assert!(foreseen == Some(InfallibleWrite::Success) || changes == 1, "{sql} {values:?}");
        }
    }
    assert!(infallible_write_with.iter().all(|&times| times > 3), "{infallible_write_with:?}");
}

#[test]
fn a_no_is_remembered_too() {
    let (_directory, mut connection) = stage();
    for sql in [
        "INSERT INTO plain (a) VALUES (1) RETURNING a",
        "INSERT INTO watched VALUES (1)",
        "DELETE FROM plain WHERE random()",
    ] {
        assert_eq!(foreseen(&mut connection, sql, &[]), None, "{sql}");
        let prepared = connection.look_up(sql).expect(sql).expect(sql);
        let infallibility = prepared.infallibility.as_ref().expect("it was looked at");
        assert!(
            infallibility.infallible.is_none() && infallibility.schema > 0,
            "{infallibility:?}"
        );
        connection.put_back(prepared);
    }
}

#[test]
fn null_where_it_must_not_be() {
    let (_directory, mut connection) = stage();
    let sql = "INSERT INTO note (text, level, n) VALUES (?1, ?2, ?3)";
    let values =
        |nulls: [bool; 3]| nulls.map(|null| if null { Value::Null } else { Value::from(1) });
    assert!(is_infallible(&mut connection, sql, &values([false; 3])));
    assert!(adds_row(&mut connection, sql, &values([true, false, false])));
    assert!(!adds_row(&mut connection, sql, &values([false, true, false])));
    assert!(!adds_row(&mut connection, sql, &values([false, false, true])));
    assert!(!adds_row(&mut connection, sql, &values([false; 3])[..2]), "a value is missing");
    let mut not_a_number = values([false; 3]);
    not_a_number[1] = Value::Real(f64::NAN);
    assert!(!adds_row(&mut connection, sql, &not_a_number), "SQLite binds NULL");
    let used_twice = "INSERT INTO note (level, text) VALUES (?1, ?1)";
    assert!(is_infallible(&mut connection, used_twice, &[Value::from(1)]));
    assert!(!adds_row(&mut connection, used_twice, &[Value::Null]));
}

#[test]
fn only_outside_a_transaction_and_on_a_plain_connection() {
    let (directory, mut connection) = stage();
    let path = directory.path().join("app.db");
    let sql = "INSERT INTO plain VALUES (?1, ?2)";
    let values = [Value::from(1), Value::from(2)];
    assert!(is_infallible(&mut connection, sql, &values));
    let large = Value::from(vec![0_u8; limits::INFALLIBLE_BYTES_MAX]);
    assert!(!adds_row(&mut connection, sql, &[large, Value::Null]));
    connection.execute("BEGIN", &[]).expect("a transaction");
    assert!(!adds_row(&mut connection, sql, &values));
    connection.execute("ROLLBACK", &[]).expect("the end of it");
    assert!(adds_row(&mut connection, sql, &values));
    connection.execute("CREATE UNIQUE INDEX of_a ON plain (a)", &[]).expect("an index");
    assert!(!adds_row(&mut connection, sql, &values), "it may fail now");
    connection.execute("DROP INDEX of_a", &[]).expect("no index");
    assert!(adds_row(&mut connection, sql, &values), "and now not");
    let other = sqlite::Connection::open(&path, sqlite::OpenMode::ReadWrite, false);
    let other = other.expect("another program");
    for (change, back) in [
        ("CREATE UNIQUE INDEX of_a ON plain (a)", "DROP INDEX of_a"),
        ("ALTER TABLE plain ADD COLUMN c", "ALTER TABLE plain DROP COLUMN c"),
        ("ALTER TABLE plain RENAME TO other", "ALTER TABLE other RENAME TO plain"),
        (
            "CREATE TRIGGER no BEFORE INSERT ON plain BEGIN SELECT RAISE(IGNORE); END",
            "DROP TRIGGER no",
        ),
    ] {
        other.execute(change).expect(change);
        assert!(!adds_row(&mut connection, sql, &values), "{change}");
        other.execute(back).expect(back);
        assert!(adds_row(&mut connection, sql, &values), "{back}");
    }
    connection.execute("PRAGMA recursive_triggers = ON", &[]).expect("a setting");
    assert!(!adds_row(&mut connection, sql, &values));
}
