//! Replay: the leader executes the log of a transaction again, inside its batch, and compares. If a statement shows its caller something
//! else now, the transaction conflicts. This is where conflicts are decided (`local_replay.rs` does the same on the own connection).
//!
//! Each statement runs under the clock, the seed and the rowids that it had speculatively. Statements that only
//! read are skipped when nothing that they read was written since: not by others, and not by this
//! transaction from what others have written.

use manyhands_queue::planted;
use manyhands_sqlite::{self as sqlite, Code, Pinned, pin};

use crate::commit::executor::{Executed, Executor, Taken};
use crate::commit::request::{Answer, Failure, Origin, Replayed, Request, StatementRequest};
use crate::row::Counted;
use crate::statement::observe::{self, Shown};
use crate::statement::rowid::Recorded;
use crate::statement::tables::{TableSet, Touches};

/// What one statement came to.
enum Again {
    Same(Counted),
    Different(Shown),
}

/// Which tables have another content than the transaction's snapshot, as far as its log has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taint(TableSet);

impl Taint {
    /// Others have written these.
    pub(crate) fn new(by_others: TableSet) -> Taint {
        Taint(by_others)
    }

    /// See [`TableSet::is_known`].
    pub(crate) fn is_known(self) -> bool {
        self.0.is_known()
    }

    /// True when a statement that reads these tables shows what it showed.
    pub(crate) fn spares(self, reads: TableSet) -> bool {
        !reads.meets(self.0) || planted("nobody-wrote")
    }

    /// These tables may have another content now.
    pub(crate) fn add(&mut self, tables: TableSet) {
        self.0 = self.0.and(tables);
    }

    /// A statement was executed again. If it reads what others have written, what it writes may differ; also if it asks what was
    /// counted (`asks_session`), which may come from there.
    pub(crate) fn spread(&mut self, touches: Touches, asks_session: bool) {
        if (touches.reads.and(touches.writes).meets(self.0) && !planted("taint-stays"))
            || asks_session && self.0 != TableSet::NONE
        {
            self.0 = self.0.and(touches.writes);
        }
    }
}

impl Executor {
    /// Executes a transaction's log inside a savepoint of its own. `by_others` has been written since its
    /// snapshot.
    pub(crate) fn replay(
        &mut self,
        request: &Request<'_>,
        origin: &Origin,
        by_others: TableSet,
        taken: &mut Taken,
    ) -> Result<Answer, Executed> {
        let total_before = self.connection().total_changes();
        let in_batch = if planted("batch-wrote-nothing") { TableSet::NONE } else { self.written };
        let mut taint = Taint::new(by_others.and(in_batch));
        let mut written = TableSet::NONE;
        let mut counted = Vec::new();
        self.internal("SAVEPOINT \"manyhands transaction\"").map_err(|_| Executed::Spoiled)?;
        for (index, statement) in request.statements.iter().enumerate() {
            let pinned = if planted("another-clock") { Pinned::now() } else { origin.pinned };
            let _pin = pin(pinned.for_statement(index as u64));
            match self.execute_again(request, statement, taken, &mut taint, &mut written)? {
                Some(Again::Same(now)) => {
                    let then = statement.seen.as_ref().map(|(_, then)| *then);
                    if !then.unwrap_or_default().equals(&now) {
                        counted.push((index as u32, now.changes, now.last_insert_rowid));
                    }
                }
                None => {}
                Some(Again::Different(now)) => {
                    self.undo_transaction()?;
                    return Ok(Answer::Conflict { statement: index, now });
                }
            }
        }
        let counts = self.counts(total_before);
        if self.connection().violates_deferred_foreign_keys() && !planted("deferred-keys-unchecked")
        {
            self.undo_transaction()?;
            let error = sqlite::Error::from_code(Code::CONSTRAINT_FOREIGNKEY.0);
            let last = request.statements.len().saturating_sub(1);
            return Ok(Answer::Failed(Failure::new(last, Some(counts), &error)));
        }
        self.internal("RELEASE \"manyhands transaction\"").map_err(|_| Executed::Spoiled)?;
        self.written = self.written.and(written);
        Ok(Answer::Replayed(Replayed { counts, counted }))
    }

    fn undo_transaction(&mut self) -> Result<(), Executed> {
        if planted("conflict-stays") {
            return self
                .internal("RELEASE \"manyhands transaction\"")
                .map_err(|_| Executed::Spoiled);
        }
        self.internal("ROLLBACK TO \"manyhands transaction\"")
            .and_then(|()| self.internal("RELEASE \"manyhands transaction\""))
            .map_err(|_| Executed::Spoiled)
    }

    /// Executes one statement again; `None` when it need not be.
    fn execute_again(
        &mut self,
        request: &Request<'_>,
        statement: &StatementRequest,
        taken: &mut Taken,
        taint: &mut Taint,
        written: &mut TableSet,
    ) -> Result<Option<Again>, Executed> {
        // A statement without an observation cannot be replayed here.
        let (then, counted_then) = statement.seen.as_ref().ok_or(Executed::Spoiled)?;
        // It is not even compiled: its owner has told what it reads.
        let spared = statement.reads_only.is_some_and(|reads| taint.spares(TableSet(reads)));
        if spared && counted_then.asked == 0 {
            return Ok(None);
        }
        // Nor if it does not compile.
        let values = request.values(statement).ok_or(Executed::Spoiled)?;
        let known = self.known(request, statement, taken).map_err(|_| Executed::Spoiled)?;
        let recorded = Recorded { ids: &statement.ids, exclusive: taint.is_known() };
        let ids = (!statement.ids.is_empty()).then_some(recorded);
        let watched = self
            .run(known, ids, |compiled| {
                compiled.bind_all(values.iter().copied())?;
                Ok::<_, sqlite::Error>(observe::observe_again(compiled, then))
            })
            .map_err(|_| Executed::Spoiled)?;
        if known.is_stale() && watched.error.is_some() && ids.is_some() {
            // Perhaps only as it was rewritten for new ids: its owner executes it as it was written.
            return Err(Executed::Spoiled);
        }
        let touches = known.touches_now();
        let changes_rows = known.facts.changes_rows();
        if changes_rows {
            self.session.counters.ran_here();
        }
        taint.spread(touches, known.facts.session_function);
        *written = written.and(touches.writes);
        // OR ROLLBACK, or RAISE(ROLLBACK), ends the batch. A failure of the system is no result, nor is a value that is too
        // large only here.
        let gone = self.connection().is_autocommit();
        let no_result = |code: Code| !code.is_result() || code.primary() == Code::TOOBIG.0;
        if gone || watched.error.as_ref().is_some_and(|error| no_result(error.code)) {
            return Err(Executed::Spoiled);
        }
        let now = Counted {
            changes: if changes_rows { self.connection().changes() } else { 0 },
            last_insert_rowid: self.connection().last_insert_rowid(),
            asked: counted_then.asked,
        };
        let same = watched.seen == *then && counted_then.looks_like(&now);
        Ok(Some(if same || planted("forget-observation") {
            Again::Same(now)
        } else {
            Again::Different(Shown { seen: watched.seen, counted: now, sample: watched.sample })
        }))
    }
}
