//! How a database that has no queue yet comes to its queue.
//!
//! Most databases join their queue when they are opened. Three kinds do not:
//!
//! * An empty file. What its first connection chooses (`PRAGMA page_size`, `PRAGMA auto_vacuum`) is part of the first page, and to switch
//!   the file to WAL mode would write that page. So the file is plain SQLite until a connection writes, or begins a transaction: that
//!   connection makes the database, with what it has chosen.
//! * A database that the application leaves in another journal mode ([`Journal::Keep`]). It is plain SQLite until it is in WAL mode.
//! * A database that processes of another version have open: we cannot join their queue. Until they have gone, a process is
//!   their *guest*: it takes SQLite's own lock as any other program does, but asks for it more often, and its optimistic transactions
//!   hold that lock from their beginning.
//!
//! A [`Database`](crate::Database), its clones and their connections share the entrance. The first connection to go through opens it for
//! all; each other connection follows with its next statement outside a transaction.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use manyhands_sqlite::{self as sqlite, Transaction};

use crate::Error;
use crate::commit::file::DatabaseFile;
use crate::commit::joining::Opener;
use crate::commit::registry::FileHandle;
use crate::connection::Connection;
use crate::limits;
use crate::options::{Journal, Settings};
use crate::session::schema::KnownSchema;
use crate::statement::prepared::Prepared;
use crate::statement::routing::{Facts, Route};

/// The way of a database to its queue.
#[derive(Debug)]
pub(crate) struct Entrance {
    path: PathBuf,
    timeout: Duration,
    journal: Journal,
    file: OnceLock<FileHandle>,
    origin: Instant,
    /// When a connection last looked in vain, in microseconds since `origin`; 0 for never.
    looked_us: AtomicU64,
}

impl Entrance {
    pub(crate) fn new(path: PathBuf, settings: &Settings) -> Entrance {
        Entrance {
            path,
            timeout: settings.timeout,
            journal: settings.journal,
            file: OnceLock::new(),
            origin: Instant::now(),
            looked_us: AtomicU64::new(0),
        }
    }

    /// The file and its queue, if somebody has gone through.
    pub(crate) fn file(&self) -> Option<&FileHandle> {
        self.file.get()
    }

    /// Goes through with the connection `own`, if there is something to join.
    ///
    /// # Errors
    /// As the queue cannot be joined.
    pub(crate) fn look(&self, own: &sqlite::Connection) -> Result<Option<&FileHandle>, Error> {
        if self.file().is_some() || is_empty(&self.path) || self.has_looked() {
            return Ok(self.file());
        }
        if self.journal == Journal::Keep && journal_mode(own)? != "wal" {
            return self.note_in_vain();
        }
        self.join(own)
    }

    /// The same before a statement that needs the queue: an empty file is made a database, with what this connection has
    /// chosen for it.
    ///
    /// # Errors
    /// As SQLite fails to write, and see [`Entrance::look`].
    pub(crate) fn enter(&self, own: &sqlite::Connection) -> Result<Option<&FileHandle>, Error> {
        if self.file().is_some() || self.journal == Journal::Keep || !is_empty(&self.path) {
            return Ok(self.file());
        }
        self.join(own)
    }

    fn join(&self, own: &sqlite::Connection) -> Result<Option<&FileHandle>, Error> {
        let file = DatabaseFile::open(self.path.clone(), Opener::Keeps(own), self.timeout);
        if file.as_ref().is_err_and(Error::is_of_other_version) {
            return self.note_in_vain();
        }
        let file = file?;
        // Another thread may have been faster: it is the same file.
        Ok(Some(self.file.get_or_init(|| file)))
    }

    fn now_us(&self) -> u64 {
        self.origin.elapsed().as_micros() as u64
    }

    fn has_looked(&self) -> bool {
        let looked_us = self.looked_us.load(Ordering::Relaxed);
        let since_us = self.now_us().saturating_sub(looked_us);
        looked_us != 0 && since_us < limits::LOOK_INSIDE_EVERY.as_micros() as u64
    }

    fn note_in_vain(&self) -> Result<Option<&FileHandle>, Error> {
        self.looked_us.store(self.now_us().max(1), Ordering::Relaxed);
        Ok(None)
    }
}

