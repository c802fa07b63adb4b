//! The questions to a table before one of its rows is given an id.

use manyhands_sqlite::{self as sqlite, Statement, Step, ValueRef};

use super::known::Highest;
use crate::statement::rewrite::{self, Rewritten};
use crate::statement::tables::table_key;

/// What answers questions about the rowids of one table.
#[derive(Debug)]
pub(super) struct TableIds {
    pub(super) key: u64,
    highest: Statement,
    taken: Statement,
    /// The highest id that a table with AUTOINCREMENT ever had; `None` without such tables.
    sequence: Option<Statement>,
    pub(super) known: Option<Highest>,
    /// How often SQLite has compiled the first two again, when they were made.
    recompilations: u32,
}

impl TableIds {
    /// `None` if SQLite does not compile the questions.
    pub(super) fn of(connection: &sqlite::Connection, rewritten: &Rewritten) -> Option<TableIds> {
        let (id, table) = (&rewritten.rowid_name, rewrite::quote(&rewritten.table));
        let name = rewritten.table.replace('\'', "''");
        // A table without AUTOINCREMENT has no row there, a database without such tables no sequence.
        // As SQLite reads what is there, which may be a text.
        let sequence =
            format!("SELECT CAST(seq AS INTEGER) FROM main.sqlite_sequence WHERE name = '{name}'");
        let highest = connection
            .prepare_one(&format!(
                "SELECT max(ifnull((SELECT max({id}) FROM main.{table}), 0), \
                 ifnull(({sequence}), -9223372036854775808))"
            ))
            .or_else(|_| connection.prepare_one(&format!("SELECT max({id}) FROM main.{table}")))
            .ok()?;
        let sequence = connection.prepare_one(&sequence).ok();
        let taken = connection.prepare_one(&format!("SELECT 1 FROM main.{table} WHERE {id} = ?1"));
        let taken = taken.ok()?;
        let key = table_key(&rewritten.table.to_ascii_lowercase());
        let recompilations = highest.recompilations() + taken.recompilations();
        Some(TableIds { key, highest, taken, sequence, known: None, recompilations })
    }

    /// True when the schema has changed since: another table may have this name, and no ids.
    pub(super) fn is_stale(&self) -> bool {
        self.highest.recompilations() + self.taken.recompilations() != self.recompilations
    }

    /// The highest id that the table has, or had, if it counts that.
    pub(super) fn highest(&mut self) -> Option<i64> {
        let step = self.highest.step();
        let id = match self.highest.column(0) {
            ValueRef::Integer(id) => id,
            _ => 0,
        };
        self.highest.reset();
        step.ok().map(|_| id)
    }

    pub(super) fn is_taken(&mut self, id: i64) -> bool {
        let row = self.taken.bind(1, ValueRef::Integer(id)).and_then(|()| self.taken.step());
        self.taken.reset();
        // In doubt yes: then another id is given, and a transaction that has seen this one conflicts.
        row != Ok(Step::Done)
    }

    /// True for an id that a table with AUTOINCREMENT may have had, and never gives again.
    pub(super) fn is_used_up(&mut self, id: i64) -> bool {
        let Some(sequence) = &mut self.sequence else { return false };
        let row = sequence.step();
        let used = match sequence.column(0) {
            ValueRef::Integer(last) => id <= last,
            _ => false,
        };
        sequence.reset();
        row.is_err() || used
    }
}
