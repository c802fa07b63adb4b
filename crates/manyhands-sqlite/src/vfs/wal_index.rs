//! The first region of the wal-index, as one connection sees it.
//!
//! The unix VFS maps the -shm file once for all connections of a process. A connection of ours gets a
//! *view* of the first region instead: a second mapping of the same memory, at an address of its own,
//! whose first page can be replaced by private memory and given back. The mapping is made from the
//! first one, not from a descriptor: to open and close one of the -shm file would drop the locks that a
//! stock SQLite copy in this process holds on it.
//!
//! To replace a page costs more than a small transaction, and the processors that run the process's
//! other threads are interrupted for it. So a page that became private stays so for a while: it is made like the
//! shared one whenever SQLite has taken a lock ([`View::refresh`]), and the shared one like it before
//! SQLite gives the write lock back ([`View::publish`]). Only who speculates no more, and what is rare, a checkpoint, a
//! restart or a recovery of the WAL, works on the shared page itself.
//!
//! What always holds: the view has the live memory's content, but for a private first page: that has
//! what the shared one had when it was last refreshed, and what SQLite has changed under the write lock.
//! What can go wrong: the kernel has no memory for a mapping. Then there is no view, or the page stays
//! private, and whatever needs the shared page itself is refused.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::mm::{self, MapFlags, MremapFlags, ProtFlags};

use super::wal_frame::FRAME_HEADER_BYTES;

/// Bytes of a region of the wal-index (<https://sqlite.org/walformat.html>, 2).
const REGION_BYTES: usize = 32 * 1024;
/// Bytes of the header, of which the region begins with two copies.
pub(crate) const HEADER_BYTES: usize = 48;
const HEADER_WORDS: usize = HEADER_BYTES / 8;

/// Where the number of the frames that checkpoints have copied is, and where the read marks begin: numbers of 32
/// bits (<https://sqlite.org/walformat.html>, 2.1).
const BACKFILLED_AT: usize = 96;
/// See [`BACKFILLED_AT`].
const READ_MARKS_AT: usize = 100;
/// How many there are.
pub const READ_MARKS: usize = 5;
/// Where the page numbers of the first frames begin: behind the headers and what checkpoints keep there.
const ENTRIES_AT: usize = 136;
/// Where the hash table begins, by which SQLite finds them.
const HASH_TABLE_AT: usize = 16 * 1024;

/// The beginning of the wal-index, as SQLite's `WalIndexHdr` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalIndexHeader {
    /// Counts commits; starts again at 0 when the wal-index is recovered.
    pub change: u32,
    /// Page size in bytes.
    pub page_bytes: u32,
    /// Number of the last committed frame; the first is 1.
    pub frame_last: u32,
    /// Size of the database in pages.
    pub page_count: u32,
    /// The WAL's two salts, as bytes of the file.
    pub salt: [u8; 8],
    /// SQLite's checksum over all other fields: two headers that differ have different ones.
    pub checksum: u64,
}

/// What the wal-index says of checkpoints and readers, behind its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// How many of the WAL's frames checkpoints have copied into the database file. When these are all, it is synced.
    pub backfilled: u32,
    /// Up to which frame a reader who holds the lock of the same number sees the WAL.
    pub read_marks: [u32; READ_MARKS],
}

