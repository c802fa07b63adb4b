//! Infallible writes: what is known of a write before it is executed.

use manyhands_sqlite::{self as sqlite, Statement, Step, ValueRef};

use crate::statement::bytecode::{Bytecode, InfallibleProgram, NamedRow};
use crate::statement::rewrite;
use crate::statement::tables::table_key;

/// What is known of a write before it is executed: see `driver::ConnectionExt::infallible_write`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfallibleWrite {
    /// That it adds one row, and changes no other.
    OneRow,
    /// That it succeeds. What it changes is not known.
    Success,
}

/// Whether a statement is infallible.
#[derive(Debug)]
pub(crate) struct Infallibility {
    /// The number of the schema in which it was looked at.
    pub(crate) schema: i64,
    /// See [`IdFunction::settings`](crate::statement::rowid::IdFunction::settings): whether foreign keys are checked is one.
    pub(crate) settings: u64,
    pub(crate) infallible: Option<InfallibleProgram>,
    /// `None` when nobody has needed it.
    pub(crate) lookup: Option<Box<RowLookup>>,
}

/// Looks up rows of one table by their ids.
#[derive(Debug)]
pub(crate) struct RowLookup {
    /// The first id from a number on.
    next: Statement,
    pub(crate) table: u64,
    free: Option<Free>,
}

/// Ids without a row.
#[derive(Debug)]
struct Free {
    at: Moment,
    first: i64,
    last: i64,
}

/// What a speculative transaction reads stays the same as long as this does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) snapshot: u64,
    pub(crate) executed: usize,
}

impl RowLookup {
    /// `None` for a table whose rows have no ids that could be named, and if the schema is not the one with this number.
    pub(crate) fn of(
        sqlite: &sqlite::Connection,
        row: &NamedRow,
        schema: i64,
    ) -> Result<Option<RowLookup>, sqlite::Error> {
        let Some(id) = rewrite::rowid_alias(sqlite, &row.table)? else { return Ok(None) };
        let table = rewrite::quote(&row.table);
        let sql = format!("SELECT {id} FROM main.{table} WHERE {id} >= ?1 ORDER BY {id} LIMIT 1");
        let next = sqlite.prepare_one(&sql)?;
        let is_of_schema = Bytecode::of(sqlite, &sql)?.schema() == Some(schema);
        let table = table_key(&row.table.to_ascii_lowercase());
        Ok(is_of_schema.then_some(RowLookup { next, table, free: None }))
    }

    /// Whether a row has this id. `None` if that cannot be known, for a schema that is not the one that the lookup was
    /// made for.
    pub(crate) fn finds(&mut self, id: i64, at: Moment) -> Option<bool> {
        let is_free = |it: &Free| it.at == at && (it.first..=it.last).contains(&id);
        if self.free.as_ref().is_some_and(is_free) {
            return Some(false);
        }
        self.next.bind(1, ValueRef::Integer(id)).ok()?;
        let step = self.next.step();
        let found = match (&step, self.next.column(0)) {
            (Ok(Step::Row), ValueRef::Integer(found)) => Some(found),
            _ => None,
        };
        self.next.reset();
        step.ok()?;
        if self.next.recompilations() != 0 {
            return None;
        }
        if found != Some(id) {
            self.free = Some(Free { at, first: id, last: found.map_or(i64::MAX, |next| next - 1) });
        }
        Some(found == Some(id))
    }
}
