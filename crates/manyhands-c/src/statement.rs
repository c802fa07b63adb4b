//! Compiled statements: finalizing them, and what is to be known of them.

use core::cell::{Cell, RefCell};
use core::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::ffi::CString;
use std::ptr;

use manyhands::driver::{CompiledStatement, ConnectionExt};
use manyhands::{Cursor, RowBuffer, Value};

use crate::bind::Given;
use crate::ffi;
use crate::handle::{Entered, Handle};

/// The first word of a statement of ours. That of SQLite's is the address of its connection.
const MAGIC: u64 = 0x6d61_6e79_6861_6e64;

/// A statement of ours. All of it is used under the mutex of its connection.
#[repr(C)]
pub struct Statement {
    magic: u64,
    handle: *const Handle,
    /// What SQLite has compiled. It is another one when the engine had to compile it again.
    pub(crate) raw: Cell<*mut ffi::sqlite3_stmt>,
    /// The values are still to be bound to that one.
    pub(crate) is_unbound: Cell<bool>,
    /// `None` for a text that is not UTF-8, which only this connection can execute.
    pub(crate) compiled: RefCell<Option<CompiledStatement>>,
    sql: CString,
    /// What is bound, for whoever executes it: one for each parameter.
    pub(crate) values: RefCell<Vec<Value>>,
    /// Something is bound that is no value.
    pub(crate) has_pointers: Cell<bool>,
    /// It was prepared by one of the functions without `_v2`: `step` tells only that it has failed.
    is_legacy: bool,
    /// `sqlite3_stmt_explain` has changed what it is.
    explains: Cell<bool>,
    pub(crate) running: RefCell<Running>,
    /// What the program has given to be destroyed when it is bound no longer; as long as the last one's index.
    pub(crate) given: RefCell<Vec<Option<Given>>>,
    /// It was SQLite's own statement that was stepped last.
    pub(crate) by_sqlite: Cell<bool>,
    /// Why the last step has failed; `reset` and `finalize` tell it again.
    pub(crate) failed: RefCell<Option<(c_int, CString)>>,
    /// A statement of another connection that shows rows which the engine gave; null until it is needed.
    pub(crate) mirror: Cell<*mut ffi::sqlite3_stmt>,
    /// Memory for such a row, from the last execution.
    pub(crate) row: Cell<RowBuffer>,
}

/// Where a statement is.
pub(crate) enum Running {
    /// Before its first step.
    Not,
    /// SQLite's own statement is being stepped.
    Stepped,
    /// It shows rows that the engine has given.
    Shows(Rows),
    /// It has shown all rows, or failed.
    Ended,
}

/// Rows that the engine has given, and the one that is shown.
pub(crate) struct Rows {
    pub(crate) cursor: Cursor,
    pub(crate) shown: RowBuffer,
}

