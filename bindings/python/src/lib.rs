//! The native half of the Python package `manyhands`: converts, calls, converts back.
//!
//! What always holds:
//! * The GIL is released before a connection's mutex is taken, and taken again after that is free. The one
//!   exception is a callback that SQLite makes out of a step: it takes the GIL while its connection's
//!   mutex is held. So nobody who holds the GIL waits for that mutex.
//! * The other mutexes of the objects here guard attributes: they are held for a few instructions, with
//!   the GIL, and no Python code runs meanwhile.
//! * A callback that uses the connection that calls it gets a ProgrammingError.
//! * A connection that was made before `fork()` is not touched in the child, its mutex included: a thread
//!   that the child does not have may hold it.
//! * All Python code that is needed is imported when the module is loaded: nothing can be while the interpreter exits.
//! * A thread that waits for the GIL, or calls Python code, says so first (`exit.rs`): Python may never come back.
//! * A panic becomes Python's `InternalError`, and the connection is not used after it.
//!
//! Each file adds its methods to `Connection`, where they belong to one.

mod adapt;
mod connection;
mod options;
mod threads;
mod exit;
mod control;
mod counting;
mod cursor;
mod rows;
mod statement;
mod error;
mod pause;
mod row;
mod value;
mod callback;
mod functions;
mod hooks;
mod blob;
mod backup;
mod limits;
mod constants;

/// The module `manyhands._manyhands`.
#[pyo3::pymodule(gil_used = true)]
mod _manyhands {
    #[pymodule_export]
    use crate::adapt::{adapt, register_adapter, register_converter};
    #[pymodule_export]
    use crate::blob::Blob;
    #[pymodule_export]
    use crate::callback::enable_callback_tracebacks;
    #[pymodule_export]
    use crate::connection::Connection;
    #[pymodule_export]
    use crate::connection::execute::_note_public_class;
    #[pymodule_export]
    use crate::constants::complete_statement;
    #[pymodule_export]
    use crate::cursor::Cursor;
    #[pymodule_export]
    use crate::row::Row;

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::exit::attach_once(module.py());
        crate::error::find_classes(module.py())?;
        crate::threads::find_functions(module.py())?;
        crate::connection::find_functions(module.py())?;
        crate::statement::find_classes(module.py());
        crate::adapt::add_to(module)?;
        crate::constants::add_to(module)?;
        module.add("sqlite_version", manyhands::sqlite_version())?;
        module.add("LEGACY_TRANSACTION_CONTROL", crate::control::Autocommit::LEGACY)?;
        crate::value::add_to(module)?;
        // All names are public: a list of them, with each constant, would have to stand in the stub too.
        module.delattr("__all__")
    }
}
