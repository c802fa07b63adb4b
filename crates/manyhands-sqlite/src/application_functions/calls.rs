//! How SQLite calls the functions and collations of the application.

use core::cmp::Ordering;
use core::ffi::{c_int, c_void};
use core::marker::PhantomData;
use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libsqlite3_sys as ffi;

use super::{Aggregate, Collation, FunctionError, Scalar, WindowAggregate};
use crate::{Value, ValueRef};

type Take = unsafe extern "C" fn(*mut ffi::sqlite3_context, c_int, *mut *mut ffi::sqlite3_value);
type Ask = unsafe extern "C" fn(*mut ffi::sqlite3_context);

/// What SQLite calls for a function that is registered with a `T` as its data.
pub(super) struct Callbacks<T> {
    pub(super) scalar: Option<Take>,
    pub(super) step: Option<Take>,
    pub(super) finish: Option<Ask>,
    /// Value and inverse of a window function.
    pub(super) window: Option<(Ask, Take)>,
    data: PhantomData<T>,
}

impl<T> Default for Callbacks<T> {
    fn default() -> Callbacks<T> {
        Callbacks { scalar: None, step: None, finish: None, window: None, data: PhantomData }
    }
}

impl Callbacks<Scalar> {
    pub(super) fn scalar() -> Callbacks<Scalar> {
        Callbacks { scalar: Some(call_scalar), ..Callbacks::default() }
    }
}

impl<A: Aggregate> Callbacks<A> {
    pub(super) fn aggregate() -> Callbacks<A> {
        Callbacks {
            step: Some(call_step::<A>),
            finish: Some(call_finish::<A>),
            ..Callbacks::default()
        }
    }
}

impl<A: WindowAggregate> Callbacks<A> {
    pub(super) fn window() -> Callbacks<A> {
        let window = Some((call_value::<A> as Ask, call_inverse::<A> as Take));
        Callbacks { window, ..Callbacks::aggregate() }
    }
}

/// A call of a function whose data is a `T`, while it goes on.
struct Call<'call, T> {
    context: *mut ffi::sqlite3_context,
    data: PhantomData<&'call T>,
}

impl<'call, T> Call<'call, T> {
    /// The result lives no longer than the variable that has the context's address: the argument of the call.
    ///
    /// # Safety
    /// SQLite has passed the context to a callback of a function that was registered with a `T` as its data, and the call
    /// goes on. There is one `Call` of it at a time.
    unsafe fn of(context: &'call mut *mut ffi::sqlite3_context) -> Call<'call, T> {
        Call { context: *context, data: PhantomData }
    }

    /// What the function was registered with.
    fn registered(&self) -> &'call T {
        // SAFETY: the context of a call that goes on, as `of` demands.
        let data = unsafe { ffi::sqlite3_user_data(self.context) };
        // SAFETY: a box of a `T`, as `of` demands, which SQLite keeps while it calls the function, and nobody changes.
        unsafe { &*data.cast::<T>() }
    }

    /// Tells SQLite the result.
    fn answer(self, result: Result<Value, FunctionError>) {
        let context = self.context;
        match result {
            // SAFETY: the context of a call that goes on, as `of` demands.
            Ok(Value::Null) => unsafe { ffi::sqlite3_result_null(context) },
            // SAFETY: the context of a call that goes on, as `of` demands.
            Ok(Value::Integer(number)) => unsafe { ffi::sqlite3_result_int64(context, number) },
            // SAFETY: the context of a call that goes on, as `of` demands.
            Ok(Value::Real(number)) => unsafe { ffi::sqlite3_result_double(context, number) },
            // SAFETY: the context of a call that goes on, and bytes that SQLite copies before it returns.
            Ok(Value::Text(text)) => unsafe {
                ffi::sqlite3_result_text64(
                    context,
                    text.as_bytes().as_ptr().cast(),
                    text.as_bytes().len() as u64,
                    ffi::SQLITE_TRANSIENT(),
                    ffi::SQLITE_UTF8 as u8,
                );
            },
            // SAFETY: the context of a call that goes on, and bytes that SQLite copies before it returns.
            Ok(Value::Blob(bytes)) => unsafe {
                ffi::sqlite3_result_blob64(
                    context,
                    bytes.as_ptr().cast(),
                    bytes.len() as u64,
                    ffi::SQLITE_TRANSIENT(),
                );
            },
            Err(error) => self.fail(error),
        }
    }

    /// Makes the statement fail.
    fn fail(self, error: FunctionError) {
        let context = self.context;
        match error {
            // SAFETY: the context of a call that goes on, as `of` demands.
            FunctionError::TooBig => unsafe { ffi::sqlite3_result_error_toobig(context) },
            // SAFETY: the context of a call that goes on, as `of` demands.
            FunctionError::NoMemory => unsafe { ffi::sqlite3_result_error_nomem(context) },
            FunctionError::Message(message) => {
                let count = c_int::try_from(message.len()).unwrap_or(c_int::MAX);
                // SAFETY: the context of a call that goes on, and at least `count` bytes, which SQLite copies.
                unsafe { ffi::sqlite3_result_error(context, message.as_ptr().cast(), count) };
            }
        }
    }
}

