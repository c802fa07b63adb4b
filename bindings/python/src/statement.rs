//! What is known of a statement's text.

use std::sync::{Arc, Mutex, OnceLock};

use manyhands::Value;
use manyhands::driver::ConnectionExt;
use pyo3::exceptions::{PyDeprecationWarning, PyLookupError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString, PyTuple};

use crate::connection::{Connection, lock};
use crate::error::ProgrammingError;
use crate::row::Description;
use crate::value;

/// A description, with the columns and the choice to cut their names that it was made for.
type KnownDescription = (Arc<[String]>, bool, Description);

/// For each column; `None` for an expression.
type DeclaredTypes = Arc<[Option<String>]>;

/// Finds the class of mappings when the module is loaded: nothing can be imported while the interpreter exits.
pub(crate) fn find_classes(py: Python<'_>) {
    // A dictionary would not ask for it.
    let _ = PyList::empty(py).cast::<PyMapping>().is_ok();
}

/// The text of a statement, and what is found out about it only once.
#[pyclass(frozen, module = "manyhands")]
pub(crate) struct Statement {
    pub(crate) sql: String,
    /// An INSERT, UPDATE, DELETE or REPLACE: begins an implicit transaction, and has a row count.
    pub(crate) changes_rows: bool,
    /// There is no statement in it.
    pub(crate) is_blank: bool,
    names: OnceLock<Vec<Option<String>>>,
    description: Mutex<Option<KnownDescription>>,
    /// With the columns that they belong to.
    declared_types: Mutex<Option<(Arc<[String]>, DeclaredTypes)>>,
}

#[pymethods]
impl Statement {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn refuse(
        _args: &Bound<'_, PyTuple>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Statement> {
        Err(PyTypeError::new_err("cannot create 'manyhands.Statement' instances"))
    }
}

impl Statement {
    pub(crate) fn new(sql: &Bound<'_, PyString>) -> PyResult<Statement> {
        let sql = sql.to_cow()?.into_owned();
        if sql.contains('\0') {
            return Err(ProgrammingError::new_err("the query contains a null character"));
        }
        Ok(Statement {
            changes_rows: changes_rows(&sql),
            is_blank: is_blank(&sql),
            sql,
            names: OnceLock::new(),
            description: Mutex::new(None),
            declared_types: Mutex::new(None),
        })
    }

    /// `Cursor.description` for these columns: the same object as the last time, if they are the same.
    pub(crate) fn description(
        &self,
        py: Python<'_>,
        columns: &Arc<[String]>,
        cut_names: bool,
    ) -> PyResult<Description> {
        if let Some((known, cut, description)) = &*lock(&self.description)
            && *cut == cut_names
            && (Arc::ptr_eq(known, columns) || known == columns)
        {
            return Ok(description.clone_ref(py));
        }
        let column = |name: &String| {
            let end = if cut_names { name.find(" [") } else { None };
            let name = &name[..end.unwrap_or(name.len())];
            (name, py.None(), py.None(), py.None(), py.None(), py.None(), py.None())
                .into_pyobject(py)
        };
        let description =
            PyTuple::new(py, columns.iter().map(column).collect::<PyResult<Vec<_>>>()?)?;
        let description = Description::new(description);
        *lock(&self.description) =
            Some((Arc::clone(columns), cut_names, description.clone_ref(py)));
        Ok(description)
    }
}

impl Statement {
    /// For each of the columns its converter; `None` when none has one. They are looked up anew each time,
    /// since the registry is the application's.
    pub(crate) fn converters(
        &self,
        py: Python<'_>,
        connection: &Connection,
        detect_types: u32,
        columns: &Arc<[String]>,
    ) -> PyResult<Option<Vec<Option<Py<PyAny>>>>> {
        if detect_types & value::PARSE_DECLTYPES == 0 {
            return value::converters(py, detect_types, columns, &[]);
        }
        let known = lock(&self.declared_types)
            .as_ref()
            .filter(|(known, _)| Arc::ptr_eq(known, columns))
            .map(|(_, types)| Arc::clone(types));
        let types = match known {
            Some(types) => types,
            None => {
                let types = connection.call(py, |engine| engine.declared_types(&self.sql))?;
                let types = DeclaredTypes::from(types);
                *lock(&self.declared_types) = Some((Arc::clone(columns), Arc::clone(&types)));
                types
            }
        };
        value::converters(py, detect_types, columns, &types)
    }
}

