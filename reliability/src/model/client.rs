//! The clients: `crates/manyhands/src/commit/queue_client.rs` and
//! `connection/commit.rs`, `crates/manyhands-queue/src/queue.rs`.

use super::mutation::Mutation;
use super::protocol::{Action, Protocol};
use super::state::{Answer, Client, Leading, Phase, Slot, SlotState, State, Told};

impl Protocol {
    /// What `client` can do next, apart from leading.
    pub fn client_actions(&self, state: &State, client: Client, actions: &mut Vec<Action>) {
        if state.shared.holder == Some(client) {
            return;
        }
        match state.phase(client) {
            Phase::Idle if self.forks >> client & 1 == 1 && state.files.visible().is_some() => {
                actions.push(Action::Fork(client));
            }
            Phase::Idle if self.forks >> client & 1 == 1 => {}
            Phase::Idle | Phase::Forked(..) => {
                actions.push(if self.may_lead_at_once(state, client) {
                    Action::LeadIfIdle(client)
                } else {
                    Action::Submit(client)
                })
            }
            Phase::Submits => {
                if self.free_slot(state).is_some() {
                    actions.push(Action::Claim(client));
                } else if self.dead_slots(state).next().is_some() {
                    actions.push(Action::Sweep(client));
                }
            }
            Phase::Claimed(_) => actions.push(Action::Publish(client)),
            Phase::Waiting(..) => self.waiter_actions(state, client, actions),
            Phase::HasTurn | Phase::Done | Phase::Dead => {}
        }
    }

    /// `Client::wait`. A waiter that has lost its patience also leads where the first in the queue is the
    /// turn of somebody else, who has died.
    fn waiter_actions(&self, state: &State, client: Client, actions: &mut Vec<Action>) {
        let shared = &state.shared;
        let Some((own, word)) = state.own_slot(client) else {
            actions.push(Action::Again(client));
            return;
        };
        if word.state == SlotState::Answered {
            actions.push(Action::Fetch(client));
            return;
        }
        let invited = state.first_pending().is_none_or(|(slot, first)| {
            !first.is_turn
                || slot == own
                || !state.lives(first.member) && !self.has(Mutation::DeadTurnStays)
        });
        if shared.holder.is_none() && word.state == SlotState::Pending && invited {
            actions.push(Action::Lead(client));
        } else if !self.has(Mutation::NoSuccession)
            && shared.holder.map_or(shared.unresolved, |holder| !state.lives(holder))
        {
            actions.push(Action::Succeed(client));
        }
    }

    /// `Client::lead_if_idle`; a transaction on a snapshot looks at the live header first.
    fn may_lead_at_once(&self, state: &State, client: Client) -> bool {
        let fresh = match state.phase(client) {
            Phase::Forked(snapshot, _) => {
                state.files.index.copies == [snapshot; 2] || self.has(Mutation::PromoteTheStale)
            }
            _ => true,
        };
        fresh && state.shared.holder.is_none() && state.shared.ring.is_empty()
    }

    fn free_slot(&self, state: &State) -> Option<u8> {
        let free = |word: &Slot| {
            word.state == SlotState::Free
                || self.has(Mutation::SlotReusedEarly) && word.state == SlotState::Answered
        };
        state.shared.slots.iter().position(free).map(|slot| slot as u8)
    }

    /// Slots that a dead client left, and no leader has in hand.
    fn dead_slots<'a>(&self, state: &'a State) -> impl Iterator<Item = u8> + 'a {
        let sweeps = !self.has(Mutation::NoSweep);
        let all = state.shared.slots.iter().enumerate();
        all.filter(move |(_, word)| {
            let owned = word.state != SlotState::Free && !word.state.is_with_leader();
            sweeps && owned && !state.lives(word.member)
        })
        .map(|(slot, _)| slot as u8)
    }

    /// A request that no leader has taken can be withdrawn when the deadline passes.
    pub fn may_withdraw(&self, state: &State, client: Client) -> bool {
        let leads = state.shared.holder == Some(client);
        state.own_slot(client).is_some_and(|(_, word)| {
            let taken = word.state.is_with_leader() && self.has(Mutation::WithdrawTaken);
            !leads && (word.state == SlotState::Pending || taken)
        })
    }
}

/// A step of a client.
pub fn act(protocol: &Protocol, state: &mut State, client: Client, action: Action) {
    let request = protocol.request(state, client);
    let place = usize::from(client);
    match action {
        Action::Fork(_) => {
            let header = state.files.index.copies[0];
            let content = state.files.content_at(header).with(request);
            state.clients[place] = Phase::Forked(header, content);
        }
        Action::LeadIfIdle(_) | Action::Lead(_) => {
            state.shared.holder = Some(client);
            state.leading = Some(Leading::Begun);
        }
        Action::Succeed(_) => {
            state.shared.holder = Some(client);
            state.shared.unresolved = true;
            state.leading = Some(Leading::Begun);
        }
        Action::Submit(_) | Action::Again(_) => state.clients[place] = Phase::Submits,
        Action::Claim(_) => {
            let slot = protocol.free_slot(state).expect("a slot is free");
            let word = Slot { state: SlotState::Claimed, member: client, ..Slot::default() };
            *state.slot(slot) = word;
            state.clients[place] = Phase::Claimed(slot);
        }
        Action::Sweep(_) => {
            let slots: Vec<u8> = protocol.dead_slots(state).collect();
            slots.into_iter().for_each(|slot| state.free(slot));
        }
        Action::Publish(_) => {
            let Phase::Claimed(slot) = state.phase(client) else { return };
            state.shared.tickets += 1;
            let ticket = state.shared.tickets;
            let is_turn = protocol.turns >> client & 1 == 1;
            let member = client;
            *state.slot(slot) =
                Slot { state: SlotState::Pending, member, ticket, request, is_turn, answer: None };
            state.shared.ring.push((ticket, slot));
            state.clients[place] = Phase::Waiting(slot, ticket);
        }
        Action::Fetch(_) => {
            let Some((slot, word)) = state.own_slot(client) else { return };
            state.free(slot);
            let told = match word.answer {
                Some(Answer::Done(answered)) => {
                    state.answers_mixed_up |= answered != request;
                    Told::Acknowledged
                }
                Some(Answer::Unknown) | None => Told::Unknown,
            };
            protocol.tell(state, client, told);
        }
        Action::Withdraw(_) => {
            let Some((slot, _)) = state.own_slot(client) else { return };
            state.left.timeouts -= 1;
            state.free(slot);
            protocol.tell(state, client, Told::NotCommitted);
        }
        _ => unreachable!("no step of a client: {action:?}"),
    }
}
