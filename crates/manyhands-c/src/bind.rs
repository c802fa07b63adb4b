//! Values for a statement's parameters.
//!
//! SQLite's own statement gets each value at once, with SQLite's own checks. A copy is kept for whoever executes the statement
//! elsewhere, or again: SQLite cannot give bound values back. What the program asks SQLite to copy is copied once: SQLite is given ours.

use core::ffi::{c_char, c_int, c_uchar, c_void};
use std::slice;

use manyhands::{Text, Value};

use crate::execute::{text_of_units, text_of_utf16, units16};
use crate::ffi::{self, Destructor};
use crate::statement::{Statement, UTF8};

/// `SQLITE_TRANSIENT` as SQLite's header has it: minus one.
const TRANSIENT: usize = usize::MAX;

c_api! {
    /// Binds NULL.
    fn sqlite3_bind_null(statement: *mut ffi::sqlite3_stmt, index: c_int) -> c_int {
        // SAFETY: what the caller has promised of its statement.
        let bound = |raw| unsafe { ffi::sqlite3_bind_null(raw, index) };
        // SAFETY: the caller has promised null or an open statement.
        unsafe { bind(statement, index, Value::Null, bound) }
    }

    /// Binds an integer.
    fn sqlite3_bind_int(statement: *mut ffi::sqlite3_stmt, index: c_int, value: c_int) -> c_int {
        let kept = Value::Integer(value.into());
        // SAFETY: what the caller has promised of its statement.
        let bound = |raw| unsafe { ffi::sqlite3_bind_int(raw, index, value) };
        // SAFETY: the caller has promised null or an open statement.
        unsafe { bind(statement, index, kept, bound) }
    }

    /// Binds an integer.
    fn sqlite3_bind_int64(statement: *mut ffi::sqlite3_stmt, index: c_int, value: i64) -> c_int {
        let kept = Value::Integer(value);
        // SAFETY: what the caller has promised of its statement.
        let bound = |raw| unsafe { ffi::sqlite3_bind_int64(raw, index, value) };
        // SAFETY: the caller has promised null or an open statement.
        unsafe { bind(statement, index, kept, bound) }
    }

    /// Binds a floating-point number; one that is none is NULL.
    fn sqlite3_bind_double(statement: *mut ffi::sqlite3_stmt, index: c_int, value: f64) -> c_int {
        let kept = if value.is_nan() { Value::Null } else { Value::Real(value) };
        // SAFETY: what the caller has promised of its statement.
        let bound = |raw| unsafe { ffi::sqlite3_bind_double(raw, index, value) };
        // SAFETY: the caller has promised null or an open statement.
        unsafe { bind(statement, index, kept, bound) }
    }

    /// Binds a text of so many bytes, or a zero-terminated one.
    fn sqlite3_bind_text(
        statement: *mut ffi::sqlite3_stmt,
        index: c_int,
        text: *const c_char,
        bytes: c_int,
        destructor: Destructor,
    ) -> c_int {
        let length = match u64::try_from(bytes) {
            Ok(bytes) => bytes,
            Err(_) if text.is_null() => 0,
            // SAFETY: the caller has promised a zero-terminated text.
            Err(_) => unsafe { libc::strlen(text) as u64 },
        };
        // SAFETY: the caller has promised the same of the same arguments.
        unsafe { sqlite3_bind_text64(statement, index, text, length, destructor, UTF8) }
    }

    /// Binds a text in UTF-16 of so many bytes, or a zero-terminated one.
    fn sqlite3_bind_text16(
        statement: *mut ffi::sqlite3_stmt,
        index: c_int,
        text: *const c_void,
        bytes: c_int,
        destructor: Destructor,
    ) -> c_int {
        let kept = if text.is_null() {
            Value::Null
        } else {
            // SAFETY: the caller has promised a text of this length, or a zero-terminated one.
            Value::Text(text_of_utf16(&unsafe { units16(text, bytes) }))
        };
        let given = Given { pointer: text, destructor };
        // SAFETY: what the caller has promised.
        let bound = |raw| unsafe { ffi::sqlite3_bind_text16(raw, index, text, bytes, destructor) };
        // SAFETY: the caller has promised null or an open statement.
        unsafe { given.bind(statement, index, kept, bound) }
    }

    /// Binds a text of so many bytes in this encoding.
    fn sqlite3_bind_text64(
        statement: *mut ffi::sqlite3_stmt,
        index: c_int,
        text: *const c_char,
        bytes: u64,
        destructor: Destructor,
        encoding: c_uchar,
    ) -> c_int {
        let given = Given { pointer: text.cast(), destructor };
        // SAFETY: the caller has promised so many bytes there.
        let kept = match unsafe { given.bytes(bytes) } {
            None => Value::Null,
            Some(kept) if is_utf8(encoding) => Value::Text(Text::from_bytes(kept)),
            Some(kept) => Value::Text(text_of_units(kept, encoding)),
        };
        if is_utf8(encoding) && given.is_transient() {
            // SAFETY: the caller has promised null or an open statement.
            return unsafe { bind_ours(statement, index, kept) };
        }
        let bind = |raw, destructor| {
            // SAFETY: the caller has promised what SQLite demands.
            unsafe { ffi::sqlite3_bind_text64(raw, index, text, bytes, destructor, encoding) }
        };
        if is_utf8(encoding) {
            // SAFETY: the caller has promised null or an open statement.
            return unsafe { given.bind_and_keep(statement, index, kept, bind) };
        }
        // SAFETY: the caller has promised null or an open statement.
        unsafe { given.bind(statement, index, kept, |raw| bind(raw, destructor)) }
    }

    /// Binds a BLOB of so many bytes.
    fn sqlite3_bind_blob(
        statement: *mut ffi::sqlite3_stmt,
        index: c_int,
        blob: *const c_void,
        bytes: c_int,
        destructor: Destructor,
    ) -> c_int {
        let Ok(length) = u64::try_from(bytes) else {
            let given = Given { pointer: blob, destructor };
            // SAFETY: what the caller has promised; SQLite refuses this length.
            let bound = |raw| unsafe { ffi::sqlite3_bind_blob(raw, index, blob, bytes, destructor) };
            // SAFETY: the caller has promised null or an open statement.
            return unsafe { given.bind(statement, index, Value::Null, bound) };
        };
        // SAFETY: the caller has promised the same of the same arguments.
        unsafe { sqlite3_bind_blob64(statement, index, blob, length, destructor) }
    }

    /// Binds a BLOB of so many bytes.
    fn sqlite3_bind_blob64(
        statement: *mut ffi::sqlite3_stmt,
        index: c_int,
        blob: *const c_void,
        bytes: u64,
        destructor: Destructor,
    ) -> c_int {
        let given = Given { pointer: blob, destructor };
        // SAFETY: the caller has promised so many bytes there.
        let kept = unsafe { given.bytes(bytes) }.map_or(Value::Null, |it| Value::Blob(it.to_vec()));
        if given.is_transient() {
            // SAFETY: the caller has promised null or an open statement.
            return unsafe { bind_ours(statement, index, kept) };
        }
        let bind = |raw, destructor| {
            // SAFETY: the caller has promised what SQLite demands.
            unsafe { ffi::sqlite3_bind_blob64(raw, index, blob, bytes, destructor) }
        };
        // SAFETY: the caller has promised null or an open statement.
        unsafe { given.bind_and_keep(statement, index, kept, bind) }
    }

    /// Binds a BLOB of so many zeros.
    fn sqlite3_bind_zeroblob(statement: *mut ffi::sqlite3_stmt, index: c_int, bytes: c_int) -> c_int {
        let kept = Value::Blob(vec![0; usize::try_from(bytes).unwrap_or(0)]);
        // SAFETY: what the caller has promised of its statement.
        let bound = |raw| unsafe { ffi::sqlite3_bind_zeroblob(raw, index, bytes) };
        // SAFETY: the caller has promised null or an open statement.
        unsafe { bind(statement, index, kept, bound) }
    }

    /// Binds a BLOB of so many zeros.
    fn sqlite3_bind_zeroblob64(statement: *mut ffi::sqlite3_stmt, index: c_int, bytes: u64) -> c_int {
        // SAFETY: the caller has promised null or an open statement.
        let Some(ours) = (unsafe { Statement::of(statement) }) else {
            // SAFETY: SQLite's own statement, or null.
            return unsafe { ffi::sqlite3_bind_zeroblob64(statement, index, bytes) };
        };
        let Some(length) = usize::try_from(bytes).ok().filter(|it| i32::try_from(*it).is_ok()) else {
            // SQLite refuses what is longer than a BLOB can be, before anything else.
            // SAFETY: the statement is open.
            return unsafe { ffi::sqlite3_bind_zeroblob64(ours.raw.get(), index, bytes) };
        };
        let kept = Value::Blob(vec![0; length]);
        // SAFETY: what the caller has promised of its statement.
        let bound = |raw| unsafe { ffi::sqlite3_bind_zeroblob64(raw, index, bytes) };
        // SAFETY: the caller has promised null or an open statement.
        unsafe { bind(statement, index, kept, bound) }
    }

    /// Binds a value that SQLite has given.
    fn sqlite3_bind_value(
        statement: *mut ffi::sqlite3_stmt,
        index: c_int,
        value: *const ffi::sqlite3_value,
    ) -> c_int {
        // SAFETY: the caller has promised a value.
        let kept = unsafe { copy(value.cast_mut()) };
        // SAFETY: what the caller has promised of its statement.
        let bound = |raw| unsafe { ffi::sqlite3_bind_value(raw, index, value) };
        // SAFETY: the caller has promised null or an open statement.
        unsafe { bind(statement, index, kept, bound) }
    }

    /// Binds a pointer, which is NULL to SQL and something else to who knows its type.
    fn sqlite3_bind_pointer(
        statement: *mut ffi::sqlite3_stmt,
        index: c_int,
        pointer: *mut c_void,
        kind: *const c_char,
        destructor: Destructor,
    ) -> c_int {
        let given = Given { pointer, destructor };
        let bound = |raw, destructor| {
            // SAFETY: what the caller has promised.
            unsafe { ffi::sqlite3_bind_pointer(raw, index, pointer, kind, destructor) }
        };
        // SAFETY: the caller has promised null or an open statement.
        let code = unsafe { given.bind_and_keep(statement, index, Value::Null, bound) };
        // SAFETY: the caller has promised null or an open statement.
        if let Some(ours) = unsafe { Statement::of(statement) }.filter(|_| code == ffi::SQLITE_OK) {
            ours.has_pointers.set(true);
        }
        code
    }

    /// Makes all parameters NULL.
    fn sqlite3_clear_bindings(statement: *mut ffi::sqlite3_stmt) -> c_int {
        // SAFETY: the caller has promised null or an open statement.
        let Some(ours) = (unsafe { Statement::of(statement) }) else {
            // SAFETY: SQLite's own statement, or null.
            return unsafe { ffi::sqlite3_clear_bindings(statement) };
        };
        let _entered = ours.enter();
        // SAFETY: the statement is open.
        let code = unsafe { ffi::sqlite3_clear_bindings(ours.raw.get()) };
        ours.values.borrow_mut().fill(Value::Null);
        ours.has_pointers.set(false);
        for given in ours.given.take().into_iter().flatten() {
            given.destroy();
        }
        code
    }

    /// Moves what is bound to one statement to another one of the same connection.
    fn sqlite3_transfer_bindings(
        from: *mut ffi::sqlite3_stmt,
        to: *mut ffi::sqlite3_stmt,
    ) -> c_int {
        // SAFETY: the caller has promised null or open statements.
        let Some(ours) = (unsafe { Statement::of(from) }) else {
            // SAFETY: SQLite's own statements, or null.
            return unsafe { ffi::sqlite3_transfer_bindings(from, to) };
        };
        // SAFETY: the same.
        let Some(theirs) = (unsafe { Statement::of(to) }) else { return ffi::SQLITE_ERROR };
        let _entered = ours.enter();
        let (from, to) = (ours.raw.get(), theirs.raw.get());
        // SAFETY: the statements are open.
        let code = unsafe { ffi::sqlite3_transfer_bindings(from, to) };
        if code == ffi::SQLITE_OK {
            ours.values.swap(&theirs.values);
            ours.given.swap(&theirs.given);
            theirs.has_pointers.set(ours.has_pointers.get());
        }
        code
    }
}

