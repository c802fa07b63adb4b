//! Statements that are told to people: what the leader executes, and what the last conflict was about.
//!
//! | word     | what it holds                                                          |
//! |----------|------------------------------------------------------------------------|
//! | version  | odd while somebody writes the others; then one more                    |
//! | owner    | the epoch of the leadership, or the member's number                    |
//! | since_ns | 0 while the statement runs; otherwise when it ended, or the conflict   |
//! | bytes    | how long the text is                                                   |
//!
//! And if we die while it is odd? The next leader writes what the leader does: nobody else may. The conflict is not told any more
//! until the file is built anew.

use core::time::Duration;

use crate::clock::now_ns;
use crate::layout::{TOLD_BYTES, ToldWords};
use crate::leader::Lead;
use crate::queue::Queue;
use crate::sync::{Ordering, fence};

/// A statement that somebody has told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The epoch of the leadership, or the member's number.
    pub(crate) owner: u64,
    /// The beginning of the statement.
    pub text: String,
    /// For how long it has been over; `None` while it runs.
    pub ended_for: Option<Duration>,
}

/// The beginning of a statement, as it is told.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TOLD_BYTES)]
}

impl ToldWords {
    /// Only for one writer at a time. `odd` is what it has made of the version.
    fn write(&self, odd: u64, owner: u64, since_ns: u64, text: &str) {
        // Release: who reads one of the words below also reads the odd version, or a later one.
        fence(Ordering::Release);
        self.owner.store(owner, Ordering::Relaxed);
        self.since_ns.store(since_ns, Ordering::Relaxed);
        self.bytes.store(text.len() as u64, Ordering::Relaxed);
        self.text.write(0, text.as_bytes());
        self.version.store(odd.wrapping_add(1), Ordering::Release);
    }

    /// `None` when nothing was told, or somebody writes just now.
    pub(crate) fn read(&self) -> Option<Told> {
        let version = self.version.load(Ordering::Acquire);
        if version == 0 || !version.is_multiple_of(2) {
            return None;
        }
        let owner = self.owner.load(Ordering::Relaxed);
        let since_ns = self.since_ns.load(Ordering::Relaxed);
        let count = usize::try_from(self.bytes.load(Ordering::Relaxed)).ok()?;
        let mut bytes = Vec::new();
        self.text.read(0, count, &mut bytes)?;
        // Acquire: pairs with the fence in `write`.
        fence(Ordering::Acquire);
        if self.version.load(Ordering::Relaxed) != version {
            return None;
        }
        let ended_for =
            (since_ns != 0).then(|| Duration::from_nanos(now_ns().saturating_sub(since_ns)));
        Some(Told { owner, text: String::from_utf8_lossy(&bytes).into_owned(), ended_for })
    }
}

impl Lead {
    /// Tells that this leader executes a statement.
    pub fn tell_statement(&self, sql: &str) {
        let holding = &self.queue().region.shared().header.holding.0;
        let odd = holding.version.load(Ordering::Relaxed) | 1;
        holding.version.store(odd, Ordering::Relaxed);
        holding.write(odd, self.word.epoch(), 0, cut(sql));
    }

    /// Tells that it has executed it, and holds the turn.
    pub fn tell_idle(&self) {
        self.queue().region.shared().header.holding.0.since_ns.store(now_ns(), Ordering::Relaxed);
    }
}

impl Queue {
    /// Tells the statement of a conflict, if nobody else does at this moment.
    pub fn tell_conflict(&self, sql: &str) {
        let place = &self.region.shared().header.conflicting.0;
        let version = place.version.load(Ordering::Relaxed);
        let odd = version | 1;
        if version == odd
            || place
                .version
                .compare_exchange(version, odd, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        place.write(odd, u64::from(self.region.member()), now_ns(), cut(sql));
    }
}