impl WalIndexHeader {
    pub(crate) fn of(words: &[u64; HEADER_WORDS]) -> WalIndexHeader {
        let mut bytes = [0; HEADER_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        let word =
            |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let page = u32::from(u16::from_ne_bytes(bytes[14..16].try_into().expect("two bytes")));
        WalIndexHeader {
            change: word(8),
            // SQLite writes 65536, which has no room in 16 bits, as 1.
            page_bytes: if page == 1 { 65536 } else { page },
            frame_last: word(16),
            page_count: word(20),
            salt: bytes[32..40].try_into().expect("eight bytes"),
            checksum: words[5],
        }
    }

    /// How much of the -wal file a frame takes: its header and a page
    /// (<https://sqlite.org/fileformat2.html#the_write_ahead_log>, 4.1).
    pub fn frame_bytes(&self) -> u64 {
        u64::from(self.page_bytes) + FRAME_HEADER_BYTES as u64
    }

    /// Number of the frame that starts at `offset` in the -wal file; `None` when none does.
    pub fn frame_at(&self, offset: u64) -> Option<u64> {
        let frame_bytes = self.frame_bytes();
        let past_header = offset.checked_sub(32)?;
        past_header.is_multiple_of(frame_bytes).then_some(past_header / frame_bytes + 1)
    }
}

/// Bytes at the beginning of a -shm file that tell of commits, checkpoints and readers.
pub const WAL_INDEX_TOLD_BYTES: usize = READ_MARKS_AT + 4 * READ_MARKS;

/// What stands at the beginning of a -shm file, for who looks at it from outside; `None` before a connection has written it.
pub fn wal_index_of(
    bytes: &[u8; WAL_INDEX_TOLD_BYTES],
) -> Option<(WalIndexHeader, CheckpointInfo)> {
    const IS_WRITTEN_AT: usize = 12;
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let mut words = [0; HEADER_WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    }
    (bytes[IS_WRITTEN_AT] != 0).then(|| {
        let read_marks = core::array::from_fn(|mark| word(READ_MARKS_AT + 4 * mark));
        let info = CheckpointInfo { backfilled: word(BACKFILLED_AT), read_marks };
        (WalIndexHeader::of(&words), info)
    })
}

/// The bits of a number of 32 bits in its word, which two of them share.
fn half_of_word(place: usize) -> u64 {
    let high = !place.is_multiple_of(8);
    if high == cfg!(target_endian = "little") { u64::MAX << 32 } else { u64::MAX >> 32 }
}

/// The 48 bytes of a header, unread.
pub(crate) type Header = [u64; HEADER_WORDS];

/// A mapping of the first region that belongs to one connection.
pub(crate) struct View {
    /// The unix VFS's mapping: it lives as long as a connection of this process uses the file.
    live: NonNull<AtomicU64>,
    /// Ours.
    address: NonNull<AtomicU64>,
    /// Bytes of it, and of its first page.
    bytes: usize,
    page_bytes: usize,
    private: bool,
}

impl View {
    /// A view of the region that the unix VFS has mapped at `live`; `None` when the system gives none.
    ///
    /// # Safety
    /// `live` is a shared mapping of the first region, and stays one for as long as the view is used.
    pub(crate) unsafe fn of(live: NonNull<c_void>) -> Option<View> {
        let page_bytes = rustix::param::page_size();
        let bytes = REGION_BYTES.max(page_bytes);
        // An old length of 0 makes a second mapping of the same shared memory: mremap(2).
        // SAFETY: mapped, and at least one page long.
        let address = unsafe { mm::mremap(live.as_ptr(), 0, bytes, MremapFlags::MAYMOVE) }.ok()?;
        let address = NonNull::new(address)?.cast();
        Some(View { live: live.cast(), address, bytes, page_bytes, private: false })
    }

    /// Where the connection finds the region.
    pub(crate) fn address(&self) -> *mut c_void {
        self.address.as_ptr().cast()
    }

    /// True while the first page is private memory.
    pub(crate) fn is_private(&self) -> bool {
        self.private
    }

    /// A word of the first page as it is in shared memory.
    fn live_word(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < self.page_bytes / 8);
        // SAFETY: inside the first page of the unix VFS's mapping, which stays as long as the view, as `of` demands.
        let word = unsafe { self.live.add(index) };
        // SAFETY: aligned to 8, and only ever used as bytes by SQLite and as atomics here. What tears
        // when SQLite writes meanwhile is noticed: it compares headers, or holds the write lock.
        unsafe { word.as_ref() }
    }

