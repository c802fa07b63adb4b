//! The leader: one word in shared memory says who may write to the database now.
//!
//! ```text
//! word: epoch (40 bits) | member + 1 (16 bits), 0 for nobody | 8 bits: 1 for unresolved, 2 for reserved
//! ```
//!
//! | word               | who may change it          | to                                              |
//! |--------------------|----------------------------|-------------------------------------------------|
//! | nobody             | anybody who wants to lead  | member, epoch + 1, unresolved kept              |
//! | nobody, reserved   | its last leader            | member, epoch + 1; nobody, and not reserved     |
//! |                    | anybody, when that is over | member, epoch + 1 (`barging.rs`)                |
//! | a member that lives| that member's leader       | nobody, with unresolved as its batch stands, or |
//! |                    |                            | reserved                                        |
//! | a member that died | anybody who saw it dead    | member, epoch + 1, unresolved = 1               |
//!
//! What always holds: only the leader moves `head`, moves slots into and out of Taken and Executed,
//! and writes the batch record. A batch in hand when its leader dies is *unresolved*: the successor
//! finds out whether it was committed, and settles its slots, before it does anything else.
//!
//! Leadership orders the writers of Manyhands among themselves. What keeps the database whole is
//! SQLite's own write lock, which every leader takes.

use core::time::Duration;
use std::sync::Arc;

use crate::block;
use crate::clock::now_ns;
use crate::crash;
use crate::fate::Fate;
use crate::layout::{MEMBERS, PAYLOAD_BYTES, RING};
use crate::planted::planted;
use crate::published::Published;
use crate::queue::{Kind, Queue};
use crate::slot::{SlotState, SlotWord};
use crate::sync::{Ordering, fence};
use crate::ticket::{self, Ticket};

/// How long the owner of a turn may take to answer the call before it is passed over. A process that
/// runs answers within a scheduling delay; a stopped one must not hold up the rest.
const CALL_PATIENCE_NS: u64 = 100_000_000;

/// The word's flags.
const UNRESOLVED: u64 = 1;
/// See [`UNRESOLVED`].
const RESERVED: u64 = 2;

/// The leader's word, taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaderWord(u64);

impl LeaderWord {
    /// The word as it stands in shared memory.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn of(bits: u64) -> LeaderWord {
        LeaderWord(bits)
    }

    pub(crate) fn is_free(self) -> bool {
        self.holder().is_none()
    }

    pub(crate) fn holder(self) -> Option<u16> {
        ((self.0 >> 8 & 0xFFFF) as u16).checked_sub(1)
    }

    fn unresolved(self) -> bool {
        self.0 & UNRESOLVED != 0
    }

    pub(crate) fn is_reserved(self) -> bool {
        self.0 & RESERVED != 0
    }

    /// False for a word that no member writes: the memory is damaged.
    fn is_plausible(self) -> bool {
        self.0 & 0xFF <= UNRESOLVED + RESERVED
            && self.holder().is_none_or(|member| usize::from(member) < MEMBERS)
    }

    pub(crate) fn epoch(self) -> u64 {
        self.0 >> 24
    }

    fn held_by(self, member: u16, unresolved: bool) -> LeaderWord {
        let epoch = self.epoch() + 1;
        LeaderWord(epoch << 24 | (u64::from(member) + 1) << 8 | u64::from(unresolved))
    }

    pub(crate) fn freed(self, unresolved: bool) -> LeaderWord {
        LeaderWord(self.epoch() << 24 | u64::from(unresolved))
    }

    pub(crate) fn reserved(self) -> LeaderWord {
        LeaderWord(self.0 | RESERVED)
    }

    pub(crate) fn not_reserved(self) -> LeaderWord {
        LeaderWord(self.0 & !RESERVED)
    }
}

/// Who leads, for messages.
#[derive(Clone, Debug)]
pub struct LeaderInfo {
    /// Its process id, as its own pid namespace counts.
    pub pid: u32,
    /// The label of the connection that leads.
    pub label: String,
    /// How long it has been leading.
    pub age: Duration,
}

/// Whether there is something to settle before leading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphan {
    /// The last leader ended in order.
    Nothing,
    /// The last leader died, or gave up, with a batch in hand.
    Batch,
}

/// A request or turn that waits, as the leader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the order of arrival.
    pub ticket: Ticket,
    /// What is asked for.
    pub kind: Kind,
    slot: usize,
    word: SlotWord,
}

impl Queue {
    pub(crate) fn leader_word(&self) -> LeaderWord {
        LeaderWord(self.region.shared().header.leader.word.load(Ordering::Acquire))
    }

