//! Transactions with awaits inside.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use manyhands_sqlite::Value;
use tokio::sync::oneshot;

use super::call::Calls;
use super::worker_pool::{self, WorkerPool};
use crate::{Connection, Error, Outcome, Row};

/// A transaction of an [`super::AsyncDatabase`], with a connection of its own. Its steps run on the threads
/// of its database. Dropping it rolls it back, on such a thread; so does dropping the future of one of its
/// steps. After that every step fails, and after an error that has ended the transaction.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("app.db");
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # async fn ask_the_bank() -> i64 { 50 }
/// use manyhands::{aio::AsyncDatabase, params};
/// let database = AsyncDatabase::open(&path).await?;
/// database.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER)", params![]).await?;
/// database.execute("INSERT INTO account VALUES (1, 500)", params![]).await?;
///
/// let mut transaction = database.transaction().await?;
/// let rows = transaction.query("SELECT cents FROM account WHERE id = 1", params![]).await?;
/// let cents: i64 = rows[0].get(0)?;
/// let spent = ask_the_bank().await;
/// transaction.execute("UPDATE account SET cents = ?1 WHERE id = 1", params![cents - spent]).await?;
/// transaction.commit().await?;
/// # Ok::<(), manyhands::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a transaction rolls it back"]
pub struct AsyncTransaction {
    calls: Arc<Calls>,
    /// `None` while a step has it; and for ever, when that step was given up.
    open: Option<Open>,
}

/// The connection of an open transaction. It may be dropped on any thread, and is closed on a thread of ours.
struct Open {
    calls: Arc<Calls>,
    connection: Option<Box<Connection>>,
}

impl Open {
    /// The pool of the next step. While others wait for the turn that this transaction holds, they may
    /// occupy all threads of their pool.
    fn worker_pool(&self) -> &Arc<WorkerPool> {
        let holds = self.connection.as_ref().is_some_and(|it| !it.turns.is_empty());
        if holds { &self.calls.holders } else { &self.calls.turns }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        // The rollback of a snapshot waits for nobody.
        let holds = !connection.turns.is_empty();
        let worker_pool = if holds { &self.calls.holders } else { &self.calls.reads };
        match self.calls.next_number() {
            Ok(number) => worker_pool.submit(number, Box::new(move |_| drop(connection))),
            // In a child of a fork nothing is to be done.
            Err(_) => drop(connection),
        }
    }
}

impl AsyncTransaction {
    pub(crate) async fn begin(
        calls: &Arc<Calls>,
        sql: &'static str,
    ) -> Result<AsyncTransaction, Error> {
        let database = calls.database().clone();
        let (reply, answer) = oneshot::channel();
        let shared = Arc::clone(calls);
        let job = move |_: &mut worker_pool::Worker| {
            if reply.is_closed() {
                return;
            }
            let begun = database.connect().and_then(|mut connection| {
                connection.execute(sql, &[])?;
                connection.guard();
                Ok(Open { calls: shared, connection: Some(Box::new(connection)) })
            });
            // Nobody wants it any more.
            let _ = reply.send(begun);
        };
        calls.turns.submit(calls.next_number()?, Box::new(job));
        let open = answer.await.unwrap_or_else(|_| Err(worker_pool::no_thread()))?;
        Ok(AsyncTransaction { calls: Arc::clone(calls), open: Some(open) })
    }

    /// Executes one statement; see [`crate::Connection::execute`].
    ///
    /// # Errors
    /// See [`crate::Connection::execute`]; and after a step was given up.
    pub async fn execute(&mut self, sql: &str, values: &[Value]) -> Result<Outcome, Error> {
        let (sql, values) = (sql.to_string(), values.to_vec());
        self.step(move |connection| connection.execute(&sql, &values)).await
    }

    /// Executes one statement and returns its rows.
    ///
    /// # Errors
    /// See [`AsyncTransaction::execute`].
    pub async fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Error> {
        self.execute(sql, values).await.map(|outcome| outcome.rows)
    }

    /// Commits; when this returns, the writes are durable. When its future is dropped, the transaction may
    /// be committed or not.
    ///
    /// # Errors
    /// [`Error::is_conflict`] when something that the transaction saw is no longer so; see
    /// [`crate::Transaction::commit`]. The transaction is rolled back then.
    pub async fn commit(mut self) -> Result<(), Error> {
        self.end(|connection| connection.execute("COMMIT", &[]).map(drop)).await
    }

    /// Rolls back.
    ///
    /// # Errors
    /// As SQLite fails to roll back.
    pub async fn rollback(mut self) -> Result<(), Error> {
        self.end(Connection::roll_back).await
    }

    async fn end(
        &mut self,
        how: impl FnOnce(&mut Connection) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let ended = self.step(how).await;
        // What is left of it is closed on a thread of ours.
        self.open = None;
        ended
    }

    /// Lends the connection to a thread for one step.
    async fn step<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let number = self.calls.next_number()?;
        let mut open = self.open.take().ok_or_else(|| {
            Error::refused(
                "a step of this transaction was given up before it ended, so the transaction was rolled \
                 back; begin another",
            )
        })?;
        let worker_pool = Arc::clone(open.worker_pool());
        let (reply, answer) = oneshot::channel();
        let job = move |worker: &mut worker_pool::Worker| {
            if reply.is_closed() {
                return;
            }
            let result: thread::Result<Result<T, Error>> = worker.attempt(|_| {
                let connection = open.connection.as_mut().expect("there until it is dropped");
                work(connection)
            });
            // Nobody wants it any more: it is rolled back.
            let _ = reply.send((open, result));
        };
        worker_pool.submit(number, Box::new(job));
        let (open, result) = answer.await.map_err(|_| worker_pool::no_thread())?;
        match result {
            Ok(result) => {
                self.open = Some(open);
                result
            }
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl core::fmt::Debug for AsyncTransaction {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("AsyncTransaction").finish_non_exhaustive()
    }
}