c_api! {
    /// Ends a statement. Tells the error of its last step again.
    fn sqlite3_finalize(statement: *mut ffi::sqlite3_stmt) -> c_int {
        // SAFETY: the caller has promised null or an open statement.
        let Some(ours) = (unsafe { Statement::of(statement) }) else {
            // SAFETY: SQLite's own statement, or null.
            return unsafe { ffi::sqlite3_finalize(statement) };
        };
        // SAFETY: the caller does not use the statement any more.
        unsafe { ours.finalize() }
    }

    /// The next open statement of a connection; of null the first.
    fn sqlite3_next_stmt(
        db: *mut ffi::sqlite3,
        statement: *mut ffi::sqlite3_stmt,
    ) -> *mut ffi::sqlite3_stmt {
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::entered(db) }) else {
            // SAFETY: SQLite's own connection and statement.
            return unsafe { ffi::sqlite3_next_stmt(db, statement) };
        };
        let open = handle.statements.borrow();
        let this: *mut Statement = statement.cast();
        let end = if this.is_null() { Some(open.len()) } else { open.iter().rposition(|it| *it == this) };
        // The last one that was prepared is the first, as in SQLite.
        let next = end.and_then(|end| open[..end].last());
        next.map_or(ptr::null_mut(), |it| it.cast())
    }

    /// The connection of a statement.
    fn sqlite3_db_handle(statement: *mut ffi::sqlite3_stmt) -> *mut ffi::sqlite3 {
        // SAFETY: the caller has promised null or an open statement.
        match unsafe { Statement::of(statement) } {
            Some(ours) => ours.handle().db,
            // SAFETY: SQLite's own statement, or null.
            None => unsafe { ffi::sqlite3_db_handle(statement) },
        }
    }

    /// The text of a statement.
    fn sqlite3_sql(statement: *mut ffi::sqlite3_stmt) -> *const c_char {
        // SAFETY: the caller has promised null or an open statement.
        match unsafe { Statement::of(statement) } {
            Some(ours) => ours.sql.as_ptr(),
            // SAFETY: SQLite's own statement, or null.
            None => unsafe { ffi::sqlite3_sql(statement) },
        }
    }

    /// True for a statement that does not write into a database file by itself.
    fn sqlite3_stmt_readonly(statement: *mut ffi::sqlite3_stmt) -> c_int {
        // SAFETY: the caller has promised null or an open statement.
        let ours = unsafe { Statement::of(statement) };
        let raw = ours.map_or(statement, |it| it.raw.get());
        if ours.is_some_and(|it| it.compiled.borrow().as_ref().is_some_and(|it| !it.is_read_only())) {
            return 0;
        }
        // SAFETY: SQLite's own statement, or null.
        unsafe { ffi::sqlite3_stmt_readonly(raw) }
    }

    /// True from the first step of a statement to its last row.
    fn sqlite3_stmt_busy(statement: *mut ffi::sqlite3_stmt) -> c_int {
        // SAFETY: the caller has promised null or an open statement.
        let Some(ours) = (unsafe { Statement::of(statement) }) else {
            // SAFETY: SQLite's own statement, or null.
            return unsafe { ffi::sqlite3_stmt_busy(statement) };
        };
        match &*ours.running.borrow() {
            Running::Not | Running::Ended => 0,
            Running::Shows(_) => 1,
            // SAFETY: the statement is open.
            Running::Stepped => unsafe { ffi::sqlite3_stmt_busy(ours.raw.get()) },
        }
    }

    /// Makes a statement explain itself, or not.
    fn sqlite3_stmt_explain(statement: *mut ffi::sqlite3_stmt, mode: c_int) -> c_int {
        // SAFETY: the caller has promised null or an open statement.
        let ours = unsafe { Statement::of(statement) };
        let raw = ours.map_or(statement, |it| it.raw.get());
        if let Some(ours) = ours.filter(|it| !it.may_be_bound()) {
            // SAFETY: the statement is open.
            let is_so = unsafe { ffi::sqlite3_stmt_isexplain(raw) } == mode;
            return match (is_so, ours.is_legacy) {
                (true, _) => ffi::SQLITE_OK,
                (false, true) => ffi::SQLITE_ERROR,
                // It runs.
                (false, false) => ffi::SQLITE_BUSY,
            };
        }
        // SAFETY: SQLite's own statement, or null.
        let code = unsafe { ffi::sqlite3_stmt_explain(raw, mode) };
        if let Some(ours) = ours.filter(|_| code == ffi::SQLITE_OK) {
            // What it is now the engine does not know.
            ours.explains.set(mode != 0);
        }
        code
    }
}

/// Functions that SQLite's own statement answers.
macro_rules! of_statement {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;)*) => {
        c_api! {$(
            /// As SQLite's function of this name.
            fn $name(statement: *mut ffi::sqlite3_stmt $(, $arg: $ty)*) -> $ret {
                // SAFETY: the caller has promised null or an open statement.
                let raw = unsafe { raw_of(statement) };
                // SAFETY: SQLite's own statement, or null; and what the caller has promised of the rest.
                unsafe { ffi::$name(raw $(, $arg)*) }
            }
        )*}
    };
}

c_api! {
    /// The text of a statement with what is bound in the place of its parameters.
    fn sqlite3_expanded_sql(statement: *mut ffi::sqlite3_stmt) -> *mut c_char {
        // SAFETY: the caller has promised null or an open statement.
        let ours = unsafe { Statement::of(statement) };
        if let Some(ours) = ours.filter(|it| it.is_executed_by_another_text()) {
            // SAFETY: a zero-terminated text, which is copied.
            return unsafe { ffi::sqlite3_mprintf(c"%s".as_ptr(), ours.sql.as_ptr()) };
        }
        let raw = ours.map_or(statement, |it| it.raw.get());
        // SAFETY: SQLite's own statement, or null.
        unsafe { ffi::sqlite3_expanded_sql(raw) }
    }
}

