//! A transaction moves to its turn in the queue: from there on it runs as SQLite alone would have it, and cannot conflict.
//!
//! A speculative transaction on whose snapshot nobody has committed, where nobody waits, goes on *in place*, on that snapshot. Otherwise
//! the transaction leaves the snapshot, and executes its log again (`local_replay.rs`), and compares. A speculative one leaves it before it
//! waits: a checkpoint that waits for that would keep the turn from coming. One of mode Auto waits with the snapshot, as long as
//! nobody checkpoints, and leaves it when it is known that all is still so: who waits in vain, or comes too late, reads on.
//!
//! A transaction whose turn does not come in time goes on *detached*: it is open and has no snapshot, and its log says
//! what it is. Whatever it does next moves it to its turn first.

use std::sync::Arc;
use std::time::Duration;

use manyhands_queue::{Count, Deadline, planted};
use manyhands_sqlite::{self as sqlite, Promotion, WalIndexHeader};

use crate::Error;
use crate::commit::executor::Executed;
use crate::commit::queue_client::QueueClient;
use crate::commit::recent;
use crate::commit::request::{self, Answer, Origin};
use crate::connection::Connection;
use crate::connection::speculative::Optimistic;
use crate::error::ErrorKind;
use crate::limits;
use crate::statement::fingerprint::Fingerprint;
use crate::statement::observe::Shown;
use crate::statement::tables::TableSet;

/// What came of a look at what a transaction has read.
#[derive(Debug, PartialEq, Eq)]
enum Compared {
    Same,
    /// The statement with this index shows something else, or the schema is another one.
    Changed(Option<(usize, Box<Shown>)>),
    /// It cannot be found out without leaving the snapshot.
    Unknown,
}

impl Connection {
    /// Moves the transaction to its turn. With `as_it_is` the speculative transaction holds what its log says, and no more: then it can be
    /// promoted.
    ///
    /// # Errors
    /// The turn did not come before the deadline, or something that the caller saw is no longer so. The
    /// transaction is rolled back then.
    pub(crate) fn escalate(&mut self, as_it_is: bool) -> Result<(), Error> {
        let escalated = self.escalate_with(as_it_is, false);
        if escalated.is_err() {
            self.roll_back_quietly();
        }
        escalated
    }

    /// The same before a statement has done anything.
    ///
    /// # Errors
    /// When the turn did not come before the deadline, the transaction stays open, as in SQLite: who
    /// tries again would otherwise do so outside of it. So it does in mode Auto when what it has read is no longer so.
    pub(crate) fn escalate_first(&mut self) -> Result<(), Error> {
        self.escalate_with(true, false)
    }

    /// The same for a transaction that only reads until now, and will probably write: if the turn does not come, or not
    /// with what it has read, it goes on as it was.
    ///
    /// # Errors
    /// Interrupted.
    pub(crate) fn escalate_early(&mut self) -> Result<(), Error> {
        let Some(optimistic) = &self.optimistic else { return Ok(()) };
        let has_read = optimistic.has_seen();
        let calls = optimistic.log.entries().iter().any(|it| it.calls_application);
        // It could not go on reading if the turn did not come, or with another snapshot.
        let others = || self.file.as_ref().is_some_and(|it| it.has_external_connections());
        if optimistic.incomplete
            || optimistic.reads_elsewhere
            || calls
            || has_read && others()
            || self.drain_cursors().is_err()
        {
            return Ok(());
        }
        if has_read {
            match self.wait_with_snapshot(limits::EARLY_TURN_WAIT_MAX) {
                Err(error) if error.is_timeout() => return Ok(()),
                waited => waited?,
            }
            // Without the snapshot it could not go on reading.
            if self.compare_early() != Compared::Same {
                self.release_turns();
                return Ok(());
            }
        }
        // Not in place: until it writes, SQLite would let other programs commit.
        match self.escalate_with(false, true) {
            Err(error) if !has_read && error.is_timeout() => Ok(()),
            escalated => escalated,
        }
    }

    /// `compared` says that all is known to be as the transaction has read it.
    fn escalate_with(&mut self, as_it_is: bool, compared: bool) -> Result<(), Error> {
        let escalated = self.move_to_turn(as_it_is, compared);
        // A transaction that could not be rolled back keeps its turn until it ends.
        if escalated.is_err() && (self.optimistic.is_some() || self.sqlite().is_autocommit()) {
            self.release_turns();
        }
        escalated
    }

