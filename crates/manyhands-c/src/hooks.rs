//! Hooks: what a program is told of rows, commits and statements, and asked about them.
//!
//! They are given to SQLite, with a function of ours before them: what the engine executes for itself the program is not told of. A
//! connection that has one executes its writes itself, so each event happens here, and once.

use core::cell::RefCell;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ffi::CString;
use std::ptr;

use manyhands::driver::{ApplicationStatements, ConnectionExt};
use manyhands::{Action, Progress, Verdict};

use crate::ffi::{self, PreupdateHook};
use crate::handle::{Data, Handle};

type UpdateHook =
    Option<unsafe extern "C" fn(*mut c_void, c_int, *const c_char, *const c_char, i64)>;
type CommitHook = Option<unsafe extern "C" fn(*mut c_void) -> c_int>;
type RollbackHook = Option<unsafe extern "C" fn(*mut c_void)>;
type WalHook =
    Option<unsafe extern "C" fn(*mut c_void, *mut ffi::sqlite3, *const c_char, c_int) -> c_int>;
type Trace = Option<unsafe extern "C" fn(*mut c_void, *const c_char)>;
type Profile = Option<unsafe extern "C" fn(*mut c_void, *const c_char, u64)>;
type TraceV2 = Option<unsafe extern "C" fn(c_uint, *mut c_void, *mut c_void, *mut c_void) -> c_int>;
type Authorizer = Option<
    unsafe extern "C" fn(
        *mut c_void,
        c_int,
        *const c_char,
        *const c_char,
        *const c_char,
        *const c_char,
    ) -> c_int,
>;
type ProgressHandler = Option<unsafe extern "C" fn(*mut c_void) -> c_int>;

/// The hooks of a connection. SQLite has their addresses: they stay where they are until SQLite has others.
pub(crate) struct Hooks {
    db: *mut ffi::sqlite3,
    statements: ApplicationStatements,
    update: RefCell<Option<Box<Hook<UpdateHook>>>>,
    commit: RefCell<Option<Box<Hook<CommitHook>>>>,
    rollback: RefCell<Option<Box<Hook<RollbackHook>>>>,
    preupdate: RefCell<Option<Box<Hook<PreupdateHook>>>>,
    trace: RefCell<Option<Box<Hook<AnyTrace>>>>,
    profile: RefCell<Option<Box<Hook<Profile>>>>,
    /// What the wal hook is given.
    pub(crate) wal: RefCell<Option<Data>>,
}

/// A function of the program, and what it is given.
struct Hook<F> {
    statements: ApplicationStatements,
    function: F,
    data: *mut c_void,
    db: *mut ffi::sqlite3,
}

/// There is one of these at a time, as in SQLite.
enum AnyTrace {
    Trace(Trace),
    V2(TraceV2),
}

impl Hooks {
    pub(crate) fn new(db: *mut ffi::sqlite3, statements: ApplicationStatements) -> Hooks {
        Hooks {
            db,
            statements,
            update: RefCell::default(),
            commit: RefCell::default(),
            rollback: RefCell::default(),
            preupdate: RefCell::default(),
            trace: RefCell::default(),
            profile: RefCell::default(),
            // SQLite's own hook, which makes checkpoints, is given their number of frames.
            wal: RefCell::new(Some(Data(ptr::without_provenance_mut(1000)))),
        }
    }

    /// Tells the program that its transaction is rolled back.
    pub(crate) fn tell_rollback(&self) {
        if let Some(hook) = &*self.rollback.borrow()
            && let Some(function) = hook.function
        {
            // SAFETY: what the program has promised when it set the hook.
            unsafe { function(hook.data) };
        }
    }

    fn hook<F>(&self, function: F, data: *mut c_void) -> Box<Hook<F>> {
        Box::new(Hook { statements: self.statements.clone(), function, data, db: self.db })
    }
}

impl<F> Hook<F> {
    /// The hook that SQLite calls, if the program is to be told.
    ///
    /// # Safety
    /// `data` is the address of such a hook, which stays there during the call.
    unsafe fn called<'a>(data: *mut c_void) -> Option<&'a Hook<F>> {
        let hook: *const Hook<F> = data.cast();
        // SAFETY: the caller has promised it.
        let hook = unsafe { &*hook };
        hook.statements.are_executed().then_some(hook)
    }
}

/// Gives a hook to SQLite, and keeps it until the next one. Gives what the last one was given.
fn replace<F>(
    kept: &RefCell<Option<Box<Hook<F>>>>,
    next: Option<Box<Hook<F>>>,
    give: impl FnOnce(*mut c_void),
) -> *mut c_void {
    give(next.as_ref().map_or(ptr::null_mut(), |it| ptr::from_ref(&**it).cast_mut().cast()));
    kept.replace(next).map_or(ptr::null_mut(), |it| it.data)
}

