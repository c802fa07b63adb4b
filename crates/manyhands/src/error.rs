//! One error type, with questions to ask it.

use core::time::Duration;
use std::fmt;
use std::io::ErrorKind as ErrorOfSystem;
use std::path::PathBuf;
use std::sync::Arc;

use manyhands_queue::{JoinError, LeaderInfo};
use manyhands_sqlite as sqlite;

use crate::WalReader;

/// Why an operation failed. Nothing of it was applied, unless [`Error::is_outcome_unknown`].
#[derive(Debug)]
pub struct Error {
    kind: Box<ErrorKind>,
}

#[derive(Debug)]
pub(crate) enum ErrorKind {
    /// SQLite's own error; in a batch, of the statement with this index.
    Sqlite { error: sqlite::Error, statement: Option<usize> },
    /// The deadline passed before the turn came.
    TimedOut { waited: Duration, leader: Option<LeaderInfo>, here: Option<HeldHere>, ahead: u64 },
    /// The deadline passed while another SQLite program held the write lock.
    Busy { waited: Duration, holder: Option<i32> },
    /// The deadline passed while a reader held back more of the WAL than the application allows.
    WalFull { waited: Duration, bytes: u64, limit: u64, reader: Option<WalReader> },
    /// The queue could not be joined.
    Join(JoinError<Box<Error>>),
    /// The database's path now leads to another file, or nowhere.
    Replaced { path: PathBuf },
    /// An earlier sync failed.
    FailedSync { path: PathBuf },
    /// The program has closed descriptors of the database.
    Lost { path: PathBuf },
    /// The database or connection was made by the process's parent.
    Forked,
    /// The statement is not possible here; the text says what to do.
    Refused(String),
    /// More than one statement, where one was wanted.
    SeveralStatements,
    /// The queue file was damaged, or the evidence lost, while a leader was executing the request.
    OutcomeUnknown { path: PathBuf },
    /// A value could not be read as the type that was asked for.
    Type { text: String, source: Option<Box<dyn std::error::Error + Send + Sync>> },
    /// The statement has returned no row where one was wanted.
    NoRows,
    /// Interrupted by the application.
    Interrupted,
    /// Cancelled by another process, which a person has asked to do so.
    Cancelled,
    /// What an optimistic transaction saw was no longer so at its commit.
    Conflict(Conflict),
    /// What a transaction of mode Auto had read was no longer so before its first write: SQLite's `SQLITE_BUSY_SNAPSHOT`.
    StaleSnapshot(Arc<StaleRead>),
}

/// The first statement whose result has changed, with its place in the log; `None` where the log is not complete.
#[derive(Debug, Default)]
pub(crate) struct StaleRead(pub(crate) Option<(usize, Conflict)>);

