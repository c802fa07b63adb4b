//! The command as its users run it: real processes, real files.

#[path = "command/bench.rs"]
mod bench;

#[path = "command/worker.rs"]
mod worker;
