//! Sets of tables: which ones a statement reads and writes, and which ones others have written.
//!
//! What must hold: a set may contain a table by mistake (two names can share a bit), and never lacks one. Tables whose content
//! depends on other tables (virtual tables, and the tables that belong to them) stand for every table. One more bit stands for what no
//! statement names: the schema, SQLite's own tables, another program's commits.

use std::collections::BTreeSet;
use std::collections::HashSet;

use manyhands_sqlite::{self as sqlite, Statement, Step, ValueRef};
use xxhash_rust::xxh3::xxh3_64;

use crate::statement::routing::{Facts, may_read_untold};

/// A set of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct TableSet(pub(crate) u64);

impl TableSet {
    pub(crate) const NONE: TableSet = TableSet(0);
    /// Every table that a statement can name.
    pub(crate) const EVERY: TableSet = TableSet(u64::MAX >> 1);
    /// The same, and what no statement names.
    pub(crate) const ALL: TableSet = TableSet(u64::MAX);

    fn of_name(name: &str) -> TableSet {
        TableSet(1 << (table_key(name) % 63))
    }

    /// False when more may have been written than rows of tables, or by another SQLite program.
    pub(crate) fn is_known(self) -> bool {
        self.0 & !TableSet::EVERY.0 == 0
    }

    pub(crate) fn and(self, other: TableSet) -> TableSet {
        TableSet(self.0 | other.0)
    }

    pub(crate) fn meets(self, other: TableSet) -> bool {
        self.0 & other.0 != 0
    }
}

/// A number for a table's name in lower case, the same in all processes.
pub(crate) fn table_key(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

/// True of the keys of the tables that a statement writes, if the numbers of AUTOINCREMENT are among them.
pub(crate) fn has_sequence(written: &[u64]) -> bool {
    !written.is_empty() && written.contains(&table_key("sqlite_sequence"))
}

/// The tables that a statement touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touches {
    pub(crate) reads: TableSet,
    pub(crate) writes: TableSet,
}

impl Touches {
    /// Those of a statement of which nothing is known.
    pub(crate) const ALL: Touches = Touches { reads: TableSet::ALL, writes: TableSet::ALL };

    /// Those of a statement that is executed for the first time: every table, if it touches any. To look up which tables are virtual
    /// costs more than many a statement, and most are executed once.
    pub(crate) fn at_first(facts: &Facts) -> Touches {
        // A trigger or a view may read what is not told.
        Touches::by(facts, facts.has_trigger, |_| TableSet::EVERY)
    }

    /// Those of a statement about which the authorizer told these facts.
    pub(crate) fn of(facts: &Facts, known: &VirtualTables) -> Touches {
        let virtual_tables = &known.names;
        Touches::by(facts, facts.has_trigger && known.reads_untold, |name| {
            let is_virtual =
                virtual_tables.contains(name) || belongs_to_virtual(name, virtual_tables);
            if is_virtual { TableSet::EVERY } else { TableSet::of_name(name) }
        })
    }

    fn by(facts: &Facts, reads_untold: bool, table: impl Fn(&str) -> TableSet) -> Touches {
        if facts.schema || facts.pragma.is_some() {
            return Touches::ALL;
        }
        let set = |names: &BTreeSet<String>| {
            names.iter().fold(TableSet::NONE, |set, name| {
                // These change without being named.
                let special = name.starts_with("sqlite_") || name.starts_with("pragma_");
                set.and(if special { TableSet::ALL } else { table(name) })
            })
        };
        let untold = facts.reads_untold || reads_untold;
        let reads = if untold { TableSet::ALL } else { set(&facts.tables_read) };
        Touches { reads, writes: set(&facts.tables_written) }
    }
}

/// True for a name that a virtual table may have given to a table of its own.
fn belongs_to_virtual(name: &str, virtual_tables: &HashSet<String>) -> bool {
    name.match_indices('_').any(|(end, _)| virtual_tables.contains(&name[..end]))
}

/// Asks for the number of the schema `main`, which is another one after each change.
#[derive(Debug)]
pub(crate) struct SchemaNumber(Statement);

impl SchemaNumber {
    pub(crate) fn of(connection: &sqlite::Connection) -> Result<SchemaNumber, sqlite::Error> {
        connection.prepare_one("PRAGMA main.schema_version").map(SchemaNumber)
    }

    pub(crate) fn now(&mut self) -> Result<Option<i64>, sqlite::Error> {
        let row = self.0.step();
        let number = match self.0.column(0) {
            ValueRef::Integer(number) => Some(number),
            _ => None,
        };
        self.0.reset();
        row.map(|_| number)
    }
}

