//! `PRAGMA wal_checkpoint` of an application.
//!
//! A passive checkpoint waits for nobody in SQLite, and takes no turn. The others wait for whoever writes, and say in their row
//! if that was in vain: they come in their turn, so that they are not waited out by those who write one after the other.

use core::time::Duration;

use manyhands_sqlite::{Transaction, Value};

use crate::Error;
use crate::connection::Connection;
use crate::row::Outcome;
use crate::statement::prepared::Prepared;
use crate::statement::routing::Facts;

pub(crate) fn is_checkpoint(facts: &Facts) -> bool {
    matches!(&facts.pragma, Some((name, _)) if name == "wal_checkpoint")
}

/// True for one that waits for writers and readers.
fn waits(facts: &Facts) -> bool {
    let Some((_, Some(mode))) = &facts.pragma else { return false };
    ["full", "restart", "truncate"].iter().any(|it| mode.eq_ignore_ascii_case(it))
}

impl Connection {
    /// True for `PRAGMA wal_checkpoint` where no turn is held.
    pub(crate) fn checkpoints(&self, prepared: &Prepared) -> bool {
        is_checkpoint(&prepared.facts)
            && !prepared.compiled.explain
            && self.file.is_some()
            && self.turns.is_empty()
    }

    /// Executes it in a turn that ends with it, and not with the transaction.
    ///
    /// # Errors
    /// As SQLite refuses it, in a transaction that has read or written.
    pub(crate) fn checkpoint(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Result<Outcome, Error> {
        if self.is_autocommit() {
            self.let_go_of_snapshots();
        }
        if self.sqlite().transaction() != Transaction::None || !waits(&prepared.facts) {
            return self.step(prepared, values);
        }
        let Some(file) = self.file.clone() else { return self.step(prepared, values) };
        let _asked = file.checkpoint.ask();
        match self.client(&file).take_turn() {
            Ok(lead) => {
                self.hold(lead)?;
                let result = self.step(prepared, values);
                self.release_turns();
                result
            }
            // It has waited long enough: SQLite says so.
            Err(error) if error.is_timeout() => {
                self.session().wait.set(Duration::ZERO);
                let result = self.step(prepared, values);
                self.session().wait.set(self.settings.timeout);
                result
            }
            Err(error) => Err(error),
        }
    }
}
