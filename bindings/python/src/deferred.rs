//! Transactions that are deferred until they are asked something or commit.
//!
//! `execute("UPDATE …")` and `commit()` are what most programs call. Between the two the UPDATE would be executed on a
//! fork, and again by who leads. One that is certain to succeed ([`ConnectionExt::infallible_write`]) shows nobody
//! that it was not executed yet, and so do several: with `commit()` they are executed as one write, and before
//! anything else that the connection is called for, as they would have been, after BEGIN. To ask how many rows one has
//! changed is such a call, but for an INSERT of one row.

use std::sync::{Arc, OnceLock};

use manyhands::driver::{ConnectionExt, InfallibleWrite};
use manyhands::{Error, Outcome, Value};

use crate::control::End;
use crate::statement::Statement;

/// Statements of a transaction that are deferred at most; after more it is executed, as what loads in bulk.
const STATEMENTS_MAX: usize = 64;

/// What a statement will have done, once it has been executed.
pub(crate) type Promised = Arc<OnceLock<Outcome>>;

/// A connection, and the transaction that it defers.
pub(crate) struct Engine {
    connection: manyhands::Connection,
    kept: Option<DeferredWrites>,
}

/// All of a transaction so far.
struct DeferredWrites {
    begin: &'static str,
    statements: Vec<Write>,
}

struct Write {
    sql: String,
    values: Vec<Value>,
    outcome: Promised,
}

impl Engine {
    pub(crate) fn new(mut connection: manyhands::Connection) -> Engine {
        // Cursors and the connection ask for counts and rowids as that wants.
        connection.defer_writes(true);
        Engine { connection, kept: None }
    }

    /// The connection, which has executed all that it was called for.
    ///
    /// # Errors
    /// As the transaction that was deferred fails. When it has to wait too long, or is interrupted, it is still kept
    /// back; after any other error it is over.
    pub(crate) fn connection(&mut self) -> Result<&mut manyhands::Connection, Error> {
        self.go_on(None)?;
        Ok(&mut self.connection)
    }

    /// Executes what is deferred in its turn to write, so that what it changes cannot change any more.
    ///
    /// # Errors
    /// See `connection`.
    pub(crate) fn execute_deferred_in_turn(&mut self) -> Result<(), Error> {
        self.go_on(Some("BEGIN IMMEDIATE"))
    }

    fn go_on(&mut self, begin: Option<&str>) -> Result<(), Error> {
        let Some(kept) = self.kept.take() else { return Ok(()) };
        let executed = self.begin_with(begin.unwrap_or(kept.begin), &kept.statements);
        self.note(kept, executed)
    }

    fn begin_with(&mut self, begin: &str, kept: &[Write]) -> Result<Vec<Outcome>, Error> {
        self.connection.execute(begin, &[])?;
        let execute = |it: &Write| self.connection.execute(&it.sql, &it.values);
        let executed: Result<Vec<Outcome>, Error> = kept.iter().map(execute).collect();
        if executed.is_err() && !self.connection.is_autocommit() {
            self.connection.execute("ROLLBACK", &[])?;
        }
        executed
    }

