//! A statement: what it touches, where it runs, whether it is infallible, and what its caller has seen.

pub(crate) mod built_in;
pub(crate) mod bytecode;
pub(crate) mod cache;
pub(crate) mod fingerprint;
pub(crate) mod hooks;
pub(crate) mod infallible;
pub(crate) mod observe;
pub(crate) mod prepared;
pub(crate) mod rewrite;
pub(crate) mod routing;
pub(crate) mod rowid;
pub(crate) mod tables;
pub(crate) mod text;

/// A database of plain SQLite, which says what is right.
#[cfg(test)]
pub(crate) fn in_memory() -> manyhands_sqlite::Connection {
    use manyhands_sqlite::{Connection, OpenMode};
    Connection::open(":memory:".as_ref(), OpenMode::ReadWriteCreate, false).expect("opens")
}
