//! The workloads: their names, and on which engines they run.

use clap::ValueEnum;

use super::built_in::BuiltIn;

/// What an engine is asked to run.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// The workload.
    pub workload: Workload,
    /// `counter --in-transaction`.
    pub in_transaction: bool,
    /// Are the worker processes Python's, or those of the server?
    pub is_python: bool,
}

impl Demand {
    /// Are there transactions of several statements in it?
    pub fn has_transactions(self) -> bool {
        match self.workload {
            Workload::Counter => self.in_transaction,
            Workload::Think
            | Workload::Transfer
            | Workload::Orm
            | Workload::Mixed
            | Workload::Web => true,
            Workload::Storm
            | Workload::Sizes
            | Workload::Threads
            | Workload::Clients
            | Workload::Claim
            | Workload::EndlessReader
            | Workload::Limits => false,
        }
    }

    /// The engines of every build to compare, if the user names none.
    pub fn engines(self) -> Vec<BuiltIn> {
        use BuiltIn::{
            Manyhands, ManyhandsImmediate, ManyhandsLimited, Stock, StockDeferred, StockMutex,
            StockNormal,
        };
        match self.workload {
            Workload::Web => vec![Manyhands, Stock, StockDeferred],
            _ if self.has_transactions() => {
                vec![Manyhands, ManyhandsImmediate, Stock, StockDeferred]
            }
            Workload::Threads | Workload::Counter => vec![Manyhands, Stock, StockMutex],
            Workload::Clients => vec![Manyhands, Stock, StockNormal],
            Workload::EndlessReader => vec![Manyhands, ManyhandsLimited, Stock],
            Workload::Limits => vec![Stock],
            _ => vec![Manyhands, Stock],
        }
    }
}

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
    /// Thousands of async tasks in 1 to 8 processes, each of which inserts a row as soon as it was answered.
    Clients,
    /// A web server of 4 processes, in Python, that creates and shows posts, and 1 to 16 requests at once.
    Web,
    /// A queue of jobs, from which threads and processes claim one after the other.
    Claim,
    /// Writers beside a reader whose transaction stays open, and the WAL meanwhile and after it.
    EndlessReader,
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
            Self::Clients => "clients",
            Self::Web => "web",
            Self::Claim => "claim",
            Self::EndlessReader => "endless-reader",
            Self::Think => "think",
            Self::Transfer => "transfer",
            Self::Orm => "orm",
            Self::Mixed => "mixed",
            Self::Limits => "limits",
        }
    }

    /// Can its operations be intended at a rate?
    pub fn has_open_loop(self) -> bool {
        matches!(self, Self::Threads | Self::Clients)
    }
}
