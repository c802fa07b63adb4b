//! SQLite's values as Rust types, and a row's columns by place or by name.

use core::fmt;
use std::borrow::Cow;
use std::error::Error as StdError;
use std::sync::Arc;

use manyhands_sqlite::{Text, Value, ValueRef};

use crate::Error;
use crate::error::ErrorKind;

/// A Rust type that a value can be read as. One that borrows, as `&str` and `&[u8]` do, copies nothing; it lives as long as
/// the row that it is read from.
///
/// | type | from |
/// |---|---|
/// | `i8` to `i64`, `u8` to `u64`, `isize`, `usize` | INTEGER that fits |
/// | `bool` | INTEGER; 0 is false |
/// | `f64`, `f32` | REAL, INTEGER |
/// | `&str`, `String`, `Box<str>`, `Arc<str>`, `Cow<str>` | TEXT that is UTF-8 |
/// | [`Text`] | TEXT of any bytes |
/// | `&[u8]`, `Vec<u8>`, `[u8; N]` | BLOB |
/// | `Option<T>` | NULL is `None` |
/// | [`Value`], [`ValueRef`] | all |
///
/// ```
/// use manyhands::{FromValue, FromValueError, ValueRef};
///
/// #[derive(Debug, PartialEq)]
/// enum Color {
///     Red,
///     Green,
/// }
///
/// impl FromValue<'_> for Color {
///     fn from_value(value: ValueRef<'_>) -> Result<Color, FromValueError> {
///         match <&str>::from_value(value)? {
///             "red" => Ok(Color::Red),
///             "green" => Ok(Color::Green),
///             other => Err(FromValueError::other(format!("{other} is no color"))),
///         }
///     }
/// }
///
/// # let directory = tempfile::tempdir()?;
/// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
/// let color = database.connect()?.query_row("SELECT 'green'", (), |row| row.get::<Color>(0))?;
/// assert_eq!(color, Color::Green);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait FromValue<'a>: Sized {
    /// The value as this type.
    ///
    /// # Errors
    /// When it is not one.
    fn from_value(value: ValueRef<'a>) -> Result<Self, FromValueError>;
}

/// Why a value could not be read as a Rust type.
#[derive(Debug)]
#[non_exhaustive]
pub enum FromValueError {
    /// It is of another of SQLite's types.
    Type,
    /// The number does not fit.
    Range(i64),
    /// What the type itself says.
    Other(Box<dyn StdError + Send + Sync>),
}

impl FromValueError {
    /// For a reason of your own: an error, or a text.
    pub fn other(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> FromValueError {
        FromValueError::Other(reason.into())
    }
}

impl fmt::Display for FromValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FromValueError::Type => write!(f, "the value is of another type"),
            FromValueError::Range(number) => write!(f, "{number} does not fit"),
            FromValueError::Other(reason) => write!(f, "{reason}"),
        }
    }
}

impl StdError for FromValueError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            FromValueError::Other(reason) => Some(&**reason),
            FromValueError::Type | FromValueError::Range(_) => None,
        }
    }
}

macro_rules! from_integer {
    ($($type:ty)*) => {
        $(impl FromValue<'_> for $type {
            fn from_value(value: ValueRef<'_>) -> Result<$type, FromValueError> {
                let ValueRef::Integer(number) = value else { return Err(FromValueError::Type) };
                <$type>::try_from(number).map_err(|_| FromValueError::Range(number))
            }
        })*
    };
}

from_integer! { i8 i16 i32 i64 isize u8 u16 u32 u64 usize }

macro_rules! from_value {
    ($($type:ty: $($pattern:pat => $result:expr),+;)*) => {
        $(impl<'a> FromValue<'a> for $type {
            fn from_value(value: ValueRef<'a>) -> Result<$type, FromValueError> {
                match value {
                    $($pattern => Ok($result),)+
                    _ => Err(FromValueError::Type),
                }
            }
        })*
    };
}

from_value! {
    bool: ValueRef::Integer(number) => number != 0;
    f64: ValueRef::Real(number) => number, ValueRef::Integer(number) => number as f64;
    f32: ValueRef::Real(number) => number as f32, ValueRef::Integer(number) => number as f32;
    &'a str: ValueRef::Text(bytes) => str::from_utf8(bytes).map_err(FromValueError::other)?;
    Text: ValueRef::Text(bytes) => Text::from_bytes(bytes);
    &'a [u8]: ValueRef::Blob(bytes) => bytes;
    Vec<u8>: ValueRef::Blob(bytes) => bytes.to_vec();
}

macro_rules! from_str {
    ($($type:ty)*) => {
        $(impl<'a> FromValue<'a> for $type {
            fn from_value(value: ValueRef<'a>) -> Result<$type, FromValueError> {
                <&'a str>::from_value(value).map(Into::into)
            }
        })*
    };
}

from_str! { String Box<str> Arc<str> Cow<'a, str> }

impl<const LEN: usize> FromValue<'_> for [u8; LEN] {
    fn from_value(value: ValueRef<'_>) -> Result<[u8; LEN], FromValueError> {
        <&[u8]>::from_value(value)?.try_into().map_err(FromValueError::other)
    }
}

impl FromValue<'_> for Value {
    fn from_value(value: ValueRef<'_>) -> Result<Value, FromValueError> {
        Ok(value.to_owned())
    }
}

impl<'a> FromValue<'a> for ValueRef<'a> {
    fn from_value(value: ValueRef<'a>) -> Result<ValueRef<'a>, FromValueError> {
        Ok(value)
    }
}

impl<'a, T: FromValue<'a>> FromValue<'a> for Option<T> {
    fn from_value(value: ValueRef<'a>) -> Result<Option<T>, FromValueError> {
        match value {
            ValueRef::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}

/// A column of a row: its place, the first is 0; or its name, in whatever case. Of several columns of one name, the first.
pub trait RowIndex: sealed::Sealed + fmt::Debug {
    /// Its place among `columns`.
    #[doc(hidden)]
    fn find(&self, columns: &[String]) -> Option<usize>;
}

impl RowIndex for usize {
    fn find(&self, columns: &[String]) -> Option<usize> {
        Some(*self).filter(|place| *place < columns.len())
    }
}

impl RowIndex for &str {
    fn find(&self, columns: &[String]) -> Option<usize> {
        columns.iter().position(|name| name.eq_ignore_ascii_case(self))
    }
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for usize {}
    impl Sealed for &str {}
}

/// A row's column as a Rust type. `value` gives the value at a place.
pub(crate) fn get<'a, T: FromValue<'a>>(
    index: impl RowIndex,
    columns: &[String],
    value: impl FnOnce(usize) -> ValueRef<'a>,
) -> Result<T, Error> {
    let failed = |text, source| Error::new(ErrorKind::Type { text, source });
    let Some(place) = index.find(columns) else {
        let text = format!("no column {index:?}: the row has {}", columns.join(", "));
        return Err(failed(text, None));
    };
    let value = value(place);
    T::from_value(value).map_err(|error| {
        let name = core::any::type_name::<T>();
        match error {
            FromValueError::Type => {
                let of = value.type_name();
                failed(format!("column {index:?} is of type {of}, not {name}"), None)
            }
            FromValueError::Range(number) => failed(
                format!("column {index:?} holds {number}, which does not fit into {name}"),
                None,
            ),
            FromValueError::Other(reason) => {
                failed(format!("column {index:?} is no {name}: {reason}"), Some(reason))
            }
        }
    })
}
