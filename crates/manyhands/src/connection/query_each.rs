//! Rows that are shown as they come, and not kept.

use manyhands_sqlite::{self as sqlite, Paused, PinGuard, Step, Value, pin};

use crate::Error;
use crate::connection::Connection;
use crate::row::RowView;
use crate::statement::observe::Observer;
use crate::statement::prepared::Prepared;
use crate::statement::routing::{self, InSpeculation, Route};

impl Connection {
    /// Executes one statement that reads, and shows its rows to `each`, without keeping them. It ends
    /// early when `each` returns false.
    ///
    /// # Errors
    /// See [`Connection::execute`]; and when the statement writes.
    pub fn query_each(
        &mut self,
        sql: &str,
        values: &[Value],
        each: impl FnMut(&mut RowView<'_>) -> bool,
    ) -> Result<(), Error> {
        self.begin_operation()?;
        let mut prepared =
            self.take_prepared(sql).inspect_err(|error| self.log_uncompiled(sql, values, error))?;
        let reads = prepared.compiled.explain || prepared.facts.changes_nothing();
        let result = if prepared.route != Route::Own || !reads {
            Err(Error::refused("query_each takes statements that read; use execute or query"))
        } else {
            let before = self.prepare_transaction(&prepared);
            before.and_then(|()| self.execute_deferred()).and_then(|()| {
                if self.optimistic.is_some() {
                    self.query_each_speculatively(&mut prepared, values, each)
                } else {
                    self.query_each_here(&mut prepared, values, each)
                }
            })
        };
        self.put_back(prepared);
        self.end_with_transaction();
        result
    }

    /// Shows the rows of a statement that reads, outside a speculative transaction.
    pub(crate) fn query_each_here(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
        mut each: impl FnMut(&mut RowView<'_>) -> bool,
    ) -> Result<(), Error> {
        self.pristine &= prepared.facts.leaves_no_trace();
        let statement = &mut prepared.statement;
        let mut run = || {
            statement.bind_all(values.iter().map(Value::as_ref))?;
            while statement.step()? == Step::Row {
                if !each(&mut RowView { statement }) {
                    break;
                }
            }
            Ok(())
        };
        let result = run();
        prepared.statement.reset();
        result.map_err(|error: sqlite::Error| self.describe(error))
    }

    /// Shows the rows of a statement that reads to `each`, and logs those that it has seen.
    pub(crate) fn query_each_speculatively(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
        mut each: impl FnMut(&mut RowView<'_>) -> bool,
    ) -> Result<(), Error> {
        match routing::in_speculation(&prepared.facts, &prepared.route, prepared.compiled) {
            InSpeculation::Plain => return self.query_each_here(prepared, values, each),
            InSpeculation::LoggedForLocalReplay => self.require_local_replay(prepared),
            InSpeculation::Logged | InSpeculation::InTurn => {}
        }
        // A speculative transaction that reads may overflow too. Rows that were shown cannot be taken back: so before.
        self.keep_within_limits(self.sqlite().speculation_status().speculating)?;
        if self.optimistic.is_none() {
            return self.query_each_here(prepared, values, each);
        }
        let mut pinned = self.pin_next().map(pin);
        let mut observer = Observer::default();
        let statement = &mut prepared.statement;
        let mut run = || {
            statement.bind_all(values.iter().map(Value::as_ref))?;
            while statement.step()? == Step::Row {
                observer.current_row(statement);
                // Clock and dice are this statement's, not those of what `each` does.
                let paused = pinned.take().map(PinGuard::pause);
                let goes_on = each(&mut RowView { statement });
                pinned = paused.map(Paused::resume);
                if !goes_on {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let result: Result<bool, sqlite::Error> = run();
        prepared.statement.reset();
        let shown = match &result {
            Ok(to_end) => observer.finish(*to_end),
            Err(error) if error.code.is_result() => observer.fail(error.code),
            // What the system failed at is nobody's result; the rows before it are.
            Err(_) => observer.finish(false),
        };
        drop(pinned);
        self.log(prepared, values, (shown.0, &shown.1), None);
        self.keep_within_limits(false)?;
        result.map(drop).map_err(|error| self.describe(error))
    }
}
