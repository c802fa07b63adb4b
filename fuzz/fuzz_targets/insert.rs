//! Any text as an INSERT whose id another function gives: what SQLite compiles is rewritten to what it compiles
//! to the same columns and parameters, or left alone, and no panic.
//!
//! `fuzz/run.sh insert 60`; the work itself is `crates/manyhands/src/statement/rewrite/any_text.rs`.
#![no_main]

use manyhands::any_text::Tables;

thread_local! {
    static TABLES: Tables = Tables::new();
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    TABLES.with(|tables| tables.insert(bytes));
});
