//! SQLite's authorizer: it names everything that a statement will touch while SQLite compiles it.
//!
//! Source of the codes: <https://sqlite.org/c3ref/c_alter_table.html>.

use core::ffi::{CStr, c_char, c_int};

use libsqlite3_sys as ffi;

use crate::codes::named;

/// One thing that a statement would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Action<'a> {
    /// What kind of thing.
    pub kind: ActionKind,
    /// SQLite's number of the kind.
    pub code: i32,
    /// First detail: for most kinds a table, index or trigger; for a PRAGMA its name.
    pub first: Option<&'a str>,
    /// Second detail: a column, a table, a function's name, a PRAGMA's argument.
    pub second: Option<&'a str>,
    /// The schema: `main`, `temp` or the name of an attached database.
    pub database: Option<&'a str>,
    /// The innermost trigger or view that does it, if one does; an empty text for a name that is not UTF-8.
    pub trigger: Option<&'a str>,
}

impl Action<'_> {
    /// SQLite's numbers of the kinds, with their names.
    pub const CODES: &'static [(i32, &'static str)] = named! {
        SQLITE_CREATE_INDEX SQLITE_CREATE_TABLE SQLITE_CREATE_TEMP_INDEX SQLITE_CREATE_TEMP_TABLE
        SQLITE_CREATE_TEMP_TRIGGER SQLITE_CREATE_TEMP_VIEW SQLITE_CREATE_TRIGGER SQLITE_CREATE_VIEW
        SQLITE_DELETE SQLITE_DROP_INDEX SQLITE_DROP_TABLE SQLITE_DROP_TEMP_INDEX SQLITE_DROP_TEMP_TABLE
        SQLITE_DROP_TEMP_TRIGGER SQLITE_DROP_TEMP_VIEW SQLITE_DROP_TRIGGER SQLITE_DROP_VIEW
        SQLITE_INSERT SQLITE_PRAGMA SQLITE_READ SQLITE_SELECT SQLITE_TRANSACTION SQLITE_UPDATE
        SQLITE_ATTACH SQLITE_DETACH SQLITE_ALTER_TABLE SQLITE_REINDEX SQLITE_ANALYZE
        SQLITE_CREATE_VTABLE SQLITE_DROP_VTABLE SQLITE_FUNCTION SQLITE_SAVEPOINT SQLITE_RECURSIVE
    };
}

/// The kinds of action that matter for routing; the rest is [`ActionKind::Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionKind {
    /// SELECT, or a recursive one.
    Select,
    /// A column is read.
    Read,
    /// A row is inserted, updated or deleted.
    Write,
    /// A function is called.
    Function,
    /// BEGIN, COMMIT or ROLLBACK.
    Transaction,
    /// SAVEPOINT, RELEASE or ROLLBACK TO.
    Savepoint,
    /// A PRAGMA.
    Pragma,
    /// ATTACH.
    Attach,
    /// DETACH.
    Detach,
    /// CREATE or DROP of something in the temp schema.
    TempSchema,
    /// CREATE, DROP, ALTER, REINDEX, ANALYZE.
    Schema,
}

impl ActionKind {
    fn of(code: c_int) -> ActionKind {
        match code {
            ffi::SQLITE_SELECT | ffi::SQLITE_RECURSIVE => ActionKind::Select,
            ffi::SQLITE_READ => ActionKind::Read,
            ffi::SQLITE_INSERT | ffi::SQLITE_UPDATE | ffi::SQLITE_DELETE => ActionKind::Write,
            ffi::SQLITE_FUNCTION => ActionKind::Function,
            ffi::SQLITE_TRANSACTION => ActionKind::Transaction,
            ffi::SQLITE_SAVEPOINT => ActionKind::Savepoint,
            ffi::SQLITE_PRAGMA => ActionKind::Pragma,
            ffi::SQLITE_ATTACH => ActionKind::Attach,
            ffi::SQLITE_DETACH => ActionKind::Detach,
            ffi::SQLITE_CREATE_TEMP_INDEX
            | ffi::SQLITE_CREATE_TEMP_TABLE
            | ffi::SQLITE_CREATE_TEMP_TRIGGER
            | ffi::SQLITE_CREATE_TEMP_VIEW
            | ffi::SQLITE_DROP_TEMP_INDEX
            | ffi::SQLITE_DROP_TEMP_TABLE
            | ffi::SQLITE_DROP_TEMP_TRIGGER
            | ffi::SQLITE_DROP_TEMP_VIEW => ActionKind::TempSchema,
            _ => ActionKind::Schema,
        }
    }
}

/// What the authorizer answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Compile on.
    Allow,
    /// Fail with `SQLITE_AUTH`.
    Deny,
    /// Leave this out: a column reads as NULL, other things do not happen.
    Ignore,
    /// No answer that SQLite knows: fail with `SQLITE_ERROR`, "authorizer malfunction".
    Invalid,
}

impl Verdict {
    pub(crate) fn to_code(self) -> c_int {
        match self {
            Verdict::Allow => ffi::SQLITE_OK,
            Verdict::Deny => ffi::SQLITE_DENY,
            Verdict::Ignore => ffi::SQLITE_IGNORE,
            Verdict::Invalid => -1,
        }
    }
}

/// # Safety
/// Each pointer is null or a zero-terminated text that lives as long as the result is used.
pub(crate) unsafe fn action<'a>(code: c_int, texts: [*const c_char; 4]) -> Action<'a> {
    let [first, second, database, trigger] = texts.map(|text| {
        if text.is_null() {
            return None;
        }
        // SAFETY: not null, so the caller has promised a zero-terminated text that stays as long as the result.
        unsafe { CStr::from_ptr(text) }.to_str().ok()
    });
    // A trigger whose name cannot be told still counts as one.
    let trigger = trigger.or((!texts[3].is_null()).then_some(""));
    Action { kind: ActionKind::of(code), code, first, second, database, trigger }
}
