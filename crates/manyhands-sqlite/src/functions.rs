//! `changes()` and `total_changes()` for a session whose statements may have run elsewhere.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::Arc;

use libsqlite3_sys as ffi;

use crate::{Connection, Error};

/// What the session's statements changed on other connections.
#[derive(Debug, Default)]
pub struct SessionCounters {
    /// The last INSERT, UPDATE or DELETE ran elsewhere, and changed `changes` rows.
    elsewhere: AtomicBool,
    changes: AtomicI64,
    /// What the own connection had counted in all by then.
    total_here: AtomicI64,
    total: AtomicI64,
}

impl SessionCounters {
    /// A statement ran elsewhere. `total_here` is what the own connection has counted so far.
    pub fn ran_elsewhere(&self, changes: i64, total_changes: i64, total_here: i64) {
        self.changes.store(changes, Ordering::Relaxed);
        self.total.fetch_add(total_changes, Ordering::Relaxed);
        self.total_here.store(total_here, Ordering::Relaxed);
        self.elsewhere.store(true, Ordering::Relaxed);
    }

    /// Starts counting for a new session on a connection that has counted so much so far.
    pub fn begin_anew(&self, total_here: i64) {
        self.set_counters(0, 0, total_here);
    }

    /// Goes on counting for a session that has counted so much elsewhere: the statements that come run
    /// here for it. `total_here` is what the own connection has counted so far, for whomever.
    ///
    /// As after a statement elsewhere, `changes` holds until a statement here has counted a row, or
    /// [`SessionCounters::ran_here`] tells of one.
    pub fn set_counters(&self, changes: i64, total_changes: i64, total_here: i64) {
        self.total.store(0, Ordering::Relaxed);
        // What comes through shared memory may be any number.
        self.ran_elsewhere(changes, total_changes.wrapping_sub(total_here), total_here);
    }

    /// A statement has run on the session's own connection.
    pub fn ran_here(&self) {
        self.elsewhere.store(false, Ordering::Relaxed);
    }

    /// True when the last statement that counted has run on the session's own connection.
    pub fn has_run_here(&self) -> bool {
        !self.elsewhere.load(Ordering::Relaxed)
    }

    /// Rows changed by the session's last INSERT, UPDATE or DELETE, given the own connection's answers.
    ///
    /// While a statement runs here after one that ran elsewhere, the answer is that of the one before,
    /// until the statement, or a trigger of it, has counted rows itself.
    pub fn changes(&self, here: i64, total_here: i64) -> i64 {
        let before = self.elsewhere.load(Ordering::Relaxed)
            && self.total_here.load(Ordering::Relaxed) == total_here;
        if before { self.changes.load(Ordering::Relaxed) } else { here }
    }

    /// Rows changed since the session began, given the own connection's answer.
    pub fn total_changes(&self, here: i64) -> i64 {
        here.wrapping_add(self.total.load(Ordering::Relaxed))
    }
}

impl Connection {
    /// Makes the SQL functions `changes()` and `total_changes()` of this connection count with
    /// `counters`.
    ///
    /// # Errors
    /// `SQLITE_NOMEM`.
    pub fn count_session(&self, counters: &Arc<SessionCounters>) -> Result<(), Error> {
        type Function =
            unsafe extern "C" fn(*mut ffi::sqlite3_context, c_int, *mut *mut ffi::sqlite3_value);
        let functions: [(&core::ffi::CStr, Function); 2] =
            [(c"changes", changes), (c"total_changes", total_changes)];
        for (name, function) in functions {
            let data = Arc::into_raw(Arc::clone(counters)).cast_mut().cast();
            // SAFETY: SQLite owns one reference from here on, and gives it to `release` also if this
            // fails.
            let code = unsafe {
                ffi::sqlite3_create_function_v2(
                    self.raw(),
                    name.as_ptr(),
                    0,
                    ffi::SQLITE_UTF8,
                    data,
                    Some(function),
                    None,
                    None,
                    Some(release),
                )
            };
            self.check(code)?;
        }
        Ok(())
    }
}

/// Gives the function's counters back.
///
/// # Safety
/// SQLite calls it, once for each registration, with the data that was registered.
unsafe extern "C" fn release(data: *mut c_void) {
    // SAFETY: made by Arc::into_raw; SQLite calls this once for each.
    drop(unsafe { Arc::from_raw(data.cast::<SessionCounters>()) });
}

/// The counters and the connection of a call, for as long as the variable stays that has the context's address: the
/// argument of the call.
///
/// # Safety
/// The context is of a call of a function that [`Connection::count_session`] has registered, which goes on.
unsafe fn call(context: &*mut ffi::sqlite3_context) -> (&SessionCounters, *mut ffi::sqlite3) {
    // SAFETY: the context of a call that goes on, as the caller has promised.
    let data = unsafe { ffi::sqlite3_user_data(*context) };
    // SAFETY: the function was registered with a reference to counters, which SQLite releases after the last call.
    let counters = unsafe { &*data.cast::<SessionCounters>() };
    // SAFETY: the context of a call that goes on, as the caller has promised.
    let connection = unsafe { ffi::sqlite3_context_db_handle(*context) };
    (counters, connection)
}

/// The SQL function `changes()`.
///
/// # Safety
/// SQLite calls it, with the context of the call.
unsafe extern "C" fn changes(
    context: *mut ffi::sqlite3_context,
    _count: c_int,
    _values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: SQLite's context for this call.
    let (counters, connection) = unsafe { call(&context) };
    // SAFETY: the connection of this call.
    let here = unsafe { ffi::sqlite3_changes64(connection) };
    // SAFETY: the connection of this call.
    let total_here = unsafe { ffi::sqlite3_total_changes64(connection) };
    // SAFETY: the context of this call.
    unsafe { ffi::sqlite3_result_int64(context, counters.changes(here, total_here)) };
}

/// The SQL function `total_changes()`.
///
/// # Safety
/// SQLite calls it, with the context of the call.
unsafe extern "C" fn total_changes(
    context: *mut ffi::sqlite3_context,
    _count: c_int,
    _values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: SQLite's context for this call.
    let (counters, connection) = unsafe { call(&context) };
    // SAFETY: the connection of this call.
    let here = unsafe { ffi::sqlite3_total_changes64(connection) };
    // SAFETY: the context of this call.
    unsafe { ffi::sqlite3_result_int64(context, counters.total_changes(here)) };
}
