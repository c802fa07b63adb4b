//! The functions that execute a whole text: exec and get_table.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use super::Player;
use super::registration::Registration;
use crate::action::Callback;
use crate::call;
use crate::memory;

impl Player {
    pub fn exec(&mut self, connection: usize, sql: &str, callback: Callback) {
        let Some(db) = self.db(connection) else { return };
        let answer = match callback {
            Callback::AbortAt(row) => i32::try_from(row).expect("few rows"),
            Callback::None | Callback::Rows => -1,
        };
        let data = self.register("exec".into(), answer);
        self.log.rows.set(0);
        let sql = memory::c_text(&self.sql(sql));
        let mut message: *mut c_char = ptr::null_mut();
        let code = match callback {
            Callback::None => call!(self.api, exec(db, sql.as_ptr(), None, data, &mut message)),
            _ => call!(self.api, exec(db, sql.as_ptr(), Some(on_row), data, &mut message)),
        };
        self.log.code("exec", code);
        self.log.message("exec's message", memory::text(message));
        call!(self.api, free(message.cast()));
    }

    pub fn get_table(&mut self, connection: usize, sql: &str) {
        let Some(db) = self.db(connection) else { return };
        let sql = memory::c_text(&self.sql(sql));
        let mut table: *mut *mut c_char = ptr::null_mut();
        let (mut rows, mut columns) = (-1, -1);
        let mut message: *mut c_char = ptr::null_mut();
        let code = call!(
            self.api,
            get_table(db, sql.as_ptr(), &mut table, &mut rows, &mut columns, &mut message)
        );
        self.log.code("get_table", code);
        self.log.message("get_table's message", memory::text(message));
        call!(self.api, free(message.cast()));
        if !table.is_null() {
            self.log.value("get_table's size", format!("{rows} {columns}"));
            for index in 0..(rows + 1) * columns {
                self.log.value("cell", memory::text(element(table, index)));
            }
            call!(self.api, free_table(table));
        }
    }
}

extern "C" fn on_row(
    data: *mut c_void,
    columns: c_int,
    values: *mut *mut c_char,
    names: *mut *mut c_char,
) -> c_int {
    let registration = Registration::of(data);
    let row: Vec<String> = (0..columns)
        .map(|column| {
            // A statement without a row has names only; SQLite then gives no values.
            let value = if values.is_null() { ptr::null() } else { element(values, column) };
            format!("{}={}", memory::text(element(names, column)), memory::text(value))
        })
        .collect();
    registration.log.value("exec's row", row.join(" "));
    let seen = registration.log.rows.get();
    registration.log.rows.set(seen + 1);
    c_int::from(usize::try_from(registration.answer) == Ok(seen))
}

fn element(array: *mut *mut c_char, index: c_int) -> *const c_char {
    let index = usize::try_from(index).expect("an index is not negative");
    let place = array.wrapping_add(index);
    // SAFETY: SQLite has said that the array has so many elements.
    unsafe { *place }
}
