//! Statements whose results nobody has seen yet, executed by the leader inside its batch.

use manyhands_queue::planted;
use manyhands_sqlite::{self as sqlite, Statement, Step, Value};

use crate::commit::executor::{Executed, Executor, Taken};
use crate::commit::request::{Answer, Counts, Failure, Request, StatementAnswer, StatementRequest};
use crate::statement::rowid::Recorded;
use crate::statement::tables::{TableSet, has_sequence};

impl Executor {
    pub(crate) fn execute_decoded(
        &mut self,
        request: &Request<'_>,
        taken: &mut Taken,
    ) -> Result<Answer, Executed> {
        let total_before = self.connection().total_changes();
        let several = request.statements.len() > 1 && !planted("no-savepoint");
        if several {
            self.internal("SAVEPOINT request").map_err(|_| Executed::Spoiled)?;
        }
        let mut written = TableSet::NONE;
        let mut done = Vec::with_capacity(request.statements.len());
        for (index, statement) in request.statements.iter().enumerate() {
            match self.execute_statement(request, statement, taken, &mut written) {
                Ok(answer) => done.push(answer),
                Err(StatementError::Own(error)) => {
                    if several {
                        self.internal("ROLLBACK TO request").map_err(|_| Executed::Spoiled)?;
                        self.internal("RELEASE request").map_err(|_| Executed::Spoiled)?;
                    } else {
                        // OR FAIL keeps what it did before it failed.
                        self.written = self.written.and(written);
                    }
                    let counts = self.counts(total_before);
                    return Ok(Answer::Failed(Failure::new(index, Some(counts), &error)));
                }
                Err(StatementError::NotHere) if index == 0 && !several => {
                    return Err(Executed::NotHere);
                }
                Err(StatementError::NotHere | StatementError::Spoiled) => {
                    return Err(Executed::Spoiled);
                }
            }
        }
        // In a transaction of its own, the request would now fail to commit.
        if self.connection().violates_deferred_foreign_keys() && !planted("deferred-keys-unchecked")
        {
            return Err(Executed::Spoiled);
        }
        if several {
            self.internal("RELEASE request").map_err(|_| Executed::Spoiled)?;
        }
        self.written = self.written.and(written);
        Ok(Answer::Done(done))
    }

    /// What SQLite counts now, for a session that began when the total was `total_before`.
    pub(crate) fn counts(&self, total_before: i64) -> Counts {
        let total = self.connection().total_changes();
        Counts {
            changes: self.session.counters.changes(self.connection().changes(), total),
            total_changes: total - total_before,
            last_insert_rowid: self.connection().last_insert_rowid(),
        }
    }

    fn execute_statement(
        &mut self,
        request: &Request<'_>,
        statement: &StatementRequest,
        taken: &mut Taken,
        written: &mut TableSet,
    ) -> Result<StatementAnswer, StatementError> {
        let before = self.connection().total_changes();
        let values = request.values(statement).ok_or(StatementError::NotHere)?;
        // Not compiled or not bound: the owner's connection reports what is wrong.
        let known = self.known(request, statement, taken).map_err(|_| StatementError::NotHere)?;
        if known.facts.transaction.is_some() {
            return Err(StatementError::NotHere);
        }
        let reserved = self.has_reservations(known);
        let rows = self.run(known, reserved.then_some(Recorded::NONE), |compiled| {
            let bound = compiled.bind_all(values.iter().copied());
            bound.map_err(|_| Unanswered::NotBound)?;
            let rows = fetch_all(compiled);
            compiled.reset();
            rows
        });
        if has_sequence(&known.written) {
            self.queue.forget_ids();
        }
        let same_columns = !known.is_stale() && known.columns_digest() == statement.columns;
        *written = written.and(known.touches_now().writes);
        if known.facts.changes_rows() {
            self.session.counters.ran_here();
        }
        match rows {
            Ok(_) if !same_columns => Err(StatementError::Spoiled),
            Ok(rows) => Ok(StatementAnswer { counts: self.counts(before), rows }),
            Err(Unanswered::NotBound) => Err(StatementError::NotHere),
            Err(Unanswered::Failed(error))
                if error.code.is_constraint() && !self.connection().is_autocommit() =>
            {
                Err(StatementError::Own(error))
            }
            Err(_) => Err(StatementError::Spoiled),
        }
    }
}

/// Why a statement has no rows.
enum Unanswered {
    NotBound,
    Failed(sqlite::Error),
    /// They fit into no answer.
    TooMany,
}

fn fetch_all(statement: &mut Statement) -> Result<Vec<Vec<Value>>, Unanswered> {
    let mut rows = Vec::new();
    // What they take in an answer, at least.
    let mut bytes_min = 0;
    while statement.step().map_err(Unanswered::Failed)? == Step::Row {
        let row = statement.row();
        bytes_min += 1 + row.iter().map(bytes_min_of).sum::<usize>();
        if bytes_min > manyhands_queue::PAYLOAD_BYTES {
            return Err(Unanswered::TooMany);
        }
        rows.push(row);
    }
    Ok(rows)
}

fn bytes_min_of(value: &Value) -> usize {
    match value {
        Value::Text(text) => 1 + text.as_bytes().len(),
        Value::Blob(bytes) => 1 + bytes.len(),
        _ => 1,
    }
}

enum StatementError {
    /// The statement failed by itself and left the transaction as it was, or as it should be.
    Own(sqlite::Error),
    NotHere,
    Spoiled,
}
