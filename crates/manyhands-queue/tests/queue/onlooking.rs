//! An onlooker sees who is there, who leads, what waits, and how long it has waited; and it is in nobody's way.

use std::time::Duration;

use manyhands_queue::kernel_locks;
use manyhands_queue::{Count, Kind, LookError, Onlooker, Orphan, SlotState, Stage};

use crate::child::Process;
use crate::echo::publish;
use crate::place::Place;

/// Who asks what goes on in a file gets an answer without joining.
#[test]
fn an_onlooker_sees_members_leader_and_queue_in_order() {
    let place = Place::new();
    assert!(matches!(Onlooker::open(&place.path()), Err(LookError::Nobody)));
    let queue = place.join();
    queue.register_label("web");
    let onlooker = Onlooker::open(&place.path()).unwrap();
    assert!(onlooker.leader().is_none());
    let lead = queue.try_lead("job 7").unwrap();
    lead.tell_statement("UPDATE account SET cents = 0");
    let mut first = publish(&queue, Kind::Turn, b"");
    let second = publish(&queue, Kind::Request, b"second");

    let members = onlooker.members();
    assert_eq!(members.len(), 1);
    assert_eq!((members[0].pid, members[0].label.as_str()), (std::process::id(), "web"));
    let leader = onlooker.leader().unwrap();
    assert_eq!((leader.member, leader.label.as_str()), (members[0].member, "job 7"));
    let told = leader.statement.unwrap();
    assert_eq!((told.text.as_str(), told.ended_for), ("UPDATE account SET cents = 0", None));
    lead.tell_idle();
    assert!(onlooker.leader().unwrap().statement.unwrap().ended_for.is_some());
    let waiting = onlooker.waiting();
    let order: Vec<_> = waiting.iter().map(|it| (it.ticket, it.kind, it.state)).collect();
    let pending = SlotState::Pending;
    assert_eq!(
        order,
        [(first.ticket(), Kind::Turn, pending), (second.ticket(), Kind::Request, pending)]
    );
    assert_eq!(waiting[1].request, b"second");
    assert!(first.withdraw());
    assert_eq!(onlooker.waiting().len(), 1);
    drop((lead, first, second));
    assert!(onlooker.waiting().is_empty());
    assert!(onlooker.is_current());
    drop(queue);
    assert!(!place.path().exists(), "an onlooker is no member");
    assert!(!onlooker.is_current());
    assert!(onlooker.members().is_empty());
}

/// A statement of a leader that has ended is not told of the next one, and a long one is cut at a character.
#[test]
fn a_statement_is_told_of_its_own_leader_only() {
    let place = Place::new();
    let queue = place.join();
    let onlooker = Onlooker::open(&place.path()).unwrap();
    let lead = queue.try_lead("").unwrap();
    lead.tell_statement(&"é".repeat(400));
    let text = onlooker.leader().unwrap().statement.unwrap().text;
    assert_eq!(text, "é".repeat(112));
    lead.release();
    let _next = queue.try_lead("").unwrap();
    assert_eq!(onlooker.leader().unwrap().statement, None);
}

/// What leaders and members count is what they did.
#[test]
fn counts_and_waits() {
    let place = Place::new();
    let queue = place.join();
    let onlooker = Onlooker::open(&place.path()).unwrap();
    let before = onlooker.figures();
    let published = publish(&queue, Kind::Request, b"abc");
    let mut lead = queue.try_lead("").unwrap();
    assert_eq!(lead.orphan(), Orphan::Nothing);
    lead.begin_batch();
    let entry = lead.next(None).unwrap();
    let mut request = Vec::new();
    assert!(lead.take(&entry, &mut request));
    assert_eq!(onlooker.waiting()[0].state, SlotState::Taken);
    assert!(lead.executed(&entry, request.len(), b"done"));
    // The wait is at least as long as this.
    std::thread::sleep(Duration::from_millis(20));
    lead.end_batch(&[entry], true);
    lead.count_sync(Some(Duration::from_micros(300)));
    lead.count_own_commit(None);
    assert_eq!(published.stage(), Stage::Answered);
    let after = onlooker.figures();
    assert_eq!((after.requests, after.alone, after.in_turn, after.syncs), (1, 1, 0, 1));
    assert_eq!(after.sync_time, Duration::from_micros(300));
    let waits = after.waits.since(&before.waits);
    assert_eq!(waits.count(), 1);
    assert!(waits.quantile(1.0).unwrap() >= Duration::from_millis(20));
    for count in [Count::Commit, Count::Promotion, Count::Replay, Count::Conflict, Count::Commit] {
        queue.count(count);
    }
    queue.tell_conflict("SELECT cents FROM account");
    let counts = onlooker.members()[0].counts;
    assert_eq!((counts.commits, counts.promotions, counts.conflicts), (2, 1, 1));
    let (_, conflict) = onlooker.conflict().unwrap();
    assert_eq!(conflict.text, "SELECT cents FROM account");
}

/// Another process is known by the lock that witnesses its life, and what the last member with its number has counted is gone.
#[test]
fn a_member_is_found_by_its_lock() {
    let place = Place::new();
    let queue = place.join();
    queue.count(Count::Commit);
    let onlooker = Onlooker::open(&place.path()).unwrap();
    let other = Process::start("member", &place.path());
    other.hear();
    let seen = onlooker.members();
    assert_eq!(seen.len(), 2);
    let (_, inode) = onlooker.identity().unwrap();
    let number = |it: &kernel_locks::FileLock| Onlooker::member_of_lock(it.first);
    for member in &seen {
        let locks = kernel_locks::of_open_files(member.pid, Some("-hands"));
        let numbers: Vec<_> =
            locks.iter().filter(|it| it.inode == inode).filter_map(number).collect();
        assert_eq!(numbers, [member.member], "{locks:?}");
    }
    let own = seen.iter().find(|it| it.pid == std::process::id()).unwrap();
    onlooker.cancel(own.member);
    assert_eq!((queue.cancels(), onlooker.members().len()), (1, 2));
    queue.note_cancelled();
    let again = onlooker.members().into_iter().find(|it| it.member == own.member).unwrap();
    assert_eq!((again.cancels, again.cancelled, again.counts.commits), (1, 1, 1));
    other.kill();
    assert_eq!(onlooker.members().len(), 1, "a dead member is none");
}
