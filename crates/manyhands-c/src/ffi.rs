//! SQLite's own functions, with those that `libsqlite3-sys` does not declare.

use core::ffi::{c_char, c_int, c_void};

pub(crate) use libsqlite3_sys::*;

pub(crate) type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;
pub(crate) type ScalarFunction =
    Option<unsafe extern "C" fn(*mut sqlite3_context, c_int, *mut *mut sqlite3_value)>;
pub(crate) type FinalFunction = Option<unsafe extern "C" fn(*mut sqlite3_context)>;
pub(crate) type Compare =
    Option<unsafe extern "C" fn(*mut c_void, c_int, *const c_void, c_int, *const c_void) -> c_int>;
pub(crate) type PreupdateHook = Option<
    unsafe extern "C" fn(*mut c_void, *mut sqlite3, c_int, *const c_char, *const c_char, i64, i64),
>;
/// How many bytes of a changeset are there, and where.
pub(crate) type Input = Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int) -> c_int>;
pub(crate) type TableFilter = Option<unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int>;
pub(crate) type ChangeFilter = Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>;
pub(crate) type ConflictHandler =
    Option<unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> c_int>;

unsafe extern "C" {
    pub(crate) fn sqlite3_open16(name: *const c_void, db: *mut *mut sqlite3) -> c_int;
    pub(crate) fn sqlite3_close_v2(db: *mut sqlite3) -> c_int;
    pub(crate) fn sqlite3_prepare(
        db: *mut sqlite3,
        sql: *const c_char,
        bytes: c_int,
        statement: *mut *mut sqlite3_stmt,
        tail: *mut *const c_char,
    ) -> c_int;
    pub(crate) fn sqlite3_normalized_sql(statement: *mut sqlite3_stmt) -> *const c_char;
    pub(crate) fn sqlite3_bind_text16(
        statement: *mut sqlite3_stmt,
        index: c_int,
        text: *const c_void,
        bytes: c_int,
        destructor: Destructor,
    ) -> c_int;
    pub(crate) fn sqlite3_column_name16(statement: *mut sqlite3_stmt, n: c_int) -> *const c_void;
    pub(crate) fn sqlite3_column_database_name16(s: *mut sqlite3_stmt, n: c_int) -> *const c_void;
    pub(crate) fn sqlite3_column_table_name16(s: *mut sqlite3_stmt, n: c_int) -> *const c_void;
    pub(crate) fn sqlite3_column_origin_name16(s: *mut sqlite3_stmt, n: c_int) -> *const c_void;
    pub(crate) fn sqlite3_column_decltype16(s: *mut sqlite3_stmt, n: c_int) -> *const c_void;
    pub(crate) fn sqlite3_column_text16(s: *mut sqlite3_stmt, n: c_int) -> *const c_void;
    pub(crate) fn sqlite3_column_bytes16(s: *mut sqlite3_stmt, n: c_int) -> c_int;
    pub(crate) fn sqlite3_create_function(
        db: *mut sqlite3,
        name: *const c_char,
        arguments: c_int,
        flags: c_int,
        data: *mut c_void,
        function: ScalarFunction,
        step: ScalarFunction,
        finish: FinalFunction,
    ) -> c_int;
    pub(crate) fn sqlite3_create_function16(
        db: *mut sqlite3,
        name: *const c_void,
        arguments: c_int,
        flags: c_int,
        data: *mut c_void,
        function: ScalarFunction,
        step: ScalarFunction,
        finish: FinalFunction,
    ) -> c_int;
    pub(crate) fn sqlite3_create_collation(
        db: *mut sqlite3,
        name: *const c_char,
        encoding: c_int,
        data: *mut c_void,
        compare: Compare,
    ) -> c_int;
    pub(crate) fn sqlite3_create_collation16(
        db: *mut sqlite3,
        name: *const c_void,
        encoding: c_int,
        data: *mut c_void,
        compare: Compare,
    ) -> c_int;
    pub(crate) fn sqlite3_collation_needed16(
        db: *mut sqlite3,
        data: *mut c_void,
        needed: Option<unsafe extern "C" fn(*mut c_void, *mut sqlite3, c_int, *const c_void)>,
    ) -> c_int;
    pub(crate) fn sqlite3_create_module(
        db: *mut sqlite3,
        name: *const c_char,
        module: *const sqlite3_module,
        data: *mut c_void,
    ) -> c_int;
    pub(crate) fn sqlite3_preupdate_hook(
        db: *mut sqlite3,
        hook: PreupdateHook,
        data: *mut c_void,
    ) -> *mut c_void;
    pub(crate) fn sqlite3session_create(
        db: *mut sqlite3,
        schema: *const c_char,
        session: *mut *mut c_void,
    ) -> c_int;
    pub(crate) fn sqlite3changeset_apply(
        db: *mut sqlite3,
        bytes: c_int,
        changeset: *mut c_void,
        filter: TableFilter,
        conflict: ConflictHandler,
        data: *mut c_void,
    ) -> c_int;
    pub(crate) fn sqlite3changeset_apply_v2(
        db: *mut sqlite3,
        bytes: c_int,
        changeset: *mut c_void,
        filter: TableFilter,
        conflict: ConflictHandler,
        data: *mut c_void,
        rebase: *mut *mut c_void,
        rebase_bytes: *mut c_int,
        flags: c_int,
    ) -> c_int;
    pub(crate) fn sqlite3changeset_apply_v3(
        db: *mut sqlite3,
        bytes: c_int,
        changeset: *mut c_void,
        filter: ChangeFilter,
        conflict: ConflictHandler,
        data: *mut c_void,
        rebase: *mut *mut c_void,
        rebase_bytes: *mut c_int,
        flags: c_int,
    ) -> c_int;
    pub(crate) fn sqlite3changeset_apply_strm(
        db: *mut sqlite3,
        input: Input,
        from: *mut c_void,
        filter: TableFilter,
        conflict: ConflictHandler,
        data: *mut c_void,
    ) -> c_int;
    pub(crate) fn sqlite3changeset_apply_v2_strm(
        db: *mut sqlite3,
        input: Input,
        from: *mut c_void,
        filter: TableFilter,
        conflict: ConflictHandler,
        data: *mut c_void,
        rebase: *mut *mut c_void,
        rebase_bytes: *mut c_int,
        flags: c_int,
    ) -> c_int;
    pub(crate) fn sqlite3changeset_apply_v3_strm(
        db: *mut sqlite3,
        input: Input,
        from: *mut c_void,
        filter: ChangeFilter,
        conflict: ConflictHandler,
        data: *mut c_void,
        rebase: *mut *mut c_void,
        rebase_bytes: *mut c_int,
        flags: c_int,
    ) -> c_int;
    pub(crate) fn sqlite3_transfer_bindings(
        from: *mut sqlite3_stmt,
        to: *mut sqlite3_stmt,
    ) -> c_int;
}

/// The flag of `sqlite3_open_v2` for a name that must be no symbolic link.
pub(crate) const OPEN_NOFOLLOW: c_int = 0x0100_0000;
