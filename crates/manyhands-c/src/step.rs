//! Stepping a statement: where it is executed is decided here, by asking the engine.

use core::ffi::c_int;
use std::fmt::Write as _;
use std::ptr;

use manyhands::driver::{ConnectionExt, Started};
use manyhands::{RowBuffer, ValueRef};

use crate::ffi;
use crate::handle::Handle;
use crate::planted::planted;
use crate::statement::{Rows, Running, Statement, UTF8};

c_api! {
    /// Runs a statement to its next row, or to its end (<https://sqlite.org/c3ref/step.html>).
    fn sqlite3_step(statement: *mut ffi::sqlite3_stmt) -> c_int {
        // SAFETY: the caller has promised null or an open statement.
        let Some(ours) = (unsafe { Statement::of(statement) }) else {
            // SAFETY: SQLite's own statement, or null.
            return unsafe { ffi::sqlite3_step(statement) };
        };
        let entered = ours.enter();
        ours.step(&entered)
    }

    /// Ends the execution of a statement, which can be executed again. Tells the error of its last step again.
    fn sqlite3_reset(statement: *mut ffi::sqlite3_stmt) -> c_int {
        // SAFETY: the caller has promised null or an open statement.
        let Some(ours) = (unsafe { Statement::of(statement) }) else {
            // SAFETY: SQLite's own statement, or null.
            return unsafe { ffi::sqlite3_reset(statement) };
        };
        let entered = ours.enter();
        ours.end(&entered)
    }
}

impl Statement {
    fn step(&self, handle: &Handle) -> c_int {
        if handle.is_inherited() {
            *self.running.borrow_mut() = Running::Ended;
            return self.failed_step(handle, handle.refuse_inherited());
        }
        // Whatever comes of it: it has ended, unless it is said otherwise.
        match self.running.replace(Running::Ended) {
            Running::Shows(rows) => self.show_next(handle, rows),
            Running::Stepped => self.step_raw(handle),
            Running::Not => self.start(handle),
            Running::Ended => {
                // As SQLite does: the step after the last one begins anew. With one that explains it does what it likes.
                // SAFETY: the statement is open.
                if unsafe { ffi::sqlite3_stmt_isexplain(self.raw.get()) } == 0 {
                    self.end(handle);
                    *self.running.borrow_mut() = Running::Ended;
                }
                self.start(handle)
            }
        }
    }

    /// The first step.
    fn start(&self, handle: &Handle) -> c_int {
        self.by_sqlite.set(false);
        if handle.is_called_back() || self.is_alone() {
            return self.start_alone(handle);
        }
        let mut compiled = self.compiled.borrow_mut();
        let Some(statement) = &mut *compiled else { return self.start_alone(handle) };
        let values = self.values.borrow();
        let given = if planted("c-values-lost") { &[] } else { values.as_slice() };
        let started = handle.engine(|it| it.start_compiled(statement, given));
        let raw = statement.as_ptr().cast();
        let counts = statement.changes_rows();
        drop((compiled, values));
        if self.raw.replace(raw) != raw {
            self.is_unbound.set(true);
        }
        match started {
            Ok(Started::ByDriver) => {
                self.bind_again();
                if counts {
                    // SQLite counts.
                    handle.counted.take();
                }
                self.step_raw(handle)
            }
            Ok(Started::Executed(execution)) => {
                self.bind_again();
                if counts {
                    *handle.counted.borrow_mut() = Some(execution.outcome);
                }
                match execution.rows {
                    None => handle.succeed(ffi::SQLITE_DONE),
                    Some(cursor) => self.show_next(handle, Rows { cursor, shown: self.row.take() }),
                }
            }
            Err(_) if planted("c-failure-is-done") => handle.succeed(ffi::SQLITE_DONE),
            Err(code) => {
                if counts {
                    // What a statement counts that has failed, or was refused, the engine knows.
                    handle.counted.take();
                }
                self.failed_step(handle, code)
            }
        }
    }

    /// True for a statement that no other connection could execute, whatever it does.
    fn is_alone(&self) -> bool {
        self.has_pointers.get() || self.is_explained() || self.compiled.borrow().is_none()
    }

