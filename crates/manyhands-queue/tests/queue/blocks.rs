//! Requests that are too long for a slot.

use std::path::Path;
use std::sync::Arc;

use manyhands_queue::{
    Claim, Deadline, Entry, Kind, Lead, PAYLOAD_BYTES, Published, Queue, REQUEST_BYTES_MAX,
    SLOT_REQUEST_BYTES_MAX, Stage,
};

use crate::child::{Process, listen, tell};
use crate::echo::{reversed, settle, submit};
use crate::place::{LONG, Place, join, wait_until};

/// How many blocks the file has, and where the words are that say whose they are.
const BLOCKS: usize = 112;
const BLOCK_WORDS_AT: u64 = 53_248;
/// Where the first slot names its block.
const FIRST_SLOT_BLOCK_AT: u64 = 376_832 + 24;
/// Where the file keeps the next member number to try.
const MEMBER_HINT_AT: u64 = 328;

/// Different bytes all over, and different ones for each `of`.
fn request(of: usize, count: usize) -> Vec<u8> {
    (0..count).map(|byte| (byte * 31 + of * 7 + byte / 251) as u8).collect()
}

fn claim(queue: &Arc<Queue>) -> Claim {
    queue.claim(Deadline::after(LONG)).expect("a slot")
}

/// A claim for each block.
fn claim_all(queue: &Arc<Queue>) -> Vec<Claim> {
    let one = |index| {
        let mut claim = claim(queue);
        assert!(claim.write(&request(index, 2000), 0), "block {index}");
        claim
    };
    (0..BLOCKS).map(one).collect()
}

fn publish(queue: &Arc<Queue>, request: &[u8], answer_bytes: usize) -> Published {
    let mut claim = claim(queue);
    assert!(claim.write(request, answer_bytes));
    claim.publish(Kind::Request, "blocks").expect("room in the ring")
}

/// Takes the first request that waits.
fn take(queue: &Arc<Queue>) -> (Lead, Entry, Vec<u8>) {
    let mut lead = queue.try_lead("blocks").expect("nobody leads");
    lead.begin_batch();
    let entry = lead.next(None).expect("a request waits");
    let mut request = Vec::new();
    assert!(lead.take(&entry, &mut request));
    (lead, entry, request)
}

/// A request of any length up to the longest comes to the leader byte for byte, and so does an answer
/// that fills what room there is.
#[test]
fn a_long_request_goes_through_with_its_answer() {
    let place = Place::new();
    let queue = place.join();
    for count in [1791, 1792, 1793, 1920, 2000, 30_000, 32_767, REQUEST_BYTES_MAX] {
        let sent = request(count, count);
        let room = Lead::answer_room(count);
        let beside = if count <= SLOT_REQUEST_BYTES_MAX { 1792 } else { 0 };
        assert_eq!(room, PAYLOAD_BYTES - beside, "{count}");
        let published = publish(&queue, &sent, room);
        let (mut lead, entry, taken) = take(&queue);
        assert!(taken == sent, "{count} bytes came as {}", taken.len());
        let answer = request(1, room);
        assert!(lead.executed(&entry, taken.len(), &answer));
        // The batch is not committed at first: the request is still whole.
        lead.put_back(&entry);
        let mut again = Vec::new();
        assert!(lead.take(&entry, &mut again) && again == sent);
        assert!(lead.executed(&entry, taken.len(), &answer));
        lead.end_batch(&[entry], true);
        lead.release();
        assert!(published.into_answer().unwrap() == answer, "{count}");
    }
    assert_eq!(claim_all(&queue).len(), BLOCKS, "all blocks came back");
}

