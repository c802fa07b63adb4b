//! What a connection executes, each on a cursor of its own, and the statements that it knows already.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyString, PyTuple, PyType};

use super::{Connection, lock};
use crate::cursor::{Argument, Cursor};
use crate::exit::Stays;
use crate::rows::Rows;
use crate::statement::Statement;

#[pymethods]
impl Connection {
    /// Compiles a statement.
    #[pyo3(signature = (*args))]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, Statement>> {
        slf.get().check(slf.py())?;
        let (sql,) = args.extract::<(Bound<'_, PyString>,)>().map_err(|_| {
            PyTypeError::new_err("a connection is called with one argument, the SQL as str")
        })?;
        let statement = slf.get().statement(&sql)?;
        statement.get().compile(slf.py(), slf.get())?;
        Ok(statement)
    }

    /// A new cursor: what `factory` returns for this connection.
    #[pyo3(signature = (factory = Argument::Missing), text_signature = "($self, factory=Cursor)")]
    fn cursor<'py>(slf: &Bound<'py, Self>, factory: Argument<'py>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        slf.get().check(py)?;
        let Argument::Given(factory) = factory else {
            return Ok(Bound::new(py, Cursor::made(slf))?.into_any());
        };
        let made = factory.call1((slf,))?;
        let Ok(cursor) = made.cast::<Cursor>() else {
            return Err(PyTypeError::new_err(format!(
                "factory must return a cursor, not {}",
                made.get_type().name()?
            )));
        };
        cursor.get().take_row_factory(py, slf.get());
        Ok(made)
    }

    /// Executes one statement on a new cursor, and returns that.
    #[pyo3(signature = (sql, parameters = Argument::Missing, /), text_signature = "($self, sql, parameters=(), /)")]
    fn execute<'py>(
        slf: &Bound<'py, Self>,
        sql: &Bound<'py, PyAny>,
        parameters: Argument<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match Connection::own_cursor(slf)? {
            MadeCursor::Own(cursor) => Ok(Cursor::execute(cursor, sql, parameters)?.into_any()),
            MadeCursor::Other(cursor) => match parameters {
                Argument::Given(parameters) => cursor.call_method1("execute", (sql, parameters)),
                Argument::Missing => cursor.call_method1("execute", (sql,)),
            },
        }
    }

    /// Executes a statement on a new cursor, once for each of the parameters, and returns the cursor.
    #[pyo3(signature = (sql, parameters, /))]
    fn executemany<'py>(
        slf: &Bound<'py, Self>,
        sql: &Bound<'py, PyAny>,
        parameters: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match Connection::own_cursor(slf)? {
            MadeCursor::Own(cursor) => Ok(Cursor::executemany(cursor, sql, parameters)?.into_any()),
            MadeCursor::Other(cursor) => cursor.call_method1("executemany", (sql, parameters)),
        }
    }

    /// Executes all statements of a script on a new cursor, and returns that.
    #[pyo3(signature = (sql_script, /))]
    fn executescript<'py>(
        slf: &Bound<'py, Self>,
        sql_script: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match Connection::own_cursor(slf)? {
            MadeCursor::Own(cursor) => Ok(Cursor::executescript(cursor, sql_script)?.into_any()),
            MadeCursor::Other(cursor) => cursor.call_method1("executescript", (sql_script,)),
        }
    }

    /// Executes several statements, all or none, and returns a cursor for each.
    ///
    /// `statements` are texts, or pairs of a text and its parameters. Outside a transaction they travel
    /// through the queue as one request: no other write comes between them, and one sync makes them durable.
    /// The error of the first that fails is raised; its `statement_index` says which it was.
    #[pyo3(signature = (statements, /))]
    fn batch<'py>(
        slf: &Bound<'py, Self>,
        statements: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = slf.py();
        let this = slf.get();
        this.check(py)?;
        let _stays = Stays::here();
        let mut known = Vec::new();
        for item in statements.try_iter()? {
            let item = item?;
            let (sql, parameters) = match item.cast::<PyString>() {
                Ok(sql) => (sql.clone(), None),
                Err(_) => {
                    let (sql, parameters) =
                        item.extract::<(Bound<'_, PyString>, Bound<'_, PyAny>)>()?;
                    (sql, Some(parameters))
                }
            };
            let statement = this.statement(&sql)?;
            let values = statement.get().bind(py, this, parameters.as_ref())?;
            known.push((statement.unbind(), values));
        }
        let listed: Vec<(&str, &[manyhands::Value])> =
            known.iter().map(|(statement, values)| (&*statement.get().sql, &**values)).collect();
        let executions = this.call(py, |connection| {
            let outcomes = connection.batch(&listed)?;
            outcomes
                .into_iter()
                .map(|outcome| Rows::take(outcome.into()))
                .collect::<Result<Vec<_>, _>>()
        })?;
        let cursors = PyList::empty(py);
        for (rows, (statement, _)) in executions.into_iter().zip(&known) {
            let cursor = Bound::new(py, Cursor::made(slf))?;
            cursor.get().show(py, this, statement.get(), rows)?;
            cursors.append(cursor)?;
        }
        Ok(cursors)
    }
}

/// A cursor for a method of the connection that needs one.
enum MadeCursor<'py> {
    Own(Bound<'py, Cursor>),
    /// A subclass makes its own.
    Other(Bound<'py, PyAny>),
}

static PUBLIC: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Tells which class is `manyhands.Connection`, once, when the package is loaded.
#[pyfunction]
#[pyo3(signature = (class_, /))]
pub(crate) fn _note_public_class(py: Python<'_>, class_: Py<PyType>) {
    // It is this one already, if the package is loaded anew.
    let _ = PUBLIC.set(py, class_);
}

impl Connection {
    fn own_cursor<'py>(slf: &Bound<'py, Self>) -> PyResult<MadeCursor<'py>> {
        let py = slf.py();
        if PUBLIC.get(py).is_some_and(|public| slf.get_type().is(public)) {
            slf.get().check(py)?;
            return Ok(MadeCursor::Own(Bound::new(py, Cursor::made(slf))?));
        }
        Ok(MadeCursor::Other(slf.call_method0("cursor")?))
    }

    /// The statement with this text.
    pub(crate) fn statement<'py>(
        &self,
        sql: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, Statement>> {
        let py = sql.py();
        let (statements, statements_max) = {
            let attributes = lock(&self.attributes);
            let statements = attributes.statements.as_ref().map(|known| known.bind(py).clone());
            (statements, attributes.statements_max)
        };
        let Some(statements) =
            statements.filter(|_| statements_max > 0 && sql.is_exact_instance_of::<PyString>())
        else {
            return Bound::new(py, Statement::new(sql)?);
        };
        if let Some(known) = statements.get_item(sql)? {
            return Ok(known.cast_into()?);
        }
        let statement = Bound::new(py, Statement::new(sql)?)?;
        if statements.len() >= statements_max
            && let Some(oldest) = statements.keys().iter().next()
        {
            statements.del_item(oldest)?;
        }
        statements.set_item(sql, &statement)?;
        Ok(statement)
    }
}
