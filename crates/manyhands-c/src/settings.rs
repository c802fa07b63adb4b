//! Switches and limits of a connection, and what a program keeps with it.

use core::ffi::{c_char, c_int, c_void};
use std::ffi::CString;
use std::sync::OnceLock;

use manyhands::{Limit, Setting};

use crate::ffi::{self, Destructor};
use crate::handle::Handle;

/// What `manyhands shell` sets: SQLite's shell refuses a library of another version than its own, though it needs nothing of it that
/// any later version has not.
const SOURCE_ID: &str = "MANYHANDS_SOURCE_ID";

c_api! {
    /// SQLite's version to the second; the shell's own, for a shell that compares.
    fn sqlite3_sourceid() -> *const c_char {
        static ASKED_FOR: OnceLock<Option<CString>> = OnceLock::new();
        let asked_for = ASKED_FOR.get_or_init(|| {
            let text = std::env::var_os(SOURCE_ID)?;
            CString::new(std::os::unix::ffi::OsStringExt::into_vec(text)).ok()
        });
        match asked_for {
            Some(text) => text.as_ptr(),
            // SAFETY: has no preconditions.
            None => unsafe { ffi::sqlite3_sourceid() },
        }
    }

    /// Switches something of a connection on or off (<https://sqlite.org/c3ref/db_config.html>).
    ///
    /// SQLite's function takes any arguments after the second; no kind of setting has more than three words, and each of these is
    /// passed as it is here.
    fn sqlite3_db_config(
        db: *mut ffi::sqlite3,
        what: c_int,
        first: usize,
        second: usize,
        third: usize,
    ) -> c_int {
        // SAFETY: the caller has promised null or an open connection.
        let handle = unsafe { Handle::entered(db) };
        if let (Some(handle), Some(setting)) = (&handle, Setting::of_number(what))
            && !handle.is_called_back()
        {
            let (on, result) = (first as c_int, second as *mut c_int);
            let now = if on < 0 {
                handle.engine_quietly(|it| Ok(it.setting(setting)))
            } else if setting == Setting::LoadExtension {
                // SAFETY: a switch and no place for the result.
                let set = || unsafe { ffi::sqlite3_db_config(db, what, on, core::ptr::null_mut::<c_int>()) };
                let code = handle.change(false, set);
                if code == ffi::SQLITE_OK { Ok(on > 0) } else { Err(code) }
            } else {
                handle.engine_quietly(|it| it.set_setting(setting, on > 0))
            };
            return match now {
                Ok(now) => {
                    if !result.is_null() {
                        // SAFETY: the caller's place for the result.
                        unsafe { *result = now.into() };
                    }
                    ffi::SQLITE_OK
                }
                Err(code) => code,
            };
        }
        // SAFETY: the caller has promised what SQLite demands: each kind reads as many words as it has.
        let change = || unsafe { ffi::sqlite3_db_config(db, what, first, second, third) };
        match handle {
            Some(handle) => handle.change(false, change),
            None => change(),
        }
    }

    /// Sets a limit, unless it is negative, and tells what it was.
    fn sqlite3_limit(db: *mut ffi::sqlite3, what: c_int, value: c_int) -> c_int {
        // SAFETY: the caller has promised null or an open connection.
        let handle = unsafe { Handle::entered(db) };
        if value >= 0
            && let (Some(handle), Some(limit)) = (&handle, Limit::of_number(what))
            && !handle.is_called_back()
            && let Ok(before) = handle.engine_quietly(|it| it.set_limit(limit, value))
        {
            return before;
        }
        // SAFETY: the caller has promised what SQLite demands.
        unsafe { ffi::sqlite3_limit(db, what, value) }
    }

    /// Keeps something of the program's with a connection, which is not given to another user then.
    fn sqlite3_set_clientdata(
        db: *mut ffi::sqlite3,
        name: *const c_char,
        data: *mut c_void,
        destructor: Destructor,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let set = || unsafe { ffi::sqlite3_set_clientdata(db, name, data, destructor) };
        // SAFETY: the caller has promised null or an open connection.
        match unsafe { Handle::entered(db) } {
            Some(handle) => handle.change(false, set),
            None => set(),
        }
    }
}