/// The names of a database's virtual tables in lower case, and what its views and triggers may do, as of the schema
/// that was last looked at.
#[derive(Debug, Default)]
pub(crate) struct VirtualTables {
    schema: Option<SchemaNumber>,
    version: Option<i64>,
    names: HashSet<String>,
    /// See [`Facts::reads_untold`].
    reads_untold: bool,
}

impl VirtualTables {
    /// As of the schema of this moment, with the number of that.
    pub(crate) fn now(
        &mut self,
        connection: &sqlite::Connection,
    ) -> Result<(&VirtualTables, Option<i64>), sqlite::Error> {
        let now = self.schema_number(connection)?;
        if now != self.version {
            self.version = None;
            self.names.clear();
            self.reads_untold = false;
            // A module's name may be that of a table too, which reads what it likes.
            self.add(connection, "PRAGMA module_list")?;
            for reads_its_arguments in ["json_each", "json_tree"] {
                self.names.remove(reads_its_arguments);
            }
            // Virtual tables have no root page.
            self.add(
                connection,
                "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND rootpage = 0",
            )?;
            let mut others = connection.prepare_one(
                "SELECT sql FROM main.sqlite_schema WHERE type IN ('view', 'trigger')",
            )?;
            while others.step()? == Step::Row {
                if let ValueRef::Text(sql) = others.column(0) {
                    self.reads_untold |= may_read_untold(&String::from_utf8_lossy(sql));
                }
            }
            // After a rollback the next schema gets the same number.
            let is_committed = connection.transaction() != sqlite::Transaction::Write;
            self.version = now.filter(|_| is_committed);
        }
        Ok((self, now))
    }

    /// The number of the schema of this moment.
    pub(crate) fn schema_number(
        &mut self,
        connection: &sqlite::Connection,
    ) -> Result<Option<i64>, sqlite::Error> {
        let schema = match &mut self.schema {
            Some(schema) => schema,
            none => none.insert(SchemaNumber::of(connection)?),
        };
        schema.now()
    }

    fn add(&mut self, connection: &sqlite::Connection, sql: &str) -> Result<(), sqlite::Error> {
        let mut list = connection.prepare_one(sql)?;
        while list.step()? == Step::Row {
            if let ValueRef::Text(name) = list.column(0) {
                self.names.insert(String::from_utf8_lossy(name).to_ascii_lowercase());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(read: &[&str], written: &[&str]) -> Facts {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
        Facts { tables_read: names(read), tables_written: names(written), ..Facts::default() }
    }

    #[test]
    fn a_schema_that_was_rolled_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("app.db");
        let open = || sqlite::Connection::open(&path, sqlite::OpenMode::ReadWriteCreate, false);
        let (one, other) = (open().expect("opens"), open().expect("opens"));
        let mut virtual_tables = VirtualTables::default();
        let mut knows = || virtual_tables.now(&one).expect("names").0.names.contains("size");
        one.execute("BEGIN IMMEDIATE").expect("begins");
        one.execute("CREATE TABLE plain (n)").expect("a table");
        assert!(!knows());
        one.execute("ROLLBACK").expect("rolls back");
        other.execute("CREATE VIRTUAL TABLE size USING dbstat").expect("a table");
        assert!(knows());
    }

    #[test]
    fn what_is_known_of_tables() {
        let names = HashSet::from(["note".to_string()]);
        let virtual_tables = VirtualTables { names, ..VirtualTables::default() };
        let of =
            |read: &[&str], written: &[&str]| Touches::of(&facts(read, written), &virtual_tables);
        let plain = of(&["account"], &["entry"]);
        assert!(plain.reads.meets(of(&[], &["account"]).writes));
        assert!(!plain.reads.meets(plain.writes));
        assert_eq!(of(&[], &[]), Touches { reads: TableSet::NONE, writes: TableSet::NONE });
        for (special, all) in [
            ("note", TableSet::EVERY),
            ("note_content", TableSet::EVERY),
            ("sqlite_sequence", TableSet::ALL),
            ("sqlite_schema", TableSet::ALL),
        ] {
            assert_eq!(of(&[special], &[]).reads, all, "{special}");
            assert_eq!(
                Touches::at_first(&facts(&[], &[special])).writes.is_known(),
                all.is_known()
            );
        }
        assert!(plain.reads.is_known() && plain.reads.meets(TableSet::EVERY));
        assert_ne!(of(&["notes"], &[]).reads, TableSet::EVERY);
        let schema = Facts { schema: true, ..Facts::default() };
        assert_eq!(Touches::of(&schema, &virtual_tables), Touches::ALL);
    }
}