/// Defines the hooks that hear of changes: SQLite's function, where it is kept, its type, the function before it.
macro_rules! change_hooks {
    ($($(#[$meta:meta])* $name:ident, $kept:ident, $kind:ty, $before:ident;)*) => {
        c_api! {$(
            $(#[$meta])*
            fn $name(db: *mut ffi::sqlite3, hook: $kind, data: *mut c_void) -> *mut c_void {
                // SAFETY: the caller has promised null or an open connection.
                let Some(handle) = (unsafe { Handle::entered(db) }) else {
                    // SAFETY: the caller has promised what SQLite demands.
                    return unsafe { ffi::$name(db, hook, data) };
                };
                let next = hook.is_some().then(|| handle.hooks.hook(hook, data));
                let before = next.is_some().then_some($before as _);
                let change = || replace(&handle.hooks.$kept, next, |data| {
                    // SAFETY: an open connection; the hook stays until it is replaced here.
                    unsafe { ffi::$name(db, before, data) };
                });
                if handle.is_called_back() {
                    return change();
                }
                handle.engine_quietly(|it| it.hear_changes(change)).unwrap_or(ptr::null_mut())
            }
        )*}
    };
}

change_hooks! {
    /// Tells of each changed row of a rowid table.
    sqlite3_update_hook, update, UpdateHook, update;
    /// Asks before each commit whether to go on: otherwise the transaction is rolled back.
    sqlite3_commit_hook, commit, CommitHook, commit;
    /// Tells of each transaction that is rolled back.
    sqlite3_rollback_hook, rollback, RollbackHook, rollback;
    /// Tells of each row before it is changed.
    sqlite3_preupdate_hook, preupdate, PreupdateHook, preupdate;
}

/// SQLite calls it, with what was registered together with it.
///
/// # Safety
/// The data is the address of such a hook, which stays there during the call.
unsafe extern "C" fn update(
    data: *mut c_void,
    kind: c_int,
    schema: *const c_char,
    table: *const c_char,
    rowid: i64,
) {
    // SAFETY: SQLite gives what it was given for this function.
    let Some(hook) = (unsafe { Hook::<UpdateHook>::called(data) }) else { return };
    if let Some(function) = hook.function {
        // SAFETY: what the program has promised when it set the hook.
        unsafe { function(hook.data, kind, schema, table, rowid) };
    }
}

/// SQLite calls it, with what was registered together with it.
///
/// # Safety
/// The data is the address of such a hook, which stays there during the call.
unsafe extern "C" fn commit(data: *mut c_void) -> c_int {
    // SAFETY: SQLite gives what it was given for this function.
    let hook = unsafe { Hook::<CommitHook>::called(data) };
    let function = hook.and_then(|it| Some((it.function?, it.data)));
    // SAFETY: what the program has promised when it set the hook.
    function.map_or(0, |(function, data)| unsafe { function(data) })
}

/// SQLite calls it, with what was registered together with it.
///
/// # Safety
/// The data is the address of such a hook, which stays there during the call.
unsafe extern "C" fn rollback(data: *mut c_void) {
    // SAFETY: SQLite gives what it was given for this function.
    let Some(hook) = (unsafe { Hook::<RollbackHook>::called(data) }) else { return };
    if let Some(function) = hook.function {
        // SAFETY: what the program has promised when it set the hook.
        unsafe { function(hook.data) };
    }
}

/// SQLite calls it, with what was registered together with it.
///
/// # Safety
/// The data is the address of such a hook, which stays there during the call.
unsafe extern "C" fn preupdate(
    data: *mut c_void,
    db: *mut ffi::sqlite3,
    kind: c_int,
    schema: *const c_char,
    table: *const c_char,
    before: i64,
    after: i64,
) {
    // SAFETY: SQLite gives what it was given for this function.
    let Some(hook) = (unsafe { Hook::<PreupdateHook>::called(data) }) else { return };
    if let Some(function) = hook.function {
        // SAFETY: what the program has promised when it set the hook.
        unsafe { function(hook.data, db, kind, schema, table, before, after) };
    }
}

c_api! {
    /// Tells of the frames in the WAL after each commit (<https://sqlite.org/c3ref/wal_hook.html>).
    fn sqlite3_wal_hook(db: *mut ffi::sqlite3, hook: WalHook, data: *mut c_void) -> *mut c_void {
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::entered(db) }).filter(|it| !it.is_called_back()) else {
            // SAFETY: the caller has promised what SQLite demands.
            return unsafe { ffi::sqlite3_wal_hook(db, hook, data) };
        };
        let (given, connection) = (Data(data), Data(db.cast()));
        let hook = hook.map(|hook| {
            move |frames: u32| {
                let frames = c_int::try_from(frames).unwrap_or(c_int::MAX);
                let db = connection.get().cast();
                // SAFETY: what the program has promised when it set the hook.
                unsafe { hook(given.get(), db, c"main".as_ptr(), frames) }
            }
        });
        let next = hook.is_some().then_some(given);
        let _ = handle.engine_quietly(|it| {
            // It takes the place of SQLite's own hook, which makes checkpoints.
            it.as_own(|it| it.execute("PRAGMA wal_autocheckpoint=0", ()))?;
            it.set_wal_hook(hook)
        });
        handle.hooks.wal.replace(next).map_or(ptr::null_mut(), Data::get)
    }

    /// Tells of statements that are executed, of rows, and of the end (<https://sqlite.org/c3ref/trace_v2.html>).
    fn sqlite3_trace_v2(
        db: *mut ffi::sqlite3,
        mask: c_uint,
        trace: TraceV2,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::entered(db) }).filter(|it| !it.is_called_back()) else {
            // SAFETY: the caller has promised what SQLite demands.
            return unsafe { ffi::sqlite3_trace_v2(db, mask, trace, data) };
        };
        let is_set = mask != 0 && trace.is_some();
        let next = is_set.then(|| handle.hooks.hook(AnyTrace::V2(trace), data));
        handle.hear(&handle.hooks.trace, next, |data| {
            let before: TraceV2 = is_set.then_some(trace_v2 as _);
            // SAFETY: an open connection; the hook stays until it is replaced.
            unsafe { ffi::sqlite3_trace_v2(db, mask, before, data) };
        });
        ffi::SQLITE_OK
    }

    /// Tells the text of each statement that is executed.
    fn sqlite3_trace(db: *mut ffi::sqlite3, trace: Trace, data: *mut c_void) -> *mut c_void {
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::entered(db) }).filter(|it| !it.is_called_back()) else {
            // SAFETY: the caller has promised what SQLite demands.
            return unsafe { ffi::sqlite3_trace(db, trace, data) };
        };
        let is_set = trace.is_some();
        let next = is_set.then(|| handle.hooks.hook(AnyTrace::Trace(trace), data));
        handle.hear(&handle.hooks.trace, next, |data| {
            let before: Trace = is_set.then_some(trace_text as _);
            // SAFETY: an open connection; the hook stays until it is replaced.
            unsafe { ffi::sqlite3_trace(db, before, data) };
        })
    }

    /// Tells the text of each statement that was executed, and how long that took in nanoseconds.
    fn sqlite3_profile(db: *mut ffi::sqlite3, profile: Profile, data: *mut c_void) -> *mut c_void {
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::entered(db) }).filter(|it| !it.is_called_back()) else {
            // SAFETY: the caller has promised what SQLite demands.
            return unsafe { ffi::sqlite3_profile(db, profile, data) };
        };
        let is_set = profile.is_some();
        let next = is_set.then(|| handle.hooks.hook(profile, data));
        handle.hear(&handle.hooks.profile, next, |data| {
            let before: Profile = is_set.then_some(profile_text as _);
            // SAFETY: an open connection; the hook stays until it is replaced.
            unsafe { ffi::sqlite3_profile(db, before, data) };
        })
    }

    /// Asks about everything that a statement would do, when it is compiled (<https://sqlite.org/c3ref/set_authorizer.html>).
    fn sqlite3_set_authorizer(db: *mut ffi::sqlite3, ask: Authorizer, data: *mut c_void) -> c_int {
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::entered(db) }).filter(|it| !it.is_called_back()) else {
            // SAFETY: the caller has promised what SQLite demands.
            return unsafe { ffi::sqlite3_set_authorizer(db, ask, data) };
        };
        let data = Data(data);
        let authorizer = ask.map(|ask| {
            move |action: &Action<'_>| {
                let texts = [action.first, action.second, action.database, action.trigger];
                let texts = texts.map(|it| it.and_then(|it| CString::new(it).ok()));
                let [a, b, c, d] = texts.each_ref().map(|it| it.as_ref().map_or(ptr::null(), |it| it.as_ptr()));
                // SAFETY: what the program has promised when it set the authorizer; zero-terminated texts, or null.
                match unsafe { ask(data.get(), action.code, a, b, c, d) } {
                    ffi::SQLITE_OK => Verdict::Allow,
                    ffi::SQLITE_DENY => Verdict::Deny,
                    ffi::SQLITE_IGNORE => Verdict::Ignore,
                    _ => Verdict::Invalid,
                }
            }
        });
        let set = handle.engine_quietly(|it| it.set_authorizer(authorizer));
        // What is compiled already has asked the one before.
        for statement in handle.statements.borrow().iter() {
            // SAFETY: an open statement, as all of these are.
            if let Some(compiled) = &mut *unsafe { &**statement }.compiled.borrow_mut() {
                compiled.expire();
            }
        }
        set.map_or_else(|code| code, |()| ffi::SQLITE_OK)
    }

    /// Asks after so many instructions of a statement whether to go on.
    fn sqlite3_progress_handler(
        db: *mut ffi::sqlite3,
        instructions: c_int,
        handler: ProgressHandler,
        data: *mut c_void,
    ) {
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::entered(db) }).filter(|it| !it.is_called_back()) else {
            // SAFETY: the caller has promised what SQLite demands.
            return unsafe { ffi::sqlite3_progress_handler(db, instructions, handler, data) };
        };
        let data = Data(data);
        let handler = handler.filter(|_| instructions > 0).map(|handler| {
            // SAFETY: what the program has promised when it set the handler.
            move || match unsafe { handler(data.get()) } {
                0 => Progress::Continue,
                _ => Progress::Stop,
            }
        });
        let instructions = instructions.unsigned_abs().max(1);
        let _ = handle.engine_quietly(|it| it.set_progress_handler(instructions, handler));
    }
}