of_statement! {
    sqlite3_normalized_sql() -> *const c_char;
    sqlite3_stmt_isexplain() -> c_int;
    sqlite3_stmt_status(what: c_int, reset: c_int) -> c_int;
    sqlite3_expired() -> c_int;
    sqlite3_bind_parameter_count() -> c_int;
    sqlite3_bind_parameter_name(index: c_int) -> *const c_char;
    sqlite3_bind_parameter_index(name: *const c_char) -> c_int;
    sqlite3_column_count() -> c_int;
    sqlite3_column_name(column: c_int) -> *const c_char;
    sqlite3_column_name16(column: c_int) -> *const c_void;
    sqlite3_column_database_name(column: c_int) -> *const c_char;
    sqlite3_column_database_name16(column: c_int) -> *const c_void;
    sqlite3_column_table_name(column: c_int) -> *const c_char;
    sqlite3_column_table_name16(column: c_int) -> *const c_void;
    sqlite3_column_origin_name(column: c_int) -> *const c_char;
    sqlite3_column_origin_name16(column: c_int) -> *const c_void;
    sqlite3_column_decltype(column: c_int) -> *const c_char;
    sqlite3_column_decltype16(column: c_int) -> *const c_void;
}

c_api! {
    /// A figure of a scan: none is there, since to gather them would cost each instruction of each statement a look.
    fn sqlite3_stmt_scanstatus(
        _statement: *mut ffi::sqlite3_stmt,
        _index: c_int,
        _what: c_int,
        _to: *mut c_void,
    ) -> c_int {
        1
    }

    /// The same.
    fn sqlite3_stmt_scanstatus_v2(
        _statement: *mut ffi::sqlite3_stmt,
        _index: c_int,
        _what: c_int,
        _flags: c_int,
        _to: *mut c_void,
    ) -> c_int {
        1
    }

    /// Makes a statement's scan figures zero.
    fn sqlite3_stmt_scanstatus_reset(_statement: *mut ffi::sqlite3_stmt) {}
}

/// SQLite's own statement of one of either kind.
///
/// # Safety
/// `statement` is null or open.
unsafe fn raw_of(statement: *mut ffi::sqlite3_stmt) -> *mut ffi::sqlite3_stmt {
    // SAFETY: the caller has promised it.
    unsafe { Statement::of(statement) }.map_or(statement, |it| it.raw.get())
}

impl Statement {
    /// The statement of ours, if it is one.
    ///
    /// # Safety
    /// `statement` is null or open, and the result is not used when it is finalized.
    pub(crate) unsafe fn of<'a>(statement: *mut ffi::sqlite3_stmt) -> Option<&'a Statement> {
        if statement.is_null() {
            return None;
        }
        let first: *const u64 = statement.cast();
        // SAFETY: SQLite's statements, too, are longer than a word, and begin with an address.
        let first = unsafe { first.read() };
        let ours: *const Statement = statement.cast();
        // SAFETY: the first word says that it is one of ours, and no other can have it.
        (first == MAGIC).then(|| unsafe { &*ours })
    }

    /// Its connection's handle.
    pub(crate) fn handle(&self) -> &Handle {
        // SAFETY: a connection is not closed before its statements.
        unsafe { &*self.handle }
    }

