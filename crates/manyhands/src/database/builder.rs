//! The choices that an application makes when it opens a database.

use core::time::Duration;
use std::path::{Path, PathBuf};

use crate::options::{Durability, Journal, Settings, TransactionMode};
use crate::{Database, Error};

/// Opens a database with choices; made by [`Database::builder`].
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("app.db");
/// use std::time::Duration;
/// let database = manyhands::Database::builder(&path)
///     .durability(manyhands::Durability::Normal)
///     .timeout(Duration::from_secs(5))
///     .foreign_keys(true)
///     .label("importer")
///     .open()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing before `open`"]
pub struct Builder {
    pub(crate) path: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) read_only: bool,
    pub(crate) create: bool,
    pub(crate) uri: bool,
}

impl Builder {
    pub(crate) fn new(path: &Path) -> Builder {
        Builder {
            path: path.to_path_buf(),
            settings: Settings::default(),
            read_only: false,
            create: true,
            uri: false,
        }
    }

    /// What an acknowledged write survives, unless its connection has said otherwise by `PRAGMA synchronous`: `OFF` and
    /// `NORMAL` are [`Durability::Normal`], `FULL` and `EXTRA` are [`Durability::Full`]. Default: [`Durability::Full`].
    pub fn durability(mut self, durability: Durability) -> Builder {
        self.settings.durability = durability;
        self
    }

    /// What an acknowledged write survives at least, whatever `PRAGMA synchronous` says. Default:
    /// [`Durability::Normal`], so that the PRAGMA decides.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use manyhands::{Database, Durability, params};
    /// let path = directory.path().join("ledger.db");
    /// let database = Database::builder(&path).durability_min(Durability::Full).open()?;
    /// let mut connection = database.connect()?;
    /// connection.execute("PRAGMA synchronous = NORMAL", params![])?; // Its commits are still synced.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn durability_min(mut self, durability: Durability) -> Builder {
        self.settings.durability_min = durability;
        self
    }

    /// What becomes of a database that is in another journal mode than WAL. Default: [`Journal::Wal`].
    pub fn journal(mut self, journal: Journal) -> Builder {
        self.settings.journal = journal;
        self
    }

    /// How long a write waits for its turn, and any statement for a lock of another SQLite program.
    /// Default: 5 s.
    pub fn timeout(mut self, timeout: Duration) -> Builder {
        self.settings.timeout = timeout;
        self
    }

    /// Whether foreign keys are enforced. Default: false, as SQLite's.
    pub fn foreign_keys(mut self, enforced: bool) -> Builder {
        self.settings.foreign_keys = enforced;
        self
    }

    /// A name for the connections, shown to others who wait for them: up to 40 bytes. Default: empty.
    pub fn label(mut self, label: impl Into<String>) -> Builder {
        self.settings.label = label.into();
        self
    }

    /// How much memory an optimistic transaction may take for what it writes and for its log, in bytes;
    /// at least 1 MiB. A larger one moves to its turn in the queue, where it no longer needs the memory.
    /// Rows that cursors of the transaction have not shown yet may take 16 times as much. Default: 16 MiB.
    pub fn speculation_bytes_max(mut self, bytes: usize) -> Builder {
        self.settings.speculation_bytes_max = bytes.max(1 << 20);
        self
    }

    /// How many bytes of the WAL a reader may keep from being reused before writes wait for it. A reader that
    /// does not end lets the WAL grow. With a limit, a write waits until the reader has ended, as long as it would wait for its
    /// turn, and then fails with an error that names the reader. Reads never wait. Requests that wait in the queue already, and the
    /// transaction in hand, may exceed the limit. Each process that writes needs the limit.
    /// Default: none; `u64::MAX` means none.
    pub fn wal_bytes_limit(mut self, bytes: u64) -> Builder {
        self.settings.wal_bytes_limit = bytes;
        self
    }

    /// What a plain `BEGIN` means. Default: [`TransactionMode::Optimistic`].
    pub fn transaction_mode(mut self, mode: TransactionMode) -> Builder {
        self.settings.transaction_mode = mode;
        self
    }

    /// Opens for reading only: nothing is created, converted or queued. Default: false.
    pub fn read_only(mut self, read_only: bool) -> Builder {
        self.read_only = read_only;
        self
    }

    /// Whether a database that does not exist is created. Default: true.
    pub fn create(mut self, create: bool) -> Builder {
        self.create = create;
        self
    }

    /// Whether the path may be a `file:` URI (<https://sqlite.org/uri.html>). A URI that is opened for writing cannot choose a
    /// VFS. Default: false.
    pub fn uri(mut self, uri: bool) -> Builder {
        self.uri = uri;
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    /// See [`Database::open`].
    pub fn open(mut self) -> Result<Database, Error> {
        self.settings.durability = self.settings.durability.max(self.settings.durability_min);
        Database::open_with(&self)
    }
}
