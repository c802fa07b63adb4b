//! A row whose values are found by column name too.

use pyo3::basic::CompareOp;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyIterator, PyList, PySlice, PyString, PyTuple, PyType};

use crate::cursor::Cursor;

/// `Cursor.description`, and where names were found in it.
pub(crate) struct Description {
    /// For each column a tuple of seven, its name first.
    pub(crate) columns: Py<PyTuple>,
    /// Index by name, for names that were asked for.
    positions: Py<PyDict>,
}

impl Description {
    pub(crate) fn new(columns: Bound<'_, PyTuple>) -> Description {
        Description { positions: PyDict::new(columns.py()).unbind(), columns: columns.unbind() }
    }

    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Description {
        Description { columns: self.columns.clone_ref(py), positions: self.positions.clone_ref(py) }
    }

    fn names<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.columns.bind(py).iter().map(|column| column.get_item(0)).collect()
    }

    /// The index of the first column with this name, in any case.
    fn position(&self, name: &Bound<'_, PyString>) -> PyResult<Option<usize>> {
        let py = name.py();
        let exact = name.is_exact_instance_of::<PyString>();
        if exact && let Some(known) = self.positions.bind(py).get_item(name)? {
            return known.extract().map(Some);
        }
        let wanted = name.to_cow()?;
        for (position, column) in self.names(py)?.iter().enumerate() {
            let Ok(column) = column.cast::<PyString>() else { continue };
            if column.to_cow()?.eq_ignore_ascii_case(&wanted) {
                if exact {
                    self.positions.bind(py).set_item(name, position)?;
                }
                return Ok(Some(position));
            }
        }
        Ok(None)
    }
}

/// A row, for `row_factory`: values by index and by column name, in any case.
#[pyclass(frozen, subclass, sequence, module = "manyhands")]
pub(crate) struct Row {
    values: Py<PyTuple>,
    /// The cursor's.
    description: Option<Description>,
}

impl Row {
    pub(crate) fn make(values: Bound<'_, PyTuple>, description: Option<Description>) -> Row {
        Row { values: values.unbind(), description }
    }
}

#[pymethods]
impl Row {
    #[new]
    #[pyo3(signature = (cursor, data, /))]
    fn new(py: Python<'_>, cursor: &Bound<'_, PyAny>, data: &Bound<'_, PyAny>) -> PyResult<Row> {
        // A cast asks the type itself, not `__class__`.
        let cursor = cursor.cast::<Cursor>()?;
        let values = data.cast::<PyTuple>()?;
        Ok(Row::make(values.clone(), cursor.get().description_of(py)))
    }

    /// The columns' names.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names = self.description.as_ref().map_or(Ok(Vec::new()), |it| it.names(py))?;
        PyList::new(py, names)
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.values.bind(py).len()
    }

    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let values = self.values.bind(index.py());
        if let Ok(name) = index.cast::<PyString>() {
            let position = self.description.as_ref().map_or(Ok(None), |it| it.position(name))?;
            let position =
                position.ok_or_else(|| PyIndexError::new_err("No item with that key"))?;
            return values.get_item(position);
        }
        if index.is_instance_of::<PyInt>() || index.is_instance_of::<PySlice>() {
            return values.as_any().get_item(index);
        }
        Err(PyIndexError::new_err("Index must be int or string"))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.values.bind(py).try_iter()
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        let description = match &self.description {
            Some(description) => description.columns.bind(py).hash()?,
            None => 0,
        };
        Ok(description ^ self.values.bind(py).hash()?)
    }

    fn __richcmp__<'py>(
        &self,
        py: Python<'py>,
        other: &Bound<'py, PyAny>,
        operator: CompareOp,
    ) -> PyResult<Py<PyAny>> {
        let equal = match (operator, other.cast::<Row>()) {
            (CompareOp::Eq | CompareOp::Ne, Ok(other)) => {
                let other = other.get();
                let names_equal = match (&self.description, &other.description) {
                    (Some(one), Some(other)) => one.columns.bind(py).eq(&other.columns)?,
                    (one, other) => one.is_none() == other.is_none(),
                };
                names_equal && self.values.bind(py).eq(&other.values)?
            }
            _ => return Ok(py.NotImplemented()),
        };
        let answer = equal == matches!(operator, CompareOp::Eq);
        Ok(answer.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let kind: Bound<'_, PyType> = slf.get_type();
        Ok(format!("<{} object at {:p}>", kind.fully_qualified_name()?, slf.as_ptr()))
    }
}
