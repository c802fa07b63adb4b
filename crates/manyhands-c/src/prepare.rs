//! Preparing: a text is compiled by the engine, which decides later where the statement is executed.

use core::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use manyhands::driver::ConnectionExt;

use crate::execute::{bytes16, utf8_of};
use crate::ffi;
use crate::handle::Handle;

/// A text to be compiled.
struct Text<'a> {
    bytes: &'a [u8],
    flags: c_uint,
    is_legacy: bool,
}
c_api! {
    /// Compiles a statement (<https://sqlite.org/c3ref/prepare.html>).
    fn sqlite3_prepare(
        db: *mut ffi::sqlite3,
        sql: *const c_char,
        bytes: c_int,
        statement: *mut *mut ffi::sqlite3_stmt,
        tail: *mut *const c_char,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands, for both.
        unsafe { prepare(db, sql, bytes, (0, true), statement, tail) }
    }

    /// Compiles a statement; its steps tell what has failed.
    fn sqlite3_prepare_v2(
        db: *mut ffi::sqlite3,
        sql: *const c_char,
        bytes: c_int,
        statement: *mut *mut ffi::sqlite3_stmt,
        tail: *mut *const c_char,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands, for both.
        unsafe { prepare(db, sql, bytes, (0, false), statement, tail) }
    }

    /// The same, as `flags` say.
    fn sqlite3_prepare_v3(
        db: *mut ffi::sqlite3,
        sql: *const c_char,
        bytes: c_int,
        flags: c_uint,
        statement: *mut *mut ffi::sqlite3_stmt,
        tail: *mut *const c_char,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands, for both.
        unsafe { prepare(db, sql, bytes, (flags, false), statement, tail) }
    }

    /// The same of a text in UTF-16, as the first of the three.
    fn sqlite3_prepare16(
        db: *mut ffi::sqlite3,
        sql: *const c_void,
        bytes: c_int,
        statement: *mut *mut ffi::sqlite3_stmt,
        tail: *mut *const c_void,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        unsafe { prepare16(db, sql, bytes, (0, true), statement, tail) }
    }

    /// The same of a text in UTF-16.
    fn sqlite3_prepare16_v2(
        db: *mut ffi::sqlite3,
        sql: *const c_void,
        bytes: c_int,
        statement: *mut *mut ffi::sqlite3_stmt,
        tail: *mut *const c_void,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        unsafe { prepare16(db, sql, bytes, (0, false), statement, tail) }
    }

    /// The same of a text in UTF-16, as `flags` say.
    fn sqlite3_prepare16_v3(
        db: *mut ffi::sqlite3,
        sql: *const c_void,
        bytes: c_int,
        flags: c_uint,
        statement: *mut *mut ffi::sqlite3_stmt,
        tail: *mut *const c_void,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        unsafe { prepare16(db, sql, bytes, (flags, false), statement, tail) }
    }
}

impl Handle {
    /// Compiles the first statement of a text: null when there is none. Gives the number of bytes that were read, too.
    ///
    /// # Errors
    /// The code, and how far SQLite has read.
    fn compile(&self, text: &Text<'_>) -> Result<(*mut ffi::sqlite3_stmt, usize), (c_int, usize)> {
        let Ok(sql) = core::str::from_utf8(text.bytes) else { return self.compile_alone(text) };
        // SAFETY: the connection is open; -1 leaves the limit as it is.
        let limit = unsafe { ffi::sqlite3_limit(self.db, ffi::SQLITE_LIMIT_SQL_LENGTH, -1) };
        if sql.len() > limit.unsigned_abs() as usize {
            // SQLite's own error.
            return self.compile_alone(text);
        }
        if text.flags & ffi::SQLITE_PREPARE_NO_VTAB as c_uint != 0 {
            // Whether there is one SQLite finds out.
            let (raw, used, code) = self.nested(|| self.compile_raw(text));
            // SAFETY: just compiled, or null.
            unsafe { ffi::sqlite3_finalize(raw) };
            if code != ffi::SQLITE_OK {
                return Err((code, used));
            }
        }
        if self.loads_by_sql.get() && sql.to_ascii_lowercase().contains("load_extension") {
            self.change(true, || ffi::SQLITE_OK);
        }
        let in_place = if self.immediate_as_auto { immediate_as_plain(sql) } else { None };
        let compiled = match in_place {
            Some((begin, used)) => self.engine(|it| {
                let compiled = it.compile_first(begin)?;
                Ok(compiled.map(|(compiled, _)| (compiled, &sql[used..])))
            }),
            None => self.engine(|it| it.compile_first(sql)),
        };
        match compiled {
            Ok(Some((compiled, rest))) => {
                let used = sql.len() - rest.len();
                let raw = compiled.as_ptr().cast();
                let statement =
                    self.add(Some(compiled), raw, (&text.bytes[..used], text.is_legacy));
                self.succeed(ffi::SQLITE_OK);
                Ok((statement, used))
            }
            Ok(None) => {
                self.succeed(ffi::SQLITE_OK);
                Ok((ptr::null_mut(), sql.len()))
            }
            // SQLite tells where the error is, too, when it is asked itself.
            Err(code) if code & 0xff == ffi::SQLITE_ERROR => {
                Err((code, self.compile_for_error(text, code)))
            }
            Err(code) => Err((code, first_statement(sql))),
        }
    }

