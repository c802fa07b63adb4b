//! The commit of a transaction on a fork, read downward: each step is taken only if the one above
//! could not be.
//!
//! 1. It has written nothing: it is done.
//! 2. *Promotion*: nobody waits, nobody has committed since its snapshot, and the real write lock is free:
//!    it takes that, and SQLite commits it as ever.
//! 3. *Replay*: its log travels to the leader as a request. The leader executes it again in its batch
//!    (`replay.rs`): if the caller would see the same, it is as if the whole transaction ran at that
//!    moment. A log that only its own connection can execute, or that is too large for the queue, is
//!    executed here, in the own turn (`home.rs`).
//! 4. *Conflict*: the caller has seen something that is no longer so.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

use manyhands_queue::{Deadline, Kind, Lead, planted};
use manyhands_sqlite::{self as sqlite, ForkStatus, Promotion, WalIndexHeader};

use crate::Error;
use crate::commit::Settled;
use crate::connection::Connection;
use crate::error::{Conflict, ErrorKind};
use crate::limits;
use crate::log::Log;
use crate::observe::{self, Shown};
use crate::optimistic::Optimistic;
use crate::prepared::Prepared;
use crate::request::{Answer, Origin, Replayed, Request};
use crate::routing::TransactionStatement;
use crate::row::Outcome;
use crate::stats::TransactionCounts;
use crate::tables::TableSet;

impl Connection {
    /// Commits the transaction. `commit` is the statement that says so.
    pub(crate) fn commit_optimistic(&mut self, commit: &mut Prepared) -> Result<Outcome, Error> {
        self.drain_cursors()?;
        let fork = self.sqlite().fork_status();
        let kept_back = self.optimistic.as_ref().and_then(|it| it.kept_back.as_ref());
        let written = kept_back.map(|kept| kept.snapshot).or(fork.snapshot.filter(|_| fork.forked));
        let Some(snapshot) = written else { return self.end_as_sqlite_does(commit) };
        if self.sqlite().violates_deferred_foreign_keys() {
            // COMMIT fails, and the transaction goes on.
            self.execute_kept_back()?;
            if self.optimistic.is_none() {
                return self.commit_in_turn();
            }
            if self.is_cautious() {
                self.escalate(true)?;
                return self.commit_in_turn();
            }
            return self.step_at_home(commit, &[]);
        }
        if (fork.live == Some(snapshot) || planted("promote-the-stale"))
            && let Some(lead) = self.lead_if_idle()?
        {
            // Not to be waited for with a snapshot in hand: a checkpoint of another program may hold the lock until
            // nobody reads the WAL any more.
            if fork.forked && self.sqlite().promote_fork() == Promotion::Promoted {
                self.count_transaction(|it| &it.promotions);
                self.hold(lead)?;
                self.note_promoted()?;
                return self.end_as_sqlite_does(commit);
            }
            let optimistic = self.leave_fork()?;
            // Without a fork, nothing of it was executed before.
            let outcome = self.commit_at_home(Some(lead), &optimistic, &snapshot, commit)?;
            if fork.forked {
                self.count_transaction(|it| &it.replays);
            } else {
                self.count_transaction(|it| &it.promotions);
            }
            self.reuse_log(optimistic.log);
            return Ok(outcome);
        }
        let optimistic = self.leave_fork()?;
        let lead = match self.submit_log(&optimistic, &snapshot)? {
            // A cautious transaction has seen nothing: a statement fails now. Its own connection says how.
            Some(Settled::Answer(Answer::Conflict { .. })) if optimistic.cautious => None,
            Some(Settled::Answer(answer)) => {
                let outcome = self.accept_replay(answer, &optimistic);
                self.reuse_log(optimistic.log);
                return outcome;
            }
            Some(Settled::Turn(lead)) => Some(lead),
            None => None,
        };
        let outcome = self.commit_at_home(lead, &optimistic, &snapshot, commit)?;
        self.count_transaction(|it| &it.replays);
        self.reuse_log(optimistic.log);
        Ok(outcome)
    }

    /// The next transaction gets the memory of this one's log.
    fn reuse_log(&mut self, mut log: Log) {
        log.clear();
        self.log_memory = log;
    }

