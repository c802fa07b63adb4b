//! Binding values: all types, all lifetimes, in and out of range.

use std::ffi::c_int;

use super::Player;
use super::registration::destroy;
use crate::action::{Bound, Length, Lifetime};
use crate::call;
use crate::library::{Stmt, Value};
use crate::memory;

impl Player {
    pub fn bind(&mut self, statement: usize, index: i32, value: &Bound) {
        let Some(stmt) = self.stmt(statement) else { return };
        let api = self.api;
        let code = match value {
            Bound::Int(number) => call!(api, bind_int(stmt, index, *number)),
            Bound::Int64(number) => call!(api, bind_int64(stmt, index, *number)),
            Bound::Double(number) => call!(api, bind_double(stmt, index, *number)),
            Bound::Null => call!(api, bind_null(stmt, index)),
            Bound::ZeroBlob(count) => call!(api, bind_zeroblob(stmt, index, *count)),
            Bound::ZeroBlob64(count) => call!(api, bind_zeroblob64(stmt, index, *count)),
            Bound::Text { text, length, lifetime } => {
                self.bind_text(stmt, index, text, *length, *lifetime)
            }
            Bound::Text64 { text, encoding, lifetime } => {
                self.bind_text64(stmt, index, text, *encoding, *lifetime)
            }
            Bound::Text16 { text, length, lifetime } => {
                self.bind_text16(stmt, index, text, *length, *lifetime)
            }
            Bound::Blob { bytes, lifetime, long } => {
                self.bind_blob(stmt, index, bytes, *lifetime, *long)
            }
            Bound::Value(slot) => {
                let Some(value) = self.values[*slot] else { return };
                call!(api, bind_value(stmt, index, value))
            }
            Bound::ColumnValue { statement: other, column } => {
                let Some(other) = self.stmt(*other) else { return };
                let value: *mut Value = call!(api, column_value(other, *column));
                call!(api, bind_value(stmt, index, value))
            }
            Bound::Pointer => {
                let data = self.register("bound pointer".into(), 0);
                call!(api, bind_pointer(stmt, index, data, c"oracle".as_ptr(), Some(destroy)))
            }
        };
        self.log.code("bind", code);
    }

    pub fn bind_by_name(&mut self, statement: usize, name: &str, number: i32) {
        let Some(stmt) = self.stmt(statement) else { return };
        let name = memory::c_text(name);
        let index = call!(self.api, bind_parameter_index(stmt, name.as_ptr()));
        self.log.value("bind_parameter_index", index);
        self.log.code("bind_int", call!(self.api, bind_int(stmt, index, number)));
    }

    fn bind_text(
        &mut self,
        stmt: *mut Stmt,
        index: c_int,
        text: &str,
        length: Length,
        lifetime: Lifetime,
    ) -> c_int {
        let count = count_of(text.len(), 1, length);
        let (pointer, destructor, place) = self.lend(text.as_bytes(), lifetime);
        let code = call!(self.api, bind_text(stmt, index, pointer.cast(), count, destructor));
        self.take_back(place, lifetime);
        code
    }

    fn bind_text64(
        &mut self,
        stmt: *mut Stmt,
        index: c_int,
        text: &str,
        encoding: u8,
        lifetime: Lifetime,
    ) -> c_int {
        let bytes: Vec<u8> = match encoding {
            1 | 16 => text.as_bytes().to_vec(),
            3 => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            _ => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        };
        let (pointer, destructor, place) = self.lend(&bytes, lifetime);
        let count = bytes.len() as u64;
        let text = pointer.cast();
        let code = call!(self.api, bind_text64(stmt, index, text, count, destructor, encoding));
        self.take_back(place, lifetime);
        code
    }

    fn bind_text16(
        &mut self,
        stmt: *mut Stmt,
        index: c_int,
        text: &str,
        length: Length,
        lifetime: Lifetime,
    ) -> c_int {
        let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_ne_bytes).collect();
        let count = count_of(bytes.len(), 2, length);
        let (pointer, destructor, place) = self.lend(&bytes, lifetime);
        let code = call!(self.api, bind_text16(stmt, index, pointer, count, destructor));
        self.take_back(place, lifetime);
        code
    }

    fn bind_blob(
        &mut self,
        stmt: *mut Stmt,
        index: c_int,
        bytes: &[u8],
        lifetime: Lifetime,
        long: bool,
    ) -> c_int {
        let (pointer, destructor, place) = self.lend(bytes, lifetime);
        let code = if long {
            call!(self.api, bind_blob64(stmt, index, pointer, bytes.len() as u64, destructor))
        } else {
            let count = c_int::try_from(bytes.len()).expect("blobs of a round are short");
            call!(self.api, bind_blob(stmt, index, pointer, count, destructor))
        };
        self.take_back(place, lifetime);
        code
    }

    pub fn clear_bindings(&self, statement: usize) {
        let Some(stmt) = self.stmt(statement) else { return };
        self.log.code("clear_bindings", call!(self.api, clear_bindings(stmt)));
    }

    pub fn transfer_bindings(&self, from: usize, to: usize) {
        let (Some(source), Some(target)) = (self.statements[from], self.statements[to]) else {
            return;
        };
        // SQLite only asserts that both belong to one connection.
        if from != to && source.connection.is_some() && source.connection == target.connection {
            let code = call!(self.api, transfer_bindings(source.pointer, target.pointer));
            self.log.code("transfer_bindings", code);
        }
    }

    /// Keeps a copy of a column's value, which outlives its statement.
    pub fn keep_value(&mut self, statement: usize, column: i32, value: usize) {
        let Some(stmt) = self.stmt(statement) else { return };
        let original: *mut Value = call!(self.api, column_value(stmt, column));
        let copy = call!(self.api, value_dup(original));
        if let Some(old) = self.values[value].take() {
            call!(self.api, value_free(old));
        }
        self.log.value("value_dup gave a value", !copy.is_null());
        self.values[value] = (!copy.is_null()).then_some(copy);
    }
}

fn count_of(bytes: usize, unit: usize, length: Length) -> c_int {
    let count = match length {
        Length::ToNul => return -1,
        // A count that includes the nul is a text with a nul in it, which nobody may ask for: the whole text it is.
        Length::Exact | Length::WithNul => bytes,
        // A text may be cut within a character of UTF-8: a program may do that, and SQLite takes the bytes.
        Length::Cut(count) => count.min(bytes) / unit * unit,
    };
    c_int::try_from(count).expect("texts of a round are short")
}
