//! Clients that want to lead themselves when their ticket comes.

use std::path::Path;
use std::time::{Duration, Instant};

use manyhands_queue::{Deadline, Kind, Stage};
use rustix::process::Signal;

use crate::child::{Process, listen, tell};
use crate::echo::{publish, reversed, submit};
use crate::place::{LONG, Place, join, wait_until};

/// Asks for a turn, until it comes.
pub fn owner(path: &Path) {
    let queue = join(path).unwrap();
    let deadline = Deadline::after(LONG);
    let mut published = publish(&queue, Kind::Turn, &[]);
    tell("published");
    listen();
    loop {
        match published.stage() {
            Stage::PassedOver => {
                tell("passed over");
                published = publish(&queue, Kind::Turn, &[]);
            }
            Stage::MustLead => {
                if let Some(mut lead) = queue.try_lead("turn")
                    && let Some(entry) = lead.next(None)
                    && lead.accept_turn(&entry, &mut published)
                {
                    tell("my turn");
                    lead.release();
                    return;
                }
            }
            stage => panic!("a turn is {stage:?}"),
        }
        assert!(!deadline.has_passed());
        published.wait(deadline, Duration::from_millis(5));
    }
}

/// The turn's owner answers: it becomes the leader, before those who came later.
#[test]
fn a_turn_comes_in_its_place() {
    let place = Place::new();
    let queue = place.join();
    let mut published = publish(&queue, Kind::Turn, &[]);
    assert_eq!(published.stage(), Stage::MustLead);
    let mut later = publish(&queue, Kind::Turn, &[]);
    let mut lead = queue.try_lead("").unwrap();
    let entry = lead.next(None).unwrap();
    assert!(!lead.accept_turn(&entry, &mut later), "the later turn is not the first");
    assert!(lead.accept_turn(&entry, &mut published));
    assert_eq!(lead.next(None).unwrap().ticket, later.ticket());
}

/// A process stopped with SIGSTOP, or in a frozen container, has the first turn. It must not hold up
/// the rest for longer than the patience for a call; when it runs again, it asks again.
#[test]
fn a_stopped_owner_is_passed_over_and_asks_again() {
    let place = Place::new();
    let queue = place.join();
    let mut process = Process::start("turn", &place.path());
    process.expect("published");
    process.signal(Signal::STOP);
    let began = Instant::now();
    assert_eq!(submit(&queue, b"behind"), reversed(b"behind"));
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(100), "not called for long enough: {waited:?}");
    assert!(waited < Duration::from_secs(5), "held up by a stopped process: {waited:?}");
    process.signal(Signal::CONT);
    process.say("go on");
    process.expect("passed over");
    process.expect("my turn");
    process.wait_ok();
}

/// A dead owner needs no patience.
#[test]
fn a_dead_owner_is_passed_over_at_once() {
    let place = Place::new();
    let queue = place.join();
    let process = Process::start("turn", &place.path());
    process.expect("published");
    process.kill();
    wait_until("the owner is dead", || !queue.has_other_members());
    let mut lead = queue.try_lead("").unwrap();
    let entry = lead.next(None).unwrap();
    assert_eq!(entry.kind, Kind::Turn);
    assert!(lead.call(&entry), "passed over at the first call");
    assert!(lead.next(None).is_none());
}

/// What a leader cannot execute, its owner must: the request becomes a turn in its old place.
#[test]
fn a_request_that_cannot_be_executed_becomes_a_turn() {
    let place = Place::new();
    let queue = place.join();
    let mut published = publish(&queue, Kind::Request, b"a function of the application");
    let mut lead = queue.try_lead("").unwrap();
    lead.begin_batch();
    let entry = lead.next(None).unwrap();
    assert!(lead.take(&entry, &mut Vec::new()));
    lead.demand_turn(&entry);
    lead.end_batch(&[], false);
    assert_eq!(published.stage(), Stage::MustLead);
    let entry = lead.next(None).unwrap();
    assert_eq!((entry.kind, entry.ticket), (Kind::Turn, published.ticket()));
    assert!(lead.accept_turn(&entry, &mut published));
}

/// A request that its leader gave back as a turn, whose owner was stopped then and passed over: it had never
/// seen that it was a turn. The owner could not tell this from a slot that was written over while a leader
/// executed it, and said that the outcome was unknown. Found by calls that fail while others are stopped.
#[test]
fn who_was_passed_over_knows_that_nobody_executed_it() {
    let place = Place::new();
    let queue = place.join();
    let published = publish(&queue, Kind::Request, b"for its owner alone");
    let mut lead = queue.try_lead("").unwrap();
    lead.begin_batch();
    let entry = lead.next(None).unwrap();
    assert!(lead.take(&entry, &mut Vec::new()));
    lead.demand_turn(&entry);
    lead.end_batch(&[], false);
    let turn = lead.next(None).unwrap();
    wait_until("the owner was silent for too long", || lead.call(&turn));
    assert!(lead.next(None).is_none());
    assert_eq!(published.stage(), Stage::PassedOver);
    lead.release();
    drop(published);
    assert_eq!(submit(&queue, b"next"), reversed(b"next"));
}
