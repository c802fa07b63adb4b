//! Transactions given as functions: they are run again after a conflict, and always end.

use crate::{Connection, Database, Error, Transaction};

impl Database {
    /// Runs `work` in a transaction and commits it; see [`Connection::run`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
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
    /// # Ok::<(), manyhands::Error>(())
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
    /// # Errors
    /// The error of `work`, whose transaction is then rolled back; as SQLite fails to commit.
    pub fn run<T, E: From<Error>>(
        &mut self,
        mut work: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut transaction = self.begin_immediate()?;
        let done = work(&mut transaction)?;
        transaction.commit()?;
        Ok(done)
    }
}
