//! Functions, aggregates and collations of the application.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use super::Player;
use super::lent::transient;
use super::registration::{Registration, destroy};
use crate::action::{CollationCall, Function, FunctionCall, Reader};
use crate::call;
use crate::library::{Api, Context, Destructor, Last, Scalar, Value};
use crate::memory;

const UTF8: c_int = 1;
const UTF16: c_int = 4;

impl Player {
    pub fn function(
        &mut self,
        connection: usize,
        function: Function,
        call: FunctionCall,
        on: bool,
    ) {
        let Some(db) = self.db(connection) else { return };
        let api = self.api;
        let name = format!("{function:?}").to_lowercase();
        let data = self.register(format!("function {name}"), 0);
        let (scalar, step, last): (Scalar, Scalar, Last) = match function {
            _ if !on => (None, None, None),
            Function::Gather | Function::Moving => (None, Some(gather_step), Some(gather_last)),
            _ => (Some(scalar(function)), None, None),
        };
        let utf8 = memory::c_text(&name);
        let code = match call {
            FunctionCall::Old => {
                call!(api, create_function(db, utf8.as_ptr(), -1, UTF8, data, scalar, step, last))
            }
            FunctionCall::Utf16 => {
                let name = memory::utf16(&name);
                let name = name.as_ptr().cast();
                call!(api, create_function16(db, name, -1, UTF8, data, scalar, step, last))
            }
            FunctionCall::V2 { flags } if function == Function::Moving => {
                let (value, inverse): (Last, Scalar) =
                    if on { (Some(gather_now), Some(gather_inverse)) } else { (None, None) };
                let flags = UTF8 | flags;
                let gone: Destructor = Some(destroy);
                let name = utf8.as_ptr();
                call!(
                    api,
                    create_window_function(
                        db, name, -1, flags, data, step, last, value, inverse, gone
                    )
                )
            }
            FunctionCall::V2 { flags } => {
                let flags = UTF8 | flags;
                let gone: Destructor = Some(destroy);
                let name = utf8.as_ptr();
                call!(api, create_function_v2(db, name, -1, flags, data, scalar, step, last, gone))
            }
        };
        self.log.code("create_function", code);
    }

    pub fn collation(&mut self, connection: usize, call: CollationCall, on: bool) {
        let Some(db) = self.db(connection) else { return };
        let api = self.api;
        let data = self.register("collation".into(), 0);
        let name = c"mine".as_ptr();
        let function = on.then_some(compare as _);
        let code = match call {
            CollationCall::Old => call!(api, create_collation(db, name, UTF8, data, function)),
            CollationCall::Utf16 => {
                let name = memory::utf16("mine");
                call!(api, create_collation16(db, name.as_ptr().cast(), UTF16, data, function))
            }
            CollationCall::V2 { encoding } => {
                let code = call!(
                    api,
                    create_collation_v2(db, name, encoding, data, function, Some(destroy))
                );
                if code != 0 {
                    // Unlike create_function_v2, a failing call leaves the destructor to its caller.
                    self.log.value("create_collation_v2 failed", "no destructor");
                }
                code
            }
        };
        self.log.code("create_collation", code);
    }
}

/// Orders texts backwards: SQLite asks often, so the calls are not events.
pub extern "C" fn compare(
    _data: *mut c_void,
    left_length: c_int,
    left: *const c_void,
    right_length: c_int,
    right: *const c_void,
) -> c_int {
    let (left, right) = (memory::copied(left, left_length), memory::copied(right, right_length));
    right.cmp(left) as c_int
}

type ScalarFunction = unsafe extern "C" fn(*mut Context, c_int, *mut *mut Value);

fn scalar(function: Function) -> ScalarFunction {
    match function {
        Function::Kinds => kinds,
        Function::Fail => fail,
        Function::FailText => fail_text,
        Function::Auxiliary => auxiliary,
        Function::Reenter => reenter,
        Function::Subtype => subtype,
        Function::Forms => forms,
        _ => echo,
    }
}

