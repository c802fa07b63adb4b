//! What SQLite asks and tells: trace, authorizer, busy handler.

use core::ptr;

use magnus::typed_data::Obj;
use magnus::value::{Opaque, ReprValue};
use magnus::{Error, Integer, Module, RClass, Ruby, Value, method};

use crate::connection::Connection;
use crate::database::Database;
use crate::ffi::{self, sqlite};
use crate::gvl;
use crate::value;

/// # Safety
/// The data is the address of a connection, which is in a call.
unsafe fn connection<'a>(data: *mut ffi::c_void) -> &'a Connection {
    // SAFETY: the caller has promised it.
    unsafe { &*data.cast::<Connection>() }
}

/// SQLite calls it for each statement that begins.
///
/// # Safety
/// What `set_trace` has given, and a zero-terminated text.
unsafe extern "C" fn trace(data: *mut ffi::c_void, sql: *const ffi::c_char) {
    // SAFETY: the caller has promised it.
    let connection = unsafe { connection(data) };
    let Some(handler) = connection.handlers.trace.get() else { return };
    gvl::with(|ruby| {
        // SAFETY: a text of SQLite's.
        let sql = unsafe { value::text(ruby, sql) };
        let called: Result<Value, Error> = ruby.get_inner(handler).funcall("call", (sql,));
        if let Err(error) = called {
            connection.signals.raise_later(error);
        }
    });
}

/// SQLite calls it for everything that a statement would do, while it is compiled.
///
/// # Safety
/// What `set_authorizer` has given, and zero-terminated texts, or null.
unsafe extern "C" fn authorize(
    data: *mut ffi::c_void,
    action: i32,
    first: *const ffi::c_char,
    second: *const ffi::c_char,
    database: *const ffi::c_char,
    trigger: *const ffi::c_char,
) -> i32 {
    // SAFETY: the caller has promised it.
    let connection = unsafe { connection(data) };
    let Some(handler) = connection.handlers.authorizer.get() else { return ffi::SQLITE_OK };
    gvl::with(|ruby| {
        // SAFETY: a text of SQLite's, or null; here and below.
        let text = |text| unsafe { value::text(ruby, text) };
        let texts = (action, text(first), text(second), text(database), text(trigger));
        match ruby.get_inner(handler).funcall::<_, _, Value>("call", texts) {
            Ok(answer) => verdict(answer),
            Err(error) => {
                connection.signals.raise_later(error);
                ffi::SQLITE_DENY
            }
        }
    })
}

/// True, false and nil, or SQLite's own numbers.
fn verdict(answer: Value) -> i32 {
    if let Some(number) = Integer::from_value(answer) {
        return number.to_i32().unwrap_or(ffi::SQLITE_IGNORE);
    }
    if is_true(answer) {
        ffi::SQLITE_OK
    } else if is_false(answer) {
        ffi::SQLITE_DENY
    } else {
        ffi::SQLITE_IGNORE
    }
}

fn is_true(value: Value) -> bool {
    value.is_kind_of(Ruby::get_with(value).class_true_class())
}

fn is_false(value: Value) -> bool {
    !value.to_bool() && !value.is_nil()
}

/// SQLite calls it while it waits: 0 to give up.
///
/// # Safety
/// What `set_busy_handler` has given.
unsafe extern "C" fn wait_on(data: *mut ffi::c_void, count: i32) -> i32 {
    // SAFETY: the caller has promised it.
    let connection = unsafe { connection(data) };
    let Some(handler) = connection.handlers.busy.get() else { return 0 };
    gvl::with(|ruby| {
        let answer: Result<Value, Error> = ruby.get_inner(handler).funcall("call", (count,));
        match answer {
            Ok(answer) => i32::from(!is_false(answer)),
            Err(error) => {
                connection.signals.raise_later(error);
                0
            }
        }
    })
}

/// The object that is to be called; nil for none.
fn chosen(handler: Value) -> Option<Opaque<Value>> {
    (!handler.is_nil()).then(|| Opaque::from(handler))
}

impl Database {
    fn set_trace(ruby: &Ruby, this: Obj<Database>, handler: Value) -> Result<Obj<Database>, Error> {
        let connection = this.connection(ruby)?;
        let entered = connection.enter(ruby)?;
        connection.handlers.trace.set(chosen(handler));
        let function = chosen(handler).map(|_| trace as _);
        let data = ptr::from_ref(&*connection).cast_mut().cast();
        sqlite!(sqlite3_trace(entered.db(ruby)?, function, data));
        drop(entered);
        Ok(this)
    }

    fn set_authorizer(ruby: &Ruby, this: &Database, handler: Value) -> Result<Value, Error> {
        let connection = this.connection(ruby)?;
        let entered = connection.enter(ruby)?;
        connection.handlers.authorizer.set(chosen(handler));
        let function = chosen(handler).map(|_| authorize as _);
        let data = ptr::from_ref(&*connection).cast_mut().cast();
        let code = sqlite!(sqlite3_set_authorizer(entered.db(ruby)?, function, data));
        entered.check(ruby, code)?;
        Ok(handler)
    }

    fn set_busy_handler(
        ruby: &Ruby,
        this: Obj<Database>,
        handler: Value,
    ) -> Result<Obj<Database>, Error> {
        let connection = this.connection(ruby)?;
        let entered = connection.enter(ruby)?;
        connection.handlers.busy.set(chosen(handler));
        let function = chosen(handler).map(|_| wait_on as _);
        let data = ptr::from_ref(&*connection).cast_mut().cast();
        let code = sqlite!(sqlite3_busy_handler(entered.db(ruby)?, function, data));
        entered.check(ruby, code)?;
        drop(entered);
        Ok(this)
    }
}

pub(crate) fn define(class: RClass) -> Result<(), Error> {
    class.define_private_method("set_trace", method!(Database::set_trace, 1))?;
    class.define_private_method("set_busy_handler", method!(Database::set_busy_handler, 1))?;
    class.define_method("authorizer=", method!(Database::set_authorizer, 1))
}
