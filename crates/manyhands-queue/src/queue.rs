//! A client's side: a slot, a ticket, a wait, an answer.

use core::time::Duration;
#[cfg(not(any(loom, shuttle)))]
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::block::{self, Block, REQUEST_BYTES_MAX, SLOT_REQUEST_BYTES_MAX};
use crate::clock::{self, Deadline};
use crate::crash;
#[cfg(not(any(loom, shuttle)))]
use crate::join::{JoinError, JoinOptions};
use crate::layout::{MEMBERS, PAYLOAD_BYTES, RING, Slot, place_of_slot, slot_at_place};
use crate::published::Published;
use crate::region::Region;
use crate::room::Part;
use crate::slot::{SlotState, SlotWord};
use crate::sync::{AtomicU32, Ordering, fence};
use crate::ticket::{self, Drawn, Ticket};
use crate::wait;

/// How long a client sleeps before it looks again for slots whose owners died.
const RECLAIM_EVERY: Duration = Duration::from_millis(50);

/// How many recent slots a process remembers.
const RECENT_MAX: usize = 64;

/// How often a client tries to draw a ticket. Each failure means that another client drew one: so many
/// happen in damaged memory only.
const DRAWS_MAX: usize = 16 * RING;

/// A process's membership in the queue of one database.
#[derive(Debug)]
pub struct Queue {
    pub(crate) region: Region,
    /// Slots that this process freed lately. They are probably free still, and in its cache; a process
    /// that used them in turn would touch all pages of the file.
    recent: Mutex<Vec<u16>>,
}

impl Queue {
    /// Joins the queue in the file `path`, and builds it if this process is the first member.
    ///
    /// `prepare` runs in the first member only, while every other process that wants to join waits:
    /// the place to switch the database to WAL mode.
    ///
    /// # Errors
    /// See [`JoinError`]; nothing is joined then.
    #[cfg(not(any(loom, shuttle)))]
    pub fn join<E>(
        path: &Path,
        options: &JoinOptions,
        prepare: impl FnOnce() -> Result<(), E>,
    ) -> Result<Arc<Queue>, JoinError<E>> {
        let region = Region::join(path, options, prepare)?;
        Ok(Queue::of(region))
    }

    /// The queue of a new member. What a dead member left under the same number is settled first:
    /// nobody else can see any more that it died.
    pub(crate) fn of(region: Region) -> Arc<Queue> {
        let queue = Arc::new(Queue { region, recent: Mutex::default() });
        if queue.in_use().load(Ordering::Relaxed) != 0 {
            queue.sweep(|member| member == queue.region.member());
            queue.in_use().store(0, Ordering::Relaxed);
        }
        queue.disown_leadership();
        #[cfg(not(any(loom, shuttle)))]
        queue.begin_counts();
        queue
    }

    /// True in a child that got this queue from its parent by `fork()`: it must not be used there.
    pub fn is_inherited(&self) -> bool {
        self.region.is_inherited()
    }

    /// True when somebody in this process has closed the queue file's descriptor, and with it the membership. Costs a
    /// system call.
    pub fn is_lost(&self) -> bool {
        self.region.is_lost()
    }

    /// False when this queue must be left and joined anew: its file was overwritten or deleted.
    pub fn is_sound(&self) -> bool {
        self.region.is_sound()
    }

    /// True while the path still leads to the queue's file. When it does not, the file was deleted
    /// or replaced: [`Queue::retire`] it.
    pub fn is_in_place(&self) -> bool {
        self.region.is_in_place()
    }

    /// Makes every member leave this file for a new one as soon as it next looks.
    pub fn retire(&self) {
        self.region.retire();
    }

    /// True while another process is a member.
    pub fn has_other_members(&self) -> bool {
        self.region.has_other_members()
    }

    /// True when another process leads, or died while it did: who leads is a member, and to see it takes no
    /// system call.
    pub fn is_led_by_another(&self) -> bool {
        self.leader_word().holder().is_some_and(|holder| holder != self.region.member())
    }

    /// True when nobody leads and nobody waits.
    pub fn is_idle(&self) -> bool {
        let shared = self.region.shared();
        !ticket::was_drawn(shared, ticket::head(shared)) && self.leader_word().is_free()
    }

