//! The benchmark as its users run it: real processes, real files.

#[path = "bench/command.rs"]
mod command;

#[path = "bench/transactions.rs"]
mod transactions;

#[path = "bench/workloads.rs"]
mod workloads;

#[path = "bench/worker.rs"]
mod worker;
