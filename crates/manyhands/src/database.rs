//! A database that an application has opened.

mod builder;

pub use builder::Builder;

use crate::Transaction;
use crate::commit::file::DatabaseFile;
use crate::session::Session;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use manyhands_sqlite::{self as sqlite, OpenMode};

use crate::commit::joining::{FirstConnection, Opener};
use crate::commit::registry::{self, FileHandle};
use crate::connection::entrance::{Entrance, is_empty, journal_mode};
use crate::options::{Journal, Settings};
use crate::session::busy::BusyWait;
use crate::{Connection, Error};

/// A database that many connections, threads and processes write at once.
///
/// Cheap to clone. One per file and process is enough; make a [`Connection`] for each thread or task
/// with [`Database::connect`].
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("app.db");
/// use manyhands::{Database, params};
/// let database = Database::open(&path)?;
/// let mut connection = database.connect()?;
/// connection.execute("CREATE TABLE visit (page TEXT, count INTEGER)", params![])?;
/// connection.execute("INSERT INTO visit VALUES (?1, ?2)", params!["/", 1])?;
/// let rows = connection.query("SELECT count FROM visit WHERE page = ?1", params!["/"])?;
/// assert_eq!(rows[0].get::<i64>(0)?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Database {
    path: PathBuf,
    pub(crate) mode: OpenMode,
    uri: bool,
    pub(crate) settings: Settings,
    file: Option<FileHandle>,
    /// How the database joins its queue, if it did not do so when it was opened.
    entrance: Option<Arc<Entrance>>,
}

impl Database {
    /// Opens a database file, and creates it when it does not exist. It is switched to WAL mode; an empty one by the first
    /// statement that writes or begins a transaction, so that `PRAGMA page_size` and `PRAGMA auto_vacuum` before that have
    /// their effect.
    ///
    /// `:memory:`, temporary and read-only databases are opened as SQLite opens them, without a queue. A file in a
    /// directory where the process may make no other is a read-only database.
    ///
    /// # Errors
    /// As SQLite fails to open; and when the queue file beside it, `<path>-hands`, cannot be made or
    /// joined: the disk is full, or the directory on a network file system. Where programs of another version have the database
    /// open it is no error: until they have gone, SQLite's own lock orders the writes of both.
    pub fn open(path: impl AsRef<Path>) -> Result<Database, Error> {
        Database::builder(path).open()
    }

    /// Opens with choices; see [`Builder`].
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    pub(crate) fn open_with(builder: &Builder) -> Result<Database, Error> {
        let mode = match (builder.read_only, builder.create) {
            (true, _) => OpenMode::ReadOnly,
            (false, true) => OpenMode::ReadWriteCreate,
            (false, false) => OpenMode::ReadWrite,
        };
        let mut database = Database {
            path: builder.path.clone(),
            mode,
            uri: builder.uri,
            settings: builder.settings.clone(),
            file: registry::find(&builder.path).filter(|_| !builder.uri && !builder.read_only),
            entrance: None,
        };
        if database.file.is_none() {
            // Parked files give their descriptors back when the application needs them.
            database.file = match database.open_file() {
                Err(error) if error.may_lack_descriptors() && registry::give_way() => {
                    database.open_file()?
                }
                opened => opened?,
            };
        }
        let label = &builder.settings.label;
        if let Some(file) = database.file.as_ref().filter(|_| !label.is_empty()) {
            file.queue().register_label(label);
        }
        Ok(database)
    }

    /// The file and its queue; `None` for a database without one.
    fn open_file(&mut self) -> Result<Option<FileHandle>, Error> {
        let connection = sqlite::Connection::open(&self.path, self.mode, self.uri)?;
        let path = connection.path();
        if path.as_os_str().is_empty() || connection.is_read_only() {
            return Ok(None);
        }
        if !connection.is_ours() {
            return Err(Error::refused(
                "the URI chooses a VFS, and a database that many write has one of its own: leave out \
                 `vfs=`, or add `mode=ro` to read only",
            ));
        }
        if connection.is_asked_for(c"nolock") {
            return Err(Error::refused(
                "the URI says `nolock=1`, and what many write needs locks: leave it out, or add `mode=ro` to read only",
            ));
        }
        BusyWait::install(&connection, self.settings.timeout);
        let keeps = self.settings.journal == Journal::Keep;
        if is_empty(&path) || keeps && journal_mode(&connection)? != "wal" {
            self.entrance = Some(Arc::new(Entrance::new(path, &self.settings)));
            return Ok(None);
        }
        let is_plain = self.mode == OpenMode::ReadWriteCreate && !self.uri;
        let first = FirstConnection { connection, is_plain };
        match DatabaseFile::open(path.clone(), Opener::Gives(first), self.settings.timeout) {
            Err(error) if error.is_of_other_version() => {
                tracing::warn!(%error, "working beside them through SQLite's own lock until they have gone");
                self.entrance = Some(Arc::new(Entrance::new(path, &self.settings)));
                Ok(None)
            }
            Err(error) if error.may_make_no_queue() => {
                tracing::warn!(%error, "the database is opened for reading only");
                // By its path: SQLite refuses a URI that asks for more.
                (self.path, self.mode, self.uri) = (path, OpenMode::ReadOnly, false);
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    /// Makes a connection: one for each thread or task.
    ///
    /// # Errors
    /// As SQLite fails to open.
    pub fn connect(&self) -> Result<Connection, Error> {
        let Some(file) = self.file() else {
            let connection = sqlite::Connection::open(&self.path, self.mode, self.uri)?;
            let open = Session::new(connection, &self.settings)?;
            let mut connection = Connection::new(open, None, self.settings.clone());
            connection.entrance.clone_from(&self.entrance);
            connection.follow()?;
            return Ok(connection);
        };
        let open = file.connect(&self.settings)?;
        Ok(Connection::new(open, Some(file.clone()), self.settings.clone()))
    }

    /// False for a database that has no queue, and never will.
    #[cfg(feature = "tokio")]
    pub(crate) fn may_have_a_queue(&self) -> bool {
        self.file.is_some() || self.entrance.is_some()
    }

    /// Makes the database in an empty file, for a caller that needs the queue.
    ///
    /// # Errors
    /// See [`Entrance::enter`].
    #[cfg(any(test, feature = "tokio"))]
    pub(crate) fn enter(&self) -> Result<(), Error> {
        self.connect()?.enter()
    }

    /// The file and its queue; `None` for a database that has none, or has not joined it yet.
    pub(crate) fn file(&self) -> Option<&FileHandle> {
        self.file.as_ref().or_else(|| self.entrance.as_ref()?.file())
    }

    /// What the queue has done since the first process joined it; `None` for a database without one, and for one that
    /// is still empty.
    pub fn statistics(&self) -> Option<crate::Statistics> {
        self.file().map(|file| file.statistics())
    }
}

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
