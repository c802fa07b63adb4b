//! SQLite's functions: those that are ours, from the C interface, and all others, which are SQLite's own.
//!
//! A name that both have is ambiguous to the compiler until it is named here: so SQLite's own function is never called by mistake where
//! there is one of ours.

pub(crate) use core::ffi::{c_char, c_void};

pub(crate) use libsqlite3_sys::*;
#[allow(unused_imports, reason = "what it has besides the names below is to be ambiguous")]
pub(crate) use manyhands_c::*;

pub(crate) use manyhands_c::{
    check_while_waiting, sqlite3_backup_finish, sqlite3_backup_init, sqlite3_backup_step,
    sqlite3_bind_blob, sqlite3_bind_double, sqlite3_bind_int64, sqlite3_bind_null,
    sqlite3_bind_parameter_count, sqlite3_bind_parameter_index, sqlite3_bind_parameter_name,
    sqlite3_bind_text, sqlite3_bind_text16, sqlite3_busy_handler, sqlite3_busy_timeout,
    sqlite3_changes, sqlite3_clear_bindings, sqlite3_close_v2, sqlite3_column_blob,
    sqlite3_column_bytes, sqlite3_column_count, sqlite3_column_database_name,
    sqlite3_column_decltype, sqlite3_column_double, sqlite3_column_int64, sqlite3_column_name,
    sqlite3_column_text, sqlite3_column_type, sqlite3_create_collation_v2,
    sqlite3_create_function_v2, sqlite3_db_config, sqlite3_enable_load_extension, sqlite3_exec,
    sqlite3_expanded_sql, sqlite3_extended_result_codes, sqlite3_finalize, sqlite3_interrupt,
    sqlite3_last_insert_rowid, sqlite3_load_extension, sqlite3_open_v2, sqlite3_open16,
    sqlite3_prepare_v2, sqlite3_progress_handler, sqlite3_reset, sqlite3_set_authorizer,
    sqlite3_sql, sqlite3_step, sqlite3_stmt_readonly, sqlite3_stmt_status, sqlite3_total_changes,
    sqlite3_trace,
};

/// Calls a function of SQLite's. Whoever does has entered the connection (`connection.rs`), or is the last one who knows it; and the
/// connection or statement is open, or null where SQLite allows that.
macro_rules! sqlite {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: see above; texts are zero-terminated or have their length beside them, and places for results are the caller's own.
        unsafe { $crate::ffi::$name($($argument),*) }
    }};
}
pub(crate) use sqlite;
