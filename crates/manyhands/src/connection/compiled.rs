//! Statements that a driver keeps compiled, for a language whose programs have statements of their own.
//!
//! One that reads is SQLite's own statement, and its driver steps it: outside of transactions, and in a turn, that is all there is to do.
//! Where a transaction's log must say what was shown, and for everything that writes, the connection executes it, and gives the rows.
//!
//! A statement that the driver steps holds a snapshot, which the connection cannot make it let go of: while one runs outside of a
//! transaction, this connection executes its writes itself, and its transactions are SQLite's own.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use manyhands_sqlite::{self as sqlite, Value};

use crate::Error;
use crate::connection::Connection;
use crate::connection::compile::may_be_used_again;
use crate::connection::cursor::Execution;
use crate::limits;
use crate::row::{Outcome, Tally};
use crate::session::interrupt::GivesUp;
use crate::statement::prepared::Prepared;
use crate::statement::routing::{Route, is_nothing};
use crate::statement::tables::{TableSet, has_sequence};

/// What became of a compiled statement.
#[derive(Debug)]
pub enum Started {
    /// Nothing yet: its driver steps it, with the values that are to be bound to it. Nobody else has anything to do with it.
    ByDriver,
    /// It was executed. Its rows come one by one.
    Executed(Execution),
}

/// A compiled statement that its driver keeps; made by
/// [`ConnectionExt::compile_first`](crate::driver::ConnectionExt::compile_first).
pub struct CompiledStatement {
    prepared: Box<Prepared>,
    /// It is compiled each time that it is executed, or before the next time: see [`CompiledStatement::expire`].
    is_to_be_anew: bool,
    /// It reads, and has rows.
    only_shows: bool,
    leaves_no_trace: bool,
}

impl CompiledStatement {
    fn new(prepared: Box<Prepared>) -> CompiledStatement {
        CompiledStatement {
            // What is only explained stays as it is, as with SQLite, until its driver lets go of it.
            is_to_be_anew: !may_be_used_again(&prepared) && !prepared.compiled.explain,
            only_shows: !prepared.columns.is_empty() && prepared.only_shows(),
            leaves_no_trace: prepared.facts.leaves_no_trace(),
            prepared,
        }
    }

    fn is_to_be_compiled(&self) -> bool {
        self.is_to_be_anew || self.prepared.statement.is_expired() || self.prepared.is_stale()
    }

    /// Has it compiled again before it is executed the next time: the application's authorizer is another one, and wants to be asked.
    pub fn expire(&mut self) {
        self.is_to_be_anew = true;
    }

    /// SQLite's own statement. It is another one after [`ConnectionExt::start_compiled`](crate::driver::ConnectionExt::start_compiled)
    /// if it had to be compiled again; then nothing is bound to it.
    pub fn as_ptr(&self) -> *mut core::ffi::c_void {
        self.prepared.statement.as_ptr().cast()
    }

    /// True for a statement that does not write into the database file by itself
    /// (<https://sqlite.org/c3ref/stmt_readonly.html>). CREATE … IF NOT EXISTS does, also where there is nothing to do.
    pub fn is_read_only(&self) -> bool {
        self.prepared.compiled.read_only && !is_nothing(&self.prepared.facts)
    }

    /// True for INSERT, UPDATE and DELETE: what `changes()` counts.
    pub fn changes_rows(&self) -> bool {
        self.prepared.facts.changes_rows()
    }
}

impl fmt::Debug for CompiledStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledStatement").field("sql", &self.prepared.sql).finish_non_exhaustive()
    }
}

