//! What a measurement needs of an engine: open a file, connect, write.
//!
//! All engines run the same SQL on the same file at the durability in their name. A worker process uses one engine only.

use std::{fmt, path::Path, time::Duration};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::{engine_manyhands, engine_stock};

/// An engine at a durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EngineName {
    /// Manyhands, synchronous=FULL.
    Manyhands,
    /// Manyhands, synchronous=NORMAL.
    ManyhandsNormal,
    /// Stock SQLite: WAL, synchronous=FULL, busy timeout.
    Stock,
    /// Stock SQLite, synchronous=NORMAL.
    StockNormal,
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
            Self::Stock => "stock",
            Self::StockNormal => "stock-normal",
            Self::StockMutex => "stock-mutex",
            Self::StockMutexNormal => "stock-mutex-normal",
        }
    }

    /// Does a mutex of the application order the writers? It cannot order processes.
    pub fn has_application_mutex(self) -> bool {
        matches!(self, Self::StockMutex | Self::StockMutexNormal)
    }

    /// Are commits durable only at the next checkpoint?
    pub fn is_normal(self) -> bool {
        matches!(self, Self::ManyhandsNormal | Self::StockNormal | Self::StockMutexNormal)
    }

    /// Opens the file at `database`; writers wait for their turn at most `timeout`.
    pub fn open(
        self,
        database: &Path,
        timeout: Duration,
        label: &str,
    ) -> Result<Box<dyn Engine>, Refusal> {
        match self {
            Self::Manyhands | Self::ManyhandsNormal => {
                engine_manyhands::open(self, database, timeout, label)
            }
            Self::Stock | Self::StockNormal | Self::StockMutex | Self::StockMutexNormal => {
                Ok(engine_stock::open(self, database, timeout))
            }
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
