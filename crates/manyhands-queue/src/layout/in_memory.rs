//! An empty queue for a model checker, whose atomics are not bare integers.

use super::*;

impl Shared {
    /// Without requests, and with all its room.
    pub(crate) fn empty(first: u64) -> Box<Shared> {
        use core::array::from_fn;
        let word = || AtomicU64::new(0);
        let half = || AtomicU32::new(0);
        let statistics =
            Statistics { batches: word(), requests: word(), turns: word(), successions: word() };
        let header = Header {
            identity: Line(Identity {
                magic: word(),
                layout: word(),
                program: word(),
                boot: [word(), word()],
                retired: word(),
            }),
            head: Line(AtomicU64::new(first)),
            tail: Line(AtomicU64::new(first)),
            leader: LeaderRecord {
                word: word(),
                since_ns: word(),
                pid: word(),
                label: Bytes(from_fn(|_| word())),
            },
            batch: BatchRecord {
                batch: word(),
                sealed: word(),
                announced: word(),
                frame_offset: word(),
                frame_header: from_fn(|_| word()),
                frame_change: word(),
            },
            hints: Line(Hints {
                slot: word(),
                member: word(),
                free_waiters: half(),
                free_futex: half(),
                full_ns: word(),
                spin_until_ns: word(),
            }),
            statistics: Line(statistics),
            checkpoint_starvation: Line(CheckpointStarvation {
                bytes: word(),
                frame: word(),
                since_ns: word(),
            }),
            used: Line(from_fn(|_| word())),
            futexes: Line(from_fn(|_| half())),
            ready: Line(Ready {
                slots: AtomicU64::new(SLOTS as u64),
                blocks: AtomicU64::new(BLOCKS as u64),
                members: AtomicU64::new(MEMBERS as u64),
            }),
            reserved_until_ns: Line(word()),
        };
        let slot = || Slot {
            word: word(),
            sleeping: half(),
            kind: half(),
            request_bytes: half(),
            answer_bytes: half(),
            block: half(),
            published_ns: word(),
            called_ns: word(),
            label: Bytes(from_fn(|_| word())),
            payload: Line(Bytes(from_fn(|_| word()))),
        };
        let ring = PageAligned(from_fn(|_| word()));
        let in_use = PageAligned(from_fn(|_| half()));
        let slots = PageAligned(from_fn(|_| slot()));
        let block_words = PageAligned(from_fn(|_| word()));
        let blocks = PageAligned(from_fn(|_| Bytes(from_fn(|_| word()))));
        let commit = || Commit { change: word(), before: word(), after: word(), tables: word() };
        let recent = PageAligned(from_fn(|_| commit()));
        let counters = PageAligned(from_fn(|_| Counter { key: word(), next: word() }));
        let predictions = PageAligned(from_fn(|_| half()));
        let member = || Member { pid: word(), label: Bytes(from_fn(|_| word())) };
        let members = PageAligned(from_fn(|_| member()));
        Box::new(Shared {
            header,
            ring,
            in_use,
            slots,
            block_words,
            recent,
            counters,
            predictions,
            blocks,
            members,
        })
    }
}
