//! A client and a leader as small as they can be: the answer is the request, reversed.

use std::sync::Arc;
use std::time::Duration;

use manyhands_queue::{Deadline, Kind, Lead, Orphan, Published, Queue, Stage, Unresolved, Waited};

use crate::place::LONG;

const PATIENCE: Duration = Duration::from_millis(5);

pub fn reversed(request: &[u8]) -> Vec<u8> {
    request.iter().rev().copied().collect()
}

pub fn publish(queue: &Arc<Queue>, kind: Kind, request: &[u8]) -> Published {
    let deadline = Deadline::after(LONG);
    loop {
        let mut claim = queue.claim(deadline).expect("a slot becomes free");
        assert!(claim.write(request, request.len()));
        match claim.publish(kind, "echo") {
            Ok(published) => return published,
            Err(_) => {
                assert!(!deadline.has_passed(), "the ring stays full");
                if let Some(lead) = queue.try_lead("echo").or_else(|| queue.try_take_over("echo")) {
                    lead.release();
                }
            }
        }
    }
}

/// One request, from its ticket to its answer; leads whenever nobody does.
pub fn submit(queue: &Arc<Queue>, request: &[u8]) -> Vec<u8> {
    settle(queue, publish(queue, Kind::Request, request))
}

/// The rest of it: from the ticket to the answer.
pub fn settle(queue: &Arc<Queue>, published: Published) -> Vec<u8> {
    let deadline = Deadline::after(LONG);
    loop {
        match published.stage() {
            Stage::Answered => return published.into_answer().expect("sound memory"),
            Stage::Executing => {}
            Stage::Waiting => {
                if let Some(lead) = queue.try_lead("echo") {
                    serve(lead);
                    continue;
                }
            }
            stage => panic!("a request of a living client is {stage:?}"),
        }
        assert!(!deadline.has_passed(), "no answer in time");
        if published.wait(deadline, PATIENCE) == Waited::Patience
            && let Some(lead) = queue.try_take_over("echo")
        {
            serve(lead);
        }
    }
}

/// Serves all that wait, in batches. Turns are called, and passed over when their owners are silent.
pub fn serve(mut lead: Lead) {
    if lead.orphan() == Orphan::Batch {
        let committed = lead.unresolved() == Unresolved::Sealed;
        lead.resolve(committed);
    }
    while let Some(first) = lead.next(None) {
        match first.kind {
            Kind::Turn if lead.call(&first) => {}
            Kind::Turn => break,
            Kind::Request => {
                serve_batch(&mut lead);
            }
        }
    }
    lead.release();
}

/// Serves the requests before the next turn. Returns them, in the order in which they were executed.
pub fn serve_batch(lead: &mut Lead) -> Vec<Vec<u8>> {
    lead.begin_batch();
    let (mut executed, mut requests) = (Vec::new(), Vec::new());
    let mut from = None;
    let mut request = Vec::new();
    while let Some(entry) = lead.next(from).filter(|entry| entry.kind == Kind::Request) {
        from = Some(entry.ticket.next());
        if lead.take(&entry, &mut request) {
            assert!(lead.executed(&entry, request.len(), &reversed(&request)));
            executed.push(entry);
            requests.push(request.clone());
        }
    }
    lead.queue().seal();
    lead.end_batch(&executed, true);
    requests
}
