//! Models: the queue in memory of one process, under every interleaving (loom) or many random ones
//! (shuttle). A promise broken in any of them is a panic; a lost wake-up is a model that never ends.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p manyhands-queue --release --lib model
//! RUSTFLAGS="--cfg shuttle" cargo test -p manyhands-queue --release --lib model
//! ```

use core::time::Duration;
use std::sync::Arc;

use crate::barging::QUANTUM_NS;
#[cfg(shuttle)]
use crate::barging::Reservation;
use crate::clock::Deadline;
use crate::fate::Unresolved;
use crate::leader::{Lead, Orphan};
use crate::published::{Published, Stage};
use crate::queue::{Kind, Queue};
#[cfg(loom)]
use crate::recent::{self, CommitNote};
use crate::region::{Memory, Region};

/// Never: a model has no clock.
fn never() -> Deadline {
    Deadline::after(Duration::MAX)
}

fn join(memory: &Memory, member: u16) -> Arc<Queue> {
    Queue::of(Region::join(memory, member))
}

fn publish(queue: &Arc<Queue>, request: u8, executed: &impl Fn(u8)) -> Published {
    loop {
        let mut claim = queue.claim(never()).expect("a slot");
        assert!(claim.write(&[request], 8));
        match claim.publish(Kind::Request, "") {
            Ok(published) => return published,
            // The ring is full of answered requests, until a leader passes them.
            Err(_) => match queue.try_lead("").or_else(|| queue.try_take_over("")) {
                Some(lead) => serve(lead, executed),
                None => crate::sync::spin(),
            },
        }
    }
}

/// Waits for the answer, and leads whenever nobody does. `executed` is told of each execution.
fn await_answer(queue: &Arc<Queue>, published: Published, executed: &impl Fn(u8)) -> u8 {
    loop {
        match published.stage() {
            Stage::Answered => return published.into_answer().expect("sound memory")[0],
            Stage::Waiting => {
                if let Some(lead) = queue.try_lead("") {
                    serve(lead, executed);
                    continue;
                }
            }
            Stage::Executing => {}
            stage => panic!("a request of a living client is {stage:?}"),
        }
        published.wait(never(), Duration::MAX);
    }
}

/// Serves what waits, one batch. Whoever comes later leads itself.
fn serve(mut lead: Lead, executed: &impl Fn(u8)) {
    if lead.orphan() == Orphan::Batch {
        let committed = lead.unresolved() == Unresolved::Sealed;
        lead.resolve(committed);
    }
    lead.begin_batch();
    let (mut batch, mut from, mut request) = (Vec::new(), None, Vec::new());
    while let Some(entry) = lead.next(from) {
        from = Some(entry.ticket.next());
        if lead.take(&entry, &mut request) {
            executed(request[0]);
            assert!(lead.executed(&entry, request.len(), &[request[0] + 100]));
            batch.push(entry);
        }
    }
    lead.queue().seal();
    lead.end_batch(&batch, true);
    lead.release();
}

#[cfg(loom)]
mod every_interleaving {
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::thread;

    use super::*;

    fn nobody(_: u8) {
        panic!("nothing is executed here");
    }

