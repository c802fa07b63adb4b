//! Requests, answers, slots and frame headers as bytes, decoded by themselves: refused, or the same when they are
//! encoded again, and no panic.
//!
//! `fuzz/run.sh bytes 60`; the work itself is `crates/manyhands/src/fuzzing/bytes.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    manyhands::fuzzing::bytes::decode(bytes);
});