/// An error takes the answer's place, at the place where the client looks for it.
#[test]
fn a_long_request_gets_the_error_of_its_batch() {
    let place = Place::new();
    let queue = place.join();
    let published = publish(&queue, &request(0, 30_000), 0);
    let (mut lead, entry, taken) = take(&queue);
    assert!(lead.executed(&entry, taken.len(), &[1; 1000]));
    lead.replace_answer(&entry, |room| vec![9; room]);
    lead.end_batch(&[entry], true);
    assert_eq!(published.into_answer().unwrap(), [9; PAYLOAD_BYTES]);
}

#[test]
fn what_has_no_room_is_refused_and_the_claim_stays_good() {
    let place = Place::new();
    let queue = place.join();
    let mut claim = claim(&queue);
    assert!(!claim.write(&vec![1; REQUEST_BYTES_MAX + 1], 0), "longer than a block");
    assert!(!claim.write(&vec![1; 30_000], PAYLOAD_BYTES + 1), "an answer longer than a slot");
    assert!(!claim.write(&[1; 1000], 1000), "an answer that has no room beside a short request");
    assert!(claim.write(&[1; 2000], 0) && claim.write(&[2; 3000], 0), "in the same block");
    assert_eq!(claim_all_but_one(&queue).len(), BLOCKS - 1);
    assert!(claim.write(&[3; 8], 8), "back in the slot");
    assert_eq!(claim_all(&queue).len(), BLOCKS, "the block is free again");
    let published = claim.publish(Kind::Request, "").expect("room in the ring");
    let (lead, _, taken) = take(&queue);
    assert_eq!(taken, [3; 8]);
    drop((lead, published));
}

fn claim_all_but_one(queue: &Arc<Queue>) -> Vec<Claim> {
    let one = |_| {
        let mut claim = claim(queue);
        claim.write(&[5; 2000], 0).then_some(claim)
    };
    (0..BLOCKS).map_while(one).collect()
}

/// With all blocks in use a long request is told so at once, and short ones go on as ever. A block is
/// free again however its request ends.
#[test]
fn without_a_block_slots_still_work() {
    let place = Place::new();
    let queue = place.join();
    let mut held = claim_all(&queue);
    let mut one_more = claim(&queue);
    assert!(!one_more.write(&[1; 2000], 0), "one too many");
    assert!(one_more.write(&[1; 100], 100), "the claim is good for a short request");
    drop(one_more);
    assert_eq!(submit(&queue, b"short"), reversed(b"short"));

    drop(held.pop());
    let mut withdrawn = publish(&queue, &[1; 2000], 0);
    assert!(withdrawn.withdraw());
    drop(publish(&queue, &[2; 2000], 0));
    let answered = publish(&queue, &[3; 1900], 1900);
    crate::echo::serve(queue.try_lead("").unwrap());
    assert_eq!(answered.into_answer().unwrap(), [3; 1900]);
    held.push(claim(&queue));
    assert!(held.last_mut().unwrap().write(&[4; 2000], 0));
    assert!(!claim(&queue).write(&[5; 2000], 0), "one too many again");
}

/// Holds all blocks: one for a request in the queue, the others in claims.
pub fn holder(path: &Path) {
    let queue = join(path).unwrap();
    let published = publish(&queue, &request(500, 30_000), 0);
    let mut held = Vec::new();
    for _ in 1..BLOCKS {
        held.push(claim(&queue));
        assert!(held.last_mut().unwrap().write(&[6; 2000], 0));
    }
    tell("holds all");
    listen();
    drop((published, held));
}

/// A process is killed with all blocks in its hands. They come back when they are needed. Its request
/// still waits, and its block is somebody else's by then: nobody executes the other's bytes for it.
#[test]
fn the_blocks_of_a_killed_process_come_back() {
    let place = Place::new();
    let queue = place.join();
    let process = Process::start("blocks", &place.path());
    process.expect("holds all");
    assert!(!claim(&queue).write(&[1; 2000], 0), "who lives is not robbed");
    let (mut lead, entry, taken) = take(&queue);
    assert!(taken == request(500, 30_000), "whole, while its owner lives");
    lead.put_back(&entry);
    process.kill();
    wait_until("the killed process is dead", || !queue.has_other_members());
    let held = claim_all(&queue);
    let mut orphan = vec![1];
    assert!(lead.take(&entry, &mut orphan), "the dead member's slot is not swept yet");
    assert!(orphan.is_empty(), "{} bytes of somebody else", orphan.len());
    lead.put_back(&entry);
    lead.end_batch(&[], false);
    drop(held);
}