/// What a program has given with a pointer: the destructor is called when that is needed no longer.
pub(crate) struct Given {
    pointer: *const c_void,
    destructor: Destructor,
}

impl Given {
    fn is_transient(&self) -> bool {
        self.destructor.is_some_and(|it| it as usize == TRANSIENT)
    }

    /// So many bytes there; `None` for null.
    ///
    /// # Safety
    /// They are there, as long as the result is used.
    unsafe fn bytes<'a>(&self, count: u64) -> Option<&'a [u8]> {
        // SQLite refuses what is longer than it allows.
        let count =
            usize::try_from(count).ok().filter(|it| i32::try_from(*it).is_ok()).unwrap_or(0);
        if self.pointer.is_null() {
            return None;
        }
        // SAFETY: the caller has promised it.
        Some(unsafe { slice::from_raw_parts(self.pointer.cast(), count) })
    }

    /// Binds by `raw`; destroys what was given when nothing may be bound.
    ///
    /// # Safety
    /// `statement` is null or open; what was given is the program's, as SQLite demands.
    unsafe fn bind(
        &self,
        statement: *mut ffi::sqlite3_stmt,
        index: c_int,
        value: Value,
        raw: impl FnOnce(*mut ffi::sqlite3_stmt) -> c_int,
    ) -> c_int {
        let mut was_called = false;
        // SAFETY: the caller has promised it.
        let code = unsafe {
            bind(statement, index, value, |statement| {
                was_called = true;
                raw(statement)
            })
        };
        if !was_called {
            // SQLite does so, too, with what it does not bind.
            self.destroy();
        }
        code
    }