    pub(crate) fn enter(&self) -> Entered<'_> {
        self.handle().enter()
    }

    pub(crate) fn has_text(&self, text: &CStr) -> bool {
        self.sql.as_c_str() == text
    }

    /// True where the engine executes something else in its place: it has no parameters then.
    fn is_executed_by_another_text(&self) -> bool {
        // SAFETY: the statement is open.
        let text = unsafe { ffi::sqlite3_sql(self.raw.get()) };
        // SAFETY: a zero-terminated text, or null, as long as the statement is open.
        !text.is_null() && unsafe { CStr::from_ptr(text) } != self.sql.as_c_str()
    }

    /// True when `sqlite3_stmt_explain` has made it explain itself.
    pub(crate) fn is_explained(&self) -> bool {
        self.explains.get()
    }

    /// The result of a step that has failed with the connection's last error, as the function that has prepared the statement tells it.
    pub(crate) fn failed_step(&self, handle: &Handle, code: c_int) -> c_int {
        if !self.by_sqlite.get() || self.is_legacy {
            // SAFETY: the connection is open.
            let extended = unsafe { ffi::sqlite3_extended_errcode(handle.db) };
            *self.failed.borrow_mut() = Some((extended, handle.last_message()));
        }
        match code & 0xff {
            ffi::SQLITE_BUSY | ffi::SQLITE_MISUSE => code,
            _ if self.is_legacy => handle.fail_with(ffi::SQLITE_ERROR, None),
            _ => code,
        }
    }

    /// # Safety
    /// Nobody uses the statement afterwards.
    unsafe fn finalize(&self) -> c_int {
        let handle = self.handle;
        let entered = self.enter();
        let code = self.end(&entered);
        let this = ptr::from_ref(self).cast_mut();
        {
            let mut open = entered.statements.borrow_mut();
            if let Some(place) = open.iter().rposition(|it| *it == this) {
                open.remove(place);
            }
        }
        if !entered.is_inherited() {
            // SAFETY: the statement is open or null.
            unsafe { ffi::sqlite3_finalize(self.mirror.get()) };
        }
        // SAFETY: `new` has made it of a box, and nobody uses it any more.
        let ours = unsafe { Box::from_raw(this) };
        match ours.compiled.take() {
            // The engine lets it be.
            Some(compiled) if entered.is_inherited() => drop(compiled),
            // What it was bound to goes with the values.
            Some(compiled) => {
                // SAFETY: the statement is open.
                unsafe { ffi::sqlite3_clear_bindings(ours.raw.get()) };
                let may_be_kept = !entered.is_called_back() && !ours.explains.get();
                if may_be_kept {
                    let _ = entered.engine(|it| {
                        it.keep_compiled(compiled);
                        Ok(())
                    });
                } else {
                    drop(compiled);
                }
            }
            None if entered.is_inherited() => {}
            // SAFETY: the statement is open, and belongs to this one.
            None => drop(unsafe { ffi::sqlite3_finalize(ours.raw.get()) }),
        }
        for given in ours.given.take().into_iter().flatten() {
            entered.nested(|| given.destroy());
        }
        drop(entered);
        // SAFETY: a connection is not closed before its statements.
        let handle = unsafe { &*handle };
        // SAFETY: the statement was the last that the caller has of it, or it stays open.
        unsafe { handle.close_if_unused() };
        code
    }
}

impl Handle {
    /// The text of the connection's last error.
    pub(crate) fn last_message(&self) -> CString {
        // SAFETY: the connection is open.
        let text = unsafe { ffi::sqlite3_errmsg(self.db) };
        // SAFETY: a zero-terminated text, until the next call.
        unsafe { CStr::from_ptr(text) }.to_owned()
    }

    /// Makes an error that was told before the connection's last one again.
    pub(crate) fn tell_again(&self, code: c_int, text: &CStr) -> c_int {
        // A text that is SQLite's own for the code it has without being given it.
        // SAFETY: any code has a text.
        let own = unsafe { ffi::sqlite3_errstr(code) };
        // SAFETY: a zero-terminated text, which stays.
        let own = unsafe { CStr::from_ptr(own) };
        let text = if text == own { ptr::null() } else { text.as_ptr() };
        // SAFETY: the connection is open, the text zero-terminated or null.
        unsafe { ffi::sqlite3_set_errmsg(self.db, code, text) };
        self.code(code)
    }

    /// Makes a statement of ours of one that was compiled, and forgets what an earlier owner has bound to it.
    pub(crate) fn add(
        &self,
        compiled: Option<CompiledStatement>,
        raw: *mut ffi::sqlite3_stmt,
        (sql, is_legacy): (&[u8], bool),
    ) -> *mut ffi::sqlite3_stmt {
        // SAFETY: the statement is open.
        unsafe { ffi::sqlite3_clear_bindings(raw) };
        // SAFETY: the statement is open.
        let parameters = unsafe { ffi::sqlite3_bind_parameter_count(raw) };
        let statement = Box::into_raw(Box::new(Statement {
            magic: MAGIC,
            handle: self,
            raw: Cell::new(raw),
            is_unbound: Cell::new(false),
            compiled: RefCell::new(compiled),
            sql: CString::new(sql).unwrap_or_default(),
            values: RefCell::new(vec![Value::Null; parameters.unsigned_abs() as usize]),
            has_pointers: Cell::new(false),
            is_legacy,
            explains: Cell::new(false),
            running: RefCell::new(Running::Not),
            given: RefCell::default(),
            by_sqlite: Cell::new(false),
            failed: RefCell::default(),
            mirror: Cell::new(ptr::null_mut()),
            row: Cell::default(),
        }));
        self.statements.borrow_mut().push(statement);
        statement.cast()
    }
}

/// The encodings of a text that is bound.
pub(crate) const UTF8: c_uchar = ffi::SQLITE_UTF8 as c_uchar;
