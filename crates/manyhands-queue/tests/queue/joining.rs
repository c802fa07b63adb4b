//! Joining and leaving.

use std::convert::Infallible;
use std::path::Path;

use manyhands_queue::{Deadline, JoinError, Kind, MEMBERS, Queue, SLOTS};

use crate::child::{Process, die, listen, tell};
use crate::echo::{publish, reversed, submit};
use crate::place::{LONG, Place, join, options, wait_until};

/// Where the file keeps the next member number to try.
const MEMBER_HINT_AT: u64 = 328;

/// The file is no litter: who leaves last takes it away, and nobody else does.
#[test]
fn the_last_member_removes_the_file() {
    let place = Place::new();
    let (first, second) = (place.join(), place.join());
    assert!(first.has_other_members() && second.has_other_members());
    drop(first);
    assert!(place.path().exists() && second.is_in_place());
    assert!(!second.has_other_members());
    drop(second);
    assert!(!place.path().exists());
}

/// Who leads is a member, and is so for the others alone.
#[test]
fn a_leader_is_another_for_the_others() {
    let place = Place::new();
    let (first, second) = (place.join(), place.join());
    let led_by_another = || (first.is_led_by_another(), second.is_led_by_another());
    assert_eq!(led_by_another(), (false, false));
    let lead = first.try_lead("first").unwrap();
    assert_eq!(led_by_another(), (false, true));
    lead.release();
    assert_eq!(led_by_another(), (false, false));
}

/// The first member switches the database to WAL mode. When that fails nobody has joined, no file is left, and
/// the next one is the first again.
#[test]
fn a_failed_preparation_joins_nothing() {
    let place = Place::new();
    let refused = Queue::join(&place.path(), &options(), || Err("no WAL here"));
    assert_eq!(refused.unwrap_err().to_string(), "no WAL here");
    assert!(!place.path().exists());
    let mut prepared = false;
    let prepare = || {
        prepared = true;
        Ok::<(), Infallible>(())
    };
    let first = Queue::join(&place.path(), &options(), prepare).unwrap();
    assert!(prepared && !first.has_other_members());
    let second = Queue::join(&place.path(), &options(), || -> Result<(), Infallible> {
        panic!("the second member prepares nothing")
    });
    assert!(second.unwrap().is_sound());
}

pub fn member(path: &Path) {
    let queue = join(path).unwrap();
    let waiting: Vec<_> = (0..100u8).map(|n| publish(&queue, Kind::Request, &[n])).collect();
    let claimed: Vec<_> = (0..100).map(|_| queue.claim(Deadline::after(LONG)).unwrap()).collect();
    tell("joined");
    listen();
    drop((waiting, claimed));
}

/// A process killed with SIGKILL says goodbye to nobody. The kernel drops its lock, and its slots
/// come back when they are needed.
#[test]
fn a_killed_member_is_seen_dead_and_its_slots_come_back() {
    let place = Place::new();
    let queue = place.join();
    let process = Process::start("member", &place.path());
    process.expect("joined");
    assert!(queue.has_other_members());
    process.kill();
    wait_until("the killed member is dead", || !queue.has_other_members());
    let deadline = Deadline::after(LONG);
    let claims: Vec<_> = (0..SLOTS).map(|_| queue.claim(deadline).unwrap()).collect();
    assert!(queue.claim(Deadline::after(std::time::Duration::ZERO)).is_none(), "one too many");
    drop(claims);
    assert_eq!(submit(&queue, b"after"), reversed(b"after"));
    assert!(queue.is_idle(), "the dead member's tickets were passed");
}

pub fn leader(path: &Path) {
    let queue = join(path).unwrap();
    let _lead = queue.try_lead("dead").unwrap();
    tell("leading");
    listen();
    die();
}

/// Member numbers are used again. A leader that died was seen alive for ever when a new member got its
/// number: nobody succeeded it.
#[test]
fn a_number_used_again_does_not_revive_a_dead_leader() {
    let place = Place::new();
    let queue = place.join();
    place.overwrite(MEMBER_HINT_AT, &77u64.to_ne_bytes());
    let process = Process::start("leader", &place.path());
    process.expect("leading");
    process.kill();
    wait_until("the leader is dead", || !queue.has_other_members());
    place.overwrite(MEMBER_HINT_AT, &77u64.to_ne_bytes());
    let reborn = place.join();
    assert_eq!(submit(&queue, b"served"), reversed(b"served"));
    assert_eq!(submit(&reborn, b"too"), reversed(b"too"));
}

