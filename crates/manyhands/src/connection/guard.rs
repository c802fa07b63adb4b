//! A transaction as a guard.

use core::ops::{Deref, DerefMut};

use crate::error::ErrorKind;
use crate::{Connection, Error};

/// A transaction; made by [`Connection::transaction`], [`Connection::begin_immediate`] and [`Connection::read_transaction`]. It can do
/// all that its connection can. Dropping it rolls it back. After an error that has ended it (a conflict, `OR ROLLBACK`, a full disk) it executes
/// nothing any more.
#[derive(Debug)]
#[must_use = "dropping a transaction rolls it back"]
pub struct Transaction<'a> {
    connection: &'a mut Connection,
}

/// A part of a transaction; made by [`Transaction::savepoint`]. It can do all that its connection can. Dropping it undoes
/// what was done since it began, and the transaction goes on.
#[derive(Debug)]
#[must_use = "dropping a savepoint undoes what was done since it began"]
pub struct Savepoint<'a> {
    connection: &'a mut Connection,
    is_open: bool,
}

impl Connection {
    /// Begins an optimistic transaction, as `BEGIN` does: it reads and writes on a snapshot of its own,
    /// blocks nobody while it reads, computes or waits, and commits if what it saw is still so.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// use manyhands::params;
    /// let mut connection = database.connect()?;
    /// connection.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER)", params![])?;
    /// connection.execute("INSERT INTO account VALUES (1, 500)", params![])?;
    ///
    /// let mut transaction = connection.transaction()?;
    /// let row = &transaction.query("SELECT cents FROM account WHERE id = 1", params![])?[0];
    /// let cents: i64 = row.get(0)?;
    /// // Somebody else writes the very row meanwhile.
    /// database.connect()?.execute("UPDATE account SET cents = 400", params![])?;
    /// transaction.execute("UPDATE account SET cents = ?1 WHERE id = 1", params![cents - 50])?;
    ///
    /// let error = transaction.commit().unwrap_err();
    /// assert!(error.is_conflict());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`Connection::execute`]; and inside a transaction.
    pub fn transaction(&mut self) -> Result<Transaction<'_>, Error> {
        self.begin("BEGIN CONCURRENT")
    }

    /// Begins a transaction that holds the turn: it waits until all earlier writers are done, and
    /// nobody else writes until it ends. It cannot conflict.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// use manyhands::params;
    /// let mut connection = database.connect()?;
    /// connection.execute("CREATE TABLE counter (n INTEGER)", params![])?;
    /// connection.execute("INSERT INTO counter VALUES (41)", params![])?;
    /// let mut transaction = connection.begin_immediate()?;
    /// let n: i64 = transaction.query("SELECT n FROM counter", params![])?[0].get(0)?;
    /// transaction.execute("UPDATE counter SET n = ?1", params![n + 1])?;
    /// transaction.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`Connection::execute`]; and inside a transaction.
    pub fn begin_immediate(&mut self) -> Result<Transaction<'_>, Error> {
        self.begin("BEGIN IMMEDIATE")
    }

    /// Begins a transaction that only reads, all on one snapshot. It waits for nobody and cannot conflict;
    /// statements that would write are refused.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// use manyhands::params;
    /// let mut connection = database.connect()?;
    /// connection.execute("CREATE TABLE item (price INTEGER)", params![])?;
    /// let mut report = connection.read_transaction()?;
    /// let before = report.query("SELECT count(*) FROM item", params![])?;
    /// database.connect()?.execute("INSERT INTO item VALUES (5)", params![])?;
    /// assert_eq!(report.query("SELECT count(*) FROM item", params![])?, before);
    /// assert!(report.execute("INSERT INTO item VALUES (6)", params![]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`Connection::execute`]; and inside a transaction.
    pub fn read_transaction(&mut self) -> Result<Transaction<'_>, Error> {
        self.begin_read_only()?;
        Ok(Transaction::of(self))
    }

    /// See [`ConnectionExt::begin_read_only`](crate::driver::ConnectionExt::begin_read_only).
    pub(crate) fn begin_read_only(&mut self) -> Result<(), Error> {
        let was_read_only = core::mem::replace(&mut self.reads_only, true);
        let begun = self.execute("BEGIN CONCURRENT", &[]).map(drop);
        self.reads_only = begun.is_ok() || was_read_only;
        begun
    }

    /// See [`ConnectionExt::guard`](crate::driver::ConnectionExt::guard).
    pub(crate) fn guard(&mut self) {
        self.guarded = true;
    }

    /// See [`ConnectionExt::unguard`](crate::driver::ConnectionExt::unguard).
    pub(crate) fn unguard(&mut self) {
        self.guarded = false;
    }

    /// See [`ConnectionExt::check_guard`](crate::driver::ConnectionExt::check_guard).
    pub(crate) fn check_guard(&self) -> Result<(), Error> {
        if !self.guarded || !self.is_autocommit() {
            return Ok(());
        }
        Err(match &self.conflict {
            Some(conflict) => Error::new(ErrorKind::Conflict(conflict.clone())),
            None => Error::refused(
                "an error has ended this transaction, and what follows in it is not executed alone: call `rollback`",
            ),
        })
    }

    /// Executes ROLLBACK; nothing, after an error that has ended a guarded transaction.
    pub(crate) fn roll_back(&mut self) -> Result<(), Error> {
        if self.check_guard().is_err() {
            return Ok(());
        }
        self.execute("ROLLBACK", &[]).map(drop)
    }

    fn begin(&mut self, sql: &str) -> Result<Transaction<'_>, Error> {
        self.execute(sql, &[])?;
        Ok(Transaction::of(self))
    }
}

