//! CREATE … IF NOT EXISTS and DROP … IF EXISTS where there is nothing to do. SQLite executes them as a read: they wait for no
//! lock. Programs begin with them, and rely on it.
//!
//! SQLite compiles such a statement with the schema that it read last. So the schema is read again first; what is then
//! executed in the statement's place cannot begin to write, whatever others do meanwhile to the schema.
//!
//! A transaction that will be compared with what others commit takes its turn for it: nothing of a schema that has no
//! such table could be compared.

use crate::Error;
use crate::connection::Connection;
use crate::statement::bytecode::Bytecode;
use crate::statement::prepared::Prepared;
use crate::statement::routing::NOTHING;
use crate::statement::routing::Route;

/// All that the authorizer is told of a virtual table that is there already: a row would be added to this table.
const SCHEMA_TABLE: &str = "sqlite_master";

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
            && (facts.schema || facts.silent || facts.tables_written.contains(SCHEMA_TABLE))
            && facts.transaction.is_none()
            && facts.pragma.is_none()
            && !facts.left_out
            && self.is_shared()
            && self.optimistic.is_none()
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

    /// As of the schema that SQLite read last.
    fn has_nothing_to_do(&self, sql: &str) -> bool {
        let _own = self.own_statements();
        Bytecode::of(self.sqlite(), sql).is_ok_and(|program| program.does_nothing())
    }
}
