//! A leader wakes all that it has answered with a system call for each bell, and their owners sleep on many.

use std::thread;
use std::time::Instant;

use manyhands_queue::{Deadline, Kind, Lead, Stage};

use crate::echo::{publish, reversed, serve_batch};
use crate::place::{LONG, Place};

/// More than have one bell.
const SLEEPERS: u8 = 100;

/// Nobody looks for itself here: whom the leader does not wake sleeps until the deadline.
#[test]
fn all_that_were_answered_are_woken() {
    let place = Place::new();
    let queues = [place.join(), place.join()];
    for _ in 0..20 {
        let mut lead = queues[0].try_lead("leader").unwrap();
        thread::scope(|scope| {
            for number in 0..SLEEPERS {
                let queue = &queues[usize::from(number % 2)];
                scope.spawn(move || {
                    let published = publish(queue, Kind::Request, &[number, 1]);
                    let began = Instant::now();
                    while published.stage() != Stage::Answered {
                        published.wait(Deadline::after(LONG), LONG);
                    }
                    assert!(began.elapsed() < LONG, "sleeper {number} was not woken");
                    assert_eq!(published.into_answer().unwrap(), reversed(&[number, 1]));
                });
            }
            wait_for_all(&lead);
            assert_eq!(serve_batch(&mut lead).len(), usize::from(SLEEPERS));
            lead.release();
        });
    }
}

fn wait_for_all(lead: &Lead) {
    let deadline = Deadline::after(LONG);
    let published = || {
        let next = |from| lead.next(from).map(|entry| entry.ticket.next());
        std::iter::successors(next(None), |&ticket| next(Some(ticket))).count()
    };
    while published() < usize::from(SLEEPERS) {
        assert!(!deadline.has_passed(), "not all have published");
        thread::yield_now();
    }
}
