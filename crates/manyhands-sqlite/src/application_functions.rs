//! Functions and collations of the application, which SQLite calls while it runs a statement.
//!
//! SQLite owns what is registered, and drops it when it is replaced or removed, or with the connection.
//! A call is made under the connection's mutex, by the thread that steps the statement: a function must
//! not use its own connection, and must not wait for a lock whose holder may wait for the connection.
//! A panic becomes an error of the statement.
//!
//! The state of a group lives from its first row until SQLite has asked for its result. SQLite asks for
//! it also when the statement fails, is interrupted or dropped, so that no state remains.

use core::cmp::Ordering;
use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libsqlite3_sys as ffi;

use crate::{Connection, Error, Value, ValueRef};

/// Why a function of the application gives no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionError {
    /// The statement fails with `SQLITE_TOOBIG`: the result is larger than SQLite allows.
    TooBig,
    /// The statement fails with `SQLITE_NOMEM`.
    NoMemory,
    /// The statement fails with `SQLITE_ERROR` and this message.
    Message(String),
}

impl From<String> for FunctionError {
    fn from(message: String) -> FunctionError {
        FunctionError::Message(message)
    }
}

impl From<&str> for FunctionError {
    fn from(message: &str) -> FunctionError {
        FunctionError::Message(message.to_string())
    }
}

/// An aggregate function: it gives one value for a group of rows.
pub trait Aggregate: Send + 'static {
    /// What is kept of a group.
    type State: Send + 'static;

    /// The state of a group before its first row.
    ///
    /// # Errors
    /// The statement fails.
    fn begin(&self) -> Result<Self::State, FunctionError>;

    /// Takes a row in.
    ///
    /// # Errors
    /// The statement fails.
    fn step(
        &self,
        state: &mut Self::State,
        arguments: &[ValueRef<'_>],
    ) -> Result<(), FunctionError>;

    /// The group's value; `state` is `None` when the group has no rows. Called also when the statement
    /// has failed: then nobody gets the value.
    ///
    /// # Errors
    /// The statement fails.
    fn finish(&self, state: Option<Self::State>) -> Result<Value, FunctionError>;
}

/// An aggregate function that can be used as a window function too
/// (<https://sqlite.org/windowfunctions.html#udfwinfunc>).
pub trait WindowAggregate: Aggregate {
    /// The value of the rows that are in the window now; `state` is `None` when there was none yet.
    ///
    /// # Errors
    /// The statement fails.
    fn value(&self, state: Option<&mut Self::State>) -> Result<Value, FunctionError>;

