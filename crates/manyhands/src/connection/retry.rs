//! Transactions given as functions: they are run again after a conflict, and always end.

use crate::{Connection, Error, Transaction};

impl Connection {
    /// Runs `work` in an optimistic transaction and commits it. After a conflict, `work` is run again, in
    /// a transaction that holds the turn: that one cannot conflict. So `work` runs at most twice, and
    /// should do nothing outside the database that must not be done twice.
    ///
    /// Where most transactions conflict, the first try holds the turn, too: a try without it would mostly be
    /// lost.
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

    /// See [`ConnectionExt::allows_optimism`](crate::driver::ConnectionExt::allows_optimism).
    pub(crate) fn allows_optimism(&self) -> bool {
        self.file.as_ref().is_none_or(|file| file.contention.allows_optimism())
    }

    /// See [`ConnectionExt::note_first_try`](crate::driver::ConnectionExt::note_first_try).
    pub(crate) fn note_first_try(&self) -> bool {
        let conflicted = self.conflict.is_some();
        if let Some(file) = &self.file {
            file.contention.note(conflicted);
        }
        if conflicted {
            self.count_retry();
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