/// The journal mode of the main database.
pub(crate) fn journal_mode(connection: &sqlite::Connection) -> Result<String, sqlite::Error> {
    connection.query_text("PRAGMA main.journal_mode")
}

/// True for a file without content; false if it was removed.
pub(crate) fn is_empty(path: &std::path::Path) -> bool {
    std::fs::metadata(path).map_or(true, |found| found.len() == 0)
}

impl Connection {
    /// True when others write the same file through a queue, or will.
    pub(crate) fn is_shared(&self) -> bool {
        let keeps = |it: &Arc<Entrance>| it.journal == Journal::Keep;
        self.file.is_some() || self.entrance.as_ref().is_some_and(|it| !keeps(it))
    }

    /// True while programs of another version write the same file through their own queue.
    pub(crate) fn is_guest(&self) -> bool {
        self.file.is_none() && self.is_shared()
    }

    /// Goes through the entrance if it is open.
    ///
    /// # Errors
    /// See [`Entrance::look`].
    pub(crate) fn follow(&mut self) -> Result<(), Error> {
        let Some(entrance) = self.entrance.clone().filter(|_| self.may_go_through()) else {
            return Ok(());
        };
        match self.patiently(|own| entrance.look(own)) {
            Ok(Some(file)) => self.go_through(file.clone()),
            Ok(None) => Ok(()),
            // It is read as SQLite reads it.
            Err(error) if error.may_make_no_queue() => {
                self.entrance = None;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the database, before a statement that needs it.
    ///
    /// # Errors
    /// See [`Entrance::enter`].
    pub(crate) fn enter_for(&mut self, prepared: &Prepared) -> Result<(), Error> {
        if self.may_go_through() && needs_queue(&prepared.facts, &prepared.route) {
            return self.enter();
        }
        Ok(())
    }

    /// The same, before something else that needs it.
    ///
    /// # Errors
    /// See [`Entrance::enter`].
    pub(crate) fn enter(&mut self) -> Result<(), Error> {
        let Some(entrance) = self.entrance.clone() else { return Ok(()) };
        match self.patiently(|own| entrance.enter(own))? {
            Some(file) => self.go_through(file.clone()),
            None => Ok(()),
        }
    }

    /// Waits longer than the connection's own timeout: others may open the file at this moment.
    fn patiently<T>(&self, work: impl FnOnce(&sqlite::Connection) -> T) -> T {
        let _own = self.own_statements();
        self.session().wait.set(self.settings.timeout.max(limits::JOIN_PATIENCE));
        let done = work(self.sqlite());
        self.session().wait.set(self.settings.timeout);
        done
    }

    fn may_go_through(&self) -> bool {
        self.entrance.is_some()
            && self.is_autocommit()
            && self.sqlite().transaction() == Transaction::None
    }

    fn go_through(&mut self, file: FileHandle) -> Result<(), Error> {
        if self.sqlite().has_moved() || !file.is_in_place() {
            return Err(file.replaced());
        }
        let was_shared = self.is_shared();
        self.entrance = None;
        if !self.settings.label.is_empty() {
            file.queue().register_label(&self.settings.label);
        }
        let _own = self.own_statements();
        let session = self.session_mut();
        session.take_over_checkpoints();
        session.schema = KnownSchema::read(&session.sqlite).unwrap_or_default();
        file.share_with_group();
        self.file = Some(file);
        if !was_shared {
            self.forget_plain_sqlite()?;
        }
        Ok(())
    }

    /// What was compiled, and set, while the database was SQLite's alone.
    fn forget_plain_sqlite(&mut self) -> Result<(), Error> {
        self.cursors.drop_returned();
        let session = self.session_mut();
        session.statements.clear();
        let own = self.own_statements();
        self.sqlite().execute("PRAGMA main.locking_mode = NORMAL")?;
        let level = self.sqlite().query_integer("PRAGMA main.synchronous")?;
        drop(own);
        self.take_over_level(level)
    }
}

/// True for a statement that writes, or begins a transaction.
fn needs_queue(facts: &Facts, route: &Route) -> bool {
    let switches = facts.pragma.as_ref().is_some_and(|(name, argument)| {
        name == "journal_mode" && argument.as_ref().is_some_and(|it| it.eq_ignore_ascii_case("wal"))
    });
    facts.transaction.is_some() || switches || matches!(route, Route::Request | Route::Turn)
}
