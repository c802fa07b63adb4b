//! SQL functions, aggregates and collations in Ruby.
//!
//! What one of them raises ends the statement, and is raised by the call that executes it.

use core::hint::black_box;
use core::ptr;

use magnus::rb_sys::{AsRawValue, FromRawValue};
use magnus::typed_data::Obj;
use magnus::value::{Opaque, ReprValue};
use magnus::{Error, Module, RArray, RClass, RString, Ruby, Value, method};

use crate::connection::Connection;
use crate::database::Database;
use crate::ffi::{self, sqlite};
use crate::gvl;
use crate::value::{self, Given, Stored};

/// What SQLite keeps with a function: the object that is called, which the connection keeps alive.
struct Callee {
    /// Outlives the function: SQLite's connection goes first.
    connection: *const Connection,
    object: Opaque<Value>,
}

impl Callee {
    /// Its address, for SQLite.
    fn make(connection: &Connection, object: Value) -> *mut ffi::c_void {
        connection.keep(object);
        let connection = ptr::from_ref(connection);
        Box::into_raw(Box::new(Callee { connection, object: Opaque::from(object) })).cast()
    }

    /// # Safety
    /// The data is such an address, and SQLite has not destroyed it.
    unsafe fn called<'a>(data: *mut ffi::c_void) -> &'a Callee {
        // SAFETY: the caller has promised it.
        unsafe { &*data.cast::<Callee>() }
    }

    /// The program is called: from here on the statement does not begin again.
    fn enter(&self) {
        if gvl::is_held() {
            self.connection().signals.attempt.commit();
        }
    }

    fn connection(&self) -> &Connection {
        // SAFETY: see the field.
        unsafe { &*self.connection }
    }
}

/// SQLite calls it when it needs a function no more.
///
/// # Safety
/// The data is the address of a callee, which nobody uses afterwards.
unsafe extern "C" fn destroy(data: *mut ffi::c_void) {
    // SAFETY: `Callee::make` has made it.
    let callee = unsafe { Box::from_raw(data.cast::<Callee>()) };
    // Without the GVL the connection is being closed, and lets go of everything soon.
    if gvl::is_held() {
        callee.connection().let_go(callee.object);
    }
}

/// The arguments of a function.
///
/// # Safety
/// So many values are there.
unsafe fn arguments(
    ruby: &Ruby,
    count: i32,
    values: *mut *mut ffi::sqlite3_value,
) -> Result<RArray, Error> {
    let arguments = ruby.ary_new();
    for place in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller has promised it.
        let place = unsafe { values.add(place) };
        // SAFETY: the same.
        let value = unsafe { *place };
        arguments.push(stored(value).to_ruby(ruby))?;
    }
    Ok(arguments)
}

fn stored<'a>(value: *mut ffi::sqlite3_value) -> Stored<'a> {
    match sqlite!(sqlite3_value_type(value)) {
        ffi::SQLITE_INTEGER => Stored::Integer(sqlite!(sqlite3_value_int64(value))),
        ffi::SQLITE_FLOAT => Stored::Real(sqlite!(sqlite3_value_double(value))),
        ffi::SQLITE_TEXT => {
            let start = sqlite!(sqlite3_value_text(value));
            let count = sqlite!(sqlite3_value_bytes(value));
            // SAFETY: they stay during the call, which copies them.
            Stored::Text(unsafe { value::bytes(start, count) })
        }
        ffi::SQLITE_BLOB => {
            let start = sqlite!(sqlite3_value_blob(value));
            let count = sqlite!(sqlite3_value_bytes(value));
            // SAFETY: the same.
            Stored::Blob(unsafe { value::bytes(start.cast(), count) })
        }
        _ => Stored::Null,
    }
}

/// Calls a method with these arguments.
fn call(object: Value, name: &str, arguments: RArray) -> Result<Value, Error> {
    // SAFETY: nobody else has the array, so it stays as it is.
    let result = object.funcall(name, unsafe { arguments.as_slice() });
    black_box(arguments);
    result
}

fn give(ruby: &Ruby, context: *mut ffi::sqlite3_context, result: Value) -> Result<(), Error> {
    let Some(given) = Given::of(ruby, result)? else {
        // SAFETY: the name is copied at once.
        let text = format!("can't return {}", unsafe { result.classname() });
        return Err(Error::new(ruby.exception_runtime_error(), text));
    };
    let copied = ffi::SQLITE_TRANSIENT();
    let length = |text: &RString| i32::try_from(text.len()).unwrap_or(i32::MAX);
    match given {
        Given::Null => sqlite!(sqlite3_result_null(context)),
        Given::Integer(number) => sqlite!(sqlite3_result_int64(context, number)),
        Given::Real(number) => sqlite!(sqlite3_result_double(context, number)),
        Given::Text(text) => {
            let start = value::start(text).cast();
            sqlite!(sqlite3_result_text(context, start, length(&text), copied));
        }
        Given::Text16(text) => {
            let text: RString = text.funcall("encode", ("UTF-8",))?;
            let start = value::start(text).cast();
            sqlite!(sqlite3_result_text(context, start, length(&text), copied));
        }
        Given::Blob(bytes) => {
            let start = value::start(bytes).cast();
            sqlite!(sqlite3_result_blob(context, start, length(&bytes), copied));
        }
    }
    Ok(())
}

