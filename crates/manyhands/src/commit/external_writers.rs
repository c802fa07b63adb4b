//! Leaders yield to external writers: stock SQLite programs poll for the write lock, while our writers stand in a queue that could
//! hold the lock for ever.
//!
//! The leaders of a process hold the lock for a quantum, batch after batch. Then they leave it free:
//!
//! * If another program has committed before this quantum, it is writing, and is about to ask again: SQLite's busy handler
//!   sleeps 1, 2, 5, 10 ms and so on, about as long as it has waited already. The lock stays free until that program comes, and then for
//!   as long as the quantum was, so that both sides get about half of the time.
//! * Otherwise nobody knows whether a program polls: the lock stays free for a part of the quantum.
//!
//! To get the lock back from a program that writes one commit after the other, a leader must meet the moment between two of
//! its commits: [`lock_ahead`].

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

use manyhands_queue::{Deadline, Queue};
use manyhands_sqlite::vfs::WRITE_LOCK_BYTE;
use manyhands_sqlite::{Connection, WalIndexHeader};

use crate::commit::file::DatabaseFile;
use crate::limits;

/// What a process knows of others that write the file.
#[derive(Debug, Default)]
pub(crate) struct ExternalWriters {
    /// How long its leaders have held the lock since it was free for others.
    held_ns: AtomicU64,
    /// How often the lock is left free once more for a program that was writing and has not come; 0 where none was.
    patience: AtomicU32,
}

/// Leaves the write lock free for a while, after it was held for `held` while another program has the database open. `taken` is the header of
/// the wal-index as the lock was taken; nobody else needs `connection` meanwhile.
pub(crate) fn yield_to_external_writers(
    file: &DatabaseFile,
    queue: &Queue,
    connection: &Connection,
    taken: Option<WalIndexHeader>,
    held: Duration,
) {
    let ExternalWriters { held_ns, patience } = &file.external_writers;
    let mut held_before_ns = held_ns.load(Ordering::Relaxed);
    if taken.is_some_and(|it| !queue.has_noted_commit(it.change, it.checksum)) {
        held_before_ns = 0;
        patience.store(limits::YIELD_PATIENCE, Ordering::Relaxed);
    }
    let quantum = Duration::from_nanos(held_before_ns) + held;
    if quantum < limits::YIELD_QUANTUM {
        held_ns.store(quantum.as_nanos() as u64, Ordering::Relaxed);
        return;
    }
    held_ns.store(0, Ordering::Relaxed);
    let left = patience.load(Ordering::Relaxed);
    if left > 0 {
        // The other program sleeps for longer each time that it comes in vain.
        let arrival_max =
            quantum.max(limits::YIELD_ARRIVAL) * (1 << (limits::YIELD_PATIENCE - left));
        let came = let_others_write(file, connection, quantum, arrival_max);
        let left = if came { limits::YIELD_PATIENCE } else { left - 1 };
        patience.store(left, Ordering::Relaxed);
    } else {
        let pause = quantum / limits::YIELD_DIVISOR;
        std::thread::sleep(pause.min(limits::YIELD_MAX));
    }
}

/// Takes the write lock for the transaction that the connection is about to begin, from a program that may commit again and
/// again. False when it is not to be had before the deadline.
pub(crate) fn lock_ahead(connection: &Connection, deadline: Deadline) -> bool {
    let began = Instant::now();
    let mut tries = 0;
    while !connection.lock_ahead() {
        if deadline.has_passed() {
            return false;
        }
        tries += 1;
        if began.elapsed() >= limits::BUSY_TRIES_FOR {
            std::thread::sleep(limits::BUSY_SLEEP);
        } else if tries % limits::BUSY_TRIES == 0 {
            std::thread::sleep(limits::YIELD_STEP);
        }
    }
    true
}

/// Leaves the lock free for a program that is writing. False when it did not come within `arrival_max`.
fn let_others_write(
    file: &DatabaseFile,
    connection: &Connection,
    quantum: Duration,
    arrival_max: Duration,
) -> bool {
    let began = Instant::now();
    let arrival_max = arrival_max.min(limits::YIELD_MAX);
    let share = quantum.mul_f32(limits::YIELD_SHARE).min(limits::YIELD_MAX);
    let now = || connection.wal_index().map(|header| header.checksum);
    let mut seen = (now(), began);
    let mut came = None;
    loop {
        std::thread::sleep(limits::YIELD_STEP);
        let header = now();
        if header != seen.0 {
            seen = (header, Instant::now());
            came.get_or_insert(seen.1);
        }
        match came {
            None if began.elapsed() >= arrival_max => {
                if file.lock_holder(WRITE_LOCK_BYTE).is_none() {
                    return false;
                }
                // Its commit takes longer.
                came = Some(Instant::now());
            }
            Some(came) if came.elapsed() >= share => return true,
            // The other program has no more to write.
            Some(_)
                if seen.1.elapsed() >= limits::YIELD_QUIET
                    && file.lock_holder(WRITE_LOCK_BYTE).is_none() =>
            {
                return true;
            }
            _ => {}
        }
    }
}
