//! A transaction as a guard.

use core::ops::{Deref, DerefMut};

use crate::{Connection, Error};

/// A transaction that holds the turn; made by [`Connection::begin_immediate`]. It can do all that its
/// connection can. Dropping it rolls it back.
#[derive(Debug)]
#[must_use = "dropping a transaction rolls it back"]
pub struct Transaction<'a> {
    connection: &'a mut Connection,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(connection: &'a mut Connection) -> Transaction<'a> {
        Transaction { connection }
    }

    /// Commits; when this returns, the writes are durable.
    ///
    /// # Errors
    /// As SQLite fails to commit, for example when a deferred foreign key is violated. The transaction
    /// is rolled back then.
    pub fn commit(self) -> Result<(), Error> {
        self.connection.execute("COMMIT", &[])?;
        Ok(())
    }

    /// Rolls back.
    ///
    /// # Errors
    /// As SQLite fails to roll back.
    pub fn rollback(self) -> Result<(), Error> {
        self.connection.execute("ROLLBACK", &[])?;
        Ok(())
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
    }
}
