//! A member at work in damaged memory: bytes decide what is damaged and what the member does. Shared
//! with the fuzz target `fuzz/fuzz_targets/queue_file.rs`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use manyhands_queue::{
    Claim, CommitFrame, CommitNote, Deadline, Entry, Kind, Lead, Orphan, Published, Queue,
};

/// Header, ring and counts: what a round can damage, and what is restored after it.
const DAMAGED_BYTES: usize = 53_248;
/// So are the words of the blocks, the first commits, the first counters of ids, and the slots that are used first.
const BLOCK_WORDS_AT: usize = 53_248;
const RECENT_AT: usize = 57_344;
const COUNTERS_AT: usize = 90_112;
const SLOTS_AT: usize = 376_832;
const MORE_DAMAGED: [(usize, usize); 4] =
    [(BLOCK_WORDS_AT, 112 * 8), (RECENT_AT, 8 * 32), (COUNTERS_AT, 16 * 16), (SLOTS_AT, 8 * 2048)];
/// Where it stands how many slots have their room.
const READY_AT: usize = 1024;
/// Where the head lies in the ring of a new file.
const OPERATIONS_MAX: usize = 64;

/// Bytes as a source of decisions; zeros when they are used up.
struct Decisions<'a>(&'a [u8]);

impl Decisions<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn below(&mut self, bound: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % bound
    }

    fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}

/// A queue to damage, and the image that heals it.
pub struct Patient {
    queue: Arc<Queue>,
    file: File,
    image: Vec<u8>,
    rounds: u64,
}

impl Patient {
    pub fn new(queue: Arc<Queue>, file: File) -> Patient {
        let mut image = vec![0; file.metadata().expect("an open file").len() as usize];
        file.read_exact_at(&mut image, 0).expect("a whole queue file");
        Patient { queue, file, image, rounds: 0 }
    }

    /// Heals the memory, then damages it and works in it as `bytes` say.
    pub fn strain(&mut self, bytes: &[u8]) {
        self.rounds += 1;
        // A round may lose slots that it does not damage.
        let healed = if self.rounds % 256 == 1 { self.image.len() } else { DAMAGED_BYTES };
        self.write(0, &self.image[..healed]);
        for (at, count) in MORE_DAMAGED {
            self.write(at, &self.image[at..at + count]);
        }
        let mut decisions = Decisions(bytes);
        let mut hands = Hands::default();
        for _ in 0..OPERATIONS_MAX {
            if decisions.is_over() {
                break;
            }
            if decisions.byte().is_multiple_of(3) {
                self.damage(&mut decisions);
            } else {
                hands.act(&self.queue, &mut decisions);
            }
        }
    }

    fn damage(&self, decisions: &mut Decisions) {
        let at = match decisions.byte() % 8 {
            // The words of the header.
            0 => match decisions.below(59) {
                word @ 0..56 => word * 8,
                word => READY_AT + (word - 56) * 8,
            },
            // The ring, where a new file's head is, and anywhere.
            1 => 4096 + decisions.below(8) * 8,
            2 => 4096 + decisions.below(4096) * 8,
            // A slot's words.
            3 => SLOTS_AT + decisions.below(8) * 2048 + decisions.below(12) * 8,
            // The word of a block that the first slots use.
            4 => BLOCK_WORDS_AT + decisions.below(8) * 8,
            5 => RECENT_AT + decisions.below(32) * 8,
            6 => COUNTERS_AT + decisions.below(32) * 8,
            _ => decisions.below(DAMAGED_BYTES / 8) * 8,
        };
        let word = match decisions.byte() % 6 {
            0 => 0,
            1 => u64::MAX,
            2 => u64::from(decisions.byte()),
            // A ticket near the first, a slot or a member, a state.
            3 => {
                let ticket = 4090 + u64::from(decisions.byte() % 16);
                ticket << 16
                    | u64::from(decisions.byte() % 16) << 4
                    | u64::from(decisions.byte() % 8)
            }
            4 => 4090 + u64::from(decisions.byte() % 16),
            _ => u64::from_ne_bytes([0; 8].map(|_: u8| decisions.byte())),
        };
        self.write(at, &word.to_ne_bytes());
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.file.write_all_at(bytes, at as u64).expect("the file can be written");
    }
}

/// What a member has in hand.
#[derive(Default)]
struct Hands {
    claim: Option<Claim>,
    published: Option<Published>,
    lead: Option<Lead>,
    in_batch: bool,
    entry: Option<Entry>,
    taken: Option<(Entry, usize)>,
    executed: Vec<Entry>,
}

