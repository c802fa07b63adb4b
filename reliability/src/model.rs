//! A model of the protocol, small enough to visit every state of it: clients with slots, a leader that
//! dies at any step, a successor that settles what it left, another SQLite program in the same file,
//! checkpoints, restart and recovery of the WAL, and a power cut at any moment.
//!
//! Each step of it names the function that it stands for. What the model takes for granted is checked
//! elsewhere: the slots' compare-and-swaps, tickets, and wake-ups by loom and shuttle
//! (`crates/manyhands-queue/src/model.rs`), SQLite by its own tests and by the crash images. Left out:
//! blocks, a full ring, a damaged or deleted queue file, a member number that is used again, a silent
//! owner of a turn, failed system calls, more than one page.

mod protocol;
mod client;
mod leader;
mod sqlite;
mod state;
mod disk;
mod properties;
mod mutation;
pub mod instances;

#[cfg(test)]
mod tests;

pub use protocol::Protocol;
#[cfg(test)]
pub use {mutation::Mutation, protocol::Synchronous};
