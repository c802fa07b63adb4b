//! What is promised (`docs/durability.md`), and what must be possible, lest a promise hold only because
//! nothing happens.

use stateright::Property;

use super::protocol::{Protocol, Synchronous};
use super::state::{Fate, Leading, Phase, State, Told};

/// The requests with what their owners were told.
fn told(state: &State, what: Told) -> impl Iterator<Item = u8> + '_ {
    let all = state.told.iter().enumerate();
    all.filter(move |(_, told)| **told == what).map(|(request, _)| request as u8)
}

fn acknowledged_is_there(model: &Protocol, state: &State) -> bool {
    let Some(content) = state.present() else { return true };
    // What another program with weaker settings was promised is its own business.
    let durable = state.end.is_none() || model.stock == Synchronous::Full || !model.power_cuts;
    let ours = model.first_of_stock();
    told(state, Told::Acknowledged)
        .all(|request| content.has(request) || request >= ours && !durable)
}

fn nothing_is_there_twice(_: &Protocol, state: &State) -> bool {
    let requests = 0..state.told.len() as u8;
    state.present().is_none_or(|content| requests.into_iter().all(|it| content.count(it) <= 1))
}

fn not_committed_is_not_there(_: &Protocol, state: &State) -> bool {
    let Some(content) = state.present() else { return true };
    told(state, Told::NotCommitted).all(|request| !content.has(request))
}

fn unknown_only_as_documented(_: &Protocol, state: &State) -> bool {
    state.evidence_gone || told(state, Told::Unknown).next().is_none()
}

fn seen_is_durable(model: &Protocol, state: &State) -> bool {
    let Some(end) = state.end else { return true };
    let promised = if model.stock == Synchronous::Full {
        state.told.len() as u8
    } else {
        model.first_of_stock()
    };
    state.recovered_unsynced
        || (0..promised).all(|request| !end.seen.has(request) || end.found.has(request))
}

fn answers_reach_who_asked(_: &Protocol, state: &State) -> bool {
    !state.answers_mixed_up
}

fn nobody_is_stuck(model: &Protocol, state: &State) -> bool {
    let waits = |phase: &Phase| !matches!(phase, Phase::Done | Phase::Dead);
    if state.end.is_some() || !state.clients.iter().any(waits) {
        return true;
    }
    let mut steps = Vec::new();
    model.steps(state, &mut steps);
    !steps.is_empty()
}

/// The promises, by the names under which counterexamples are printed.
fn promises() -> Vec<Property<Protocol>> {
    vec![
        Property::always("what was acknowledged is there", acknowledged_is_there),
        Property::always("nothing is applied twice", nothing_is_there_twice),
        Property::always("what was refused is not there", not_committed_is_not_there),
        Property::always("outcomes are unknown only as documented", unknown_only_as_documented),
        Property::always("what was seen is durable", seen_is_durable),
        Property::always("answers reach who asked", answers_reach_who_asked),
        Property::always("nobody is stuck", nobody_is_stuck),
    ]
}

/// What must happen in some state, lest a promise hold only because nothing happens.
fn examples() -> Vec<Property<Protocol>> {
    vec![
        Property::sometimes(
            "a batch of two is committed",
            |_, state: &State| matches!(&state.leading, Some(Leading::Answering(slots)) if slots.len() > 1),
        ),
        Property::sometimes("a successor answers", |_, state: &State| {
            inherits(state, Fate::Committed)
        }),
        Property::sometimes("a successor executes again", |_, state: &State| {
            inherits(state, Fate::NotCommitted)
        }),
        Property::sometimes("the evidence is gone", |_, state: &State| {
            inherits(state, Fate::Unknown)
        }),
        Property::sometimes("an outcome is unknown", |_, state: &State| {
            told(state, Told::Unknown).next().is_some()
        }),
        Property::sometimes("a deadline passes", |_, state: &State| {
            told(state, Told::NotCommitted).next().is_some()
        }),
        Property::sometimes("a transaction is promoted", |model: &Protocol, state: &State| {
            let first = |client| matches!(state.phase(client), Phase::Forked(..));
            state.leading == Some(Leading::Turn) && (0..model.clients).any(first)
        }),
        Property::sometimes("a turn is executed", |model: &Protocol, state: &State| {
            let has_turn = |client| state.phase(client) == Phase::HasTurn;
            state.leading == Some(Leading::Turn) && (0..model.clients).any(has_turn)
        }),
        Property::sometimes("the WAL is restarted", |_, state: &State| {
            state.files.wal_salt.now > 1
        }),
        Property::sometimes("the wal-index is recovered", |model: &Protocol, state: &State| {
            state.end.is_none() && state.files.index.copies[0].change < model.change
        }),
        Property::sometimes("all is settled in order", |_, state: &State| {
            state.end.is_none() && state.told.iter().all(|told| *told == Told::Acknowledged)
        }),
    ]
}

fn inherits(state: &State, fate: Fate) -> bool {
    state.leading == Some(Leading::Settling(fate)) && state.first_inherited().is_some()
}

/// Promises and examples.
pub fn all() -> Vec<Property<Protocol>> {
    promises().into_iter().chain(examples()).collect()
}
