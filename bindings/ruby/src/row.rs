//! The values of a statement's current row.

use magnus::value::ReprValue;
use magnus::{Error, RArray, RString, Ruby};

use crate::ffi::{self, sqlite};
use crate::statement::Open;
use crate::value::{self, Stored};

impl Open<'_> {
    /// The values of the current row.
    pub(crate) fn row(&self, ruby: &Ruby) -> Result<RArray, Error> {
        let columns = sqlite!(sqlite3_column_count(self.raw));
        let row = ruby.ary_new_capa(usize::try_from(columns).unwrap_or(0));
        let internal = ruby.enc_default_internal();
        for column in 0..columns {
            let stored = self.column(column);
            let mut value = stored.to_ruby(ruby);
            if let (Stored::Text(_), Some(encoding)) = (&stored, internal)
                && let Some(text) = RString::from_value(value)
            {
                value = text.funcall("encode", (encoding,))?;
                value.freeze();
            }
            row.push(value)?;
        }
        row.freeze();
        Ok(row)
    }

    fn column(&self, column: i32) -> Stored<'_> {
        let raw = self.raw;
        match sqlite!(sqlite3_column_type(raw, column)) {
            ffi::SQLITE_INTEGER => Stored::Integer(sqlite!(sqlite3_column_int64(raw, column))),
            ffi::SQLITE_FLOAT => Stored::Real(sqlite!(sqlite3_column_double(raw, column))),
            ffi::SQLITE_TEXT => {
                let start = sqlite!(sqlite3_column_text(raw, column));
                let count = sqlite!(sqlite3_column_bytes(raw, column));
                // SAFETY: they stay until the next step, and the row is read before.
                Stored::Text(unsafe { value::bytes(start, count) })
            }
            ffi::SQLITE_BLOB => {
                let start = sqlite!(sqlite3_column_blob(raw, column));
                let count = sqlite!(sqlite3_column_bytes(raw, column));
                // SAFETY: the same.
                Stored::Blob(unsafe { value::bytes(start.cast(), count) })
            }
            _ => Stored::Null,
        }
    }
}
