//! The five types of SQLite's values.

use core::ffi::c_int;
use core::num::TryFromIntError;
use std::borrow::Cow;
use std::str::Utf8Error;
use std::sync::Arc;

use libsqlite3_sys as ffi;

use serde::{Deserialize, Serialize};

/// SQLite's TEXT: usually UTF-8, but SQLite stores whatever bytes it is given.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Text(#[serde(with = "serde_bytes")] Vec<u8>);

impl Text {
    /// Text of any bytes.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Text {
        Text(bytes.into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, if it is UTF-8.
    ///
    /// # Errors
    /// When it is not.
    pub fn to_str(&self) -> Result<&str, Utf8Error> {
        str::from_utf8(&self.0)
    }

    /// The text, with a replacement character in the place of bytes that are not UTF-8.
    pub fn to_string_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_string_lossy().fmt(f)
    }
}

/// A value that owns its bytes.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub enum Value {
    /// NULL.
    #[default]
    Null,
    /// INTEGER: 64 bits, signed.
    Integer(i64),
    /// REAL: a 64-bit IEEE float.
    Real(f64),
    /// TEXT.
    Text(Text),
    /// BLOB.
    Blob(#[serde(with = "serde_bytes")] Vec<u8>),
}

/// A value that borrows its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum ValueRef<'a> {
    /// NULL.
    Null,
    /// INTEGER: 64 bits, signed.
    Integer(i64),
    /// REAL: a 64-bit IEEE float.
    Real(f64),
    /// TEXT: usually UTF-8.
    Text(#[serde(borrow, with = "serde_bytes")] &'a [u8]),
    /// BLOB.
    Blob(#[serde(borrow, with = "serde_bytes")] &'a [u8]),
}

impl ValueRef<'_> {
    /// SQLite's name of the type: `null`, `integer`, `real`, `text` or `blob`.
    pub fn type_name(self) -> &'static str {
        match self {
            ValueRef::Null => "null",
            ValueRef::Integer(_) => "integer",
            ValueRef::Real(_) => "real",
            ValueRef::Text(_) => "text",
            ValueRef::Blob(_) => "blob",
        }
    }

    /// A copy that owns its bytes.
    pub fn to_owned(self) -> Value {
        match self {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Integer(number),
            ValueRef::Real(number) => Value::Real(number),
            ValueRef::Text(bytes) => Value::Text(Text::from_bytes(bytes)),
            ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
        }
    }
}

impl Value {
    /// The value, borrowed.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }
    }

    /// SQLite's name of the type: `null`, `integer`, `real`, `text` or `blob`.
    pub fn type_name(&self) -> &'static str {
        self.as_ref().type_name()
    }
}

macro_rules! value_from {
    ($($from:ty, $name:ident => $value:expr;)*) => {
        $(impl From<$from> for Value {
            fn from($name: $from) -> Value {
                $value
            }
        })*
    };
}

value_from! {
    i64, number => Value::Integer(number);
    i32, number => Value::Integer(number.into());
    i16, number => Value::Integer(number.into());
    i8, number => Value::Integer(number.into());
    isize, number => Value::Integer(number as i64);
    u32, number => Value::Integer(number.into());
    u16, number => Value::Integer(number.into());
    u8, number => Value::Integer(number.into());
    bool, truth => Value::Integer(truth.into());
    f64, number => Value::Real(number);
    f32, number => Value::Real(number.into());
    Text, text => Value::Text(text);
    &str, text => Value::Text(Text::from_bytes(text));
    String, text => Value::Text(Text::from_bytes(text));
    &String, text => Value::Text(Text::from_bytes(text.as_str()));
    Vec<u8>, bytes => Value::Blob(bytes);
    &[u8], bytes => Value::Blob(bytes.to_vec());
    ValueRef<'_>, value => value.to_owned();
    &Value, value => value.clone();
    &Text, text => Value::Text(text.clone());
    Box<str>, text => Value::Text(Text::from_bytes(String::from(text)));
    Arc<str>, text => Value::Text(Text::from_bytes(&*text));
    Cow<'_, str>, text => Value::Text(Text::from_bytes(text.into_owned()));
    &Vec<u8>, bytes => Value::Blob(bytes.clone());
}

macro_rules! value_from_reference {
    ($($from:ty)*) => {
        $(impl From<&$from> for Value {
            fn from(value: &$from) -> Value {
                (*value).into()
            }
        })*
    };
}

value_from_reference! { i64 i32 i16 i8 isize u32 u16 u8 bool f64 f32 &str }

macro_rules! value_try_from {
    ($($from:ty)*) => {
        $(/// Fails for what is larger than SQLite's largest INTEGER.
        impl TryFrom<$from> for Value {
            type Error = TryFromIntError;

            fn try_from(number: $from) -> Result<Value, TryFromIntError> {
                i64::try_from(number).map(Value::Integer)
            }
        })*
    };
}

value_try_from! { u64 usize }

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

impl<const LEN: usize> From<&[u8; LEN]> for Value {
    fn from(bytes: &[u8; LEN]) -> Value {
        Value::Blob(bytes.to_vec())
    }
}

/// The text that SQLite makes of a REAL.
pub fn real_as_text(number: f64) -> String {
    // The longest has 17 digits, a sign, a point and an exponent of 3 digits.
    let mut text = [0_u8; 64];
    // SAFETY: the format takes one floating-point number and no other argument; at most as many bytes are
    // written as there are.
    let written = unsafe {
        ffi::sqlite3_snprintf(
            text.len() as c_int,
            text.as_mut_ptr().cast(),
            c"%!.17g".as_ptr(),
            number,
        )
    };
    debug_assert!(!written.is_null());
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    String::from_utf8_lossy(&text[..end]).into_owned()
}
