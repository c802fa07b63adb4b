//! The small column: every campaign, in few rounds. The long one is the same program with larger
//! numbers; see `reliability --help`.
//!
//! They run beside each other, since each spends a part of its time waiting for disks, deaths and deadlines: a hang is
//! when nothing comes for seconds. Two are alone, when all others have ended.

mod column;
mod left_frame;

use std::process::Command;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many run beside each other.
static AT_WORK: Mutex<u32> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

fn at_work() -> MutexGuard<'static, u32> {
    AT_WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Until it is dropped nobody is alone.
struct Beside;

impl Beside {
    fn others() -> Beside {
        *at_work() += 1;
        Beside
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        *at_work() -= 1;
        ENDED.notify_all();
    }
}

/// Runs the program; it exits with 0 when there was no finding.
fn check(words: &[&str]) {
    let _beside = Beside::others();
    run(words);
}

/// The same while nobody else runs.
fn check_alone(words: &[&str]) {
    let others = |at_work: &mut u32| *at_work > 0;
    let _alone = ENDED.wait_while(at_work(), others).unwrap_or_else(PoisonError::into_inner);
    run(words);
}

fn run(words: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_reliability"))
        .args(words)
        .output()
        .expect("the program starts");
    let told = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    println!("{told}");
    assert!(output.status.success(), "{words:?}: {}\n{complaint}", output.status);
}

/// What random transactions of many processes saw is what they see in one serial order; kills,
/// checkpoints and the shell meanwhile. By its name it is among the first: it is the longest.
#[test]
fn a_history_has_a_serial_order() {
    check(&["isolation", "--transactions", "3000000", "--checked", "2000000"]);
}

/// A checker that misses a planted loss, double or half would make everything below worthless.
#[test]
fn planted_damage_is_found() {
    check(&["planted"]);
}

/// Bugs planted into the product itself, those that a few seconds suffice for: a campaign must find each.
#[test]
fn planted_bugs_are_found() {
    check(&["planted-bugs", "--quick", "--no-controls"]);
}

/// A process dies at each named point and at random moments: what was acknowledged is there once, and
/// the others go on.
#[test]
fn a_killed_process_loses_nothing_and_stops_nobody() {
    check(&["kill", "--rounds", "20"]);
}

/// The same, while the sqlite3 shell writes and truncates the WAL.
#[test]
fn a_killed_process_beside_the_shell() {
    let visited = ["--seed", "2", "--point", "random", "--peer"];
    check(&[&["kill", "--rounds", "3", "--deaths", "40"], &visited[..]].concat());
}

/// The shell commits hundreds of times between a death and the successor's look: what tells the
/// successor whether the dead leader's batch was committed must still be there.
#[test]
fn a_killed_process_beside_a_shell_that_never_pauses() {
    check(&["kill", "--rounds", "3", "--deaths", "70", "--seed", "21", "--hammer"]);
}

/// Recordings spoiled in known ways: an examination that misses one would make the next one worthless.
#[test]
fn planted_faults_of_the_disk_are_found() {
    check(&["planted-images"]);
}

/// A power cut at any moment: what was acknowledged, or shown to a reader, is in what the disk could have
/// left. Stock SQLite at NORMAL must lose something, at FULL nothing.
#[test]
fn a_power_cut_at_any_moment_loses_nothing() {
    check(&["images", "--images", "100000", "--recording-images", "2300", "--jobs", "3"]);
}

/// A call of the system fails, or is the process's last.
#[test]
fn a_failing_call_loses_nothing_and_stops_nobody() {
    check(&["nth-call", "--cases", "2000", "--jobs", "8"]);
}

/// The same in the process that recovers a WAL after the death of all, a dead leader's batch, a damaged queue.
#[test]
fn a_failing_call_while_recovering() {
    for scene in ["wal", "leader", "queue-file"] {
        check(&["nth-call", "--scene", scene, "--cases", "667", "--jobs", "6"]);
    }
}

/// The clock jumps; descriptors and memory run out; containers whose processes have the same numbers; a process forks
/// in every state.
#[test]
fn what_surrounds_the_writers_changes() {
    check(&["environment", "--rounds", "2"]);
}

/// File systems that forget what is not on the disk; where they can be mounted. Alone: a container that another campaign
/// starts has all mounts, and a file system that is still mounted there is not mounted anew.
#[test]
fn a_real_power_cut_loses_nothing() {
    check_alone(&["power-cut", "--cuts", "50"]);
}

/// Other programs write to the file while the queue is always full.
#[test]
fn the_shell_writes_beside_a_full_queue() {
    check(&["stock", "--checkpointer"]);
}

/// What programs rely on that were written for SQLite: a consumer that polls misses no row, an id that was told is the
/// row's, and readers, writers and checkpoints do not stand still because of each other.
#[test]
fn the_default_mode_keeps_the_contract_of_sqlite() {
    check(&["contract", "--rounds", "2", "--writes", "400"]);
}

/// The same, judged by a checker that was written by others for any database.
#[test]
fn histories_are_strictly_serializable() {
    check(&["black-box", "--transactions", "62500", "--seconds", "60"]);
}

/// A stopped or frozen process cannot be robbed: the others learn who it is, in time, and go on afterwards. Alone: where
/// processors are scarce somebody else may be slow for as long, and is named.
#[test]
fn a_stopped_process_is_named() {
    check_alone(&["stopped", "--rounds", "3"]);
}

/// Who can write the queue file writes rubbish into it, replaces it, locks it, sends requests: nothing is
/// lost, nobody dies or hangs, and afterwards all write again.
#[test]
fn an_attacker_loses_nothing_and_stops_nobody() {
    check(&["hostile", "--rounds", "3", "--seconds", "2"]);
}

/// The first users of a new database come all at once.
#[test]
fn many_processes_create_one_database() {
    check(&["opening", "--processes", "50", "--rounds", "2"]);
    check(&["opening", "--processes", "50", "--rounds", "2", "--versions"]);
}

/// A full disk is an error, not a loss and not a standstill, at whichever page or byte of a write it is full.
#[test]
fn a_full_disk_is_an_error_and_no_more() {
    check(&["full", "--rounds", "2", "--pages", "24", "--byte-step", "71"]);
}

/// On a disk of 8 MB, and on the half that is left of it: the queue file alone took 8. What is freed is enough for all of the
/// writers, however late one of them comes.
#[test]
fn a_small_disk_has_room() {
    let size = ["--megabytes", "8", "--ballast-megabytes", "4"];
    let alone = ["--rounds", "2", "--pages", "0", "--bytes", "0"];
    check(&[&["full"], &size[..], &alone[..]].concat());
}

/// Memory per connection, and memory over time.
#[test]
fn memory_stays_small_and_flat() {
    check(&["memory", "--writes", "10000"]);
}