    /// Binds by `raw`, and keeps what was given until something else is bound: the engine may bind the value again meanwhile, or
    /// bind it elsewhere.
    ///
    /// # Safety
    /// `statement` is null or open; what was given is the program's, as SQLite demands.
    unsafe fn bind_and_keep(
        self,
        statement: *mut ffi::sqlite3_stmt,
        index: c_int,
        value: Value,
        raw: impl FnOnce(*mut ffi::sqlite3_stmt, Destructor) -> c_int,
    ) -> c_int {
        // SAFETY: the caller has promised it.
        let Some(ours) = (unsafe { Statement::of(statement) }) else {
            return raw(statement, self.destructor);
        };
        let _entered = ours.enter();
        // SAFETY: the caller has promised it.
        let code = unsafe { bind(statement, index, value, |it| raw(it, ffi::SQLITE_STATIC())) };
        if code != ffi::SQLITE_OK || self.pointer.is_null() && !ours.has_pointers.get() {
            self.destroy();
        } else if self.destructor.is_some() {
            ours.keep_given(index, self);
        }
        code
    }

    /// Calls the destructor, if there is one.
    pub(crate) fn destroy(&self) {
        if !self.is_transient()
            && let Some(destroy) = self.destructor
        {
            // SAFETY: the program has given both, for this.
            unsafe { destroy(self.pointer.cast_mut()) };
        }
    }
}

