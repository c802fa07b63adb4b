//! Compiling, stepping, resetting and finalizing statements.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use super::{Player, Prepared};
use crate::action::{Length, PrepareCall, Reader};
use crate::call;
use crate::library::{Db, Stmt};
use crate::memory;

const SQLITE_ROW: c_int = 100;
/// A statement of a round has few rows. More than so many mean a statement that never ends.
const ROWS_MAX: usize = 2_000;

impl Player {
    /// The statement in a slot.
    pub fn stmt(&self, statement: usize) -> Option<*mut Stmt> {
        self.statements[statement].map(|prepared| prepared.pointer)
    }

    pub fn prepare(
        &mut self,
        statement: usize,
        connection: usize,
        call: PrepareCall,
        sql: &str,
        length: Length,
    ) {
        let Some(db) = self.db(connection) else { return };
        self.finalize(statement);
        let (code, pointer, tail) = match call {
            PrepareCall::Prepare | PrepareCall::V2 | PrepareCall::V3(_) => {
                self.prepare_utf8(db, call, sql, length)
            }
            _ => self.prepare_utf16(db, call, sql, length),
        };
        self.log.code("prepare", code);
        self.log.value("prepare's tail", tail);
        self.log.value("prepare gave a statement", !pointer.is_null());
        if code != 0 {
            self.log.message("errmsg after prepare", memory::text(call!(self.api, errmsg(db))));
            self.log.value("error_offset after prepare", call!(self.api, error_offset(db)));
        }
        if !pointer.is_null() {
            self.log.name(pointer.cast(), format!("statement {statement}"));
            self.statements[statement] = Some(Prepared { pointer, connection: Some(connection) });
        }
    }

    fn prepare_utf8(
        &self,
        db: *mut Db,
        call: PrepareCall,
        sql: &str,
        length: Length,
    ) -> (c_int, *mut Stmt, String) {
        let text = memory::c_text(&self.sql(sql));
        let count = byte_count(text.as_bytes().len(), 1, length);
        let start = text.as_ptr();
        let mut stmt: *mut Stmt = ptr::null_mut();
        let mut tail: *const c_char = ptr::null();
        let code = match call {
            PrepareCall::Prepare => {
                call!(self.api, prepare(db, start, count, &mut stmt, &mut tail))
            }
            PrepareCall::V3(flags) => {
                call!(self.api, prepare_v3(db, start, count, flags, &mut stmt, &mut tail))
            }
            _ => call!(self.api, prepare_v2(db, start, count, &mut stmt, &mut tail)),
        };
        (code, stmt, distance(start.cast(), tail.cast()))
    }

    fn prepare_utf16(
        &self,
        db: *mut Db,
        call: PrepareCall,
        sql: &str,
        length: Length,
    ) -> (c_int, *mut Stmt, String) {
        let text = memory::utf16(&self.sql(sql));
        let count = byte_count((text.len() - 1) * 2, 2, length);
        let start: *const c_void = text.as_ptr().cast();
        let mut stmt: *mut Stmt = ptr::null_mut();
        let mut tail: *const c_void = ptr::null();
        let code = match call {
            PrepareCall::Utf16 => {
                call!(self.api, prepare16(db, start, count, &mut stmt, &mut tail))
            }
            PrepareCall::Utf16V3(flags) => {
                call!(self.api, prepare16_v3(db, start, count, flags, &mut stmt, &mut tail))
            }
            _ => call!(self.api, prepare16_v2(db, start, count, &mut stmt, &mut tail)),
        };
        (code, stmt, distance(start, tail))
    }

    pub fn step(&mut self, statement: usize, times: usize, read: &[Reader]) {
        let Some(stmt) = self.stmt(statement) else { return };
        for _ in 0..times {
            if !self.step_once(stmt, read) {
                break;
            }
        }
    }

    /// Steps once and reads the row; says whether there was one.
    fn step_once(&self, stmt: *mut Stmt, read: &[Reader]) -> bool {
        let code = call!(self.api, step(stmt));
        self.log.code("step", code);
        if code == SQLITE_ROW {
            self.read_row(stmt, read);
        } else if code != 101 {
            let db = call!(self.api, db_handle(stmt));
            if !self.log.slot(db.cast()).starts_with("connection") {
                return false;
            }
            self.log.message("errmsg after step", memory::text(call!(self.api, errmsg(db))));
        }
        code == SQLITE_ROW
    }

