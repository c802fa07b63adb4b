//! A leader dies, and the next one settles its batch.

use std::path::Path;
use std::sync::Arc;

use manyhands_queue::{CommitFrame, Kind, Lead, Orphan, Published, Queue, Stage, Unresolved};

use crate::child::{Process, die, listen, tell};
use crate::echo::{publish, reversed, serve};
use crate::place::{Place, join, wait_until};

const REQUESTS: usize = 6;
const FRAME: CommitFrame =
    CommitFrame { offset: 32 + 4120, header: *b"salt, checksum, frame 17", change: 9 };

/// Leads, executes all that waits, and dies at `stage`.
pub fn dying_leader(path: &Path, stage: &str) {
    let queue = join(path).unwrap();
    tell("joined");
    listen();
    let die_at = |name: &str| {
        if name == stage {
            die();
        }
    };
    let mut lead = queue.try_lead("dying").unwrap();
    die_at("leading");
    lead.begin_batch();
    die_at("batch begun");
    let (mut executed, mut request, mut from) = (Vec::new(), Vec::new(), None);
    while let Some(entry) = lead.next(from) {
        from = Some(entry.ticket.next());
        assert!(lead.take(&entry, &mut request));
        if executed.len() == REQUESTS / 2 {
            die_at("taken");
        }
        assert!(lead.executed(&entry, request.len(), &reversed(&request)));
        executed.push(entry);
    }
    assert_eq!(executed.len(), REQUESTS);
    die_at("executed");
    queue.announce(&FRAME);
    die_at("announced");
    queue.publishing();
    die_at("publishing");
    queue.seal();
    die_at("sealed");
    // To die in the middle of answering.
    let answered = if stage == "half answered" { REQUESTS / 2 } else { REQUESTS };
    lead.end_batch(&executed[..answered], true);
    die();
}

struct Orphans {
    queue: Arc<Queue>,
    published: Vec<Published>,
    _place: Place,
}

/// Requests whose leader died at `stage`, and the leadership of its successor.
fn orphans(stage: &str) -> (Orphans, Lead) {
    let place = Place::new();
    let queue = place.join();
    let published = (0..REQUESTS).map(|n| publish(&queue, Kind::Request, &[n as u8, 7])).collect();
    let mut process = Process::start(&format!("dying-leader:{stage}"), &place.path());
    process.expect("joined");
    assert!(queue.try_take_over("early").is_none(), "nobody leads yet");
    process.say("lead");
    process.wait_killed();
    assert!(queue.try_lead("robber").is_none(), "a dead leader's place is not free");
    let mut lead = None;
    wait_until("the dead leader is succeeded", || {
        lead = queue.try_take_over("successor");
        lead.is_some()
    });
    let lead = lead.unwrap();
    assert_eq!(lead.orphan(), Orphan::Batch);
    (Orphans { queue, published, _place: place }, lead)
}

impl Orphans {
    fn stages(&self) -> Vec<Stage> {
        self.published.iter().map(|one| one.stage()).collect()
    }

    /// All get their own answer; those that still waited, from the next leader.
    fn all_are_answered(self) {
        if let Some(lead) = self.queue.try_lead("next") {
            serve(lead);
        }
        for (n, one) in self.published.into_iter().enumerate() {
            assert_eq!(one.into_answer().unwrap(), [7, n as u8], "request {n}");
        }
        assert!(self.queue.is_idle());
        assert_eq!(self.queue.counters()[3], 1, "one succession");
    }
}