    /// Takes a slot for one request.
    ///
    /// Slots of dead members are taken back when no other is left. When all are in use, waits until
    /// one is free, at most until `deadline`.
    ///
    /// `None` when the deadline passed, or the queue is no longer sound.
    pub fn claim(self: &Arc<Queue>, deadline: Deadline) -> Option<Claim> {
        let hints = &self.region.shared().header.hints.0;
        // Before the slot: a death between the two costs the next owner of the number a look.
        self.in_use().fetch_add(1, Ordering::Relaxed);
        let mut slot = self.claim_free();
        // On a full disk there are no more.
        while slot.is_none() && matches!(self.region.grow(Part::Slots), Ok(true)) {
            slot = self.claim_free();
        }
        if slot.is_none() {
            self.note_full();
        }
        while slot.is_none() && !deadline.has_passed() && self.is_sound() {
            if self.sweep(|member| !self.region.lives(member)) > 0 || self.find_unmarked() > 0 {
                slot = self.claim_free();
                continue;
            }
            // And if we die while we are counted? Others ring a bell that nobody hears.
            hints.free_waiters.fetch_add(1, Ordering::Relaxed);
            let futex = hints.free_futex.load(Ordering::Acquire);
            // Either we see the slot free, or who frees it sees us waiting: see `free`.
            fence(Ordering::SeqCst);
            slot = self.claim_free();
            if slot.is_none() {
                wait::sleep(&hints.free_futex, u32::MAX, futex, deadline.or_after(RECLAIM_EVERY));
                slot = self.claim_free();
            }
            hints.free_waiters.fetch_sub(1, Ordering::Relaxed);
        }
        let Some(slot) = slot else {
            self.in_use().fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        crash::point("claimed");
        Some(Claim {
            queue: Arc::clone(self),
            slot,
            request_bytes: 0,
            block: None,
            published: false,
        })
    }

    /// Claims any free slot: a recent one, or the first from where nobody else looks.
    fn claim_free(&self) -> Option<usize> {
        loop {
            let recent = self.recent().pop();
            match recent {
                Some(slot) if self.try_claim(usize::from(slot)) => return Some(usize::from(slot)),
                Some(_) => {}
                None => break,
            }
        }
        self.claim_marked_free()
    }

    pub(crate) fn try_claim(&self, slot: usize) -> bool {
        let slot = self.slot(slot);
        slot.word.load(Ordering::Relaxed) == SlotWord::FREE.to_bits()
            && slot.advance(SlotWord::FREE, self.claimed())
    }

    /// The word of a slot that a client of this process claimed.
    fn claimed(&self) -> SlotWord {
        let member = self.region.member();
        SlotWord { state: SlotState::Claimed, member, ticket: Ticket::NONE }
    }

    /// The client of a claimed or published slot is done with it.
    pub(crate) fn forget(&self, slot: usize) {
        self.in_use().fetch_sub(1, Ordering::Relaxed);
        let mut recent = self.recent();
        if recent.len() < RECENT_MAX {
            recent.push(slot as u16);
        }
    }

    fn in_use(&self) -> &AtomicU32 {
        &self.region.shared().in_use.0[usize::from(self.region.member())]
    }

    fn recent(&self) -> MutexGuard<'_, Vec<u16>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees the slots and blocks of members for whom `is_gone`. Returns how many slots.
    ///
    /// Their pending requests are dropped: nobody waits for the answer. Taken and executed ones are
    /// the leader's and stay.
    fn sweep(&self, is_gone: impl Fn(u16) -> bool) -> usize {
        let mut freed = 0;
        let mut was_gone = asked_once(&is_gone);
        for number in (0..self.region.ready(Part::Slots)).map(slot_at_place) {
            let slot = self.slot(number);
            let Some(word) = slot.load() else { continue };
            let owned =
                !matches!(word.state, SlotState::Free | SlotState::Taken | SlotState::Executed);
            // Asked again after the word was read: this process may have been stopped since it first asked, and the
            // number be a new member's.
            if owned
                && was_gone(word.member)
                && is_gone(word.member)
                && slot.advance(word, SlotWord::FREE)
            {
                fence(Ordering::SeqCst);
                self.mark_free(number);
                freed += 1;
            }
        }
        block::sweep(self.region.shared(), was_gone);
        freed
    }

    /// Frees the blocks of dead members.
    pub(crate) fn sweep_blocks(&self) {
        block::sweep(self.region.shared(), asked_once(|member| !self.region.lives(member)));
    }

    pub(crate) fn slot(&self, slot: usize) -> &Slot {
        &self.region.shared().slots.0[place_of_slot(slot)]
    }

    /// Frees the slot at `from`, and wakes a client that waits for one.
    pub(crate) fn free(&self, slot: usize, from: SlotWord) -> bool {
        let freed = self.slot(slot).advance(from, SlotWord::FREE);
        let hints = &self.region.shared().header.hints.0;
        fence(Ordering::SeqCst);
        if freed {
            self.mark_free(slot);
        }
        if freed && hints.free_waiters.load(Ordering::Relaxed) != 0 {
            hints.free_futex.fetch_add(1, Ordering::Release);
            wait::wake_one(&hints.free_futex);
        }
        freed
    }
}

/// Asks about each member once: to ask costs a system call.
fn asked_once(is_gone: impl Fn(u16) -> bool) -> impl FnMut(u16) -> bool {
    let mut gone = [None; MEMBERS];
    move |member| *gone[usize::from(member)].get_or_insert_with(|| is_gone(member))
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// That a leader executes the request's bytes.
    Request,
    /// To be the leader itself when its ticket comes.
    Turn,
}

impl Kind {
    pub(crate) fn to_bits(self) -> u32 {
        self as u32
    }