impl Handle {
    fn hear<F>(
        &self,
        kept: &RefCell<Option<Box<Hook<F>>>>,
        next: Option<Box<Hook<F>>>,
        give: impl FnOnce(*mut c_void),
    ) -> *mut c_void {
        let (trace, profile) = (&self.hooks.trace, &self.hooks.profile);
        let hears = next.is_some() || trace.borrow().is_some() || profile.borrow().is_some();
        let change = || replace(kept, next, give);
        self.engine_quietly(|it| it.hear_statements(hears, change)).unwrap_or(ptr::null_mut())
    }
}

/// SQLite calls it, with what was registered together with it.
///
/// # Safety
/// The data is the address of such a hook, which stays there during the call.
unsafe extern "C" fn trace_v2(
    kind: c_uint,
    data: *mut c_void,
    about: *mut c_void,
    more: *mut c_void,
) -> c_int {
    // SAFETY: SQLite gives what it was given for this function.
    let hook = unsafe { Hook::<AnyTrace>::called(data) };
    if let Some(Hook { function: AnyTrace::V2(Some(trace)), data, db, .. }) = hook {
        let about = if kind == ffi::SQLITE_TRACE_CLOSE as c_uint {
            about
        } else {
            // SAFETY: the connection is open, and SQLite has its mutex.
            unsafe { statement_of(*db, about) }
        };
        // SAFETY: what the program has promised when it set the hook.
        unsafe { trace(kind, *data, about, more) };
    }
    0
}

