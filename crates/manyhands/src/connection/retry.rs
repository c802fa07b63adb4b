//! Transactions given as functions: they are run again after a conflict, and always end.

use crate::{Connection, Error, Transaction};

impl Connection {
    /// Runs `work` in an optimistic transaction and commits it. After a conflict, `work` is run again, in
    /// a transaction that holds the turn: that one cannot conflict. So `work` runs at most twice, and
    /// should do nothing outside the database that must not be done twice.
    ///
    /// Where most transactions conflict, the first try holds the turn too: then a second one would only
    /// cost.
    ///
    /// # Errors
    /// The error of `work`, whose transaction is then rolled back; as SQLite fails to commit.
    pub fn run<T, E: From<Error>>(
        &mut self,
        mut work: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        if self.allows_optimism() {
            let result = commit(self.transaction()?, &mut work);
            if !self.note_first_try() {
                return result;
            }
        }
        commit(self.begin_immediate()?, &mut work)
    }

    /// For who does what [`Connection::run`] does, and cannot give it a closure: whether the first try should
    /// be optimistic. If not, it should hold its turn.
    pub fn allows_optimism(&self) -> bool {
        self.file.as_ref().is_none_or(|file| file.contention.allows_optimism())
    }

    /// An optimistic first try is over: true when it conflicted, so that a second one is to hold its turn.
    pub fn note_first_try(&self) -> bool {
        let conflicted = self.conflict.is_some();
        if let Some(file) = &self.file {
            file.contention.note(conflicted);
        }
        if conflicted {
            self.count_transaction(|it| &it.retries);
        }
        conflicted
    }
}

/// Runs `work` in the transaction, and commits it.
fn commit<T, E: From<Error>>(
    mut transaction: Transaction<'_>,
    mut work: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let done = work(&mut transaction)?;
    transaction.commit()?;
    Ok(done)
}
