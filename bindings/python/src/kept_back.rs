//! Transactions that are one write, kept back until they go on or commit.
//!
//! `execute("UPDATE …")` and `commit()` are what most programs call. Between the two the UPDATE would be executed on a
//! fork, and again by who leads. One that is certain to succeed ([`manyhands::Connection::foresee`]) shows nobody
//! that it was not executed yet: with `commit()` it is executed as a write of its own, and before anything else
//! that the connection is called for, as it would have been, after BEGIN. To ask how many rows it has changed is such
//! a call, but for an INSERT of one row.

use std::sync::{Arc, OnceLock};

use manyhands::{Error, Foreseen, Outcome, Value};

/// What a statement will have done, once it has been executed.
pub(crate) type Promised = Arc<OnceLock<Outcome>>;

/// A connection, and the transaction that it keeps back.
pub(crate) struct Engine {
    connection: manyhands::Connection,
    kept: Option<KeptBack>,
}

/// The only statement of its transaction.
struct KeptBack {
    begin: &'static str,
    sql: String,
    values: Vec<Value>,
    outcome: Promised,
}

impl Engine {
    pub(crate) fn new(connection: manyhands::Connection) -> Engine {
        Engine { connection, kept: None }
    }

    /// The connection, which has executed all that it was called for.
    ///
    /// # Errors
    /// As the transaction that was kept back fails. When it has to wait too long, or is interrupted, it is still kept
    /// back; after any other error it is over.
    pub(crate) fn connection(&mut self) -> Result<&mut manyhands::Connection, Error> {
        self.go_on(None)?;
        Ok(&mut self.connection)
    }

    /// Executes what is kept back in its turn to write, so that what it changes cannot change any more.
    ///
    /// # Errors
    /// See `connection`.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        self.go_on(Some("BEGIN IMMEDIATE"))
    }

    fn go_on(&mut self, begin: Option<&str>) -> Result<(), Error> {
        let Some(kept) = self.kept.take() else { return Ok(()) };
        let executed = self.begin_with(begin.unwrap_or(kept.begin), &kept);
        self.note(kept, executed)
    }

    fn begin_with(&mut self, begin: &str, kept: &KeptBack) -> Result<Outcome, Error> {
        self.connection.execute(begin, &[])?;
        let executed = self.connection.execute(&kept.sql, &kept.values);
        if executed.is_err() && !self.connection.is_autocommit() {
            self.connection.execute("ROLLBACK", &[])?;
        }
        executed
    }

    /// Notes what came of a statement that was kept back.
    fn note(&mut self, kept: KeptBack, executed: Result<Outcome, Error>) -> Result<(), Error> {
        match executed {
            Ok(outcome) => drop(kept.outcome.set(outcome)),
            Err(error) => {
                if error.is_timeout() || error.is_interrupt() {
                    self.kept = Some(kept);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Keeps a statement back that would begin a transaction, if it is certain to succeed.
    pub(crate) fn keep_back(
        &mut self,
        begin: &'static str,
        sql: &str,
        values: &[Value],
    ) -> Option<(Promised, Foreseen)> {
        if self.is_in_transaction() {
            return None;
        }
        let foreseen = self.connection.foresee(sql, values)?;
        let outcome = Promised::default();
        self.kept = Some(KeptBack {
            begin,
            sql: sql.to_string(),
            values: values.to_vec(),
            outcome: Arc::clone(&outcome),
        });
        Some((outcome, foreseen))
    }

    pub(crate) fn is_in_transaction(&self) -> bool {
        self.kept.is_some() || !self.connection.is_autocommit()
    }

    /// Commits the open transaction, if there is one.
    ///
    /// # Errors
    /// See `connection`.
    pub(crate) fn commit(&mut self) -> Result<(), Error> {
        if let Some(kept) = self.kept.take() {
            let executed = self.connection.execute(&kept.sql, &kept.values);
            return self.note(kept, executed);
        }
        self.end("COMMIT")
    }

    /// Rolls back the open transaction, if there is one.
    ///
    /// # Errors
    /// As SQLite fails.
    pub(crate) fn roll_back(&mut self) -> Result<(), Error> {
        // Executed all the same: what is undone has been counted, and has had its rowid.
        let _ = self.connection();
        self.kept = None;
        self.end("ROLLBACK")
    }

    fn end(&mut self, how: &str) -> Result<(), Error> {
        if !self.connection.is_autocommit() {
            self.connection.execute(how, &[])?;
        }
        Ok(())
    }

    /// The connection, which does not know of what is kept back.
    pub(crate) fn without_kept_back(&mut self) -> &mut manyhands::Connection {
        &mut self.connection
    }

    /// Executes what is kept back, if somebody may ask for its outcome when the connection is closed.
    pub(crate) fn keep_promise(&mut self) {
        if self.kept.as_ref().is_some_and(|kept| Arc::strong_count(&kept.outcome) > 1) {
            let _ = self.connection();
        }
    }

    /// Rolls back the open transaction of a connection that is closed.
    ///
    /// # Errors
    /// As SQLite fails.
    pub(crate) fn close(mut self) -> Result<(), Error> {
        self.kept = None;
        self.end("ROLLBACK")
    }
}
