//! The workloads: their names, and on which engines they run.

use clap::ValueEnum;

use super::engine::EngineName;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Many short-lived processes: open, insert one row, close, pause.
    Storm,
    /// One thread, one insert per transaction, 10 B to 10 MB.
    Sizes,
    /// 1 KB inserts by 1 to 256 threads of one process.
    Threads,
    /// 1 to 64 threads add one to four rows, each UPDATE alone or in a transaction.
    Counter,
    /// Transactions of 100 inserts that first compute or wait, by 1 to 16 threads.
    Think,
    /// Transactions that read two balances, compute or wait, and write both, by 8 threads.
    Transfer,
    /// Transactions like a web request's: 20 reads, an insert whose id is read back, a counter.
    Orm,
    /// 16 short writers, alone and beside a transaction of 30 s.
    Mixed,
    /// What the machine can do at best: syncs, one giant transaction, round trips.
    Limits,
}

impl Workload {
    /// The name as on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Storm => "storm",
            Self::Sizes => "sizes",
            Self::Threads => "threads",
            Self::Counter => "counter",
            Self::Think => "think",
            Self::Transfer => "transfer",
            Self::Orm => "orm",
            Self::Mixed => "mixed",
            Self::Limits => "limits",
        }
    }

    /// Are there transactions of several statements in it?
    pub fn has_transactions(self, in_transaction: bool) -> bool {
        match self {
            Self::Counter => in_transaction,
            Self::Think | Self::Transfer | Self::Orm | Self::Mixed => true,
            Self::Storm | Self::Sizes | Self::Threads | Self::Limits => false,
        }
    }

    /// The engines to compare, if the user names none.
    pub fn engines(self, in_transaction: bool) -> Vec<EngineName> {
        use EngineName::{Manyhands, ManyhandsImmediate, Stock, StockDeferred, StockMutex};
        match self {
            _ if self.has_transactions(in_transaction) => {
                vec![Manyhands, ManyhandsImmediate, Stock, StockDeferred]
            }
            Self::Threads | Self::Counter => vec![Manyhands, Stock, StockMutex],
            Self::Limits => vec![Stock],
            _ => vec![Manyhands, Stock],
        }
    }

    /// Can this engine run it? The error says why not.
    pub fn accepts(self, engine: EngineName, in_transaction: bool) -> Result<(), String> {
        let name = engine.name();
        match self {
            Self::Storm if engine.has_application_mutex() => {
                Err(format!("{name}: a mutex of the application cannot order processes"))
            }
            Self::Limits if engine != EngineName::Stock => {
                Err(format!("{name}: limits measures the machine, not an engine"))
            }
            _ if engine.is_about_transactions() && !self.has_transactions(in_transaction) => {
                Err(format!("{name}: {} has no transactions of several statements", self.name()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mutex in each of 200 processes would be a mutex in name only.
    #[test]
    fn no_application_mutex_in_the_storm() {
        assert!(Workload::Storm.accepts(EngineName::StockMutex, false).is_err());
        assert!(Workload::Storm.accepts(EngineName::StockNormal, false).is_ok());
        assert!(Workload::Threads.accepts(EngineName::StockMutex, false).is_ok());
        assert!(Workload::Limits.accepts(EngineName::Manyhands, false).is_err());
    }

    /// How a transaction begins makes a difference only where there is one.
    #[test]
    fn beginnings_where_there_are_transactions() {
        let deferred = EngineName::StockDeferredNormal;
        assert!(Workload::Counter.accepts(deferred, false).is_err());
        assert!(Workload::Counter.accepts(deferred, true).is_ok());
        assert!(Workload::Threads.accepts(deferred, true).is_err());
        assert!(Workload::Orm.accepts(deferred, false).is_ok());
    }

    /// Every workload can run what it compares by default.
    #[test]
    fn default_engines_are_accepted() {
        for &workload in Workload::value_variants() {
            for in_transaction in [false, true] {
                for engine in workload.engines(in_transaction) {
                    assert_eq!(workload.accepts(engine, in_transaction), Ok(()));
                }
            }
        }
    }
}
