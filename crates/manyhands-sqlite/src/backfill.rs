//! What a checkpoint writes into the database file, on its way to the disk.
//!
//! SQLite writes page after page, in the order of the file, and syncs at the end: the disk waits for the processor
//! first, and then the processor for the disk. Meanwhile whoever commits must wait for both. So the kernel is asked to
//! begin as soon as a piece is there. That is a hint: it promises nothing, and takes no error away from the sync, which
//! SQLite asks for as ever.
//!
//! And where others commit meanwhile, they are offered the processor again and again. Who waits for the disk is woken
//! twice in each sync, on the processor that it slept on; where that is busy it waited for the rest of the time slice,
//! 3 ms (Linux 6.18, `perf record -e sched:sched_switch`).

use core::ops::Range;
use core::time::Duration;
use std::time::Instant;

/// So much is written before the kernel is asked to begin, in bytes: 64 pages of 4096.
const PIECE_BYTES: i64 = 256 << 10;

/// So much is written before others are offered the processor: 8 pages, some 25 us.
const OFFER_BYTES: i64 = 32 << 10;

/// So long they have it in one checkpoint, in all. Where many want it each offer is taken, and for long: the checkpoint
/// must end all the same.
const OFFERED_TIME_MAX: Duration = Duration::from_millis(5);

/// Of a database file: what was written since the kernel was last asked to begin.
#[derive(Debug, Default)]
pub(crate) struct Backfill {
    /// Where it lies.
    piece: Range<i64>,
    /// How much of that was written: pages between are left out.
    written: i64,
    /// Of one beside the commits of others.
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

impl Offer {
    fn wrote(&mut self, count: i64) {
        self.written += count;
        if self.written < OFFER_BYTES || self.time > OFFERED_TIME_MAX {
            return;
        }
        self.written = 0;
        let began = Instant::now();
        rustix::thread::sched_yield();
        self.time += began.elapsed();
    }
}

impl Backfill {
    /// Whether others are offered the processor from here on.
    pub(crate) fn be_gentle(&mut self, gentle: bool) {
        self.offer = gentle.then(Offer::default);
    }

    /// `count` bytes were written at `offset`. Returns where the kernel shall begin, when a piece is there.
    fn note(&mut self, offset: i64, count: i64) -> Option<Range<i64>> {
        if offset < self.piece.end {
            // Another checkpoint: what is left of the last one was synced, or will be.
            (self.piece, self.written) = (offset..offset, 0);
        }
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

    /// `count` bytes were written at `offset` of the file with the descriptor that `descriptor` looks up.
    pub(crate) fn wrote(
        &mut self,
        offset: i64,
        count: i64,
        descriptor: impl FnOnce() -> Option<libc::c_int>,
    ) {
        if let Some(piece) = self.note(offset, count)
            && let Some(descriptor) = descriptor()
        {
            begin_to_write(descriptor, &piece);
        }
        if let Some(offer) = &mut self.offer {
            offer.wrote(count);
        }
    }
}

/// Asks the kernel to begin to write a part of a file to the disk: `sync_file_range(2)`, which waits for nothing here,
/// and then neither sees nor clears an error of the file.
fn begin_to_write(descriptor: libc::c_int, part: &Range<i64>) {
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
        let note = |page| backfill.note(page * PAGE, PAGE);
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

    #[test]
    fn each_checkpoint_begins_anew() {
        assert_eq!(pieces((0..40).chain(10..100)), [(10, 74)]);
        assert_eq!(pieces((0..64).chain(0..64)), [(0, 64), (0, 64)]);
        assert_eq!(pieces([5; 100]), []);
    }
}