    /// `None` when it is damaged: then the queue is no longer sound. Somebody may lead all the same, and be
    /// about to commit; to succeed it would be to execute its batch a second time.
    fn plausible_leader_word(&self) -> Option<LeaderWord> {
        let word = self.leader_word();
        if !word.is_plausible() {
            self.retire();
            return None;
        }
        Some(word)
    }

    /// Becomes the leader, if nobody is, and the place is not reserved.
    pub fn try_lead(self: &Arc<Queue>, label: &str) -> Option<Lead> {
        let free = self.plausible_leader_word()?;
        if !free.is_free() || self.is_reserved(free) {
            return None;
        }
        self.take_lead(free, free.unresolved(), None, label)
    }

    /// True while nobody leads, and the place is reserved for its last leader.
    pub fn is_only_reserved(&self) -> bool {
        let word = self.leader_word();
        word.is_free() && self.is_reserved(word)
    }

    /// Becomes the leader in the place of one that died, or that gave up with a batch in hand. `None`
    /// when there is no such leader. Costs a system call.
    pub fn try_take_over(self: &Arc<Queue>, label: &str) -> Option<Lead> {
        let held = self.plausible_leader_word()?;
        let vacant = match held.holder() {
            Some(holder) => !self.region.lives(holder) || planted("rob-the-leader"),
            None => held.unresolved(),
        };
        if !vacant {
            return None;
        }
        let lead = self.take_lead(held, true, None, label)?;
        let died = u64::from(!held.is_free());
        self.region.shared().header.statistics.0.successions.fetch_add(died, Ordering::Relaxed);
        Some(lead)
    }

    /// Lets go of a leadership that a dead member held under the number that is ours now.
    pub(crate) fn disown_leadership(&self) {
        let held = self.leader_word();
        if held.holder() == Some(self.region.member()) {
            self.change_leader(held, held.freed(true));
        }
    }

    pub(crate) fn change_leader(&self, from: LeaderWord, to: LeaderWord) -> bool {
        let word = &self.region.shared().header.leader.word;
        // Acquire and Release: a leader sees the head and the batch record as the last one left them.
        word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// `quantum_ends_ns` is that of the quantum in which the caller leads again.
    pub(crate) fn take_lead(
        self: &Arc<Queue>,
        from: LeaderWord,
        unresolved: bool,
        quantum_ends_ns: Option<u64>,
        label: &str,
    ) -> Option<Lead> {
        let record = &self.region.shared().header.leader;
        let word = from.held_by(self.region.member(), unresolved);
        let word = if quantum_ends_ns.is_some() { word.reserved() } else { word };
        if !self.change_leader(from, word) {
            return None;
        }
        let now = self.now_ns();
        let quantum_ends_ns = quantum_ends_ns.unwrap_or_else(|| now + self.quantum_ns());
        record.since_ns.store(now, Ordering::Relaxed);
        record.pid.store(u64::from(self.region.pid()), Ordering::Relaxed);
        record.label.write_text(label);
        crash::point("leading");
        let queue = Arc::clone(self);
        let (waited, in_batch, ended, answered) = (false, false, false, Vec::new());
        Some(Lead { queue, word, quantum_ends_ns, waited, in_batch, ended, answered })
    }

    /// Who leads now, for messages: it may have changed when this returns.
    pub fn leader(&self) -> Option<LeaderInfo> {
        let record = &self.region.shared().header.leader;
        self.leader_word().holder()?;
        Some(LeaderInfo {
            pid: record.pid.load(Ordering::Relaxed) as u32,
            label: record.label.read_text(),
            age: Duration::from_nanos(
                now_ns().saturating_sub(record.since_ns.load(Ordering::Relaxed)),
            ),
        })
    }

    /// True while somebody leads, or has died while it did.
    pub fn is_led(&self) -> bool {
        !self.leader_word().is_free()
    }

    /// How many leaders there have been.
    pub fn leaders(&self) -> u64 {
        self.leader_word().epoch()
    }

    /// A number that changes whenever a leader begins or a batch ends: while it moves, the leader
    /// lives.
    pub fn progress(&self) -> u64 {
        let header = &self.region.shared().header;
        let batch = header.batch.batch.load(Ordering::Relaxed);
        self.leader_word().0.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(batch)
    }
}

/// Leadership. Dropping it with a batch in hand leaves the batch to the next leader, as death would.
#[derive(Debug)]
pub struct Lead {
    pub(crate) queue: Arc<Queue>,
    pub(crate) word: LeaderWord,
    /// Until when it may be reserved.
    pub(crate) quantum_ends_ns: u64,
    /// It is a turn that its owner has waited for.
    pub(crate) waited: bool,
    pub(crate) in_batch: bool,
    pub(crate) ended: bool,
    /// Slots that were answered, and whose owners are still to be woken.
    pub(crate) answered: Vec<usize>,
}

impl core::fmt::Debug for LeaderWord {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "epoch {} holder {:?}", self.epoch(), self.holder())
    }
}

