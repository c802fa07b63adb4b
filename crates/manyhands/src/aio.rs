//! The forms for async tasks: thousands of tasks of a process read and write one database, without a thread
//! or a connection for each.
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("app.db");
//! # tokio::runtime::Builder::new_multi_thread().build()?.block_on(async {
//! use manyhands::{aio::AsyncDatabase, params};
//!
//! let database = AsyncDatabase::open(&path).await?;
//! database.execute("CREATE TABLE hit (worker INTEGER)", params![]).await?;
//!
//! let mut tasks = Vec::new();
//! for worker in 0..100 {
//!     let database = database.clone();
//!     tasks.push(tokio::spawn(async move {
//!         database.execute("INSERT INTO hit VALUES (?1)", params![worker]).await
//!     }));
//! }
//! for task in tasks {
//!     task.await.expect("no panic")?;
//! }
//!
//! let rows = database.query("SELECT count(*) FROM hit", params![]).await?;
//! assert_eq!(rows[0].get::<i64>(0)?, 100);
//! # Ok::<(), manyhands::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A task never waits inside a poll: no SQLite, no sync, no futex. A task encodes a write that any connection can execute, and
//! puts it straight into the shared-memory queue. One thread, the `writer`, waits for the oldest of these writes, leads when nobody
//! does, and hands out the answers. Everything else is a job for a `worker_pool`: a few threads with a connection each. A task
//! waits for a oneshot channel, so any executor will do. A runtime that shuts down drops its calls, which are then given up in
//! order.
//!
//! The threads are our own, and not a runtime's blocking threads. Those are many, are shared with other work, and end with the
//! runtime, while somebody must still learn the fate of a request that a leader executes.
//!
//! Threads of an [`AsyncDatabase`] and its clones, started on demand, ended after seconds without work:
//!
//! | worker pool  | at most                        | what runs there                                      |
//! |--------------|--------------------------------|------------------------------------------------------|
//! | writer       | 1                              | waits for all writes in the queue                    |
//! | reads        | number of processors + 2       | queries; statements seen for the first time          |
//! | turns        | 8                              | what may wait for a turn: functions, DDL, transactions |
//! | turn holders | 1 for each turn that is held   | the transaction that has the turn                    |
//!
//! The last pool stands apart, since all threads of the other pools may be waiting for that very turn.
//!
//! Calls are served first come, first served, by the time of their first poll; a statement that is seen for
//! the first time is compiled before it is in the queue. A call that is dropped is
//! given up. If no leader and no thread has begun it, it is not executed any more. Otherwise it is finished in the
//! background, and may have taken effect.

mod call;
mod known;
mod worker_pool;
mod writer;
mod rows;
mod transaction;

use core::fmt;
use std::path::Path;
use std::sync::Arc;

use call::Calls;
use manyhands_sqlite::Value;

use crate::Database;
use crate::Error;
use crate::Outcome;
use crate::Row;
use crate::Transaction;
pub use rows::AsyncRows;
pub use transaction::AsyncTransaction;

/// A [`Database`] for async tasks. Cheap to clone; its clones share their threads, so one per file and
/// process is enough. See the [module](self) for what runs where.
#[derive(Clone)]
pub struct AsyncDatabase {
    calls: Arc<Calls>,
}

impl Database {
    /// This database for async tasks, with its own few threads; see [`aio`](crate::aio).
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("app.db");
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// use manyhands::{Database, params};
    /// let database = Database::builder(&path).label("web server").open()?.tokio()?;
    /// database.execute("CREATE TABLE item (name TEXT)", params![]).await?;
    /// # Ok::<(), manyhands::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// For `:memory:` and temporary databases: each of their connections is a database of its own. For a
    /// file that can only be read, unless [`crate::Builder::read_only`] said so.
    pub fn tokio(&self) -> Result<AsyncDatabase, Error> {
        Ok(AsyncDatabase { calls: Calls::new(self)? })
    }
}

impl AsyncDatabase {
    /// Opens a database file as [`Database::open`] does. For choices use [`Database::builder`] and
    /// [`Database::tokio`].
    ///
    /// # Errors
    /// See [`Database::open`] and [`Database::tokio`].
    pub async fn open(path: impl AsRef<Path>) -> Result<AsyncDatabase, Error> {
        let path = path.as_ref().to_path_buf();
        worker_pool::once(move || Database::open(path)?.tokio()).await
    }

    /// Executes one statement, to its end; see [`crate::Connection::execute`]. Each call is a session of
    /// its own: `last_insert_rowid()` is in its [`Outcome`], not in the next call.
    ///
    /// # Errors
    /// See [`crate::Connection::execute`]; and for a statement that is about a session: BEGIN, COMMIT and savepoints,
    /// ATTACH, the temp schema, a PRAGMA that sets something for the connection.
    pub async fn execute(&self, sql: &str, values: &[Value]) -> Result<Outcome, Error> {
        let outcomes = self.calls.call(&[(sql, values)], true)?.await?;
        outcomes.into_iter().next().ok_or_else(|| Error::refused("the answer has no result"))
    }

