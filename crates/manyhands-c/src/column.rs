//! The values of the current row: those of SQLite's own statement, or of the mirror of a row that the engine gave.

use core::ffi::{c_int, c_uchar, c_void};

use crate::ffi;
use crate::statement::{Running, Statement};

/// Functions that the statement which shows the row answers.
macro_rules! of_row {
    ($($name:ident -> $ret:ty;)*) => {
        c_api! {$(
            /// As SQLite's function of this name.
            fn $name(statement: *mut ffi::sqlite3_stmt, column: c_int) -> $ret {
                // SAFETY: the caller has promised null or an open statement.
                let shows = unsafe { shown_by(statement) };
                // SAFETY: SQLite's own statement, or null.
                unsafe { ffi::$name(shows, column) }
            }
        )*}
    };
}

of_row! {
    sqlite3_column_blob -> *const c_void;
    sqlite3_column_bytes -> c_int;
    sqlite3_column_bytes16 -> c_int;
    sqlite3_column_double -> f64;
    sqlite3_column_int -> c_int;
    sqlite3_column_int64 -> i64;
    sqlite3_column_text -> *const c_uchar;
    sqlite3_column_text16 -> *const c_void;
    sqlite3_column_type -> c_int;
    sqlite3_column_value -> *mut ffi::sqlite3_value;
}

c_api! {
    /// How many values the current row has; 0 without one.
    fn sqlite3_data_count(statement: *mut ffi::sqlite3_stmt) -> c_int {
        // SAFETY: the caller has promised null or an open statement.
        let shows = unsafe { shown_by(statement) };
        // SAFETY: SQLite's own statement, or null.
        unsafe { ffi::sqlite3_data_count(shows) }
    }
}

/// The statement of SQLite's that shows the current row.
///
/// # Safety
/// `statement` is null or open.
unsafe fn shown_by(statement: *mut ffi::sqlite3_stmt) -> *mut ffi::sqlite3_stmt {
    // SAFETY: the caller has promised it.
    match unsafe { Statement::of(statement) } {
        Some(ours) if matches!(*ours.running.borrow(), Running::Shows(_)) => ours.mirror.get(),
        Some(ours) => ours.raw.get(),
        None => statement,
    }
}