    /// Has SQLite fail to compile a text as the engine has, and tells how far it has read. If it does not fail, the engine's error
    /// stands.
    fn compile_for_error(&self, text: &Text<'_>, code: c_int) -> usize {
        let message = self.last_message();
        let (raw, used, again) = self.nested(|| self.compile_raw(text));
        // SAFETY: just compiled, or null.
        unsafe { ffi::sqlite3_finalize(raw) };
        if again & 0xff != code & 0xff {
            self.tell_again(code, &message);
        }
        used
    }

    /// Compiles a text that only this connection can execute.
    fn compile_alone(
        &self,
        text: &Text<'_>,
    ) -> Result<(*mut ffi::sqlite3_stmt, usize), (c_int, usize)> {
        let (raw, used, code) = self.nested(|| self.compile_raw(text));
        if code != ffi::SQLITE_OK {
            return Err((code, used));
        }
        if raw.is_null() {
            return Ok((raw, used));
        }
        Ok((self.add(None, raw, (&text.bytes[..used], text.is_legacy)), used))
    }

    fn compile_raw(&self, text: &Text<'_>) -> (*mut ffi::sqlite3_stmt, usize, c_int) {
        let (mut raw, mut tail) = (ptr::null_mut(), ptr::null());
        let start: *const c_char = text.bytes.as_ptr().cast();
        let length = c_int::try_from(text.bytes.len()).unwrap_or(c_int::MAX);
        // SAFETY: an open connection, a text of this length, places for the results.
        let code = unsafe {
            ffi::sqlite3_prepare_v3(self.db, start, length, text.flags, &raw mut raw, &raw mut tail)
        };
        let used = if tail.is_null() { 0 } else { tail as usize - start as usize };
        (raw, used.min(text.bytes.len()), code)
    }
}

/// The length of the first statement of a text that did not compile for what it means, or for a lock.
fn first_statement(sql: &str) -> usize {
    let ends = sql.match_indices(';').map(|(at, _)| at + 1);
    ends.into_iter().find(|&end| manyhands::is_complete(&sql[..end])).unwrap_or(sql.len())
}

/// What is executed for a text that begins with BEGIN IMMEDIATE, where that is to be a plain BEGIN; and the length of what it stands
/// for.
fn immediate_as_plain(sql: &str) -> Option<(&'static str, usize)> {
    let end = sql.find(';').map_or(sql.len(), |it| it + 1);
    let mut words = sql[..end].trim_end_matches(';').split_ascii_whitespace();
    let mut next_is = |word: &str| words.next().is_some_and(|it| it.eq_ignore_ascii_case(word));
    let is_immediate = next_is("BEGIN") && next_is("IMMEDIATE");
    let rest = words.next();
    let ends =
        rest.is_none_or(|it| it.eq_ignore_ascii_case("TRANSACTION")) && words.next().is_none();
    (is_immediate && ends).then_some(("BEGIN", end))
}