/// What an optimistic transaction saw, and what is so now.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
/// use manyhands::params;
/// # let setup = "CREATE TABLE account (id INTEGER PRIMARY KEY, cents); INSERT INTO account VALUES (1, 1000)";
/// # database.connect()?.execute_script(setup)?;
/// let (mut one, mut other) = (database.connect()?, database.connect()?);
/// let mut transaction = one.transaction()?;
/// transaction.query("SELECT cents FROM account WHERE id = ?1", params![1])?;
/// other.execute("UPDATE account SET cents = 960", params![])?;
/// transaction.execute("UPDATE account SET cents = 2000", params![])?;
/// let error = transaction.commit().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "conflict: statement 1 of the transaction, `SELECT cents FROM account WHERE id = ?1` with (1) \
///      (on account), showed (1000); others have committed since, and now it shows (960). Nothing was \
///      written: run the transaction again, or give it to `run`, which does so"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conflict {
    /// The statement whose result has changed.
    pub statement: String,
    /// Its number in the transaction; the first is 1.
    pub number: usize,
    /// What it showed: the first row that differs, a number of changed rows, an error.
    pub seen: String,
    /// What it shows now.
    pub now: String,
    /// The tables that it reads or writes.
    pub tables: Vec<String>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conflict { statement, number, seen, now, tables } = self;
        write!(f, "conflict: statement {number} of the transaction, {statement}")?;
        if !tables.is_empty() {
            write!(f, " (on {})", tables.join(", "))?;
        }
        write!(
            f,
            ", showed {seen}; others have committed since, and now it shows {now}. Nothing was written: \
             run the transaction again, or give it to `run`, which does so"
        )
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Error {
        Error { kind: Box::new(kind) }
    }

    pub(crate) fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    pub(crate) fn refused(text: impl Into<String>) -> Error {
        Error::new(ErrorKind::Refused(text.into()))
    }

    /// The same, of a statement that its caller knows by another way than the place in a batch.
    pub fn without_index(self) -> Error {
        match *self.kind {
            ErrorKind::Sqlite { error, .. } => {
                Error::new(ErrorKind::Sqlite { error, statement: None })
            }
            kind => Error::new(kind),
        }
    }

    pub(crate) fn in_statement(self, index: usize) -> Error {
        match *self.kind {
            ErrorKind::Sqlite { error, statement: None } => {
                Error::new(ErrorKind::Sqlite { error, statement: Some(index) })
            }
            kind => Error::new(kind),
        }
    }

    /// True when there is no queue file, and the process has no right to make one.
    pub(crate) fn may_make_no_queue(&self) -> bool {
        matches!(&*self.kind, ErrorKind::Join(error) if error.may_make_no_file())
    }

    /// True when the process may have run out of descriptors.
    pub(crate) fn may_lack_descriptors(&self) -> bool {
        matches!(&*self.kind, ErrorKind::Join(JoinError::System { .. }))
            || self.code().is_some_and(sqlite::Code::is_cannot_open)
    }

    /// True when programs of another version of Manyhands or of SQLite have the database open.
    pub(crate) fn is_of_other_version(&self) -> bool {
        matches!(&*self.kind, ErrorKind::Join(JoinError::OtherVersion { .. }))
    }

    /// True when the deadline passed while waiting for a turn or a lock.
    pub fn is_timeout(&self) -> bool {
        matches!(
            *self.kind,
            ErrorKind::TimedOut { .. } | ErrorKind::Busy { .. } | ErrorKind::WalFull { .. }
        ) || matches!(&*self.kind, ErrorKind::Join(JoinError::TimedOut { .. }))
    }

    /// The reader for which a write waited in vain, after an error because of
    /// [`crate::Builder::wal_bytes_limit`].
    pub fn wal_reader(&self) -> Option<&WalReader> {
        match &*self.kind {
            ErrorKind::WalFull { reader, .. } => reader.as_ref(),
            _ => None,
        }
    }

    /// After a timeout: the thread of this process that held the turn, as the system numbers it (`gettid`); `None` when it was
    /// another process.
    pub fn holder_thread(&self) -> Option<i32> {
        match &*self.kind {
            ErrorKind::TimedOut { here, .. } => here.as_ref().map(|it| it.thread),
            _ => None,
        }
    }

    /// True when a constraint was violated.
    pub fn is_constraint(&self) -> bool {
        self.code().is_some_and(sqlite::Code::is_constraint)
    }

    /// True when an optimistic transaction could not be committed, because something that it saw is no
    /// longer so. It has been rolled back: run it again.
    pub fn is_conflict(&self) -> bool {
        matches!(*self.kind, ErrorKind::Conflict(_))
    }

    /// True when a transaction of [`crate::TransactionMode::Auto`] cannot write, since others have changed what it has
    /// read. It is still open: roll it back, and run it again. SQLite gives `SQLITE_BUSY_SNAPSHOT` there
    /// (<https://sqlite.org/rescode.html#busy_snapshot>), and more often.
    pub fn is_stale_snapshot(&self) -> bool {
        matches!(*self.kind, ErrorKind::StaleSnapshot(_))
    }

    /// What the conflict is about: what was seen, and is no longer so.
    pub fn conflict(&self) -> Option<&Conflict> {
        match &*self.kind {
            ErrorKind::Conflict(conflict) => Some(conflict),
            ErrorKind::StaleSnapshot(read) => read.0.as_ref().map(|(_, conflict)| conflict),
            _ => None,
        }
    }

    /// True when the application interrupted the operation.
    pub fn is_interrupt(&self) -> bool {
        matches!(*self.kind, ErrorKind::Interrupted | ErrorKind::Cancelled)
            || self.code().is_some_and(sqlite::Code::is_interrupt)
    }

    /// True when it cannot be told whether the write was committed: its sync failed; the queue file was
    /// damaged at that moment; or the leader died within microseconds of its commit and another SQLite
    /// program restarted the WAL before anybody of ours looked. Look into the database.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(*self.kind, ErrorKind::OutcomeUnknown { .. })
            || self.code().is_some_and(sqlite::Code::is_failed_sync)
    }

    /// True when the database or connection was made before `fork()`, by the process's parent.
    pub fn is_forked(&self) -> bool {
        matches!(*self.kind, ErrorKind::Forked)
    }

    /// True when the statement is not possible here; the text says what to do.
    pub fn is_refused(&self) -> bool {
        matches!(*self.kind, ErrorKind::Refused(_))
    }

    /// True when more than one statement was given where one was wanted. None was executed.
    pub fn is_several_statements(&self) -> bool {
        matches!(*self.kind, ErrorKind::SeveralStatements)
    }

    /// True when a statement has returned no row where one was wanted, see
    /// [`OptionalExtension::optional`].
    pub fn is_no_rows(&self) -> bool {
        matches!(*self.kind, ErrorKind::NoRows)
    }

    /// SQLite's extended result code, when the error is SQLite's.
    pub fn code(&self) -> Option<sqlite::Code> {
        match &*self.kind {
            ErrorKind::Sqlite { error, .. } => Some(error.code),
            _ => None,
        }
    }

    /// The code that SQLite alone would have given in its place: `SQLITE_BUSY` after a timeout and for a
    /// conflict, `SQLITE_INTERRUPT` after an interrupt, `SQLITE_CANTOPEN` where the queue file cannot be used, or `SQLITE_FULL`
    /// where it has no room; [`Error::code`] when the error is SQLite's.
    pub fn nearest_code(&self) -> Option<sqlite::Code> {
        match &*self.kind {
            ErrorKind::Conflict(_) | ErrorKind::StaleSnapshot(_) => {
                Some(sqlite::Code::BUSY_SNAPSHOT)
            }
            _ if self.is_timeout() => Some(sqlite::Code::BUSY),
            _ if self.is_interrupt() => Some(sqlite::Code::INTERRUPT),
            ErrorKind::Join(JoinError::System { source, .. })
                if source.kind() == ErrorOfSystem::StorageFull =>
            {
                Some(sqlite::Code::FULL)
            }
            ErrorKind::Join(_) => Some(sqlite::Code::CANTOPEN),
            ErrorKind::Replaced { .. } => Some(sqlite::Code::READONLY_DBMOVED),
            ErrorKind::FailedSync { .. } => Some(sqlite::Code::IOERR_FSYNC),
            ErrorKind::Lost { .. } => Some(sqlite::Code::IOERR_LOCK),
            _ => self.code(),
        }
    }

    /// SQLite's message, when the error is SQLite's.
    pub fn sqlite_message(&self) -> Option<&str> {
        match &*self.kind {
            ErrorKind::Sqlite { error, .. } => Some(&error.message),
            _ => None,
        }
    }

    /// In a batch, the index of the statement that failed.
    pub fn statement_index(&self) -> Option<usize> {
        match *self.kind {
            ErrorKind::Sqlite { statement, .. } => statement,
            _ => None,
        }
    }
}

