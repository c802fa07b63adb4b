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
//! Async tasks use `aio::AsyncDatabase`, behind the feature `tokio`.
//!
//! The modules, in the order of a write's way: a [`Database`] makes a [`Connection`], which compiles a
//! statement and decides its route; `commit` takes it through the queue; `batch` is the leader's work;
//! `recover` is what happens when a leader dies.

mod database;
mod joining;
mod entrance;
mod registry;
mod idle;
mod connection;
mod interrupt;
mod show;
mod compile;
mod statement_cache;
mod prepared;
mod built_in;
mod routing;
mod tables;
mod write;
mod request;
mod commit;
mod batch;
mod courtesy;
mod executor;
mod authority;
mod execute;
mod turn;
mod holder;
mod optimistic;
mod savepoints;
mod auto_mode;
mod prediction;
mod certain;
mod program;
mod kept_back;
mod log;
mod observe;
mod cursor;
mod row_buffer;
mod ids;
mod new_rowid;
mod ladder;
mod escalate;
mod home;
mod replay;
mod recent;
mod recover;
mod checkpoint;
mod wal_reader;
mod session;
mod synchronous;
mod own_answers;
mod nothing_to_do;
mod functions;
mod hooks;
mod switches;
mod blob;
mod backup;
mod transaction;
mod retry;
#[cfg(feature = "tokio")]
pub mod aio;
mod busy;
mod row;
mod options;
mod limits;
mod mutex;
mod error;
mod stats;
#[cfg(any(test, fuzzing))]
mod decisions;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod foreign_request;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod foreign_bytes;

pub use backup::Backup;
pub use blob::Blob;
pub use certain::Foreseen;
pub use connection::Connection;
pub use cursor::{Cursor, Execution};
pub use database::Database;
pub use error::{Conflict, Error};
pub use interrupt::InterruptHandle;
pub use manyhands_sqlite::authorizer::{Action, ActionKind, Verdict};
pub use manyhands_sqlite::locks::generation as fork_generation;
pub use manyhands_sqlite::{
    Aggregate, BackupStep, BlobPlace, Code, FunctionError, Limit, Progress, Setting, Text, Traced,
    Value, ValueRef, WindowAggregate, is_complete, real_as_text, thread_safety,
    version as sqlite_version,
};
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use new_rowid::foreign_text;
pub use options::{Builder, Durability, Journal, TransactionMode};
pub use request::Counts as SessionCounts;
pub use row::{FromValue, Outcome, Row, RowView};
pub use row_buffer::RowBuffer;
pub use stats::Statistics;
pub use transaction::Transaction;
pub use wal_reader::WalReader;

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

/// The examples of the README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