impl Lead {
    /// The queue that is led.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// True in a child that got this from its parent by `fork()`: it leads nothing there.
    pub fn is_inherited(&self) -> bool {
        self.queue.is_inherited()
    }

    /// Whether [`Lead::unresolved`] must be asked first.
    pub fn orphan(&self) -> Orphan {
        if self.word.unresolved() { Orphan::Batch } else { Orphan::Nothing }
    }

    /// Settles the batch that the last leader left: its requests are answered, if it was committed, and
    /// wait again, if not. If nobody can know, they get an answer of no bytes.
    pub fn resolve(&mut self, fate: impl Into<Fate>) {
        crash::point("recovering");
        let fate = fate.into();
        let queue = Arc::clone(&self.queue);
        let shared = queue.region.shared();
        if fate == Fate::Committed {
            // And if we die below? The next successor finds the batch sealed.
            self.queue.seal();
        }
        let head = Ticket(shared.header.head.0.load(Ordering::Relaxed));
        let mut ticket = head;
        while ticket.0.wrapping_sub(head.0) < RING as u64 && ticket::was_drawn(shared, ticket) {
            if let Some(slot) = ticket::slot_at(shared, ticket)
                && let Some(word) = self.queue.slot(slot).load()
                && word.ticket == ticket
            {
                match word.state {
                    SlotState::Executed if fate != Fate::NotCommitted => {
                        if fate == Fate::Unknown {
                            self.queue.slot(slot).answer_bytes.store(0, Ordering::Relaxed);
                        }
                        self.answer_slot(slot, word);
                    }
                    SlotState::Taken if planted("taken-is-lost") => {}
                    SlotState::Taken | SlotState::Executed => {
                        self.queue.slot(slot).advance(word, word.with(SlotState::Pending));
                    }
                    _ => {}
                }
            }
            ticket = ticket.next();
        }
        crash::point("recovered");
        let resolved = LeaderWord(self.word.0 & !0xFF);
        self.change_word(resolved);
        self.word = resolved;
        self.wake_answered();
    }

    /// Nobody changes the word under a living leader, but who damages the file: then this returns false.
    pub(crate) fn change_word(&self, to: LeaderWord) -> bool {
        let changed = self.queue.change_leader(self.word, to);
        if !changed {
            self.queue.retire();
        }
        changed
    }

    /// Opens a batch: from here to [`Lead::end_batch`] a death leaves it unresolved.
    pub fn begin_batch(&mut self) {
        assert!(!self.in_batch && self.orphan() == Orphan::Nothing);
        let record = &self.queue.region.shared().header.batch;
        record.batch.fetch_add(1, Ordering::Release);
        self.in_batch = true;
        crash::point("batch-begun");
    }

    /// The first entry that waits, at or after `from`; the head, when `from` is `None`. Gone entries
    /// at the head are passed for good.
    pub fn next(&self, from: Option<Ticket>) -> Option<Entry> {
        let shared = self.queue.region.shared();
        let mut ticket = from.unwrap_or_else(|| self.head());
        for _ in 0..RING {
            if !ticket::was_drawn(shared, ticket) {
                self.check_end(ticket);
                return None;
            }
            if let Some(slot) = ticket::slot_at(shared, ticket)
                && let Some(word) = self.queue.slot(slot).load()
                && word.ticket == ticket
                && word.state == SlotState::Pending
            {
                let kind = Kind::from_bits(self.queue.slot(slot).kind.load(Ordering::Relaxed));
                return Some(Entry { ticket, kind, slot, word });
            }
            // The head stays before a batch whose fate is open: `resolve` looks for it from there.
            if !self.in_batch && self.orphan() == Orphan::Nothing && ticket == self.head() {
                shared.header.head.0.store(ticket.next().0, Ordering::Release);
            }
            ticket = ticket.next();
        }
        None
    }

    /// `ticket` was not drawn. All before the tail were: if this one is, nobody comes to those behind it.
    fn check_end(&self, ticket: Ticket) {
        let shared = self.queue.region.shared();
        // Acquire, in `tail`: who sees a tail sees the entries before it.
        let is_passed = ticket < ticket::tail(shared) && !ticket::was_drawn(shared, ticket);
        if is_passed || ticket >= Ticket::END {
            self.queue.retire();
        }
    }

