//! Any statements in any order, over one connection or several: what plain SQLite gives, one serial order, no
//! panic, no hang.
//!
//! `fuzz/run.sh sql 60`; the work itself is `crates/manyhands/tests/engine/hostile/scripts.rs`.
#![no_main]

use std::cell::RefCell;

#[path = "../../crates/manyhands/src/fuzzing/decisions.rs"]
mod decisions;
#[path = "../../crates/manyhands/tests/engine/hostile/scripts.rs"]
mod scripts;

thread_local! {
    static STAND: RefCell<scripts::Stand> =
        RefCell::new(scripts::Stand::new(&manyhands_fuzz::directory()));
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    STAND.with_borrow_mut(|stand| stand.play(bytes));
});
