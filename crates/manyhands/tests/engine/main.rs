//! What an application relies on, tried from outside: real files, real threads, real processes.
//!
//! The list below is the contents page. `stage` is what the tests stand on: a directory that goes
//! away, deadlines, and other processes.

mod application;
mod containers;
mod disposable;
mod familiar;
mod hostile;
mod ended_transactions;
mod endless_reader;
mod isolation;
mod leftovers;
mod like_sqlite;
mod names;
mod nothing_to_do;
mod lazy;
mod neighbours;
mod opening;
mod permissions;
mod pragmas;
mod random_programs;
mod stage;
mod surroundings;
#[cfg(feature = "tokio")]
mod tasks;
mod transactions;
mod waiting;
mod holders;
