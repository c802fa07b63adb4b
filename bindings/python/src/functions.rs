//! Functions, aggregates and collations in Python.

use core::cmp::Ordering;

use manyhands::{Aggregate, Error, FunctionError, Value, ValueRef, WindowAggregate};
use pyo3::exceptions::{PyAttributeError, PyMemoryError, PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString, PyTuple};

use crate::callback::Callback;
use crate::connection::Connection;
use crate::error::{self, OperationalError, ProgrammingError};
use crate::value::{self, TextFactory};

#[pymethods]
impl Connection {
    /// Makes an SQL function of a callable; None removes the function. `narg` is the number of its
    /// arguments, -1 for any. A deterministic function always returns the same for the same arguments.
    ///
    /// Statements that write and call it are executed by this connection itself, in its turn.
    #[pyo3(signature = (name, narg, func, *, deterministic = false))]
    fn create_function(
        &self,
        py: Python<'_>,
        name: &str,
        narg: i32,
        func: Option<Py<PyAny>>,
        deterministic: bool,
    ) -> PyResult<()> {
        self.register::<OperationalError>(
            py,
            "Error creating function",
            narg,
            |connection, count| {
                let Some(func) = func else { return connection.remove_function(name, count) };
                let callback = Callback::new(func, self);
                connection.create_function(name, count, deterministic, move |arguments| {
                    callback.run(
                        |callable| {
                            let result = callable.call1(to_tuple(callable.py(), arguments)?)?;
                            Ok(Ok(result_from_python(&result)?))
                        },
                        |py, error| {
                            Err(failure(py, error, "user-defined function raised exception"))
                        },
                    )
                })
            },
        )
    }

    /// Makes an aggregate function of a class with the methods `step` and `finalize`; None removes the
    /// function. `n_arg` is the number of its arguments, -1 for any.
    #[pyo3(signature = (name, n_arg, aggregate_class))]
    fn create_aggregate(
        &self,
        py: Python<'_>,
        name: &str,
        n_arg: i32,
        aggregate_class: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        self.register::<OperationalError>(
            py,
            "Error creating aggregate",
            n_arg,
            |connection, count| match aggregate_class {
                Some(class) => {
                    connection.create_aggregate(name, count, Class(Callback::new(class, self)))
                }
                None => connection.remove_function(name, count),
            },
        )
    }

    /// Makes a window function of a class with the methods `step`, `finalize`, `value` and `inverse`; None
    /// removes the function. `num_params` is the number of its arguments, -1 for any.
    #[pyo3(signature = (name, num_params, aggregate_class, /))]
    fn create_window_function(
        &self,
        py: Python<'_>,
        name: &str,
        num_params: i32,
        aggregate_class: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let message = "Error creating window function";
        self.register::<ProgrammingError>(py, message, num_params, |connection, count| {
            match aggregate_class {
                Some(class) => connection.create_window_function(
                    name,
                    count,
                    Class(Callback::new(class, self)),
                ),
                None => connection.remove_function(name, count),
            }
        })
    }

    /// Makes a collation of a callable, which compares two strings and returns a number below, equal to or
    /// above 0; None removes the collation. What it raises is raised by the call that needed it.
    ///
    /// A connection that has a collation executes its writes itself, in its turn.
    #[pyo3(signature = (name, callback, /))]
    fn create_collation(
        &self,
        py: Python<'_>,
        name: &str,
        callback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.check(py)?;
        if callback.is_none() {
            return self.call(py, |connection| connection.remove_collation(name));
        }
        if !callback.is_callable() {
            return Err(PyTypeError::new_err("parameter must be callable"));
        }
        let callback = Callback::new(callback.clone().unbind(), self);
        self.call(py, |connection| {
            connection.create_collation(name, move |left, right| {
                callback.run_infallible(|callable| compare(callable, left, right), Ordering::Equal)
            })
        })
    }
}

impl Connection {
    /// Registers a function with a number of arguments; `E` is raised when SQLite cannot.
    fn register<E: Refusal>(
        &self,
        py: Python<'_>,
        message: &'static str,
        arguments: i32,
        register: impl FnOnce(&mut manyhands::Connection, Option<u16>) -> Result<(), Error> + Send,
    ) -> PyResult<()> {
        self.check(py)?;
        let count = match arguments {
            -1 => None,
            count => Some(u16::try_from(count).map_err(|_| E::refuse(message))?),
        };
        // SQLite has no text of its own for a number that it refuses.
        let registered = self.call(py, |connection| Ok(register(connection, count)))?;
        registered.map_err(|error| match error.code().map(|code| code.primary()) {
            Some(error::primary::MISUSE) => E::refuse(message),
            _ => error::to_python(py, &error),
        })
    }
}

