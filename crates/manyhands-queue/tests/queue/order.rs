//! First come, first served.

use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use manyhands_queue::{Deadline, Kind, Stage};

use crate::child::{Process, listen, tell};
use crate::echo::{publish, reversed, serve_batch, submit};
use crate::place::{Place, join};

/// Where the file keeps its tail.
const TAIL_AT: u64 = 128;

pub fn publisher(path: &Path) {
    let queue = join(path).unwrap();
    let mut published = Vec::new();
    tell("ready");
    while listen() == "publish" {
        published.push(publish(&queue, Kind::Request, b"theirs"));
        tell(&published.last().unwrap().ticket().0.to_string());
    }
}

/// Who has published before another one begins to is before it, whichever processes the two are.
#[test]
fn tickets_follow_arrival_over_processes() {
    let place = Place::new();
    let queue = place.join();
    let mut other = Process::start("publisher", &place.path());
    other.expect("ready");
    let mut last = 0;
    let mut own = Vec::new();
    for _ in 0..100 {
        own.push(publish(&queue, Kind::Request, b"ours"));
        let ours = own.last().unwrap().ticket().0;
        other.say("publish");
        let theirs: u64 = other.hear().parse().unwrap();
        assert!(last < ours && ours < theirs, "{last} {ours} {theirs}");
        last = theirs;
    }
    let mut lead = queue.try_lead("").unwrap();
    let requests = serve_batch(&mut lead);
    let expected: Vec<&[u8]> = [b"ours" as &[u8], b"theirs"].repeat(100);
    assert_eq!(requests, expected);
}

/// Many threads at once: no ticket twice, none lost, and the leader meets them in their order.
#[test]
fn tickets_of_many_threads_are_a_row() {
    const THREADS: u8 = 8;
    const EACH: u8 = 200;
    let place = Place::new();
    let queue = place.join();
    let barrier = Barrier::new(usize::from(THREADS));
    let mut published: Vec<_> = std::thread::scope(|scope| {
        let publishing = |thread| {
            let (queue, barrier) = (&queue, &barrier);
            move || {
                barrier.wait();
                (0..EACH).map(|n| publish(queue, Kind::Request, &[thread, n])).collect::<Vec<_>>()
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(publishing(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let per_thread: Vec<u64> = published.iter().map(|one| one.ticket().0).collect();
    assert!(
        per_thread.chunks(usize::from(EACH)).all(<[u64]>::is_sorted),
        "a thread overtook itself"
    );
    published.sort_by_key(|one| one.ticket());
    let first = published[0].ticket().0;
    for (index, one) in published.iter().enumerate() {
        assert_eq!(one.ticket().0, first + index as u64);
    }
    let mut lead = queue.try_lead("").unwrap();
    let requests = serve_batch(&mut lead);
    lead.release();
    assert_eq!(requests.len(), published.len());
    for (request, one) in requests.iter().zip(published) {
        assert_eq!(one.into_answer().unwrap(), reversed(request));
    }
}

/// A client died between drawing its ticket and pushing the tail, and the leader passed its entry: the
/// tail was left behind the head. Every later client was told that the ring is full, for ever.
#[test]
fn a_tail_behind_the_head_is_pushed_on() {
    let place = Place::new();
    let queue = place.join();
    for _ in 0..3 {
        submit(&queue, b"before");
    }
    let next = publish(&queue, Kind::Request, b"next").ticket();
    submit(&queue, b"served");
    place.overwrite(TAIL_AT, &(next.0 - 2).to_ne_bytes());
    let claim = queue.claim(Deadline::after(Duration::from_secs(1))).unwrap();
    let published = claim.publish(Kind::Request, "").expect("the ring is not full");
    assert!(published.ticket() > next);
}

/// More withdrawn requests than the ring is long, with no leader: the ring is full, and says so; the
/// next leader clears it.
#[test]
fn a_ring_full_of_withdrawn_requests_is_cleared_by_a_leader() {
    let place = Place::new();
    let queue = place.join();
    let deadline = Deadline::after(Duration::from_secs(20));
    let mut drawn = 0;
    while let Ok(mut published) = queue.claim(deadline).unwrap().publish(Kind::Request, "") {
        assert!(published.withdraw());
        drawn += 1;
        assert!(drawn <= 4096, "the ring has an end");
    }
    assert_eq!(drawn, 4096);
    assert!(queue.is_sound(), "a full ring is no damage");
    queue.try_lead("").unwrap().release();
    assert_eq!(submit(&queue, b"again"), reversed(b"again"));
}

/// A client gives up at the moment at which a leader takes its request: exactly one of the two wins.
#[test]
fn a_request_is_withdrawn_or_taken_never_both() {
    let place = Place::new();
    let queue = place.join();
    let (mut taken_count, mut withdrawn_count) = (0, 0);
    let barrier = Barrier::new(2);
    for round in 0..2000u32 {
        let mut published = publish(&queue, Kind::Request, &round.to_ne_bytes());
        let mut lead = queue.try_lead("").unwrap();
        lead.begin_batch();
        let entry = lead.next(None).unwrap();
        let mut request = Vec::new();
        let (withdrawn, taken) = std::thread::scope(|scope| {
            let withdrawing = scope.spawn(|| {
                barrier.wait();
                published.withdraw()
            });
            barrier.wait();
            // Now and then the leader comes later.
            (0..round % 64).for_each(|_| std::hint::spin_loop());
            let taken = lead.take(&entry, &mut request);
            (withdrawing.join().unwrap(), taken)
        });
        assert_ne!(withdrawn, taken);
        if taken {
            assert_eq!(published.stage(), Stage::Executing);
            assert!(!published.withdraw(), "a taken request was withdrawn");
            assert!(lead.executed(&entry, request.len(), &request));
            lead.end_batch(&[entry], true);
            assert_eq!(published.into_answer().unwrap(), round.to_ne_bytes());
            taken_count += 1;
        } else {
            lead.end_batch(&[], false);
            withdrawn_count += 1;
        }
        lead.release();
    }
    assert!(queue.is_idle());
    println!("{taken_count} taken, {withdrawn_count} withdrawn");
}
