//! The queue file, byte by byte. All integers are in the machine's byte order: the file never
//! leaves the machine, and the boot id in it says which boot of it.
//!
//! ```text
//!       0  header, 4096 bytes
//!            0  magic            u64   "manyhand"; written last when the file is built
//!            8  layout           u64   this drawing's number; another number is refused
//!           16  program          u64   SQLite's version number; another number is refused
//!           24  boot             2 u64 id of the machine's boot
//!           40  retired          u64   not 0: damaged or deleted, members leave for a new file
//!           64  head             u64   the first ticket that may still be waiting
//!          128  tail             u64   a hint: the next ticket, or one that was drawn already
//!          192  leader           u64   see leader.rs
//!          200  leader_since_ns  u64
//!          208  leader_pid       u64
//!          216  leader_label     5 u64
//!          256  batch            u64   number of the batch that is being executed, or was last
//!          264  sealed           u64   the batch whose commit nothing can undo
//!          272  announced        u64   the batch that the next six words speak of
//!          280  frame_offset     u64   where in the -wal file its commit frame goes
//!          288  frame_header     3 u64 the frame's 24 bytes of header
//!          312  frame_change     u64   the wal-index's change counter before the commit, 32 bits; bit 32: the
//!                                commit is being published
//!          320  slot_hint        u64   where to look for a free slot, and where nobody else does
//!          328  member_hint      u64   where to look for a free member number
//!          336  free_waiters     u32   threads that wait for a free slot
//!          340  free_futex        u32   futex: a slot was freed
//!          344  full_ns          u64   when somebody last found no free slot
//!          352  spin_until_ns u64   until when nobody need watch: one does, or there is a pause, see spin.rs
//!          384  statistics       see `Statistics`
//!          448  held_bytes       u64   how much of the WAL a reader keeps from being reused; 0: nobody does
//!          456  held_frame       u64   up to which frame checkpoints have come since then
//!          464  held_since_ns    u64
//!          512  used             32 u64: a bit for each slot, see free_slots.rs
//!          768  bells            64 u32: futexes: a slot changed, see wait.rs
//!         1024  slots_ready      u64   how many slots, and so on, have their room on the disk: see room.rs
//!         1032  blocks_ready     u64
//!         1040  members_ready    u64
//!         1088  reserved_until_ns u64  until when the leader's free place is its last leader's, see barging.rs
//!         1152  figures              what leaders count, see figures.rs
//!            0  alone            u64
//!            8  in_turn          u64
//!           16  syncs            u64
//!           24  sync_ns          u64
//!         1216  holding              what the leader does, see told.rs
//!            0  version          u64
//!            8  owner            u64
//!           16  since_ns         u64
//!           24  bytes            u64
//!           32  text             28 u64
//!         1472  conflicting          the last conflict, as holding
//!         1728  waits            128 u64: how many waits were how long, see figures.rs
//!    4096  ring, 4096 u64: ticket << 16 | slot + 1
//!   36864  in_use, 4096 u32: how many slots each member number has claimed, or lost by dying
//!   53248  block_words, 112 u64: whose each block is, see block.rs
//!   57344  recent, 1024 of 32 bytes: see recent.rs
//!            0  change           u64   0: no entry
//!            8  before           u64
//!           16  after            u64
//!           24  tables           u64
//!   90112  counters, 512 of 16 bytes: see ids.rs
//!            0  key              u64   hash of a table's name; 0: free
//!            8  next             u64   0: none
//!   98304  predictions, 4096 u32: which transactions write, see predictions.rs
//!  114688  members, 4096 of 64 bytes: for messages
//!            0  pid              u64   as its own pid namespace counts
//!            8  label            5 u64
//!           48  cancels          u32   see cancels.rs
//!           52  cancelled        u32
//!           56  joined_ns        u64
//!  376832  slots, 2048 of 2048 bytes, those that are used first before the others: see `place_of_slot`
//!            0  word             u64   see slot.rs
//!            8  sleeping         u32   not 0 while the owner may sleep on its bell, see wait.rs
//!           12  kind             u32   1: the owner asks for its turn
//!           16  request_bytes    u32
//!           20  answer_bytes     u32
//!           24  block            u32   number + 1 of the block that holds the request; 0 for none
//!           32  published_ns     u64
//!           40  called_ns        u64   when a leader first called the owner of this turn
//!           48  label            5 u64
//!          128  payload          1920 bytes: the request unless it is in a block, then the answer,
//!                                each 8-byte aligned
//! 4571136  blocks, 112 of 32768 bytes: requests too long for a slot
//! 8241152  counts, 2048 of 64 bytes: of member n, and of member 2048 + n, see counts.rs
//!            0  commits          u64
//!            8  promotions       u32
//!           12  replays          u32
//!           16  conflicts        u32
//!           20  escalations      u32
//!           24  unused           8 bytes
//!           32  the same of the other
//! 8372224  end
//! ```
//!
//! Bytes are kept in 64-bit atomics and copied word by word. So reading what another process writes
//! at the same moment is never undefined behaviour, only a value that fails its checks.

