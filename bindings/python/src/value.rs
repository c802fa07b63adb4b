//! Values: from Python to SQLite, by adapters; from SQLite to Python, by converters and `text_factory`.

use manyhands::{Value, ValueRef};
use pyo3::exceptions::{PyBufferError, PyOverflowError, PyUnicodeDecodeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyFloat, PyInt, PyMemoryView, PyString, PyType};

use crate::adapt;
use crate::error::{OperationalError, ProgrammingError};

/// Flags of `detect_types`.
pub(crate) const PARSE_DECLTYPES: u32 = 1;
pub(crate) const PARSE_COLNAMES: u32 = 2;

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("PARSE_DECLTYPES", PARSE_DECLTYPES)?;
    module.add("PARSE_COLNAMES", PARSE_COLNAMES)
}

/// A value for a parameter. `name` says which one, for a message.
pub(crate) fn from_python(value: &Bound<'_, PyAny>, name: impl Fn() -> String) -> PyResult<Value> {
    if !adapt::is_native_type_adapted()
        && let Some(native) = native_from_python(value)?
    {
        return Ok(native);
    }
    let adapted = adapt::adapt_value(value)?;
    let value = adapted.as_ref().unwrap_or(value);
    if let Some(native) = native_from_python(value)? {
        return Ok(native);
    }
    other_from_python(value)?.ok_or_else(|| {
        let kind =
            value.get_type().name().map_or_else(|_| "?".to_string(), |name| name.to_string());
        ProgrammingError::new_err(format!(
            "Error binding parameter {}: type '{kind}' is not supported",
            name()
        ))
    })
}

/// One of exactly the types that SQLite has itself.
fn native_from_python(value: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    if value.is_none() {
        return Ok(Some(Value::Null));
    }
    if let Ok(number) = value.cast_exact::<PyInt>() {
        return integer(number).map(Some);
    }
    if let Ok(text) = value.cast_exact::<PyString>() {
        return Ok(Some(Value::from(text.to_cow()?.into_owned())));
    }
    if let Ok(number) = value.cast_exact::<PyFloat>() {
        return Ok(Some(Value::Real(number.value())));
    }
    if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        return Ok(Some(Value::Blob(bytes.as_bytes().to_vec())));
    }
    Ok(None)
}

/// Subclasses of those, and whatever has a buffer; `None` for anything else.
pub(crate) fn other_from_python(value: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    if let Ok(number) = value.cast::<PyInt>() {
        return integer(number).map(Some);
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(Some(Value::Real(number.value())));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Some(Value::from(text.to_cow()?.into_owned())));
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(Some(Value::Blob(bytes.to_vec())));
    }
    // The stable C API has no buffers before Python 3.11.
    let Ok(view) = PyMemoryView::from(value) else { return Ok(None) };
    if !view.getattr("c_contiguous")?.is_truthy()? {
        return Err(PyBufferError::new_err("underlying buffer is not C-contiguous"));
    }
    let bytes = view.call_method0("tobytes")?;
    Ok(Some(Value::Blob(bytes.cast::<PyBytes>()?.as_bytes().to_vec())))
}

fn integer(number: &Bound<'_, PyInt>) -> PyResult<Value> {
    let too_large =
        |_| PyOverflowError::new_err("Python int too large to convert to SQLite INTEGER");
    number.extract().map(Value::Integer).map_err(too_large)
}

/// What `text_factory` makes of TEXT.
pub(crate) enum TextFactory<'py> {
    Str,
    Bytes,
    ByteArray,
    Call(Bound<'py, PyAny>),
}

impl<'py> TextFactory<'py> {
    pub(crate) fn new(py: Python<'py>, factory: Option<&Py<PyAny>>) -> TextFactory<'py> {
        let Some(factory) = factory else { return TextFactory::Str };
        let factory = factory.bind(py);
        if factory.is(PyType::new::<PyBytes>(py)) {
            TextFactory::Bytes
        } else if factory.is(PyType::new::<PyByteArray>(py)) {
            TextFactory::ByteArray
        } else {
            TextFactory::Call(factory.clone())
        }
    }
}

/// A value of a column. `column` says which one, for a message.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    value: ValueRef<'_>,
    text_factory: &TextFactory<'py>,
    column: impl Fn() -> String,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        ValueRef::Null => py.None().into_bound(py),
        ValueRef::Integer(number) => number.into_pyobject(py)?.into_any(),
        ValueRef::Real(number) => PyFloat::new(py, number).into_any(),
        ValueRef::Blob(bytes) => PyBytes::new(py, bytes).into_any(),
        ValueRef::Text(bytes) => match text_factory {
            TextFactory::Str => match PyString::from_bytes(py, bytes) {
                Ok(text) => text.into_any(),
                Err(error) if error.is_instance_of::<PyUnicodeDecodeError>(py) => {
                    return Err(OperationalError::new_err(format!(
                        "Could not decode to UTF-8 column '{}' with text '{}'",
                        column(),
                        String::from_utf8_lossy(bytes)
                    )));
                }
                Err(error) => return Err(error),
            },
            TextFactory::Bytes => PyBytes::new(py, bytes).into_any(),
            TextFactory::ByteArray => PyByteArray::new(py, bytes).into_any(),
            TextFactory::Call(factory) => factory.call1((PyBytes::new(py, bytes),))?,
        },
    })
}

/// What a converter is given: the bytes of a value as TEXT or BLOB; `None` for none.
pub(crate) fn to_bytes<'py>(py: Python<'py>, value: ValueRef<'_>) -> Option<Bound<'py, PyBytes>> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(PyBytes::new(py, number.to_string().as_bytes())),
        ValueRef::Real(number) => {
            Some(PyBytes::new(py, manyhands::driver::real_as_text(number).as_bytes()))
        }
        // As the standard module has it: SQLite gives no pointer to nothing.
        ValueRef::Text([]) | ValueRef::Blob([]) => None,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(PyBytes::new(py, bytes)),
    }
}

/// For each column its converter; `None` when no column has one.
pub(crate) fn converters(
    py: Python<'_>,
    detect_types: u32,
    names: &[String],
    declared_types: &[Option<String>],
) -> PyResult<Option<Vec<Option<Py<PyAny>>>>> {
    let find = |(index, name): (usize, &String)| {
        if detect_types & PARSE_COLNAMES != 0
            && let Some((_, rest)) = name.rsplit_once('[')
            && let Some((key, _)) = rest.split_once(']')
            && let Some(converter) = adapt::converter(py, key)?
        {
            return Ok(Some(converter.unbind()));
        }
        if detect_types & PARSE_DECLTYPES != 0
            && let Some(Some(declared)) = declared_types.get(index)
        {
            // NUMBER(10) is NUMBER, and "INTEGER PRIMARY KEY" INTEGER.
            let key = declared.split([' ', '(']).next().unwrap_or_default();
            return Ok(adapt::converter(py, key)?.map(Bound::unbind));
        }
        Ok(None)
    };
    let found = names.iter().enumerate().map(find).collect::<PyResult<Vec<_>>>()?;
    Ok(found.iter().any(Option::is_some).then_some(found))
}
