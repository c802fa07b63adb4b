//! Blocks: room for requests that are too long for a slot.
//!
//! A request of up to [`SLOT_REQUEST_BYTES_MAX`] bytes lies in its slot, before the answer. A longer
//! one lies in a block, and the answer has the slot's whole payload: so both sides know the answer's
//! place from the request's length alone, see [`answer_at`].
//!
//! Each block has a word, which binds it to one slot of one member:
//!
//! ```text
//! word: how often it was bound (31 bits) | bound (1 bit) | member (16 bits) | slot (16 bits)
//! ```
//!
//! | word              | who may change it                   | to                                    |
//! |-------------------|-------------------------------------|---------------------------------------|
//! | free              | a client with a claimed slot        | its member and slot, and one more     |
//! | a living member's | the client that bound it            | free, after its slot is free again    |
//! | a dead member's   | anybody who saw it dead             | free                                  |
//! | anything else     | nobody: the memory is damaged       |                                       |
//!
//! Without the count, a slow sweeper that saw a member dead could free the block of a new member with
//! its number: the same slot, the same word.
//!
//! What always holds: who bound a block is the only one that writes to it. A leader copies a request
//! only out of a block that is bound to the request's member and slot, before the copy and after it.
//!
//! What can go wrong: the slot of a dead member may still be pending when its block is somebody
//! else's already. Then the binding differs, or changes while the leader copies: the leader reads a
//! damaged request, never another's bytes. It cannot be bound again to the same member and slot
//! meanwhile: a slot that a leader took is claimed by nobody.

use crate::crash;
use crate::layout::{BLOCK_BYTES, MEMBERS, PAYLOAD_BYTES, Shared, place_of_slot};
use crate::queue::Queue;
use crate::room::Part;
use crate::sync::{AtomicU64, Ordering, fence};

/// The longest request.
pub const REQUEST_BYTES_MAX: usize = BLOCK_BYTES;

/// Room for an answer that each request leaves in its slot, in bytes: enough for a short one.
#[cfg(not(any(loom, shuttle)))]
const ANSWER_ROOM_MIN: usize = 128;
#[cfg(any(loom, shuttle))]
const ANSWER_ROOM_MIN: usize = 8;

/// The longest request that lies in its slot; a longer one lies in a block.
pub const SLOT_REQUEST_BYTES_MAX: usize = PAYLOAD_BYTES - ANSWER_ROOM_MIN;

const _: () = assert!(SLOT_REQUEST_BYTES_MAX.is_multiple_of(8));

/// Where in the slot's payload the answer to a request of `request_bytes` begins. Inside the payload
/// for any number, so that it may come from damaged memory.
pub(crate) fn answer_at(request_bytes: usize) -> usize {
    if request_bytes > SLOT_REQUEST_BYTES_MAX { 0 } else { request_bytes.next_multiple_of(8) }
}

/// The bit of a block that is bound. Above it is the count.
const BOUND: u64 = 1 << 32;

/// The part of the word that says whose the block is.
const BINDING: u64 = BOUND | (BOUND - 1);

fn binding(member: u16, slot: usize) -> u64 {
    BOUND | u64::from(member) << 16 | slot as u64
}

fn is_free(word: u64) -> bool {
    word & BINDING == 0
}

/// Whose block it is; `None` for a free one, and for a word that no member writes.
fn member_of(word: u64) -> Option<u16> {
    let member = (word >> 16) as u16;
    (word & BOUND != 0 && usize::from(member) < MEMBERS).then_some(member)
}

/// Frees the block whose word was `seen`, unless somebody else changed it.
fn free(word: &AtomicU64, seen: u64) {
    let _ = word.compare_exchange(seen, seen & !BINDING, Ordering::AcqRel, Ordering::Relaxed);
}

/// A block that is bound to a slot which a client of this process claimed. To lose it is to leave it
/// bound until this member ends.
#[derive(Debug)]
#[must_use]
pub(crate) struct Block {
    index: usize,
    word: u64,
}

