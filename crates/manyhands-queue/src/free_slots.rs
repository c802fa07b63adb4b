//! Which slots are free: a bit for each, so that who looks for one need not look at all.
//!
//! | bit | means                                        | set by                     | cleared by           |
//! |-----|----------------------------------------------|----------------------------|----------------------|
//! | 0   | may be free: look                            |                            | who frees it         |
//! | 1   | was in use when somebody last looked in vain | who looked for a free slot | who finds it free    |
//!
//! The slot's own word is the truth. What always holds: a free slot has bit 0, but for moments, and unless who freed
//! it died between the two steps. [`Queue::find_unmarked`] makes good for the dead. In the usual case, a slot that its
//! process uses again and again, nobody writes a bit at all.

use core::time::Duration;

use crate::clock::now_ns;
use crate::layout::{SLOT_WORDS, SLOTS, place_of_slot, slot_at_place};
use crate::queue::Queue;
use crate::room::Part;
use crate::slot::SlotWord;
use crate::sync::{AtomicU64, Ordering, fence};

/// Slots in one word.
const WORD_SLOTS: usize = u64::BITS as usize;

impl Queue {
    fn used(&self, word: usize) -> &AtomicU64 {
        &self.region.shared().header.used.0[word]
    }

    fn is_free(&self, slot: usize) -> bool {
        self.slot(slot).word.load(Ordering::Relaxed) == SlotWord::FREE.to_bits()
    }

    /// Claims a slot of those that may be free, from where nobody else looks.
    pub(crate) fn claim_marked_free(&self) -> Option<usize> {
        let first = self.region.shared().header.hints.0.slot.fetch_add(1, Ordering::Relaxed);
        let ready = self.region.ready(Part::Slots);
        (0..SLOT_WORDS as u64).find_map(|step| {
            self.claim_in_word((first.wrapping_add(step) % SLOT_WORDS as u64) as usize, ready)
        })
    }

    /// True when somebody has found no free slot in the last `time`: who has many should take no more.
    pub fn was_full_within(&self, time: Duration) -> bool {
        let full_ns = self.region.shared().header.hints.0.full_ns.load(Ordering::Relaxed);
        full_ns != 0 && u128::from(now_ns().saturating_sub(full_ns)) < time.as_nanos()
    }

    pub(crate) fn note_full(&self) {
        self.region.shared().header.hints.0.full_ns.store(now_ns(), Ordering::Relaxed);
    }

    /// Of those that lie in the first `ready` places.
    fn claim_in_word(&self, word: usize, ready: usize) -> Option<usize> {
        let mut left = !self.used(word).load(Ordering::Relaxed);
        while left != 0 {
            let slot = word * WORD_SLOTS + left.trailing_zeros() as usize;
            left &= left - 1;
            // The places of a word's slots ascend.
            if slot >= SLOTS || place_of_slot(slot) >= ready {
                return None;
            }
            if self.try_claim(slot) {
                return Some(slot);
            }
            self.mark_used(slot);
        }
        None
    }

    fn mark_used(&self, slot: usize) {
        self.used(slot / WORD_SLOTS).fetch_or(1 << (slot % WORD_SLOTS), Ordering::Relaxed);
        // Either who frees it sees the bit, or we see the slot free: see `mark_free`.
        fence(Ordering::SeqCst);
        if self.is_free(slot) {
            self.mark_free(slot);
        }
    }

    /// Whoever has freed a slot calls this after a sequentially consistent fence.
    pub(crate) fn mark_free(&self, slot: usize) {
        let (used, bit) = (self.used(slot / WORD_SLOTS), 1 << (slot % WORD_SLOTS));
        // The word is in the cache of everybody who looks for a slot: it is not written without need.
        if used.load(Ordering::Relaxed) & bit != 0 {
            used.fetch_and(!bit, Ordering::Relaxed);
            // Either who waits for a slot sees the bit, or we see it waiting: see `Queue::claim`.
            fence(Ordering::SeqCst);
        }
    }

    /// Marks slots that are free and not marked so: who freed them died. Returns how many.
    pub(crate) fn find_unmarked(&self) -> usize {
        let is_unmarked = |slot: &usize| {
            let used = self.used(slot / WORD_SLOTS).load(Ordering::Relaxed);
            used >> (slot % WORD_SLOTS) & 1 != 0 && self.is_free(*slot)
        };
        let ready = (0..self.region.ready(Part::Slots)).map(slot_at_place);
        ready.filter(is_unmarked).inspect(|&slot| self.mark_free(slot)).count()
    }
}
