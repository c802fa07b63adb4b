//! Transactions given as functions: they are run again after a conflict, and always end.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::{Connection, Database, Error, Transaction};

impl Database {
    /// Runs `work` in a transaction and commits it; see [`Connection::run`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// use manyhands::params;
    /// database.connect()?.execute("CREATE TABLE counter (n INTEGER)", params![])?;
    /// database.connect()?.execute("INSERT INTO counter VALUES (0)", params![])?;
    /// std::thread::scope(|scope| {
    ///     for _ in 0..4 {
    ///         scope.spawn(|| {
    ///             database.run(|transaction| {
    ///                 let n: i64 = transaction.query("SELECT n FROM counter", params![])?[0].get(0)?;
    ///                 transaction.execute("UPDATE counter SET n = ?1", params![n + 1])
    ///             })
    ///         });
    ///     }
    /// });
    /// let rows = database.connect()?.query("SELECT n FROM counter", params![])?;
    /// assert_eq!(rows[0].get::<i64>(0)?, 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`Connection::run`].
    pub fn run<T, E: From<Error>>(
        &self,
        work: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.connect()?.run(work)
    }
}

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

/// How many of the last transactions conflicted.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    /// The share of conflicts, in parts of 65536: each outcome counts for an eighth.
    share: AtomicU32,
    asked: AtomicU32,
}

impl Contention {
    const ALL: u32 = 1 << 16;

    /// Whether the next transaction should try without its turn. Now and then it does in any case, to
    /// learn whether the others have gone.
    pub(crate) fn allows_optimism(&self) -> bool {
        const PROBE_EVERY: u32 = 32;
        self.share.load(Ordering::Relaxed) < Contention::ALL / 2
            || self.asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(PROBE_EVERY)
    }

    /// A transaction without a turn has ended. Two at once may count as one: it is an estimate.
    pub(crate) fn note(&self, conflicted: bool) {
        let share = self.share.load(Ordering::Relaxed);
        let new = if conflicted { Contention::ALL / 8 } else { 0 };
        self.share.store(share - share / 8 + new, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_always_conflicts_stops_trying_and_starts_again() {
        let contention = Contention::default();
        assert!(contention.allows_optimism());
        for _ in 0..10 {
            contention.note(true);
        }
        let tries = (0..320).filter(|_| contention.allows_optimism()).count();
        assert_eq!(tries, 10);
        for _ in 0..10 {
            contention.note(false);
        }
        assert!((0..10).all(|_| contention.allows_optimism()));
    }
}