    /// In doubt a request: who asked for a turn and is treated as a request gets an answer that it
    /// cannot read, and asks again.
    pub(crate) fn from_bits(bits: u32) -> Kind {
        if bits == Kind::Turn as u32 { Kind::Turn } else { Kind::Request }
    }
}

/// A slot that belongs to one client of this process and is not in the queue yet.
#[derive(Debug)]
pub struct Claim {
    queue: Arc<Queue>,
    slot: usize,
    request_bytes: usize,
    /// Holds the request when it is too long for the slot.
    block: Option<Block>,
    /// The slot belongs to a [`Published`] now.
    published: bool,
}

impl Claim {
    /// Copies the request into the slot, or into a block if it is longer than
    /// [`SLOT_REQUEST_BYTES_MAX`]. False when it leaves no room in the slot for an answer of
    /// `answer_bytes`, is longer than [`REQUEST_BYTES_MAX`], or all blocks are in use: then the claim
    /// is as it was.
    pub fn write(&mut self, request: &[u8], answer_bytes: usize) -> bool {
        let room = PAYLOAD_BYTES - block::answer_at(request.len());
        if answer_bytes > room || request.len() > REQUEST_BYTES_MAX {
            return false;
        }
        if request.len() <= SLOT_REQUEST_BYTES_MAX {
            self.queue.slot(self.slot).payload.0.write(0, request);
            self.free_block();
        } else {
            if self.block.is_none() {
                self.block = Block::claim(&self.queue, self.slot);
            }
            let Some(block) = &self.block else { return false };
            block.write(&self.queue, request);
        }
        self.request_bytes = request.len();
        true
    }

    fn free_block(&mut self) {
        if let Some(block) = self.block.take() {
            block.free(&self.queue);
        }
    }

    /// Draws the ticket: from now on the request may be executed.
    ///
    /// `Err` gives the claim back when the ring is full, or the memory damaged: then the queue is no
    /// longer sound.
    pub fn publish(mut self, kind: Kind, label: &str) -> Result<Published, Claim> {
        let shared = self.queue.region.shared();
        let slot = self.queue.slot(self.slot);
        slot.kind.store(kind.to_bits(), Ordering::Relaxed);
        slot.request_bytes.store(self.request_bytes as u32, Ordering::Relaxed);
        slot.answer_bytes.store(0, Ordering::Relaxed);
        slot.block.store(self.block.as_ref().map_or(0, Block::number), Ordering::Relaxed);
        slot.published_ns.store(clock::now_ns(), Ordering::Relaxed);
        slot.called_ns.store(0, Ordering::Relaxed);
        slot.label.write_text(label);
        let claimed = self.queue.claimed();
        for _ in 0..DRAWS_MAX {
            let ticket = ticket::tail(shared);
            let pending = SlotWord { state: SlotState::Pending, ticket, ..claimed };
            if ticket >= Ticket::END || !slot.advance(claimed, pending) {
                break;
            }
            match ticket::draw(shared, ticket, self.slot) {
                Drawn::Ours => {
                    crash::point("published");
                    self.published = true;
                    let (queue, slot) = (Arc::clone(&self.queue), self.slot);
                    let block = self.block.take();
                    return Ok(Published {
                        queue,
                        slot,
                        pending,
                        kind,
                        request_bytes: self.request_bytes,
                        block,
                        done: false,
                    });
                }
                drawn => {
                    // No leader can know this slot yet.
                    if !slot.advance(pending, claimed) {
                        break;
                    }
                    if drawn == Drawn::Full {
                        return Err(self);
                    }
                }
            }
        }
        self.queue.retire();
        Err(self)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.published || self.queue.is_inherited() {
            return;
        }
        self.queue.free(self.slot, self.queue.claimed());
        // And if we die here? The number still counts as in use, so its next owner looks for the block.
        self.free_block();
        self.queue.forget(self.slot);
    }
}
