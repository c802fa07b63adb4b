//! Transactions whose BEGIN waits for what follows, for drivers that begin them by themselves.
//!
//! `execute("UPDATE …")` and `commit()` are what most programs call. An infallible write shows nobody that it was not
//! executed yet, and so do several. With the commit they are executed as one write, without BEGIN; before anything else that the
//! connection is called for ([`Connection::begin_operation`]) they are executed as they would have been, after BEGIN.

use std::sync::Arc;

use manyhands_sqlite::Value;

use crate::Error;
use crate::connection::Connection;
use crate::limits;
use crate::row::{Outcome, Tally};
use crate::statement::infallible::InfallibleWrite;

/// All of a transaction so far.
#[derive(Debug)]
pub(crate) struct LazyTransaction {
    begin: &'static str,
    writes: Vec<LazyWrite>,
}

#[derive(Debug)]
struct LazyWrite {
    sql: String,
    values: Vec<Value>,
    /// What its caller may ask for, when it has been executed.
    tally: Arc<Tally>,
}

impl LazyTransaction {
    fn has(&self, outcome: &Outcome) -> bool {
        self.writes.iter().any(|it| it.tally.is_same(&outcome.tally))
    }

    /// True when somebody may still ask what one of them counted.
    fn is_asked_for(&self) -> bool {
        self.writes.iter().any(|it| Arc::strong_count(&it.tally) > 1)
    }
}

impl Connection {
    /// See [`ConnectionExt::execute_lazily`](crate::driver::ConnectionExt::execute_lazily).
    pub(crate) fn execute_lazily(
        &mut self,
        begin: &'static str,
        sql: &str,
        values: &[Value],
    ) -> Option<(Outcome, InfallibleWrite)> {
        let count = self.lazy.as_ref().map_or(0, |it| it.writes.len());
        if !self.is_autocommit() || count >= limits::LAZY_WRITES_MAX {
            return None;
        }
        let infallible = self.infallible_write(sql, values)?;
        let tally = Arc::<Tally>::default();
        let lazy = self
            .lazy
            .get_or_insert_with(|| Box::new(LazyTransaction { begin, writes: Vec::new() }));
        let (sql, values) = (sql.to_string(), values.to_vec());
        lazy.writes.push(LazyWrite { sql, values, tally: Arc::clone(&tally) });
        Some((Outcome { rows: Vec::new(), tally }, infallible))
    }

    /// True between a BEGIN, be it lazy, and the end of its transaction.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.lazy.is_some() || !self.is_autocommit()
    }

    /// True when this is what a lazy write will have done.
    pub(crate) fn is_lazy(&self, outcome: &Outcome) -> bool {
        self.lazy.as_ref().is_some_and(|it| it.has(outcome))
    }

    /// Begins the lazy transaction, if there is one, with `begin` instead of its own BEGIN, and executes what it has.
    ///
    /// # Errors
    /// As one of its statements fails. When it has to wait too long, or is interrupted, it stays lazy; after any other
    /// error it is over.
    pub(crate) fn begin_lazy(&mut self, begin: Option<&str>) -> Result<(), Error> {
        let Some(lazy) = self.lazy.take() else { return Ok(()) };
        let executed = self.execute_after(begin.unwrap_or(lazy.begin), &lazy.writes);
        self.note_executed(lazy, executed)
    }

    fn execute_after(&mut self, begin: &str, writes: &[LazyWrite]) -> Result<Vec<Outcome>, Error> {
        self.execute(begin, &[])?;
        let executed: Result<Vec<Outcome>, Error> =
            writes.iter().map(|it| self.execute(&it.sql, &it.values)).collect();
        if executed.is_err() && !self.is_autocommit() {
            self.execute("ROLLBACK", &[])?;
        }
        executed
    }

    fn note_executed(
        &mut self,
        lazy: Box<LazyTransaction>,
        executed: Result<Vec<Outcome>, Error>,
    ) -> Result<(), Error> {
        match executed {
            Ok(outcomes) => {
                for (write, outcome) in lazy.writes.iter().zip(outcomes) {
                    write.tally.become_known(&outcome.tally);
                }
                Ok(())
            }
            Err(error) => {
                if self.is_autocommit() && (error.is_timeout() || error.is_interrupt()) {
                    self.lazy = Some(lazy);
                }
                Err(error)
            }
        }
    }

    /// See [`ConnectionExt::commit_open`](crate::driver::ConnectionExt::commit_open).
    pub(crate) fn commit_open(&mut self) -> Result<(), Error> {
        let Some(lazy) = self.lazy.take() else { return self.end_open("COMMIT") };
        let executed = match lazy.writes.as_slice() {
            [only] => self.execute(&only.sql, &only.values).map(|it| vec![it]),
            several => {
                let batch: Vec<(&str, &[Value])> =
                    several.iter().map(|it| (it.sql.as_str(), it.values.as_slice())).collect();
                // The application knows of no batch.
                self.batch(&batch).map_err(Error::without_index)
            }
        };
        self.note_executed(lazy, executed)
    }

    /// See [`ConnectionExt::roll_back_open`](crate::driver::ConnectionExt::roll_back_open).
    pub(crate) fn roll_back_open(&mut self) -> Result<(), Error> {
        // Executed all the same: what is undone has been counted, and has had its rowid.
        let _ = self.begin_lazy(None);
        self.lazy = None;
        // Who says so in a block goes on outside of its transaction.
        self.unguard();
        self.end_open("ROLLBACK")
    }

    fn end_open(&mut self, how: &str) -> Result<(), Error> {
        if self.is_autocommit() {
            return self.check_guard();
        }
        self.execute(how, &[]).map(drop)
    }

    /// See [`ConnectionExt::keep_promises`](crate::driver::ConnectionExt::keep_promises).
    pub(crate) fn keep_promises(&mut self) {
        if self.lazy.as_ref().is_some_and(|it| it.is_asked_for()) {
            // What fails there has counted nothing.
            let _ = self.begin_lazy(None);
        }
    }
}
