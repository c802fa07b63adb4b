//! Values and rows, from Python and to Python.

use manyhands::{Outcome, Row, Value};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{
    PyByteArray, PyBytes, PyFloat, PyInt, PyMapping, PyMemoryView, PySequence, PyString, PyTuple,
};

use crate::error::{OperationalError, ProgrammingError};

/// What a statement did, as Python gets it: rows, column names (`None` when there are no rows),
/// changes, last rowid.
pub(crate) type Done<'py> = (Vec<Bound<'py, PyTuple>>, Option<Bound<'py, PyTuple>>, u64, i64);

/// The values of a statement's parameters.
pub(crate) fn from_sequence(parameters: &Bound<'_, PyAny>) -> PyResult<Vec<Value>> {
    if parameters.cast::<PyMapping>().is_ok() {
        return Err(ProgrammingError::new_err(
            "named parameters are not supported yet: use ? and a sequence",
        ));
    }
    let Ok(sequence) = parameters.cast::<PySequence>() else {
        return Err(ProgrammingError::new_err("parameters must be a sequence"));
    };
    sequence.try_iter()?.enumerate().map(|(index, value)| from_python(&value?, index + 1)).collect()
}

fn from_python(value: &Bound<'_, PyAny>, position: usize) -> PyResult<Value> {
    if value.is_none() {
        Ok(Value::Null)
    } else if value.is_instance_of::<PyInt>() {
        let too_large =
            |_| PyOverflowError::new_err("Python int too large to convert to SQLite INTEGER");
        value.extract().map(Value::Integer).map_err(too_large)
    } else if value.is_instance_of::<PyFloat>() {
        value.extract().map(Value::Real)
    } else if value.is_instance_of::<PyString>() {
        value.extract::<String>().map(Value::from)
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        Ok(Value::Blob(bytes.as_bytes().to_vec()))
    } else if let Ok(bytes) = value.cast::<PyByteArray>() {
        Ok(Value::Blob(bytes.to_vec()))
    } else if value.is_instance_of::<PyMemoryView>() {
        // The stable C API has no buffers before Python 3.11.
        value.call_method0("tobytes")?.extract().map(Value::Blob)
    } else {
        let kind = value.get_type().name()?;
        Err(ProgrammingError::new_err(format!(
            "Error binding parameter {position}: type '{kind}' is not supported"
        )))
    }
}

pub(crate) fn to_done<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Done<'py>> {
    let rows = outcome.rows.iter().map(|row| to_tuple(py, row)).collect::<PyResult<_>>()?;
    let columns = outcome.rows.first().map(|row| PyTuple::new(py, row.columns())).transpose()?;
    Ok((rows, columns, outcome.changes(), outcome.last_insert_rowid()))
}

fn to_tuple<'py>(py: Python<'py>, row: &Row) -> PyResult<Bound<'py, PyTuple>> {
    let to_python = |(column, value): (&String, &Value)| {
        Ok(match value {
            Value::Null => py.None().into_bound(py),
            Value::Integer(number) => number.into_pyobject(py)?.into_any(),
            Value::Real(number) => PyFloat::new(py, *number).into_any(),
            Value::Text(text) => match text.to_str() {
                Ok(text) => PyString::new(py, text).into_any(),
                Err(_) => {
                    return Err(OperationalError::new_err(format!(
                        "Could not decode to UTF-8 column '{column}'; CAST({column} AS BLOB) reads its bytes"
                    )));
                }
            },
            Value::Blob(bytes) => PyBytes::new(py, bytes).into_any(),
        })
    };
    let values = row.columns().iter().zip(row.values()).map(to_python);
    PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)
}
