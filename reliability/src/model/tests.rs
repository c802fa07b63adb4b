//! The model's promises hold in every state of the small instances, and break under every mutation.

use std::collections::{BTreeSet, HashMap};

use clap::ValueEnum;
use stateright::Model;

use super::instances::{CALM, DEADLINE, FORKS, SLOTS, SMALL, STOCK, TURNS, TWO_DEATHS};
use super::{Mutation, Protocol, Synchronous};
use crate::campaign::model::explore;

const STATES_MAX: usize = 20_000_000;

/// Nothing acknowledged is lost, nothing happens twice, nobody is stuck: in all small instances. And
/// each example is met in one of them, so that none of this holds because nothing happens.
#[test]
fn every_state_of_the_small_instances_keeps_the_promises() {
    let mut met = BTreeSet::new();
    for (name, protocol) in SMALL {
        let explored = explore(protocol, STATES_MAX);
        assert!(explored.complete, "{name} is not small");
        assert!(explored.broken.is_empty(), "{name}: {:#?}", explored.broken);
        met.extend(explored.met);
    }
    let examples =
        CALM.properties().into_iter().filter(|it| !it.expectation.discovery_is_failure());
    let expected: BTreeSet<_> = examples.map(|it| it.name).collect();
    assert_eq!(met, expected);
}

/// A model that cannot turn red proves nothing: each fault of the protocol breaks the promise that it
/// must break.
#[test]
fn every_mutation_breaks_a_promise() {
    let lost = "what was acknowledged is there";
    let twice = "nothing is applied twice";
    let refused = "what was refused is not there";
    let unknown = "outcomes are unknown only as documented";
    let seen = "what was seen is durable";
    let stuck = "nobody is stuck";
    // Alive, so that its death does not break another promise first.
    let beside = Protocol { stock_deaths: 0, ..STOCK };
    let cases = [
        (Mutation::SkipAnnouncement, beside.clone(), twice),
        (Mutation::SealEarly, beside.clone(), lost),
        (Mutation::PublishUnsaid, beside.clone(), twice),
        (Mutation::SealAtTheBarrier, beside.clone(), lost),
        (Mutation::IgnoreSeal, beside.clone(), unknown),
        (Mutation::AnnouncedIsCommitted, beside.clone(), lost),
        (Mutation::AnnouncedIsLost, beside.clone(), twice),
        (Mutation::AnyFrameIsTheFrame, beside.clone(), lost),
        (Mutation::RestartIsLost, beside.clone(), twice),
        (Mutation::LeaveTheFrame, DEADLINE, refused),
        (Mutation::LeaveTheFrame, STOCK, lost),
        (Mutation::NoSettlement, beside.clone(), stuck),
        (Mutation::NoSuccession, beside.clone(), stuck),
        (Mutation::TakenIsLost, beside.clone(), stuck),
        (Mutation::ForgetTheBatch, Protocol { timeouts: 1, ..beside.clone() }, stuck),
        (Mutation::AnswerBeforeSync, beside.clone(), lost),
        (Mutation::NoSync, beside.clone(), lost),
        (Mutation::VisibleBeforeDurable, beside.clone(), seen),
        (Mutation::NoSyncOfDatabase, beside.clone(), lost),
        (Mutation::SlotReusedEarly, Protocol { timeouts: 0, ..SLOTS }, twice),
        (Mutation::NoAnswer, SLOTS, unknown),
        (Mutation::WithdrawTaken, DEADLINE, refused),
        (Mutation::NoSweep, TWO_DEATHS, stuck),
        (Mutation::BatchOfAllSlots, TWO_DEATHS, stuck),
        (Mutation::DeadTurnStays, TURNS, stuck),
        (Mutation::PromoteTheStale, FORKS, lost),
    ];
    for (mutation, protocol, promise) in &cases {
        let protocol = Protocol { mutation: Some(*mutation), ..protocol.clone() };
        let explored = explore(&protocol, STATES_MAX);
        let broken: Vec<_> = explored.broken.iter().map(|(name, _)| *name).collect();
        assert!(broken.contains(promise), "{mutation:?} broke {broken:?}, not '{promise}'");
    }
    for mutation in Mutation::value_variants() {
        assert!(cases.iter().any(|(tested, ..)| tested == mutation), "{mutation:?} has no case");
    }
}

/// What `docs/durability.md` says of other programs: with `synchronous=OFF` they take the durability of
/// our commits away with their own.
#[test]
fn a_careless_program_takes_durability_away() {
    let explored = explore(&Protocol { stock: Synchronous::Off, ..STOCK }, STATES_MAX);
    assert!(explored.broken.iter().any(|(name, _)| *name == "what was acknowledged is there"));
}

/// Every path ends: no step can be taken for ever. With "nobody is stuck" that means that everybody
/// gets on, whatever the order of steps.
#[test]
fn every_path_ends() {
    let instances = [
        Protocol { stock_deaths: 0, checkpoints: 0, ..STOCK },
        Protocol { stock_writes: 0, ..TURNS },
        SLOTS,
    ];
    for protocol in instances {
        // The states on the way, each with those that follow it; false once it is known to end.
        let first = protocol.init_states().remove(0);
        let mut open = HashMap::from([(first.clone(), true)]);
        let mut path = vec![(first.clone(), protocol.next_states(&first))];
        while let Some((state, following)) = path.last_mut() {
            let Some(next) = following.pop() else {
                open.insert(state.clone(), false);
                path.pop();
                continue;
            };
            match open.get(&next) {
                Some(is_on_the_way) => assert!(!is_on_the_way, "a circle at {next:#?}"),
                None => {
                    open.insert(next.clone(), true);
                    let following = protocol.next_states(&next);
                    path.push((next, following));
                }
            }
        }
    }
}