/// Memory for model checkers.
#[cfg(any(loom, shuttle))]
mod in_memory;

#[cfg(not(any(loom, shuttle)))]
use core::mem::size_of;

#[cfg(not(any(loom, shuttle)))]
use crate::planted::planted;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Number of this layout. Raise it with every change of this file, or of what requests and answers are.
pub const LAYOUT: u64 = 13;

/// The number in the files of this process: with the planted fault it is another version's.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn layout() -> u64 {
    LAYOUT + u64::from(planted("another-layout"))
}

/// The first eight bytes of a queue file that is complete.
#[cfg(not(any(loom, shuttle)))]
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"manyhand");

/// How many requests can wait in shared memory at once. Clients above this number wait for a slot.
#[cfg(not(any(loom, shuttle)))]
pub const SLOTS: usize = 2048;
/// Small enough for a model checker, large enough to wrap.
#[cfg(any(loom, shuttle))]
pub const SLOTS: usize = 3;

/// Words with a bit for each slot.
pub(crate) const SLOT_WORDS: usize = SLOTS.div_ceil(64);

/// Where a slot lies. They are taken from many words, the first of each first (`free_slots.rs`): these lie in a row, so that
/// few of them need little room.
pub(crate) fn place_of_slot(slot: usize) -> usize {
    slot % 64 * SLOT_WORDS + slot / 64
}

/// The slot that lies there.
pub(crate) fn slot_at_place(place: usize) -> usize {
    place % SLOT_WORDS * 64 + place / SLOT_WORDS
}

/// How many bells there are: a futex tells 32 sleepers apart.
pub(crate) const FUTEXES: usize = SLOTS.div_ceil(u32::BITS as usize);

/// Length of the ticket ring. More than [`SLOTS`], since a cancelled request leaves its ring entry
/// behind until the head passes it.
#[cfg(not(any(loom, shuttle)))]
pub(crate) const RING: usize = 4096;
#[cfg(any(loom, shuttle))]
pub(crate) const RING: usize = 4;

/// How many requests that are too long for a slot can wait at once. As many as keep the file below
/// 8 MiB.
#[cfg(not(any(loom, shuttle)))]
pub(crate) const BLOCKS: usize = 112;
/// Few enough for a model checker.
#[cfg(any(loom, shuttle))]
pub(crate) const BLOCKS: usize = 2;

/// How many commits are remembered with the tables that they wrote.
#[cfg(not(any(loom, shuttle)))]
pub(crate) const RECENT: usize = 1024;
#[cfg(any(loom, shuttle))]
pub(crate) const RECENT: usize = 2;

/// For how many tables ids can be reserved at once.
#[cfg(not(any(loom, shuttle)))]
pub(crate) const TABLES: usize = 512;
/// One, so that two tables contend for it.
#[cfg(any(loom, shuttle))]
pub(crate) const TABLES: usize = 1;

/// How many kinds of transactions are remembered as writers or readers.
#[cfg(not(any(loom, shuttle)))]
pub(crate) const PREDICTIONS: usize = 4096;
#[cfg(any(loom, shuttle))]
pub(crate) const PREDICTIONS: usize = 1;

/// How many processes can be members at once; the number has 12 bits in a slot's word.
#[cfg(not(any(loom, shuttle)))]
pub const MEMBERS: usize = 4096;
/// Few enough for a model checker.
#[cfg(any(loom, shuttle))]
pub const MEMBERS: usize = 4;

/// Bytes of a label. A longer one is cut.
#[cfg(not(any(loom, shuttle)))]
pub const LABEL_BYTES: usize = 40;
/// One word: each more is a place where a model checker lets another thread go on.
#[cfg(any(loom, shuttle))]
pub const LABEL_BYTES: usize = 8;
const LABEL_WORDS: usize = LABEL_BYTES / 8;

#[cfg(not(any(loom, shuttle)))]
const PAYLOAD_WORDS: usize = 240;
#[cfg(any(loom, shuttle))]
const PAYLOAD_WORDS: usize = 2;