    /// Takes a row out that leaves the window.
    ///
    /// # Errors
    /// The statement fails.
    fn inverse(
        &self,
        state: &mut Self::State,
        arguments: &[ValueRef<'_>],
    ) -> Result<(), FunctionError>;
}

type Scalar = Box<dyn Fn(&[ValueRef<'_>]) -> Result<Value, FunctionError> + Send>;
type Collation = Box<dyn Fn(&[u8], &[u8]) -> Ordering + Send>;
type Call = unsafe extern "C" fn(*mut ffi::sqlite3_context, c_int, *mut *mut ffi::sqlite3_value);
type Ask = unsafe extern "C" fn(*mut ffi::sqlite3_context);

/// What SQLite calls for a function.
#[derive(Default)]
struct Callbacks {
    scalar: Option<Call>,
    step: Option<Call>,
    finish: Option<Ask>,
    /// Value and inverse of a window function.
    window: Option<(Ask, Call)>,
}

impl Connection {
    /// Makes a scalar SQL function; it takes the place of a built-in one of the same name.
    ///
    /// `arguments` is their number, `None` for any. A deterministic function always answers the same
    /// to the same arguments.
    ///
    /// # Errors
    /// `SQLITE_BUSY` while a statement of the connection runs, `SQLITE_MISUSE` for a bad name.
    pub fn create_function(
        &self,
        name: &str,
        arguments: Option<u16>,
        deterministic: bool,
        function: impl Fn(&[ValueRef<'_>]) -> Result<Value, FunctionError> + Send + 'static,
    ) -> Result<(), Error> {
        let callbacks = Callbacks { scalar: Some(call_scalar), ..Callbacks::default() };
        let function: Scalar = Box::new(function);
        self.register(name, arguments, deterministic, Some(function), callbacks)
    }

    /// Makes an aggregate function.
    ///
    /// # Errors
    /// See [`Connection::create_function`].
    pub fn create_aggregate<A: Aggregate>(
        &self,
        name: &str,
        arguments: Option<u16>,
        aggregate: A,
    ) -> Result<(), Error> {
        let callbacks = Callbacks {
            step: Some(call_step::<A>),
            finish: Some(call_finish::<A>),
            ..Callbacks::default()
        };
        self.register(name, arguments, false, Some(aggregate), callbacks)
    }

    /// Makes a window function, which can be used as an aggregate function too.
    ///
    /// # Errors
    /// See [`Connection::create_function`].
    pub fn create_window_function<A: WindowAggregate>(
        &self,
        name: &str,
        arguments: Option<u16>,
        aggregate: A,
    ) -> Result<(), Error> {
        let callbacks = Callbacks {
            step: Some(call_step::<A>),
            finish: Some(call_finish::<A>),
            window: Some((call_value::<A>, call_inverse::<A>)),
            ..Callbacks::default()
        };
        self.register(name, arguments, false, Some(aggregate), callbacks)
    }

    /// Removes a function of any kind; a built-in one too. One that does not exist is no error.
    ///
    /// # Errors
    /// See [`Connection::create_function`].
    pub fn remove_function(&self, name: &str, arguments: Option<u16>) -> Result<(), Error> {
        self.register::<()>(name, arguments, false, None, Callbacks::default())
    }

    fn register<T: Send + 'static>(
        &self,
        name: &str,
        arguments: Option<u16>,
        deterministic: bool,
        data: Option<T>,
        callbacks: Callbacks,
    ) -> Result<(), Error> {
        let name = CString::new(name)
            .map_err(|_| Error::misuse("a function's name cannot contain a zero byte"))?;
        let arguments = arguments.map_or(-1, c_int::from);
        let flags = ffi::SQLITE_UTF8 | if deterministic { ffi::SQLITE_DETERMINISTIC } else { 0 };
        let data: *mut c_void =
            data.map_or(ptr::null_mut(), |it| Box::into_raw(Box::new(it)).cast());
        let dispose: Option<unsafe extern "C" fn(*mut c_void)> =
            (!data.is_null()).then_some(dispose::<T> as _);
        let code = match callbacks.window {
            // SAFETY: SQLite owns the box from here on, and gives it to `dispose` also if this fails.
            Some((value, inverse)) => unsafe {
                ffi::sqlite3_create_window_function(
                    self.raw(),
                    name.as_ptr(),
                    arguments,
                    flags,
                    data,
                    callbacks.step,
                    callbacks.finish,
                    Some(value),
                    Some(inverse),
                    dispose,
                )
            },
            // SAFETY: as above.
            None => unsafe {
                ffi::sqlite3_create_function_v2(
                    self.raw(),
                    name.as_ptr(),
                    arguments,
                    flags,
                    data,
                    callbacks.scalar,
                    callbacks.step,
                    callbacks.finish,
                    dispose,
                )
            },
        };
        self.check(code)
    }

    /// Makes a collation: an order of texts, which come as UTF-8.
    ///
    /// # Errors
    /// `SQLITE_BUSY` while a statement of the connection runs and the collation exists already.
    pub fn create_collation(
        &self,
        name: &str,
        compare: impl Fn(&[u8], &[u8]) -> Ordering + Send + 'static,
    ) -> Result<(), Error> {
        self.register_collation(name, Some(Box::new(Box::new(compare))))
    }

    /// Removes a collation. One that does not exist is no error.
    ///
    /// # Errors
    /// See [`Connection::create_collation`].
    pub fn remove_collation(&self, name: &str) -> Result<(), Error> {
        self.register_collation(name, None)
    }

    fn register_collation(
        &self,
        name: &str,
        collation: Option<Box<Collation>>,
    ) -> Result<(), Error> {
        let name = CString::new(name)
            .map_err(|_| Error::misuse("a collation's name cannot contain a zero byte"))?;
        let compare: Option<unsafe extern "C" fn(_, _, _, _, _) -> _> =
            collation.is_some().then_some(call_collation as _);
        let data: *mut Collation = collation.map_or(ptr::null_mut(), Box::into_raw);
        // SAFETY: if this succeeds SQLite owns the box, and gives it to `dispose`.
        let code = unsafe {
            ffi::sqlite3_create_collation_v2(
                self.raw(),
                name.as_ptr(),
                ffi::SQLITE_UTF8,
                data.cast(),
                compare,
                (!data.is_null()).then_some(dispose::<Collation> as _),
            )
        };
        let result = self.check(code);
        if result.is_err() && !data.is_null() {
            // SAFETY: SQLite says that it does not take the box when this function fails.
            drop(unsafe { Box::from_raw(data) });
        }
        result
    }
}

unsafe extern "C" fn dispose<T>(data: *mut c_void) {
    // SAFETY: made by Box::into_raw for this type when it was registered; SQLite calls this once.
    let data = unsafe { Box::from_raw(data.cast::<T>()) };
    // Whatever its destructor does, no panic reaches SQLite.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(data)));
}

unsafe extern "C" fn call_collation(
    data: *mut c_void,
    left_count: c_int,
    left: *const c_void,
    right_count: c_int,
    right: *const c_void,
) -> c_int {
    // SAFETY: registered together with a closure of this type.
    let compare = unsafe { &*data.cast::<Collation>() };
    // SAFETY: SQLite passes two texts, which live during the call.
    let left = unsafe { bytes(left.cast(), left_count) };
    // SAFETY: as above.
    let right = unsafe { bytes(right.cast(), right_count) };
    catch_unwind(AssertUnwindSafe(|| compare(left, right))).unwrap_or(Ordering::Equal) as c_int
}

unsafe extern "C" fn call_scalar(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: registered together with a closure of this type.
    let function = unsafe { registered::<Scalar>(context) };
    // SAFETY: the arguments of this call.
    let arguments = unsafe { arguments(count, values) };
    let result = guarded(|| function(&arguments));
    // SAFETY: the context of this call.
    unsafe { answer(context, result) };
}

unsafe extern "C" fn call_step<A: Aggregate>(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: SQLite passes the context and the arguments of this call.
    unsafe { change::<A>(context, count, values, A::step) };
}

unsafe extern "C" fn call_inverse<A: WindowAggregate>(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: SQLite passes the context and the arguments of this call.
    unsafe { change::<A>(context, count, values, A::inverse) };
}

/// Takes a row into the state of its group, or out of it.
///
/// # Safety
/// Context and values are those of a call of an aggregate function that was registered as an `A`.
unsafe fn change<A: Aggregate>(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
    take: impl FnOnce(&A, &mut A::State, &[ValueRef<'_>]) -> Result<(), FunctionError>,
) {
    // SAFETY: says the caller.
    let aggregate = unsafe { registered::<A>(context) };
    // SAFETY: says the caller.
    let arguments = unsafe { arguments(count, values) };
    // SAFETY: says the caller.
    let Some(mut cell) = (unsafe { state_cell::<A>(context, size_of::<*mut A::State>() as c_int) })
    else {
        // SAFETY: says the caller.
        return unsafe { ffi::sqlite3_result_error_nomem(context) };
    };
    // SAFETY: SQLite's memory for this group, which nobody else uses during the call.
    let cell = unsafe { cell.as_mut() };
    let result = guarded(|| {
        if cell.is_null() {
            *cell = Box::into_raw(Box::new(aggregate.begin()?));
        }
        // SAFETY: not null, so made above, and not given back yet.
        take(aggregate, unsafe { &mut **cell }, &arguments)
    });
    if let Err(error) = result {
        // SAFETY: says the caller.
        unsafe { fail(context, error) };
    }
}

unsafe extern "C" fn call_value<A: WindowAggregate>(context: *mut ffi::sqlite3_context) {
    // SAFETY: registered together with data of this type.
    let aggregate = unsafe { registered::<A>(context) };
    // SAFETY: the context of this call.
    let cell = unsafe { state_cell::<A>(context, 0) };
    // SAFETY: SQLite's memory for this group, which nobody else uses during the call.
    let state = cell.map_or(ptr::null_mut(), |cell| unsafe { cell.read() });
    // SAFETY: null, or made by Box::into_raw and not given back yet.
    let state = unsafe { state.as_mut() };
    let result = guarded(|| aggregate.value(state));
    // SAFETY: the context of this call.
    unsafe { answer(context, result) };
}

unsafe extern "C" fn call_finish<A: Aggregate>(context: *mut ffi::sqlite3_context) {
    // SAFETY: registered together with data of this type.
    let aggregate = unsafe { registered::<A>(context) };
    // SAFETY: the context of this call.
    let cell = unsafe { state_cell::<A>(context, 0) };
    let state = match cell {
        None => None,
        Some(cell) => {
            // SAFETY: SQLite's memory for this group, which nobody else uses during the call.
            let state = unsafe { cell.replace(ptr::null_mut()) };
            if state.is_null() {
                // It could not begin: the statement fails already.
                return;
            }
            // SAFETY: made by Box::into_raw, and taken out of the cell, so that it is given back once.
            Some(*unsafe { Box::from_raw(state) })
        }
    };
    let result = guarded(|| aggregate.finish(state));
    // SAFETY: the context of this call.
    unsafe { answer(context, result) };
}

/// Runs a callback of the application.
fn guarded<T>(call: impl FnOnce() -> Result<T, FunctionError>) -> Result<T, FunctionError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err("the function panicked".into()))
}

/// What a function was registered with.
///
/// # Safety
/// `context` belongs to a call of a function that was registered with a `T`.
unsafe fn registered<'a, T>(context: *mut ffi::sqlite3_context) -> &'a T {
    // SAFETY: says the caller.
    let data = unsafe { ffi::sqlite3_user_data(context) };
    // SAFETY: says the caller. SQLite keeps the function while it is called.
    unsafe { &*data.cast::<T>() }
}

/// Where SQLite keeps the pointer to the state of the group: zero at first. `None` when there is no
/// such place and `count` is 0, or when memory is out.
///
/// # Safety
/// `context` belongs to a call of an aggregate function; all calls for a group name the same type.
unsafe fn state_cell<A: Aggregate>(
    context: *mut ffi::sqlite3_context,
    count: c_int,
) -> Option<NonNull<*mut A::State>> {
    // SAFETY: says the caller. The memory is aligned for any type.
    NonNull::new(unsafe { ffi::sqlite3_aggregate_context(context, count) }.cast())
}

/// # Safety
/// SQLite passes `count` values, which live during the call.
unsafe fn arguments<'a>(count: c_int, values: *mut *mut ffi::sqlite3_value) -> Vec<ValueRef<'a>> {
    (0..count.unsigned_abs() as usize)
        .map(|index| {
            // SAFETY: says the caller.
            let place = unsafe { values.add(index) };
            // SAFETY: as above.
            let value = unsafe { *place };
            // SAFETY: a value of this call.
            unsafe { argument(value) }
        })
        .collect()
}

/// # Safety
/// `address` is null, or `count` bytes lie there as long as the result is used.
unsafe fn bytes<'a>(address: *const u8, count: c_int) -> &'a [u8] {
    if address.is_null() || count <= 0 {
        return &[];
    }
    // SAFETY: says the caller.
    unsafe { core::slice::from_raw_parts(address, count.unsigned_abs() as usize) }
}

/// # Safety
/// `value` is an argument of a function call that is going on.
unsafe fn argument<'a>(value: *mut ffi::sqlite3_value) -> ValueRef<'a> {
    let sized = |address: *const u8| -> &'a [u8] {
        // SAFETY: says the caller; asked after the address, as SQLite wants it.
        let count = unsafe { ffi::sqlite3_value_bytes(value) };
        // SAFETY: SQLite says that so many bytes lie there, during the call.
        unsafe { bytes(address, count) }
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
            ValueRef::Text(sized(text))
        }
        ffi::SQLITE_BLOB => {
            // SAFETY: says the caller.
            let blob = unsafe { ffi::sqlite3_value_blob(value) };
            ValueRef::Blob(sized(blob.cast()))
        }
        _ => ValueRef::Null,
    }
}

/// # Safety
/// `context` belongs to a function call that is going on.
unsafe fn answer(context: *mut ffi::sqlite3_context, result: Result<Value, FunctionError>) {
    match result {
        // SAFETY: says the caller.
        Ok(Value::Null) => unsafe { ffi::sqlite3_result_null(context) },
        // SAFETY: says the caller.
        Ok(Value::Integer(number)) => unsafe { ffi::sqlite3_result_int64(context, number) },
        // SAFETY: says the caller.
        Ok(Value::Real(number)) => unsafe { ffi::sqlite3_result_double(context, number) },
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
        // SAFETY: says the caller.
        Err(error) => unsafe { fail(context, error) },
    }
}

/// # Safety
/// `context` belongs to a function call that is going on.
unsafe fn fail(context: *mut ffi::sqlite3_context, error: FunctionError) {
    match error {
        // SAFETY: says the caller.
        FunctionError::TooBig => unsafe { ffi::sqlite3_result_error_toobig(context) },
        // SAFETY: says the caller.
        FunctionError::NoMemory => unsafe { ffi::sqlite3_result_error_nomem(context) },
        FunctionError::Message(message) => {
            let count = c_int::try_from(message.len()).unwrap_or(c_int::MAX);
            // SAFETY: says the caller; SQLite copies `count` bytes.
            unsafe { ffi::sqlite3_result_error(context, message.as_ptr().cast(), count) };
        }
    }
}
