//! `PRAGMA wal_checkpoint` of an application.

use manyhands_queue::Lead;
use manyhands_sqlite::{Transaction, Value};

use crate::Error;
use crate::connection::Connection;
use crate::row::Outcome;
use crate::statement::prepared::Prepared;

impl Connection {
    /// True for `PRAGMA wal_checkpoint` in a transaction that has neither read nor written, and holds no turn.
    /// SQLite has no snapshot then, and checkpoints as outside a transaction; with one it refuses.
    pub(crate) fn checkpoints_before_snapshot(&self, prepared: &Prepared) -> bool {
        let pragma = prepared.facts.pragma.as_ref();
        pragma.is_some_and(|(name, _)| name == "wal_checkpoint")
            && self.file.is_some()
            && self.turns.is_empty()
            && !self.is_autocommit()
            && self.sqlite().transaction() == Transaction::None
    }

    /// Executes it in a turn that ends with it, and not with the transaction.
    pub(crate) fn checkpoint_before_snapshot(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Result<Outcome, Error> {
        let lead = self.file.as_deref().map(|file| self.client(file).take_turn()).transpose()?;
        let result = self.step(prepared, values);
        lead.into_iter().for_each(Lead::release);
        result
    }
}
