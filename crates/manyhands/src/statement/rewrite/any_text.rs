//! Any text as an INSERT; only for tests and fuzzing.
//!
//! What must hold whatever the text is: nothing panics, and what SQLite has compiled and is rewritten is compiled
//! again, with the same columns and the same parameters. Or it is refused for its meaning: then the text that was
//! given is executed.
//!
//! Shared by a test in `tests.rs` and the fuzz target `fuzz/fuzz_targets/insert.rs`.

use manyhands_sqlite::{Connection, OpenMode, Statement, Value};

use super::{may_be_insert, rewrite, table_of};

/// Of `count(*)`, or a collation that there is not, in one of several rows: whether SQLite compiles it depends on what the
/// other rows are, and they are something else with a function in them. The fuzzer found both.
const REFUSED: [&str; 2] = ["misuse of aggregate", "no such collation sequence"];

/// A database in memory, and the function that gives ids.
#[derive(Debug)]
pub struct Tables(Connection);

impl Tables {
    /// Makes the tables.
    pub fn new() -> Tables {
        let connection =
            Connection::open(":memory:".as_ref(), OpenMode::ReadWriteCreate, false).expect("opens");
        connection
            .execute(
                "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b UNIQUE);
                 CREATE TABLE plain (a, b DEFAULT 7);
                 CREATE TABLE numbered (id INTEGER PRIMARY KEY AUTOINCREMENT, \"a b\" GENERATED ALWAYS AS (c), c);
                 CREATE TABLE noted (id INTEGER PRIMARY KEY, a);
                 CREATE TRIGGER noted_too AFTER INSERT ON noted BEGIN INSERT INTO t (a) VALUES (new.a); END;",
            )
            .expect("the tables are made");
        let id = |_: &[manyhands_sqlite::ValueRef<'_>]| Ok(Value::Null);
        connection.create_function("manyhands_new_rowid", Some(0), false, id).expect("a function");
        Tables(connection)
    }

    /// Rewrites what SQLite compiles.
    ///
    /// # Panics
    /// When something does not hold that must.
    pub fn insert(&self, text: &[u8]) {
        let Ok(sql) = str::from_utf8(text) else { return };
        // Some PRAGMAs take effect when they are compiled.
        if !may_be_insert(sql) {
            return;
        }
        let Ok(before) = self.0.prepare_one(sql) else { return };
        let table = |schema: Option<&str>, name: &str| {
            table_of(&self.0, schema, name).expect("the schema is read")
        };
        let Some(rewritten) = rewrite(sql, table) else { return };
        let after = match self.0.prepare_one(&rewritten.sql) {
            Ok(after) => after,
            Err(error) if REFUSED.iter().any(|it| error.message.starts_with(it)) => return,
            Err(error) => panic!("{error}: {}", rewritten.sql),
        };
        assert_eq!(shape(&before), shape(&after), "{sql}\nbecame {}", rewritten.sql);
    }
}

impl Default for Tables {
    fn default() -> Tables {
        Tables::new()
    }
}

/// What a caller sees of a compiled statement.
fn shape(statement: &Statement) -> (Vec<Option<String>>, Vec<Option<String>>) {
    let columns = (0..statement.column_count()).map(|index| statement.column_name(index));
    (statement.parameter_names(), columns.collect())
}