    pub fn reset(&mut self, statement: usize) {
        let Some(stmt) = self.stmt(statement) else { return };
        self.log.code("reset", call!(self.api, reset(stmt)));
    }

    pub fn finalize(&mut self, statement: usize) {
        let Some(prepared) = self.statements[statement].take() else { return };
        self.log.code("finalize", call!(self.api, finalize(prepared.pointer)));
        self.log.forget(prepared.pointer.cast());
    }

    /// Every statement of a script, as a shell executes it: the tail of each is the next one's text.
    pub fn script(&mut self, connection: usize, sql: &str, read: &[Reader]) {
        let Some(db) = self.db(connection) else { return };
        let text = memory::c_text(&self.sql(sql));
        let mut rest = text.as_ptr();
        // Each turn consumes at least one byte of the text, or the script is over.
        for _ in 0..=sql.len() {
            let mut stmt: *mut Stmt = ptr::null_mut();
            let mut tail: *const c_char = ptr::null();
            let code = call!(self.api, prepare_v2(db, rest, -1, &mut stmt, &mut tail));
            self.log.code("prepare_v2", code);
            self.log.value("tail", distance(text.as_ptr().cast(), tail.cast()));
            if code != 0 {
                self.log.message("errmsg", memory::text(call!(self.api, errmsg(db))));
                return;
            }
            if !stmt.is_null() {
                let rows = (0..ROWS_MAX).take_while(|_| self.step_once(stmt, read)).count();
                self.log.value("rows", rows);
                self.log.code("finalize", call!(self.api, finalize(stmt)));
            }
            if tail == rest || tail.is_null() {
                return;
            }
            rest = tail;
        }
    }

    /// What the functions answer that take NULL for a statement.
    pub fn no_statement(&self) {
        let none: *mut Stmt = ptr::null_mut();
        self.log.code("finalize(NULL)", call!(self.api, finalize(none)));
        self.log.code("reset(NULL)", call!(self.api, reset(none)));
        self.log.code("step(NULL)", call!(self.api, step(none)));
        self.log.code("bind_int(NULL)", call!(self.api, bind_int(none, 1, 1)));
        self.log.code("bind_null(NULL)", call!(self.api, bind_null(none, 1)));
        self.log.value("sql(NULL)", memory::text(call!(self.api, sql(none))));
        self.log.value("expanded_sql(NULL)", memory::text(call!(self.api, expanded_sql(none))));
        self.log.value("column_count(NULL)", call!(self.api, column_count(none)));
        self.log.value("data_count(NULL)", call!(self.api, data_count(none)));
        self.log.value("db_handle(NULL)", call!(self.api, db_handle(none)).is_null());
        self.log.value("stmt_readonly(NULL)", call!(self.api, stmt_readonly(none)));
        self.log.value("stmt_busy(NULL)", call!(self.api, stmt_busy(none)));
        self.log.value("stmt_isexplain(NULL)", call!(self.api, stmt_isexplain(none)));
        let count = call!(self.api, bind_parameter_count(none));
        self.log.value("bind_parameter_count(NULL)", count);
        let index = call!(self.api, bind_parameter_index(none, c":a".as_ptr()));
        self.log.value("bind_parameter_index(NULL)", index);
        let name = call!(self.api, bind_parameter_name(none, 1));
        self.log.value("bind_parameter_name(NULL)", memory::text(name));
        self.log.value("column_int(NULL)", call!(self.api, column_int(none, 0)));
        self.log.value("column_type(NULL)", call!(self.api, column_type(none, 0)));
        self.log.code("close(NULL)", call!(self.api, close(ptr::null_mut())));
        self.log.code("close_v2(NULL)", call!(self.api, close_v2(ptr::null_mut())));
        let message = call!(self.api, errmsg(ptr::null_mut()));
        self.log.message("errmsg(NULL)", memory::text(message));
        self.log.code("errcode(NULL)", call!(self.api, errcode(ptr::null_mut())));
    }
}

fn byte_count(bytes: usize, unit: usize, length: Length) -> c_int {
    let count = match length {
        Length::ToNul => return -1,
        Length::Exact => bytes,
        Length::WithNul => bytes + unit,
        // An odd count of a UTF-16 text is part of the game.
        Length::Cut(count) => count.min(bytes),
    };
    c_int::try_from(count).expect("texts of a round are short")
}

/// How far a tail lies behind its text.
fn distance(start: *const c_void, tail: *const c_void) -> String {
    if tail.is_null() {
        return "NULL".into();
    }
    tail.addr().wrapping_sub(start.addr()).to_string()
}