/// True when the first word, after white space and comments, is one of four.
fn changes_rows(sql: &str) -> bool {
    let start = skip_blank(sql.as_bytes());
    ["insert", "update", "delete", "replace"].iter().any(|word| {
        sql.as_bytes()
            .get(start..start + word.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
    })
}

/// True for white space, comments and semicolons.
fn is_blank(sql: &str) -> bool {
    let mut rest = sql.as_bytes();
    loop {
        rest = &rest[skip_blank(rest)..];
        match rest.split_first() {
            None => return true,
            Some((b';', behind)) => rest = behind,
            Some(_) => return false,
        }
    }
}

/// Where the first word begins.
fn skip_blank(sql: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += sql[at..]
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c))
            .count();
        let rest = &sql[at..];
        let comment = if rest.starts_with(b"--") {
            rest.iter().position(|byte| *byte == b'\n').map(|end| end + 1)
        } else if rest.starts_with(b"/*") {
            rest.windows(2).skip(2).position(|end| end == b"*/").map(|end| end + 4)
        } else {
            return at;
        };
        match comment {
            Some(length) => at += length,
            None => return sql.len(),
        }
    }
}

impl Statement {
    /// The values for its parameters.
    pub(crate) fn bind(
        &self,
        py: Python<'_>,
        connection: &Connection,
        parameters: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Value>> {
        let Some(parameters) = parameters else {
            // Each parameter begins with one of these: https://sqlite.org/lang_expr.html#varparam. (The last is not in there.)
            if self.sql.contains(['?', ':', '@', '$', '#']) {
                check_count(self.names(py, connection)?.len(), 0)?;
            }
            return Ok(Vec::new());
        };
        let names = self.names(py, connection)?;
        if let Ok(tuple) = parameters.cast_exact::<PyTuple>() {
            return self.bind_sequence(names, tuple.len(), |index| tuple.get_item(index));
        }
        if let Ok(list) = parameters.cast_exact::<PyList>() {
            return self.bind_sequence(names, list.len(), |index| list.get_item(index));
        }
        if parameters.cast::<PyMapping>().is_ok() {
            return self.bind_mapping(names, parameters);
        }
        if parameters.get_type().hasattr("__getitem__")? {
            return self
                .bind_sequence(names, parameters.len()?, |index| parameters.get_item(index));
        }
        Err(ProgrammingError::new_err("parameters are of unsupported type"))
    }

    fn bind_sequence<'py>(
        &self,
        names: &[Option<String>],
        count: usize,
        item: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Value>> {
        check_count(names.len(), count)?;
        let mut values = Vec::with_capacity(count);
        for (index, name) in names.iter().enumerate() {
            let value = item(index)?;
            if let Some(name) = name
                && !name.starts_with('?')
            {
                warn_of_name(value.py(), index + 1, name)?;
            }
            values.push(value::from_python(&value, || (index + 1).to_string())?);
        }
        Ok(values)
    }

    fn bind_mapping(
        &self,
        names: &[Option<String>],
        parameters: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Value>> {
        let py = parameters.py();
        let mut values = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let Some(name) = name.as_ref().and_then(|name| name.get(1..)) else {
                return Err(ProgrammingError::new_err(format!(
                    "Binding {} has no name, but you supplied a dictionary (which has only names).",
                    index + 1
                )));
            };
            let value = parameters.get_item(name).map_err(|error| {
                if !error.is_instance_of::<PyLookupError>(py) {
                    return error;
                }
                ProgrammingError::new_err(format!(
                    "You did not supply a value for binding parameter :{name}."
                ))
            })?;
            values.push(value::from_python(&value, || format!("':{name}'"))?);
        }
        Ok(values)
    }

    pub(crate) fn compile(&self, py: Python<'_>, connection: &Connection) -> PyResult<()> {
        self.names(py, connection).map(drop)
    }

    pub(crate) fn has_compiled(&self) -> bool {
        self.names.get().is_some()
    }

    /// The parameters' names with their first character, `None` for `?`.
    fn names(&self, py: Python<'_>, connection: &Connection) -> PyResult<&[Option<String>]> {
        if let Some(names) = self.names.get() {
            return Ok(names);
        }
        let names = connection.call_lazily(py, |engine| engine.parameter_names(&self.sql))?;
        Ok(self.names.get_or_init(|| names))
    }
}

fn check_count(wanted: usize, given: usize) -> PyResult<()> {
    if wanted == given {
        return Ok(());
    }
    Err(ProgrammingError::new_err(format!(
        "Incorrect number of bindings supplied. The current statement uses {wanted}, and there are {given} \
         supplied."
    )))
}

fn warn_of_name(py: Python<'_>, number: usize, name: &str) -> PyResult<()> {
    if py.version_info() < (3, 12) {
        return Ok(());
    }
    let text = format!(
        "Binding {number} ('{name}') is a named parameter, but you supplied a sequence which requires nominal \
         (qmark) placeholders. Starting with Python 3.14 an sqlite3.ProgrammingError will be raised."
    );
    let text = std::ffi::CString::new(text).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyDeprecationWarning>(), &text, 1)
}