/// Ends the statement: its call raises what was raised here.
fn fail(connection: &Connection, context: *mut ffi::sqlite3_context, error: Error) {
    connection.signals.raise_later(error);
    let text = c"an exception in a Ruby function".as_ptr();
    sqlite!(sqlite3_result_error(context, text, -1));
}

/// SQLite calls it for a function.
///
/// # Safety
/// What SQLite gives.
unsafe extern "C" fn scalar(
    context: *mut ffi::sqlite3_context,
    count: i32,
    values: *mut *mut ffi::sqlite3_value,
) {
    let data = sqlite!(sqlite3_user_data(context));
    // SAFETY: SQLite gives what it was given for this function.
    let callee = unsafe { Callee::called(data) };
    callee.enter();
    gvl::with(|ruby| {
        // SAFETY: SQLite gives so many values.
        let called = unsafe { arguments(ruby, count, values) }
            .and_then(|arguments| call(ruby.get_inner(callee.object), "call", arguments))
            .and_then(|result| give(ruby, context, result));
        if let Err(error) = called {
            fail(callee.connection(), context, error);
        }
    });
}

/// What SQLite keeps for each group of an aggregate; zeros at first.
struct Group {
    /// The object; 0 if there is none.
    instance: rb_sys::VALUE,
    /// It has raised, and is not called any more.
    has_failed: bool,
}

impl Group {
    /// The group's object, which is made now if there is none.
    fn instance(&mut self, ruby: &Ruby, callee: &Callee) -> Result<Value, Error> {
        if self.instance == 0 {
            let made: Value = ruby.get_inner(callee.object).funcall("new", ())?;
            callee.connection().keep(made);
            self.instance = made.as_raw();
        }
        // SAFETY: the connection keeps it alive.
        Ok(unsafe { Value::from_raw(self.instance) })
    }
}

fn group<'a>(context: *mut ffi::sqlite3_context) -> Option<&'a mut Group> {
    let bytes = size_of::<Group>() as i32;
    let group: *mut Group = sqlite!(sqlite3_aggregate_context(context, bytes)).cast();
    // SAFETY: SQLite gives so many bytes, zeros at first, or null without memory; this call alone uses them.
    unsafe { group.as_mut() }
}

/// SQLite calls it for each row of a group.
///
/// # Safety
/// What SQLite gives.
unsafe extern "C" fn step(
    context: *mut ffi::sqlite3_context,
    count: i32,
    values: *mut *mut ffi::sqlite3_value,
) {
    let data = sqlite!(sqlite3_user_data(context));
    // SAFETY: SQLite gives what it was given for this function.
    let callee = unsafe { Callee::called(data) };
    let Some(group) = group(context) else {
        sqlite!(sqlite3_result_error_nomem(context));
        return;
    };
    if group.has_failed {
        return;
    }
    callee.enter();
    gvl::with(|ruby| {
        let stepped = group.instance(ruby, callee).and_then(|instance| {
            // SAFETY: SQLite gives so many values.
            let arguments = unsafe { arguments(ruby, count, values) }?;
            call(instance, "step", arguments)
        });
        if let Err(error) = stepped {
            group.has_failed = true;
            fail(callee.connection(), context, error);
        }
    });
}

/// SQLite calls it at the end of a group; also where a statement ends before its time.
///
/// # Safety
/// What SQLite gives.
unsafe extern "C" fn finish(context: *mut ffi::sqlite3_context) {
    let data = sqlite!(sqlite3_user_data(context));
    // SAFETY: SQLite gives what it was given for this function.
    let callee = unsafe { Callee::called(data) };
    let Some(group) = group(context) else { return };
    if !callee.connection().is_there() {
        // The garbage collector closes the connection: nothing of Ruby's may be called.
        return;
    }
    gvl::with(|ruby| {
        if !group.has_failed {
            let given = group
                .instance(ruby, callee)
                .and_then(|it| it.funcall::<_, _, Value>("finalize", ()))
                .and_then(|result| give(ruby, context, result));
            if let Err(error) = given {
                fail(callee.connection(), context, error);
            }
        }
        if group.instance != 0 {
            // SAFETY: the connection has kept it alive.
            let instance = unsafe { Value::from_raw(group.instance) };
            callee.connection().let_go(Opaque::from(instance));
            group.instance = 0;
        }
    });
}

