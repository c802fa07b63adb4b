//! Functions that prepare, step and finalize by themselves; and the texts that programs give.

use core::ffi::{c_char, c_int, c_uchar, c_void};
use std::ptr;
use std::slice;

use manyhands::Text;

use crate::ffi;
use crate::handle::Handle;

type RowCallback =
    Option<unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_char, *mut *mut c_char) -> c_int>;

c_api! {
    /// Executes the statements of a text, and shows each row to a callback (<https://sqlite.org/c3ref/exec.html>).
    fn sqlite3_exec(
        db: *mut ffi::sqlite3,
        sql: *const c_char,
        callback: RowCallback,
        data: *mut c_void,
        message: *mut *mut c_char,
    ) -> c_int {
        // SAFETY: the caller has promised null or an open connection.
        let handle = unsafe { Handle::entered(db) };
        let Some(handle) = handle.filter(|it| !it.is_called_back()) else {
            // SAFETY: the caller has promised what SQLite demands.
            return unsafe { ffi::sqlite3_exec(db, sql, callback, data, message) };
        };
        let sql = if sql.is_null() { c"".as_ptr() } else { sql };
        // SAFETY: an open connection, a zero-terminated text.
        let code = handle.code(unsafe { execute(&handle, sql, callback, data) });
        // SAFETY: the caller's place for a message, or null.
        unsafe { tell(&handle, code, message) };
        code
    }

    /// The rows of a query as texts, after its columns' names (<https://sqlite.org/c3ref/free_table.html>).
    fn sqlite3_get_table(
        db: *mut ffi::sqlite3,
        sql: *const c_char,
        result: *mut *mut *mut c_char,
        rows: *mut c_int,
        columns: *mut c_int,
        message: *mut *mut c_char,
    ) -> c_int {
        // SAFETY: the caller has promised null or an open connection.
        let handle = unsafe { Handle::entered(db) };
        let Some(handle) = handle.filter(|it| !it.is_called_back() && !result.is_null() && !sql.is_null())
        else {
            // SAFETY: the caller has promised what SQLite demands.
            return unsafe { ffi::sqlite3_get_table(db, sql, result, rows, columns, message) };
        };
        let mut table = Table { texts: Vec::new(), columns: 0, rows: 0, is_uneven: false };
        let data: *mut Table = &raw mut table;
        // SAFETY: an open connection, a zero-terminated text, a table for the callback.
        let code = unsafe { execute(&handle, sql, Some(add_row), data.cast()) };
        if table.is_uneven {
            let code = handle.fail_with(ffi::SQLITE_ERROR, None);
            let text = c"sqlite3_get_table() called with two or more incompatible queries";
            // SAFETY: the caller's place for a message, or null.
            unsafe { tell_text(text.as_ptr(), message) };
            table.free();
            // SAFETY: not null, as was looked at, and the caller's place for the result.
            unsafe { *result = ptr::null_mut() };
            return code;
        }
        let code = handle.code(code);
        // SAFETY: the caller's place for a message, or null.
        unsafe { tell(&handle, code, message) };
        let given = if code == ffi::SQLITE_OK { table.give() } else { Err(table) };
        let (texts, row_count, column_count) = match given {
            Ok(given) => given,
            Err(table) => {
                table.free();
                (ptr::null_mut(), 0, 0)
            }
        };
        // SAFETY: not null, as was looked at, and the caller's place for the result.
        unsafe { *result = texts };
        for (place, count) in [(rows, row_count), (columns, column_count)] {
            if !place.is_null() {
                // SAFETY: the caller's place for a count.
                unsafe { *place = count };
            }
        }
        code
    }
}

/// Gives the last error's text to the caller, or null where there is no error.
///
/// # Safety
/// `message` is null, or a place for a text.
unsafe fn tell(handle: &Handle, code: c_int, message: *mut *mut c_char) {
    // SAFETY: the connection is open.
    let last = unsafe { ffi::sqlite3_errmsg(handle.db) };
    let text = if code == ffi::SQLITE_OK { ptr::null() } else { last };
    // SAFETY: the caller has promised it, and the text is zero-terminated or null.
    unsafe { tell_text(text, message) };
}

/// # Safety
/// `text` is zero-terminated or null, `message` null or a place for a text.
unsafe fn tell_text(text: *const c_char, message: *mut *mut c_char) {
    if message.is_null() {
        return;
    }
    let copy = if text.is_null() {
        ptr::null_mut()
    } else {
        // SAFETY: a zero-terminated text, which is copied.
        unsafe { ffi::sqlite3_mprintf(c"%s".as_ptr(), text) }
    };
    // SAFETY: the caller has promised it.
    unsafe { *message = copy };
}