impl Transaction<'_> {
    /// The open transaction of `connection`.
    fn of(connection: &mut Connection) -> Transaction<'_> {
        connection.guard();
        Transaction { connection }
    }

    /// Begins a part of the transaction that can be undone alone.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// let mut connection = database.connect()?;
    /// connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY)", ())?;
    /// let mut transaction = connection.transaction()?;
    /// for ids in [[1, 2], [3, 1]] {
    ///     let mut both = transaction.savepoint()?;
    ///     let insert = |id| both.execute("INSERT INTO item VALUES (?1)", (id,));
    ///     if ids.into_iter().map(insert).all(|inserted| inserted.is_ok()) {
    ///         both.commit()?;
    ///     }
    /// }
    /// transaction.commit()?;
    /// let ids = connection.query_map("SELECT id FROM item", (), |row| row.get(0))?;
    /// assert_eq!(ids.collect::<Result<Vec<i64>, _>>()?, [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`Connection::execute`].
    pub fn savepoint(&mut self) -> Result<Savepoint<'_>, Error> {
        Savepoint::begin(self.connection)
    }

    /// Commits; when this returns, the writes are durable.
    ///
    /// # Errors
    /// [`Error::is_conflict`] when something that the transaction saw is no longer so. As SQLite fails
    /// to commit, for example when a deferred foreign key is violated. The transaction is rolled back
    /// then.
    pub fn commit(self) -> Result<(), Error> {
        self.connection.execute("COMMIT", &[])?;
        Ok(())
    }

    /// Rolls back.
    ///
    /// # Errors
    /// As SQLite fails to roll back.
    pub fn rollback(self) -> Result<(), Error> {
        self.connection.roll_back()
    }
}

impl Savepoint<'_> {
    /// Those inside each other may have one name: it means the innermost.
    fn begin(connection: &mut Connection) -> Result<Savepoint<'_>, Error> {
        connection.execute("SAVEPOINT manyhands_guard", ())?;
        Ok(Savepoint { connection, is_open: true })
    }

    /// Begins a savepoint inside this one.
    ///
    /// # Errors
    /// See [`Connection::execute`].
    pub fn savepoint(&mut self) -> Result<Savepoint<'_>, Error> {
        Savepoint::begin(self.connection)
    }

    /// Keeps what was done since it began, as a part of the transaction.
    ///
    /// # Errors
    /// As SQLite fails; and when an error has ended the transaction. What was done is undone then.
    pub fn commit(mut self) -> Result<(), Error> {
        self.connection.execute("RELEASE manyhands_guard", ())?;
        self.is_open = false;
        Ok(())
    }

    /// Undoes what was done since it began.
    ///
    /// # Errors
    /// As SQLite fails. The whole transaction is rolled back then.
    pub fn rollback(mut self) -> Result<(), Error> {
        self.undo()
    }

    fn undo(&mut self) -> Result<(), Error> {
        self.connection.execute("ROLLBACK TO manyhands_guard", ())?;
        self.connection.execute("RELEASE manyhands_guard", ())?;
        self.is_open = false;
        Ok(())
    }
}

impl Deref for Savepoint<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl DerefMut for Savepoint<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection
    }
}

impl Drop for Savepoint<'_> {
    fn drop(&mut self) {
        if self.is_open && !self.connection.is_autocommit() {
            // What cannot be undone alone must not be committed with the rest.
            if self.undo().is_err() {
                let _ = self.connection.roll_back();
            }
        }
    }
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl DerefMut for Transaction<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.connection.is_autocommit() {
            // Closing the connection undoes what cannot be rolled back here.
            let _ = self.connection.execute("ROLLBACK", &[]);
        }
        self.connection.unguard();
    }
}
