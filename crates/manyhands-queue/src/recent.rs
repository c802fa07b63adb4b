//! The recent commits: which tables each of them wrote.
//!
//! A leader notes each commit of its own. Any member can then say what was written between two
//! states of the database, if every commit between them is noted.
//!
//! The commit that made the change counter `c` has entry `c % RECENT`:
//!
//! | word   | what it holds                                                      | written |
//! |--------|--------------------------------------------------------------------|---------|
//! | change | 0: no entry; otherwise 1 (at bit 32) and `c`                       | first 0, then last |
//! | before | the fingerprint of the wal-index header before the commit          | between |
//! | after  | the same, after it                                                 | between |
//! | tables | one bit for each hash of a written table's name; all ones for more | between |
//!
//! What always holds: only the leader writes here. An entry whose leader died while it wrote reads as
//! no entry.
//!
//! What can go wrong: a commit of another program, or of a leader that died before its note, has no
//! entry. Then the fingerprints do not form a chain, and the answer is that nobody knows.

use crate::layout::{Commit, RECENT};
use crate::leader::Lead;
use crate::planted::planted;
use crate::queue::Queue;
use crate::sync::{Ordering, fence};

// The counter wraps around: the entry of 0 must follow that of the largest number.
const _: () = assert!(RECENT.is_power_of_two());

/// What a commit of ours did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitNote {
    /// The wal-index's change counter after the commit.
    pub change: u32,
    /// Fingerprint of the wal-index header before the commit.
    pub before: u64,
    /// Fingerprint of the wal-index header after the commit.
    pub after: u64,
    /// The tables that it wrote, a set: one bit for each hash of a name. `u64::MAX` is all, and what has no name.
    pub tables: u64,
}

impl Lead {
    /// Notes a commit of this leader, inside a batch or outside.
    pub fn note_commit(&mut self, note: &CommitNote) {
        write(&self.queue().region.shared().recent.0, note);
    }
}

impl Queue {
    /// True when the commit that made this state of the database is one of ours, and not too long ago.
    pub fn has_noted_commit(&self, change: u32, fingerprint: u64) -> bool {
        let note = read(&self.region.shared().recent.0, change);
        note.is_some_and(|note| note.after == fingerprint)
    }

    /// The tables that were written between two states of the database, each known by its change
    /// counter and fingerprint. `None` when a commit between them is not ours, or too long ago: then
    /// anything may have been written.
    pub fn tables_written_since(
        &self,
        change: u32,
        fingerprint: u64,
        now_change: u32,
        now_fingerprint: u64,
    ) -> Option<u64> {
        let recent = &self.region.shared().recent.0;
        tables_written(recent, (change, fingerprint), (now_change, now_fingerprint))
    }
}

fn place(recent: &[Commit; RECENT], change: u32) -> &Commit {
    &recent[change as usize % RECENT]
}

fn mark(change: u32) -> u64 {
    1 << 32 | u64::from(change)
}

pub(crate) fn write(recent: &[Commit; RECENT], note: &CommitNote) {
    let entry = place(recent, note.change);
    entry.change.store(0, Ordering::Relaxed);
    // Release: who reads one of the words below also reads the 0, or what is stored last.
    fence(Ordering::Release);
    // And if we die from here on? The entry reads as none, until a later commit has its place.
    entry.before.store(note.before, Ordering::Relaxed);
    entry.after.store(note.after, Ordering::Relaxed);
    entry.tables.store(note.tables, Ordering::Relaxed);
    // Release: pairs with the first look in `read`.
    entry.change.store(mark(note.change), Ordering::Release);
}

/// The whole entry of `change`. `None` when there is none, or half of one.
fn read(recent: &[Commit; RECENT], change: u32) -> Option<CommitNote> {
    let entry = place(recent, change);
    if entry.change.load(Ordering::Acquire) != mark(change) {
        return None;
    }
    let before = entry.before.load(Ordering::Relaxed);
    let after = entry.after.load(Ordering::Relaxed);
    let tables = entry.tables.load(Ordering::Relaxed);
    // Acquire: pairs with the fence in `write`. Who does not lead may read what is just overwritten, and what
    // a dead leader stored need not come in order.
    fence(Ordering::Acquire);
    let whole = entry.change.load(Ordering::Relaxed) == mark(change);
    whole.then_some(CommitNote { change, before, after, tables })
}

/// Follows the chain of commits from the state `since` to the state `now`.
pub(crate) fn tables_written(
    recent: &[Commit; RECENT],
    since: (u32, u64),
    now: (u32, u64),
) -> Option<u64> {
    if since.1 == now.1 {
        return Some(0);
    }
    let count = now.0.wrapping_sub(since.0);
    if count as usize > RECENT {
        return None;
    }
    let (mut fingerprint, mut tables) = (since.1, 0);
    for step in 1..=count {
        let note = read(recent, since.0.wrapping_add(step));
        if note.is_none() && planted("chain-with-a-hole") {
            continue;
        }
        let note = note?;
        if note.before != fingerprint && !planted("chain-with-a-hole") {
            return None;
        }
        fingerprint = note.after;
        tables |= note.tables;
    }
    (fingerprint == now.1 || planted("chain-with-a-hole")).then_some(tables)
}
