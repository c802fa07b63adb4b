//! The registries of adapters (from Python to SQLite) and converters (from SQLite to Python).

use core::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyDict, PyFloat, PyInt, PyString, PyTuple, PyType};

use crate::cursor::Argument;
use crate::error::ProgrammingError;

/// `(type, protocol)` to callable.
static ADAPTERS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
/// Upper-case name to callable.
static CONVERTERS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
/// One of the types that SQLite has itself was given an adapter: from then on each value is looked up.
static NATIVE_TYPE_ADAPTED: AtomicBool = AtomicBool::new(false);

/// The protocol that values are adapted to.
#[pyclass(frozen, module = "manyhands")]
pub(crate) struct PrepareProtocol;

#[pymethods]
impl PrepareProtocol {
    #[new]
    fn new() -> PrepareProtocol {
        PrepareProtocol
    }
}

fn adapters(py: Python<'_>) -> &Bound<'_, PyDict> {
    ADAPTERS.get_or_init(py, || PyDict::new(py).unbind()).bind(py)
}

fn converters(py: Python<'_>) -> &Bound<'_, PyDict> {
    CONVERTERS.get_or_init(py, || PyDict::new(py).unbind()).bind(py)
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("adapters", adapters(py))?;
    module.add("converters", converters(py))?;
    module.add("PrepareProtocol", protocol(py))
}

fn protocol(py: Python<'_>) -> Bound<'_, PyType> {
    py.get_type::<PrepareProtocol>()
}

pub(crate) fn is_native_type_adapted() -> bool {
    NATIVE_TYPE_ADAPTED.load(Ordering::Relaxed)
}

/// Registers a callable that adapts values of a type to one of SQLite's types.
#[pyfunction]
#[pyo3(signature = (r#type, adapter, /))]
pub(crate) fn register_adapter(
    py: Python<'_>,
    r#type: &Bound<'_, PyAny>,
    adapter: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let native = [
        py.get_type::<PyInt>(),
        py.get_type::<PyFloat>(),
        py.get_type::<PyString>(),
        py.get_type::<PyByteArray>(),
    ];
    if native.iter().any(|native| native.is(r#type)) {
        NATIVE_TYPE_ADAPTED.store(true, Ordering::Relaxed);
    }
    adapters(py).set_item((r#type, protocol(py)), adapter)
}

/// Registers a callable that converts the bytes of values of a declared type.
#[pyfunction]
#[pyo3(signature = (typename, converter, /))]
pub(crate) fn register_converter(
    py: Python<'_>,
    typename: &Bound<'_, PyString>,
    converter: &Bound<'_, PyAny>,
) -> PyResult<()> {
    converters(py).set_item(typename.call_method0("upper")?, converter)
}

/// The converter of an upper-case name.
pub(crate) fn converter<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    converters(py).get_item(name.to_uppercase())
}

/// Adapts a value to a protocol: by a registered adapter, the protocol's `__adapt__`, or the value's
/// `__conform__`. Without any of them: `alternate` if it is given, else ProgrammingError.
#[pyfunction]
#[pyo3(signature = (obj, proto = Argument::Missing, alternate = Argument::Missing, /), text_signature = "(obj, proto=PrepareProtocol, alternate=<unrepresentable>, /)")]
pub(crate) fn adapt<'py>(
    py: Python<'py>,
    obj: &Bound<'py, PyAny>,
    proto: Argument<'py>,
    alternate: Argument<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let proto = proto.given().cloned().unwrap_or_else(|| protocol(py).into_any());
    let adapted = adapt_to(obj, &proto)?;
    adapted
        .or_else(|| alternate.given().cloned())
        .ok_or_else(|| ProgrammingError::new_err("can't adapt"))
}

/// Adapts a value to what SQLite can take, if anything adapts it.
pub(crate) fn adapt_value<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    adapt_to(value, protocol(value.py()).as_any())
}

fn adapt_to<'py>(
    value: &Bound<'py, PyAny>,
    proto: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = value.py();
    if let Some(adapter) =
        adapters(py).get_item(PyTuple::new(py, [value.get_type().as_any(), proto])?)?
    {
        return adapter.call1((value,)).map(Some);
    }
    for (object, method, argument) in [(proto, "__adapt__", value), (value, "__conform__", proto)] {
        let Some(method) = object.getattr_opt(method)? else { continue };
        match method.call1((argument,)) {
            Ok(adapted) if !adapted.is_none() => return Ok(Some(adapted)),
            Ok(_) => {}
            // It does not know the other.
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