impl From<sqlite::Error> for Error {
    fn from(error: sqlite::Error) -> Error {
        Error::new(ErrorKind::Sqlite { error, statement: None })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.kind {
            ErrorKind::Sqlite { error, statement: None } => write!(f, "{error}"),
            ErrorKind::Sqlite { error, statement: Some(index) } => {
                write!(f, "statement {index} of the batch: {error}")
            }
            ErrorKind::TimedOut { waited, leader, here, ahead } => {
                let waited = waited.as_secs_f64();
                write!(
                    f,
                    "database is locked: timed out after {waited:.1} s waiting for the turn to write"
                )?;
                match leader {
                    Some(leader) => {
                        match here {
                            Some(here) => write!(f, ": {here}")?,
                            None => write!(f, ": process {}", leader.pid)?,
                        }
                        if !leader.label.is_empty() {
                            write!(f, " ({})", leader.label)?;
                        }
                        write!(f, " has been writing for {:.1} s", leader.age.as_secs_f64())?;
                        if let Some(statement) = here.as_ref().and_then(|it| it.statement.as_ref())
                        {
                            write!(f, ", and executed `{statement}` last")?;
                        }
                    }
                    None => write!(f, ": nobody is writing")?,
                }
                write!(f, ", {ahead} requests were before this one; nothing was written")
            }
            ErrorKind::Busy { waited, holder } => {
                let waited = waited.as_secs_f64();
                write!(
                    f,
                    "database is locked: timed out after {waited:.1} s waiting for the write lock: "
                )?;
                match holder {
                    Some(pid) => write!(f, "process {pid}, another SQLite program, holds it"),
                    None => write!(f, "another SQLite program holds it"),
                }?;
                write!(f, "; nothing was written")
            }
            ErrorKind::WalFull { waited, bytes, limit, reader } => {
                let waited = waited.as_secs_f64();
                write!(
                    f,
                    "database is locked: timed out after {waited:.1} s waiting for a reader: {bytes} bytes of the \
                     WAL cannot be reused, and the limit is {limit}; "
                )?;
                match reader {
                    Some(reader) => write!(f, "{reader}: end its transaction or cursor")?,
                    None => write!(f, "the reader has just ended: try again")?,
                }
                write!(f, "; nothing was written")
            }
            ErrorKind::Join(error) => write!(f, "{error}"),
            ErrorKind::Replaced { path } => write!(
                f,
                "{} was replaced, renamed or deleted since it was opened; open it again",
                path.display()
            ),
            ErrorKind::FailedSync { path } => write!(
                f,
                "an earlier sync of {} failed, so this handle writes no more; close and open it again",
                path.display()
            ),
            ErrorKind::Lost { path } => write!(
                f,
                "the program has closed descriptors of {} that it did not open (closefrom, closerange): this \
                 connection has ended; open the database again",
                path.display()
            ),
            ErrorKind::Forked => write!(
                f,
                "this was opened before fork(); a child process must open the database itself"
            ),
            ErrorKind::SeveralStatements => {
                write!(f, "more than one statement was given; use execute_script, or batch")
            }
            ErrorKind::Refused(text) | ErrorKind::Type { text, .. } => write!(f, "{text}"),
            ErrorKind::NoRows => write!(f, "the statement has returned no row"),
            ErrorKind::OutcomeUnknown { path } => write!(
                f,
                "whether the write was committed to {} cannot be told: its leader died and another program \
                 restarted the WAL at once, or the queue file was damaged; look into the database",
                path.display()
            ),
            ErrorKind::Interrupted => write!(f, "interrupted; nothing was written"),
            ErrorKind::Cancelled => write!(
                f,
                "interrupted: somebody has cancelled this process's work on the database (`manyhands cancel`); this statement \
                 has written nothing"
            ),
            ErrorKind::Conflict(conflict) => write!(f, "{conflict}"),
            // SQLite's own text, which programs compare.
            ErrorKind::StaleSnapshot(_) => write!(f, "database is locked"),
        }
    }
}