impl<A: Aggregate> Call<'_, A> {
    /// Where SQLite keeps the state of the group: null before its first row. `None` when there is no such place and
    /// `bytes` is 0, or when memory is out.
    ///
    /// What is there is null or a box of an `A::State`: these callbacks alone write it.
    fn state(&mut self, bytes: c_int) -> Option<&mut *mut A::State> {
        // SAFETY: the context of a call of an aggregate function that goes on, since the data is an `A`.
        let place = unsafe { ffi::sqlite3_aggregate_context(self.context, bytes) };
        // SAFETY: null, or memory of SQLite's for this group, zeroed at first, aligned for any type, and nobody else's during
        // the call. All calls for a group ask for room for a pointer, or for what is there.
        unsafe { place.cast::<*mut A::State>().as_mut() }
    }
}

/// Gives a registered box back.
///
/// # Safety
/// SQLite calls it, once, with the data that was registered: `Box::into_raw` has made it of a `T`.
pub(super) unsafe extern "C" fn dispose<T>(data: *mut c_void) {
    // SAFETY: a box of this type, which nobody has any more, as the caller has promised.
    let data = unsafe { Box::from_raw(data.cast::<T>()) };
    // Whatever its destructor does, no panic reaches SQLite.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(data)));
}

/// Compares two texts.
///
/// # Safety
/// SQLite calls it, for a collation that was registered with a box of a `Collation`; the texts have so many bytes.
pub(super) unsafe extern "C" fn call_collation(
    data: *mut c_void,
    left_count: c_int,
    left: *const c_void,
    right_count: c_int,
    right: *const c_void,
) -> c_int {
    // SAFETY: a box of this type, which SQLite keeps while it calls the collation.
    let compare = unsafe { &*data.cast::<Collation>() };
    let (left, right) = (left.cast(), right.cast());
    // SAFETY: the left text, which lives during the call.
    let left = unsafe { bytes(&left, left_count) };
    // SAFETY: the right text, which lives during the call.
    let right = unsafe { bytes(&right, right_count) };
    catch_unwind(AssertUnwindSafe(|| compare(left, right))).unwrap_or(Ordering::Equal) as c_int
}

/// # Safety
/// SQLite calls it, for a function that was registered with a `Scalar`.
unsafe extern "C" fn call_scalar(
    mut context: *mut ffi::sqlite3_context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: SQLite's context for this call, and the data is a `Scalar`.
    let call = unsafe { Call::<Scalar>::of(&mut context) };
    // SAFETY: SQLite's arguments for this call.
    let arguments = unsafe { arguments(count, &values) };
    let function = call.registered();
    call.answer(guarded(|| function(&arguments)));
}

/// # Safety
/// SQLite calls it, for a function that was registered with an `A`.
unsafe extern "C" fn call_step<A: Aggregate>(
    mut context: *mut ffi::sqlite3_context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: SQLite's context for this call, and the data is an `A`.
    let call = unsafe { Call::<A>::of(&mut context) };
    // SAFETY: SQLite's arguments for this call.
    let arguments = unsafe { arguments(count, &values) };
    change(call, &arguments, A::step);
}

/// # Safety
/// SQLite calls it, for a function that was registered with an `A`.
unsafe extern "C" fn call_inverse<A: WindowAggregate>(
    mut context: *mut ffi::sqlite3_context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: SQLite's context for this call, and the data is an `A`.
    let call = unsafe { Call::<A>::of(&mut context) };
    // SAFETY: SQLite's arguments for this call.
    let arguments = unsafe { arguments(count, &values) };
    change(call, &arguments, A::inverse);
}

