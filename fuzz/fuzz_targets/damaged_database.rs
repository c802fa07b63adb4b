//! A database and its WAL with any damage: used or refused, no panic, no hang, and nothing is acknowledged
//! that is not there.
//!
//! `fuzz/run.sh damaged_database 60`; the work itself is `crates/manyhands/tests/engine/hostile/damage.rs`.
#![no_main]

use std::cell::RefCell;

#[allow(dead_code, reason = "the other targets use the rest")]
#[path = "../../crates/manyhands/src/fuzzing/decisions.rs"]
mod decisions;
#[path = "../../crates/manyhands/tests/engine/hostile/damage.rs"]
mod damage;

thread_local! {
    static PATIENT: RefCell<damage::Patient> =
        RefCell::new(damage::Patient::new(&manyhands_fuzz::directory()));
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    PATIENT.with_borrow_mut(|patient| patient.open_damaged(bytes));
});
