//! Infallible writes: they are known to succeed before they are executed ([`Bytecode::infallible`]).
//!
//! A caller that asks nothing about such a statement learns nothing from its execution. So a transaction that begins with infallible
//! writes may execute them when it commits, and not speculatively first.

use std::sync::Arc;

use manyhands_sqlite::{Step, Value, ValueRef};

use crate::commit::recent;
use crate::connection::Connection;
use crate::limits;
use crate::row::bytes_of;
use crate::session::schema::KnownSchema;
use crate::statement::bytecode::Bytecode;
use crate::statement::infallible::{Infallibility, InfallibleWrite};
use crate::statement::prepared::{Prepared, Uses};
use crate::statement::rewrite;
use crate::statement::routing::Route;
use crate::statement::tables::TableSet;

impl Connection {
    /// What is certain of an INSERT, UPDATE or DELETE outside a transaction that can fail only with the system. To look costs
    /// as much as to compile, and the answer is remembered for as long as the schema stays.
    pub(crate) fn infallible_write(
        &mut self,
        sql: &str,
        values: &[Value],
    ) -> Option<InfallibleWrite> {
        if !self.is_plain_but_for_durability()
            || !self.may_travel()
            || self.writes_with_blob()
            || self.begins_auto_mode("BEGIN") != Some(true)
            || bytes_of(values) > limits::INFALLIBLE_BYTES_MAX
        {
            return None;
        }
        // A statement that cannot be read or compiled fails when it is executed.
        if !self.follow_schema() {
            return None;
        }
        let mut prepared = self.look_up(sql).ok()??;
        let schema = self.session().schema.number;
        prepared.infallibility.take_if(|it| Some(it.schema) != schema);
        self.forget_infallibility_of_other_settings(&mut prepared);
        if prepared.infallibility.is_none() && comes_again(&prepared) {
            let uses = prepared.uses;
            if uses != Uses::None {
                // Compiled for an older schema, maybe, and executed by others since.
                drop(prepared);
                prepared = self.look_up(sql).ok()??;
                prepared.uses = uses.forget_schema();
            }
            self.look_at(&mut prepared);
        }
        let foreseen = infallible_write_with(&prepared, values);
        self.put_back(prepared);
        foreseen
    }

    /// The same for a statement of an open transaction of mode Auto that has done nothing else.
    pub(crate) fn infallible_write_of(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Option<InfallibleWrite> {
        if !self.follow_schema() {
            return None;
        }
        let schema = self.session().schema.number;
        prepared.infallibility.take_if(|it| Some(it.schema) != schema);
        self.forget_infallibility_of_other_settings(prepared);
        if prepared.infallibility.is_none() && comes_again(prepared) {
            self.look_at_anew(prepared);
        }
        infallible_write_with(prepared, values)
    }

    /// Compiles a statement once more, since it may have been compiled for an older schema, and finds out whether it is
    /// infallible. A statement that does not compile stays as it is.
    pub(crate) fn look_at_anew(&mut self, prepared: &mut Prepared) {
        let sql = Arc::clone(&prepared.sql);
        let Ok((Some(again), _)) = self.compile_for_now(&sql) else { return };
        let uses = prepared.uses.forget_schema();
        *prepared = *again;
        (prepared.sql, prepared.uses) = (sql, uses);
        self.look_at(prepared);
    }

    /// Makes sure that statements are now compiled for the schema `main` of this moment, or a newer one. Costs a read only when the
    /// schema may have changed.
    fn follow_schema(&mut self) -> bool {
        // Before the number: if it is the same another time, nobody has committed since.
        let state = self.sqlite().speculation_status().live;
        let known = &self.session().schema;
        if let (Some(known), Some(file)) = (&known.state, &self.file) {
            let then = (known.change, known.checksum);
            // A change of the schema counts as a write of all tables.
            if recent::written_since(&file.queue(), then, state.as_ref()) != TableSet::ALL {
                self.session_mut().schema.state = state;
                return true;
            }
        }
        let number = self.schema_number();
        let is_new = self.session().schema.number != number;
        if number.is_none() || is_new && self.has_newer_schema().is_err() {
            return false;
        }
        self.session_mut().schema = KnownSchema { number, state };
        true
    }

    pub(crate) fn forget_infallibility_of_other_settings(&self, prepared: &mut Prepared) {
        let settings = self.session().ids.settings();
        prepared.infallibility.take_if(|it| it.settings != settings);
    }

    /// Finds out whether a statement that was compiled just now is infallible.
    pub(crate) fn look_at(&mut self, prepared: &mut Prepared) {
        let counts = self.counts_here();
        prepared.infallibility = self.infallibility_of(prepared);
        // To look at the program of a write sets what `changes()` tells.
        self.continue_session(counts);
        if let Some(infallibility) = &prepared.infallibility {
            self.session_mut().schema.number = Some(infallibility.schema);
        }
    }

    fn infallibility_of(&self, prepared: &Prepared) -> Option<Infallibility> {
        let _own = self.own_statements();
        let program = Bytecode::of(self.sqlite(), &prepared.sql).ok()?;
        let schema = program.schema().or(self.session().schema.number)?;
        let travels = prepared.route == Route::Request;
        let may_be_null = |table: &str, column: &str| self.may_default_to_null(table, column);
        let infallible = travels.then(|| program.infallible(may_be_null)).flatten();
        let settings = self.session().ids.settings();
        Some(Infallibility { schema, settings, infallible, lookup: None })
    }

    /// False for a column of this name without DEFAULT, or with a literal that is not NULL.
    fn may_default_to_null(&self, table: &str, column: &str) -> bool {
        let list = format!("PRAGMA main.table_xinfo({})", rewrite::quote(table));
        let Ok(mut list) = self.sqlite().prepare_one(&list) else { return true };
        while list.step() == Ok(Step::Row) {
            if list.column(1) == ValueRef::Text(column.as_bytes()) {
                return match list.column(4) {
                    ValueRef::Null => false,
                    ValueRef::Text(default) => !is_literal(&String::from_utf8_lossy(default)),
                    _ => true,
                };
            }
        }
        true
    }
}

/// True for the SQL of a number or a string.
fn is_literal(sql: &str) -> bool {
    let number = sql.strip_prefix(['-', '+']).unwrap_or(sql);
    let is_number = number.starts_with(|it: char| it.is_ascii_digit())
        && number.bytes().all(|it| it.is_ascii_digit() || it == b'.');
    let inner = sql.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
    is_number || inner.is_some_and(|inner| !inner.contains('\''))
}

/// Whether a statement is infallible with these values, as far as somebody has looked.
fn infallible_write_with(prepared: &Prepared, values: &[Value]) -> Option<InfallibleWrite> {
    let given_all = values.len() == prepared.statement.parameter_count();
    let infallible = prepared.infallibility.as_ref().and_then(|it| it.infallible.as_ref());
    infallible
        .filter(|it| given_all && it.with(values) && !it.may_be_taken() && !it.returns_id)
        .map(|it| if it.adds_one_row { InfallibleWrite::OneRow } else { InfallibleWrite::Success })
}

/// False for a text that seems to have been made for one execution.
fn comes_again(prepared: &Prepared) -> bool {
    let has_values = || prepared.sql.contains(|it: char| it == '\'' || it.is_ascii_digit());
    prepared.uses != Uses::None || prepared.statement.parameter_count() > 0 || !has_values()
}

#[cfg(test)]
mod tests;