/// Takes a row into the state of its group, or out of it.
fn change<A: Aggregate>(
    mut call: Call<'_, A>,
    arguments: &[ValueRef<'_>],
    take: impl FnOnce(&A, &mut A::State, &[ValueRef<'_>]) -> Result<(), FunctionError>,
) {
    let aggregate = call.registered();
    let Some(state) = call.state(size_of::<*mut A::State>() as c_int) else {
        return call.fail(FunctionError::NoMemory);
    };
    let result = guarded(|| {
        if state.is_null() {
            *state = Box::into_raw(Box::new(aggregate.begin()?));
        }
        // SAFETY: a box of this type, made above or in an earlier call, and not given back yet.
        take(aggregate, unsafe { &mut **state }, arguments)
    });
    if let Err(error) = result {
        call.fail(error);
    }
}

/// # Safety
/// SQLite calls it, for a function that was registered with an `A`.
unsafe extern "C" fn call_value<A: WindowAggregate>(mut context: *mut ffi::sqlite3_context) {
    // SAFETY: SQLite's context for this call, and the data is an `A`.
    let mut call = unsafe { Call::<A>::of(&mut context) };
    let aggregate = call.registered();
    let state = call.state(0).map_or(ptr::null_mut(), |state| *state);
    // SAFETY: null, or a box of this type that was not given back yet, and nobody else has during the call.
    let state = unsafe { state.as_mut() };
    let result = guarded(|| aggregate.value(state));
    call.answer(result);
}

/// # Safety
/// SQLite calls it, for a function that was registered with an `A`.
unsafe extern "C" fn call_finish<A: Aggregate>(mut context: *mut ffi::sqlite3_context) {
    // SAFETY: SQLite's context for this call, and the data is an `A`.
    let mut call = unsafe { Call::<A>::of(&mut context) };
    let aggregate = call.registered();
    let state = match call.state(0) {
        None => None,
        Some(state) => {
            let state = core::mem::replace(state, ptr::null_mut());
            if state.is_null() {
                // It could not begin: the statement fails already.
                return;
            }
            // SAFETY: a box of this type, taken out of its place, so that it is given back once.
            Some(*unsafe { Box::from_raw(state) })
        }
    };
    call.answer(guarded(|| aggregate.finish(state)));
}

/// Runs a callback of the application.
fn guarded<T>(call: impl FnOnce() -> Result<T, FunctionError>) -> Result<T, FunctionError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err("the function panicked".into()))
}

/// The arguments of a call. They live no longer than the variable that has their address: an argument of the call.
///
/// # Safety
/// SQLite has passed `count` values to a callback, whose call goes on.
unsafe fn arguments(count: c_int, values: &*mut *mut ffi::sqlite3_value) -> Vec<ValueRef<'_>> {
    let argument = |index: usize| {
        // SAFETY: below `count`, so in the array that SQLite has passed.
        let place = unsafe { values.add(index) };
        // SAFETY: SQLite has put a value there, and changes the array only when the call is over.
        let value = unsafe { &*place };
        // SAFETY: an argument of the call, which goes on.
        unsafe { argument(value) }
    };
    (0..count.unsigned_abs() as usize).map(argument).collect()
}

/// A value, for as long as the variable stays that has its address.
///
/// # Safety
/// `value` is an argument of a function call that goes on while the result is used.
unsafe fn argument(value: &*mut ffi::sqlite3_value) -> ValueRef<'_> {
    let raw = *value;
    // SAFETY: an argument of a call that goes on.
    match unsafe { ffi::sqlite3_value_type(raw) } {
        ffi::SQLITE_INTEGER => {
            // SAFETY: an argument of a call that goes on.
            let number = unsafe { ffi::sqlite3_value_int64(raw) };
            ValueRef::Integer(number)
        }
        ffi::SQLITE_FLOAT => {
            // SAFETY: an argument of a call that goes on.
            let number = unsafe { ffi::sqlite3_value_double(raw) };
            ValueRef::Real(number)
        }
        ffi::SQLITE_TEXT => {
            // SAFETY: an argument of a call that goes on.
            let text = unsafe { ffi::sqlite3_value_text(raw) };
            // SAFETY: the address that SQLite has just given for this value.
            ValueRef::Text(unsafe { value_bytes(value, text) })
        }
        ffi::SQLITE_BLOB => {
            // SAFETY: an argument of a call that goes on.
            let blob = unsafe { ffi::sqlite3_value_blob(raw) };
            // SAFETY: the address that SQLite has just given for this value.
            ValueRef::Blob(unsafe { value_bytes(value, blob.cast()) })
        }
        _ => ValueRef::Null,
    }
}

/// The bytes of a TEXT or BLOB.
///
/// # Safety
/// `value` is an argument of a function call that goes on while the result is used, and `address` what SQLite has said
/// last of where its bytes are.
unsafe fn value_bytes(value: &*mut ffi::sqlite3_value, address: *const u8) -> &[u8] {
    // SAFETY: an argument of a call that goes on. SQLite wants to be asked for the length after the address.
    let count = unsafe { ffi::sqlite3_value_bytes(*value) };
    if address.is_null() || count <= 0 {
        return &[];
    }
    // SAFETY: SQLite says that so many bytes lie there. It moves them when the value is converted, which nobody does.
    unsafe { core::slice::from_raw_parts(address, count.unsigned_abs() as usize) }
}

/// Bytes for as long as the variable stays that has their address.
///
/// # Safety
/// The address is null, or `count` bytes lie there, which nobody changes while the result is used.
unsafe fn bytes(address: &*const u8, count: c_int) -> &[u8] {
    if address.is_null() || count <= 0 {
        return &[];
    }
    // SAFETY: not null, so so many bytes are there, as the caller has promised.
    unsafe { core::slice::from_raw_parts(*address, count.unsigned_abs() as usize) }
}
