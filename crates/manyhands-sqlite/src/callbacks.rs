//! Closures that SQLite calls back: where they live, and how a panic in one is kept from SQLite.
//!
//! Every closure is boxed twice, so that SQLite can hold a thin pointer, and belongs to the
//! connection's handle. It is freed only after SQLite has been given another one.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::ptr;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libsqlite3_sys as ffi;

use crate::Connection;
use crate::authorizer::{self, Action, Verdict};
use crate::change_hooks::{CommitHook, RollbackHook, UpdateHook};

/// Frames of an attached database's WAL after which a commit checkpoints it: SQLite's own default
/// (<https://sqlite.org/pragma.html#pragma_wal_autocheckpoint>).
const ATTACHED_CHECKPOINT_FRAMES: c_int = 1000;

/// What a progress or busy handler answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Go on; try again.
    Continue,
    /// Give up: the statement fails with `SQLITE_INTERRUPT`, or `SQLITE_BUSY`.
    Stop,
}

pub(crate) type Authorizer = Box<dyn Fn(&Action<'_>) -> Verdict + Send>;
pub(crate) type ProgressHandler = Box<dyn Fn() -> Progress + Send>;
pub(crate) type BusyHandler = Box<dyn Fn(u32) -> Progress + Send>;
pub(crate) type WalHook = Box<dyn Fn(u32) -> c_int + Send>;
pub(crate) type Tracer = Box<dyn Fn(&Traced<'_>) + Send>;

/// A statement that begins to run.
#[derive(Clone, Debug)]
pub struct Traced<'a> {
    /// Its text; of a trigger that fires, and of each of its statements, an SQL comment that says so.
    pub sql: Cow<'a, str>,
    /// The text of the statement that the application gave, with values in the places of its parameters.
    /// `None` when that is longer than SQLite's limit for texts, or memory is out.
    pub expanded: Option<String>,
}

/// The closures that a connection's handle keeps alive.
#[derive(Default)]
pub(crate) struct Callbacks {
    pub(crate) authorizer: Option<Box<Authorizer>>,
    pub(crate) progress: Option<Box<ProgressHandler>>,
    pub(crate) busy: Option<Box<BusyHandler>>,
    pub(crate) wal: Option<Box<WalHook>>,
    pub(crate) tracer: Option<Box<Tracer>>,
    pub(crate) update: Option<Box<UpdateHook>>,
    pub(crate) commit: Option<Box<CommitHook>>,
    pub(crate) rollback: Option<Box<RollbackHook>>,
}

/// The pointer that SQLite gets for a boxed closure: null for none.
pub(crate) fn pointer<T>(closure: &Option<Box<T>>) -> *mut c_void {
    closure.as_ref().map_or(core::ptr::null_mut(), |closure| {
        let closure: *const T = &raw const **closure;
        closure.cast_mut().cast()
    })
}

impl Connection {
    /// Sets or unsets the authorizer, which is asked about everything that a statement will touch
    /// while it is compiled. Statements are compiled anew after this.
    pub fn set_authorizer(
        &self,
        authorizer: Option<impl Fn(&Action<'_>) -> Verdict + Send + 'static>,
    ) {
        let authorizer = authorizer.map(|it| Box::new(Box::new(it) as Authorizer));
        let data = pointer(&authorizer);
        let callback: ffi_authorizer = if authorizer.is_some() { Some(authorize) } else { None };
        // SAFETY: the closure lives in the handle until it is replaced here.
        unsafe { ffi::sqlite3_set_authorizer(self.raw(), callback, data) };
        self.callbacks().authorizer = authorizer;
    }

    /// Sets or unsets a closure that is asked every `instructions` instructions of a running
    /// statement whether to go on.
    pub fn set_progress_handler(
        &self,
        instructions: u32,
        handler: Option<impl Fn() -> Progress + Send + 'static>,
    ) {
        let handler = handler.map(|it| Box::new(Box::new(it) as ProgressHandler));
        let data = pointer(&handler);
        let every = c_int::try_from(instructions).unwrap_or(c_int::MAX);
        let callback = handler.is_some().then_some(progress as _);
        // SAFETY: the closure lives in the handle until it is replaced here.
        unsafe { ffi::sqlite3_progress_handler(self.raw(), every, callback, data) };
        self.callbacks().progress = handler;
    }

    /// Sets or unsets a closure that is asked whether to try again when a lock is held by somebody
    /// else; its argument counts the tries.
    pub fn set_busy_handler(&self, handler: Option<impl Fn(u32) -> Progress + Send + 'static>) {
        let handler = handler.map(|it| Box::new(Box::new(it) as BusyHandler));
        let data = pointer(&handler);
        let callback = handler.is_some().then_some(busy as _);
        // SAFETY: the closure lives in the handle until it is replaced here.
        unsafe { ffi::sqlite3_busy_handler(self.raw(), callback, data) };
        self.callbacks().busy = handler;
    }

    /// Sets or unsets a closure that is told after each commit of the main database how many frames its WAL has. It
    /// takes the place of SQLite's automatic checkpoint; attached databases keep theirs. It answers a result code, which the
    /// statement tells that has committed: `SQLITE_OK`, or an error that does not undo the commit.
    pub fn set_wal_hook(&self, hook: Option<impl Fn(u32) -> c_int + Send + 'static>) {
        let hook = hook.map(|it| Box::new(Box::new(it) as WalHook));
        let data = pointer(&hook);
        let callback = hook.is_some().then_some(wal as _);
        // SAFETY: the closure lives in the handle until it is replaced here.
        unsafe { ffi::sqlite3_wal_hook(self.raw(), callback, data) };
        self.callbacks().wal = hook;
    }
}

impl Connection {
    /// Sets or unsets a closure that is told of each statement, and of each trigger, that begins to run.
    pub fn set_tracer(&self, tracer: Option<impl Fn(&Traced<'_>) + Send + 'static>) {
        let tracer = tracer.map(|it| Box::new(Box::new(it) as Tracer));
        let data = pointer(&tracer);
        let mask = if tracer.is_some() { ffi::SQLITE_TRACE_STMT } else { 0 };
        let callback = tracer.is_some().then_some(trace as _);
        // SAFETY: the closure lives in the handle until it is replaced here.
        unsafe { ffi::sqlite3_trace_v2(self.raw(), mask as c_uint, callback, data) };
        self.callbacks().tracer = tracer;
    }
}

/// # Safety
/// The statement is alive.
pub(crate) unsafe fn expanded_sql(statement: *mut ffi::sqlite3_stmt) -> Option<String> {
    // SAFETY: the caller has promised that the statement is alive.
    let text = unsafe { ffi::sqlite3_expanded_sql(statement) };
    if text.is_null() {
        return None;
    }
    // SAFETY: a zero-terminated text of SQLite's.
    let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: SQLite's memory, which was given to the caller.
    unsafe { ffi::sqlite3_free(text.cast()) };
    Some(copy)
}

/// Tells the tracer.
///
/// # Safety
/// SQLite calls it for `SQLITE_TRACE_STMT`, with the data that was registered: a [`Tracer`].
pub(crate) unsafe extern "C" fn trace(
    _kind: c_uint,
    data: *mut c_void,
    statement: *mut c_void,
    text: *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes what was registered together with this function: a closure of this type.
    let closure = unsafe { closure::<Tracer>(&data) };
    // SAFETY: for this kind of event SQLite passes a zero-terminated text, which lives during the call.
    let sql = unsafe { CStr::from_ptr(text.cast::<c_char>()) }.to_string_lossy();
    // SAFETY: for this kind of event SQLite passes the statement.
    let expanded = unsafe { expanded_sql(statement.cast()) };
    let traced = Traced { sql, expanded };
    let _ = catch_unwind(AssertUnwindSafe(|| closure(&traced)));
    ffi::SQLITE_OK
}

#[expect(non_camel_case_types, reason = "names the C type of one function's argument")]
type ffi_authorizer = Option<
    unsafe extern "C" fn(
        *mut core::ffi::c_void,
        c_int,
        *const c_char,
        *const c_char,
        *const c_char,
        *const c_char,
    ) -> c_int,
>;

/// The closure behind a callback's data, for as long as the variable stays that has the data's address: the argument of
/// the call.
///
/// # Safety
/// The data is what [`pointer()`] has made of a closure of type `T`. The handle keeps that one: it is replaced only after SQLite
/// has another one, which takes the mutex that a call holds.
pub(crate) unsafe fn closure<T>(data: &*mut c_void) -> &T {
    // SAFETY: the address of a `T` that stays during the call, as the caller has promised, and is only read.
    unsafe { &*data.cast::<T>() }
}

/// Asks the authorizer.
///
/// # Safety
/// SQLite calls it, with the data that was registered: an [`Authorizer`].
pub(crate) unsafe extern "C" fn authorize(
    data: *mut c_void,
    code: c_int,
    first: *const c_char,
    second: *const c_char,
    database: *const c_char,
    trigger: *const c_char,
) -> c_int {
    // SAFETY: SQLite passes what was registered together with this function: a closure of this type.
    let closure = unsafe { closure::<Authorizer>(&data) };
    // SAFETY: SQLite's texts live during the call.
    let action = unsafe { authorizer::action(code, [first, second, database, trigger]) };
    let verdict = catch_unwind(AssertUnwindSafe(|| closure(&action)));
    verdict.unwrap_or(Verdict::Deny).to_code()
}

/// Asks the progress handler.
///
/// # Safety
/// SQLite calls it, with the data that was registered: a [`ProgressHandler`].
pub(crate) unsafe extern "C" fn progress(data: *mut c_void) -> c_int {
    // SAFETY: SQLite passes what was registered together with this function: a closure of this type.
    let closure = unsafe { closure::<ProgressHandler>(&data) };
    let answer = catch_unwind(AssertUnwindSafe(closure)).unwrap_or(Progress::Stop);
    c_int::from(answer == Progress::Stop)
}

/// Asks the busy handler.
///
/// # Safety
/// SQLite calls it, with the data that was registered: a [`BusyHandler`].
pub(crate) unsafe extern "C" fn busy(data: *mut c_void, tries: c_int) -> c_int {
    // SAFETY: SQLite passes what was registered together with this function: a closure of this type.
    let closure = unsafe { closure::<BusyHandler>(&data) };
    let tries = tries.unsigned_abs();
    let answer = catch_unwind(AssertUnwindSafe(|| closure(tries))).unwrap_or(Progress::Stop);
    c_int::from(answer == Progress::Continue)
}

/// Tells of a commit in WAL mode.
///
/// # Safety
/// SQLite calls it, with the data that was registered: a [`WalHook`].
pub(crate) unsafe extern "C" fn wal(
    data: *mut c_void,
    handle: *mut ffi::sqlite3,
    database: *const c_char,
    frames: c_int,
) -> c_int {
    // SAFETY: SQLite passes the name that the database has in the connection.
    if unsafe { CStr::from_ptr(database) } != c"main" {
        if frames >= ATTACHED_CHECKPOINT_FRAMES {
            let (mode, none) = (ffi::SQLITE_CHECKPOINT_PASSIVE, ptr::null_mut());
            // SAFETY: the hook's own arguments; a WAL hook may checkpoint. As in SQLite's own one, what comes of it
            // is nobody's: the next commit tries again.
            unsafe { ffi::sqlite3_wal_checkpoint_v2(handle, database, mode, none, none) };
        }
        return ffi::SQLITE_OK;
    }
    // SAFETY: SQLite passes what was registered together with this function: a closure of this type.
    let closure = unsafe { closure::<WalHook>(&data) };
    catch_unwind(AssertUnwindSafe(|| closure(frames.unsigned_abs()))).unwrap_or(ffi::SQLITE_OK)
}