    /// Notes what came of the statements that were deferred.
    fn note(
        &mut self,
        kept: DeferredWrites,
        executed: Result<Vec<Outcome>, Error>,
    ) -> Result<(), Error> {
        match executed {
            Ok(outcomes) => {
                for (statement, outcome) in kept.statements.iter().zip(outcomes) {
                    drop(statement.outcome.set(outcome));
                }
            }
            Err(error) => {
                let is_over = self.connection.is_autocommit();
                if is_over && (error.is_timeout() || error.is_interrupt()) {
                    self.kept = Some(kept);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Keeps a statement back, if it is certain to succeed, and if its transaction would begin with it or is deferred.
    pub(crate) fn defer_row(
        &mut self,
        begin: &'static str,
        sql: &str,
        values: &[Value],
    ) -> Option<(Promised, InfallibleWrite)> {
        let kept = self.kept.as_ref().map_or(0, |it| it.statements.len());
        if !self.connection.is_autocommit() || kept >= STATEMENTS_MAX {
            return None;
        }
        let foreseen = self.connection.infallible_write(sql, values)?;
        let outcome = Promised::default();
        let kept =
            self.kept.get_or_insert_with(|| DeferredWrites { begin, statements: Vec::new() });
        kept.statements.push(Write {
            sql: sql.to_string(),
            values: values.to_vec(),
            outcome: Arc::clone(&outcome),
        });
        Some((outcome, foreseen))
    }

    /// The names of a statement's parameters.
    ///
    /// # Errors
    /// As SQLite fails to compile it; and see `connection`.
    pub(crate) fn parameter_names(
        &mut self,
        statement: &Statement,
    ) -> Result<Vec<Option<String>>, Error> {
        // Outside of the transaction, which has not begun. A PRAGMA does what it does when it is compiled; and that something
        // does not compile is seen in the transaction, which may end by that.
        if self.kept.is_some()
            && statement.changes_rows
            && let Ok(names) = self.connection.parameter_names(&statement.sql)
        {
            return Ok(names);
        }
        self.connection()?.parameter_names(&statement.sql)
    }

    pub(crate) fn is_in_transaction(&self) -> bool {
        self.kept.is_some() || !self.connection.is_autocommit()
    }

    /// Commits the open transaction, if there is one.
    ///
    /// # Errors
    /// See `connection`; and in a block whose transaction an error has ended.
    pub(crate) fn commit(&mut self) -> Result<(), Error> {
        let Some(kept) = self.kept.take() else { return self.end("COMMIT") };
        let executed = match kept.statements.as_slice() {
            [only] => self.connection.execute(&only.sql, &only.values).map(|it| vec![it]),
            several => {
                let batch: Vec<(&str, &[Value])> =
                    several.iter().map(|it| (it.sql.as_str(), it.values.as_slice())).collect();
                // The application knows of no batch.
                self.connection.batch(&batch).map_err(Error::without_index)
            }
        };
        self.note(kept, executed)
    }

    /// Rolls back the open transaction, if there is one.
    ///
    /// # Errors
    /// As SQLite fails.
    pub(crate) fn roll_back(&mut self) -> Result<(), Error> {
        // Executed all the same: what is undone has been counted, and has had its rowid.
        let _ = self.connection();
        self.kept = None;
        // Who says so in a block goes on outside of its transaction.
        self.connection.unguard();
        self.end("ROLLBACK")
    }

    pub(crate) fn unguard(&mut self) {
        self.connection.unguard();
    }

    /// Ends a transaction that Python code is a block of.
    ///
    /// # Errors
    /// See `commit` and `roll_back`; and, for a commit, when an error has ended it already.
    pub(crate) fn end_block(&mut self, how: End) -> Result<(), Error> {
        match how {
            End::Commit => {
                let checked = self.connection.check_guard();
                self.connection.unguard();
                checked.and_then(|()| self.commit())
            }
            End::Rollback => self.roll_back(),
        }
    }

    fn end(&mut self, how: &str) -> Result<(), Error> {
        if self.connection.is_autocommit() {
            return self.connection.check_guard();
        }
        self.connection.execute(how, &[]).map(drop)
    }

    /// The connection, which does not know of what is deferred.
    pub(crate) fn without_deferred(&mut self) -> &mut manyhands::Connection {
        &mut self.connection
    }

    /// Executes what is deferred, if somebody may ask for its outcome when the connection is closed.
    pub(crate) fn keep_promise(&mut self) {
        let mut kept = self.kept.iter().flat_map(|it| &it.statements);
        if kept.any(|it| Arc::strong_count(&it.outcome) > 1) {
            let _ = self.connection();
        }
    }

    /// Rolls back the open transaction of a connection that is closed.
    ///
    /// # Errors
    /// As SQLite fails.
    pub(crate) fn close(mut self) -> Result<(), Error> {
        self.kept = None;
        self.connection.unguard();
        self.end("ROLLBACK")
    }
}