/// SQLite calls it to compare two texts.
///
/// # Safety
/// What SQLite gives: texts of these lengths.
unsafe extern "C" fn compare(
    data: *mut ffi::c_void,
    left_length: i32,
    left: *const ffi::c_void,
    right_length: i32,
    right: *const ffi::c_void,
) -> i32 {
    // SAFETY: SQLite gives what it was given for this collation.
    let callee = unsafe { Callee::called(data) };
    // SAFETY: so many bytes are there during the call.
    let left = unsafe { value::bytes(left.cast(), left_length) };
    // SAFETY: the same.
    let right = unsafe { value::bytes(right.cast(), right_length) };
    callee.enter();
    gvl::with(|ruby| {
        let compared = in_default_encoding(ruby, left).and_then(|left| {
            let right = in_default_encoding(ruby, right)?;
            ruby.get_inner(callee.object).funcall::<_, _, i32>("compare", (left, right))
        });
        compared.unwrap_or_else(|error| {
            callee.connection().signals.raise_later(error);
            0
        })
    })
}

/// A text as the program wants to see it.
fn in_default_encoding(ruby: &Ruby, text: &[u8]) -> Result<Value, Error> {
    let text = ruby.enc_str_new(text, ruby.utf8_encindex());
    match ruby.enc_default_internal() {
        Some(encoding) => text.funcall("encode", (encoding,)),
        None => Ok(text.as_value()),
    }
}

impl Database {
    /// Makes a function that calls `callable` with this many arguments; -1 for any number.
    fn add_function(
        ruby: &Ruby,
        this: Obj<Database>,
        name: RString,
        arity: i32,
        flags: i32,
        callable: Value,
    ) -> Result<Obj<Database>, Error> {
        let name = value::c_text(name)?;
        let connection = this.connection(ruby)?;
        this.call_checked(ruby, |db| {
            let (name, data) = (name.as_ptr(), Callee::make(&connection, callable));
            let (function, destroy) = (Some(scalar as _), Some(destroy as _));
            sqlite!(sqlite3_create_function_v2(
                db, name, arity, flags, data, function, None, None, destroy
            ))
        })?;
        Ok(this)
    }

    /// Makes an aggregate: each group is a new object of `class`, which has `step` and `finalize`.
    fn add_aggregate(
        ruby: &Ruby,
        this: Obj<Database>,
        name: RString,
        arity: i32,
        class: Value,
    ) -> Result<Obj<Database>, Error> {
        let name = value::c_text(name)?;
        let connection = this.connection(ruby)?;
        this.call_checked(ruby, |db| {
            let (name, data) = (name.as_ptr(), Callee::make(&connection, class));
            let (step, finish, destroy) = (Some(step as _), Some(finish as _), Some(destroy as _));
            let flags = ffi::SQLITE_UTF8;
            sqlite!(sqlite3_create_function_v2(
                db, name, arity, flags, data, None, step, finish, destroy
            ))
        })?;
        Ok(this)
    }

    /// Makes a collation of an object with the method `compare`; nil takes the collation away.
    fn add_collation(
        ruby: &Ruby,
        this: Obj<Database>,
        name: RString,
        comparator: Value,
    ) -> Result<Obj<Database>, Error> {
        let name = value::c_text(name)?;
        let connection = this.connection(ruby)?;
        this.call_checked(ruby, |db| {
            let name = name.as_ptr();
            if comparator.is_nil() {
                let nothing = ptr::null_mut();
                return sqlite!(sqlite3_create_collation_v2(
                    db,
                    name,
                    ffi::SQLITE_UTF8,
                    nothing,
                    None,
                    None
                ));
            }
            let data = Callee::make(&connection, comparator);
            let (compare, destructor) = (Some(compare as _), Some(destroy as _));
            let code = sqlite!(sqlite3_create_collation_v2(
                db,
                name,
                ffi::SQLITE_UTF8,
                data,
                compare,
                destructor
            ));
            if code != ffi::SQLITE_OK {
                // SAFETY: SQLite has not taken it.
                unsafe { destroy(data) };
            }
            code
        })?;
        Ok(this)
    }
}

pub(crate) fn define(class: RClass) -> Result<(), Error> {
    class.define_private_method("add_function", method!(Database::add_function, 4))?;
    class.define_private_method("add_aggregate", method!(Database::add_aggregate, 3))?;
    class.define_private_method("add_collation", method!(Database::add_collation, 2))
}
