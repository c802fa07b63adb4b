//! The leader: `crates/manyhands-queue/src/leader.rs`, `crates/manyhands/src/commit/batch.rs` and `recover.rs`.

use super::mutation::Mutation;
use super::protocol::{Action, CHANGES_SINCE_DEATH_MAX, Protocol};
use super::state::{
    Answer, Client, CommitFrame, Fate, Leading, Phase, SlotState, Stage, State, Told, Who,
};

impl Protocol {
    /// What the leader can do next.
    pub fn leader_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let (Some(leader), Some(leading)) = (state.leader(), &state.leading) else { return };
        let free = self.may_begin(state);
        match leading {
            Leading::Begun if self.must_look(state) => {
                actions.extend(free.then_some(Action::Look));
            }
            Leading::Begun => actions.push(Action::Settle),
            Leading::Looked(_) => actions.push(Action::SyncWhatWasFound),
            Leading::Settling(_) => actions.push(Action::SettleSlot),
            Leading::Serving => actions.extend(self.serve(state, leader, free)),
            Leading::Batch { taken: Some(_), .. } => actions.push(Action::Execute),
            Leading::Batch { taken: None, executed } => {
                if !state.writer.is_some_and(|it| it.stage == Stage::Executing) {
                    return;
                }
                let next = state.first_pending().filter(|(_, word)| !word.is_turn);
                let all = self.has(Mutation::BatchOfAllSlots);
                let max = if all { self.slots } else { self.batch_max };
                if next.is_some() && executed.len() < usize::from(max) {
                    actions.push(Action::Take);
                }
                if executed.is_empty() && next.is_none() {
                    actions.push(Action::EndEmptyBatch);
                }
            }
            Leading::Answering(_) => actions.push(Action::Answer),
            Leading::Turn => {}
            Leading::Leaving => actions.push(Action::Release),
        }
    }

    /// `batch::serve`, and `Client::lead_if_idle` with what follows it.
    fn serve(&self, state: &State, leader: Client, free: bool) -> Option<Action> {
        let first = state.first_pending();
        match (state.phase(leader), first) {
            (Phase::HasTurn, _) | (Phase::Idle | Phase::Forked(..), None) => {
                free.then_some(Action::BeginTurn)
            }
            (Phase::Waiting(..), Some((slot, word))) => {
                let own = state.own_slot(leader);
                if own.is_some_and(|(_, word)| word.state == SlotState::Answered) {
                    return Some(Action::Release);
                }
                match word.is_turn {
                    true if own.is_some_and(|(own, _)| own == slot) => Some(Action::AcceptTurn),
                    true if !state.lives(word.member) => Some(Action::PassOver),
                    true => Some(Action::Release),
                    false => free.then_some(Action::BeginBatch),
                }
            }
            _ => Some(Action::Release),
        }
    }

    /// Whether the batch's fate needs a look into the files (`Lead::unresolved`, `recover::resolve_orphan`).
    fn must_look(&self, state: &State) -> bool {
        let shared = &state.shared;
        let sealed = shared.sealed && !self.has(Mutation::IgnoreSeal);
        let certain = self.has(Mutation::AnnouncedIsCommitted)
            || self.has(Mutation::AnnouncedIsLost)
            || self.has(Mutation::NoSettlement);
        shared.unresolved && !sealed && shared.announced.is_some() && !certain
    }

    /// `recover::resolve_orphan` where the batch record is enough.
    pub fn settle(&self, state: &mut State) {
        let shared = &state.shared;
        state.leading = Some(if !shared.unresolved || self.has(Mutation::NoSettlement) {
            Leading::Serving
        } else if shared.sealed {
            Leading::Settling(Fate::Committed)
        } else if shared.announced.is_some() && self.has(Mutation::AnnouncedIsCommitted) {
            state.shared.sealed = true;
            Leading::Settling(Fate::Committed)
        } else {
            Leading::Settling(Fate::NotCommitted)
        });
    }

    /// `recover::look`, which holds the write lock.
    pub fn look(&self, state: &mut State, leader: Client) {
        let frame = state.shared.announced.expect("looked for only when announced");
        let fate = self.fate(state, &frame);
        if self.has(Mutation::LeaveTheFrame) {
            self.found(state, fate);
            return;
        }
        self.begin(state, Who::Client(leader), false);
        if fate == Fate::NotCommitted && state.files.frame_header(frame.place) == Some(frame.header)
        {
            state.files.write_frame(frame.place, None);
        }
        state.leading = Some(Leading::Looked(fate));
    }

    /// `recover::fate`.
    fn fate(&self, state: &State, frame: &CommitFrame) -> Fate {
        let header = state.files.index.copies[0];
        let found = state.files.frame_header(frame.place);
        let covered = frame.place < header.frame_last;
        if frame.header.salt != header.salt {
            let recovered = header.change <= frame.change || frame.change < CHANGES_SINCE_DEATH_MAX;
            let unseen = !recovered && !state.shared.publishing;
            let known = unseen || self.has(Mutation::RestartIsLost);
            if known { Fate::NotCommitted } else { Fate::Unknown }
        } else if covered && (found == Some(frame.header) || self.has(Mutation::AnyFrameIsTheFrame))
        {
            Fate::Committed
        } else {
            Fate::NotCommitted
        }
    }

    /// The WAL is as it was found, whatever happens: now the slots may be settled.
    pub fn found(&self, state: &mut State, fate: Fate) {
        // `Lead::resolve`: a successor of this one finds the batch sealed.
        state.shared.sealed |= fate == Fate::Committed;
        state.leading = Some(Leading::Settling(fate));
    }

    /// `Lead::resolve`, one slot.
    pub fn settle_slot(&self, state: &mut State, fate: Fate) {
        let skipped = |word: SlotState| word == SlotState::Taken && self.has(Mutation::TakenIsLost);
        let Some(slot) = state
            .first_inherited()
            .filter(|&slot| !skipped(state.shared.slots[usize::from(slot)].state))
        else {
            state.shared.unresolved = false;
            state.leading = Some(Leading::Serving);
            return;
        };
        let word = state.slot(slot);
        if word.state == SlotState::Executed && fate != Fate::NotCommitted {
            if fate == Fate::Unknown {
                word.answer = Some(Answer::Unknown);
            }
            word.state = SlotState::Answered;
        } else {
            word.state = SlotState::Pending;
        }
        state.forget_gone();
    }

    /// `batch::execute_batch`: takes the write lock, then `Lead::begin_batch`.
    pub fn begin_batch(&self, state: &mut State, leader: Client) {
        self.begin(state, Who::Client(leader), true);
        state.shared.announced = None;
        state.shared.sealed = false;
        state.leading = Some(Leading::Batch { taken: None, executed: Vec::new() });
    }

    /// `Lead::take`.
    pub fn take(&self, state: &mut State) {
        let (slot, _) = state.first_pending().expect("somebody waits");
        state.slot(slot).state = SlotState::Taken;
        if let Some(Leading::Batch { taken, .. }) = &mut state.leading {
            *taken = Some(slot);
        }
    }

    /// `Executor::execute` and `Lead::executed`; or, for a request that hurts its neighbours,
    /// `Batch::Spoiled` and `Lead::demand_turn`.
    pub fn execute(&self, state: &mut State) {
        let Some(Leading::Batch { taken: Some(slot), mut executed }) = state.leading.take() else {
            unreachable!("only what was taken is executed")
        };
        let request = state.slot(slot).request;
        if self.spoiler == Some(request) {
            state.writer = None;
            state.slot(slot).is_turn = true;
            executed.push(slot);
            for slot in executed {
                state.slot(slot).state = SlotState::Pending;
            }
            state.leading = Some(Leading::Serving);
            return;
        }
        let writer = state.writer.as_mut().expect("a batch holds the write lock");
        writer.content = writer.content.with(request);
        if !self.has(Mutation::NoAnswer) {
            state.slot(slot).answer = Some(Answer::Done(request));
        }
        state.slot(slot).state = SlotState::Executed;
        executed.push(slot);
        state.leading = Some(Leading::Batch { taken: None, executed });
    }

    /// `Lead::end_batch`, one slot.
    pub fn answer(&self, state: &mut State) {
        let Some(Leading::Answering(mut executed)) = state.leading.take() else {
            unreachable!("only a committed batch is answered")
        };
        if !executed.is_empty() {
            answer_slot(state, executed.remove(0));
        }
        let done = executed.is_empty();
        state.leading = Some(if done { Leading::Serving } else { Leading::Answering(executed) });
    }

    /// Only for a mutation: everybody is answered now.
    pub fn answer_all(&self, state: &mut State) {
        if let Some(Leading::Batch { executed, .. }) = state.leading.clone() {
            executed.into_iter().for_each(|slot| answer_slot(state, slot));
        }
    }

    /// `Lead::accept_turn`.
    pub fn accept_turn(&self, state: &mut State, leader: Client) {
        let (slot, _) = state.first_pending().expect("the own turn waits");
        state.free(slot);
        state.clients[usize::from(leader)] = Phase::HasTurn;
    }

    /// The leader's own statement on its own connection (`connection/turn.rs`), or the promotion of its
    /// transaction (`connection/commit.rs`). A transaction whose snapshot is old is executed again, here.
    pub fn begin_turn(&self, state: &mut State, leader: Client) {
        let request = self.request(state, leader);
        let forked = state.phase(leader);
        self.begin(state, Who::Client(leader), false);
        let writer = state.writer.as_mut().expect("begun above");
        writer.content = writer.content.with(request);
        if let Phase::Forked(snapshot, content) = forked
            && (snapshot == writer.header || self.has(Mutation::PromoteTheStale))
        {
            writer.content = content;
        }
        state.leading = Some(Leading::Turn);
    }

    /// `Lead::end`. Who led without a request of its own, and found others waiting, joins them.
    pub fn release(&self, state: &mut State, leader: Client) {
        let in_order = matches!(state.leading, Some(Leading::Serving | Leading::Leaving));
        if matches!(state.phase(leader), Phase::Idle | Phase::Forked(..))
            && state.leading == Some(Leading::Serving)
        {
            state.clients[usize::from(leader)] = Phase::Submits;
        }
        state.shared.unresolved &= !in_order && !self.has(Mutation::ForgetTheBatch);
        state.shared.holder = None;
        state.leading = None;
        state.forget_gone();
    }

    /// The leader's deadline passes while another program writes (`Client::serve`).
    pub fn give_up(&self, state: &mut State, leader: Client) {
        state.left.timeouts -= 1;
        let unresolved = state.shared.unresolved && !self.has(Mutation::ForgetTheBatch);
        let settled = state.leading == Some(Leading::Serving);
        state.shared.unresolved = unresolved && !settled;
        state.shared.holder = None;
        state.leading = None;
        match (state.phase(leader), state.own_slot(leader)) {
            (Phase::Waiting(..), Some((slot, word))) if word.state == SlotState::Pending => {
                state.free(slot);
                self.tell(state, leader, Told::NotCommitted);
            }
            // It is in the batch that the next leader must settle, or answered.
            (Phase::Waiting(..), _) => {}
            _ => self.tell(state, leader, Told::NotCommitted),
        }
    }
}

fn answer_slot(state: &mut State, slot: u8) {
    if state.slot(slot).state == SlotState::Executed {
        state.slot(slot).state = SlotState::Answered;
    }
    state.forget_gone();
}
