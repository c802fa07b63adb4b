//! Many writers, one ordinary SQLite file.
//!
//! Open an SQLite file through [`Database`] instead, and threads and processes write it at once: no
//! `database is locked`, one sync for many commits, full durability. The file stays an ordinary SQLite
//! database in WAL mode, which the sqlite3 shell and other programs read and write meanwhile.
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("app.db");
//! use manyhands::{Database, params};
//!
//! let database = Database::open(&path)?;
//! database.connect()?.execute("CREATE TABLE hit (worker INTEGER)", params![])?;
//!
//! std::thread::scope(|scope| {
//!     for worker in 0..8 {
//!         let database = database.clone();
//!         scope.spawn(move || {
//!             let mut connection = database.connect()?;
//!             for _ in 0..10 {
//!                 connection.execute("INSERT INTO hit VALUES (?1)", params![worker])?;
//!             }
//!             Ok::<(), manyhands::Error>(())
//!         });
//!     }
//! });
//!
//! let rows = database.connect()?.query("SELECT count(*) FROM hit", params![])?;
//! assert_eq!(rows[0].get::<i64>(0)?, 80);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # For users of rusqlite
//!
//! | rusqlite | here |
//! |---|---|
//! | `Connection::open`, `&Connection` | [`Database::open`], then a [`Connection`] for each thread: `&mut` |
//! | `execute`, `execute_batch` | [`Connection::execute`], which returns an [`Outcome`]; [`Connection::execute_script`] |
//! | `query_row`, `optional()` | [`Connection::query_row`], [`OptionalExtension::optional`] |
//! | `prepare`, `prepare_cached` | [`Connection::prepare`]: a [`Statement`] takes its connection where it runs, and borrows it no longer |
//! | `Rows`, `query_map` | [`Connection::cursor`], [`Connection::query_map`]: the connection is free meanwhile |
//! | `params!`, `named_params!`, `ToSql` | [`params!`], [`named_params!`], [`Params`], `From<…> for` [`Value`] |
//! | `FromSql`, `row.get(0)`, `row.get("name")` | [`FromValue`], [`Row::get`], [`RowView::get`] |
//! | `transaction`, `savepoint` | [`Connection::run`], [`Connection::transaction`], [`Transaction::savepoint`] |
//! | `update_hook`, `commit_hook`, `rollback_hook` | [`Connection::set_update_hook`], [`Connection::set_commit_hook`], [`Connection::set_rollback_hook`] |
//! | `blob_open` | [`Connection::open_blob`] |
//!
//! Async tasks use `aio::AsyncDatabase`, behind the feature `tokio`. What only a binding to another language needs is in
//! [`driver`].
//!
//! The modules, from the doors down, each of which imports only those below it: a [`Database`] makes a [`Connection`], which
//! compiles a statement and decides its route; `transaction` is what an open one remembers; `commit` takes a request through
//! the queue to the sync; `session` is one connection of SQLite; `statement` is what is known of a statement.

#[cfg(feature = "tokio")]
pub mod aio;
pub mod driver;
mod database;
mod connection;
mod transaction;
mod commit;
mod session;
mod statement;
mod row;
mod row_buffer;
mod from_value;
mod params;
mod options;
mod statistics;
mod limits;
mod error;
mod mutex;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;

pub use commit::wal_reader::WalReader;
pub use connection::Connection;
pub use connection::backup::Backup;
pub use connection::blob::Blob;
pub use connection::cursor::{Cursor, MappedRows};
pub use connection::guard::{Savepoint, Transaction};
pub use connection::statement::{ParameterIndex, Statement};
pub use database::{Builder, Database};
pub use error::{Conflict, Error, OptionalExtension};
pub use from_value::{FromValue, FromValueError, RowIndex};
pub use manyhands_sqlite::authorizer::{Action, ActionKind, Verdict};
pub use manyhands_sqlite::{
    Aggregate, BackupStep, BlobPlace, ChangeKind, Code, FunctionError, Limit, Progress, RowChange,
    Setting, Text, Traced, Value, ValueRef, WindowAggregate, is_complete,
    version as sqlite_version,
};
pub use options::{Durability, Journal, TransactionMode};
pub use params::Params;
pub use row::{Outcome, Row, RowView};
pub use row_buffer::RowBuffer;
pub use session::interrupt::InterruptHandle;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use statement::rewrite::any_text;
pub use statistics::Statistics;

/// The values for a statement's parameters: `params![1, "two", 3.0]`, each anything that
/// converts into a [`Value`]; `params![]` for none.
#[macro_export]
macro_rules! params {
    () => {
        &[] as &[$crate::Value]
    };
    ($($value:expr),+ $(,)?) => {
        &[$($crate::Value::from($value)),+] as &[$crate::Value]
    };
}

/// The values for a statement's parameters by their names, with the sign before them: `named_params!{":id": 1, ":name": "two"}`.
#[macro_export]
macro_rules! named_params {
    ($($name:literal : $value:expr),* $(,)?) => {
        [$(($name, $crate::Value::from($value))),*] as [(&str, $crate::Value); _]
    };
}

/// The examples of the README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