/// The registration and the arguments of a call, which is logged.
fn enter(
    context: *mut Context,
    count: c_int,
    values: *mut *mut Value,
) -> (&'static Registration, Vec<*mut Value>) {
    let api = crate::library::current();
    let registration = Registration::of(call!(api, user_data(context)));
    let values: Vec<*mut Value> = (0..usize::try_from(count).unwrap_or(0))
        .map(|index| {
            let place = values.wrapping_add(index);
            // SAFETY: SQLite has said that there are so many arguments.
            unsafe { *place }
        })
        .collect();
    let texts: Vec<String> = values
        .iter()
        .map(|value| super::column::value_text(registration.api, *value, Reader::Text))
        .collect();
    registration.log.callback(&registration.label, texts.join(", "));
    (registration, values)
}

fn text_result(api: &Api, context: *mut Context, text: &str) {
    let length = c_int::try_from(text.len()).expect("texts of a round are short");
    call!(api, result_text(context, text.as_ptr().cast(), length, transient()));
}

/// Its first argument, or NULL.
extern "C" fn echo(context: *mut Context, count: c_int, values: *mut *mut Value) {
    let (registration, values) = enter(context, count, values);
    match values.first() {
        Some(value) => call!(registration.api, result_value(context, *value)),
        None => call!(registration.api, result_null(context)),
    }
}

/// All that can be asked about its arguments.
extern "C" fn kinds(context: *mut Context, count: c_int, values: *mut *mut Value) {
    let (registration, values) = enter(context, count, values);
    let api = registration.api;
    let mut text = String::new();
    for value in values {
        for reader in [Reader::Flags, Reader::NumericType, Reader::Int64, Reader::Double] {
            text += &super::column::value_text(api, value, reader);
            text.push(' ');
        }
        let pointer = call!(api, value_pointer(value, c"oracle".as_ptr()));
        text += &registration.log.slot(pointer);
    }
    text_result(api, context, &text);
}

/// Fails with the result code that its argument is.
extern "C" fn fail(context: *mut Context, count: c_int, values: *mut *mut Value) {
    let (registration, values) = enter(context, count, values);
    let api = registration.api;
    let code = values.first().map_or(1, |value| call!(api, value_int(*value)));
    match code {
        7 => call!(api, result_error_nomem(context)),
        18 => call!(api, result_error_toobig(context)),
        // ROW and DONE are no errors, and 0 is none either.
        2..=99 => call!(api, result_error_code(context, code)),
        _ => call!(api, result_error_code(context, 1)),
    }
}

extern "C" fn fail_text(context: *mut Context, count: c_int, values: *mut *mut Value) {
    let (registration, values) = enter(context, count, values);
    let api = registration.api;
    if values.len() > 1 {
        let message = memory::utf16("failed in UTF-16");
        call!(api, result_error16(context, message.as_ptr().cast(), -1));
    } else {
        call!(api, result_error(context, c"failed in UTF-8".as_ptr(), -1));
    }
    call!(api, result_error_code(context, 19));
}

/// Remembers something with its first argument while that stays constant.
extern "C" fn auxiliary(context: *mut Context, count: c_int, values: *mut *mut Value) {
    let (registration, _) = enter(context, count, values);
    let api = registration.api;
    let known = call!(api, get_auxdata(context, 0));
    if known.is_null() {
        let data = ptr::from_ref(registration).cast_mut().cast();
        call!(api, set_auxdata(context, 0, data, Some(destroy)));
    }
    text_result(api, context, if known.is_null() { "new" } else { "known" });
}

/// Executes a statement on its own connection.
extern "C" fn reenter(context: *mut Context, count: c_int, values: *mut *mut Value) {
    let (registration, _) = enter(context, count, values);
    let api = registration.api;
    let db = call!(api, context_db_handle(context));
    registration.log.value("context_db_handle", registration.log.slot(db.cast()));
    let mut table: *mut *mut c_char = ptr::null_mut();
    let (mut rows, mut columns) = (0, 0);
    let sql = c"SELECT count(*) FROM u".as_ptr();
    let code = call!(api, get_table(db, sql, &mut table, &mut rows, &mut columns, ptr::null_mut()));
    registration.log.code("get_table in a function", code);
    call!(api, free_table(table));
    call!(api, result_int(context, rows));
}