/// Nobody sees any more that a member died when another one joined with its number.
#[test]
fn the_blocks_of_a_number_used_again_come_back() {
    let place = Place::new();
    let queue = place.join();
    let process = Process::start("blocks", &place.path());
    process.expect("holds all");
    process.kill();
    wait_until("the killed process is dead", || !queue.has_other_members());
    place.overwrite(MEMBER_HINT_AT, &1u64.to_ne_bytes());
    let heir = place.join();
    assert_eq!(claim_all(&queue).len(), BLOCKS);
    drop(heir);
}

/// Whatever stands in the words of a block, a leader reads the request or nothing; the owner of nothing
/// can still withdraw, or execute it itself.
#[test]
fn a_damaged_block_is_no_request() {
    let word = |count: u64, member: u64, slot: u64| count << 33 | 1 << 32 | member << 16 | slot;
    let check = |at: u64, bytes: &[u8]| {
        let place = Place::new();
        let queue = place.join();
        let mut published = publish(&queue, &[7; 30_000], 0);
        place.overwrite(at, bytes);
        let (mut lead, entry, taken) = take(&queue);
        assert!(taken.is_empty(), "{bytes:?}: {} bytes", taken.len());
        lead.demand_turn(&entry);
        lead.end_batch(&[], false);
        assert_eq!(published.stage(), Stage::MustLead);
        let turn = lead.next(None).unwrap();
        assert!(lead.accept_turn(&turn, &mut published));
        drop(published);
        lead.release();
        assert_eq!(submit(&queue, b"after"), reversed(b"after"));
        // At most one block is lost.
        assert!(claim_all_but_one(&queue).len() >= BLOCKS - 1);
        assert!(queue.is_sound());
    };
    for damaged in [0, 1, u64::MAX, word(1, 1, 0), word(1, 0, 1), word(1, 4096, 0), 1 << 33] {
        check(BLOCK_WORDS_AT, &damaged.to_ne_bytes());
    }
    for damaged in [0, 2, 112, 113, u32::MAX] {
        check(FIRST_SLOT_BLOCK_AT, &damaged.to_ne_bytes());
    }
    // The length of the request, longer than a block.
    check(FIRST_SLOT_BLOCK_AT - 8, &32_769u32.to_ne_bytes());
    check(FIRST_SLOT_BLOCK_AT - 8, &u32::MAX.to_ne_bytes());
}

/// More threads than blocks, in two members, send long requests: each gets the answer to its own.
#[test]
fn long_requests_of_many_threads_are_not_mixed() {
    const THREADS: usize = 150;
    let place = Place::new();
    let queues = [place.join(), place.join()];
    let send = |thread: usize, round: usize| {
        let queue = &queues[thread % 2];
        let sent = request(thread * 4 + round, 1800 + thread % 100);
        let deadline = Deadline::after(LONG);
        let claim = loop {
            let mut claim = claim(queue);
            if claim.write(&sent, sent.len()) {
                break claim;
            }
            assert!(!deadline.has_passed(), "no block becomes free");
            drop(claim);
            std::thread::yield_now();
        };
        let published = claim.publish(Kind::Request, "").expect("room in the ring");
        assert!(settle(queue, published) == reversed(&sent), "thread {thread}, round {round}");
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || (0..4).for_each(|round| send(thread, round)));
        }
    });
    assert_eq!(claim_all(&queues[0]).len(), BLOCKS, "all blocks came back");
}
