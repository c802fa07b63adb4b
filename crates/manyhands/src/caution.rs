//! Transactions that see nothing which could change ([`TransactionMode::Auto`]): they work on a fork while
//! they only write, and hold their turn from the moment their caller would see something. So they cannot
//! conflict, and an application whose units of work nobody can run again meets no error that SQLite's own
//! lock would not have given it.
//!
//! What they promise their caller before that moment is that each statement succeeds. One that fails at the
//! commit all the same, for example since somebody else has inserted the same key, fails with SQLite's error.

use std::sync::Arc;

use crate::Error;
use crate::connection::Connection;
use crate::limits;
use crate::log::Entry;
use crate::optimistic::is_begin_concurrent;
use crate::options::TransactionMode;
use crate::prepared::Prepared;
use crate::routing::{self, InFork, TransactionStatement};
use crate::row::{Outcome, Tally};

impl Connection {
    /// Whether the transaction that `sql` has begun is cautious; `None` if it is not on a fork.
    pub(crate) fn caution_of(&self, sql: &str) -> Option<bool> {
        if is_begin_concurrent(sql) {
            return Some(false);
        }
        let waits = !self.settings.timeout.is_zero();
        waits.then_some(self.settings.transaction_mode == TransactionMode::Auto)
    }

    /// True for a plain BEGIN, or a savepoint that begins a transaction, that holds its turn.
    pub(crate) fn begins_in_turn(&self, prepared: &Prepared) -> bool {
        let statement = prepared.facts.transaction.as_ref();
        self.file.is_some()
            && self.settings.transaction_mode == TransactionMode::Immediate
            && matches!(
                statement,
                Some(TransactionStatement::Begin | TransactionStatement::Savepoint(_))
            )
            && !is_begin_concurrent(&prepared.sql)
    }

    pub(crate) fn is_cautious(&self) -> bool {
        self.optimistic.as_ref().is_some_and(|it| it.cautious)
    }

    /// A cautious transaction takes its turn before a statement that shows something, or that calls the
    /// application's functions, which may do what must not be done twice.
    pub(crate) fn show_nothing_that_may_change(
        &mut self,
        prepared: &Prepared,
    ) -> Result<(), Error> {
        if !self.is_cautious() || prepared.facts.transaction.is_some() {
            return Ok(());
        }
        match routing::in_fork(&prepared.facts, &prepared.route, prepared.compiled) {
            // What needs the turn takes it by itself, in whatever mode.
            InFork::Plain | InFork::InTurn => Ok(()),
            InFork::Logged if !prepared.shows_data() => Ok(()),
            InFork::Logged | InFork::LoggedAtHome => self.escalate_first(),
        }
    }

    /// The transaction may be loading in bulk, and nobody waits: then it goes on in its turn.
    pub(crate) fn take_turn_for_burst(&mut self) -> Result<(), Error> {
        let is_burst = self
            .optimistic
            .as_ref()
            .is_some_and(|it| it.cautious && it.began.elapsed() < limits::BURST_TIME_MAX);
        if is_burst {
            self.promote_if_idle()?;
        }
        Ok(())
    }

    /// Makes what was counted until now certain: a transaction of [`TransactionMode::Auto`] takes its turn.
    /// Does nothing in other transactions, and outside of them.
    ///
    /// # Errors
    /// See [`Connection::execute`]. When the turn does not come in time, the transaction goes on.
    pub fn settle(&mut self) -> Result<(), Error> {
        let kept_back = self.optimistic.as_ref().is_some_and(|it| it.kept_back.is_some());
        if self.is_cautious() && (kept_back || self.sqlite().fork_status().forked) {
            self.escalate_first()?;
        }
        Ok(())
    }

    /// Takes the turn now, in a transaction of [`TransactionMode::Auto`]: what it counts from now on is final, and asking
    /// for it waits for nobody. Does nothing in other transactions, and outside of them.
    ///
    /// # Errors
    /// See [`Connection::settle`].
    pub fn settle_ahead(&mut self) -> Result<(), Error> {
        if self.is_cautious() {
            self.escalate_first()?;
        }
        Ok(())
    }

    /// True when nothing that was counted until now can change, since no transaction is open that works side by side with others.
    pub fn is_settled(&self) -> bool {
        self.optimistic.is_none()
    }

    /// As [`Outcome::changes`]; a transaction of [`TransactionMode::Auto`] takes its turn first, if the answer
    /// could still change.
    ///
    /// # Errors
    /// See [`Connection::settle`].
    pub fn changes_of(&mut self, outcome: &Outcome) -> Result<u64, Error> {
        if self.entry_of(outcome).is_some() {
            self.settle()?;
        }
        Ok(outcome.changes())
    }

    /// As [`Outcome::last_insert_rowid`]; a transaction of [`TransactionMode::Auto`] takes its turn first, if
    /// the answer could still change.
    ///
    /// # Errors
    /// See [`Connection::settle`].
    pub fn last_insert_rowid_of(&mut self, outcome: &Outcome) -> Result<i64, Error> {
        let leaders = self.optimistic.as_ref().map_or(0, |it| it.leaders);
        let stays = |entry: &Entry| entry.given.stay_for(leaders);
        match self.entry_of(outcome) {
            Some(entry) if stays(entry) => {}
            Some(_) => self.settle()?,
            // One that is not in the log tells what those before it have inserted.
            None => {
                let id = outcome.last_insert_rowid();
                let mut entries = self.optimistic.iter().flat_map(|it| it.log.entries());
                if !entries.any(|it| stays(it) && it.given.ids.last() == Some(&id)) {
                    self.note_question(Tally::LAST_INSERT_ROWID);
                    self.settle()?;
                }
            }
        }
        // Not before: from now on it counts as seen.
        Ok(outcome.last_insert_rowid())
    }

    /// The open transaction's log entry of a statement.
    fn entry_of(&self, outcome: &Outcome) -> Option<&Entry> {
        let mut entries = self.optimistic.as_ref()?.log.entries().iter().rev();
        entries.find(|entry| entry.tally.as_ref().is_some_and(|it| Arc::ptr_eq(it, &outcome.tally)))
    }
}
