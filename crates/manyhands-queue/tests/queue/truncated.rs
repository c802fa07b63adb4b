//! A live queue file is truncated: an access to a page that is gone raises SIGBUS.

use std::fs::File;
use std::path::Path;

use manyhands_queue::{Deadline, Kind, Stage};
use rustix::process::Signal;

use crate::child::{Process, listen, tell};
use crate::echo::{publish, reversed, serve, submit};
use crate::place::{LONG, Place, join};

extern "C" fn exit_42(_signal: libc::c_int) {
    // SAFETY: async-signal-safe.
    unsafe { libc::_exit(42) };
}

/// What the member does after the file was truncated, by `word`.
pub fn member(path: &Path, word: &str) {
    if word == "chained" {
        let handler = exit_42 as extern "C" fn(libc::c_int);
        // SAFETY: the handler does nothing but end the process.
        unsafe { libc::signal(libc::SIGBUS, handler as *const () as usize) };
    }
    let queue = join(path).unwrap();
    let mut waiting = publish(&queue, Kind::Request, b"waits");
    let claim = queue.claim(Deadline::after(LONG)).unwrap();
    let lead = queue.try_lead("leads").unwrap();
    tell("joined");
    listen();
    if word != "ours" {
        touch_truncated_memory(&path.with_extension("mine"));
    }
    // All of these touch pages that are gone.
    assert_ne!(waiting.stage(), Stage::Answered);
    assert!(!waiting.withdraw());
    assert!(claim.publish(Kind::Request, "").is_err());
    serve(lead);
    assert!(!queue.is_sound());
    drop((waiting, queue));
    let queue = join(path).unwrap();
    assert!(queue.is_sound());
    assert_eq!(submit(&queue, b"new"), reversed(b"new"));
    tell("went on");
    // And once more: the handler stays.
    File::options().write(true).open(path).unwrap().set_len(0).unwrap();
    assert!(!queue.is_sound());
    tell("and on");
}

/// The same mistake in memory that is none of the queue's.
fn touch_truncated_memory(path: &Path) {
    let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
    file.set_len(4096).unwrap();
    // SAFETY: a new mapping at an address that the kernel chooses.
    let memory = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            4096,
            libc::PROT_READ,
            libc::MAP_SHARED,
            std::os::fd::AsRawFd::as_raw_fd(&file),
            0,
        )
    };
    assert_ne!(memory, libc::MAP_FAILED);
    file.set_len(0).unwrap();
    // SAFETY: the mapping has this byte; that reading it ends the process is what is tested.
    let byte = unsafe { memory.cast::<u8>().read_volatile() };
    panic!("read {byte} from memory that is gone");
}

fn start(word: &str) -> (Place, Process) {
    let place = Place::new();
    let process = Process::start(&format!("truncated:{word}"), &place.path());
    process.expect("joined");
    (place, process)
}

/// The host program must not die because somebody truncated a file of ours: the member notices, leaves
/// and meets the others in a new file.
#[test]
fn a_truncated_file_kills_nobody() {
    let (place, mut process) = start("ours");
    File::options().write(true).open(place.path()).unwrap().set_len(0).unwrap();
    process.say("go on");
    process.expect("went on");
    process.expect("and on");
    process.wait_ok();
}

/// Other faults are none of our business: the process dies of them, as without us.
#[test]
fn a_foreign_fault_still_kills() {
    use std::os::unix::process::ExitStatusExt;
    let (_place, mut process) = start("foreign");
    process.say("go on");
    let status = process.wait();
    assert_eq!(status.signal(), Some(Signal::BUS.as_raw()), "{status}");
}

/// The host's own handler gets what it would have got.
#[test]
fn a_foreign_fault_reaches_the_handler_before_ours() {
    let (_place, mut process) = start("chained");
    process.say("go on");
    assert_eq!(process.wait().code(), Some(42));
}

/// Who has lost the file's memory and retires the queue tells the others, too: they took a leader that had
/// lost it during its commit, and then left, for one that had died before.
#[test]
fn who_lost_the_memory_still_tells_the_others() {
    let place = Place::new();
    let queue = place.join();
    let file = File::options().read(true).write(true).open(place.path()).unwrap();
    file.set_len(4096).unwrap();
    // The slots are gone, and with them all of this member's memory.
    drop(queue.claim(Deadline::after(LONG)));
    let retired = || {
        let mut word = [0; 8];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut word, 40).unwrap();
        u64::from_ne_bytes(word)
    };
    assert!(!queue.is_sound() && retired() == 0);
    queue.retire();
    assert_eq!(retired(), 1);
}
