//! Transactions of mode Auto ([`TransactionMode::Auto`]): a program that was written for SQLite's own transactions
//! meets in them what SQLite with a patient and fair lock would show it. What it is told is final: a row count, a new
//! id, that a statement succeeded or failed. So such a transaction never writes speculatively. It is in one of three states:
//!
//! | state   | what it has done                          | what it holds           | ways out                          |
//! |---------|-------------------------------------------|-------------------------|-----------------------------------|
//! | reading | read, or nothing                          | its snapshot            | deferring; the turn               |
//! | deferring | infallible writes, of which nobody has asked anything, and nothing else | nothing | the turn; COMMIT, as one request |
//! | in its turn | anything                              | the turn, and SQLite's write lock | its end                 |
//!
//! * Who only reads waits for nobody, and nobody waits for it.
//! * The first write after a read takes the turn. If what was read is no longer so, it gets what SQLite would have
//!   given it at once, `SQLITE_BUSY_SNAPSHOT`, and the transaction can only read on, or be ended. So that this stays rare, a
//!   transaction takes its turn before it reads where those like it have written before (`transaction/prediction.rs`).
//! * An INSERT, UPDATE or DELETE is *deferred* if it can fail only with the system (`statement/infallible.rs`), and if the connection's
//!   owner asks for counts and ids by [`Connection::changes_of`] and [`Connection::last_insert_rowid_of`]: these take
//!   the turn first. The leader that executes it chooses its id, so ids become visible in their order.
//! * Who waits for its turn gives its snapshot up when somebody checkpoints: a checkpoint that waits for the snapshot keeps the
//!   turn from coming. Without it the transaction is *detached*: its log says what it has seen, and if the turn does not
//!   come, whatever comes next takes the turn first, and looks whether that is still so.

use std::sync::Arc;
use std::time::Instant;

use manyhands_queue::{Prediction, planted};
use manyhands_sqlite::Value;

use crate::Error;
use crate::connection::Connection;
use crate::connection::speculative::Optimistic;
use crate::limits;
use crate::options::TransactionMode;
use crate::row::{Outcome, Tally};
use crate::statement::infallible::InfallibleWrite;
use crate::statement::observe::Observer;
use crate::statement::prepared::Prepared;
use crate::statement::routing::{self, InSpeculation, TransactionStatement};
use crate::statement::text::is_begin_concurrent;
use crate::transaction::log::Entry;

/// What a statement of a transaction of mode Auto needs before it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// The turn, if the transaction will probably write.
    Prediction,
    Turn,
}

impl Connection {
    /// Whether the transaction that `sql` has begun is one of mode Auto; `None` if it is SQLite's own.
    pub(crate) fn begins_auto_mode(&self, sql: &str) -> Option<bool> {
        if is_begin_concurrent(sql) || planted("ids-told-early") {
            return Some(false);
        }
        let waits = !self.settings.timeout.is_zero() && !self.driver_reads();
        waits.then_some(self.settings.transaction_mode == TransactionMode::Auto)
    }

    /// True for a plain BEGIN, or a savepoint that begins a transaction, that holds its turn.
    pub(crate) fn begins_in_turn(&self, prepared: &Prepared) -> bool {
        let statement = prepared.facts.transaction.as_ref();
        let (mode, concurrent) =
            (self.settings.transaction_mode, is_begin_concurrent(&prepared.sql));
        let in_turn = if self.is_guest() {
            // Nothing is replayed there; one of mode Auto is SQLite's own.
            let waits = !self.settings.timeout.is_zero() && !self.reads_only;
            waits && (concurrent || mode != TransactionMode::Auto)
        } else {
            // What is executed speculatively, and again where it takes effect, would be told twice.
            let is_speculative = concurrent || mode == TransactionMode::Optimistic;
            let is_told = self.additions.hears_changes && is_speculative && !self.reads_only;
            self.file.is_some() && (mode == TransactionMode::Immediate && !concurrent || is_told)
        };
        in_turn
            && matches!(
                statement,
                Some(TransactionStatement::Begin | TransactionStatement::Savepoint(_))
            )
    }

    /// True in a transaction of mode Auto that has not taken its turn yet.
    pub(crate) fn is_in_auto_mode(&self) -> bool {
        self.optimistic.as_ref().is_some_and(|it| it.auto)
    }

    /// See [`ConnectionExt::defer_writes`](crate::driver::ConnectionExt::defer_writes).
    pub(crate) fn defer_writes(&mut self, defers: bool) {
        self.defers_writes = defers;
    }

    /// What a statement needs in a transaction that has not taken its turn is there when this returns: in one of mode Auto,
    /// and in one that is detached.
    ///
    /// # Errors
    /// The turn did not come before the deadline; or what the transaction has read is no longer so, and it can only be
    /// ended (`SQLITE_BUSY_SNAPSHOT`). It stays open in both cases.
    pub(crate) fn prepare_transaction(&mut self, prepared: &Prepared) -> Result<(), Error> {
        let Some(optimistic) = &self.optimistic else { return Ok(()) };
        match optimistic.needs(prepared) {
            Needs::Nothing => Ok(()),
            Needs::Prediction => self.take_predicted_turn(prepared),
            // It fails at once.
            Needs::Turn if self.refuses_as_query_only(prepared)? => Ok(()),
            Needs::Turn => self.escalate_first(),
        }
    }