/// Binds by `raw` to SQLite's own statement, and keeps `value`.
///
/// # Safety
/// `statement` is null or open.
unsafe fn bind(
    statement: *mut ffi::sqlite3_stmt,
    index: c_int,
    value: Value,
    raw: impl FnOnce(*mut ffi::sqlite3_stmt) -> c_int,
) -> c_int {
    // SAFETY: the caller has promised it.
    let Some(ours) = (unsafe { Statement::of(statement) }) else { return raw(statement) };
    let entered = ours.enter();
    if !ours.may_be_bound() {
        return entered.fail_with(ffi::SQLITE_MISUSE, None);
    }
    ours.bind_again();
    let code = raw(ours.raw.get());
    if code == ffi::SQLITE_OK {
        ours.keep(index, value);
    }
    code
}

/// Binds a copy of ours, which SQLite need not copy again.
///
/// # Safety
/// `statement` is null or open.
unsafe fn bind_ours(statement: *mut ffi::sqlite3_stmt, index: c_int, value: Value) -> c_int {
    let give = |raw, stays: bool| {
        let destructor = if stays { ffi::SQLITE_STATIC() } else { ffi::SQLITE_TRANSIENT() };
        match &value {
            Value::Text(text) => {
                let (bytes, count) =
                    (text.as_bytes().as_ptr().cast(), text.as_bytes().len() as u64);
                // SAFETY: a statement or null, and bytes that stay where they are while they are bound.
                unsafe { ffi::sqlite3_bind_text64(raw, index, bytes, count, destructor, UTF8) }
            }
            Value::Blob(blob) => {
                let (bytes, count) = (blob.as_ptr().cast(), blob.len() as u64);
                // SAFETY: the same.
                unsafe { ffi::sqlite3_bind_blob64(raw, index, bytes, count, destructor) }
            }
            // SAFETY: a statement or null.
            _ => unsafe { ffi::sqlite3_bind_null(raw, index) },
        }
    };
    // SAFETY: the caller has promised it.
    let Some(ours) = (unsafe { Statement::of(statement) }) else { return give(statement, false) };
    let entered = ours.enter();
    if !ours.may_be_bound() {
        return entered.fail_with(ffi::SQLITE_MISUSE, None);
    }
    ours.bind_again();
    let code = give(ours.raw.get(), true);
    if code == ffi::SQLITE_OK {
        ours.keep(index, value);
    }
    code
}