/// Bytes of a slot that a request and its answer share.
pub const PAYLOAD_BYTES: usize = PAYLOAD_WORDS * 8;

#[cfg(not(any(loom, shuttle)))]
const BLOCK_WORDS: usize = 4096;
#[cfg(any(loom, shuttle))]
const BLOCK_WORDS: usize = 2;

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = BLOCK_WORDS * 8;

/// A run of bytes in shared memory.
#[repr(C)]
pub(crate) struct Bytes<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> Bytes<WORDS> {
    /// Copies `bytes` in, from byte `at` on, which is a multiple of 8.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at.is_multiple_of(8) && at + bytes.len() <= WORDS * 8, "bytes outside their place");
        let words = &self.0[at / 8..];
        let mut chunks = bytes.chunks_exact(8);
        let mut next = 0;
        for chunk in &mut chunks {
            let word = u64::from_ne_bytes(chunk.try_into().expect("a chunk of 8 bytes"));
            words[next].store(word, Ordering::Relaxed);
            next += 1;
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            words[next].store(u64::from_ne_bytes(last), Ordering::Relaxed);
        }
    }

    /// Copies `count` bytes out, from byte `at` on. `None` when they do not lie inside: the numbers
    /// come from shared memory and are not to be trusted.
    pub(crate) fn read(&self, at: usize, count: usize, into: &mut Vec<u8>) -> Option<()> {
        into.clear();
        if !at.is_multiple_of(8) || at.checked_add(count)? > WORDS * 8 {
            return None;
        }
        into.reserve(count.next_multiple_of(8));
        for word in &self.0[at / 8..(at + count).div_ceil(8)] {
            into.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        into.truncate(count);
        Some(())
    }

    /// Stores `text`, cut at a character's border, padded with zeros.
    pub(crate) fn write_text(&self, text: &str) {
        let text = &text.as_bytes()[..text.floor_char_boundary(WORDS * 8)];
        self.write(0, text);
        for word in &self.0[text.len().div_ceil(8)..] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Reads what [`Bytes::write_text`] stored; bytes that are no text are replaced.
    pub(crate) fn read_text(&self) -> String {
        let mut bytes = Vec::new();
        if self.read(0, WORDS * 8, &mut bytes).is_none() {
            return String::new();
        }
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

/// An instance on a cache line of its own, so that its writers do not disturb its neighbours.
#[repr(C, align(64))]
pub(crate) struct Line<T>(pub(crate) T);

/// Identity of the file; constant after it was built, but for `retired`.
#[repr(C)]
pub(crate) struct Identity {
    pub(crate) magic: AtomicU64,
    pub(crate) layout: AtomicU64,
    pub(crate) program: AtomicU64,
    pub(crate) boot: [AtomicU64; 2],
    pub(crate) retired: AtomicU64,
}

/// Who leads. `word` is guarded by compare-and-swap, the rest is written by the leader alone and
/// serves messages only.
#[repr(C)]
pub(crate) struct LeaderRecord {
    pub(crate) word: AtomicU64,
    pub(crate) since_ns: AtomicU64,
    pub(crate) pid: AtomicU64,
    pub(crate) label: Bytes<LABEL_WORDS>,
}

/// What a successor needs in order to learn the fate of a dead leader's batch. Written by the
/// leader alone.
#[repr(C)]
pub(crate) struct BatchRecord {
    pub(crate) batch: AtomicU64,
    pub(crate) sealed: AtomicU64,
    pub(crate) announced: AtomicU64,
    pub(crate) frame_offset: AtomicU64,
    pub(crate) frame_header: [AtomicU64; 3],
    pub(crate) frame_change: AtomicU64,
}

/// Where to look first, and who waits for a free slot.
#[repr(C)]
pub(crate) struct Hints {
    pub(crate) slot: AtomicU64,
    pub(crate) member: AtomicU64,
    pub(crate) free_waiters: AtomicU32,
    pub(crate) free_futex: AtomicU32,
    pub(crate) full_ns: AtomicU64,
    pub(crate) spin_until_ns: AtomicU64,
}

/// Counters since the file was built. Written by leaders, read by anybody.
#[repr(C)]
pub(crate) struct Statistics {
    pub(crate) batches: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) turns: AtomicU64,
    pub(crate) successions: AtomicU64,
}

/// What a reader keeps from being reused. Written by leaders, read by anybody.
#[repr(C)]
pub(crate) struct CheckpointStarvation {
    pub(crate) bytes: AtomicU64,
    pub(crate) frame: AtomicU64,
    pub(crate) since_ns: AtomicU64,
}

/// How much of the file has its room on the disk. It only grows.
#[repr(C)]
pub(crate) struct Ready {
    pub(crate) slots: AtomicU64,
    pub(crate) blocks: AtomicU64,
    pub(crate) members: AtomicU64,
}

/// What leaders count for people. Written by leaders, read by anybody.
#[cfg(not(any(loom, shuttle)))]
#[repr(C)]
pub(crate) struct FigureWords {
    pub(crate) alone: AtomicU64,
    pub(crate) in_turn: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) sync_ns: AtomicU64,
}

/// A statement that was told, see `told.rs`.
#[cfg(not(any(loom, shuttle)))]
#[repr(C)]
pub(crate) struct ToldWords {
    pub(crate) version: AtomicU64,
    pub(crate) owner: AtomicU64,
    pub(crate) since_ns: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) text: Bytes<TOLD_WORDS>,
}

