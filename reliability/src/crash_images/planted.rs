//! Recordings spoiled in known ways: an examination that stays green then proves nothing.

use super::recording::{Event, Recording};

/// One way.
pub struct Plant {
    pub name: &'static str,
    /// There must be findings.
    pub is_bad: bool,
    pub spoil: fn(&mut Recording),
}

/// By how many events a word comes too early.
const EARLY: usize = 30;

/// All ways, and the recording as it is.
pub const PLANTS: &[Plant] = &[
    Plant { name: "nothing", is_bad: false, spoil: |_| {} },
    Plant {
        name: "acknowledged before it is safe",
        is_bad: true,
        spoil: |it| say_early(it, "ack "),
    },
    Plant { name: "shown before it is safe", is_bad: true, spoil: |it| say_early(it, "saw ") },
    Plant { name: "a disk that lies", is_bad: true, spoil: |it| forget_syncs(it, |_| true) },
    Plant {
        name: "the database is not synced before the WAL starts again",
        is_bad: true,
        spoil: |it| {
            let database = it.before["app.db"].0;
            forget_syncs(it, |inode| inode == database);
        },
    },
    Plant { name: "every second sync is left out", is_bad: true, spoil: forget_every_second },
    Plant { name: "pages of the database are damaged", is_bad: true, spoil: damage },
];

/// Where the WAL starts again at its beginning: before that, it hides damage of the database.
pub fn restart(recording: &Recording) -> Option<usize> {
    let database = recording.before["app.db"].0;
    let is_begin = |event: &Event| matches!(event, Event::Write { inode, offset: 0, .. } if *inode != database);
    let mut begins =
        recording.events.iter().enumerate().filter(|(_, event)| is_begin(event)).map(|it| it.0);
    begins.nth(1)
}

/// Moves each word of a kind some events forward.
fn say_early(recording: &mut Recording, beginning: &str) {
    for number in 0..recording.events.len() {
        let is_such =
            matches!(&recording.events[number], Event::Said(line) if line.starts_with(beginning));
        if is_such {
            recording.events[number.saturating_sub(EARLY)..=number].rotate_right(1);
        }
    }
}

fn forget_syncs(recording: &mut Recording, is_forgotten: impl Fn(u64) -> bool) {
    let is_kept =
        |event: &Event| !matches!(event, Event::SyncEnd { inode, .. } if is_forgotten(*inode));
    recording.events.retain(is_kept);
}

fn forget_every_second(recording: &mut Recording) {
    let mut count = 0;
    recording.events.retain(|event| {
        count += usize::from(matches!(event, Event::SyncEnd { .. }));
        !matches!(event, Event::SyncEnd { .. }) || count % 2 == 0
    });
}

/// Turns the first half around of each page that is written to the database, but the first. Of each: the WAL
/// hides a page that is written again before it starts anew.
fn damage(recording: &mut Recording) {
    let database = recording.before["app.db"].0;
    for event in &mut recording.events {
        if let Event::Write { inode, offset, bytes } = event
            && *inode == database
            && *offset > 0
        {
            let mut damaged = bytes.to_vec();
            let middle = damaged.len() / 2;
            damaged[..middle].reverse();
            *bytes = damaged.into();
        }
    }
}