    /// Executes the log in the own turn, and commits it there: the transaction is over in any case. `lead` is the turn, if
    /// it has come already.
    fn commit_at_home(
        &mut self,
        lead: Option<Lead>,
        optimistic: &Optimistic,
        snapshot: &WalIndexHeader,
        commit: &mut Prepared,
    ) -> Result<Outcome, Error> {
        self.hold_all(lead)?;
        self.replay_at_home(optimistic, Some(snapshot))?;
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
            self.savepoints.clear();
        }
        self.let_go_after_transaction();
        result
    }

    /// Gives the fork the real write lock; false when others have committed.
    fn promote(&mut self) -> Result<bool, Error> {
        let deadline = Deadline::after(self.settings.timeout);
        let began = Instant::now();
        loop {
            match self.sqlite().promote_fork() {
                Promotion::Promoted => return Ok(true),
                Promotion::Stale => return Ok(false),
                // Another SQLite program writes at this moment.
                Promotion::Busy if self.interrupt.ends_wait() => {
                    return Err(Error::new(ErrorKind::Interrupted));
                }
                Promotion::Busy if !deadline.has_passed() => {
                    std::thread::sleep(limits::BUSY_SLEEP);
                }
                Promotion::Busy => return Err(self.locked_by_others(began.elapsed())),
            }
        }
    }

    /// Goes on in the turn, if nobody waits for one and nobody has committed since the snapshot.
    /// Never waits, and fails only with the turn in hand: the statement before it has been executed.
    pub(crate) fn promote_if_idle(&mut self) -> Result<(), Error> {
        let fork = self.sqlite().fork_status();
        // The turns of attached databases, which it may need later, are taken together with this one.
        let alone = self.attached.is_empty();
        if !alone || !fork.forked || fork.snapshot.is_none() || fork.live != fork.snapshot {
            return Ok(());
        }
        if let Ok(Some(lead)) = self.lead_if_idle() {
            if self.sqlite().promote_fork() == Promotion::Promoted {
                self.count_transaction(|it| &it.escalations);
                self.hold(lead)?;
                return self.note_promoted();
            }
            lead.release();
        }
        Ok(())
    }

    /// The transaction goes on in the turn that it holds, with what it has written, and writes what it has kept back.
    fn note_promoted(&mut self) -> Result<(), Error> {
        if let Err(error) = self.step_kept_back() {
            self.roll_back_quietly();
            return Err(error);
        }
        let mut written = TableSet::ALL;
        if let Some(ended) = self.end_optimistic() {
            written = written_by(&ended.log);
            self.reuse_log(ended.log);
        }
        let written = if planted("promoted-wrote-nothing") { TableSet::NONE } else { written };
        self.turn_written = written;
        Ok(())
    }

    /// Undoes what was done on the fork; its log remains.
    fn leave_fork(&mut self) -> Result<Box<Optimistic>, Error> {
        let _own = self.own_statements();
        self.expire_reading_blobs();
        if !self.sqlite().is_autocommit() {
            let mut rollback = self.take_prepared("ROLLBACK")?;
            let rolled_back = self.step_past_interrupts(&mut rollback);
            self.put_back(rollback);
            rolled_back?;
        }
        self.open_mut().ids.leave_snapshot(true);
        self.end_optimistic().ok_or_else(|| Error::refused("there is no transaction to commit"))
    }

    /// Ends the transaction after an error that it did not survive.
    pub(crate) fn roll_back_quietly(&mut self) {
        self.roll_back_here();
        self.end_optimistic();
        self.savepoints.clear();
        self.reads_only = false;
        self.let_go_after_transaction();
    }

    /// Sends the log to the queue; `None` when it cannot travel.
    fn submit_log(
        &mut self,
        optimistic: &Optimistic,
        snapshot: &WalIndexHeader,
    ) -> Result<Option<Settled>, Error> {
        if optimistic.at_home || !self.may_travel() {
            return Ok(None);
        }
        let origin = Origin {
            change: snapshot.change,
            checksum: snapshot.checksum,
            pinned: optimistic.pinned,
        };
        let mut request = Request::new(self.session, optimistic.before, Some(origin));
        request.statements.reserve(optimistic.log.entries().len());
        for entry in optimistic.log.entries() {
            let values = optimistic.log.values(entry);
            let statement = request.push_refs(&entry.sql, entry.columns, values);
            statement.seen = Some((entry.seen().into_owned(), entry.counted()));
            statement.reads_only = entry.reads_only.map(|tables| tables.0);
            statement.ids.clone_from(&entry.given.ids);
        }
        self.submit_request(Kind::Request, &request)
    }

    fn accept_replay(&mut self, answer: Answer, optimistic: &Optimistic) -> Result<Outcome, Error> {
        self.savepoints.clear();
        match answer {
            Answer::Replayed(replayed) => {
                self.count_replayed(&replayed, optimistic);
                self.count_transaction(|it| &it.replays);
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
        self.open().counters.impersonate(replayed.counts.changes, total, here);
        self.sqlite().set_last_insert_rowid(replayed.counts.last_insert_rowid);
    }

    /// COMMIT in a transaction that holds its turn. For a RELEASE that commits, too: the savepoint was the
    /// transaction, until that moved to its turn.
    pub(crate) fn commit_in_turn(&mut self) -> Result<Outcome, Error> {
        let mut commit = self.take_prepared("COMMIT")?;
        let result = self.end_as_sqlite_does(&mut commit);
        self.put_back(commit);
        result
    }

    /// Moves the transaction to its turn: from here on it runs as SQLite alone would have it. With `as_it_is` the fork
    /// holds what its log says, and no more: then it can be promoted.
    ///
    /// # Errors
    /// The turn did not come before the deadline, or something that the caller saw is no longer so. The
    /// transaction is rolled back then.
    pub(crate) fn escalate(&mut self, as_it_is: bool) -> Result<(), Error> {
        let escalated = self.escalate_with(as_it_is);
        if escalated.is_err() {
            self.roll_back_quietly();
        }
        escalated
    }

    /// The same before a statement has done anything.
    ///
    /// # Errors
    /// When the turn did not come before the deadline, the transaction stays where it is, as in SQLite: who
    /// tries again would otherwise do so outside of it.
    pub(crate) fn escalate_first(&mut self) -> Result<(), Error> {
        self.escalate_with(true)
    }

    fn escalate_with(&mut self, as_it_is: bool) -> Result<(), Error> {
        self.drain_cursors()?;
        let fork = self.sqlite().fork_status();
        self.hold_all(None)?;
        let moved = self.go_on_in_turn(&fork, as_it_is);
        // A transaction that could not be rolled back keeps its turn until it ends.
        if moved.is_err() && (self.optimistic.is_some() || self.sqlite().is_autocommit()) {
            self.release_turns();
        }
        moved
    }

    fn go_on_in_turn(&mut self, fork: &ForkStatus, as_it_is: bool) -> Result<(), Error> {
        self.count_transaction(|it| &it.escalations);
        // What was read elsewhere has no turn, and may have changed: it is read again.
        let elsewhere = self.optimistic.as_ref().is_some_and(|it| it.reads_elsewhere);
        if fork.forked && as_it_is && !elsewhere && self.promote()? {
            return self.note_promoted();
        }
        self.see_what_waits();
        let optimistic = self.leave_fork()?;
        self.replay_at_home(&optimistic, fork.snapshot.as_ref())?;
        self.count_transaction(|it| &it.replays);
        Ok(())
    }

    /// True after an error: what the fork wrote did not fit into memory, and SQLite has undone it.
    pub(crate) fn fork_has_overflowed(&self) -> bool {
        self.optimistic.is_some() && self.sqlite().fork_status().overflowed
    }

    /// Another SQLite program holds the write lock.
    fn locked_by_others(&self, waited: Duration) -> Error {
        let busy = sqlite::Error::from_code(sqlite::Code::BUSY.0);
        match &self.file {
            Some(file) => file.describe_busy(busy, waited),
            None => Error::from(busy),
        }
    }

    pub(crate) fn count_transaction(&self, which: impl Fn(&TransactionCounts) -> &AtomicU64) {
        if let Some(file) = &self.file {
            which(&file.transactions).fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn conflict(&mut self, optimistic: &Optimistic, index: usize, now: &Shown) -> Error {
        self.count_transaction(|it| &it.conflicts);
        self.give_ids_back(&optimistic.log);
        let Some(entry) = optimistic.log.entries().get(index) else {
            return Error::refused("the answer does not fit the request");
        };
        let (seen, now) = observe::difference(&optimistic.log.shown(entry), now);
        let conflict = Conflict {
            statement: optimistic.log.text(entry),
            number: index + 1,
            seen,
            now,
            tables: entry.tables.to_vec(),
        };
        self.conflict = Some(conflict.clone());
        Error::new(ErrorKind::Conflict(conflict))
    }
}

fn written_by(log: &Log) -> TableSet {
    log.entries().iter().fold(TableSet::NONE, |set, entry| set.and(entry.touches.writes))
}