/// Words of a statement that is told.
#[cfg(not(any(loom, shuttle)))]
const TOLD_WORDS: usize = 28;
/// Its bytes. A longer statement is cut.
#[cfg(not(any(loom, shuttle)))]
pub const TOLD_BYTES: usize = TOLD_WORDS * 8;

/// How many lengths of waits are told apart.
#[cfg(not(any(loom, shuttle)))]
pub(crate) const WAITS: usize = 128;

#[repr(C)]
pub(crate) struct Header {
    pub(crate) identity: Line<Identity>,
    pub(crate) head: Line<AtomicU64>,
    pub(crate) tail: Line<AtomicU64>,
    pub(crate) leader: LeaderRecord,
    pub(crate) batch: BatchRecord,
    pub(crate) hints: Line<Hints>,
    pub(crate) statistics: Line<Statistics>,
    pub(crate) checkpoint_starvation: Line<CheckpointStarvation>,
    pub(crate) used: Line<[AtomicU64; SLOT_WORDS]>,
    pub(crate) futexes: Line<[AtomicU32; FUTEXES]>,
    pub(crate) ready: Line<Ready>,
    pub(crate) reserved_until_ns: Line<AtomicU64>,
    // What serves people alone is no part of what a model checker explores.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) figures: Line<FigureWords>,
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) holding: Line<ToldWords>,
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) conflicting: Line<ToldWords>,
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) waits: Line<[AtomicU64; WAITS]>,
}

#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) word: AtomicU64,
    pub(crate) sleeping: AtomicU32,
    pub(crate) kind: AtomicU32,
    pub(crate) request_bytes: AtomicU32,
    pub(crate) answer_bytes: AtomicU32,
    pub(crate) block: AtomicU32,
    pub(crate) published_ns: AtomicU64,
    pub(crate) called_ns: AtomicU64,
    pub(crate) label: Bytes<LABEL_WORDS>,
    pub(crate) payload: Line<Bytes<PAYLOAD_WORDS>>,
}

/// What a commit wrote. Written by the leader alone.
#[repr(C)]
pub(crate) struct Commit {
    pub(crate) change: AtomicU64,
    pub(crate) before: AtomicU64,
    pub(crate) after: AtomicU64,
    pub(crate) tables: AtomicU64,
}

/// The next id of a table.
#[repr(C)]
pub(crate) struct Counter {
    pub(crate) key: AtomicU64,
    pub(crate) next: AtomicU64,
}

/// Who a member is. Written by itself when it joins, and meaningful as long as it lives.
#[repr(C, align(64))]
pub(crate) struct Member {
    pub(crate) pid: AtomicU64,
    pub(crate) label: Bytes<LABEL_WORDS>,
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) cancels: AtomicU32,
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) cancelled: AtomicU32,
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) joined_ns: AtomicU64,
}

/// What a member has done. Written by itself.
#[cfg(not(any(loom, shuttle)))]
#[repr(C, align(32))]
pub(crate) struct CountWords {
    pub(crate) commits: AtomicU64,
    pub(crate) promotions: AtomicU32,
    pub(crate) replays: AtomicU32,
    pub(crate) conflicts: AtomicU32,
    pub(crate) escalations: AtomicU32,
}