/// The leader dies at each of its steps. The successor learns what it must know, and afterwards each
/// request is answered, if the batch was committed, or waits again, if not; never both, never neither.
#[test]
fn a_leader_dies_at_each_step() {
    use Stage::{Answered, Waiting};
    let nothing = Unresolved::Unannounced;
    let announced = |publishing| Unresolved::Announced { frame: FRAME, publishing };
    let check = |stage: &str, known: Unresolved, committed: bool, after: Stage| {
        let (orphans, mut lead) = orphans(stage);
        // A new queue has batch number 0, and no batch was ever sealed under another number.
        if stage != "leading" {
            assert_eq!(lead.unresolved(), known, "{stage}");
        }
        lead.resolve(committed);
        assert_eq!(lead.orphan(), Orphan::Nothing);
        assert_eq!(orphans.stages(), vec![after; REQUESTS], "{stage}, committed: {committed}");
        lead.release();
        orphans.all_are_answered();
    };
    check("leading", nothing, false, Waiting);
    check("leading", nothing, true, Waiting);
    check("batch begun", nothing, false, Waiting);
    check("taken", nothing, false, Waiting);
    check("executed", nothing, false, Waiting);
    check("announced", announced(false), false, Waiting);
    check("announced", announced(false), true, Answered);
    check("publishing", announced(true), false, Waiting);
    check("publishing", announced(true), true, Answered);
    check("sealed", Unresolved::Sealed, true, Answered);
    check("half answered", Unresolved::Sealed, true, Answered);
    check("answered", Unresolved::Sealed, true, Answered);
}

/// The successor dies too, after it sealed the dead leader's batch and before it answered everybody.
#[test]
fn a_successor_finds_what_a_dead_successor_sealed() {
    let (orphans, lead) = orphans("announced");
    orphans.queue.seal();
    drop(lead);
    let mut lead = orphans.queue.try_lead("third").unwrap();
    assert_eq!(lead.unresolved(), Unresolved::Sealed);
    lead.resolve(true);
    assert_eq!(orphans.stages(), [Stage::Answered; REQUESTS]);
    lead.release();
    orphans.all_are_answered();
}

/// The successor could not look at the database, and gave the place back. The head went past the dead
/// leader's batch, no later leader found it, and its clients waited for ever.
#[test]
fn a_successor_that_gives_up_leaves_the_batch_to_the_next() {
    let (orphans, lead) = orphans("executed");
    assert_eq!(lead.next(None).map(|entry| entry.kind), None, "nothing waits");
    drop(lead);
    // Everybody is in execution: nobody would lead for itself, so patience alone must find the place.
    let mut lead = orphans.queue.try_take_over("third").expect("an unresolved batch is inherited");
    assert_eq!(lead.orphan(), Orphan::Batch);
    lead.resolve(false);
    assert_eq!(orphans.stages(), [Stage::Waiting; REQUESTS]);
    lead.release();
    orphans.all_are_answered();
}

/// A leader's thread panics in the middle of a batch: the process lives, but the batch is handed on as
/// if it had died.
#[test]
fn a_dropped_batch_is_inherited() {
    let place = Place::new();
    let queue = place.join();
    let published = publish(&queue, Kind::Request, b"dropped");
    let mut lead = queue.try_lead("panics").unwrap();
    lead.begin_batch();
    let entry = lead.next(None).unwrap();
    assert!(lead.take(&entry, &mut Vec::new()));
    drop(lead);
    assert_eq!(published.stage(), Stage::Executing);
    serve(queue.try_lead("next").unwrap());
    assert_eq!(published.into_answer().unwrap(), reversed(b"dropped"));
}

/// Somebody wrote rubbish over the leader's word while it led. A waiter took the holder that the rubbish
/// named for dead, succeeded it, and executed a batch that was being committed a second time.
#[test]
fn rubbish_in_the_leaders_word_is_nobody_to_succeed() {
    const LEADER_WORD_AT: u64 = 192;
    let place = Place::new();
    let (queue, other) = (place.join(), place.join());
    let file = std::fs::File::options().write(true).open(place.path()).unwrap();
    let lead = queue.try_lead("leads").unwrap();
    for rubbish in [u64::MAX, 0x1234_5678_9ABC_DE00, 0x0000_0012_3410_0100, 7] {
        std::os::unix::fs::FileExt::write_all_at(&file, &rubbish.to_ne_bytes(), LEADER_WORD_AT)
            .unwrap();
        assert!(
            other.try_take_over("heir").is_none() && other.try_lead("heir").is_none(),
            "{rubbish:x}"
        );
        assert!(!queue.is_sound(), "{rubbish:x}");
        std::os::unix::fs::FileExt::write_all_at(&file, &[0; 8], 40).unwrap();
        assert!(queue.is_sound());
    }
    drop(lead);
}