    /// Executes one statement and returns its rows.
    ///
    /// # Errors
    /// See [`AsyncDatabase::execute`].
    pub async fn query(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Error> {
        self.execute(sql, values).await.map(|outcome| outcome.rows)
    }

    /// Executes one statement that reads, and gives its rows one by one, without keeping them all; see
    /// [`crate::Connection::cursor`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("app.db");
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// use manyhands::{aio::AsyncDatabase, params};
    /// let database = AsyncDatabase::open(&path).await?;
    /// let sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?1) SELECT i FROM n";
    /// let (mut rows, mut sum) = (database.rows(sql, params![1000]).await?, 0);
    /// while let Some(row) = rows.next_row().await? {
    ///     sum += row.get::<i64>("i")?;
    /// }
    /// assert_eq!(sum, 500_500);
    /// # Ok::<(), manyhands::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`AsyncDatabase::execute`]; and when the statement writes.
    pub async fn rows(&self, sql: &str, values: &[Value]) -> Result<AsyncRows, Error> {
        AsyncRows::begin(&self.calls, sql, values).await
    }

    /// Executes several statements, all or none; see [`crate::Connection::batch`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("app.db");
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// use manyhands::{aio::AsyncDatabase, params};
    /// let database = AsyncDatabase::open(&path).await?;
    /// database.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER)", params![]).await?;
    /// database.execute("INSERT INTO account VALUES (1, 500), (2, 0)", params![]).await?;
    /// let done = database
    ///     .batch(&[
    ///         ("UPDATE account SET cents = cents - ?1 WHERE id = 1", params![200]),
    ///         ("UPDATE account SET cents = cents + ?1 WHERE id = 2 RETURNING cents", params![200]),
    ///     ])
    ///     .await?;
    /// assert_eq!(done[1].rows[0].get::<i64>(0)?, 200);
    /// # Ok::<(), manyhands::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`crate::Connection::batch`] and [`AsyncDatabase::execute`].
    pub async fn batch(&self, statements: &[(&str, &[Value])]) -> Result<Vec<Outcome>, Error> {
        if statements.is_empty() {
            return Ok(Vec::new());
        }
        self.calls.call(statements, false)?.await
    }

    /// Runs `work` in a transaction on a thread of ours, and commits it; see [`crate::Connection::run`]:
    /// after a conflict `work` is run once more. It may take its time, but keeps one of eight threads, so
    /// it should not wait for other tasks.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("app.db");
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// use manyhands::{aio::AsyncDatabase, params};
    /// let database = AsyncDatabase::open(&path).await?;
    /// database.execute("CREATE TABLE counter (n INTEGER)", params![]).await?;
    /// database.execute("INSERT INTO counter VALUES (0)", params![]).await?;
    /// let before = database
    ///     .run(|transaction| {
    ///         let n: i64 = transaction.query("SELECT n FROM counter", params![])?[0].get(0)?;
    ///         transaction.execute("UPDATE counter SET n = ?1", params![n + 1])?;
    ///         Ok::<_, manyhands::Error>(n)
    ///     })
    ///     .await?;
    /// assert_eq!(before, 0);
    /// # Ok::<(), manyhands::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`crate::Connection::run`].
    ///
    /// # Panics
    /// When `work` panics, in the task that waits; its transaction is rolled back.
    pub async fn run<T, E>(
        &self,
        work: impl FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.calls.run(work)?.await
    }

    /// Begins an optimistic transaction whose steps may have awaits between them; see
    /// [`crate::Connection::transaction`]. It has a connection of its own.
    ///
    /// # Errors
    /// As SQLite fails to open.
    pub async fn transaction(&self) -> Result<AsyncTransaction, Error> {
        AsyncTransaction::begin(&self.calls, "BEGIN").await
    }

    /// Begins a transaction that holds the turn; see [`crate::Connection::begin_immediate`]. All other
    /// writers, of all processes, wait until it ends: be brief.
    ///
    /// # Errors
    /// As SQLite fails to open; [`Error::is_timeout`] when the turn did not come.
    pub async fn begin_immediate(&self) -> Result<AsyncTransaction, Error> {
        AsyncTransaction::begin(&self.calls, "BEGIN IMMEDIATE").await
    }

    /// See [`Database::statistics`].
    pub fn statistics(&self) -> Option<crate::Statistics> {
        self.calls.database().statistics()
    }
}

impl fmt::Debug for AsyncDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncDatabase").field(self.calls.database()).finish()
    }
}
