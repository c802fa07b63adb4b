//! Reading columns and values, by every function there is, in any order.

use super::Player;
use crate::action::Reader;
use crate::call;
use crate::library::{Api, Stmt, Value};
use crate::memory;

impl Player {
    /// Every column of the row, and what the functions say about the place before the first.
    pub fn read_row(&self, stmt: *mut Stmt, read: &[Reader]) {
        let count = call!(self.api, data_count(stmt));
        self.log.value("data_count", count);
        for column in 0..count {
            self.read_column(stmt, column, read);
        }
    }

    pub fn column(&self, statement: usize, column: i32, read: &[Reader]) {
        let Some(stmt) = self.stmt(statement) else { return };
        self.read_column(stmt, column, read);
    }

    fn read_column(&self, stmt: *mut Stmt, column: i32, read: &[Reader]) {
        let api = self.api;
        for reader in read {
            let text = match reader {
                Reader::Type | Reader::NumericType => {
                    call!(api, column_type(stmt, column)).to_string()
                }
                Reader::Int => call!(api, column_int(stmt, column)).to_string(),
                Reader::Int64 => call!(api, column_int64(stmt, column)).to_string(),
                Reader::Double => format!("{:?}", call!(api, column_double(stmt, column))),
                Reader::Text => {
                    let text = call!(api, column_text(stmt, column));
                    memory::bytes(text.cast(), call!(api, column_bytes(stmt, column)))
                }
                Reader::Text16 | Reader::Text16Le | Reader::Text16Be => {
                    let text = call!(api, column_text16(stmt, column));
                    memory::bytes16(
                        text,
                        call!(api, column_bytes16(stmt, column)),
                        u16::from_ne_bytes,
                    )
                }
                Reader::Blob => {
                    let blob = call!(api, column_blob(stmt, column));
                    memory::bytes(blob, call!(api, column_bytes(stmt, column)))
                }
                Reader::Bytes => call!(api, column_bytes(stmt, column)).to_string(),
                Reader::Bytes16 => call!(api, column_bytes16(stmt, column)).to_string(),
                Reader::Value | Reader::Subtype | Reader::Flags => {
                    self.read_copy(call!(api, column_value(stmt, column)))
                }
            };
            self.log.value(&format!("column {column} as {reader:?}"), text);
        }
    }

    /// The column's own value is unprotected: only a copy of it may be asked.
    fn read_copy(&self, original: *mut Value) -> String {
        let copy = call!(self.api, value_dup(original));
        if copy.is_null() {
            return "no value".into();
        }
        let text = self.read_value(copy, Reader::Flags) + &self.read_value(copy, Reader::Text);
        call!(self.api, value_free(copy));
        text
    }

    pub fn ask_value(&self, value: usize, read: &[Reader]) {
        let Some(value) = self.values[value] else { return };
        for reader in read {
            self.log.value(&format!("value as {reader:?}"), self.read_value(value, *reader));
        }
    }

    fn read_value(&self, value: *mut Value, reader: Reader) -> String {
        value_text(self.api, value, reader)
    }
}

/// A protected value, read by one function.
pub fn value_text(api: &Api, value: *mut Value, reader: Reader) -> String {
    match reader {
        Reader::Type => call!(api, value_type(value)).to_string(),
        Reader::NumericType => call!(api, value_numeric_type(value)).to_string(),
        Reader::Int => call!(api, value_int(value)).to_string(),
        Reader::Int64 => call!(api, value_int64(value)).to_string(),
        Reader::Double => format!("{:?}", call!(api, value_double(value))),
        Reader::Text => {
            let text = call!(api, value_text(value));
            memory::bytes(text.cast(), call!(api, value_bytes(value)))
        }
        Reader::Text16 => {
            let text = call!(api, value_text16(value));
            memory::bytes16(text, call!(api, value_bytes16(value)), u16::from_ne_bytes)
        }
        Reader::Text16Le => {
            let text = call!(api, value_text16le(value));
            memory::bytes16(text, call!(api, value_bytes16(value)), u16::from_le_bytes)
        }
        Reader::Text16Be => {
            // The count is asked first: value_bytes16 turns the text into this machine's order.
            let length = call!(api, value_bytes16(value));
            memory::bytes16(call!(api, value_text16be(value)), length, u16::from_be_bytes)
        }
        Reader::Blob => {
            let blob = call!(api, value_blob(value));
            memory::bytes(blob, call!(api, value_bytes(value)))
        }
        Reader::Bytes => call!(api, value_bytes(value)).to_string(),
        Reader::Bytes16 => call!(api, value_bytes16(value)).to_string(),
        Reader::Subtype => call!(api, value_subtype(value)).to_string(),
        Reader::Value | Reader::Flags => format!(
            "type {} encoding {} unchanged {} bound {} subtype {} ",
            call!(api, value_type(value)),
            value_encoding(api, value),
            call!(api, value_nochange(value)),
            call!(api, value_frombind(value)),
            call!(api, value_subtype(value)),
        ),
    }
}

/// Only a text has an encoding: of another value SQLite says what stood there before.
fn value_encoding(api: &Api, value: *mut Value) -> i32 {
    const TEXT: i32 = 3;
    if call!(api, value_type(value)) == TEXT { call!(api, value_encoding(value)) } else { 0 }
}
