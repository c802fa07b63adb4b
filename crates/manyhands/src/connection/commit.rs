//! The commit of a speculative transaction, read downward: each step is taken only if the one above
//! is not possible.
//!
//! 1. The transaction has written nothing: it is done.
//! 2. *Promotion*: nobody waits, nobody has committed since the snapshot, and the real write lock is free.
//!    The transaction takes the lock, and SQLite commits its pages.
//! 3. *Replay*: the log travels to the leader as a request. The leader executes it again in its batch
//!    (`commit/replay.rs`). If the caller would see the same, the whole transaction takes effect as of that
//!    moment. If only its own connection can execute the log, or it is too large for the queue, it is
//!    executed here, in the own turn (*local replay*, `local_replay.rs`).
//! 4. *Conflict*: the caller has seen something that is no longer so.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use manyhands_queue::{Count, Kind, Lead, planted};
use manyhands_sqlite::{Promotion, WalIndexHeader};

use crate::Error;
use crate::commit::queue_client::Fate;
use crate::commit::request::{Answer, Replayed};
use crate::connection::Connection;
use crate::connection::speculative::Optimistic;
use crate::error::{Conflict, ErrorKind, StaleRead};
use crate::row::Outcome;
use crate::statement::observe::{self, Shown};
use crate::statement::prepared::Prepared;
use crate::statement::routing::TransactionStatement;
use crate::transaction::log::Log;

impl Connection {
    /// Commits the transaction. `commit` is the statement that says so.
    pub(crate) fn commit_optimistic(&mut self, commit: &mut Prepared) -> Result<Outcome, Error> {
        self.drain_cursors()?;
        if let Some(optimistic) = &self.optimistic
            && let Some(read) = &optimistic.stale
            && (optimistic.deferred_writes.is_some()
                || optimistic.detached && optimistic.is_to_be_executed())
        {
            return Err(Error::new(ErrorKind::StaleSnapshot(Arc::clone(read))));
        }
        if self.optimistic.as_ref().is_some_and(|it| it.detached && it.is_to_be_executed()) {
            self.escalate_first()?;
            return self.commit_in_turn();
        }
        let fork = self.sqlite().speculation_status();
        let deferred_writes = self.optimistic.as_ref().and_then(|it| it.deferred_writes.as_ref());
        let written = deferred_writes
            .map(|kept| kept.snapshot)
            .or(fork.snapshot.filter(|_| fork.speculating));
        let Some(snapshot) = written else { return self.end_as_sqlite_does(commit) };
        if self.sqlite().violates_deferred_foreign_keys() {
            // COMMIT fails, and the transaction goes on.
            self.execute_deferred()?;
            if self.optimistic.is_none() {
                return self.commit_in_turn();
            }
            return self.step_for_local_replay(commit, &[]);
        }
        // A transaction of mode Auto has seen nothing that could have changed.
        let auto = self.is_in_auto_mode();
        if (auto || fork.live == Some(snapshot) || planted("promote-the-stale"))
            && let Some(lead) = self.lead_at_once()?
        {
            // No wait with a snapshot in hand: a checkpoint of another program may hold the lock until nobody reads the
            // WAL any more.
            if fork.speculating && self.sqlite().promote() == Promotion::Promoted {
                self.count_transaction(Count::Promotion);
                self.hold(lead)?;
                self.note_promoted()?;
                return self.end_as_sqlite_does(commit);
            }
            let optimistic = self.leave_speculation()?;
            // If it did not write speculatively, none of its writes was executed before.
            let outcome = self.commit_by_local_replay(Some(lead), optimistic, &snapshot, commit)?;
            if fork.speculating {
                self.count_transaction(Count::Replay);
            } else {
                self.count_transaction(Count::Promotion);
            }
            return Ok(outcome);
        }
        let optimistic = self.leave_speculation()?;
        let lead = match self.submit_log(&optimistic, &snapshot) {
            // It has seen nothing, so a statement fails now. Its own connection reports the error.
            Ok(Some(Fate::Answer(Answer::Conflict { .. }))) if optimistic.auto => None,
            Ok(Some(Fate::Answer(answer))) => {
                let outcome = self.accept_replay(answer, &optimistic);
                self.reuse_log(optimistic.log);
                return outcome;
            }
            Ok(Some(Fate::Turn(lead))) => Some(lead),
            Ok(None) => None,
            Err(error) => return Err(self.resume_after(error, optimistic)),
        };
        let outcome = self.commit_by_local_replay(lead, optimistic, &snapshot, commit)?;
        self.count_transaction(Count::Replay);
        Ok(outcome)
    }

    /// COMMIT was not executed. A transaction of mode Auto whose turn did not come in time stays open, and can commit again.
    fn resume_after(&mut self, error: Error, optimistic: Box<Optimistic>) -> Error {
        if optimistic.auto && (error.is_timeout() || error.is_interrupt()) {
            self.resume(optimistic);
        } else {
            self.note_end();
        }
        error
    }

    /// The next transaction gets the memory of this one's log.
    pub(crate) fn reuse_log(&mut self, mut log: Log) {
        log.clear();
        self.log_memory = log;
    }

    /// Executes the log in the own turn, and commits it there. The transaction is over then, unless it is one of mode Auto that
    /// has waited too long. `lead` is the turn, if it has come already.
    fn commit_by_local_replay(
        &mut self,
        lead: Option<Lead>,
        optimistic: Box<Optimistic>,
        snapshot: &WalIndexHeader,
        commit: &mut Prepared,
    ) -> Result<Outcome, Error> {
        if let Err(error) = self.hold_all(lead) {
            return Err(self.resume_after(error, optimistic));
        }
        let optimistic = self.replay_locally(optimistic, Some(snapshot))?;
        self.reuse_log(optimistic.log);
        let result = match commit.facts.transaction {
            Some(TransactionStatement::Commit) => self.end_as_sqlite_does(commit),
            _ => self.commit_in_turn(),
        };
        if result.is_err() {
            self.roll_back_quietly();
        }
        result
    }