/// Everything that the members share.
#[repr(C)]
#[cfg_attr(not(any(loom, shuttle)), repr(align(4096)))]
pub(crate) struct Shared {
    pub(crate) header: Header,
    pub(crate) ring: PageAligned<[AtomicU64; RING]>,
    pub(crate) in_use: PageAligned<[AtomicU32; MEMBERS]>,
    pub(crate) block_words: PageAligned<[AtomicU64; BLOCKS]>,
    pub(crate) recent: PageAligned<[Commit; RECENT]>,
    pub(crate) counters: PageAligned<[Counter; TABLES]>,
    pub(crate) predictions: PageAligned<[AtomicU32; PREDICTIONS]>,
    pub(crate) members: PageAligned<[Member; MEMBERS]>,
    pub(crate) slots: PageAligned<[Slot; SLOTS]>,
    pub(crate) blocks: PageAligned<[Bytes<BLOCK_WORDS>; BLOCKS]>,
    /// Neighbours have lines of their own.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) counts: PageAligned<[Line<[CountWords; 2]>; MEMBERS / 2]>,
}

// Not for a model checker: its tasks have small stacks, and whole pages would overflow them.
#[repr(C)]
#[cfg_attr(not(any(loom, shuttle)), repr(align(4096)))]
pub(crate) struct PageAligned<T>(pub(crate) T);

/// Bytes of the queue file.
#[cfg(not(any(loom, shuttle)))]
pub(crate) const FILE_BYTES: usize = size_of::<Shared>();

#[cfg(not(any(loom, shuttle)))]
const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(Header, head) == 64);
    assert!(offset_of!(Header, tail) == 128);
    assert!(offset_of!(Header, leader) == 192);
    assert!(offset_of!(Header, batch) == 256);
    assert!(offset_of!(Header, hints) == 320);
    assert!(offset_of!(Header, statistics) == 384);
    assert!(offset_of!(Header, checkpoint_starvation) == 448);
    assert!(offset_of!(Header, used) == 512);
    assert!(offset_of!(Header, futexes) == 768);
    assert!(offset_of!(Header, ready) == 1024);
    assert!(offset_of!(Header, reserved_until_ns) == 1088);
    assert!(offset_of!(Shared, ring) == 4096);
    assert!(offset_of!(Shared, in_use) == 36864);
    assert!(size_of::<Slot>() == 2048);
    assert!(offset_of!(Slot, block) == 24);
    assert!(offset_of!(Slot, published_ns) == 32);
    assert!(offset_of!(Slot, payload) == 128);
    assert!(offset_of!(Shared, block_words) == 53_248);
    assert!(offset_of!(Shared, recent) == 57_344);
    assert!(offset_of!(Shared, counters) == 90_112);
    assert!(offset_of!(Shared, predictions) == 98_304);
    assert!(offset_of!(Shared, members) == 114_688);
    assert!(size_of::<Member>() == 64);
    assert!(offset_of!(Shared, slots) == 376_832);
    assert!(offset_of!(Shared, blocks) == 4_571_136);
    assert!(offset_of!(Header, figures) == 1152);
    assert!(offset_of!(Header, holding) == 1216);
    assert!(offset_of!(Header, conflicting) == 1472);
    assert!(offset_of!(Header, waits) == 1728);
    assert!(offset_of!(Member, cancels) == 48);
    assert!(offset_of!(Shared, counts) == 8_241_152);
    assert!(size_of::<Line<[CountWords; 2]>>() == 64);
    assert!(FILE_BYTES == 8_372_224);
    assert!(FILE_BYTES < 8 << 20);
};

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn bytes() -> Bytes<4> {
        Bytes([const { AtomicU64::new(0) }; 4])
    }

    #[test]
    fn bytes_come_back_as_they_went_in() {
        let memory = bytes();
        let mut back = Vec::new();
        for count in 0..=24 {
            let data: Vec<u8> = (1..=count as u8).collect();
            memory.write(8, &data);
            memory.read(8, count, &mut back).expect("inside");
            assert_eq!(back, data);
        }
    }

    #[test]
    fn a_length_out_of_damaged_memory_is_refused() {
        let memory = bytes();
        let mut back = Vec::new();
        for (at, count) in [(0, 33), (8, 25), (4, 4), (32, 1), (8, usize::MAX), (usize::MAX - 7, 8)]
        {
            assert!(memory.read(at, count, &mut back).is_none(), "{at} {count}");
        }
    }

    #[test]
    fn a_label_is_cut_at_a_character() {
        let memory = bytes();
        memory.write_text("writer");
        assert_eq!(memory.read_text(), "writer");
        memory.write_text(&"é".repeat(20));
        assert_eq!(memory.read_text(), "é".repeat(16));
    }
}
