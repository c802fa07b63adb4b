//! The peers of the benchmark: what users would pick instead of Manyhands, as their documentation says to use it. They take
//! longer to build than all else, and are there with the feature `peers` only.
//!
//! | engine | isolation | who retries |
//! |---|---|---|
//! | `turso` | snapshot: MVCC, `BEGIN CONCURRENT` | the application |
//! | `postgres` | serializable | the application |
//! | `postgres-read-committed` | PostgreSQL's default, where a workload's invariant survives it | nobody |
//! | `postgres-pipelined` | the same; a transaction's statements are sent without waiting for each | nobody |
//!
//! All are durable when they acknowledge: `synchronous=FULL`, `fsync=on`.

#[cfg(feature = "peers")]
pub mod turso;

#[cfg(feature = "peers")]
pub mod postgres;

#[cfg(not(feature = "peers"))]
mod absent;

use std::process::ExitCode;

use crate::engines::Engines;
#[cfg(feature = "peers")]
use crate::workload::{Demand, Workload};

/// These engines, and the peers.
#[cfg(feature = "peers")]
pub fn join(engines: Engines) -> Engines {
    let [serializable, read_committed, pipelined] = postgres::engines();
    engines.with(turso::Turso).with(serializable).with(read_committed).with(pipelined)
}

/// These engines, and the names of the peers.
#[cfg(not(feature = "peers"))]
pub fn join(engines: Engines) -> Engines {
    absent::NAMES.into_iter().fold(engines, |engines, name| engines.with(absent::Absent(name)))
}

/// The process that keeps PostgreSQL's server, if that is what this program was started for.
#[cfg(feature = "peers")]
pub(crate) fn keep(arguments: &[String]) -> Option<ExitCode> {
    match arguments {
        [_, keeper, assignment] if keeper == postgres::KEEPER => Some(postgres::keep(assignment)),
        _ => None,
    }
}

/// There is no server to keep.
#[cfg(not(feature = "peers"))]
pub(crate) fn keep(_arguments: &[String]) -> Option<ExitCode> {
    None
}

/// The workloads that the peers are made for; one that is new is not among them until somebody has thought about it.
#[cfg(feature = "peers")]
const WORKLOADS: [Workload; 11] = [
    Workload::Storm,
    Workload::Sizes,
    Workload::Threads,
    Workload::Counter,
    Workload::Clients,
    Workload::Claim,
    Workload::EndlessReader,
    Workload::Think,
    Workload::Transfer,
    Workload::Orm,
    Workload::Mixed,
];

/// Can a peer run it? The error says why not.
#[cfg(feature = "peers")]
fn is_for_peers(demand: Demand) -> Result<(), String> {
    match demand.workload {
        _ if demand.is_python => Err("only Manyhands and stock SQLite run it".to_owned()),
        Workload::Limits => Err("limits measures the machine, not an engine".to_owned()),
        workload if WORKLOADS.contains(&workload) => Ok(()),
        workload => Err(format!("it has not been adapted to {}", workload.name())),
    }
}
