//! What a measurement needs of an engine: open a file, connect, write.
//!
//! All engines run the same SQL on the same file at the durability in their name. A worker process uses one engine only.

use std::{fmt, path::Path, time::Duration};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::{engine_manyhands, engine_stock};

/// An engine at a durability, and how it begins a transaction of several statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EngineName {
    /// Manyhands, synchronous=FULL; transactions are optimistic.
    Manyhands,
    /// Manyhands, synchronous=NORMAL.
    ManyhandsNormal,
    /// Manyhands, FULL; transactions hold the turn.
    ManyhandsImmediate,
    /// Manyhands, NORMAL; transactions hold the turn.
    ManyhandsImmediateNormal,
    /// Stock SQLite: WAL, synchronous=FULL, busy timeout; BEGIN IMMEDIATE.
    Stock,
    /// Stock SQLite, synchronous=NORMAL.
    StockNormal,
    /// Stock SQLite, FULL; BEGIN, and the application runs a transaction again that SQLite refused.
    StockDeferred,
    /// Stock SQLite, NORMAL; BEGIN, and again.
    StockDeferredNormal,
    /// Stock SQLite, FULL, one application mutex around each write.
    StockMutex,
    /// Stock SQLite, NORMAL, one application mutex around each write.
    StockMutexNormal,
}

impl EngineName {
    /// The name as on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Manyhands => "manyhands",
            Self::ManyhandsNormal => "manyhands-normal",
            Self::ManyhandsImmediate => "manyhands-immediate",
            Self::ManyhandsImmediateNormal => "manyhands-immediate-normal",
            Self::Stock => "stock",
            Self::StockNormal => "stock-normal",
            Self::StockDeferred => "stock-deferred",
            Self::StockDeferredNormal => "stock-deferred-normal",
            Self::StockMutex => "stock-mutex",
            Self::StockMutexNormal => "stock-mutex-normal",
        }
    }

    /// Does a mutex of the application order the writers? It cannot order processes.
    pub fn has_application_mutex(self) -> bool {
        matches!(self, Self::StockMutex | Self::StockMutexNormal)
    }

    /// Does a transaction hold the only right to write, from its beginning?
    pub fn is_immediate(self) -> bool {
        !matches!(
            self,
            Self::Manyhands
                | Self::ManyhandsNormal
                | Self::StockDeferred
                | Self::StockDeferredNormal
        )
    }

    /// Is it another one only in transactions of several statements?
    pub fn is_about_transactions(self) -> bool {
        matches!(
            self,
            Self::ManyhandsImmediate
                | Self::ManyhandsImmediateNormal
                | Self::StockDeferred
                | Self::StockDeferredNormal
        )
    }

    /// Are commits durable only at the next checkpoint?
    pub fn is_normal(self) -> bool {
        matches!(
            self,
            Self::ManyhandsNormal
                | Self::ManyhandsImmediateNormal
                | Self::StockNormal
                | Self::StockDeferredNormal
                | Self::StockMutexNormal
        )
    }

    /// Opens the file at `database`; writers wait for their turn at most `timeout`.
    pub fn open(
        self,
        database: &Path,
        timeout: Duration,
        label: &str,
    ) -> Result<Box<dyn Engine>, Refusal> {
        match self {
            Self::Manyhands
            | Self::ManyhandsNormal
            | Self::ManyhandsImmediate
            | Self::ManyhandsImmediateNormal => {
                engine_manyhands::open(self, database, timeout, label)
            }
            Self::Stock
            | Self::StockNormal
            | Self::StockDeferred
            | Self::StockDeferredNormal
            | Self::StockMutex
            | Self::StockMutexNormal => Ok(engine_stock::open(self, database, timeout)),
        }
    }
}

/// An open file, shared by the threads of a worker.
pub trait Engine: Send + Sync {
    /// One more connection, for one thread.
    fn connect(&self) -> Result<Box<dyn Client>, Refusal>;
}

/// A connection.
pub trait Client: Send {
    /// Runs one writing statement in a transaction of its own; when it returns, the engine has acknowledged it.
    fn write(&mut self, sql: &str, parameter: Parameter<'_>) -> Result<(), Refusal>;

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

/// A write that was not acknowledged, by kind: the kinds are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}
