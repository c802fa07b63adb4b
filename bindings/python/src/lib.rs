//! The native half of the Python package `manyhands`: converts, calls, converts back.
//!
//! What always holds:
//! * The GIL is released before a connection's mutex is taken, and taken again after that is free.
//! * A connection that was made before `fork()` is not touched in the child, its mutex included: a thread
//!   that the child does not have may hold it.
//! * A panic becomes Python's `InternalError`, and the connection is not used after it.
//!
//! The DB-API is shaped in Python, in `python/manyhands/`.

mod connection;
mod error;
mod value;

/// The module `manyhands._manyhands`.
#[pyo3::pymodule(gil_used = true)]
mod _manyhands {
    #[pymodule_export]
    use crate::connection::Connection;
}