    fn move_to_turn(&mut self, as_it_is: bool, compared: bool) -> Result<(), Error> {
        if let Some(read) = self.optimistic.as_ref().and_then(|it| it.stale.as_ref()) {
            return Err(Error::new(ErrorKind::StaleSnapshot(Arc::clone(read))));
        }
        if self.turns.is_empty()
            && self.attached.is_empty()
            && let Some(lead) = self.lead_at_once()?
        {
            self.hold(lead)?;
        }
        if !self.turns.is_empty() && as_it_is && self.go_on_in_place()? {
            self.count_transaction(Count::Escalation);
            return Ok(());
        }
        let drained = self.drain_cursors();
        if self.optimistic.as_ref().is_some_and(|it| it.auto && (it.incomplete || drained.is_err()))
        {
            return self.go_on_in_place_or_not();
        }
        drained?;
        let end = Deadline::after(self.settings.timeout);
        let is_attached = self.optimistic.as_ref().is_some_and(|it| it.auto && !it.detached);
        if is_attached && self.sqlite().speculation_status().snapshot.is_none() {
            // It keeps nobody from anything.
            self.hold_all(None)?;
        } else if !compared && self.may_wait_with_snapshot() {
            self.take_turn_with_snapshot(end)?;
        }
        self.cursors.see_what_waits();
        // A detached one has left the snapshot that it has read.
        let detached = self.optimistic.as_ref().is_some_and(|it| it.detached);
        let snapshot = self.sqlite().speculation_status().snapshot.filter(|_| !detached);
        let optimistic = self.leave_speculation()?;
        if planted("wait-with-a-snapshot") {
            self.sqlite().execute("BEGIN; SELECT 1 FROM sqlite_schema")?;
        }
        if self.turns.is_empty() {
            // What it has waited already counts.
            let held = self.hold_all_by(|client| {
                let deadline = end.or_after(client.deadline.remaining());
                QueueClient { deadline, ..client }
            });
            if let Err(error) = held {
                self.resume(optimistic);
                return Err(error);
            }
        }
        if planted("wait-with-a-snapshot") {
            self.roll_back_here();
        }
        self.count_transaction(Count::Escalation);
        let optimistic = self.replay_locally(optimistic, snapshot.as_ref())?;
        self.reuse_log(optimistic.log);
        self.count_transaction(Count::Replay);
        Ok(())
    }

    /// True for a transaction of mode Auto that has shown something of the database, on the snapshot that it has.
    fn may_wait_with_snapshot(&self) -> bool {
        self.optimistic.as_ref().is_some_and(|it| it.only_reads() && it.has_seen())
            && self.sqlite().speculation_status().snapshot.is_some()
            && !planted("wait-with-a-snapshot")
    }

    /// Waits for the turn with the snapshot in hand, and looks in the turn whether all that was read is still so: whoever waits
    /// in vain, or comes too late, goes on reading as before. Returns without the turn where a checkpoint wants the
    /// snapshot meanwhile.
    ///
    /// # Errors
    /// The turn did not come; what was read is no longer so.
    fn take_turn_with_snapshot(&mut self, end: Deadline) -> Result<(), Error> {
        if self.turns.is_empty() {
            match self.wait_with_snapshot(self.settings.timeout) {
                Err(error) if error.is_timeout() && !end.has_passed() => return Ok(()),
                waited => waited?,
            }
        }
        let has_rows_of_its_own = self.optimistic.as_ref().is_some_and(|it| it.is_to_be_executed());
        match self.compare_in_turn() {
            Compared::Same => Ok(()),
            Compared::Unknown if !has_rows_of_its_own => Ok(()),
            // In temporary tables, which would be gone if it had changed.
            Compared::Unknown => self.stay_behind(None),
            Compared::Changed(changed) => self.stay_behind(changed),
        }
    }

    /// What it has read is no longer so: it stays on its snapshot, where it can read on, and can write no more.
    fn stay_behind(&mut self, changed: Option<(usize, Box<Shown>)>) -> Result<(), Error> {
        let Some(optimistic) = self.optimistic.take() else { return Ok(()) };
        let error = match changed {
            Some((index, now)) => self.conflict(&optimistic, index, &now),
            None => Error::new(ErrorKind::StaleSnapshot(Arc::default())),
        };
        let mut optimistic = self.learn_from(optimistic, &error);
        optimistic.forget_log();
        self.optimistic = Some(optimistic);
        Err(error)
    }

    /// The same for a transaction of mode Auto whose log does not say all: it never leaves its snapshot, and SQLite itself
    /// tells whether it can write on it.
    fn go_on_in_place_or_not(&mut self) -> Result<(), Error> {
        if self.turns.is_empty() {
            self.wait_with_snapshot(self.settings.timeout)?;
        }
        let fork = self.sqlite().speculation_status();
        let detached = self.optimistic.as_ref().is_some_and(|it| it.detached);
        if detached || fork.snapshot.is_some() && fork.snapshot != fork.live {
            return Err(Error::new(ErrorKind::StaleSnapshot(Arc::default())));
        }
        self.count_transaction(Count::Escalation);
        self.note_promoted()
    }