/// # Safety
/// See `sqlite3_prepare_v3`.
unsafe fn prepare(
    db: *mut ffi::sqlite3,
    sql: *const c_char,
    bytes: c_int,
    (flags, is_legacy): (c_uint, bool),
    statement: *mut *mut ffi::sqlite3_stmt,
    tail: *mut *const c_char,
) -> c_int {
    // SAFETY: the caller has promised null or an open connection.
    let handle = unsafe { Handle::entered(db) };
    let Some(handle) =
        handle.filter(|it| !it.is_called_back() && !sql.is_null() && !statement.is_null())
    else {
        if is_legacy {
            // SAFETY: the caller has promised what SQLite demands.
            return unsafe { ffi::sqlite3_prepare(db, sql, bytes, statement, tail) };
        }
        // SAFETY: the caller has promised what SQLite demands.
        return unsafe { ffi::sqlite3_prepare_v3(db, sql, bytes, flags, statement, tail) };
    };
    // SAFETY: the caller has promised a text of this length, or a zero-terminated one, and an open connection.
    let text = unsafe { first_of_long(&handle, sql, bytes) };
    // SAFETY: the caller has promised a text of this length, or a zero-terminated one.
    let text = text.unwrap_or_else(|| unsafe { utf8_of(sql, bytes) });
    let compiled = handle.compile(&Text { bytes: text, flags, is_legacy });
    let (prepared, used, code) = match compiled {
        Ok((prepared, used)) => (prepared, used, ffi::SQLITE_OK),
        Err((code, used)) => (ptr::null_mut(), used, code),
    };
    // SAFETY: not null, as was looked at, and the caller's place for the result.
    unsafe { *statement = prepared };
    if !tail.is_null() {
        // SAFETY: within the text, or at its end.
        let rest = unsafe { sql.add(used) };
        // SAFETY: the caller's place for the result.
        unsafe { *tail = rest };
    }
    code
}

/// Of a long text, a script of many statements perhaps, as much as its first statement is. SQLite reads no further, and each step of
/// ours would read it to its end.
///
/// # Safety
/// See `sqlite3_prepare_v3`.
unsafe fn first_of_long<'a>(handle: &Handle, sql: *const c_char, bytes: c_int) -> Option<&'a [u8]> {
    let most = usize::try_from(bytes).unwrap_or(usize::MAX).min(LONG_BYTES);
    // SAFETY: the caller has promised so many bytes, or a zero before their end.
    if most < LONG_BYTES || unsafe { libc::strnlen(sql, most) } < most {
        return None;
    }
    let (mut raw, mut tail) = (ptr::null_mut(), ptr::null());
    // SAFETY: the caller has promised what SQLite demands.
    let compile = || unsafe {
        ffi::sqlite3_prepare_v3(handle.db, sql, bytes, 0, &raw mut raw, &raw mut tail)
    };
    let code = handle.nested(compile);
    // SAFETY: just compiled, or null.
    unsafe { ffi::sqlite3_finalize(raw) };
    let length = (tail as usize).checked_sub(sql as usize).filter(|_| code == ffi::SQLITE_OK)?;
    // SAFETY: SQLite has read so far.
    Some(unsafe { core::slice::from_raw_parts(sql.cast(), length) })
}

/// A text of so many bytes is long.
const LONG_BYTES: usize = 8192;

/// # Safety
/// See `sqlite3_prepare16_v3`.
unsafe fn prepare16(
    db: *mut ffi::sqlite3,
    sql: *const c_void,
    bytes: c_int,
    how: (c_uint, bool),
    statement: *mut *mut ffi::sqlite3_stmt,
    tail: *mut *const c_void,
) -> c_int {
    if sql.is_null() {
        // SAFETY: the caller has promised what SQLite demands; without a text there is nothing to convert.
        return unsafe { prepare(db, ptr::null(), -1, how, statement, ptr::null_mut()) };
    }
    // SAFETY: the caller has promised a text of this length, or a zero-terminated one.
    let units = unsafe { bytes16(sql, bytes) };
    let text = String::from_utf16_lossy(&units);
    let length = c_int::try_from(text.len()).unwrap_or(c_int::MAX);
    let start: *const c_char = text.as_ptr().cast();
    let mut rest = ptr::null();
    // SAFETY: a text of this length, and the caller's place for the statement.
    let code = unsafe { prepare(db, start, length, how, statement, &raw mut rest) };
    if !tail.is_null() {
        let used = if rest.is_null() { text.len() } else { rest as usize - start as usize };
        let used_units = text.get(..used).map_or(units.len(), |it| it.encode_utf16().count());
        // SAFETY: within the text, or at its end.
        let rest = unsafe { sql.byte_add(used_units * 2) };
        // SAFETY: the caller's place for the result.
        unsafe { *tail = rest };
    }
    code
}