extern "C" fn subtype(context: *mut Context, count: c_int, values: *mut *mut Value) {
    let (registration, values) = enter(context, count, values);
    let api = registration.api;
    match values.first() {
        Some(value) => {
            let number = call!(api, value_subtype(*value));
            call!(api, result_int64(context, i64::from(number)));
        }
        None => call!(api, result_double(context, 0.5)),
    }
    call!(api, result_subtype(context, 77));
}

/// A result in each form that results have.
extern "C" fn forms(context: *mut Context, count: c_int, values: *mut *mut Value) {
    let (registration, values) = enter(context, count, values);
    let api = registration.api;
    let utf16 = memory::utf16("sixteen");
    let wide = utf16.as_ptr().cast();
    match values.first().map_or(0, |value| call!(api, value_int(*value))) {
        0 => call!(api, result_blob(context, c"blob".as_ptr().cast(), 4, transient())),
        1 => call!(api, result_blob64(context, c"blob64".as_ptr().cast(), 6, None)),
        2 => call!(api, result_text16(context, wide, 14, transient())),
        3 => call!(api, result_text16le(context, wide, 6, transient())),
        4 => call!(api, result_text16be(context, wide, -1, transient())),
        5 => call!(api, result_text64(context, c"text64".as_ptr(), 6, None, 1)),
        6 => call!(api, result_zeroblob(context, 3)),
        7 => {
            let code = call!(api, result_zeroblob64(context, 1 << 40));
            registration.log.code("result_zeroblob64", code);
        }
        8 => {
            let data = ptr::from_ref(registration).cast_mut().cast();
            call!(api, result_pointer(context, data, c"oracle".as_ptr(), Some(destroy)));
        }
        _ => call!(api, result_text(context, c"static".as_ptr(), -1, None)),
    }
}

/// What an aggregate has gathered, in the memory that SQLite keeps for it.
#[repr(C)]
struct Gathered {
    rows: i64,
    sum: i64,
}

fn gathered<'a>(context: *mut Context) -> Option<&'a mut Gathered> {
    let api = crate::library::current();
    let size = c_int::try_from(size_of::<Gathered>()).expect("two numbers are small");
    let memory = call!(api, aggregate_context(context, size));
    // SAFETY: SQLite gives this aggregate so many bytes, zeroed at first and aligned for 64-bit numbers.
    unsafe { memory.cast::<Gathered>().as_mut() }
}

fn gather(context: *mut Context, count: c_int, values: *mut *mut Value, sign: i64) {
    let (registration, values) = enter(context, count, values);
    let Some(gathered) = gathered(context) else { return };
    gathered.rows += sign;
    for value in values {
        let number = call!(registration.api, value_int64(value));
        gathered.sum = gathered.sum.wrapping_add(number.wrapping_mul(sign));
    }
}

extern "C" fn gather_step(context: *mut Context, count: c_int, values: *mut *mut Value) {
    gather(context, count, values, 1);
}

extern "C" fn gather_inverse(context: *mut Context, count: c_int, values: *mut *mut Value) {
    gather(context, count, values, -1);
}

extern "C" fn gather_now(context: *mut Context) {
    let text = match gathered(context) {
        Some(gathered) => format!("{} rows, {} in all", gathered.rows, gathered.sum),
        None => "nothing".into(),
    };
    text_result(crate::library::current(), context, &text);
}

extern "C" fn gather_last(context: *mut Context) {
    let (registration, _) = enter(context, 0, ptr::null_mut());
    let count = call!(registration.api, aggregate_count(context));
    registration.log.callback(&registration.label, format!("ends, {count} rows"));
    gather_now(context);
}