impl Statement {
    fn keep(&self, index: c_int, value: Value) {
        let Some(place) = usize::try_from(index).ok().and_then(|it| it.checked_sub(1)) else {
            return;
        };
        if let Some(kept) = self.values.borrow_mut().get_mut(place) {
            *kept = value;
        }
        if !self.given.borrow().is_empty() {
            let before = self.given.borrow_mut().get_mut(place).and_then(Option::take);
            if let Some(before) = before {
                before.destroy();
            }
        }
    }

    fn keep_given(&self, index: c_int, given: Given) {
        let Some(place) = usize::try_from(index).ok().and_then(|it| it.checked_sub(1)) else {
            return;
        };
        let mut all = self.given.borrow_mut();
        if all.len() <= place {
            all.resize_with(place + 1, || None);
        }
        all[place] = Some(given);
    }
}

/// UTF-8 of which the program promises a zero after it (`SQLITE_UTF8_ZT`).
const UTF8_ZEROED: c_uchar = 16;

fn is_utf8(encoding: c_uchar) -> bool {
    matches!(encoding, UTF8 | UTF8_ZEROED)
}

/// # Safety
/// `value` is null, or a value that SQLite has given.
unsafe fn copy(value: *mut ffi::sqlite3_value) -> Value {
    // SAFETY: the caller has promised it; so it is of all calls here.
    match unsafe { ffi::sqlite3_value_type(value) } {
        // SAFETY: see above.
        ffi::SQLITE_INTEGER => Value::Integer(unsafe { ffi::sqlite3_value_int64(value) }),
        // SAFETY: see above.
        ffi::SQLITE_FLOAT => Value::Real(unsafe { ffi::sqlite3_value_double(value) }),
        ffi::SQLITE_TEXT => {
            // SAFETY: see above.
            let text = unsafe { ffi::sqlite3_value_text(value) };
            // SAFETY: see above.
            let count = unsafe { ffi::sqlite3_value_bytes(value) };
            let given = Given { pointer: text.cast(), destructor: None };
            // SAFETY: SQLite has said that so many bytes are there.
            let bytes = unsafe { given.bytes(count.unsigned_abs().into()) };
            Value::Text(Text::from_bytes(bytes.unwrap_or_default()))
        }
        ffi::SQLITE_BLOB => {
            // SAFETY: see above.
            let blob = unsafe { ffi::sqlite3_value_blob(value) };
            // SAFETY: see above.
            let count = unsafe { ffi::sqlite3_value_bytes(value) };
            let given = Given { pointer: blob, destructor: None };
            // SAFETY: SQLite has said that so many bytes are there.
            let bytes = unsafe { given.bytes(count.unsigned_abs().into()) };
            Value::Blob(bytes.unwrap_or_default().to_vec())
        }
        _ => Value::Null,
    }
}