/// # Safety
/// `sql` is a zero-terminated text; the callback may be called with `data`.
unsafe fn execute(
    handle: &Handle,
    sql: *const c_char,
    callback: RowCallback,
    data: *mut c_void,
) -> c_int {
    let (db, mut sql) = (handle.db, sql);
    handle.succeed(ffi::SQLITE_OK);
    loop {
        // SAFETY: not after the text's end, which is a zero.
        if unsafe { *sql } == 0 {
            return ffi::SQLITE_OK;
        }
        let (mut statement, mut rest) = (ptr::null_mut(), ptr::null());
        // SAFETY: an open connection, a zero-terminated text, places for the results.
        let code =
            unsafe { crate::sqlite3_prepare_v2(db, sql, -1, &raw mut statement, &raw mut rest) };
        if code != ffi::SQLITE_OK {
            return code;
        }
        sql = rest;
        if statement.is_null() {
            continue;
        }
        let mut names: Vec<*mut c_char> = Vec::new();
        loop {
            // SAFETY: the statement is open.
            let step = unsafe { crate::sqlite3_step(statement) };
            if step == ffi::SQLITE_ROW
                && let Some(callback) = callback
            {
                // SAFETY: the statement is open, and shows a row.
                let mut values = unsafe { row_of(statement, &mut names) };
                let count = names.len() as c_int;
                // SAFETY: what the caller has promised.
                let stop =
                    unsafe { callback(data, count, values.as_mut_ptr(), names.as_mut_ptr()) };
                if stop != 0 {
                    // SAFETY: the statement is open, and is not used any more.
                    unsafe { crate::sqlite3_finalize(statement) };
                    return handle.fail_with(ffi::SQLITE_ABORT, None);
                }
            }
            if step != ffi::SQLITE_ROW {
                break;
            }
        }
        // SAFETY: the statement is open, and is not used any more.
        let code = unsafe { crate::sqlite3_finalize(statement) };
        if code != ffi::SQLITE_OK {
            return code;
        }
        // SAFETY: not after the text's end, which is a zero.
        while unsafe { *sql }.cast_unsigned().is_ascii_whitespace() {
            // SAFETY: the same.
            sql = unsafe { sql.add(1) };
        }
    }
}

/// The current row as texts; and the columns' names, if they are not there yet.
///
/// # Safety
/// `statement` is open, and shows a row.
unsafe fn row_of(
    statement: *mut ffi::sqlite3_stmt,
    names: &mut Vec<*mut c_char>,
) -> Vec<*mut c_char> {
    // SAFETY: the caller has promised it.
    let count = unsafe { crate::sqlite3_column_count(statement) };
    if names.is_empty() {
        // SAFETY: the caller has promised it.
        names.extend(
            (0..count).map(|it| unsafe { crate::sqlite3_column_name(statement, it) }.cast_mut()),
        );
    }
    // SAFETY: the caller has promised it.
    let text = |column| unsafe { crate::sqlite3_column_text(statement, column) };
    // As many as names, and a null after them, as SQLite has it.
    let texts = (0..count).map(|column| text(column).cast_mut().cast());
    texts.chain([ptr::null_mut()]).collect()
}

/// What `sqlite3_get_table` gathers: names first, then rows. All texts are SQLite's memory, or null.
struct Table {
    texts: Vec<*mut c_char>,
    columns: c_int,
    rows: c_int,
    is_uneven: bool,
}

/// `execute` calls it for each row.
///
/// # Safety
/// The first argument is the address of a [`Table`] that nobody else uses during the call; so many texts, or nulls, are there.
unsafe extern "C" fn add_row(
    table: *mut c_void,
    count: c_int,
    values: *mut *mut c_char,
    names: *mut *mut c_char,
) -> c_int {
    let table: *mut Table = table.cast();
    // SAFETY: `sqlite3_get_table` gives a table, which it does not use meanwhile.
    let table = unsafe { &mut *table };
    let columns = count.unsigned_abs() as usize;
    let add = |table: &mut Table, from: *mut *mut c_char| {
        // SAFETY: so many texts are there, as `execute` has them.
        for &text in unsafe { slice::from_raw_parts(from, columns) } {
            let copy = if text.is_null() {
                text
            } else {
                // SAFETY: a zero-terminated text, which is copied.
                unsafe { ffi::sqlite3_mprintf(c"%s".as_ptr(), text) }
            };
            table.texts.push(copy);
        }
    };
    if table.rows == 0 {
        table.columns = count;
        add(table, names);
    } else if table.columns != count {
        table.is_uneven = true;
        return 1;
    }
    add(table, values);
    table.rows += 1;
    0
}

impl Table {
    /// As `sqlite3_free_table` expects it: the number of texts stands before the first one.
    fn give(self) -> Result<(*mut *mut c_char, c_int, c_int), Table> {
        let bytes = ((self.texts.len() + 1) * size_of::<*mut c_char>()) as u64;
        // SAFETY: any number of bytes can be asked for.
        let memory: *mut *mut c_char = unsafe { ffi::sqlite3_malloc64(bytes) }.cast();
        if memory.is_null() {
            return Err(self);
        }
        // SAFETY: there is room for one word more than texts.
        let all =
            unsafe { slice::from_raw_parts_mut(memory.cast::<usize>(), self.texts.len() + 1) };
        all[0] = self.texts.len() + 1;
        for (place, text) in all[1..].iter_mut().zip(&self.texts) {
            *place = *text as usize;
        }
        // SAFETY: within what was asked for.
        Ok((unsafe { memory.add(1) }, self.rows, self.columns))
    }

