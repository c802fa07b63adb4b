//! What users of rusqlite look for: rows by name, values as Rust types, one row or none, named parameters.

use std::borrow::Cow;
use std::sync::Arc;

use manyhands::{
    Connection, Error, FromValue, OptionalExtension, RowView, Text, Value, ValueRef, named_params,
    params,
};

use crate::stage::{self, Stage, connect, refused};

#[cfg(feature = "tokio")]
mod async_rows;
mod blobs;
mod change_hooks;
mod savepoints;
mod statements;
mod values;

fn with_items(stage: &Stage) -> Connection {
    let mut connection = connect(&stage.database_with_items());
    connection
        .execute_script("INSERT INTO item VALUES (1, 'lamp'), (2, NULL), (3, x'00ff')")
        .expect("three items");
    connection
}

/// One row is asked for: the first is given, none is an error of its own, and only the first was read.
#[test]
fn one_row_or_none() {
    let stage = Stage::new();
    let mut connection = with_items(&stage);
    let mut ask = |sql: &str| connection.query_row(sql, (), |row| row.get::<i64>("id"));
    assert_eq!(ask("SELECT id FROM item ORDER BY id DESC").expect("a row"), 3);
    let none = ask("SELECT id FROM item WHERE id > 3");
    assert!(none.as_ref().expect_err("there is none").is_no_rows());
    assert_eq!(none.optional().expect("none is no error"), None);
    let other = ask("SELECT id FROM nowhere").optional().expect_err("does not compile");
    assert!(!other.is_no_rows() && other.code().is_some());
    // The second row would fail.
    let sql = "SELECT abs(column1) AS id FROM (VALUES (1), (-9223372036854775808))";
    assert_eq!(ask(sql).expect("the first row"), 1);
    refused(ask(""), &["no SQL statement"]);
}

/// RETURNING shows rows of a statement that has been executed to its end, whoever executed it.
#[test]
fn rows_of_a_write() {
    let stage = Stage::new();
    let mut connection = with_items(&stage);
    let sql = "UPDATE item SET note = 'x' RETURNING id";
    let first: i64 = connection.query_row(sql, (), |row| row.get(0)).expect("a row");
    assert_eq!(first, 1);
    assert_eq!(stage::number(&mut connection, "SELECT count(*) FROM item WHERE note = 'x'"), 3);
    let ids = connection.query_map(sql, (), |row| row.get::<i64>("id")).expect("rows");
    assert_eq!(ids.collect::<Result<Vec<_>, _>>().expect("ids"), [1, 2, 3]);
    let nothing = connection.query_row("DELETE FROM item", (), |_| Ok(())).optional();
    assert_eq!(nothing.expect("deletes"), None);
    assert_eq!(stage::items(&mut connection), 0);
}

/// An error of the application ends the transaction's function, and a closure's error is the caller's.
#[test]
fn the_error_of_a_closure_is_told() {
    let stage = Stage::new();
    let mut connection = with_items(&stage);
    let wrong = |row: &RowView<'_>| row.get::<String>("id");
    let error = connection.query_row("SELECT id FROM item", (), wrong);
    refused(error, &["\"id\"", "integer", "String"]);
    let notes = connection.query_map("SELECT note FROM item ORDER BY id", (), |row| {
        row.get::<Option<String>>("note")
    });
    let notes: Vec<Result<Option<String>, Error>> = notes.expect("rows").collect();
    assert_eq!(notes[0].as_ref().expect("text").as_deref(), Some("lamp"));
    assert_eq!(notes[1].as_ref().expect("NULL"), &None);
    assert!(notes[2].is_err() && notes.len() == 3, "a BLOB is no text, and was the last row");
}

/// Rows come one by one while the connection executes others, as from a cursor, and a row after an error is none.
#[test]
fn rows_are_an_iterator_that_leaves_the_connection_free() {
    let stage = Stage::new();
    let mut connection = with_items(&stage);
    let ids = connection.query_map("SELECT id FROM item ORDER BY id", (), |row| row.get::<i64>(0));
    for id in ids.expect("rows") {
        let id = id.expect("an id");
        connection.execute("UPDATE item SET note = ?1 WHERE id = ?1", (id,)).expect("updates");
    }
    let cursor = connection.cursor("SELECT sum(note) AS total FROM item", ()).expect("a cursor");
    let rows: Vec<_> = cursor.map(|row| row.and_then(|row| row.get::<f64>("TOTAL"))).collect();
    assert_eq!(rows.into_iter().map(Result::ok).collect::<Vec<_>>(), [Some(6.0)]);
    let sql = "SELECT abs(column1) FROM (VALUES (1), (-9223372036854775808), (2))";
    let rows = connection.query_map(sql, (), |row| row.get::<i64>(0)).expect("begins");
    let rows: Vec<bool> = rows.map(|row| row.is_ok()).collect();
    assert_eq!(rows, [true, false]);
}