    /// Goes on in the turn that it holds, on its own snapshot. False when that is not the newest, and where it is as well
    /// to begin anew, under SQLite's lock.
    fn go_on_in_place(&mut self) -> Result<bool, Error> {
        let Some(optimistic) = &self.optimistic else { return Ok(false) };
        if optimistic.detached {
            return Ok(false);
        }
        let fork = self.sqlite().speculation_status();
        let is_newest = fork.snapshot.is_none() || fork.snapshot == fork.live;
        let goes_on = if fork.speculating {
            // What was read elsewhere has no turn, and may have changed: it is read again.
            !optimistic.reads_elsewhere && self.sqlite().promote() == Promotion::Promoted
        } else {
            // SQLite takes its lock with the first write, and waits for nobody then: so only where functions of the
            // application would be called again.
            let mut entries = optimistic.log.entries().iter();
            optimistic.auto && is_newest && entries.any(|it| it.calls_application)
        };
        if goes_on {
            self.note_promoted()?;
        }
        Ok(goes_on)
    }

    /// Executes the log in the turn that it holds, and gives it back. If that fails for who waits too long, or for what a
    /// transaction of mode Auto has read, this one stays open.
    pub(crate) fn replay_locally(
        &mut self,
        optimistic: Box<Optimistic>,
        snapshot: Option<&WalIndexHeader>,
    ) -> Result<Box<Optimistic>, Error> {
        let counts = self.counts_here();
        let error = match self.begin_and_replay(&optimistic, snapshot) {
            Ok(()) => {
                if optimistic.auto && optimistic.deferred() == 0 {
                    self.continue_session(counts);
                }
                return Ok(optimistic);
            }
            Err(error) => error,
        };
        if optimistic.auto {
            self.end_as_stale(optimistic, &error);
            // What was executed again has counted.
            self.continue_session(counts);
        } else {
            self.roll_back_quietly();
        }
        Err(error)
    }

    /// What it has read is no longer so: that becomes what others like it are told from.
    fn learn_from(&mut self, mut optimistic: Box<Optimistic>, error: &Error) -> Box<Optimistic> {
        if let ErrorKind::StaleSnapshot(read) = error.kind() {
            let index = read.0.as_ref().map(|(index, _)| *index);
            let entry = index.and_then(|index| optimistic.log.entries().get(index));
            self.path.note_stale(&optimistic.queue, entry.map(|it| Fingerprint::of(&it.sql)));
            optimistic.stale = Some(Arc::clone(read));
        } else if !error.is_timeout() && !error.is_interrupt() {
            // What was deferred fails, for a schema that has changed or a full disk: nothing that follows is executed alone.
            optimistic.stale = Some(Arc::default());
        }
        optimistic
    }

    /// The transaction goes on without a snapshot, as its log says. Nothing is left of it when that fails.
    pub(crate) fn resume(&mut self, mut optimistic: Box<Optimistic>) {
        optimistic.detached = optimistic.incomplete || optimistic.has_seen();
        let begun = self.begin_again();
        self.sqlite().arm_speculation(true);
        self.optimistic = Some(optimistic);
        if begun.is_err() {
            self.roll_back_quietly();
        }
    }

    /// Begins SQLite's transaction once more, with its savepoints.
    pub(crate) fn begin_again(&self) -> Result<(), sqlite::Error> {
        let _own = self.own_statements();
        self.savepoints.begin_again().iter().try_for_each(|begin| {
            let mut begun = self.sqlite().execute(begin);
            for _ in 0..limits::INTERRUPTS_OUTLIVED {
                if begun.as_ref().is_err_and(|it| it.code.is_interrupt()) {
                    begun = self.sqlite().execute(begin);
                }
            }
            begun
        })
    }

    /// True when all that the transaction has read is still so, as far as is known without a look. Of one whose log says all.
    fn is_as_it_was(&self) -> bool {
        let Some(optimistic) = &self.optimistic else { return false };
        let fork = self.sqlite().speculation_status();
        if fork.snapshot == fork.live {
            return true;
        }
        let by_others = self.written_since(fork.snapshot.as_ref(), fork.live.as_ref());
        if optimistic.schema.is_some() && by_others == TableSet::ALL {
            return false;
        }
        let mut entries = optimistic.log.entries().iter();
        let is_spared = |reads: TableSet| !reads.meets(by_others);
        entries.all(|entry| {
            // It has written temporary tables.
            let wrote = !entry.changes_nothing && is_spared(entry.touches.reads);
            entry.is_savepoint || wrote || entry.spared_if_unchanged().is_some_and(is_spared)
        })
    }

