//! Requests that no client of ours would send, in the queue before an honest one: nothing that a
//! request may not do is done, the honest one is executed once, no panic, no hang.
//!
//! `fuzz/run.sh request 60`; the work itself is `crates/manyhands/src/fuzzing/request.rs`.
#![no_main]

use std::cell::RefCell;

use manyhands::fuzzing::request::Leader;

thread_local! {
    /// Opened once: to open costs more than a round.
    static LEADER: RefCell<Leader> = RefCell::new(Leader::new(&manyhands_fuzz::directory()));
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    LEADER.with_borrow_mut(|leader| leader.serve(bytes));
});
