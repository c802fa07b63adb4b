//! Who comes back at once may lead again before those who wait: for a quantum, and whatever becomes of it.

use std::thread;
use std::time::Instant;

use manyhands_queue::{Deadline, Kind, Lead, Published, Queue, Reservation};
use std::sync::Arc;

use crate::echo::publish;
use crate::place::{LONG, Place};

/// Where the file keeps until when the place is reserved.
const RESERVED_UNTIL_AT: u64 = 1088;

/// One that has led and will be back, and a turn that waits. In a quantum that is not over yet.
fn reserved(queue: &Arc<Queue>) -> (Reservation, Published) {
    let began = Instant::now();
    loop {
        let lead = queue.try_lead("barger").unwrap();
        let mut turn = publish(queue, Kind::Turn, &[]);
        match lead.release_and_return(true) {
            Some(reservation) => return (reservation, turn),
            // This thread had no processor for so long.
            None => assert!(turn.withdraw() && began.elapsed() < LONG),
        }
    }
}

/// The turn that waits takes the place.
fn take(queue: &Arc<Queue>, turn: &mut Published) -> Lead {
    let deadline = Deadline::after(LONG);
    loop {
        if turn.may_lead()
            && let Some(mut lead) = queue.try_lead("turn")
        {
            let entry = lead.next(None).unwrap();
            assert!(lead.accept_turn(&entry, turn));
            return lead;
        }
        assert!(!deadline.has_passed(), "the first in the queue was forgotten");
        turn.wait(deadline, LONG);
    }
}

/// A leader that is back each time gets the place until its quantum is over, and not for longer: to lead again does not
/// lengthen it.
#[test]
fn who_comes_back_goes_on_for_a_quantum() {
    let place = Place::new();
    let queue = place.join();
    let mut most = 0;
    let began = Instant::now();
    while most < 2 {
        let (mut reservation, mut turn) = reserved(&queue);
        let mut count = 0;
        while let Some(lead) = reservation.lead("barger") {
            count += 1;
            assert!(began.elapsed() < LONG, "it goes on for ever");
            let Some(next) = lead.release_and_return(true) else { break };
            reservation = next;
        }
        most = most.max(count);
        take(&queue, &mut turn).release();
    }
}

/// While it is reserved, nobody else takes the place: neither the first in the queue nor who has just come.
#[test]
fn a_reserved_place_is_its_owners() {
    let place = Place::new();
    let (queue, other) = (place.join(), place.join());
    for _ in 0..100 {
        let (reservation, turn) = reserved(&queue);
        let invited = turn.may_lead();
        let taken = other.try_lead("other");
        let again = reservation.lead("barger");
        assert!(!(invited || taken.is_some()) || again.is_none(), "two have the place");
    }
}

/// The barger was stopped, or killed, and rings for nobody: the first in the queue looks for itself, and nothing has to be
/// repaired.
#[test]
fn a_barger_that_does_not_come_back_is_not_waited_for() {
    let place = Place::new();
    let (queue, other) = (place.join(), place.join());
    for _ in 0..20 {
        let (reservation, mut turn) = thread::scope(|scope| {
            let lead = queue.try_lead("barger").unwrap();
            let waits = scope.spawn(|| {
                let mut turn = publish(&other, Kind::Turn, &[]);
                take(&other, &mut turn).release();
                turn
            });
            while lead.next(None).is_none() {
                thread::yield_now();
            }
            let reservation = lead.release_and_return(true);
            let turn = waits.join().unwrap();
            (reservation, turn)
        });
        assert!(reservation.is_none_or(|it| it.lead("late").is_none()), "somebody has led since");
        assert!(turn.withdraw());
    }
}

/// Who will not be back gives the place away at once.
#[test]
fn a_reservation_that_is_dropped_is_over() {
    let place = Place::new();
    let queue = place.join();
    let (reservation, turn) = reserved(&queue);
    drop(reservation);
    assert!(turn.may_lead() && queue.try_lead("turn").is_some());
}

/// Where nobody waits there is nothing to reserve; and requests that share a commit are not made to wait for single ones.
#[test]
fn it_is_reserved_before_turns_alone() {
    let place = Place::new();
    let queue = place.join();
    assert!(queue.try_lead("").unwrap().release_and_return(true).is_none());
    let _request = publish(&queue, Kind::Request, b"served together");
    assert!(queue.try_lead("").unwrap().release_and_return(false).is_none());
    assert!(queue.try_lead("").is_some());
}

/// The one that waited gave up. Who comes then finds nobody before it: with a timeout of 0 it would have failed.
#[test]
fn where_nobody_waits_any_more_the_place_is_free() {
    let place = Place::new();
    let queue = place.join();
    let (reservation, mut turn) = reserved(&queue);
    assert!(turn.withdraw());
    let lead = queue.try_lead("another").unwrap();
    assert!(reservation.lead("barger").is_none());
    lead.release();
}

/// A time of another clock, or rubbish, reserves nothing.
#[test]
fn a_time_further_off_than_a_quantum_reserves_nothing() {
    let place = Place::new();
    let queue = place.join();
    let (reservation, turn) = reserved(&queue);
    place.overwrite(RESERVED_UNTIL_AT, &u64::MAX.to_ne_bytes());
    assert!(turn.may_lead());
    drop(queue.try_lead("turn").unwrap());
    assert!(reservation.lead("barger").is_none());
}
