//! Copies of live databases, and databases as bytes.

use manyhands_queue::Lead;
use manyhands_sqlite::{self as sqlite, BackupStep};

use crate::Error;
use crate::commit::registry::FileHandle;
use crate::connection::Connection;

/// A backup under way; made by [`Connection::backup`]. Dropping it before it is done undoes the copy.
///
/// The target belongs to it. The source can be used meanwhile: what its own connection writes is copied
/// too, and when another connection writes, the copy begins from the start. With all pages in one step
/// nothing comes between.
#[derive(Debug)]
pub struct Backup<'a> {
    /// `None` when it is finished.
    copying: Option<sqlite::Backup>,
    /// The target's turn, and its file.
    turn: Option<(Lead, FileHandle)>,
    /// A transaction of the target's that has done nothing yet: it goes on afterwards.
    rearms: bool,
    target: &'a mut Connection,
}

impl Connection {
    /// Copies a database of this connection over one of another connection
    /// (<https://sqlite.org/backup.html>), while both stay open: pages by [`Backup::step`], until it is
    /// done. A target that is a file is written in its turn: nobody else writes to it until the
    /// backup is finished.
    ///
    /// A copy is not something that an optimistic transaction of the source has seen: nothing of it is
    /// checked at the commit.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// use manyhands::{BackupStep, Database, params};
    /// let mut connection = database.connect()?;
    /// connection.execute("CREATE TABLE item (name)", params![])?;
    /// let copy = Database::open(directory.path().join("copy.db"))?;
    /// let mut target = copy.connect()?;
    /// let mut backup = connection.backup("main", &mut target, "main")?;
    /// while backup.step(Some(100))? != BackupStep::Done {}
    /// backup.finish()?;
    /// assert!(target.query("SELECT * FROM item", params![])?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such schema, or the target is in a transaction; when the target's turn does not
    /// come in time.
    pub fn backup<'a>(
        &mut self,
        schema: &str,
        target: &'a mut Connection,
        target_schema: &str,
    ) -> Result<Backup<'a>, Error> {
        self.begin_operation()?;
        target.begin_operation()?;
        let file = match target_schema {
            "main" => target.file.clone(),
            schema => target.attached.get(schema).cloned(),
        };
        if file.is_some() && !target.is_untouched() {
            let message = "destination database is in use".to_string();
            let code = sqlite::Code::ERROR;
            return Err(Error::from(sqlite::Error { code, message }));
        }
        let lead = file.as_ref().map(|file| target.client(file).take_turn()).transpose()?;
        // Nothing may be copied under a speculative transaction's imaginary lock.
        let rearms = target.optimistic.is_some();
        if rearms {
            target.sqlite().arm_speculation(false);
        }
        let mut backup = Backup { copying: None, turn: lead.zip(file), rearms, target };
        let begun = backup.target.sqlite().begin_backup(target_schema, self.sqlite(), schema)?;
        backup.copying = Some(begun);
        Ok(backup)
    }

    /// True when nothing was read or written since the last transaction ended.
    pub(crate) fn is_untouched(&self) -> bool {
        self.sqlite().transaction() == sqlite::Transaction::None
            && self.turns.is_empty()
            && self.optimistic.as_ref().is_none_or(|it| it.log.entries().is_empty())
    }

    /// The bytes of a database's file, as they would be on the disk. They are what the transaction sees: one
    /// in a speculative transaction moves to its turn first.
    ///
    /// # Errors
    /// When there is no such schema, or it cannot be read; else as [`Connection::execute`].
    pub fn serialize(&mut self, schema: &str) -> Result<Vec<u8>, Error> {
        self.begin_operation()?;
        self.show_unlogged()?;
        let _own = self.own_statements();
        Ok(self.sqlite().serialize(schema)?)
    }

    /// Puts a database in memory in the place of one of this connection's, with these bytes as its file's.
    /// The file that was there is left as it is; the connection has no queue for it any more.
    ///
    /// # Errors
    /// Inside a transaction, and while a cursor or blob is open. Bytes that are no database are found out
    /// when they are read.
    pub fn deserialize(&mut self, schema: &str, bytes: &[u8]) -> Result<(), Error> {
        self.replace_database(schema, |sqlite| sqlite.deserialize(schema, bytes))
    }

    /// Has `replace` put a database in memory in the place of one of this connection's; see [`Connection::deserialize`].
    pub(crate) fn replace_database<T>(
        &mut self,
        schema: &str,
        replace: impl FnOnce(&sqlite::Connection) -> Result<T, sqlite::Error>,
    ) -> Result<T, Error> {
        self.begin_operation()?;
        let main = schema.eq_ignore_ascii_case("main");
        let has_queue = if main { self.is_shared() } else { self.attached.contains_key(schema) };
        let idle = self.is_autocommit() && self.sqlite().transaction() == sqlite::Transaction::None;
        if has_queue && !idle {
            return Err(Error::refused(
                "a database cannot be replaced while a transaction, a cursor or a blob is open: end them",
            ));
        }
        let own = self.own_statements();
        let replaced = replace(self.sqlite())?;
        drop(own);
        self.pristine = false;
        self.after_change(false);
        if main {
            (self.file, self.entrance) = (None, None);
        } else {
            self.attached.remove(schema);
        }
        Ok(replaced)
    }
}

impl Backup<'_> {
    /// Copies up to `pages` pages, or all that are left for `None`. `Busy` and `Locked` say that nothing was
    /// copied, since a lock is held: try again later.
    ///
    /// # Errors
    /// As SQLite fails. The backup cannot go on then.
    pub fn step(&mut self, pages: Option<u32>) -> Result<BackupStep, Error> {
        match &mut self.copying {
            Some(copying) => Ok(copying.step(pages)?),
            None => Err(Error::refused("this backup is finished")),
        }
    }

    /// Pages that are left, as of the last step.
    pub fn remaining(&self) -> u32 {
        self.copying.as_ref().map_or(0, sqlite::Backup::remaining)
    }

    /// Pages of the source, as of the last step.
    pub fn page_count(&self) -> u32 {
        self.copying.as_ref().map_or(0, sqlite::Backup::page_count)
    }

    /// Ends it. What was copied is undone if it is not done yet.
    ///
    /// # Errors
    /// As a step has failed before.
    pub fn finish(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        // The turn must outlast the copying: the target is written under it.
        let finished = self.copying.take().map_or(Ok(()), sqlite::Backup::finish);
        if let Some((lead, file)) = self.turn.take() {
            // A name may mean another table now.
            file.queue().forget_ids();
            if finished.as_ref().is_err_and(|error| error.code.is_failed_sync()) {
                file.fail();
            }
            lead.release();
        }
        if core::mem::take(&mut self.rearms) {
            self.target.sqlite().arm_speculation(true);
        }
        Ok(finished?)
    }
}

impl Drop for Backup<'_> {
    fn drop(&mut self) {
        // Nobody can be told of an error: the backup was not finished.
        let _ = self.end();
    }
}