    /// The first step of a statement of which the engine knows nothing: one that writes, or belongs to a transaction, holds the turn.
    fn start_alone(&self, handle: &Handle) -> c_int {
        // SAFETY: the statement is open.
        let is_read_only = unsafe { ffi::sqlite3_stmt_readonly(self.raw.get()) } != 0;
        // SAFETY: the connection is open.
        let outside = unsafe { ffi::sqlite3_get_autocommit(handle.db) } != 0;
        if handle.is_called_back() || is_read_only && outside {
            return self.step_raw(handle);
        }
        let step = || self.step_raw(handle);
        let stepped = if is_read_only {
            handle.engine(|it| it.read_alone(step))
        } else {
            handle.engine(|it| it.work_in_turn(step))
        };
        stepped.unwrap_or_else(|code| self.failed_step(handle, code))
    }

    /// Steps SQLite's own statement.
    fn step_raw(&self, handle: &Handle) -> c_int {
        self.by_sqlite.set(true);
        // SAFETY: the statement is open.
        let code = handle.nested(|| unsafe { ffi::sqlite3_step(self.raw.get()) });
        match code {
            ffi::SQLITE_ROW => *self.running.borrow_mut() = Running::Stepped,
            ffi::SQLITE_DONE => {}
            _ => {
                if !handle.is_called_back() {
                    self.note_failure(handle);
                }
                return self.failed_step(handle, code);
            }
        }
        code
    }

    /// The error may have ended the transaction: the engine looks, and the error stays the last one.
    fn note_failure(&self, handle: &Handle) {
        // SAFETY: the connection is open.
        if unsafe { ffi::sqlite3_get_autocommit(handle.db) } == 0 {
            return;
        }
        // SAFETY: the connection is open.
        let code = unsafe { ffi::sqlite3_extended_errcode(handle.db) };
        let text = handle.last_message();
        let _ = handle.engine(|it| {
            it.note_failed_step();
            Ok(())
        });
        handle.tell_again(code, &text);
    }

    /// Shows the next row that the engine has given.
    fn show_next(&self, handle: &Handle, mut rows: Rows) -> c_int {
        rows.shown.clear();
        let Rows { cursor, shown } = &mut rows;
        match handle.engine(|_| cursor.fetch(shown, 1)) {
            Ok(0) => {
                self.let_go(handle, rows);
                handle.succeed(ffi::SQLITE_DONE)
            }
            Ok(_) if self.mirror(handle, shown) => {
                *self.running.borrow_mut() = Running::Shows(rows);
                handle.succeed(ffi::SQLITE_ROW)
            }
            Ok(_) => self.failed_step(handle, handle.fail_with(ffi::SQLITE_NOMEM, None)),
            Err(code) => self.failed_step(handle, code),
        }
    }

    /// No more rows are shown. The transaction's log is told.
    fn let_go(&self, handle: &Handle, Rows { cursor, mut shown }: Rows) {
        handle.nested(|| drop(cursor));
        shown.clear();
        self.row.set(shown);
    }