impl Connection {
    /// See [`ConnectionExt::compile_first`](crate::driver::ConnectionExt::compile_first).
    pub(crate) fn compile_for_driver<'s>(
        &mut self,
        sql: &'s str,
    ) -> Result<Option<(CompiledStatement, &'s str)>, Error> {
        self.driver_steps = true;
        self.begin_operation()?;
        self.outlive_interrupt(sql);
        // An application that is asked is asked about each text that it compiles. And to look for a long one costs more than it brings.
        let is_asked = self.session().compiler.hooks.asks_application();
        let found = if is_asked || sql.len() > limits::TEXT_LOOKED_FOR_BYTES_MAX {
            self.compile_first(sql)
        } else {
            self.look_up_first(sql)
        };
        let found = found.inspect_err(|error| self.log_uncompiled(sql, &[], error))?;
        Ok(found.map(|(prepared, used)| (CompiledStatement::new(prepared), &sql[used..])))
    }

    /// See [`ConnectionExt::start_compiled`](crate::driver::ConnectionExt::start_compiled).
    pub(crate) fn start_compiled(
        &mut self,
        statement: &mut CompiledStatement,
        values: &[Value],
    ) -> Result<Started, Error> {
        self.begin_operation()?;
        self.outlive_interrupt(&statement.prepared.sql);
        if statement.is_to_be_compiled() {
            self.compile_anew(statement, values)?;
        }
        if statement.only_shows && self.optimistic.is_none() {
            // SQLite alone would do the same.
            statement.prepared.note_use();
            self.pristine &= statement.leaves_no_trace;
            return Ok(Started::ByDriver);
        }
        let prepared = &mut statement.prepared;
        prepared.note_use();
        self.know_tables(prepared);
        if prepared.compiled.explain {
            // It reads nothing of the database.
            return Ok(Started::ByDriver);
        }
        if self.is_sqlites_in_turn(prepared) {
            self.note_written_in_turn(prepared);
            return Ok(Started::ByDriver);
        }
        if !statement.only_shows {
            return self.execute_compiled(prepared, values).map(Started::Executed);
        }
        if !self.begin_to_read(prepared)? {
            return Ok(Started::ByDriver);
        }
        // The rows are fetched while the statement says what its columns are: with another one of the same text.
        let sql = Arc::clone(&prepared.sql);
        let shown = self.take_as_compiled(&sql)?;
        let columns = Arc::clone(&shown.columns);
        let rows = Some(self.open_begun(shown, values, true)?);
        let tally = Tally::new(0, self.sqlite().last_insert_rowid());
        let outcome = self.after_deferred(Outcome { rows: Vec::new(), tally });
        Ok(Started::Executed(Execution { columns, rows, outcome }))
    }

    fn compile_anew(
        &mut self,
        statement: &mut CompiledStatement,
        values: &[Value],
    ) -> Result<(), Error> {
        let sql = Arc::clone(&statement.prepared.sql);
        let again = self.look_up(&sql);
        let again = again.inspect_err(|error| self.log_uncompiled(&sql, values, error))?;
        let again = again.ok_or_else(|| Error::refused("there is no SQL statement"))?;
        *statement = CompiledStatement::new(again);
        Ok(())
    }

    /// True for a write of a transaction that has its turn, and SQLite's lock, where nothing is left for the engine to do: SQLite
    /// executes it, and counts it.
    fn is_sqlites_in_turn(&self, prepared: &Prepared) -> bool {
        let facts = &prepared.facts;
        matches!(prepared.route, Route::Request | Route::Turn)
            && facts.changes_rows()
            && !facts.schema
            && !facts.silent
            && !self.is_autocommit()
            && self.optimistic.is_none()
            && self.attached.is_empty()
            && !self.reads_only
            && self.file.as_ref().is_some_and(|file| self.turns.has(file.id()))
            && self.sqlite().writes()
            && self.session().counters.has_run_here()
            && !has_sequence(&prepared.written)
            && self.queue_for_ids(prepared).is_none()
    }

    fn note_written_in_turn(&mut self, prepared: &Prepared) {
        let queue = self.file.as_ref().map(|file| file.queue());
        self.path.note_write(queue.as_deref());
        self.turns.note_written(prepared.touches_now().writes);
    }

    fn execute_compiled(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Result<Execution, Error> {
        let result = self.carry_out(prepared, values);
        self.end_after(prepared.facts.transaction.is_some(), result.is_err());
        let columns = Arc::clone(&prepared.columns);
        let outcome = result?;
        Ok(Execution::of_all(columns, outcome))
    }

    /// See [`ConnectionExt::keep_compiled`](crate::driver::ConnectionExt::keep_compiled).
    pub(crate) fn keep_compiled(&mut self, statement: CompiledStatement) {
        self.put_back(statement.prepared);
    }

    /// True while a statement runs, outside of a transaction, that its driver steps.
    pub(crate) fn driver_reads(&self) -> bool {
        self.driver_steps && self.sqlite().transaction() != sqlite::Transaction::None
    }

    /// See [`ConnectionExt::work_in_turn`](crate::driver::ConnectionExt::work_in_turn).
    pub(crate) fn work_in_turn<T>(&mut self, work: impl FnOnce() -> T) -> Result<T, Error> {
        self.begin_operation()?;
        if self.is_autocommit() {
            self.enter()?;
        }
        if self.optimistic.is_some() {
            self.escalate_first()?;
        }
        if self.file.is_some() {
            self.hold_all(None)?;
        }
        let done = work();
        if !self.turns.is_empty() {
            self.turns.written = TableSet::ALL;
            if let Some(file) = &self.file {
                file.queue().forget_ids();
            }
        }
        self.end_with_transaction();
        Ok(done)
    }

    /// See [`ConnectionExt::overwrite_in_turn`](crate::driver::ConnectionExt::overwrite_in_turn).
    pub(crate) fn overwrite_in_turn<T>(&mut self, work: impl FnOnce() -> T) -> Result<T, Error> {
        self.begin_operation()?;
        if self.is_autocommit() {
            self.enter()?;
        }
        // SQLite refuses to overwrite what is in use.
        let file = self.file.clone().filter(|file| self.is_untouched() && !self.holds(file.id()));
        let lead = file.as_ref().map(|file| self.client(file).take_turn()).transpose()?;
        // Nothing may be written under a speculative transaction's imaginary lock.
        let rearms = self.optimistic.is_some();
        if rearms {
            self.sqlite().arm_speculation(false);
        }
        let done = work();
        if rearms {
            self.sqlite().arm_speculation(true);
        }
        if let Some(file) = &file {
            file.queue().forget_ids();
        }
        drop(lead);
        Ok(done)
    }

    /// See [`ConnectionExt::read_alone`](crate::driver::ConnectionExt::read_alone).
    pub(crate) fn read_alone<T>(&mut self, read: impl FnOnce() -> T) -> Result<T, Error> {
        self.begin_operation()?;
        self.show_unlogged()?;
        Ok(read())
    }

    /// See [`ConnectionExt::hear_statements`](crate::driver::ConnectionExt::hear_statements).
    pub(crate) fn hear_statements<T>(
        &mut self,
        hears: bool,
        change: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        self.before_change()?;
        self.session().compiler.hooks.set_traced(hears);
        let done = change();
        self.after_change(true);
        Ok(done)
    }

    /// See [`ConnectionExt::change_connection`](crate::driver::ConnectionExt::change_connection).
    pub(crate) fn change_connection<T>(
        &mut self,
        is_local: bool,
        change: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        self.before_change()?;
        let done = change();
        // It may have added anything.
        self.additions.extended |= is_local;
        self.after_change(is_local);
        Ok(done)
    }

    /// See [`ConnectionExt::as_own`](crate::driver::ConnectionExt::as_own).
    pub(crate) fn as_own<T>(&mut self, work: impl FnOnce(&mut Connection) -> T) -> T {
        let _own = self.own_statements();
        work(self)
    }

    /// See [`ConnectionExt::set_timeout`](crate::driver::ConnectionExt::set_timeout).
    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.settings.timeout = timeout;
        self.session().wait.set(timeout);
        self.pristine = false;
    }

    /// See [`ConnectionExt::give_up_waiting`](crate::driver::ConnectionExt::give_up_waiting).
    pub(crate) fn give_up_waiting(&mut self, gives_up: Option<GivesUp>) {
        self.interrupt.set_gives_up(gives_up);
    }
}
