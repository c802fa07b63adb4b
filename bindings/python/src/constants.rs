//! SQLite's numbers by their names, and what SQLite says without a connection.

use manyhands::{Action, Code, Limit, Setting};
use pyo3::prelude::*;

use crate::hooks::{DENY, IGNORE};

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for (code, name) in Code::all() {
        module.add(name, code.0)?;
    }
    for (limit, name) in Limit::ALL {
        module.add(*name, *limit as i32)?;
    }
    for (setting, name) in Setting::ALL {
        module.add(*name, *setting as i32)?;
    }
    for (code, name) in Action::CODES {
        module.add(*name, *code)?;
    }
    module.add("SQLITE_DENY", DENY)?;
    module.add("SQLITE_IGNORE", IGNORE)
}

/// True when a text ends with a whole statement, as far as its words tell: that it is valid is not checked.
#[pyfunction]
pub(crate) fn complete_statement(statement: &str) -> bool {
    manyhands::is_complete(statement)
}
