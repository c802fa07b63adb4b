//! Cancels: what a member waits for or executes is ended by another process, which a person has asked to do so.
//!
//! | word      | who may change it              | to                                       |
//! |-----------|--------------------------------|------------------------------------------|
//! | cancels   | an onlooker                    | one more                                 |
//! | cancelled | a connection that has noticed  | one more for each operation that it ends |
//!
//! An operation that began before the number changed ends with an error; one that begins later does not notice.

use crate::queue::Queue;
use crate::sync::Ordering;

impl Queue {
    /// How often this member was cancelled.
    pub fn cancels(&self) -> u32 {
        let member = usize::from(self.region.member());
        self.region.shared().members.0[member].cancels.load(Ordering::Relaxed)
    }

    /// An operation of this process ends for it.
    pub fn note_cancelled(&self) {
        let member = usize::from(self.region.member());
        self.region.shared().members.0[member].cancelled.fetch_add(1, Ordering::Relaxed);
    }
}
