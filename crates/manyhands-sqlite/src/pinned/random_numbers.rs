//! `random()` and `randomblob()`, repeatable under a pin.
//!
//! The generator is ChaCha20, as SQLite's own is, so a pinned statement's numbers are as hard to guess from one another
//! as SQLite's. The numbers of a [`Pinned`] never change: processes with other builds draw the same.

use core::ffi::{CStr, c_int};

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use libsqlite3_sys as ffi;

use super::{Pinned, ruling};
use crate::{Connection, Error};

/// The key is the seed and the time, in little-endian bytes, and zeros; each statement has a stream of its
/// own.
fn generator(pinned: Pinned) -> Box<ChaCha20Rng> {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&pinned.seed.to_le_bytes());
    key[8..16].copy_from_slice(&pinned.time_ms.to_le_bytes());
    let mut generator = Box::new(ChaCha20Rng::from_seed(key));
    generator.set_stream(pinned.statement);
    generator
}

/// A fresh seed.
pub(super) fn fresh_seed() -> u64 {
    let mut bytes = [0; 8];
    draw_by_chance(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Fills `bytes` with the next random numbers of the ruling pin; without a pin, with unpredictable ones.
fn draw(bytes: &mut [u8]) {
    let pinned = ruling(|pin| {
        let generator = pin.generator.get_or_insert_with(|| generator(pin.pinned));
        generator.fill_bytes(bytes);
    });
    if pinned.is_none() {
        draw_by_chance(bytes);
    }
}

fn draw_by_chance(bytes: &mut [u8]) {
    let count = c_int::try_from(bytes.len()).expect("SQLITE_LIMIT_LENGTH is an int");
    // SAFETY: `count` writable bytes.
    unsafe { ffi::sqlite3_randomness(count, bytes.as_mut_ptr().cast()) };
}

impl Connection {
    /// Makes `random()` and `randomblob()` of this connection obey [`pin`](crate::pin). Without a pin
    /// they are SQLite's own (<https://sqlite.org/lang_corefunc.html#random>). The clock obeys on every
    /// connection.
    ///
    /// # Errors
    /// `SQLITE_BUSY` while a statement of the connection runs, `SQLITE_NOMEM`.
    pub fn make_repeatable(&self) -> Result<(), Error> {
        self.replace(c"random", 0, random)?;
        self.replace(c"randomblob", 1, randomblob)
    }

    /// Innocuous, as the built-in functions are: a schema that is not trusted may call them. Not
    /// deterministic: SQLite calls them for each row.
    fn replace(&self, name: &CStr, arguments: c_int, function: Function) -> Result<(), Error> {
        // SAFETY: the connection is open, the name static, and the function needs no data.
        let code = unsafe {
            ffi::sqlite3_create_function_v2(
                self.raw(),
                name.as_ptr(),
                arguments,
                ffi::SQLITE_UTF8 | ffi::SQLITE_INNOCUOUS,
                core::ptr::null_mut(),
                Some(function),
                None,
                None,
                None,
            )
        };
        self.check(code)
    }
}

type Function =
    unsafe extern "C" fn(*mut ffi::sqlite3_context, c_int, *mut *mut ffi::sqlite3_value);

/// The SQL function `random()`.
///
/// # Safety
/// SQLite calls it, with the context of the call.
unsafe extern "C" fn random(
    context: *mut ffi::sqlite3_context,
    _count: c_int,
    _values: *mut *mut ffi::sqlite3_value,
) {
    let mut bytes = [0; 8];
    draw(&mut bytes);
    let mut number = i64::from_le_bytes(bytes);
    if number < 0 {
        // As SQLite does, so that it is never the smallest integer, whose abs() is an error.
        number = -(number & i64::MAX);
    }
    // SAFETY: the context of this call.
    unsafe { ffi::sqlite3_result_int64(context, number) };
}

/// The SQL function `randomblob()`.
///
/// # Safety
/// SQLite calls it, with the context of the call and one value.
unsafe extern "C" fn randomblob(
    context: *mut ffi::sqlite3_context,
    _count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: registered for one argument.
    let value = unsafe { *values };
    // SAFETY: a value of this call.
    let count = unsafe { ffi::sqlite3_value_int64(value) }.max(1);
    // SAFETY: the context of this call.
    let connection = unsafe { ffi::sqlite3_context_db_handle(context) };
    // SAFETY: the connection of this call; -1 asks without changing.
    let bytes_limit = unsafe { ffi::sqlite3_limit(connection, ffi::SQLITE_LIMIT_LENGTH, -1) };
    if count > i64::from(bytes_limit) {
        // SAFETY: the context of this call.
        return unsafe { ffi::sqlite3_result_error_toobig(context) };
    }
    let count = count.unsigned_abs();
    // SAFETY: has no preconditions.
    let blob: *mut u8 = unsafe { ffi::sqlite3_malloc64(count) }.cast();
    if blob.is_null() {
        // SAFETY: the context of this call.
        return unsafe { ffi::sqlite3_result_error_nomem(context) };
    }
    // SAFETY: so many bytes were just allocated.
    unsafe { blob.write_bytes(0, count as usize) };
    // SAFETY: so many bytes were just allocated, and written, and are nobody else's yet.
    draw(unsafe { core::slice::from_raw_parts_mut(blob, count as usize) });
    // SAFETY: the context of this call. SQLite owns the blob from here on.
    unsafe { ffi::sqlite3_result_blob64(context, blob.cast(), count, Some(ffi::sqlite3_free)) };
}
