//! The command as its users run it: real processes, real files.

#[path = "command/bench.rs"]
mod bench;

#[path = "command/bench_transactions.rs"]
mod bench_transactions;

#[path = "command/bench_workloads.rs"]
mod bench_workloads;

#[path = "command/worker.rs"]
mod worker;
