//! Closures that SQLite tells of changed rows, commits and rollbacks (<https://sqlite.org/c3ref/update_hook.html>,
//! <https://sqlite.org/c3ref/commit_hook.html>).

use core::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use libsqlite3_sys as ffi;

use crate::callbacks::{closure, pointer};
use crate::{Connection, Progress};

/// A row that was inserted, updated or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowChange<'a> {
    /// What happened to it.
    pub kind: ChangeKind,
    /// `main`, `temp`, or the name of an attached database.
    pub schema: &'a str,
    /// The table.
    pub table: &'a str,
    /// Its rowid, after the change.
    pub rowid: i64,
}

/// What happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Insert,
    /// It is another one.
    Update,
    /// It is gone.
    Delete,
}

pub(crate) type UpdateHook = Box<dyn Fn(&RowChange<'_>) + Send>;
pub(crate) type CommitHook = Box<dyn Fn() -> Progress + Send>;
pub(crate) type RollbackHook = Box<dyn Fn() + Send>;

impl Connection {
    /// Sets or unsets a closure that is told of each row of a rowid table that is changed.
    pub fn set_update_hook(&self, hook: Option<impl Fn(&RowChange<'_>) + Send + 'static>) {
        let hook = hook.map(|it| Box::new(Box::new(it) as UpdateHook));
        let data = pointer(&hook);
        let callback = hook.is_some().then_some(update as _);
        // SAFETY: the closure lives in the handle until it is replaced here.
        unsafe { ffi::sqlite3_update_hook(self.raw(), callback, data) };
        self.callbacks().update = hook;
    }

    /// Sets or unsets a closure that is asked before each commit that has written whether to go on; otherwise the transaction
    /// is rolled back.
    pub fn set_commit_hook(&self, hook: Option<impl Fn() -> Progress + Send + 'static>) {
        let hook = hook.map(|it| Box::new(Box::new(it) as CommitHook));
        let data = pointer(&hook);
        let callback = hook.is_some().then_some(commit as _);
        // SAFETY: the closure lives in the handle until it is replaced here.
        unsafe { ffi::sqlite3_commit_hook(self.raw(), callback, data) };
        self.callbacks().commit = hook;
    }

    /// Sets or unsets a closure that is told of each rollback.
    pub fn set_rollback_hook(&self, hook: Option<impl Fn() + Send + 'static>) {
        let hook = hook.map(|it| Box::new(Box::new(it) as RollbackHook));
        let data = pointer(&hook);
        let callback = hook.is_some().then_some(rollback as _);
        // SAFETY: the closure lives in the handle until it is replaced here.
        unsafe { ffi::sqlite3_rollback_hook(self.raw(), callback, data) };
        self.callbacks().rollback = hook;
    }
}

/// Tells of a changed row.
///
/// # Safety
/// SQLite calls it, with the data that was registered: an [`UpdateHook`].
unsafe extern "C" fn update(
    data: *mut c_void,
    operation: c_int,
    schema: *const c_char,
    table: *const c_char,
    rowid: ffi::sqlite3_int64,
) {
    // SAFETY: SQLite passes what was registered together with this function: a closure of this type.
    let closure = unsafe { closure::<UpdateHook>(&data) };
    // SAFETY: SQLite passes a zero-terminated name, which lives during the call.
    let schema = unsafe { CStr::from_ptr(schema) }.to_string_lossy();
    // SAFETY: as above.
    let table = unsafe { CStr::from_ptr(table) }.to_string_lossy();
    let kind = match operation {
        ffi::SQLITE_INSERT => ChangeKind::Insert,
        ffi::SQLITE_DELETE => ChangeKind::Delete,
        _ => ChangeKind::Update,
    };
    let change = RowChange { kind, schema: &schema, table: &table, rowid };
    let _ = catch_unwind(AssertUnwindSafe(|| closure(&change)));
}

/// Asks before a commit.
///
/// # Safety
/// SQLite calls it, with the data that was registered: a [`CommitHook`].
unsafe extern "C" fn commit(data: *mut c_void) -> c_int {
    // SAFETY: SQLite passes what was registered together with this function: a closure of this type.
    let closure = unsafe { closure::<CommitHook>(&data) };
    let answer = catch_unwind(AssertUnwindSafe(closure)).unwrap_or(Progress::Stop);
    c_int::from(answer == Progress::Stop)
}

/// Tells of a rollback.
///
/// # Safety
/// SQLite calls it, with the data that was registered: a [`RollbackHook`].
unsafe extern "C" fn rollback(data: *mut c_void) {
    // SAFETY: SQLite passes what was registered together with this function: a closure of this type.
    let closure = unsafe { closure::<RollbackHook>(&data) };
    let _ = catch_unwind(AssertUnwindSafe(closure));
}
