//! `fork()` without `exec`: Python's multiprocessing, prefork servers.

use std::path::Path;
use std::time::Duration;

use manyhands_queue::{Deadline, Kind};

use crate::child::{Process, listen, tell};
use crate::echo::{publish, reversed, submit};
use crate::place::{Place, join, wait_until};

/// Joins, forks, and lets the child do what `word` says.
pub fn forking(path: &Path, word: &str) {
    let queue = join(path).unwrap();
    // In a block: its leader answers what lies there.
    let request = [7; 1900];
    let published = publish(&queue, Kind::Request, &request);
    let claim = queue.claim(Deadline::after(Duration::from_secs(1))).unwrap();
    let lead = queue.try_lead("parent").unwrap();
    // SAFETY: the child uses atomics, system calls and memory that it allocated before, and _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let inherited = queue.is_inherited() && lead.is_inherited();
        if word == "drops" {
            drop((lead, published, claim, queue));
        } else {
            // Keeps everything, until the pipe to the test ends.
            let mut byte = [0u8; 1];
            // SAFETY: reads at most one byte into an array of one byte.
            while unsafe { libc::read(0, byte.as_mut_ptr().cast(), 1) } > 0 {}
        }
        // SAFETY: no destructors and no buffers of the parent's shall run here.
        unsafe { libc::_exit(if inherited { 0 } else { 1 }) };
    }
    assert!(child > 0, "fork");
    if word == "drops" {
        let mut status = -1;
        // SAFETY: `status` lives through the call.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((ended, status), (child, 0), "the child knew that it inherited");
        // The child's drops freed, withdrew and released nothing.
        assert!(!queue.is_inherited() && queue.is_in_place() && queue.is_sound());
        assert_eq!(published.stage(), manyhands_queue::Stage::Waiting);
        assert_eq!(queue.leader().expect("still led").label, "parent");
        assert!(claim.publish(Kind::Request, "").is_ok(), "the claim is still ours");
        tell("untouched");
        assert_eq!(listen(), "end");
        crate::echo::serve(lead);
        assert_eq!(published.into_answer().unwrap(), reversed(&request));
    } else {
        tell(&child.to_string());
        listen();
    }
}

/// A child that drops what it inherited, and ends: to the parent and to the others nothing happened.
#[test]
fn a_child_that_drops_its_inheritance_touches_nothing() {
    let place = Place::new();
    let queue = place.join();
    let mut process = Process::start("forking:drops", &place.path());
    process.expect("untouched");
    assert!(queue.has_other_members(), "the parent lives on as a member");
    assert!(queue.try_lead("").is_none() && queue.try_take_over("").is_none());
    process.say("end");
    process.wait_ok();
    assert!(!queue.has_other_members());
}

/// A child holds all that it inherited while its parent is killed. The parent's locks must not live on
/// in it: the others would wait for a dead leader for ever.
#[test]
fn a_child_does_not_keep_a_dead_parent_alive() {
    let place = Place::new();
    let queue = place.join();
    let process = Process::start("forking:keeps", &place.path());
    let child: i32 = process.hear().parse().unwrap();
    assert!(queue.has_other_members());
    process.signal(rustix::process::Signal::KILL);
    wait_until("the killed parent is dead", || !queue.has_other_members());
    let child = rustix::process::Pid::from_raw(child).unwrap();
    assert!(rustix::process::test_kill_process(child).is_ok(), "the child still holds on");
    assert_eq!(submit(&queue, b"succeeded"), reversed(b"succeeded"));
    drop(queue);
    assert!(!place.path().exists(), "nor does it keep the file");
    let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
}