impl Block {
    /// Binds a free block to `slot`. Blocks of dead members are taken back when no other is left.
    /// `None` when all are in use.
    pub(crate) fn claim(queue: &Queue, slot: usize) -> Option<Block> {
        let (shared, member) = (queue.region.shared(), queue.region.member());
        let bind_free = || Block::bind_free(shared, queue.region.ready(Part::Blocks), member, slot);
        let mut block = bind_free();
        // On a full disk there are no more.
        while block.is_none() && matches!(queue.region.grow(Part::Blocks), Ok(true)) {
            block = bind_free();
        }
        let block = block.or_else(|| {
            queue.sweep_blocks();
            bind_free()
        })?;
        // And if we die here? The block is taken back, by who needs one or joins with our number.
        crash::point("block-claimed");
        Some(block)
    }

    /// Binds the first free block, from one on that belongs to `slot`: a slot that is used again and
    /// again finds the same block, in its cache.
    fn bind_free(shared: &Shared, ready: usize, member: u16, slot: usize) -> Option<Block> {
        let block = (0..ready).map(|step| (slot + step) % ready).find_map(|index| {
            let place = &shared.block_words.0[index];
            let seen = place.load(Ordering::Relaxed);
            let word = seen.wrapping_add(2 * BOUND) & !BINDING | binding(member, slot);
            let bound = is_free(seen)
                && place.compare_exchange(seen, word, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            bound.then_some(Block { index, word })
        })?;
        // Release: pairs with the fence in `read`. A leader that still copies for the last owner, and
        // sees one byte of ours, also sees the word above.
        fence(Ordering::Release);
        Some(block)
    }

    /// The number that the slot keeps: 0 is no block.
    pub(crate) fn number(&self) -> u32 {
        self.index as u32 + 1
    }

    pub(crate) fn write(&self, queue: &Queue, request: &[u8]) {
        queue.region.shared().blocks.0[self.index].write(0, request);
    }

    /// Frees the block, after its slot. In a forked child it is the parent's, and stays.
    pub(crate) fn free(self, queue: &Queue) {
        if !queue.is_inherited() {
            free(&queue.region.shared().block_words.0[self.index], self.word);
        }
    }
}

/// Frees the blocks of members for whom `is_gone`.
pub(crate) fn sweep(shared: &Shared, mut is_gone: impl FnMut(u16) -> bool) {
    for word in &shared.block_words.0 {
        let seen = word.load(Ordering::Acquire);
        if member_of(seen).is_some_and(&mut is_gone) {
            free(word, seen);
        }
    }
}

/// Copies the request of `member` in `slot` out of its slot or block. `None` when it is damaged, or
/// its block is no longer its own.
pub(crate) fn read(shared: &Shared, slot: usize, member: u16, request: &mut Vec<u8>) -> Option<()> {
    let place = &shared.slots.0[place_of_slot(slot)];
    let count = place.request_bytes.load(Ordering::Relaxed) as usize;
    if count <= SLOT_REQUEST_BYTES_MAX {
        return place.payload.0.read(0, count, request);
    }
    let index = (place.block.load(Ordering::Relaxed) as usize).checked_sub(1)?;
    let (word, block) = (shared.block_words.0.get(index)?, shared.blocks.0.get(index)?);
    // The owner's bytes came with the slot's word. This look finds a block that is another's already.
    let seen = word.load(Ordering::Acquire);
    if seen & BINDING != binding(member, slot) {
        return None;
    }
    block.read(0, count, request)?;
    // Acquire: pairs with the fence in `bind_free`. Without it the look below could be older than the
    // bytes above.
    fence(Ordering::Acquire);
    (word.load(Ordering::Relaxed) == seen).then_some(())
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_a_place_inside_the_slot() {
        for request_bytes in [0, 1, 8, 1791, 1792, 1793, 1920, 32_768, usize::MAX] {
            assert!(answer_at(request_bytes) <= PAYLOAD_BYTES - ANSWER_ROOM_MIN);
            assert!(answer_at(request_bytes).is_multiple_of(8));
        }
        assert_eq!([answer_at(9), answer_at(1792), answer_at(1793)], [16, 1792, 0]);
    }

    #[test]
    fn only_a_binding_has_an_owner() {
        assert_eq!(member_of(binding(4095, 2047)), Some(4095));
        for word in [0, 1, 2047, 2 * BOUND, u64::MAX, BOUND | 4096 << 16] {
            assert_eq!(member_of(word), None, "{word:#x}");
        }
        assert!(is_free(0) && is_free(2 * BOUND) && !is_free(1) && !is_free(u64::MAX));
    }
}