    /// COMMIT or ROLLBACK on the own connection.
    pub(crate) fn end_as_sqlite_does(
        &mut self,
        statement: &mut Prepared,
    ) -> Result<Outcome, Error> {
        let result = self.step_past_interrupts(statement);
        if self.sqlite().is_autocommit() {
            if let Some(ended) = self.end_optimistic() {
                if statement.facts.transaction == Some(TransactionStatement::Rollback) {
                    self.give_ids_back(&ended.log);
                }
                self.reuse_log(ended.log);
            }
            self.note_end();
        }
        self.let_go_after_transaction();
        result
    }

    /// Undoes what was done speculatively; its log remains.
    pub(crate) fn leave_speculation(&mut self) -> Result<Box<Optimistic>, Error> {
        let _own = self.own_statements();
        self.blobs.expire_reading();
        if !self.sqlite().is_autocommit() {
            let mut rollback = self.take_prepared("ROLLBACK")?;
            let rolled_back = self.step_past_interrupts(&mut rollback);
            self.put_back(rollback);
            rolled_back?;
        }
        self.session_mut().ids.leave_snapshot(true);
        self.end_optimistic().ok_or_else(|| Error::refused("there is no transaction to commit"))
    }

    /// Ends the transaction after an error that has undone it.
    pub(crate) fn roll_back_quietly(&mut self) {
        self.roll_back_here();
        self.end_optimistic();
        self.note_end();
        self.reads_only = false;
        self.let_go_after_transaction();
    }

    /// Sends the log to the queue; `None` when it cannot travel.
    fn submit_log(
        &mut self,
        optimistic: &Optimistic,
        snapshot: &WalIndexHeader,
    ) -> Result<Option<Fate>, Error> {
        if optimistic.replays_locally || !self.may_travel() {
            return Ok(None);
        }
        self.submit_request(Kind::Request, &optimistic.request(self.session_settings, snapshot))
    }

    fn accept_replay(&mut self, answer: Answer, optimistic: &Optimistic) -> Result<Outcome, Error> {
        self.note_end();
        match answer {
            Answer::Replayed(replayed) => {
                self.count_replayed(&replayed, optimistic);
                self.count_transaction(Count::Replay);
                Ok(Outcome::default())
            }
            Answer::Conflict { statement, now } => Err(self.conflict(optimistic, statement, &now)),
            Answer::Failed(failure) => Err(Error::from(failure.into_error())),
            Answer::Done(_) => Err(Error::refused("the answer does not fit the request")),
        }
    }

    /// Makes this session count what was counted where the log took effect.
    fn count_replayed(&self, replayed: &Replayed, optimistic: &Optimistic) {
        for (index, changes, last_insert_rowid) in &replayed.counted {
            let entry = optimistic.log.entries().get(*index as usize);
            if let Some(tally) = entry.and_then(|entry| entry.tally.as_ref()) {
                tally.set(*changes, *last_insert_rowid);
            }
        }
        let total = optimistic.before.total_changes.wrapping_add(replayed.counts.total_changes);
        let here = self.sqlite().total_changes();
        self.session().counters.set_counters(replayed.counts.changes, total, here);
        self.sqlite().set_last_insert_rowid(replayed.counts.last_insert_rowid);
    }

    /// COMMIT in a transaction that holds its turn. Also for a RELEASE that commits: the savepoint began the transaction, before it moved
    /// to its turn.
    pub(crate) fn commit_in_turn(&mut self) -> Result<Outcome, Error> {
        let mut commit = self.take_prepared("COMMIT")?;
        let result = self.end_as_sqlite_does(&mut commit);
        self.put_back(commit);
        result
    }

    /// True after an error: what the speculative transaction wrote did not fit into memory, and SQLite has undone it.
    pub(crate) fn speculation_has_overflowed(&self) -> bool {
        self.optimistic.is_some() && self.sqlite().speculation_status().overflowed
    }

    /// For this process's statistics, and for who looks at the queue.
    pub(crate) fn count_transaction(&self, what: Count) {
        let Some(file) = &self.file else { return };
        file.queue().count(what);
        let counts = &file.transactions;
        let count = match what {
            Count::Promotion => &counts.promotions,
            Count::Replay => &counts.replays,
            Count::Conflict => &counts.conflicts,
            Count::Escalation => &counts.escalations,
            Count::Commit => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_retry(&self) {
        if let Some(file) = &self.file {
            file.transactions.retries.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What the caller has seen of a statement is no longer so. A transaction of mode Auto stays open then.
    pub(crate) fn conflict(&mut self, optimistic: &Optimistic, index: usize, now: &Shown) -> Error {
        self.count_transaction(Count::Conflict);
        let Some(entry) = optimistic.log.entries().get(index) else {
            return Error::refused("the answer does not fit the request");
        };
        if let Some(file) = &self.file {
            file.queue().tell_conflict(&entry.sql);
        }
        let (seen, now) = observe::difference(&optimistic.log.shown(entry), now);
        let conflict = Conflict {
            statement: optimistic.log.text(entry),
            number: index + 1,
            seen,
            now,
            tables: entry.tables.to_vec(),
        };
        if optimistic.auto {
            let statement = Some((index, conflict));
            return Error::new(ErrorKind::StaleSnapshot(Arc::new(StaleRead(statement))));
        }
        self.give_ids_back(&optimistic.log);
        self.conflict = Some(conflict.clone());
        Error::new(ErrorKind::Conflict(conflict))
    }
}
