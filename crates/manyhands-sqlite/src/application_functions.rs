//! Functions and collations of the application, which SQLite calls while it runs a statement.
//!
//! SQLite owns what is registered, and drops it when it is replaced or removed, or with the connection.
//! A call is made under the connection's mutex, by the thread that steps the statement: a function must
//! not use its own connection, and must not wait for a lock whose holder may wait for the connection.
//! A panic becomes an error of the statement.
//!
//! The state of a group lives from its first row until SQLite has asked for its result. SQLite asks for
//! it also when the statement fails, is interrupted or dropped, so that no state remains.

mod calls;

use core::cmp::Ordering;
use core::ffi::{c_int, c_void};
use core::ptr;
use std::ffi::CString;

use libsqlite3_sys as ffi;

use self::calls::{Callbacks, call_collation, dispose};
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
        let function: Scalar = Box::new(function);
        self.register(name, arguments, deterministic, Some((function, Callbacks::scalar())))
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
        self.register(name, arguments, false, Some((aggregate, Callbacks::aggregate())))
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
        self.register(name, arguments, false, Some((aggregate, Callbacks::window())))
    }

    /// Removes a function of any kind; a built-in one too. One that does not exist is no error.
    ///
    /// # Errors
    /// See [`Connection::create_function`].
    pub fn remove_function(&self, name: &str, arguments: Option<u16>) -> Result<(), Error> {
        self.register::<()>(name, arguments, false, None)
    }

    fn register<T: Send + 'static>(
        &self,
        name: &str,
        arguments: Option<u16>,
        deterministic: bool,
        function: Option<(T, Callbacks<T>)>,
    ) -> Result<(), Error> {
        let name = CString::new(name)
            .map_err(|_| Error::misuse("a function's name cannot contain a zero byte"))?;
        let arguments = arguments.map_or(-1, c_int::from);
        let flags = ffi::SQLITE_UTF8 | if deterministic { ffi::SQLITE_DETERMINISTIC } else { 0 };
        let (data, callbacks) = function.map_or((ptr::null_mut(), None), |(data, callbacks)| {
            (Box::into_raw(Box::new(data)).cast::<c_void>(), Some(callbacks))
        });
        let dispose: Option<unsafe extern "C" fn(*mut c_void)> =
            callbacks.is_some().then_some(dispose::<T> as _);
        let callbacks = callbacks.unwrap_or_default();
        let code = match callbacks.window {
            // SAFETY: an open connection and a zero-terminated name. The callbacks are for functions whose data is a `T`. SQLite
            // owns the box from here on, and gives it to `dispose` also if this fails.
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
            // SAFETY: an open connection and a zero-terminated name. The callbacks are for functions whose data is a `T`, or there
            // are none. SQLite owns the box from here on, and gives it to `dispose` also if this fails.
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
        // SAFETY: an open connection and a zero-terminated name. `call_collation` is for data of this type. If this succeeds
        // SQLite owns the box, and gives it to `dispose`.
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
