//! CREATE … IF NOT EXISTS and DROP … IF EXISTS where there is nothing to do. SQLite executes them as a read: they wait for no
//! lock. Programs begin with them, and rely on it.
//!
//! SQLite compiles such a statement with the schema that it read last. So the schema is read again first; what is then
//! executed in the statement's place cannot begin to write, whatever others do meanwhile to the schema.
//!
//! In a transaction that there was nothing to do is something seen: one of mode Auto remembers the number of the schema, and
//! that the schema is still this one counts when it takes its turn. Speculative ones take their turn for it.

use crate::Error;
use crate::connection::Connection;
use crate::statement::bytecode::Bytecode;
use crate::statement::prepared::Prepared;
use crate::statement::routing::{Facts, NOTHING, Route};

/// All that the authorizer is told of a virtual table that is there already: a row would be added to this table.
const SCHEMA_TABLE: &str = "sqlite_master";

/// True for a statement that may have nothing to do, depending on what is there when it is executed: compiled again
/// each time, it is looked at each time.
pub(crate) fn may_have_nothing_to_do(facts: &Facts) -> bool {
    (facts.schema || facts.silent || facts.tables_written.contains(SCHEMA_TABLE))
        && facts.transaction.is_none()
        && facts.pragma.is_none()
}

impl Connection {
    /// What is executed in the place of `prepared`: the same, unless it would take a turn and has nothing to do.
    ///
    /// # Errors
    /// As SQLite fails to read the schema.
    pub(crate) fn with_nothing_to_do(
        &self,
        prepared: Box<Prepared>,
    ) -> Result<Box<Prepared>, Error> {
        let facts = &prepared.facts;
        let may_have_nothing = matches!(prepared.route, Route::Turn | Route::Request)
            && may_have_nothing_to_do(facts)
            && !facts.left_out
            && self.is_shared()
            && self.optimistic.as_ref().is_none_or(|it| it.only_reads())
            // It would be told of another statement than it wrote.
            && !self.session().compiler.hooks.is_traced()
            && !self.holds_turn();
        if !may_have_nothing || !self.has_nothing_to_do(&prepared.sql) {
            return Ok(prepared);
        }
        if self.has_newer_schema()? && !self.has_nothing_to_do(&prepared.sql) {
            return Ok(prepared);
        }
        let _own = self.own_statements();
        self.compile_in_place(NOTHING)
    }

    /// The open transaction was told that there was nothing to do.
    pub(crate) fn note_nothing_to_do(&mut self) {
        // Of attached databases only its own snapshot says that they are as they were.
        let schema = if self.attached.is_empty() { self.schema_number() } else { None };
        if let Some(optimistic) = &mut self.optimistic {
            match schema {
                Some(_) => optimistic.schema = schema,
                None => optimistic.forget_log(),
            }
        }
    }

    /// As of the schema that SQLite read last.
    fn has_nothing_to_do(&self, sql: &str) -> bool {
        let _own = self.own_statements();
        Bytecode::of(self.sqlite(), sql).is_ok_and(|program| program.does_nothing())
    }
}