    fn head(&self) -> Ticket {
        Ticket(self.queue.region.shared().header.head.0.load(Ordering::Relaxed))
    }

    /// Copies a waiting request out without taking it. What is read may be damaged, if its owner
    /// withdraws it at this moment. No bytes are read of a request that is seen to be damaged.
    pub fn peek(&self, entry: &Entry, request: &mut Vec<u8>) {
        let shared = self.queue.region.shared();
        if block::read(shared, entry.slot, entry.word.member, request).is_none() {
            request.clear();
        }
    }

    /// Takes a waiting request, and copies it out. False when its owner withdrew it just now. It has
    /// no bytes when it is damaged, or when its owner died and its block is somebody else's.
    pub fn take(&mut self, entry: &Entry, request: &mut Vec<u8>) -> bool {
        assert!(self.in_batch, "a request is taken inside a batch");
        let slot = self.queue.slot(entry.slot);
        if !slot.advance(entry.word, entry.word.with(SlotState::Taken)) {
            return false;
        }
        crash::point("taken");
        self.peek(entry, request);
        true
    }

    /// Room for the answer to a request of `request_bytes`, in bytes.
    pub fn answer_room(request_bytes: usize) -> usize {
        PAYLOAD_BYTES - block::answer_at(request_bytes)
    }

    /// Writes the answer to a taken request of `request_bytes`. It holds once the batch is committed.
    /// False when the memory is damaged: the answer reaches nobody, and the queue is no longer sound.
    ///
    /// # Panics
    /// When the answer is larger than [`Lead::answer_room`].
    pub fn executed(&mut self, entry: &Entry, request_bytes: usize, answer: &[u8]) -> bool {
        let slot = self.queue.slot(entry.slot);
        if !planted("stale-answer") {
            slot.payload.0.write(block::answer_at(request_bytes), answer);
        }
        slot.answer_bytes.store(answer.len() as u32, Ordering::Relaxed);
        let taken = entry.word.with(SlotState::Taken);
        let moved = slot.advance(taken, entry.word.with(SlotState::Executed));
        if !moved {
            self.queue.retire();
        }
        if planted("answer-before-commit") {
            self.answer_slot(entry.slot, entry.word.with(SlotState::Executed));
        }
        crash::point("executed");
        moved
    }

    /// Replaces the answer of an executed request, whose commit failed, by an error. It is cut when it
    /// has no room.
    pub fn replace_answer(&mut self, entry: &Entry, answer: impl FnOnce(usize) -> Vec<u8>) {
        let slot = self.queue.slot(entry.slot);
        let request_bytes = slot.request_bytes.load(Ordering::Relaxed) as usize;
        let room = Lead::answer_room(request_bytes);
        let answer = answer(room);
        let answer = &answer[..answer.len().min(room)];
        slot.payload.0.write(block::answer_at(request_bytes), answer);
        slot.answer_bytes.store(answer.len() as u32, Ordering::Relaxed);
    }

    /// Lets a taken or executed request wait again, in its old place.
    pub fn put_back(&mut self, entry: &Entry) {
        let slot = self.queue.slot(entry.slot);
        if let Some(word) = slot.load()
            && word.ticket == entry.ticket
            && matches!(word.state, SlotState::Taken | SlotState::Executed)
        {
            slot.advance(word, word.with(SlotState::Pending));
        }
    }

    /// Makes the request of `entry` a turn: its owner executes it, in its old place.
    pub fn demand_turn(&mut self, entry: &Entry) {
        self.queue.slot(entry.slot).kind.store(Kind::Turn.to_bits(), Ordering::Relaxed);
        self.put_back(entry);
    }

    /// False when somebody has written over this leadership or a slot that it executed: then the batch must
    /// not be committed, since the owner may publish its request again. The queue is no longer sound.
    pub fn is_intact(&self, executed: &[Entry]) -> bool {
        let is_executed = |entry: &Entry| {
            self.queue.slot(entry.slot).load() == Some(entry.word.with(SlotState::Executed))
        };
        let intact = self.queue.leader_word() == self.word && executed.iter().all(is_executed)
            || planted("answer-before-commit")
            || planted("rob-the-leader");
        if !intact {
            self.queue.retire();
        }
        intact
    }

