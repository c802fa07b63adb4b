//! What the harness needs of an engine: its name and version, tables to measure on and to check afterwards, clients
//! that write.
//!
//! All engines run the same SQL on tables of the same contents, at the durability in their name. The command's process
//! prepares and checks the tables; a worker process opens one engine only.
//!
//! A program adds engines of its own to [`super::engines::Engines`]: the harness knows them by this trait alone.

use std::{
    fmt,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    time::Duration,
};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::workload::Demand;

/// An engine: what the command line names.
pub trait Engine: Send + Sync {
    /// The name as on the command line and in JSON.
    fn name(&self) -> &'static str;

    /// Program and version, as the report shows them; an error says why the engine cannot be had here.
    fn version(&self) -> Result<String, Refusal>;

    /// Can it have its files below this directory? The error says why not.
    fn can_be_in(&self, _directory: &Path) -> Result<(), Refusal> {
        Ok(())
    }

    /// Does it take part if the user names no engine?
    fn is_default(&self, demand: Demand) -> bool;

    /// Can it run this? The error says why not.
    fn accepts(&self, demand: Demand) -> Result<(), String>;

    /// Creates the tables of one measurement, with what is its own in `directory`, which is empty. `schema` is plain
    /// SQL of SQLite.
    fn prepare(&self, directory: &Path, schema: &str) -> Result<Box<dyn Tables>>;

    /// Opens what [`Tables::database`] names, in a worker; writers wait for their turn at most `timeout`.
    fn open(
        &self,
        database: &Path,
        timeout: Duration,
        label: &str,
    ) -> Result<Box<dyn Opened>, Refusal>;
}

/// The tables of one measurement, as the command sees them. What is in no file of the measurement's directory goes when
/// this is dropped.
pub trait Tables: Send + Sync {
    /// Where the workers find them.
    fn database(&self) -> &Path;

    /// Asks for one number, after the workers have ended.
    fn number(&self, sql: &str) -> Result<i64>;

    /// Asks the engine whether its files are sound; an error says what is wrong.
    fn check_integrity(&self) -> Result<()>;

    /// What a server beside the workers has used so far; `None` if the workers do all themselves. Asked before the
    /// workers start, and when they are gone.
    fn server_usage(&self, _are_workers_gone: bool) -> Option<ServerUsage> {
        None
    }

    /// The file whose length over time is the WAL's; by default SQLite's.
    fn wal(&self) -> PathBuf {
        let mut path = self.database().as_os_str().to_owned();
        path.push("-wal");
        path.into()
    }

    /// The memory of all processes of that server together now, pages that they share counted once. Not cheap.
    fn server_memory_bytes(&self) -> Option<u64> {
        None
    }
}

/// What a server used; it only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerUsage {
    /// CPU seconds, user and system, of all its processes.
    pub cpu_s: f64,
    /// Calls of fsync and fdatasync; `None` where nobody counts them.
    pub syncs: Option<u64>,
}

/// An open database, shared by the threads of a worker.
pub trait Opened: Send + Sync {
    /// One more connection, for one thread.
    fn connect(&self) -> Result<Box<dyn Client>, Refusal>;

    /// Who keeps the WAL from being reused, in words; `None`: nobody, or the engine cannot tell.
    fn reader(&self) -> Option<String> {
        None
    }

    /// What it offers to async tasks; `None`: nothing, and the harness serves them by a pool of connections.
    fn tasks(&self) -> Result<Option<Box<dyn TaskDatabase>>, Refusal> {
        Ok(None)
    }
}

/// What the async tasks of a process share.
pub trait TaskDatabase: Send + Sync {
    /// Runs one writing statement in a transaction of its own; when it answers, the engine has acknowledged it.
    fn write(&self, sql: &'static str, value: &'static [u8]) -> Answer<'_>;
}

/// Comes when the engine has answered.
pub type Answer<'database> = Pin<Box<dyn Future<Output = Result<(), Refusal>> + 'database>>;

/// A connection.
pub trait Client: Send {
    /// Runs one writing statement in a transaction of its own, again if the engine's documentation tells its users to;
    /// what that took is added to `effort`. When it returns, the engine has acknowledged it.
    fn write(
        &mut self,
        sql: &str,
        parameter: Parameter<'_>,
        effort: &mut Effort,
    ) -> Result<(), Refusal>;

    /// Runs one writing statement, in a transaction of its own, that returns a number or no row. An engine that does not
    /// have it accepts no `claim`.
    fn take(
        &mut self,
        _sql: &str,
        _parameter: Parameter<'_>,
        _effort: &mut Effort,
    ) -> Result<Option<i64>, Refusal> {
        Err(Refusal("this engine returns no rows of a writing statement".to_owned()))
    }

    /// Runs `work` in a transaction that only reads, all on one snapshot. An engine that does not have it accepts no
    /// `endless-reader`.
    fn read(&mut self, _work: &mut Work<'_>) -> Result<(), Refusal> {
        Err(Refusal("this engine has no transactions that only read".to_owned()))
    }

    /// Runs `work` in a transaction and commits it, again if the engine works like this; what that took is added to
    /// `effort`. When it returns, the engine has acknowledged it.
    fn transact(&mut self, work: &mut Work<'_>, effort: &mut Effort) -> Result<(), Refusal>;
}

/// The statements of a transaction.
pub type Work<'work> = dyn FnMut(&mut dyn Statements) -> Result<(), Refusal> + 'work;

/// A transaction, as its work sees it.
pub trait Statements {
    /// Runs a statement whose result nobody looks at.
    fn execute(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<(), Refusal>;

    /// Runs an insert and asks for the rowid.
    fn insert(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<i64, Refusal>;

    /// Runs a statement that returns one number.
    fn number(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<i64, Refusal>;
}

/// What transactions took beyond running each of them once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effort {
    /// How often a transaction was run again.
    pub retries: u64,
    /// How often one was refused because others had committed meanwhile.
    pub conflicts: u64,
}

impl Effort {
    /// Adds that of another.
    pub fn add(&mut self, other: Self) {
        self.retries += other.retries;
        self.conflicts += other.conflicts;
    }
}

/// What a statement is given.
#[derive(Clone, Copy, Debug)]
pub enum Parameter<'value> {
    /// Nothing.
    None,
    /// A number.
    Integer(i64),
    /// Bytes.
    Blob(&'value [u8]),
}

impl<'value> Parameter<'value> {
    /// What a statement with at most this one parameter is given: nothing is no parameter, and not NULL.
    pub fn as_slice(&self) -> &[Parameter<'value>] {
        match self {
            Self::None => &[],
            Self::Integer(_) | Self::Blob(_) => std::slice::from_ref(self),
        }
    }
}

/// A write that was not acknowledged, by kind: the kinds are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}
