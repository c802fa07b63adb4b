//! What the leaders remember of their commits.

use std::path::Path;

use manyhands_queue::{CommitNote, Lead, Queue};

use crate::child::{Process, die, listen, tell};
use crate::place::{Place, join, wait_until};

/// Where the entries of the commits are, how many, and how long.
const RECENT_AT: u64 = 57_344;
const RECENT: u32 = 1024;
const ENTRY_BYTES: u64 = 32;

/// The fingerprint of the state that commit `change` made.
fn state(change: u32) -> u64 {
    u64::from(change).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The commit that wrote the table with this bit.
fn note(change: u32, bit: u32) -> CommitNote {
    let before = state(change.wrapping_sub(1));
    CommitNote { change, before, after: state(change), tables: 1 << bit }
}

fn since(lead: &Lead, then: u32, now: u32) -> Option<u64> {
    lead.queue().tables_written_since(then, state(then), now, state(now))
}

fn lead(queue: &std::sync::Arc<Queue>) -> Lead {
    queue.try_lead("recent").expect("nobody leads")
}

/// What was written between two states is the union of the commits between them, also where the counter
/// wraps around, and for as many commits as are remembered.
#[test]
fn the_tables_of_all_commits_since() {
    let place = Place::new();
    let queue = place.join();
    let mut lead = lead(&queue);
    for first in [7u32, u32::MAX - 2, u32::MAX - 2000] {
        let change = |step| first.wrapping_add(step);
        for step in 1..=5 {
            lead.note_commit(&note(change(step), step));
        }
        assert_eq!(since(&lead, change(0), change(5)), Some(0b11_1110));
        assert_eq!(since(&lead, change(2), change(4)), Some(0b1_1000));
        assert_eq!(since(&lead, change(3), change(3)), Some(0), "nothing was committed");
        assert_eq!(since(&lead, change(0), change(6)), None, "one that nobody noted");
        assert_eq!(since(&lead, change(5), change(0)), None, "back in time");
        for step in 6..=RECENT {
            lead.note_commit(&note(change(step), 6));
        }
        assert_eq!(since(&lead, change(0), change(RECENT)), Some(0b111_1110));
        lead.note_commit(&note(change(RECENT + 1), 7));
        assert_eq!(since(&lead, change(1), change(RECENT + 1)), Some(0b1111_1100));
        assert_eq!(since(&lead, change(0), change(RECENT + 1)), None, "too long ago");
    }
}

/// Between two commits of ours another program committed, or the log was begun anew: then nobody knows
/// what was written.
#[test]
fn a_commit_that_is_not_ours_breaks_the_chain() {
    let place = Place::new();
    let queue = place.join();
    let mut lead = lead(&queue);
    for change in [1, 2, 4, 5] {
        lead.note_commit(&note(change, change));
    }
    assert_eq!(since(&lead, 0, 2), Some(0b110));
    assert_eq!(since(&lead, 0, 5), None);
    assert_eq!(since(&lead, 2, 4), None);
    assert_eq!(since(&lead, 3, 5), Some(0b11_0000));
    assert_eq!(lead.queue().tables_written_since(0, 99, 2, state(2)), None, "another beginning");
    assert_eq!(lead.queue().tables_written_since(0, state(0), 2, 99), None, "another end");
    assert_eq!(
        lead.queue().tables_written_since(2, state(2), 2, 99),
        None,
        "the same count, another state"
    );
    lead.note_commit(&CommitNote { before: 99, ..note(2, 2) });
    assert_eq!(since(&lead, 0, 2), None, "a link that does not fit");
}

/// Leads, notes three commits, and dies without letting go.
pub fn noting_leader(path: &Path) {
    let queue = join(path).unwrap();
    let mut lead = lead(&queue);
    lead.note_commit(&note(1, 1));
    lead.begin_batch();
    lead.note_commit(&note(2, 2));
    lead.note_commit(&note(3, 3));
    tell("noted");
    listen();
    die();
}

/// The notes of a dead leader are its successor's. One that it had half written is none, whatever part
/// of it was stored.
#[test]
fn a_successor_reads_what_a_dead_leader_noted() {
    let place = Place::new();
    let queue = place.join();
    let mut process = Process::start("noting-leader", &place.path());
    process.expect("noted");
    process.say("die");
    process.wait_killed();
    let mut lead = None;
    wait_until("the dead leader is succeeded", || {
        lead = queue.try_take_over("successor");
        lead.is_some()
    });
    let lead = lead.unwrap();
    assert_eq!(since(&lead, 0, 3), Some(0b1110));
    let entry = RECENT_AT + 2 * ENTRY_BYTES;
    for (at, word) in [(0, 0u64), (8, 7), (16, 7), (24, 7)] {
        place.overwrite(entry + at, &word.to_ne_bytes());
        assert_eq!(since(&lead, 0, 3), None);
        assert_eq!(since(&lead, 2, 3), Some(0b1000), "the others are whole");
    }
}
