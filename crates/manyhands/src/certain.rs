//! INSERTs whose outcome is certain before they are executed: one row more, and no error but the system's.
//!
//! SQLite's own program of a statement says so (<https://sqlite.org/opcode.html>): it gives the row a new rowid, and has
//! no instruction that compares the row with others, calls a function, or ends with an error. NOT NULL is such an end,
//! and can be foreseen from the values. Who executes such a statement learns nothing from it: a transaction that begins
//! with one may execute it when it commits, as a write of its own, instead of on a fork first.

use std::collections::BTreeMap;

use manyhands_sqlite::{self as sqlite, Step, Value, ValueRef, WalIndexHeader};

use crate::connection::Connection;
use crate::limits;
use crate::prepared::{Prepared, Uses};
use crate::recent;
use crate::routing::Route;
use crate::row::bytes_of;
use crate::tables::TableSet;

/// Whether the outcome of a statement is certain.
#[derive(Debug)]
pub(crate) struct Certainty {
    /// The number of the schema in which it was looked at.
    schema: i64,
    /// It is certain if none of these parameters is NULL; the first has index 0.
    not_null: Option<Box<[usize]>>,
}

/// Does not begin with an older schema than that of this moment.
pub(crate) const READS_SCHEMA: &str = "SELECT 1 FROM main.sqlite_schema LIMIT 1";

/// The schema that SQLite has read last.
#[derive(Debug, Default)]
pub(crate) struct KnownSchema {
    /// What SQLite has in memory is this one, or a newer one. `None` until somebody needs to know.
    number: Option<i64>,
    /// A state of the database that had this schema, or an older one.
    state: Option<WalIndexHeader>,
}

impl KnownSchema {
    /// Has a new connection read the schema, for its first statement.
    ///
    /// # Errors
    /// As SQLite fails.
    pub(crate) fn read(sqlite: &sqlite::Connection) -> Result<KnownSchema, sqlite::Error> {
        let mut read = sqlite.prepare_one(READS_SCHEMA)?;
        let state = sqlite.fork_status().live;
        // Reads it again if it has changed in between.
        read.step()?;
        Ok(KnownSchema { number: None, state })
    }
}

impl Connection {
    /// True outside a transaction for an INSERT of one row that can fail only with the system: by a full disk or table, a
    /// wait that ends, or a schema that changes before it is executed. Before its transaction commits or goes on,
    /// nobody can tell whether it was executed, and an application may keep it back, and then execute it as it
    /// would have: alone if nothing else came, or after BEGIN.
    ///
    /// To look costs as much as to compile, and the answer is remembered, for as long as the schema stays. It is false,
    /// without a look, for a text that seems to have values in it and was not executed before, since few of those
    /// come again; on a connection that is not plain ([`Connection::is_plain`]) or that an application has added
    /// something to; and if a plain BEGIN means another mode than [`TransactionMode::Auto`].
    ///
    /// [`TransactionMode::Auto`]: crate::TransactionMode::Auto
    pub fn is_certain(&mut self, sql: &str, values: &[Value]) -> bool {
        if !self.is_plain()
            || !self.may_travel()
            || self.writes_with_blob()
            || self.caution_of("BEGIN") != Some(true)
            || bytes_of(values) > limits::CERTAIN_BYTES_MAX
        {
            return false;
        }
        // What cannot be read or compiled fails when it is executed.
        if !self.follow_schema() {
            return false;
        }
        let Ok(Some(mut prepared)) = self.look_up(sql) else { return false };
        let schema = self.open().schema.number;
        prepared.certainty.take_if(|it| Some(it.schema) != schema);
        if prepared.certainty.is_none() && comes_again(&prepared) {
            let uses = prepared.uses;
            if uses != Uses::None {
                // Compiled for an older schema, maybe, and executed by others since.
                drop(prepared);
                let Ok(Some(again)) = self.look_up(sql) else { return false };
                prepared = again;
                // What it touches is not known any more.
                prepared.uses = if uses == Uses::Known { Uses::Again } else { uses };
            }
            prepared.certainty = self.certainty_of(&prepared);
            if let Some(certainty) = &prepared.certainty {
                self.open_mut().schema.number = Some(certainty.schema);
            }
        }
        let not_null = prepared.certainty.as_ref().and_then(|it| it.not_null.as_ref());
        let certain = not_null.is_some_and(|parameters| {
            values.len() == prepared.statement.parameter_count()
                && parameters.iter().all(|&index| !is_null(&values[index]))
        });
        self.put_back(prepared);
        certain
    }

