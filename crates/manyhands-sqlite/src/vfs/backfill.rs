//! What a checkpoint writes into the database file, on its way to the disk.
//!
//! SQLite writes page after page, in the order of the file, and syncs at the end. First the disk waits for the processor,
//! and then the processor for the disk, while commits wait for both. So the kernel is asked to
//! begin as soon as a piece is there. That is a hint: it promises nothing, and hides no error from the sync, which
//! SQLite still does.
//!
//! Where others commit meanwhile, the copier offers them its processor again and again. A thread that syncs is woken
//! twice in each sync, on the processor that it slept on. If that processor is busy, it would wait for the rest of the time slice.

use core::ops::Range;
use core::time::Duration;
use std::time::Instant;

/// So much is written before the kernel is asked to begin, in bytes: 64 pages of 4096.
const PIECE_BYTES: i64 = 256 << 10;

/// So much is written before others are offered the processor: 8 pages, some 25 us.
const OFFER_BYTES: i64 = 32 << 10;

/// When they have had it for so long in one checkpoint, they are offered it no more: where many want it each offer is
/// taken, and for long.
const OFFERED_TIME_MAX: Duration = Duration::from_millis(5);

/// Of a checkpoint: what it has written since the kernel was last asked to begin.
#[derive(Debug, Default)]
pub(crate) struct Backfill {
    /// Where it lies.
    piece: Range<i64>,
    /// How much of that was written: pages between are left out.
    written: i64,
    /// In one beside the commits of others.
    offer: Option<Offer>,
}

/// What others are offered of the processor.
#[derive(Debug, Default)]
struct Offer {
    /// How much was written since the last time, in bytes.
    written: i64,
    /// For how long they have had it.
    time: Duration,
}

impl Backfill {
    /// A checkpoint begins; a `gentle` one offers others the processor.
    pub(crate) fn new(gentle: bool) -> Backfill {
        Backfill { offer: gentle.then(Offer::default), ..Backfill::default() }
    }

    /// `count` bytes were written at `offset`. Returns where the kernel shall begin, when a piece is there.
    pub(crate) fn wrote(&mut self, offset: i64, count: i64) -> Option<Range<i64>> {
        if self.written == 0 {
            self.piece.start = offset;
        }
        self.piece.end = offset + count;
        self.written += count;
        let is_full = self.written >= PIECE_BYTES;
        is_full.then(|| {
            self.written = 0;
            self.piece.clone()
        })
    }

    /// Lets others have the processor for a moment, if `count` bytes and those before are enough for that.
    pub(crate) fn offer_processor(&mut self, count: i64) {
        let Some(offer) = &mut self.offer else { return };
        offer.written += count;
        if offer.written < OFFER_BYTES || offer.time > OFFERED_TIME_MAX {
            return;
        }
        offer.written = 0;
        let began = Instant::now();
        rustix::thread::sched_yield();
        offer.time += began.elapsed();
    }
}

/// Asks the kernel to begin to write a part of a file to the disk: `sync_file_range(2)`, which does not wait until that is
/// done, and then neither sees nor clears an error of the file.
pub(crate) fn begin_to_write(descriptor: libc::c_int, part: &Range<i64>) {
    let (length, flags) = (part.end - part.start, libc::SYNC_FILE_RANGE_WRITE);
    // SAFETY: integers. What it returns says nothing about what is on the disk.
    unsafe { libc::sync_file_range(descriptor, part.start, length, flags) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: i64 = 4096;

    /// The pieces that these pages come in.
    fn pieces(pages: impl IntoIterator<Item = i64>) -> Vec<(i64, i64)> {
        let mut backfill = Backfill::default();
        let note = |page| backfill.wrote(page * PAGE, PAGE);
        let pieces = pages.into_iter().filter_map(note);
        pieces.map(|it| (it.start / PAGE, it.end / PAGE)).collect()
    }

    #[test]
    fn what_is_written_comes_in_pieces() {
        assert_eq!(pieces(0..63), []);
        assert_eq!(pieces(0..200), [(0, 64), (64, 128), (128, 192)]);
        // Every other page was changed.
        assert_eq!(pieces((0..200).map(|page| 2 * page + 1)), [(1, 128), (129, 256), (257, 384)]);
    }
}