    /// Takes the turn before a read, if transactions that came this way almost always write. Where that does not come,
    /// or could only come with another snapshot, the transaction reads without it.
    fn take_predicted_turn(&mut self, prepared: &Prepared) -> Result<(), Error> {
        let Some(step) = self.path.step(prepared.fingerprint) else { return Ok(()) };
        let Some(optimistic) = &self.optimistic else { return Ok(()) };
        if !self.attached.is_empty() || planted("no-predictions") {
            return Ok(());
        }
        let waits_for_itself = || self.file.as_ref().is_some_and(|it| it.holder.is_this_thread());
        let end = Instant::now() + limits::FIRST_WAIT_MAX.min(self.settings.timeout);
        loop {
            match step.predict(&optimistic.queue) {
                Prediction::Writes | Prediction::Unknown if waits_for_itself() => return Ok(()),
                Prediction::Writes if self.connection_local && self.is_query_only()? => {
                    return Ok(());
                }
                Prediction::Writes => return self.escalate_early(),
                // All of those that begin at once would fail, but one.
                Prediction::Unknown if Instant::now() < end && !self.interrupt.is_asked() => {
                    std::thread::sleep(limits::FIRST_WAIT_STEP);
                }
                Prediction::Reads | Prediction::First | Prediction::Unknown => return Ok(()),
            }
        }
    }