    fn check(preemptions_max: usize, model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions_max);
        builder.max_branches = 20_000;
        builder.check(model);
    }

    /// Two clients draw tickets, whoever finds the place free leads and answers: each request is
    /// executed once, each answer comes to its request, and nobody sleeps for ever.
    ///
    /// They have their slots already: how two come to one each is what the models of slots are about,
    /// and to explore both at once takes minutes. Of sixteen faults in the order of arrival, in leading
    /// and in waking, two preemptions find here what three find.
    #[test]
    fn every_request_is_answered_once() {
        check(2, || {
            let memory = Memory::new();
            let count = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            let client = |member: u16| {
                let (queue, count) = (join(&memory, member), Arc::clone(&count));
                let mut claim = queue.claim(never()).expect("a slot");
                assert!(claim.write(&[member as u8], 8));
                move || {
                    let executed = |request: u8| {
                        count[usize::from(request)].fetch_add(1, Ordering::Relaxed);
                    };
                    let published = claim.publish(Kind::Request, "").expect("room in the ring");
                    assert_eq!(await_answer(&queue, published, &executed), member as u8 + 100);
                }
            };
            let (first, second) = (client(0), client(1));
            let other = thread::spawn(second);
            first();
            other.join().expect("the other client ends");
            for executed in count.iter() {
                assert_eq!(executed.load(Ordering::Relaxed), 1, "executed once");
            }
            let last = join(&memory, 2);
            assert!(last.is_idle() && last.is_sound());
        });
    }

    /// Two clients draw at the same moment: two tickets in a row, each with its own slot.
    #[test]
    fn no_ticket_is_lost_or_doubled() {
        check(3, || {
            let memory = Memory::new();
            let (one, two) = (join(&memory, 0), join(&memory, 1));
            let other = thread::spawn(move || publish(&two, 2, &nobody));
            let mine = publish(&one, 1, &nobody);
            let theirs = other.join().expect("published");
            assert_eq!(mine.ticket().0.abs_diff(theirs.ticket().0), 1);
            let mut lead = one.try_lead("").expect("nobody leads");
            lead.begin_batch();
            let first = lead.next(None).expect("the first");
            let second = lead.next(Some(first.ticket.next())).expect("the second");
            assert_eq!(lead.next(Some(second.ticket.next())), None);
            assert_eq!(first.ticket, mine.ticket().min(theirs.ticket()));
        });
    }

    /// A client gives up while a leader takes its request: one of the two wins, and a withdrawn
    /// request is never executed.
    #[test]
    fn withdrawn_or_taken() {
        check(4, || {
            let memory = Memory::new();
            let (client, leader) = (join(&memory, 0), join(&memory, 1));
            let mut published = publish(&client, 7, &nobody);
            let taking = thread::spawn(move || {
                let lead = leader.try_lead("").expect("nobody leads");
                let count = core::cell::Cell::new(0);
                serve(lead, &|request| {
                    assert_eq!(request, 7);
                    count.set(count.get() + 1);
                });

                count.get()
            });
            let withdrawn = published.withdraw();
            let answer = (!withdrawn).then(|| await_answer(&client, published, &|_| ()));
            let taken = taking.join().expect("the leader ends");
            assert_eq!(taken, usize::from(!withdrawn));
            assert_eq!(answer, (!withdrawn).then_some(107));
        });
    }

    /// A client publishes, sees the place taken and sleeps, while the leader sees no entry and lets
    /// go: at least one of the two must see the other.
    #[test]
    fn no_wake_up_is_lost() {
        check(3, || {
            let memory = Memory::new();
            let (client, leader) = (join(&memory, 0), join(&memory, 1));
            let lead = leader.try_lead("").expect("nobody leads");
            let releasing = thread::spawn(move || lead.release());
            let published = publish(&client, 7, &nobody);
            assert_eq!(await_answer(&client, published, &|_| ()), 107);
            releasing.join().expect("released");
        });
    }

    /// One leads, and leads again as long as the place is reserved for it, while another one waits for its turn: when the
    /// quantum is over, only the one that waits begins to lead, and it is not left asleep, whether the barger comes back or
    /// was killed.
    #[test]
    fn the_first_in_the_queue_is_not_forgotten() {
        for leads_again in 0..2 {
            for returns in [false, true] {
                check(2, move || barge(leads_again, returns));
            }
        }
    }

    fn barge(leads_again: u32, returns: bool) {
        let memory = Memory::new();
        let (barger, waiter) = (join(&memory, 0), join(&memory, 1));
        let mut lead = barger.try_lead("").expect("nobody leads");
        let claim = waiter.claim(never()).expect("a slot");
        let mut turn = claim.publish(Kind::Turn, "").expect("room in the ring");
        let waiting = thread::spawn(move || {
            let mut lead = loop {
                match waiter.try_lead("") {
                    Some(lead) => break lead,
                    None => turn.wait(never(), Duration::MAX),
                };
            };
            let entry = lead.next(None).expect("the turn waits");
            assert!(lead.accept_turn(&entry, &mut turn));
        });
        for _ in 0..leads_again {
            let reservation = lead.release_and_return(true).expect("the quantum lasts");
            lead = reservation.lead("").expect("the place is reserved");
        }
        let reservation = lead.release_and_return(true).expect("the quantum lasts");
        memory.pass(QUANTUM_NS);
        if returns {
            assert!(reservation.lead("").is_none(), "the quantum is over");
        } else {
            core::mem::forget(reservation);
        }
        waiting.join().expect("the turn comes");
    }

    /// A client waits for a slot while another one gives its own back.
    #[test]
    fn a_free_slot_is_not_missed() {
        check(3, || {
            let memory = Memory::new();
            let (one, two) = (join(&memory, 0), join(&memory, 1));
            let mut held: Vec<_> =
                (0..crate::SLOTS).map(|_| one.claim(never()).expect("a slot")).collect();
            let freeing = thread::spawn(move || drop(held.pop().map(|one| (one, held))));
            assert!(two.claim(never()).is_some());
            freeing.join().expect("freed");
        });
    }

    /// Whoever freed all slots died before it could say so. They are found, by two at once.
    #[test]
    fn slots_that_a_dead_client_freed_are_found() {
        check(3, || {
            let memory = Memory::new();
            let (one, two) = (join(&memory, 0), join(&memory, 1));
            memory.shared().header.used.0[0].store(u64::MAX, Ordering::Relaxed);
            let other = thread::spawn(move || drop(two.claim(never()).expect("a slot")));
            drop(one.claim(never()).expect("a slot"));
            other.join().expect("claimed");
        });
    }

    /// A leader died after it answered the first of two. Two successors want its place: one gets it,
    /// the answered client reads at any moment, and the other request is answered once.
    #[test]
    fn a_half_answered_batch_is_finished_by_one_successor() {
        check(3, || {
            let memory = Memory::new();
            let (dead, one, two) = (join(&memory, 2), join(&memory, 0), join(&memory, 1));
            let (first, second) = (publish(&one, 1, &nobody), publish(&two, 2, &nobody));
            let mut lead = dead.try_lead("").expect("nobody leads");
            lead.begin_batch();
            let mut request = Vec::new();
            let mut batch = Vec::new();
            let mut from = None;
            while let Some(entry) = lead.next(from) {
                from = Some(entry.ticket.next());
                assert!(lead.take(&entry, &mut request));
                assert!(lead.executed(&entry, request.len(), &[request[0] + 100]));
                batch.push(entry);
            }
            dead.seal();
            lead.end_batch(&batch[..1], true);
            // Death runs no destructors.
            core::mem::forget(lead);
            memory.kill(2);
            let take_over = |queue: Arc<Queue>, published: Published| {
                if let Some(lead) = queue.try_take_over("") {
                    serve(lead, &|_| panic!("a committed request is executed again"));
                }
                await_answer(&queue, published, &|_| {
                    panic!("a committed request is executed again")
                })
            };
            let other = thread::spawn(move || take_over(two, second));
            assert_eq!(take_over(one, first), 101);
            assert_eq!(other.join().expect("the other client ends"), 102);
        });
    }

    /// A client dies with a long request in the queue, and another one takes its block while a leader
    /// copies the request: the leader reads the dead client's bytes or none.
    #[test]
    fn nobody_executes_anothers_bytes() {
        // The checker begins with one order and varies it; from either of the two it misses some.
        for leader_first in [true, false] {
            check(3, move || take_a_block_from_the_dead(leader_first));
        }
    }

    /// A leader dies in the middle of a note, anywhere: who reads at that moment sees what a successor
    /// would see. It is the old entry, the new one, or none.
    #[test]
    fn half_a_commit_note_is_none() {
        check(4, || {
            let memory = Memory::new();
            let note = |change: u32| {
                let before = u64::from(change) + 9;
                CommitNote { change, before, after: before + 1, tables: 1 << change }
            };
            // Both have the same place.
            let (old, new) = (note(1), note(1 + crate::layout::RECENT as u32));
            recent::write(&memory.shared().recent.0, &old);
            let writer = memory.clone();
            let writing = thread::spawn(move || recent::write(&writer.shared().recent.0, &new));
            for note in [old, new] {
                let (since, now) = ((note.change - 1, note.before), (note.change, note.after));
                let tables = recent::tables_written(&memory.shared().recent.0, since, now);
                assert!(tables.is_none_or(|tables| tables == note.tables), "{tables:?}");
            }
            writing.join().expect("noted");
        });
    }

    /// Two clients reserve ids of one table, while one gives its own back: no two hold the same.
    #[test]
    fn no_reserved_id_is_held_twice() {
        check(3, || {
            let memory = Memory::new();
            let (one, two) = (join(&memory, 0), join(&memory, 1));
            let other = thread::spawn(move || {
                let id = two.reserve_id(5, 10).expect("an id");
                two.give_back_id(5, id);
                two.reserve_id(5, 10).expect("an id")
            });
            let mine = [one.reserve_id(5, 10), one.reserve_id(5, 10)].map(|id| id.expect("an id"));
            let theirs = other.join().expect("reserved");
            assert!(mine[0] != mine[1] && !mine.contains(&theirs), "{mine:?} {theirs}");
        });
    }

    /// Two tables drive each other out of the one place that there is: neither gets ids out of the
    /// other's range.
    #[test]
    fn an_evicted_table_leaves_no_id_behind() {
        check(3, || {
            let memory = Memory::new();
            let (one, two) = (join(&memory, 0), join(&memory, 1));
            let reserve = |queue: &Queue, table: u64, floor: i64| {
                for _ in 0..2 {
                    let id = queue.reserve_id(table, floor).expect("an id");
                    assert!((floor + 1..floor + 3).contains(&id), "{id} above {floor}");
                }
            };
            let other = thread::spawn(move || reserve(&two, 6, 0));
            reserve(&one, 5, 1000);
            other.join().expect("reserved");
        });
    }

    fn take_a_block_from_the_dead(leader_first: bool) {
        const BYTES: usize = crate::REQUEST_BYTES_MAX;
        let memory = Memory::new();
        let (dead, living, leader) = (join(&memory, 0), join(&memory, 1), join(&memory, 2));
        let claim = |queue: &Arc<Queue>, request: u8| {
            let mut claim = queue.claim(never()).expect("a slot");
            claim.write(&[request; BYTES], 8).then_some(claim)
        };
        // The other block is in use all the time.
        let held = claim(&leader, 9).expect("a block");
        let orphan = claim(&dead, 7).expect("a block");
        core::mem::forget(orphan.publish(Kind::Request, "").expect("room in the ring"));
        memory.kill(0);
        let write = move || {
            let claim = claim(&living, 8).expect("the dead client's block");
            (living, claim.publish(Kind::Request, "").expect("room in the ring"))
        };
        let lead = move || {
            let mut lead = leader.try_lead("").expect("nobody leads");
            lead.begin_batch();
            let entry = lead.next(None).expect("the dead client's request waits");
            let mut request = Vec::new();
            assert!(lead.take(&entry, &mut request));
            assert!(request.is_empty() || request == [7; BYTES], "{request:?}");
            (lead, entry)
        };
        let ((mut lead, entry), (living, published)) = if leader_first {
            let writing = thread::spawn(write);
            (lead(), writing.join().expect("published"))
        } else {
            let leading = thread::spawn(lead);
            let written = write();
            (leading.join().expect("taken"), written)
        };
        // The living client's own request is whole.
        let entry = lead.next(Some(entry.ticket.next())).expect("a request waits");
        let mut request = Vec::new();
        assert!(lead.take(&entry, &mut request) && request == [8; BYTES], "{request:?}");
        drop((living, published, held));
    }
}