    fn free(self) {
        for text in self.texts {
            // SAFETY: SQLite's memory, or null.
            unsafe { ffi::sqlite3_free(text.cast()) };
        }
    }
}

/// A text of at most so many bytes, up to a zero; of a negative number up to the zero.
///
/// # Safety
/// The bytes are there, or a zero before them; and stay as long as the result is used.
pub(crate) unsafe fn utf8_of<'a>(text: *const c_char, bytes: c_int) -> &'a [u8] {
    let length = match usize::try_from(bytes) {
        // SAFETY: the caller has promised it.
        Ok(bytes) => unsafe { libc::strnlen(text, bytes) },
        // SAFETY: the caller has promised it.
        Err(_) => unsafe { libc::strlen(text) },
    };
    // SAFETY: so many bytes were just looked at.
    unsafe { slice::from_raw_parts(text.cast(), length) }
}

/// The units of a text in UTF-16 of at most so many bytes, up to a zero; of a negative number up to the zero.
///
/// # Safety
/// The bytes are there, or a zero before them.
pub(crate) unsafe fn bytes16(text: *const c_void, bytes: c_int) -> Vec<u16> {
    let most = usize::try_from(bytes).map_or(usize::MAX, |it| it / 2);
    let start: *const u16 = text.cast();
    let mut units = Vec::new();
    while units.len() < most {
        // SAFETY: within the bytes, and not after a zero.
        let unit = unsafe { unit_at(start, units.len()) };
        if unit == 0 {
            break;
        }
        units.push(unit);
    }
    units
}

/// A unit, which the program need not have aligned.
///
/// # Safety
/// So many units are before it, and it is there.
unsafe fn unit_at(start: *const u16, index: usize) -> u16 {
    // SAFETY: the caller has promised it.
    let place = unsafe { start.add(index) };
    // SAFETY: the caller has promised it.
    unsafe { place.read_unaligned() }
}

/// All units of so many bytes, zeros too; of a negative number up to the first zero.
///
/// # Safety
/// The bytes are there, or a zero for a negative number.
pub(crate) unsafe fn units16(text: *const c_void, bytes: c_int) -> Vec<u16> {
    let Ok(bytes) = usize::try_from(bytes) else {
        // SAFETY: the caller has promised it.
        return unsafe { bytes16(text, bytes) };
    };
    let start: *const u16 = text.cast();
    // SAFETY: the caller has promised so many.
    (0..bytes / 2).map(|index| unsafe { unit_at(start, index) }).collect()
}

/// The same as a Rust text; `None` for null.
///
/// # Safety
/// See [`bytes16`].
pub(crate) unsafe fn text16(text: *const c_void, bytes: c_int) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller has promised it.
    Some(String::from_utf16_lossy(&unsafe { bytes16(text, bytes) }))
}

/// A text of bytes of UTF-16, in the order that SQLite's number of the encoding says.
pub(crate) fn text_of_units(bytes: &[u8], encoding: c_uchar) -> Text {
    let is_big = c_int::from(encoding) == ffi::SQLITE_UTF16BE
        || c_int::from(encoding) == ffi::SQLITE_UTF16 && cfg!(target_endian = "big");
    let unit = |pair: &[u8]| {
        let pair = [pair[0], pair[1]];
        if is_big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
    };
    let units: Vec<u16> = bytes.chunks_exact(2).map(unit).collect();
    text_of_utf16(&units)
}

/// A text in UTF-8. Half of a pair of surrogates becomes what SQLite makes of it: the first half is paired with whatever follows it, and
/// a lone one has three bytes, which are no UTF-8.
pub(crate) fn text_of_utf16(units: &[u16]) -> Text {
    if let Ok(text) = String::from_utf16(units) {
        return Text::from_bytes(text);
    }
    let mut bytes = Vec::with_capacity(3 * units.len());
    let mut left = units.iter().copied().map(u32::from);
    while let Some(unit) = left.next() {
        let is_surrogate = (0xd800..0xe000).contains(&unit);
        let pair = |next: u32| 0x1_0000 + ((unit & 0x3ff) << 10) + (next & 0x3ff);
        let code = if is_surrogate { left.next().map_or(unit, pair) } else { unit };
        match char::from_u32(code) {
            Some(character) => {
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes())
            }
            None => bytes.extend(
                [0xe0 | code >> 12, 0x80 | code >> 6 & 0x3f, 0x80 | code & 0x3f].map(|it| it as u8),
            ),
        }
    }
    Text::from_bytes(bytes)
}
