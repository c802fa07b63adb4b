//! The native half of the Ruby gem `manyhands`: converts, calls SQLite's C interface as `manyhands-c` gives it, converts back.
//!
//! What always holds:
//! * Nobody waits with the GVL, nor in a fiber scheduler's thread: `gvl.rs`, `worker.rs`.
//! * Whoever uses a connection has entered it: `connection.rs`.
//! * What Ruby raises in a callback is raised by the call that needed the callback. Nothing unwinds through SQLite.
//!
//! What is Ruby's own, such as result sets, pragmas and transactions with a block, is in `lib/manyhands`. In reading order:

mod database;
mod statement;
mod row;
mod kind;
mod pace;
mod connection;
mod signals;
mod gvl;
mod worker;
mod functions;
mod hooks;
mod backup;
mod value;
mod error;
mod ffi;

use magnus::{Error, Module, Object, RHash, Ruby, function};

use crate::ffi::sqlite;

fn libversion() -> i32 {
    sqlite!(sqlite3_libversion_number())
}

fn threadsafe() -> i32 {
    sqlite!(sqlite3_threadsafe())
}

/// What SQLite counts for the whole process.
fn status(ruby: &Ruby, what: i32, resets: bool) -> Result<RHash, Error> {
    let (mut current, mut highwater) = (0, 0);
    sqlite!(sqlite3_status(what, &mut current, &mut highwater, i32::from(resets)));
    let counts = ruby.hash_new();
    counts.aset(ruby.to_symbol("current"), current)?;
    counts.aset(ruby.to_symbol("highwater"), highwater)?;
    Ok(counts)
}

#[magnus::init(name = "manyhands_native")]
fn init(ruby: &Ruby) -> Result<(), Error> {
    // Called by `require "manyhands/manyhands_native"`.
    // SAFETY: with the GVL. Objects belong to the Ractor that has made them, and what all share is made for threads.
    unsafe { rb_sys::rb_ext_ractor_safe(true) };
    let module = ruby.define_module("Manyhands")?;
    module.define_class("Blob", ruby.class_string())?;
    module.define_singleton_method("libversion", function!(libversion, 0))?;
    module.define_singleton_method("threadsafe", function!(threadsafe, 0))?;
    module.define_singleton_method("short_step_us=", function!(pace::set_short_us, 1))?;
    module.define_singleton_method("process_status", function!(status, 2))?;
    let version = ffi::SQLITE_VERSION.to_str().unwrap_or_default();
    module.const_set("SQLITE_VERSION", ruby.str_new(version).to_interned_str())?;
    module.const_set("SQLITE_VERSION_NUMBER", ffi::SQLITE_VERSION_NUMBER)?;
    module.const_set("SQLITE_LOADED_VERSION", ruby.str_new(version).to_interned_str())?;
    database::define(ruby, module)?;
    statement::define(ruby, module)?;
    backup::define(ruby, module)
}