/// The program's statement of one of SQLite's; that one, if it has none.
///
/// # Safety
/// The connection is open, and its mutex is held.
unsafe fn statement_of(db: *mut ffi::sqlite3, raw: *mut c_void) -> *mut c_void {
    // SAFETY: the caller has promised it.
    let Some(handle) = (unsafe { Handle::of(db) }) else { return raw };
    let open = handle.statements.borrow();
    // SAFETY: what is open is alive.
    let found = open.iter().rev().find(|it| unsafe { &***it }.raw.get().cast() == raw);
    // One that the engine has just compiled again is known by its text.
    let found = found.or_else(|| {
        // SAFETY: the statement is being executed.
        let text = unsafe { ffi::sqlite3_sql(raw.cast()) };
        // SAFETY: a zero-terminated text, or null.
        let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })?;
        // SAFETY: what is open is alive.
        open.iter().rev().find(|it| unsafe { &***it }.has_text(text))
    });
    found.map_or(raw, |it| it.cast())
}

/// SQLite calls it, with what was registered together with it.
///
/// # Safety
/// The data is the address of such a hook, which stays there during the call.
unsafe extern "C" fn trace_text(data: *mut c_void, text: *const c_char) {
    // SAFETY: SQLite gives what it was given for this function.
    let hook = unsafe { Hook::<AnyTrace>::called(data) };
    if let Some(Hook { function: AnyTrace::Trace(Some(trace)), data, .. }) = hook {
        // SAFETY: what the program has promised when it set the hook.
        unsafe { trace(*data, text) };
    }
}

/// SQLite calls it, with what was registered together with it.
///
/// # Safety
/// The data is the address of such a hook, which stays there during the call.
unsafe extern "C" fn profile_text(data: *mut c_void, text: *const c_char, nanoseconds: u64) {
    // SAFETY: SQLite gives what it was given for this function.
    let hook = unsafe { Hook::<Profile>::called(data) };
    if let Some(Hook { function: Some(profile), data, .. }) = hook {
        // SAFETY: what the program has promised when it set the hook.
        unsafe { profile(*data, text, nanoseconds) };
    }
}