    /// Sees to it that what is compiled now is compiled for the schema `main` of this moment, or a newer one. Costs
    /// a read only when it may have changed.
    fn follow_schema(&mut self) -> bool {
        // Before the number: if it is the same another time, nobody has committed since.
        let state = self.sqlite().fork_status().live;
        let known = &self.open().schema;
        if let (Some(known), Some(file)) = (&known.state, &self.file) {
            let then = (known.change, known.checksum);
            // Who changes the schema writes all tables.
            if recent::written_since(&file.queue(), then, state.as_ref()) != TableSet::ALL {
                self.open_mut().schema.state = state;
                return true;
            }
        }
        let number = self.schema_number();
        let is_new = self.open().schema.number != number;
        if number.is_none() || is_new && self.has_newer_schema().is_err() {
            return false;
        }
        self.open_mut().schema = KnownSchema { number, state };
        true
    }

    fn certainty_of(&self, prepared: &Prepared) -> Option<Certainty> {
        let _own = self.own_statements();
        let program = program_of(self.sqlite(), &prepared.sql).ok()?;
        // The number of the schema that it was compiled for is in it.
        let beginning = program.iter().find(|it| it.name == "Transaction" && it.p[0] == 0);
        let schema = beginning.map_or(self.open().schema.number, |it| Some(it.p[2]))?;
        let travels = prepared.route == Route::Request && prepared.columns.is_empty();
        let not_null = travels.then(|| not_null_of(&program)).flatten();
        Some(Certainty { schema, not_null })
    }
}

/// True also for what SQLite binds as NULL.
fn is_null(value: &Value) -> bool {
    matches!(value, Value::Null) || matches!(value, Value::Real(number) if number.is_nan())
}

/// False for a text that seems to have been made for one execution.
fn comes_again(prepared: &Prepared) -> bool {
    let has_values = || prepared.sql.contains(|it: char| it == '\'' || it.is_ascii_digit());
    prepared.uses != Uses::None || prepared.statement.parameter_count() > 0 || !has_values()
}

/// One instruction of a program.
struct Instruction {
    name: String,
    p: [i64; 3],
    p5: i64,
}

/// A statement's program. Its index is its address.
fn program_of(sqlite: &sqlite::Connection, sql: &str) -> Result<Vec<Instruction>, sqlite::Error> {
    let mut explain = sqlite.prepare_one(&format!("EXPLAIN {sql}"))?;
    let mut program = Vec::new();
    while explain.step()? == Step::Row {
        // One that has no name is none that is known.
        let name = match explain.column(1) {
            ValueRef::Text(name) => String::from_utf8_lossy(name).into_owned(),
            _ => String::new(),
        };
        let mut number = |column| match explain.column(column) {
            ValueRef::Integer(number) => number,
            _ => 0,
        };
        program.push(Instruction { name, p: [2, 3, 4].map(&mut number), p5: number(6) });
    }
    Ok(program)
}

/// The parameters that must not be NULL for the program to add one row, and to end without an error. `None` when that
/// is not certain for any values.
///
/// An instruction that is not known here is one that can fail, or branch to where the row is not added.
fn not_null_of(program: &[Instruction]) -> Option<Box<[usize]>> {
    /// In P5 of the one Insert that counts as a change.
    const COUNTS: i64 = 1;
    let position = |name: &str| program.iter().position(|it| it.name == name);
    let mut counting =
        program.iter().enumerate().filter(|(_, it)| it.name == "Insert" && it.p5 & COUNTS != 0);
    let (added, _) = counting.next().filter(|_| position("NewRowid").is_some())?;
    let beginning = position("Transaction")?;
    if counting.next().is_some() {
        return None;
    }
    // What each register is given, and whether that is NULL.
    let mut given: BTreeMap<i64, Option<Given>> = BTreeMap::new();
    for instruction in program {
        let [p1, p2, _] = instruction.p;
        let (register, what) = match instruction.name.as_str() {
            "Variable" => (p2, Given::Parameter(usize::try_from(p1 - 1).ok()?)),
            "Integer" | "Int64" | "Real" | "String8" | "Blob" => (p2, Given::Constant),
            _ => continue,
        };
        let first = !given.contains_key(&register);
        given.insert(register, first.then_some(what));
    }
    let mut not_null = Vec::new();
    for (address, instruction) in program.iter().enumerate() {
        let [p1, p2, p3] = instruction.p;
        let is_row_added = || {
            let target = usize::try_from(p2).unwrap_or(usize::MAX);
            match address {
                // The program begins at its end, with what is prepared once.
                0 => target == beginning,
                _ if address > beginning => target > beginning || target == 1,
                _ => address > added && target > added && target < beginning,
            }
        };
        let is_harmless = match instruction.name.as_str() {
            "Variable" | "Integer" | "Int64" | "Real" | "String8" | "Blob" | "Null"
            | "SoftNull" | "Copy" | "SCopy" | "IntCopy" | "AddImm" | "MemMax" | "Affinity"
            | "MakeRecord" | "NewRowid" | "Rowid" | "Column" | "Insert" | "IdxInsert" | "Close" => {
                true
            }
            // Of the main database alone.
            "OpenRead" | "OpenWrite" => p3 == 0,
            "Transaction" => p1 == 0,
            "Halt" => p1 == 0,
            "Init" | "Goto" | "Next" | "Rewind" | "Le" | "Ne" | "NotNull" => is_row_added(),
            "HaltIfNull" => match given.get(&p3) {
                Some(Some(Given::Parameter(index))) => {
                    not_null.push(*index);
                    true
                }
                Some(Some(Given::Constant)) => true,
                _ => false,
            },
            _ => false,
        };
        if !is_harmless {
            return None;
        }
    }
    Some(not_null.into())
}