/// What a transaction has been shown of a query counts as seen, and what it has not asked for does not.
#[test]
fn only_what_was_shown_can_conflict() {
    let stage = Stage::new();
    let (mut one, database) = (with_items(&stage), stage.database());
    let mut other = connect(&database);
    let mut race = |by_map: bool, changed: i64| {
        let mut transaction = one.transaction().expect("begins");
        let sql = "SELECT id, note FROM item ORDER BY id";
        let id = if by_map {
            let mut rows = transaction.query_map(sql, (), |row| row.get::<i64>(0)).expect("rows");
            rows.next().expect("a row").expect("an id")
        } else {
            transaction.query_row(sql, (), |row| row.get::<i64>(0)).expect("a row")
        };
        assert_eq!(id, 1);
        transaction.execute("INSERT INTO item (note) VALUES (?1)", ("new",)).expect("inserts");
        other
            .execute("UPDATE item SET note = coalesce(note, '') || 'x' WHERE id = ?1", (changed,))
            .expect("somebody else writes");
        transaction.commit()
    };
    for by_map in [false, true] {
        race(by_map, 3).expect("the third row was not shown");
        assert!(race(by_map, 1).expect_err("the first was").is_conflict());
    }
}

/// Values by name: each parameter has one, in whatever order, and each name is a parameter's.
#[test]
fn named_parameters() {
    let stage = Stage::new();
    let mut connection = with_items(&stage);
    let sql = "SELECT :b || @a || $c || :b";
    let text = |row: &RowView<'_>| row.get::<String>(0);
    let given = named_params! {"@a": 1, "$c": "z", ":b": String::from("x")};
    assert_eq!(connection.query_row(sql, given.clone(), text).expect("three names"), "x1zx");
    assert_eq!(connection.query_row(sql, &given[..], text).expect("a slice"), "x1zx");
    let same = [(":b", &7_i64), ("@a", &8), ("$c", &9)];
    assert_eq!(connection.query_row(sql, same, text).expect("of one type"), "7897");
    let missing = connection.query_row(sql, named_params! {"@a": 1, ":b": 2}, text);
    refused(missing, &["parameter 3", "$c"]);
    let unknown = connection.query_row("SELECT :a", named_params! {":a": 1, ":d": 2}, text);
    refused(unknown, &["no parameter :d"]);
    refused(connection.execute("SELECT ?", [(":a", 1)]), &["no parameter :a"]);
    refused(connection.execute("SELECT ?, :a", [(":a", 1)]), &["parameter 1", "no value"]);
    // Before anything was executed.
    refused(connection.execute("DELETE FROM item WHERE id = :a", [(":b", 1)]), &[":b"]);
    assert_eq!(stage::items(&mut connection), 3);
}

/// The ways to give values in order.
#[test]
fn parameters_in_order() {
    let stage = Stage::new();
    let mut connection = with_items(&stage);
    let values = vec![Value::from(1), Value::from("x")];
    let text = |row: &RowView<'_>| row.get::<String>(0);
    for by in 0..4 {
        let sql = "SELECT ?1 || ?2";
        let found = match by {
            0 => connection.query_row(sql, &values, text),
            1 => connection.query_row(sql, &values[..], text),
            2 => connection.query_row(sql, (1, "x"), text),
            _ => connection.query_row(sql, params![1, "x"], text),
        };
        assert_eq!(found.expect("two values"), "1x");
    }
    let few = connection.query_row("SELECT ?1, ?2", (1,), |_| Ok(())).expect_err("one is missing");
    assert_eq!(few.code(), Some(manyhands::Code::RANGE));
}

/// A statement that SQLite compiles again at its first step has the columns of that schema.
#[test]
fn names_are_those_of_the_schema_of_this_moment() {
    let stage = Stage::new();
    let (mut one, mut other) = (with_items(&stage), connect(&stage.database()));
    let sql = "SELECT * FROM item WHERE id = 1";
    assert_eq!(one.query_row(sql, (), |row| Ok(row.columns().len())).expect("a row"), 2);
    other.execute("ALTER TABLE item ADD COLUMN size DEFAULT 7", ()).expect("a column more");
    assert_eq!(one.query_row(sql, (), |row| row.get::<i64>("size")).expect("a row"), 7);
    let mut sizes = one.query_map(sql, (), |row| row.get::<i64>("size")).expect("rows");
    assert_eq!(sizes.next().expect("a row").expect("a size"), 7);
}