    /// Makes the mirror show a row: `SELECT ?1, ?2`, with the row's values. False where SQLite has no memory.
    fn mirror(&self, handle: &Handle, row: &RowBuffer) -> bool {
        // SAFETY: the statement is open.
        let columns = unsafe { ffi::sqlite3_column_count(self.raw.get()) }.unsigned_abs() as usize;
        if self.mirror.get().is_null() {
            let mut sql = "SELECT ?1".to_string();
            for column in 2..=columns {
                let _ = write!(sql, ",?{column}");
            }
            let (length, mut mirror) = (sql.len() as c_int, ptr::null_mut());
            // SAFETY: an open connection, or null, a text of this length, a place for the result.
            unsafe {
                ffi::sqlite3_prepare_v2(
                    handle.rows(),
                    sql.as_ptr().cast(),
                    length,
                    &raw mut mirror,
                    ptr::null_mut(),
                );
            }
            self.mirror.set(mirror);
        }
        let mirror = self.mirror.get();
        if mirror.is_null() {
            return false;
        }
        // SAFETY: the mirror is open.
        unsafe { ffi::sqlite3_reset(mirror) };
        for column in 0..columns {
            let index = column as c_int + 1;
            let stays = ffi::SQLITE_STATIC();
            match row.value(0, column) {
                // SAFETY: the mirror is open.
                ValueRef::Null => unsafe { ffi::sqlite3_bind_null(mirror, index) },
                // SAFETY: the same.
                ValueRef::Integer(number) => unsafe {
                    ffi::sqlite3_bind_int64(mirror, index, number)
                },
                // SAFETY: the same.
                ValueRef::Real(number) => unsafe {
                    ffi::sqlite3_bind_double(mirror, index, number)
                },
                ValueRef::Text(text) => {
                    let (bytes, count) = (text.as_ptr().cast(), text.len() as u64);
                    // SAFETY: the same; and the row stays until the mirror shows the next one.
                    unsafe { ffi::sqlite3_bind_text64(mirror, index, bytes, count, stays, UTF8) }
                }
                ValueRef::Blob(blob) => {
                    let (bytes, count) = (blob.as_ptr().cast(), blob.len() as u64);
                    // SAFETY: the same.
                    unsafe { ffi::sqlite3_bind_blob64(mirror, index, bytes, count, stays) }
                }
            };
        }
        // SAFETY: the mirror is open.
        (unsafe { ffi::sqlite3_step(mirror) }) == ffi::SQLITE_ROW
    }

    /// Binds what was bound, if the statement of SQLite's is another one since. That makes the connection's last error none.
    pub(crate) fn bind_again(&self) {
        if !self.is_unbound.replace(false) {
            return;
        }
        let raw = self.raw.get();
        for (place, value) in self.values.borrow().iter().enumerate() {
            let (index, stays) = (place as c_int + 1, ffi::SQLITE_STATIC());
            match value.as_ref() {
                // It is NULL already.
                ValueRef::Null => ffi::SQLITE_OK,
                // SAFETY: the statement is open.
                ValueRef::Integer(number) => unsafe { ffi::sqlite3_bind_int64(raw, index, number) },
                // SAFETY: the same.
                ValueRef::Real(number) => unsafe { ffi::sqlite3_bind_double(raw, index, number) },
                ValueRef::Text(text) => {
                    let (bytes, count) = (text.as_ptr().cast(), text.len() as u64);
                    // SAFETY: the same; and the bytes stay while they are bound.
                    unsafe { ffi::sqlite3_bind_text64(raw, index, bytes, count, stays, UTF8) }
                }
                ValueRef::Blob(blob) => {
                    let (bytes, count) = (blob.as_ptr().cast(), blob.len() as u64);
                    // SAFETY: the same.
                    unsafe { ffi::sqlite3_bind_blob64(raw, index, bytes, count, stays) }
                }
            };
        }
    }

    /// Ends what runs, as `sqlite3_reset` does. Gives the result of the last step if it has failed, which is the connection's last one
    /// again.
    pub(crate) fn end(&self, handle: &Handle) -> c_int {
        match self.running.replace(Running::Not) {
            Running::Not => return ffi::SQLITE_OK,
            Running::Shows(_) if handle.is_inherited() => {}
            Running::Shows(rows) => {
                // What it shows goes now.
                // SAFETY: the mirror is open, or null.
                unsafe { ffi::sqlite3_reset(self.mirror.get()) };
                self.let_go(handle, rows);
            }
            Running::Stepped | Running::Ended => {}
        }
        let failed = self.failed.take();
        if self.by_sqlite.get() && !handle.is_inherited() {
            // SAFETY: the statement is open.
            let code = handle.nested(|| unsafe { ffi::sqlite3_reset(self.raw.get()) });
            if failed.is_none() {
                return code;
            }
        }
        match failed {
            Some((code, text)) => handle.tell_again(code, &text),
            None => handle.succeed(ffi::SQLITE_OK),
        }
    }

    /// Values are bound before the first step.
    pub(crate) fn may_be_bound(&self) -> bool {
        matches!(*self.running.borrow(), Running::Not)
    }
}