    /// Closes the batch. With `answered`, its executed requests are answered, in ticket order; the
    /// caller has put back all others. Who sleeps is woken by [`Lead::wake_answered`], or at the end of
    /// the leadership.
    pub fn end_batch(&mut self, executed: &[Entry], answered: bool) {
        assert!(self.in_batch);
        if answered {
            crash::point("committed");
            // Before their owners have the slots again.
            #[cfg(not(any(loom, shuttle)))]
            self.count_waits(executed.iter().map(|entry| self.published_ns(entry)));
            for (index, entry) in executed.iter().enumerate() {
                self.answer_slot(entry.slot, entry.word.with(SlotState::Executed));
                if index == 0 {
                    crash::point("first-answered");
                }
            }
            crash::point("answered");
            let statistics = &self.queue.region.shared().header.statistics.0;
            statistics.batches.fetch_add(1, Ordering::Relaxed);
            statistics.requests.fetch_add(executed.len() as u64, Ordering::Relaxed);
        }
        self.in_batch = false;
    }

    #[cfg(not(any(loom, shuttle)))]
    fn published_ns(&self, entry: &Entry) -> u64 {
        self.queue.slot(entry.slot).published_ns.load(Ordering::Relaxed)
    }

    fn answer_slot(&mut self, slot: usize, executed: SlotWord) {
        if self.queue.slot(slot).advance(executed, executed.with(SlotState::Answered)) {
            self.answered.push(slot);
        } else if !planted("answer-before-commit") {
            // Only the leader moves an executed slot. Its owner must not publish this request again.
            self.queue.retire();
        }
    }

    /// Wakes those who were answered: for a leader that goes on. One that ends its leadership gives the
    /// place away before it wakes them, since who is woken may take the processor from it.
    pub fn wake_answered(&mut self) {
        let answered = core::mem::take(&mut self.answered);
        self.queue.ring(answered);
    }

    /// True when `entry` is the turn that `published` waits for. Then the turn is taken out of the
    /// queue: its owner leads now.
    pub fn accept_turn(&mut self, entry: &Entry, published: &mut Published) -> bool {
        let mine = entry.slot == published.slot && entry.ticket == published.ticket();
        // Its slot may be another's afterwards.
        #[cfg(not(any(loom, shuttle)))]
        let published_ns = self.published_ns(entry);
        let accepted = mine && published.withdraw();
        if accepted {
            let statistics = &self.queue.region.shared().header.statistics.0;
            statistics.turns.fetch_add(1, Ordering::Relaxed);
            self.waited = true;
            #[cfg(not(any(loom, shuttle)))]
            self.count_waits([published_ns]);
        }
        accepted
    }

    /// Calls the owner of the turn `entry`, which is at the head. An owner that died, or that did not
    /// answer the call for 100 ms, is passed over: then this returns true, and the next entry is at
    /// the head. One that lives finds that out by itself: see [`Stage::PassedOver`](crate::Stage).
    pub fn call(&mut self, entry: &Entry) -> bool {
        let slot = self.queue.slot(entry.slot);
        let now = now_ns();
        let called = slot.called_ns.load(Ordering::Relaxed);
        // A call in the future is damaged memory.
        if called == 0 || called > now {
            slot.called_ns.store(now, Ordering::Relaxed);
        }
        let silent = called != 0 && now.saturating_sub(called) > CALL_PATIENCE_NS;
        if !self.queue.region.lives(entry.word.member) {
            return self.queue.free(entry.slot, entry.word);
        }
        if silent {
            return slot.advance(entry.word, entry.word.with(SlotState::PassedOver));
        }
        self.queue.ring([entry.slot]);
        false
    }

    /// Ends the leadership, and wakes the owner of the first entry that waits.
    pub fn release(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if self.ended || self.queue.is_inherited() && !planted("a-child-releases") {
            return;
        }
        self.ended = true;
        // Passes what is gone, so that the look below is short.
        let _ = self.next(None);
        let unresolved = self.in_batch || self.orphan() == Orphan::Batch;
        self.change_word(self.word.freed(unresolved));
        // Either who publishes now sees the place free, or we see its entry below: see wait.rs.
        fence(Ordering::SeqCst);
        crash::point("released");
        let next = self.queue.first_waiting().map(|(_, slot)| slot);
        let awake = next.into_iter().chain(core::mem::take(&mut self.answered));
        self.queue.ring(awake);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.end();
    }
}

impl Queue {
    /// Batches, requests executed in batches, turns, and leaders that died, since the file was built.
    pub fn counters(&self) -> [u64; 4] {
        let statistics = &self.region.shared().header.statistics.0;
        [
            statistics.batches.load(Ordering::Relaxed),
            statistics.requests.load(Ordering::Relaxed),
            statistics.turns.load(Ordering::Relaxed),
            statistics.successions.load(Ordering::Relaxed),
        ]
    }
}