const VISITORS: usize = 50;
const VISITS: u32 = 20;

pub fn visitor(path: &Path) {
    let preparing = path.with_extension("preparing");
    tell("ready");
    listen();
    for round in 0..VISITS {
        let prepare = || {
            // Only one process is the first, whatever the others do.
            std::fs::File::create_new(&preparing)?;
            std::fs::remove_file(&preparing)
        };
        let queue = Queue::join(path, &options(), prepare).unwrap();
        assert!(queue.is_sound(), "half built");
        assert!(queue.is_in_place(), "the file was removed under a member");
        let request = round.to_ne_bytes();
        assert_eq!(submit(&queue, &request), reversed(&request));
        assert!(queue.is_in_place(), "the file was removed under a member");
    }
    tell("done");
}

/// Threads for whom the preparation fails now and then, beside others: those wait on a file that is removed, and join
/// the next one. Nobody's file is removed under him.
#[test]
fn a_failed_preparation_harms_nobody_who_waits() {
    const THREADS: usize = 6;
    const VISITS: usize = 250;
    let place = Place::new();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let place = &place;
            scope.spawn(move || {
                for visit in 0..VISITS {
                    let fails = (thread + visit) % 3 == 0;
                    let prepare = || if fails { Err("no WAL here") } else { Ok(()) };
                    match Queue::join(&place.path(), &options(), prepare) {
                        Ok(queue) => assert!(queue.is_sound() && queue.is_in_place()),
                        Err(error) => assert_eq!(error.to_string(), "no WAL here"),
                    }
                }
            });
        }
    });
    drop(place.join());
    assert!(!place.path().exists());
}

/// Short-lived processes, all at once: the last one out meets the first one in, again and again.
#[test]
fn fifty_processes_come_and_go() {
    let place = Place::new();
    let mut visitors: Vec<_> =
        (0..VISITORS).map(|_| Process::start("visitor", &place.path())).collect();
    visitors.iter().for_each(|visitor| visitor.expect("ready"));
    visitors.iter_mut().for_each(|visitor| visitor.say("go"));
    visitors.iter().for_each(|visitor| visitor.expect("done"));
    visitors.into_iter().for_each(Process::wait_ok);
    assert!(!place.path().exists(), "the last one removes it");
}

/// The file vanishes between a newcomer's two looks, at "is it there?" and "then I create it", and comes
/// back between the next two. That is no error of anybody's.
#[test]
fn threads_come_and_go_without_errors() {
    const THREADS: usize = 6;
    const VISITS: usize = 250;
    let place = Place::new();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..VISITS {
                    let queue = place.join();
                    assert!(queue.is_sound() && queue.is_in_place());
                }
            });
        }
    });
    assert!(!place.path().exists(), "the last one removes it");
}

/// Many that leave at the same moment: each found another there, none was the last, and the file stayed.
#[test]
fn the_last_of_a_crowd_removes_the_file() {
    const CROWD: usize = 900;
    for _ in 0..5 {
        let place = Place::new();
        let all_there = std::sync::Barrier::new(CROWD);
        std::thread::scope(|scope| {
            for _ in 0..CROWD {
                scope.spawn(|| {
                    let queue = place.join();
                    all_there.wait();
                    drop(queue);
                });
            }
        });
        assert!(!place.path().exists());
    }
}

/// As docs/limits.md has it.
#[test]
fn one_member_too_many_is_told_so() {
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limits.maximum, ..limits };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let place = Place::new();
    let members: Vec<_> = (0..MEMBERS).map(|_| place.join()).collect();
    let refused = place.refusal();
    assert!(matches!(refused, JoinError::TooManyMembers { .. }), "{refused:?}");
    assert!(refused.to_string().starts_with("4096 processes have "), "{refused}");
    drop(members);
    assert!(!place.path().exists());
}