impl Hands {
    fn act(&mut self, queue: &Arc<Queue>, decisions: &mut Decisions) {
        let soon = Deadline::after(Duration::ZERO);
        match decisions.byte() % 22 {
            0 | 1 => self.claim = queue.claim(soon),
            2 | 3 => {
                if let Some(mut claim) = self.claim.take() {
                    let long = if decisions.byte().is_multiple_of(2) { 0 } else { 1790 };
                    let request = vec![7; long + decisions.below(64)];
                    claim.write(&request, 8);
                    let kind =
                        if decisions.byte().is_multiple_of(4) { Kind::Turn } else { Kind::Request };
                    self.published = claim.publish(kind, "strain").ok();
                }
            }
            4 => self.claim = None,
            5 => self.published = None,
            6 => {
                if let Some(published) = &mut self.published {
                    published.withdraw();
                }
            }
            7 => {
                if let Some(published) = &self.published {
                    published.wait(soon, Duration::ZERO);
                    published.tickets_ahead();
                }
            }
            8 => {
                if let Some(published) = self.published.take() {
                    published.into_answer();
                }
            }
            9 => {
                queue.leader();
                queue.progress();
                queue.counters();
                queue.is_idle();
            }
            20 | 21 => {
                let (table, id) = (decisions.below(16) as u64, decisions.below(8) as i64);
                match decisions.byte() % 8 {
                    0 => queue.forget_ids(),
                    1 | 2 => queue.give_back_id(table, id),
                    _ => {
                        queue.has_reservations(table);
                        if let Some(given) = queue.reserve_id(table, id) {
                            assert!(given > id, "{given} is not above {id}");
                        }
                    }
                }
            }
            10 | 11 if self.lead.is_none() => {
                self.lead = queue.try_lead("strain").or_else(|| queue.try_take_over("strain"));
            }
            _ => self.lead(decisions),
        }
    }

    /// What a leader does. The order of its calls is its own affair, not the memory's.
    fn lead(&mut self, decisions: &mut Decisions) {
        let Some(lead) = &mut self.lead else { return };
        if lead.orphan() == Orphan::Batch {
            lead.unresolved();
            lead.resolve(decisions.byte().is_multiple_of(2));
            return;
        }
        let mut request = Vec::new();
        match decisions.byte() % 10 {
            0 | 1 if !self.in_batch => {
                lead.begin_batch();
                self.in_batch = true;
            }
            0..=2 => {
                let from = self.entry.filter(|_| self.in_batch).map(|entry| entry.ticket.next());
                self.entry = lead.next(from);
            }
            3 | 4 => {
                let Some(entry) = self.entry else { return };
                lead.peek(&entry, &mut request);
                if self.in_batch && self.taken.is_none() && lead.take(&entry, &mut request) {
                    self.taken = Some((entry, request.len()));
                }
            }
            5 => {
                let Some((entry, request_bytes)) = self.taken.take() else { return };
                match decisions.byte() % 4 {
                    0 => lead.put_back(&entry),
                    1 => lead.demand_turn(&entry),
                    _ => {
                        let room = Lead::answer_room(request_bytes);
                        if lead.executed(&entry, request_bytes, &vec![8; room.min(24)]) {
                            self.executed.push(entry);
                        }
                    }
                }
            }
            6 if self.in_batch => {
                if decisions.byte().is_multiple_of(3) {
                    for entry in &self.executed {
                        lead.replace_answer(entry, |room| vec![9; room.min(40)]);
                    }
                }
                lead.queue().announce(&CommitFrame { offset: 1, header: [2; 24], change: 3 });
                lead.queue().seal();
                if let Some((entry, _)) = self.taken.take() {
                    lead.put_back(&entry);
                }
                lead.end_batch(&self.executed, true);
                self.executed.clear();
                self.in_batch = false;
            }
            7 => {
                let Some(entry) = self.entry else { return };
                if let Some(published) = &mut self.published
                    && lead.accept_turn(&entry, published)
                {
                    return;
                }
                lead.call(&entry);
            }
            9 => {
                let change = decisions.below(8) as u32;
                let (before, after) = (u64::from(change), u64::from(change) + 1);
                lead.note_commit(&CommitNote { change, before, after, tables: 1 });
                lead.queue().tables_written_since(0, 1, change, after);
                lead.queue().tables_written_since(change, before, u32::MAX, 0);
            }
            8 => {
                *self = Hands {
                    claim: self.claim.take(),
                    published: self.published.take(),
                    ..Hands::default()
                };
            }
            _ => {}
        }
    }
}