#[cfg(shuttle)]
mod random_schedules {
    use shuttle::sync::atomic::{AtomicUsize, Ordering};
    use shuttle::thread;

    use super::*;

    const SCHEDULES: usize = 20_000;

    /// Five clients of three processes, on three slots; the first leader dies with its batch open,
    /// sealed or not. Everybody is answered; a sealed batch is not executed again.
    #[test]
    fn everybody_is_answered_though_the_leader_dies() {
        for sealed in [false, true] {
            shuttle::check_random(move || die_and_take_over(sealed), SCHEDULES);
        }
    }

    fn die_and_take_over(sealed: bool) {
        const CLIENTS: u8 = 5;
        let memory = Memory::new();
        let dead = join(&memory, 3);
        let count: Arc<Vec<AtomicUsize>> =
            Arc::new((0..CLIENTS).map(|_| AtomicUsize::new(0)).collect());
        let executed = |count: &Arc<Vec<AtomicUsize>>| {
            let count = Arc::clone(count);
            move |request: u8| {
                count[usize::from(request)].fetch_add(1, Ordering::Relaxed);
            }
        };
        let mut lead = dead.try_lead("").expect("nobody leads");
        let queues = [0, 1, 2].map(|member| join(&memory, member));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let queue = Arc::clone(&queues[usize::from(client % 3)]);
                let executed = executed(&count);
                thread::spawn(move || {
                    let published = publish(&queue, client, &executed);
                    let answer = loop {
                        match published.stage() {
                            Stage::Answered => {
                                break published.into_answer().expect("sound memory")[0];
                            }
                            Stage::Executing | Stage::Waiting => {
                                let lead = queue.try_lead("").or_else(|| queue.try_take_over(""));
                                match lead {
                                    Some(lead) => serve(lead, &executed),
                                    None => thread::yield_now(),
                                }
                            }
                            stage => panic!("a request of a living client is {stage:?}"),
                        }
                    };
                    assert_eq!(answer, client + 100);
                })
            })
            .collect();
        // The leader that dies: it takes what it finds, and never answers.
        let killed = executed(&count);
        let mut lost = Vec::new();
        lead.begin_batch();
        let (mut from, mut request) = (None, Vec::new());
        while let Some(entry) = lead.next(from) {
            from = Some(entry.ticket.next());
            if lead.take(&entry, &mut request) {
                killed(request[0]);
                lost.push(request[0]);
                assert!(lead.executed(&entry, request.len(), &[request[0] + 100]));
            }
        }
        if sealed {
            dead.seal();
        }
        core::mem::forget(lead);
        memory.kill(3);
        for client in clients {
            client.join().expect("the client ends");
        }
        for (client, executed) in count.iter().enumerate() {
            let again = usize::from(lost.contains(&(client as u8)) && !sealed);
            assert_eq!(executed.load(Ordering::Relaxed), 1 + again, "client {client}");
        }
        assert!(queues[0].is_idle() && queues[0].is_sound());
    }

    /// Three clients of three processes take turn after turn, and come back at once, while time passes: each gets its turns,
    /// and nobody leads beside another.
    #[test]
    fn everybody_gets_turns_beside_who_comes_back() {
        shuttle::check_random(come_back, SCHEDULES);
    }

    fn come_back() {
        const TURNS: usize = 3;
        let memory = Memory::new();
        let leading = Arc::new(AtomicUsize::new(0));
        let clients: Vec<_> = (0..3)
            .map(|member| {
                let (queue, memory) = (join(&memory, member), memory.clone());
                let leading = Arc::clone(&leading);
                thread::spawn(move || {
                    let mut reservation: Option<Reservation> = None;
                    for _ in 0..TURNS {
                        let again = reservation.take().and_then(|it| it.lead(""));
                        let lead = again.unwrap_or_else(|| wait_for_turn(&queue));
                        assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two lead");
                        memory.pass(QUANTUM_NS / 3);
                        leading.fetch_sub(1, Ordering::SeqCst);
                        reservation = lead.release_and_return(true);
                    }
                    // One is killed where it is, and the others give the place away.
                    if member == 0 {
                        memory.pass(QUANTUM_NS);
                        core::mem::forget(reservation);
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().expect("the client ends");
        }
    }

    fn wait_for_turn(queue: &Arc<Queue>) -> Lead {
        let mut turn = loop {
            match queue.claim(never()).expect("a slot").publish(Kind::Turn, "") {
                Ok(turn) => break turn,
                // The ring is full of turns that were taken, until a leader passes them.
                Err(_) => drop(queue.try_lead("")),
            }
            thread::yield_now();
        };
        loop {
            if turn.may_lead()
                && let Some(mut lead) = queue.try_lead("")
                && let Some(entry) = lead.next(None)
                && lead.accept_turn(&entry, &mut turn)
            {
                return lead;
            }
            turn.wait(never(), Duration::MAX);
        }
    }

    /// Six clients with the ordinary wait: bells, sleeps, and leaders that let go.
    #[test]
    fn six_clients_serve_each_other() {
        shuttle::check_random(
            || {
                let memory = Memory::new();
                let count = Arc::new(AtomicUsize::new(0));
                let queues = [0, 1, 2].map(|member| join(&memory, member));
                let clients: Vec<_> = (0..6u8)
                    .map(|client| {
                        let queue = Arc::clone(&queues[usize::from(client % 3)]);
                        let count = Arc::clone(&count);
                        thread::spawn(move || {
                            let executed = |_| {
                                count.fetch_add(1, Ordering::Relaxed);
                            };
                            let published = publish(&queue, client, &executed);
                            assert_eq!(await_answer(&queue, published, &executed), client + 100);
                        })
                    })
                    .collect();
                for client in clients {
                    client.join().expect("the client ends");
                }
                assert_eq!(count.load(Ordering::Relaxed), 6, "each executed once");
            },
            SCHEDULES,
        );
    }
}
