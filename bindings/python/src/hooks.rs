//! What SQLite asks and tells a connection's application: authorizer, progress handler, trace callback.

use manyhands::{Action, Progress, Traced, Verdict};
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::callback::{Callable, Callback, report};
use crate::connection::{Connection, lock};
use crate::error::DataError;

#[pymethods]
impl Connection {
    /// Sets a callable that is asked about everything that a statement will touch, while it is compiled:
    /// with an action code, two details, the name of the database, and that of the innermost trigger or
    /// view. It returns SQLITE_OK, SQLITE_DENY or SQLITE_IGNORE. None unsets it.
    ///
    /// A connection that has one executes its writes itself, in its turn.
    #[pyo3(signature = (authorizer_callback))]
    fn set_authorizer(
        &self,
        py: Python<'_>,
        authorizer_callback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let callback = authorizer_callback.map(|callable| Callback::new(callable, self));
        let callable = callback.as_ref().map(Callback::callable);
        let authorizer = callback.map(|callback| {
            move |action: &Action<'_>| {
                let Action { code, first, second, database, trigger, .. } = *action;
                callback.run(
                    |callable| {
                        let answer = callable.call1((code, first, second, database, trigger))?;
                        if !answer.is_instance_of::<PyInt>() {
                            return Ok(Verdict::Deny);
                        }
                        Ok(match answer.extract::<i32>()? {
                            ALLOW => Verdict::Allow,
                            DENY => Verdict::Deny,
                            IGNORE => Verdict::Ignore,
                            _ => Verdict::Invalid,
                        })
                    },
                    |_, _| Verdict::Deny,
                )
            }
        });
        self.call(py, |connection| connection.set_authorizer(authorizer))?;
        self.show_to_collector(Hook::Authorizer, callable);
        Ok(())
    }

    /// Sets a callable that is called after every `n` instructions of a running statement; when it returns
    /// something true, or raises, the statement ends with OperationalError. None unsets it.
    ///
    /// A connection that has one executes its writes itself, in its turn.
    #[pyo3(signature = (progress_handler, n))]
    fn set_progress_handler(
        &self,
        py: Python<'_>,
        progress_handler: Option<Py<PyAny>>,
        n: i32,
    ) -> PyResult<()> {
        // As in SQLite, less than one is never.
        let every = u32::try_from(n).unwrap_or(0);
        let handler = progress_handler.filter(|_| every > 0);
        let callback = handler.map(|callable| Callback::new(callable, self));
        let callable = callback.as_ref().map(Callback::callable);
        let handler = callback.map(|callback| {
            move || {
                let stops = callback.run(|callable| callable.call0()?.is_truthy(), |_, _| true);
                if stops { Progress::Stop } else { Progress::Continue }
            }
        });
        self.call(py, |connection| connection.set_progress_handler(every, handler))?;
        self.show_to_collector(Hook::Progress, callable);
        Ok(())
    }

    /// Sets a callable that is called with the text of each statement that begins to run, its values in the
    /// places of its parameters. What it returns is ignored. None unsets it.
    ///
    /// A connection that has one executes its writes itself, in its turn.
    #[pyo3(signature = (trace_callback))]
    fn set_trace_callback(
        &self,
        py: Python<'_>,
        trace_callback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let callback = trace_callback.map(|callable| Callback::new(callable, self));
        let callable = callback.as_ref().map(Callback::callable);
        let tracer = callback.map(|callback| {
            move |traced: &Traced<'_>| {
                callback.run(
                    |callable| {
                        if traced.expanded.is_none() {
                            let text = "Expanded SQL string exceeds the maximum string length";
                            report(callable.py(), DataError::new_err(text), callable);
                        }
                        let text = traced.expanded.as_deref().unwrap_or(&traced.sql);
                        callable.call1((text,)).map(drop)
                    },
                    |_, _| (),
                );
            }
        });
        self.call(py, |connection| connection.set_tracer(tracer))?;
        self.show_to_collector(Hook::Trace, callable);
        Ok(())
    }
}

/// An index in `Attributes::hooks`.
#[derive(Clone, Copy)]
enum Hook {
    Authorizer,
    Progress,
    Trace,
}

impl Connection {
    /// They are often methods of what holds the connection, which must not live for ever.
    fn show_to_collector(&self, hook: Hook, callable: Option<Callable>) {
        let old = std::mem::replace(&mut lock(&self.attributes).hooks[hook as usize], callable);
        drop(old);
    }
}

const ALLOW: i32 = 0;
pub(crate) const DENY: i32 = 1;
pub(crate) const IGNORE: i32 = 2;
