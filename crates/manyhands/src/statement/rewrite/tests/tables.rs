//! Which tables have ids that can be chosen, and what their rowid is called.

use super::Side;
use crate::statement::rewrite::{runs_before_insert, table_of};

/// `id` is the expected id column; `rowid` how SQL names the rowid.
fn check(create: &str, id: Option<&str>, rowid: Option<&str>) {
    let side = Side::new(create);
    let table = table_of(&side.connection, None, "T").expect("the schema is read");
    let table = table.unwrap_or_else(|| panic!("{create}: no such table"));
    assert_eq!(table.name, "t", "{create}");
    assert_eq!(table.id_column.as_deref(), id, "{create}");
    assert_eq!(table.rowid_name().as_deref(), rowid, "{create}");
    // SQLite agrees: of a row of NULLs an id column, and no other, has the rowid's value.
    for name in table.insertable() {
        let Some(rowid) = rowid else { continue };
        side.connection
            .execute(&format!("DELETE FROM t; INSERT INTO t(\"{name}\") VALUES (NULL)"))
            .expect("a row is inserted");
        let same = format!("SELECT \"{name}\" IS {rowid} FROM t");
        let same = side.connection.query_integer(&same).expect("an answer") == 1;
        assert_eq!(same, id == Some(name), "{create}: {name}");
    }
}

#[test]
fn the_integer_primary_key_is_found() {
    let check = |create: &str, id: Option<&str>| {
        let rowid = id.map_or("rowid".to_string(), |id| format!("\"{id}\""));
        check(create, id, Some(&rowid));
    };
    check("CREATE TABLE t (a, b)", None);
    check("CREATE TABLE t (a, id INTEGER PRIMARY KEY)", Some("id"));
    check("CREATE TABLE t (ID integer primary key autoincrement, a)", Some("ID"));
    check("CREATE TABLE t (id INTEGER, a, PRIMARY KEY (id))", Some("id"));
    check("CREATE TABLE t (id INTEGER, a, PRIMARY KEY (id DESC))", Some("id"));
    check("CREATE TABLE t (id \"INTEGER\" PRIMARY KEY ASC, a)", Some("id"));
    check("CREATE TABLE t (id INTEGER PRIMARY KEY DESC, a)", None);
    check("CREATE TABLE t (id INTEGER UNIQUE PRIMARY KEY DESC, a)", None);
    check("CREATE TABLE t (id INT PRIMARY KEY, a)", None);
    check("CREATE TABLE t (id BIGINT PRIMARY KEY, a)", None);
    check("CREATE TABLE t (id INTEGER(8) PRIMARY KEY, a)", None);
    check("CREATE TABLE t (id PRIMARY KEY, a)", None);
    check("CREATE TABLE t (id TEXT PRIMARY KEY, a)", None);
    check("CREATE TABLE t (a INTEGER, b INTEGER, PRIMARY KEY (a, b))", None);
    check("CREATE TABLE t (id INTEGER UNIQUE, a)", None);
    check("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER) STRICT", Some("id"));
    check("CREATE TABLE t (id INTEGER PRIMARY KEY, a, g AS (a + 1))", Some("id"));
    check("CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE)", Some("id"));
}

#[test]
fn a_name_of_the_rowid_is_free_or_there_is_none() {
    check("CREATE TABLE t (ROWID, a)", None, Some("oid"));
    check("CREATE TABLE t (rowid, oid)", None, Some("_rowid_"));
    check("CREATE TABLE t (rowid, oid, _rowid_)", None, None);
    check("CREATE TABLE t (rowid, id INTEGER PRIMARY KEY)", Some("id"), Some("\"id\""));
    let taken = "CREATE TABLE t (rowid, oid, _rowid_ INTEGER PRIMARY KEY)";
    check(taken, Some("_rowid_"), Some("\"_rowid_\""));
    let side = Side::new("CREATE TABLE t (rowid, oid, _rowid_)");
    assert_eq!(side.rewrite("INSERT INTO t VALUES (1, 2, 3)"), None);
}

#[test]
fn other_tables_are_none() {
    for create in [
        "CREATE TABLE u (a)",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a) WITHOUT ROWID",
        "CREATE VIEW t AS SELECT 1 AS id",
        "CREATE VIRTUAL TABLE t USING fts5(a)",
        "CREATE TEMP TABLE t (id INTEGER PRIMARY KEY)",
        "CREATE TABLE t (id INTEGER PRIMARY KEY); CREATE TEMP TABLE T (a)",
        "CREATE TABLE t (id INTEGER PRIMARY KEY); CREATE TEMP VIEW t AS SELECT 1 AS id",
        "ATTACH ':memory:' AS other; CREATE TABLE other.t (id INTEGER PRIMARY KEY)",
    ] {
        let side = Side::new(create);
        assert_eq!(table_of(&side.connection, None, "t"), Ok(None), "{create}");
    }
    let side = Side::new("CREATE VIRTUAL TABLE t USING fts5(a)");
    assert_eq!(table_of(&side.connection, None, "t_content"), Ok(None));
    assert_eq!(table_of(&side.connection, None, "sqlite_schema"), Ok(None));
}

#[test]
fn the_schema_counts() {
    let side = Side::new(
        "CREATE TABLE t (id INTEGER PRIMARY KEY); CREATE TEMP TABLE t (a);
         ATTACH ':memory:' AS other; CREATE TABLE other.t (b)",
    );
    let id = |schema| {
        let table = table_of(&side.connection, schema, "t").expect("the schema is read");
        table.and_then(|table| table.id_column)
    };
    assert_eq!(id(Some("MAIN")).as_deref(), Some("id"));
    assert_eq!(id(None), None);
    assert_eq!(id(Some("temp")), None);
    assert_eq!(id(Some("other")), None);
}

/// SQLite gives −1 as the new id to such a trigger, and evaluates the id's expression twice.
#[test]
fn a_trigger_before_the_insert_keeps_sqlites_ids() {
    let check = |trigger: &str, expected: bool| {
        let side = Side::new(&format!(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE u (a);
             {trigger} BEGIN SELECT 1; END"
        ));
        assert_eq!(!runs_before_insert(&side.connection, "t"), expected, "{trigger}");
    };
    check("CREATE TRIGGER r BEFORE INSERT ON t", false);
    check("CREATE TRIGGER r INSERT ON T WHEN NEW.a > 1", false);
    check("CREATE TEMP TRIGGER r BEFORE INSERT ON main.t", false);
    check("CREATE TRIGGER r AFTER INSERT ON t", true);
    check("CREATE TRIGGER r BEFORE UPDATE OF a ON t", true);
    check("CREATE TRIGGER r DELETE ON t", true);
    check("CREATE TRIGGER r BEFORE INSERT ON u", true);
}
