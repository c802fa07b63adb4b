//! The region of a model checker: the same memory and the same questions, without a file. A member
//! "dies" when the model says so.

use core::ops::Range;
use std::io;
use std::sync::Arc;

use crate::layout::Shared;
use crate::room::Part;
use crate::sync::{AtomicU64, Ordering};
use crate::ticket::Ticket;

/// What the members of a modelled queue share.
#[derive(Clone)]
pub(crate) struct Memory(Arc<Content>);

struct Content {
    shared: Box<Shared>,
    /// A bit for each member.
    dead: AtomicU64,
    now_ns: AtomicU64,
}

impl Memory {
    pub(crate) fn new() -> Memory {
        let (shared, dead) = (Shared::empty(Ticket::FIRST.0), AtomicU64::new(0));
        let now_ns = AtomicU64::new(1 << 40);
        Memory(Arc::new(Content { shared, dead, now_ns }))
    }

    /// The kernel drops the member's lock.
    pub(crate) fn kill(&self, member: u16) {
        self.0.dead.fetch_or(1 << member, Ordering::AcqRel);
    }

    /// So much time passes for all.
    pub(crate) fn pass(&self, ns: u64) {
        self.0.now_ns.fetch_add(ns, Ordering::AcqRel);
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }
}

pub(crate) struct Region {
    memory: Memory,
    member: u16,
}

impl core::fmt::Debug for Region {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "member {}", self.member)
    }
}

impl Region {
    pub(crate) fn join(memory: &Memory, member: u16) -> Region {
        Region { memory: memory.clone(), member }
    }

    pub(crate) fn shared(&self) -> &Shared {
        self.memory.shared()
    }

    pub(crate) fn member(&self) -> u16 {
        self.member
    }

    pub(crate) fn pid(&self) -> u32 {
        u32::from(self.member)
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.memory.0.now_ns.load(Ordering::Acquire)
    }

    /// Memory has its room: nobody asks for this.
    pub(crate) fn lock_room(&self) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn write_zeros(&self, _part: Part, _numbers: Range<usize>) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn lives(&self, member: u16) -> bool {
        self.memory.0.dead.load(Ordering::Acquire) >> member & 1 == 0
    }

    pub(crate) fn has_other_members(&self) -> bool {
        true
    }

    pub(crate) fn is_inherited(&self) -> bool {
        false
    }

    pub(crate) fn is_lost(&self) -> bool {
        false
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.shared().header.identity.0.retired.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn retire(&self) {
        self.shared().header.identity.0.retired.store(1, Ordering::Relaxed);
    }

    pub(crate) fn is_in_place(&self) -> bool {
        true
    }
}