/// What is raised for a function that cannot be made.
trait Refusal {
    fn refuse(message: &'static str) -> PyErr;
}

impl Refusal for OperationalError {
    fn refuse(message: &'static str) -> PyErr {
        OperationalError::new_err(message)
    }
}

impl Refusal for ProgrammingError {
    fn refuse(message: &'static str) -> PyErr {
        ProgrammingError::new_err(message)
    }
}

/// A class whose instances are the states of groups.
struct Class(Callback);

impl Class {
    /// Calls a method of a state.
    fn call(
        &self,
        state: &Py<PyAny>,
        method: &'static str,
        arguments: &[ValueRef<'_>],
    ) -> Result<Value, FunctionError> {
        Python::attach(|py| {
            // Not a part of the call: an AttributeError in the method is one that it raised.
            let found = state.bind(py).getattr(method);
            let missing = found.as_ref().is_err_and(|it| it.is_instance_of::<PyAttributeError>(py));
            self.0.run(
                |_| {
                    let result = found?.call1(to_tuple(py, arguments)?)?;
                    // What these return goes nowhere.
                    let ignored = matches!(method, "step" | "inverse");
                    Ok(Ok(if ignored { Value::Null } else { result_from_python(&result)? }))
                },
                |py, error| {
                    let what = if missing { "not defined" } else { "raised error" };
                    Err(failure(
                        py,
                        error,
                        &format!("user-defined aggregate's '{method}' method {what}"),
                    ))
                },
            )
        })
    }
}

impl Aggregate for Class {
    type State = Py<PyAny>;

    fn begin(&self) -> Result<Py<PyAny>, FunctionError> {
        let message = "user-defined aggregate's '__init__' method raised error";
        self.0.run(
            |class| Ok(Ok(class.call0()?.unbind())),
            |py, error| Err(failure(py, error, message)),
        )
    }

    fn step(&self, state: &mut Py<PyAny>, arguments: &[ValueRef<'_>]) -> Result<(), FunctionError> {
        self.call(state, "step", arguments).map(drop)
    }

    fn finish(&self, state: Option<Py<PyAny>>) -> Result<Value, FunctionError> {
        // No row came, and no instance was made.
        let Some(state) = state else { return Ok(Value::Null) };
        self.call(&state, "finalize", &[])
    }
}

impl WindowAggregate for Class {
    fn value(&self, state: Option<&mut Py<PyAny>>) -> Result<Value, FunctionError> {
        let Some(state) = state else { return Ok(Value::Null) };
        self.call(state, "value", &[])
    }

    fn inverse(
        &self,
        state: &mut Py<PyAny>,
        arguments: &[ValueRef<'_>],
    ) -> Result<(), FunctionError> {
        self.call(state, "inverse", arguments).map(drop)
    }
}

/// What SQLite is told of an exception.
fn failure(py: Python<'_>, error: &PyErr, message: &str) -> FunctionError {
    if error.is_instance_of::<PyMemoryError>(py) {
        FunctionError::NoMemory
    } else if error.is_instance_of::<PyOverflowError>(py) {
        FunctionError::TooBig
    } else {
        FunctionError::Message(message.to_string())
    }
}

fn to_tuple<'py>(py: Python<'py>, arguments: &[ValueRef<'_>]) -> PyResult<Bound<'py, PyTuple>> {
    let arguments = arguments
        .iter()
        .map(|value| value::to_python(py, *value, &TextFactory::Str, || "?".to_string()))
        .collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(py, arguments)
}

fn result_from_python(result: &Bound<'_, PyAny>) -> PyResult<Value> {
    if result.is_none() {
        return Ok(Value::Null);
    }
    value::other_from_python(result)?.ok_or_else(|| {
        let kind =
            result.get_type().name().map_or_else(|_| "?".to_string(), |name| name.to_string());
        ProgrammingError::new_err(format!(
            "User-defined functions cannot return '{kind}' values to SQLite"
        ))
    })
}

fn compare(callable: &Bound<'_, PyAny>, left: &[u8], right: &[u8]) -> PyResult<Ordering> {
    let py = callable.py();
    let text = |bytes| PyString::from_bytes(py, bytes);
    let result = callable.call1((text(left)?, text(right)?))?;
    // As in the standard module, what is no number is no error either.
    let Ok(number) = result.cast::<PyInt>() else { return Ok(Ordering::Equal) };
    // It may be larger than any integer of ours.
    number.compare(0)
}
