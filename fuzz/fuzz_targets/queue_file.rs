//! Arbitrary bytes laid over a live queue file, and a member that goes on working: no panic, no hang,
//! nothing out of bounds.
//!
//! ```text
//! cargo +nightly fuzz run queue_file -- -max_total_time=60 -timeout=5 -max_len=1024
//! ```
//!
//! Without cargo-fuzz: `fuzz/run.sh queue_file 60`.
#![no_main]

use std::cell::RefCell;
use std::convert::Infallible;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use manyhands_queue::{Deadline, JoinOptions, Queue};

#[path = "../../crates/manyhands-queue/tests/queue/strain.rs"]
mod strain;

thread_local! {
    /// Joined once: to build the file costs more than a round.
    static PATIENT: RefCell<strain::Patient> = RefCell::new(patient());
}

fn patient() -> strain::Patient {
    let directory = manyhands_fuzz::directory();
    let owner = directory.metadata().expect("its owner");
    let options = JoinOptions {
        program: 1,
        mode: 0o600,
        owner: owner.uid(),
        group: owner.gid(),
        deadline: Deadline::after(Duration::from_secs(5)),
    };
    let path = directory.join("fuzz.db-hands");
    let queue = Queue::join(&path, &options, || Ok::<(), Infallible>(())).expect("joined");
    strain::Patient::new(queue, File::options().read(true).write(true).open(path).expect("opened"))
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    PATIENT.with_borrow_mut(|patient| patient.strain(bytes));
});