impl std::error::Error for Error {
    /// The cause, whose message is a part of this one: SQLite's error, that of the system, or that of
    /// [`FromValue`](crate::FromValue).
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.kind {
            ErrorKind::Sqlite { error, .. } => Some(error),
            ErrorKind::Join(error) => Some(error),
            ErrorKind::Type { source: Some(source), .. } => Some(&**source),
            _ => None,
        }
    }
}

/// No row is no error: for the result of [`Connection::query_row`](crate::Connection::query_row).
pub trait OptionalExtension<T> {
    /// `None` after an [`Error::is_no_rows`].
    ///
    /// # Errors
    /// Any other one.
    fn optional(self) -> Result<Option<T>, Error>;
}

impl<T> OptionalExtension<T> for Result<T, Error> {
    fn optional(self) -> Result<Option<T>, Error> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_no_rows() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What a wait that was in vain tells of it.
#[derive(Debug)]
pub(crate) struct HeldHere {
    pub(crate) thread: i32,
    pub(crate) is_this_thread: bool,
    pub(crate) statement: Option<String>,
}

impl fmt::Display for HeldHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_this_thread {
            write!(f, "another connection of the very thread that waits, {},", self.thread)
        } else {
            write!(f, "thread {} of this process", self.thread)
        }
    }
}