    /// A word of the first page as the connection sees it.
    fn own_word(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < self.page_bytes / 8);
        // SAFETY: inside the first page of this view's mapping, which stays as long as the view.
        let word = unsafe { self.address.add(index) };
        // SAFETY: aligned to 8, and used as bytes by SQLite only in its calls on this connection, and as atomics here.
        unsafe { word.as_ref() }
    }

    /// The first header as it is in shared memory. Stable only while the caller holds the write lock.
    pub(crate) fn live_header(&self) -> Header {
        core::array::from_fn(|index| self.live_word(index).load(Ordering::Relaxed))
    }

    /// True when both copies of the header in shared memory are `header`.
    pub(crate) fn live_is(&self, header: &Header) -> bool {
        (0..2 * HEADER_WORDS).all(|index| {
            self.live_word(index).load(Ordering::Acquire) == header[index % HEADER_WORDS]
        })
    }

    /// The first header as the connection sees it.
    pub(crate) fn header(&self) -> Header {
        core::array::from_fn(|index| self.own_word(index).load(Ordering::Relaxed))
    }

    /// Makes the first page private memory that begins with two copies of `header`. One that is private may
    /// have a newer one: that of a writer whose snapshot was too old. False when the system has no memory;
    /// nothing has changed then.
    pub(crate) fn make_private(&mut self, header: &Header) -> bool {
        if !self.private {
            if !self.replace_by_private() {
                return false;
            }
            self.copy_beyond_headers();
        }
        for (index, word) in header.iter().chain(header).enumerate() {
            self.own_word(index).store(*word, Ordering::Relaxed);
        }
        true
    }

    fn replace_by_private(&mut self) -> bool {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::FIXED | MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: replaces a page that this view owns, and that no other thread uses: the caller is
        // inside a call of SQLite on the view's connection.
        let mapped =
            unsafe { mm::mmap_anonymous(self.address(), self.page_bytes, protection, flags) };
        self.private = mapped.is_ok();
        self.private
    }

    /// Makes a private first page like the shared one at a moment at which nobody commits: what lies behind the
    /// headers fits to them. False when there was none, and the page is a mixture.
    #[must_use]
    pub(crate) fn refresh(&self) -> bool {
        // A writer that publishes at this moment needs nanoseconds; one that died here never ends.
        const TRIES_MAX: usize = 100;
        for _ in 0..TRIES_MAX {
            for index in 0..2 * HEADER_WORDS {
                let word = self.live_word(index).load(Ordering::Acquire);
                self.own_word(index).store(word, Ordering::Relaxed);
            }
            self.copy_beyond_headers();
            // Acquire: the headers are compared after the rest was read.
            fence(Ordering::Acquire);
            if self.live_is(&self.header()) {
                return true;
            }
            core::hint::spin_loop();
        }
        false
    }

    /// Makes a private first page like the shared one, but for the headers, which are equal.
    pub(crate) fn copy_beyond_headers(&self) {
        for index in 2 * HEADER_WORDS..self.page_bytes / 8 {
            let word = self.live_word(index).load(Ordering::Relaxed);
            self.own_word(index).store(word, Ordering::Relaxed);
        }
    }

    /// Makes the shared page's entry behind the last committed frame one that is used. A writer with a private
    /// page enters its frames into the hash table, which lies behind that page, at once. If it dies, the next
    /// one clears them away only where it finds that entry used. [`View::publish`] sets it as it should be.
    /// Only while the connection holds the real write lock.
    pub(crate) fn mark_next_entry(&self) {
        let place = ENTRIES_AT + 4 * WalIndexHeader::of(&self.header()).frame_last as usize;
        // Behind the private page SQLite changes the entry itself.
        if place < self.page_bytes.min(HASH_TABLE_AT) {
            let shared = self.live_word(place / 8);
            shared.store(shared.load(Ordering::Relaxed) | half_of_word(place), Ordering::Relaxed);
            // The kernel may end the process between any two instructions.
            fence(Ordering::SeqCst);
        }
    }

    /// Copies what a writer changes in a private page into the shared one, in SQLite's order: the entries of
    /// its frames, then the header's second copy, then the first, by which others begin. Who dies between
    /// leaves two unequal headers, as SQLite would: the next one recovers them from the WAL. Only while the
    /// connection holds the real write lock.
    pub(crate) fn publish(&self) {
        // The system's pages may be larger than a region; the next one SQLite changes in the live memory.
        for index in ENTRIES_AT / 8..self.page_bytes.min(REGION_BYTES) / 8 {
            let word = self.own_word(index).load(Ordering::Relaxed);
            let shared = self.live_word(index);
            if shared.load(Ordering::Relaxed) != word {
                shared.store(word, Ordering::Relaxed);
            }
        }
        for copy in [HEADER_WORDS, 0] {
            fence(Ordering::SeqCst);
            for index in copy..copy + HEADER_WORDS {
                let word = self.own_word(index).load(Ordering::Relaxed);
                self.live_word(index).store(word, Ordering::Release);
            }
        }
    }

    /// Copies a read mark that SQLite has set in a private page into the shared one. Only while the
    /// connection holds the exclusive lock on it.
    pub(crate) fn publish_read_mark(&self, index: usize) {
        let place = READ_MARKS_AT + 4 * index;
        let (word, mask) = (place / 8, half_of_word(place));
        let mark = self.own_word(word).load(Ordering::Relaxed) & mask;
        let shared = self.live_word(word);
        let set = |old| Some(old & !mask | mark);
        // Release: a thread that sees the lock free sees the mark.
        let _ = shared.fetch_update(Ordering::Release, Ordering::Relaxed, set);
    }

    /// Makes the next checkpoint copy all of the WAL again. Only inside a checkpoint: nobody goes by the number then.
    pub(crate) fn forget_backfill(&self) {
        let others = !half_of_word(BACKFILLED_AT);
        self.live_word(BACKFILLED_AT / 8).fetch_and(others, Ordering::Relaxed);
    }

    /// What shared memory says of checkpoints and readers at this moment.
    pub(crate) fn live_checkpoint_info(&self) -> CheckpointInfo {
        let number = |place: usize| {
            let word = self.live_word(place / 8).load(Ordering::Relaxed).to_ne_bytes();
            let at = place % 8;
            u32::from_ne_bytes(word[at..at + 4].try_into().expect("four bytes"))
        };
        CheckpointInfo {
            backfilled: number(BACKFILLED_AT),
            read_marks: core::array::from_fn(|index| number(READ_MARKS_AT + 4 * index)),
        }
    }

    /// Gives the shared first page back to the connection. False when the system has no memory: the
    /// page is private as before.
    pub(crate) fn share_again(&mut self) -> bool {
        if !self.private {
            return true;
        }
        // Not through rustix, whose 1.1.6 passes MAP_FIXED where MREMAP_FIXED is meant.
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let (live, address) = (self.live.as_ptr().cast(), self.address());
        // SAFETY: both pages are mapped, the second by this view; see `make_private` and `of`.
        let mapped = unsafe { libc::mremap(live, 0, self.page_bytes, flags, address) };
        self.private = mapped == libc::MAP_FAILED;
        !self.private
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`, and not used any more.
        let unmapped = unsafe { mm::munmap(self.address(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A first region that nobody else has. It stays mapped.
    fn memory() -> NonNull<c_void> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let mapped = unsafe {
            mm::mmap_anonymous(core::ptr::null_mut(), REGION_BYTES, protection, MapFlags::SHARED)
        };
        NonNull::new(mapped.expect("memory")).expect("an address")
    }

    fn view(memory: NonNull<c_void>) -> View {
        // SAFETY: a shared mapping of a region, which stays.
        unsafe { View::of(memory) }.expect("a second mapping")
    }

    /// A reader was held up between the headers and what lies behind them. Meanwhile others committed, and a
    /// checkpoint came further than its snapshot: it took the database file for as new as the snapshot, and saw
    /// what had been there before.
    #[test]
    fn a_refreshed_page_is_of_one_moment() {
        const COMMITS: u64 = 20_000;
        let memory = memory();
        let mut reader = view(memory);
        // What is copied last.
        let behind = reader.page_bytes / 8 - 1;
        assert!(reader.make_private(&[0; HEADER_WORDS]));
        let address = memory.as_ptr().expose_provenance();
        std::thread::scope(|scope| {
            let writing = scope.spawn(move || {
                let memory = core::ptr::with_exposed_provenance_mut(address);
                let writer = view(NonNull::new(memory).expect("an address"));
                for commit in 1..=COMMITS {
                    for index in [HEADER_WORDS, 0] {
                        for word in index..index + HEADER_WORDS {
                            writer.live_word(word).store(commit, Ordering::Release);
                        }
                    }
                    writer.live_word(behind).store(commit, Ordering::Release);
                    (0..commit % 1000).for_each(|_| core::hint::spin_loop());
                }
            });
            while !writing.is_finished() {
                if reader.refresh() {
                    let header = reader.header();
                    let newest = reader.own_word(behind).load(Ordering::Relaxed);
                    assert_eq!(header, [header[0]; HEADER_WORDS]);
                    assert!(newest <= header[0], "{newest} behind {}", header[0]);
                }
            }
        });
        assert!(reader.refresh());
        assert_eq!(reader.header(), [COMMITS; HEADER_WORDS]);
    }
}
