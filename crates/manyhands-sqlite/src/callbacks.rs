//! Closures that SQLite calls back: where they live, and how a panic in one is kept from SQLite.
//!
//! Every closure is boxed twice, so that SQLite can hold a thin pointer, and belongs to the
//! connection's handle. It is freed only after SQLite has been given another one.

use core::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use libsqlite3_sys as ffi;

use crate::Connection;
use crate::authorizer::{self, Action, Verdict};
use crate::value::{Value, ValueRef};
use crate::vfs::CommitObserver;

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
pub(crate) type WalHook = Box<dyn Fn(u32) + Send>;

/// The closures that a connection's handle keeps alive.
#[derive(Default)]
pub(crate) struct Callbacks {
    pub(crate) authorizer: Option<Box<Authorizer>>,
    pub(crate) progress: Option<Box<ProgressHandler>>,
    pub(crate) busy: Option<Box<BusyHandler>>,
    pub(crate) wal: Option<Box<WalHook>>,
    pub(crate) observer: Option<Box<Arc<dyn CommitObserver>>>,
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

    /// Sets or unsets a closure that is told after each commit how many frames the WAL has. It takes
    /// the place of SQLite's automatic checkpoint.
    pub fn set_wal_hook(&self, hook: Option<impl Fn(u32) + Send + 'static>) {
        let hook = hook.map(|it| Box::new(Box::new(it) as WalHook));
        let data = pointer(&hook);
        let callback = hook.is_some().then_some(wal as _);
        // SAFETY: the closure lives in the handle until it is replaced here.
        unsafe { ffi::sqlite3_wal_hook(self.raw(), callback, data) };
        self.callbacks().wal = hook;
    }
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

/// # Safety
/// `pointer` came from the function of this name for a closure of type `T` that is alive.
unsafe fn closure<'a, T>(pointer: *mut c_void) -> &'a T {
    // SAFETY: says the caller.
    unsafe { &*pointer.cast::<T>() }
}

pub(crate) unsafe extern "C" fn authorize(
    data: *mut c_void,
    code: c_int,
    first: *const c_char,
    second: *const c_char,
    database: *const c_char,
    trigger: *const c_char,
) -> c_int {
    // SAFETY: registered together with a closure of this type.
    let closure = unsafe { closure::<Authorizer>(data) };
    // SAFETY: SQLite's texts live during the call.
    let action = unsafe { authorizer::action(code, [first, second, database, trigger]) };
    let verdict = catch_unwind(AssertUnwindSafe(|| closure(&action)));
    verdict.unwrap_or(Verdict::Deny).to_code()
}

pub(crate) unsafe extern "C" fn progress(data: *mut c_void) -> c_int {
    // SAFETY: registered together with a closure of this type.
    let closure = unsafe { closure::<ProgressHandler>(data) };
    let answer = catch_unwind(AssertUnwindSafe(closure)).unwrap_or(Progress::Stop);
    c_int::from(answer == Progress::Stop)
}

pub(crate) unsafe extern "C" fn busy(data: *mut c_void, tries: c_int) -> c_int {
    // SAFETY: registered together with a closure of this type.
    let closure = unsafe { closure::<BusyHandler>(data) };
    let tries = tries.unsigned_abs();
    let answer = catch_unwind(AssertUnwindSafe(|| closure(tries))).unwrap_or(Progress::Stop);
    c_int::from(answer == Progress::Continue)
}

pub(crate) unsafe extern "C" fn wal(
    data: *mut c_void,
    _handle: *mut ffi::sqlite3,
    _database: *const c_char,
    frames: c_int,
) -> c_int {
    // SAFETY: registered together with a closure of this type.
    let closure = unsafe { closure::<WalHook>(data) };
    let _ = catch_unwind(AssertUnwindSafe(|| closure(frames.unsigned_abs())));
    ffi::SQLITE_OK
}

/// An SQL function: its value, or its error message.
pub(crate) type Scalar = Box<dyn Fn(&[ValueRef<'_>]) -> Result<Value, String> + Send>;

pub(crate) unsafe extern "C" fn call_scalar(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: SQLite passes the context of this call.
    let data = unsafe { ffi::sqlite3_user_data(context) };
    // SAFETY: registered together with a closure of this type.
    let closure = unsafe { closure::<Scalar>(data) };
    let arguments: Vec<ValueRef<'_>> = (0..count.unsigned_abs() as usize)
        .map(|index| {
            // SAFETY: SQLite passes `count` values.
            let place = unsafe { values.add(index) };
            // SAFETY: as above.
            let value = unsafe { *place };
            // SAFETY: a value of this call.
            unsafe { argument(value) }
        })
        .collect();
    let result = catch_unwind(AssertUnwindSafe(|| closure(&arguments)))
        .unwrap_or_else(|_| Err("the function panicked".to_string()));
    // SAFETY: the context of this call.
    unsafe { answer(context, &result) };
}

/// # Safety
/// `value` is an argument of a function call that is going on.
unsafe fn argument<'a>(value: *mut ffi::sqlite3_value) -> ValueRef<'a> {
    let bytes = |address: *const u8| -> &'a [u8] {
        // SAFETY: says the caller.
        let count = unsafe { ffi::sqlite3_value_bytes(value) };
        if address.is_null() || count <= 0 {
            return &[];
        }
        // SAFETY: SQLite says that so many bytes lie there, during the call.
        unsafe { core::slice::from_raw_parts(address, count.unsigned_abs() as usize) }
    };
    // SAFETY: says the caller.
    match unsafe { ffi::sqlite3_value_type(value) } {
        ffi::SQLITE_INTEGER => {
            // SAFETY: says the caller.
            let number = unsafe { ffi::sqlite3_value_int64(value) };
            ValueRef::Integer(number)
        }
        ffi::SQLITE_FLOAT => {
            // SAFETY: says the caller.
            let number = unsafe { ffi::sqlite3_value_double(value) };
            ValueRef::Real(number)
        }
        ffi::SQLITE_TEXT => {
            // SAFETY: says the caller.
            let text = unsafe { ffi::sqlite3_value_text(value) };
            ValueRef::Text(bytes(text))
        }
        ffi::SQLITE_BLOB => {
            // SAFETY: says the caller.
            let blob = unsafe { ffi::sqlite3_value_blob(value) };
            ValueRef::Blob(bytes(blob.cast()))
        }
        _ => ValueRef::Null,
    }
}

/// # Safety
/// `context` belongs to a function call that is going on.
unsafe fn answer(context: *mut ffi::sqlite3_context, result: &Result<Value, String>) {
    match result {
        // SAFETY: says the caller.
        Ok(Value::Null) => unsafe { ffi::sqlite3_result_null(context) },
        // SAFETY: says the caller.
        Ok(Value::Integer(number)) => unsafe { ffi::sqlite3_result_int64(context, *number) },
        // SAFETY: says the caller.
        Ok(Value::Real(number)) => unsafe { ffi::sqlite3_result_double(context, *number) },
        // SAFETY: says the caller; SQLite copies the bytes.
        Ok(Value::Text(text)) => unsafe {
            ffi::sqlite3_result_text64(
                context,
                text.as_bytes().as_ptr().cast(),
                text.as_bytes().len() as u64,
                ffi::SQLITE_TRANSIENT(),
                ffi::SQLITE_UTF8 as u8,
            );
        },
        // SAFETY: says the caller; SQLite copies the bytes.
        Ok(Value::Blob(bytes)) => unsafe {
            ffi::sqlite3_result_blob64(
                context,
                bytes.as_ptr().cast(),
                bytes.len() as u64,
                ffi::SQLITE_TRANSIENT(),
            );
        },
        Err(message) => {
            let count = c_int::try_from(message.len()).unwrap_or(c_int::MAX);
            // SAFETY: says the caller; SQLite copies `count` bytes.
            unsafe { ffi::sqlite3_result_error(context, message.as_ptr().cast(), count) };
        }
    }
}

pub(crate) unsafe extern "C" fn drop_scalar(data: *mut c_void) {
    // SAFETY: made by Box::into_raw when the function was registered; SQLite calls this once.
    drop(unsafe { Box::from_raw(data.cast::<Scalar>()) });
}
