//! The commit queue of Manyhands: writers of many threads and processes wait here for one SQLite
//! file, first come, first served.
//!
//! This crate knows shared memory, tickets and processes. It knows no SQLite: a request and an
//! answer are bytes to it.
//!
//! Words:
//! * **member**: a process that joined the queue. The kernel witnesses its life by a record lock.
//! * **slot**: the place in shared memory of one waiting request, and of its answer.
//! * **block**: a larger place, for a request that is too long for a slot.
//! * **ticket**: the place of a request in the order of arrival.
//! * **leader**: the one member that may write to the database now. It executes waiting requests
//!   in ticket order, and answers them.
//! * **turn**: a ticket whose owner wants to be the leader itself, instead of being served.
//! * **onlooker**: a process that looks at the queue for a person, and is no member.
//!
//! In reading order: [`Queue::join`] maps the file, [`Queue::claim`] takes a slot, [`Claim::publish`]
//! draws the ticket, [`Published::wait`] waits, [`Queue::try_lead`] makes the leader, and
//! [`Lead`] is what only a leader can do.

mod layout;
mod join;
#[cfg(not(any(loom, shuttle)))]
mod region;
/// Model checkers replace the file by memory of one process.
#[cfg(any(loom, shuttle))]
#[path = "region_in_memory.rs"]
mod region;
mod room;
#[cfg(not(any(loom, shuttle)))]
mod member;
mod slot;
mod block;
mod ticket;
mod queue;
mod published;
mod free_slots;
mod leader;
mod barging;
mod fate;
mod recent;
mod ids;
mod checkpoint_starvation;
// What people look at.
#[cfg(not(any(loom, shuttle)))]
mod told;
#[cfg(not(any(loom, shuttle)))]
mod figures;
#[cfg(not(any(loom, shuttle)))]
mod counts;
#[cfg(not(any(loom, shuttle)))]
mod cancels;
#[cfg(not(any(loom, shuttle)))]
mod onlooker;
#[cfg(not(any(loom, shuttle)))]
pub mod kernel_locks;
mod predictions;
mod wait;
mod spin;
#[cfg(not(any(loom, shuttle)))]
mod fork;
mod clock;
mod sync;
pub mod crash;
mod planted;
#[cfg(all(test, any(loom, shuttle)))]
mod model;

pub use barging::{QUANTUM_NS, ROUND_NS, Reservation};
pub use block::{REQUEST_BYTES_MAX, SLOT_REQUEST_BYTES_MAX};
pub use checkpoint_starvation::MemberInfo;
pub use clock::Deadline;
#[cfg(not(any(loom, shuttle)))]
pub use counts::{Count, Counts};
pub use fate::{CommitFrame, Fate, Unresolved};
#[cfg(not(any(loom, shuttle)))]
pub use figures::{Figures, Waits};
pub use join::{JoinError, JoinOptions};
pub use layout::{LABEL_BYTES, LAYOUT, MEMBERS, PAYLOAD_BYTES, SLOTS};
pub use leader::{Entry, Lead, LeaderInfo, Orphan};
#[cfg(not(any(loom, shuttle)))]
pub use onlooker::{Leader, LookError, Onlooker, Seen, Waiting};
pub use planted::planted;
pub use predictions::{Became, Prediction};
pub use published::{Published, Stage};
pub use queue::{Claim, Kind, Queue};
pub use recent::CommitNote;
pub use slot::{SlotState, SlotWord};
pub use ticket::Ticket;
#[cfg(not(any(loom, shuttle)))]
pub use told::Told;
pub use wait::Waited;
