//! The peers of the benchmark: what users would pick instead of Manyhands, as their documentation says to use it.
//!
//! | engine | isolation | who retries |
//! |---|---|---|
//! | `turso` | snapshot: MVCC, `BEGIN CONCURRENT` | the application |
//! | `postgres` | serializable | the application |
//! | `postgres-read-committed` | PostgreSQL's default, where a workload's invariant survives it | nobody |
//! | `postgres-pipelined` | the same; a transaction's statements are sent without waiting for each | nobody |
//!
//! All are durable when they acknowledge: `synchronous=FULL`, `fsync=on`.

pub mod turso;

pub mod postgres;

use std::process::ExitCode;

use manyhands_cli::bench::{
    engines::Engines,
    workload::{Demand, Workload},
};

/// Manyhands, stock SQLite and the peers.
pub fn engines() -> Engines {
    let [serializable, read_committed, pipelined] = postgres::engines();
    Engines::built_in().with(turso::Turso).with(serializable).with(read_committed).with(pipelined)
}

/// The workloads that the peers are made for; one that is new in the command is not among them until somebody has thought
/// about it.
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
fn is_for_peers(demand: Demand) -> Result<(), String> {
    match demand.workload {
        _ if demand.is_python => Err("only this program runs it".to_owned()),
        Workload::Limits => Err("limits measures the machine, not an engine".to_owned()),
        workload if WORKLOADS.contains(&workload) => Ok(()),
        workload => Err(format!("it has not been adapted to {}", workload.name())),
    }
}

/// The whole program, with these engines: the command, its workers, and the process that keeps PostgreSQL's server.
pub fn main(engines: &Engines) -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.as_slice() {
        [_, keeper, assignment] if keeper == postgres::KEEPER => postgres::keep(assignment),
        _ => manyhands_cli::run(engines),
    }
}