/// What a register holds that is given once.
enum Given {
    Parameter(usize),
    /// Not NULL.
    Constant,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, TransactionMode};

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
        CREATE TABLE child (a REFERENCES note);
        CREATE VIEW shown AS SELECT a FROM plain;
        CREATE TRIGGER instead INSTEAD OF INSERT ON shown BEGIN INSERT INTO plain VALUES (1, 1); END;
        CREATE VIRTUAL TABLE words USING fts5 (word);";

    /// A database, and a connection that its last statement does not hold.
    fn stage() -> (tempfile::TempDir, Connection) {
        let directory = tempfile::tempdir().expect("a directory");
        let builder = Database::builder(directory.path().join("app.db"));
        let database = builder.transaction_mode(TransactionMode::Auto).foreign_keys(true);
        let mut connection =
            database.open().and_then(|it| it.connect()).expect("the database opens");
        connection.execute_script(SCHEMA).expect("the schema");
        (directory, connection)
    }

    /// Whether the statement is certain when it has been executed once.
    fn is_certain(connection: &mut Connection, sql: &str, values: &[Value]) -> bool {
        let _ = connection.execute(sql, values);
        connection.is_certain(sql, values)
    }

    #[test]
    fn a_text_with_values_is_looked_at_when_it_comes_again() {
        let (_directory, mut connection) = stage();
        for sql in ["INSERT INTO plain VALUES (7, 8)", "INSERT INTO plain (a) VALUES ('x')"] {
            assert!(!connection.is_certain(sql, &[]), "{sql}");
            assert!(is_certain(&mut connection, sql, &[]), "{sql}");
        }
        assert!(connection.is_certain("INSERT INTO plain DEFAULT VALUES", &[]));
        assert!(connection.is_certain("INSERT INTO plain (a) VALUES (?1)", &[Value::Null]));
    }

    #[test]
    fn a_row_that_nothing_is_asked_of_is_certain() {
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
        ] {
            let values = vec![one.clone(); count];
            assert!(is_certain(&mut connection, sql, &values), "{sql}");
            // And so it is: one row more, whatever the values.
            for value in [Value::from("x"), Value::Real(0.5), Value::from(vec![0_u8])] {
                let values = vec![value; count];
                assert!(connection.is_certain(sql, &values), "{sql}");
                let outcome = connection.execute(sql, &values).expect(sql);
                assert_eq!((outcome.changes(), outcome.rows.len()), (1, 0), "{sql}");
            }
        }
    }

    #[test]
    fn what_may_fail_or_do_nothing_is_not() {
        let (_directory, mut connection) = stage();
        let one = Value::from(1);
        for (sql, count) in [
            ("INSERT INTO plain VALUES (?1, ?2), (1, 2)", 2),
            ("INSERT INTO plain SELECT ?, ?", 2),
            ("INSERT INTO plain VALUES (?1 + 1, random())", 1),
            ("INSERT INTO plain VALUES (?, ?) RETURNING a", 2),
            ("INSERT INTO plain (rowid, a) VALUES (?, 1)", 1),
            ("INSERT INTO numbered VALUES (?, 1)", 1),
            ("INSERT INTO note VALUES (?, ?, ?, ?)", 4),
            ("INSERT INTO note (text) VALUES (?)", 1),
            ("INSERT OR IGNORE INTO note (level) VALUES (?)", 1),
            ("INSERT OR REPLACE INTO note (n, level) VALUES (?, 'low')", 1),
            ("INSERT INTO single VALUES (?, ?)", 2),
            ("INSERT OR IGNORE INTO single VALUES (?, ?)", 2),
            ("INSERT INTO checked VALUES (?)", 1),
            ("INSERT INTO dated (a) VALUES (?)", 1),
            ("INSERT INTO strict VALUES (?, ?)", 2),
            ("INSERT INTO keyed VALUES (?, ?)", 2),
            ("INSERT INTO made VALUES (?)", 1),
            ("INSERT INTO partly VALUES (?, ?)", 2),
            ("INSERT INTO watched VALUES (?)", 1),
            ("INSERT INTO child VALUES (?)", 1),
            ("INSERT INTO shown VALUES (?)", 1),
            ("INSERT INTO words VALUES (?)", 1),
            ("UPDATE plain SET a = ? WHERE b = 1", 1),
            ("DELETE FROM plain WHERE a = ?", 1),
            ("SELECT ?", 1),
            ("INSERT INTO nowhere VALUES (?)", 1),
        ] {
            let values = vec![one.clone(); count];
            assert!(!is_certain(&mut connection, sql, &values), "{sql}");
        }
    }

    #[test]
    fn a_no_is_remembered_too() {
        let (_directory, mut connection) = stage();
        for sql in [
            "INSERT INTO plain (a) VALUES (1) RETURNING a",
            "INSERT INTO watched VALUES (1)",
            "DELETE FROM plain",
        ] {
            assert!(!is_certain(&mut connection, sql, &[]), "{sql}");
            let prepared = connection.look_up(sql).expect(sql).expect(sql);
            let certainty = prepared.certainty.as_ref().expect("it was looked at");
            assert!(certainty.not_null.is_none() && certainty.schema > 0, "{certainty:?}");
            connection.put_back(prepared);
        }
    }

    #[test]
    fn null_where_it_must_not_be() {
        let (_directory, mut connection) = stage();
        let sql = "INSERT INTO note (text, level, n) VALUES (?1, ?2, ?3)";
        let values =
            |nulls: [bool; 3]| nulls.map(|null| if null { Value::Null } else { Value::from(1) });
        assert!(is_certain(&mut connection, sql, &values([false; 3])));
        assert!(connection.is_certain(sql, &values([true, false, false])));
        assert!(!connection.is_certain(sql, &values([false, true, false])));
        assert!(!connection.is_certain(sql, &values([false, false, true])));
        assert!(!connection.is_certain(sql, &values([false; 3])[..2]), "a value is missing");
        let mut not_a_number = values([false; 3]);
        not_a_number[1] = Value::Real(f64::NAN);
        assert!(!connection.is_certain(sql, &not_a_number), "SQLite binds NULL");
        let used_twice = "INSERT INTO note (level, text) VALUES (?1, ?1)";
        assert!(is_certain(&mut connection, used_twice, &[Value::from(1)]));
        assert!(!connection.is_certain(used_twice, &[Value::Null]));
    }

    #[test]
    fn only_outside_a_transaction_and_on_a_plain_connection() {
        let (directory, mut connection) = stage();
        let path = directory.path().join("app.db");
        let sql = "INSERT INTO plain VALUES (?1, ?2)";
        let values = [Value::from(1), Value::from(2)];
        assert!(is_certain(&mut connection, sql, &values));
        let large = Value::from(vec![0_u8; limits::CERTAIN_BYTES_MAX]);
        assert!(!connection.is_certain(sql, &[large, Value::Null]));
        connection.execute("BEGIN", &[]).expect("a transaction");
        assert!(!connection.is_certain(sql, &values));
        connection.execute("ROLLBACK", &[]).expect("the end of it");
        assert!(connection.is_certain(sql, &values));
        connection.execute("CREATE UNIQUE INDEX of_a ON plain (a)", &[]).expect("an index");
        assert!(!connection.is_certain(sql, &values), "it may fail now");
        connection.execute("DROP INDEX of_a", &[]).expect("no index");
        assert!(connection.is_certain(sql, &values), "and now not");
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
            assert!(!connection.is_certain(sql, &values), "{change}");
            other.execute(back).expect(back);
            assert!(connection.is_certain(sql, &values), "{back}");
        }
        connection.execute("PRAGMA recursive_triggers = ON", &[]).expect("a setting");
        assert!(!connection.is_certain(sql, &values));
    }
}