    /// Defers a write that cannot fail. `None` where that is not certain, or something was seen already.
    pub(crate) fn defer(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Option<Result<Outcome, Error>> {
        if !self.may_defer(prepared, values) {
            return None;
        }
        let adds_one_row = self.infallible_write_of(prepared, values)? == InfallibleWrite::OneRow;
        let (now, live) = (self.counts(), self.sqlite().speculation_status().live?);
        let changes = if adds_one_row { 1 } else { 0 };
        let tally = Tally::new(changes, now.last_insert_rowid);
        self.log(prepared, values, Observer::default().so_far(true), Some(&tally));
        self.optimistic.as_mut()?.defer_last(now, live, adds_one_row);
        self.path.wrote = true;
        if let Err(error) = self.let_go_of_own_snapshot() {
            // SQLite, too, rolls a transaction back of which a write is interrupted.
            self.roll_back_quietly();
            return Some(Err(error));
        }
        Some(Ok(Outcome { rows: Vec::new(), tally }))
    }

    /// A write was refused before it was executed. To SQLite it is a statement that has changed no row.
    pub(crate) fn count_refused(&mut self) {
        let changes = self.counts().changes;
        self.session().counters.ran_elsewhere(0, 0, self.sqlite().total_changes());
        if let Some(optimistic) =
            self.optimistic.as_mut().filter(|it| it.only_reads() && changes != 0)
        {
            // Where the log is executed again, it counts from there.
            if optimistic.log.entries().iter().all(|it| it.reads_only.is_some() || it.is_savepoint)
            {
                optimistic.before.changes = 0;
            } else {
                optimistic.forget_log();
            }
        }
    }

    /// What was deferred is about to be undone, and has been counted if it had been executed: on a fork nobody else sees
    /// that. What fails there has counted nothing.
    pub(crate) fn count_deferred(&mut self) {
        let counts = self.optimistic.as_ref().is_some_and(|it| it.deferred() > 0 && !it.detached);
        if counts && self.step_deferred().is_err() {
            tracing::debug!("what was deferred, and is undone, could not be counted");
        }
    }

    /// True when somebody may still ask what was deferred has counted.
    pub(crate) fn is_asked_for_deferred(&self) -> bool {
        let entries = self.optimistic.iter().flat_map(|it| it.log.entries());
        self.has_deferred() && entries.flat_map(|it| &it.tally).any(|it| Arc::strong_count(it) > 1)
    }

    /// To look what is certain may have read, and with that begun a snapshot, in a transaction that has shown nothing.
    ///
    /// # Errors
    /// The transaction has ended with the snapshot, and could not be begun again.
    fn let_go_of_own_snapshot(&mut self) -> Result<(), Error> {
        if self.cursors.are_open() || self.sqlite().speculation_status().snapshot.is_none() {
            return Ok(());
        }
        let own = self.own_statements();
        let rolled_back = self.sqlite().execute("ROLLBACK");
        drop(own);
        if rolled_back.is_ok() {
            self.begin_again().map_err(|error| self.describe(error))?;
        }
        Ok(())
    }

    fn may_defer(&self, prepared: &Prepared, values: &[Value]) -> bool {
        let Some(optimistic) = self.optimistic.as_ref().filter(|it| it.auto) else { return false };
        let (log, deferred) = (&optimistic.log, optimistic.deferred());
        // One that loads in bulk is to take its turn, if that is free.
        let is_burst =
            log.entries().len() + 1 == limits::BURST_STATEMENTS && !optimistic.queue.is_led();
        self.defers_writes
            && prepared.columns.is_empty()
            && optimistic.stale.is_none()
            && optimistic.schema.is_none()
            // It has done nothing else.
            && deferred == log.entries().iter().filter(|it| !it.says_nothing()).count()
            && !optimistic.incomplete
            && !is_burst
            && self.has_room_to_defer(optimistic, prepared, values)
    }

    /// Something of the database is shown, or changes its meaning, that no log can say. A transaction of mode Auto that only
    /// reads goes on, on its own snapshot alone; any other one takes its turn.
    ///
    /// # Errors
    /// See [`Connection::escalate_first`].
    pub(crate) fn show_unlogged(&mut self) -> Result<(), Error> {
        match &mut self.optimistic {
            Some(it) if it.only_reads() => it.forget_log(),
            Some(_) => self.escalate_first()?,
            None => {}
        }
        Ok(())
    }

    /// True in a transaction of mode Auto that has logged writes and not executed them.
    pub(crate) fn has_deferred(&self) -> bool {
        self.optimistic.as_ref().is_some_and(|it| it.deferred() > 0)
    }

    /// What a statement did that changes nothing and is not logged: the id that it tells is that of the last write, which may
    /// be deferred.
    pub(crate) fn after_deferred(&self, outcome: Outcome) -> Outcome {
        let deferred = self.optimistic.as_ref().filter(|it| it.deferred() > 0);
        let mut entries = deferred.iter().flat_map(|it| it.log.entries().iter().rev());
        let last = entries.find_map(|entry| entry.tally.as_ref());
        let tally = last.map_or_else(|| Arc::clone(&outcome.tally), Tally::after);
        Outcome { tally, ..outcome }
    }

    /// See [`ConnectionExt::execute_deferred_in_turn`](crate::driver::ConnectionExt::execute_deferred_in_turn).
    pub(crate) fn execute_deferred_in_turn(&mut self) -> Result<(), Error> {
        self.begin_lazy(Some("BEGIN IMMEDIATE"))?;
        if self.has_deferred() {
            self.escalate_first()?;
        }
        Ok(())
    }

    /// See [`ConnectionExt::execute_deferred_ahead`](crate::driver::ConnectionExt::execute_deferred_ahead).
    pub(crate) fn execute_deferred_ahead(&mut self) -> Result<(), Error> {
        if self.is_in_auto_mode() {
            self.escalate_first()?;
        }
        Ok(())
    }

    /// See [`ConnectionExt::is_executed`](crate::driver::ConnectionExt::is_executed).
    pub(crate) fn is_executed(&self) -> bool {
        self.optimistic.is_none()
    }

    /// See [`ConnectionExt::changes_of`](crate::driver::ConnectionExt::changes_of).
    pub(crate) fn changes_of(&mut self, outcome: &Outcome) -> Result<u64, Error> {
        let may_differ = |entry: &Entry| !entry.adds_one_row;
        if self.is_lazy(outcome) || self.entry_of(outcome).is_some_and(may_differ) {
            self.execute_deferred_in_turn()?;
        }
        Ok(outcome.changes())
    }

    /// See [`ConnectionExt::last_insert_rowid_of`](crate::driver::ConnectionExt::last_insert_rowid_of).
    pub(crate) fn last_insert_rowid_of(&mut self, outcome: &Outcome) -> Result<i64, Error> {
        if !planted("deferred-id-is-told") {
            self.execute_deferred_in_turn()?;
        }
        // Not before: from now on it counts as seen.
        if self.entry_of(outcome).is_none() {
            self.note_question(Tally::LAST_INSERT_ROWID);
        }
        Ok(outcome.last_insert_rowid())
    }

    /// The open transaction's log entry of a statement.
    fn entry_of(&self, outcome: &Outcome) -> Option<&Entry> {
        let mut entries = self.optimistic.as_ref()?.log.entries().iter().rev();
        entries.find(|entry| entry.tally.as_ref().is_some_and(|it| it.is_same(&outcome.tally)))
    }
}

impl Optimistic {
    /// How many of its statements were logged and not executed.
    pub(crate) fn deferred(&self) -> usize {
        self.deferred_writes.as_ref().filter(|_| self.auto).map_or(0, |it| it.count())
    }

    fn needs(&self, prepared: &Prepared) -> Needs {
        let facts = &prepared.facts;
        match routing::in_speculation(facts, &prepared.route, prepared.compiled) {
            // What needs the turn takes it by itself, in whatever mode.
            InSpeculation::Plain | InSpeculation::InTurn => return Needs::Nothing,
            InSpeculation::Logged | InSpeculation::LoggedForLocalReplay => {}
        }
        if facts.transaction.is_some() {
            // A savepoint is of the transaction as it is.
            return Needs::Nothing;
        }
        if self.detached || self.deferred() > 0 {
            return Needs::Turn;
        }
        if !self.auto {
            return Needs::Nothing;
        }
        if facts.schema || facts.silent || facts.writes.iter().any(|it| it != "temp") {
            return Needs::Turn;
        }
        match facts.touches_tables() && self.stale.is_none() {
            true if planted("readers-take-turns") => Needs::Turn,
            true => Needs::Prediction,
            false => Needs::Nothing,
        }
    }
}
