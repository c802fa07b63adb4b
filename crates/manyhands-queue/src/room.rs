//! Room on the disk: the file is as long as it ever gets, and most of it is a hole until somebody needs it.
//!
//! A page of a hole gets its room when it is first touched, and where the disk is full that is SIGBUS. So nobody touches a
//! slot, a block or a member's record before zeros were written there, and how many have theirs stands in the header:
//!
//! | word            | who may change it                               | to                       |
//! |-----------------|-------------------------------------------------|--------------------------|
//! | `Ready`'s       | who has the lock, and has written zeros there   | more                     |
//!
//! And if we die between the two steps? The kernel gives the lock back, and who next needs more does both.
//!
//! Zeros and not `fallocate`: what is written is in memory until the system writes it to the disk, and a file that is
//! removed before has never been there. To take blocks and give them back would be most of what it costs to open and
//! close a database.
//!
//! What can go wrong: the disk is full, or who has the lock is stopped. Then there are no more slots, as if all were in
//! use.

use std::io;

use crate::layout::{BLOCKS, MEMBERS, SLOTS};
use crate::region::Region;
use crate::sync::{AtomicU64, Ordering};

/// What there may be more of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Places of slots.
    Slots,
    Blocks,
    /// Records of members, and so member numbers.
    Members,
}

impl Part {
    /// How many there are in a file that has all of its room.
    pub(crate) fn count_max(self) -> usize {
        match self {
            Part::Slots => SLOTS,
            Part::Blocks => BLOCKS,
            Part::Members => MEMBERS,
        }
    }
}

impl Region {
    fn ready_word(&self, part: Part) -> &AtomicU64 {
        let ready = &self.shared().header.ready.0;
        match part {
            Part::Slots => &ready.slots,
            Part::Blocks => &ready.blocks,
            Part::Members => &ready.members,
        }
    }

    /// How many have their room. Not more than there are, whatever stands there.
    pub(crate) fn ready(&self, part: Part) -> usize {
        // Acquire: pairs with the Release below, so that who sees more of them finds their room allocated.
        let ready = self.ready_word(part).load(Ordering::Acquire);
        usize::try_from(ready).map_or(part.count_max(), |ready| ready.min(part.count_max()))
    }

    /// Gives more of them their room: twice as many. False when all have it.
    ///
    /// # Errors
    /// The disk is full, the file is not ours any more, or another process does the same for too long.
    pub(crate) fn grow(&self, part: Part) -> io::Result<bool> {
        let seen = self.ready(part);
        if seen >= part.count_max() {
            return Ok(false);
        }
        let _alone = self.lock_room()?;
        let ready = self.ready(part);
        if ready == seen {
            let more = (ready * 2).clamp(1, part.count_max());
            self.write_zeros(part, ready..more)?;
            self.ready_word(part).store(more as u64, Ordering::Release);
        }
        Ok(true)
    }
}
