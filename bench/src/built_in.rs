//! The engines of every build: Manyhands and stock SQLite. They share one kind of file, which stock SQLite checks.

use std::{path::Path, time::Duration};

use anyhow::Result;

use super::{
    engine::{Engine, Opened, Refusal, Tables},
    engine_manyhands, engine_stock,
    sqlite_file::SqliteFile,
    workload::{Demand, Workload},
};

/// Manyhands or stock SQLite at a durability, and how it begins a transaction of several statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// Manyhands, synchronous=FULL; transactions are optimistic.
    Manyhands,
    /// Manyhands, synchronous=NORMAL.
    ManyhandsNormal,
    /// Manyhands, FULL, with a limit for the WAL: writers wait for a reader beyond it.
    ManyhandsLimited,
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

impl BuiltIn {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Manyhands,
        Self::ManyhandsNormal,
        Self::ManyhandsLimited,
        Self::ManyhandsImmediate,
        Self::ManyhandsImmediateNormal,
        Self::Stock,
        Self::StockNormal,
        Self::StockDeferred,
        Self::StockDeferredNormal,
        Self::StockMutex,
        Self::StockMutexNormal,
    ];

    /// The name as on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Manyhands => "manyhands",
            Self::ManyhandsNormal => "manyhands-normal",
            Self::ManyhandsLimited => "manyhands-wal-limit",
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
                | Self::ManyhandsLimited
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
}

impl Engine for BuiltIn {
    fn name(&self) -> &'static str {
        BuiltIn::name(*self)
    }

    fn version(&self) -> Result<String, Refusal> {
        Ok(match self {
            Self::Manyhands
            | Self::ManyhandsNormal
            | Self::ManyhandsLimited
            | Self::ManyhandsImmediate
            | Self::ManyhandsImmediateNormal => {
                format!("Manyhands {}", env!("CARGO_PKG_VERSION"))
            }
            Self::Stock
            | Self::StockNormal
            | Self::StockDeferred
            | Self::StockDeferredNormal
            | Self::StockMutex
            | Self::StockMutexNormal => format!("SQLite {}", rusqlite::version()),
        })
    }

    fn is_default(&self, demand: Demand) -> bool {
        demand.engines().contains(self)
    }

    fn accepts(&self, demand: Demand) -> Result<(), String> {
        match demand.workload {
            Workload::Storm | Workload::Clients | Workload::Claim | Workload::Web
                if self.has_application_mutex() =>
            {
                Err("a mutex of the application cannot order processes".to_owned())
            }
            Workload::Limits if *self != Self::Stock => {
                Err("limits measures the machine, not an engine".to_owned())
            }
            workload if *self == Self::ManyhandsLimited && workload != Workload::EndlessReader => {
                Err("the limit for the WAL is about a reader that does not end".to_owned())
            }
            _ if self.is_about_transactions() && !demand.has_transactions() => {
                let workload = demand.workload;
                Err(format!("{} has no transactions of several statements", workload.name()))
            }
            _ => Ok(()),
        }
    }

    fn prepare(&self, directory: &Path, schema: &str) -> Result<Box<dyn Tables>> {
        Ok(Box::new(SqliteFile::create(&directory.join("bench.db"), schema)?))
    }

    fn open(
        &self,
        database: &Path,
        timeout: Duration,
        label: &str,
    ) -> Result<Box<dyn Opened>, Refusal> {
        match self {
            Self::Manyhands
            | Self::ManyhandsNormal
            | Self::ManyhandsLimited
            | Self::ManyhandsImmediate
            | Self::ManyhandsImmediateNormal => {
                engine_manyhands::open(*self, database, timeout, label)
            }
            Self::Stock
            | Self::StockNormal
            | Self::StockDeferred
            | Self::StockDeferredNormal
            | Self::StockMutex
            | Self::StockMutexNormal => Ok(engine_stock::open(*self, database, timeout)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(engine: BuiltIn, workload: Workload, in_transaction: bool) -> bool {
        engine.accepts(Demand { workload, in_transaction, is_python: false }).is_ok()
    }

    /// A mutex in each of 200 processes would be a mutex in name only.
    #[test]
    fn no_application_mutex_in_the_storm() {
        assert!(!accepts(BuiltIn::StockMutex, Workload::Storm, false));
        assert!(accepts(BuiltIn::StockNormal, Workload::Storm, false));
        assert!(accepts(BuiltIn::StockMutex, Workload::Threads, false));
        assert!(!accepts(BuiltIn::Manyhands, Workload::Limits, false));
    }

    /// How a transaction begins makes a difference only where there is one.
    #[test]
    fn beginnings_where_there_are_transactions() {
        let deferred = BuiltIn::StockDeferredNormal;
        assert!(!accepts(deferred, Workload::Counter, false));
        assert!(accepts(deferred, Workload::Counter, true));
        assert!(!accepts(deferred, Workload::Threads, true));
        assert!(accepts(deferred, Workload::Orm, false));
    }
}