    /// Whether all that the transaction has read is still so, in the turn that it holds.
    fn compare_in_turn(&mut self) -> Compared {
        // Of attached databases nothing is known.
        let reads_elsewhere = self.optimistic.as_ref().is_some_and(|it| it.reads_elsewhere);
        let is_known = self.is_as_it_was() && (self.attached.is_empty() || !reads_elsewhere);
        if is_known || planted("first-write-does-not-compare") {
            return Compared::Same;
        }
        let replays_locally = self.optimistic.as_ref().is_some_and(|it| it.replays_locally);
        if replays_locally || !self.may_travel() {
            return Compared::Unknown;
        }
        self.read_again_elsewhere()
    }

    /// The same before a read. The executor is asked for a connection with functions of its own, too: whoever is mistaken for
    /// unchanged is found out where the log is executed again, on this connection.
    fn compare_early(&mut self) -> Compared {
        let compared = self.compare_in_turn();
        let mut entries = self.optimistic.iter().flat_map(|it| it.log.entries());
        let only_reads = entries.all(|it| it.reads_only.is_some() || it.is_savepoint);
        if compared == Compared::Unknown && only_reads {
            self.read_again_elsewhere()
        } else {
            compared
        }
    }

    /// Whether it is still so to the process's executor, which reads it again.
    fn read_again_elsewhere(&mut self) -> Compared {
        self.cursors.see_what_waits();
        let (Some(file), Some(optimistic)) = (&self.file, &self.optimistic) else {
            return Compared::Unknown;
        };
        let snapshot = self.sqlite().speculation_status().snapshot;
        let Some(snapshot) = snapshot else { return Compared::Unknown };
        let mut request = Vec::new();
        let encoded =
            request::encode(&optimistic.request(self.session_settings, &snapshot), &mut request);
        if encoded.is_none() {
            return Compared::Unknown;
        }
        let queue = file.queue();
        let Ok(mut guard) = file.executor(&queue) else { return Compared::Unknown };
        let executor = guard.get();
        let begun = executor
            .adopt(self.session_settings)
            .and_then(|()| executor.begin(Deadline::after(Duration::ZERO)));
        if begun.is_err() {
            // Another program writes at this moment.
            return Compared::Unknown;
        }
        let schema = optimistic.schema;
        if schema.is_some() && schema != executor.session.schema_number() {
            let undone = executor.rollback();
            if undone.is_err() {
                guard.discard();
            }
            return Compared::Changed(None);
        }
        let now = executor.before().copied();
        let since =
            |it: &Origin| recent::written_since(&queue, (it.change, it.checksum), now.as_ref());
        let mut answer = Vec::new();
        let executed = executor.execute(&request, limits::REQUEST_TIME_MAX, since, &mut answer);
        let undone = executor.rollback();
        if undone.is_err() {
            guard.discard();
        }
        match request::decode_answer(&answer).filter(|_| executed == Executed::Answered) {
            Some(Answer::Replayed(_)) => Compared::Same,
            Some(Answer::Conflict { statement, now }) => {
                Compared::Changed(Some((statement, Box::new(now))))
            }
            _ => Compared::Unknown,
        }
    }

    /// Waits for the turns with a snapshot in hand, and no longer when somebody checkpoints, who may wait for that
    /// snapshot.
    ///
    /// # Errors
    /// A turn has not come. Interrupted.
    fn wait_with_snapshot(&mut self, time_max: Duration) -> Result<(), Error> {
        let deadline = Deadline::after(time_max.min(self.settings.timeout));
        self.hold_all_by(|client| QueueClient { deadline, gives_way: true, ..client })
    }

    /// The transaction goes on in the turn that it holds, with what it has written, and writes what it has deferred.
    pub(crate) fn note_promoted(&mut self) -> Result<(), Error> {
        let written = self.optimistic.as_ref().map_or(TableSet::ALL, |it| it.log.written());
        self.sqlite().arm_speculation(false);
        let executed = self.step_deferred();
        let Some(ended) = self.end_optimistic() else { return executed };
        if let Err(error) = executed {
            if ended.auto {
                self.end_as_stale(ended, &error);
            } else {
                self.roll_back_quietly();
            }
            return Err(error);
        }
        self.reuse_log(ended.log);
        // What was deferred may have been compiled again, and then writes other tables too.
        self.turns.note_written(written);
        if planted("promoted-wrote-nothing") {
            self.turns.written = TableSet::NONE;
        }
        Ok(())
    }

    /// What a transaction of mode Auto has deferred, or read, cannot be executed again: it stays open.
    fn end_as_stale(&mut self, optimistic: Box<Optimistic>, error: &Error) {
        self.roll_back_here();
        let optimistic = self.learn_from(optimistic, error);
        self.release_turns();
        self.resume(optimistic);
    }
}
