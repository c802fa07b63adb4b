//! Rows that a task takes one by one, however many there are.

use std::collections::VecDeque;
use std::sync::Arc;

use manyhands_sqlite::Value;
use tokio::sync::oneshot;

use super::call::Calls;
use super::worker_pool;
use crate::{Connection, Cursor, Error, Row, limits};

/// The rows of a query, one by one; made by [`super::AsyncDatabase::rows`]. They are fetched some at a time, on the threads of
/// the database, and shown as they were when the query began. Until the last row, or until it is dropped, it keeps its
/// snapshot, and with that the WAL, as a reader that does not end.
#[must_use = "rows are fetched when they are asked for"]
pub struct AsyncRows {
    calls: Arc<Calls>,
    /// Fetched, and not asked for yet.
    waiting: VecDeque<Row>,
    then: Then,
}

/// What comes after the rows that were fetched.
enum Then {
    More(Running),
    End,
    Failed(Error),
    /// A thread has the query; for ever, when the future of that step was dropped.
    Away,
}

/// A query that runs. It may be dropped on any thread, and is closed on one of ours.
struct Running {
    calls: Arc<Calls>,
    /// `None` once it is dropped. The cursor goes first.
    query: Option<(Cursor, Box<Connection>)>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(query) = self.query.take() else { return };
        match self.calls.next_number() {
            Ok(number) => self.calls.reads.submit(number, Box::new(move |_| drop(query))),
            // In a child of a fork nothing is to be done.
            Err(_) => drop(query),
        }
    }
}

impl Running {
    /// Fetches some rows, and says what comes after them.
    fn fetch(mut self) -> (VecDeque<Row>, Then) {
        let (mut rows, mut bytes) = (VecDeque::new(), 0);
        while rows.len() < limits::ASYNC_ROWS_MAX && bytes < limits::ASYNC_ROW_BYTES_MAX {
            let next = self.query.as_mut().map_or(Ok(None), |(cursor, _)| cursor.next_row());
            let then = match next {
                Ok(Some(row)) => {
                    bytes += row.bytes();
                    rows.push_back(row);
                    continue;
                }
                Ok(None) => Then::End,
                Err(error) => Then::Failed(error),
            };
            // Here, and not on another thread of ours.
            drop(self.query.take());
            return (rows, then);
        }
        (rows, Then::More(self))
    }
}

impl AsyncRows {
    pub(crate) async fn begin(
        calls: &Arc<Calls>,
        sql: &str,
        values: &[Value],
    ) -> Result<AsyncRows, Error> {
        let (sql, values) = (sql.to_string(), values.to_vec());
        let (database, shared) = (calls.database().clone(), Arc::clone(calls));
        let query = move || {
            let mut connection = Box::new(database.connect()?);
            let cursor = connection.cursor(&sql, &values)?;
            Ok::<_, Error>(Running { calls: shared, query: Some((cursor, connection)) }.fetch())
        };
        let (waiting, then) = on_a_thread(calls, query).await??;
        Ok(AsyncRows { calls: Arc::clone(calls), waiting, then })
    }

    /// The next row; `None` after the last.
    ///
    /// # Errors
    /// As SQLite fails to step the query; there are no rows after that. And after the future of such a call was dropped before
    /// it was ready: then it is not known which row is the next.
    pub async fn next_row(&mut self) -> Result<Option<Row>, Error> {
        while self.waiting.is_empty() {
            match core::mem::replace(&mut self.then, Then::Away) {
                Then::More(running) => {
                    let fetched = on_a_thread(&self.calls, move || running.fetch()).await?;
                    (self.waiting, self.then) = fetched;
                }
                Then::End => {
                    self.then = Then::End;
                    return Ok(None);
                }
                Then::Failed(error) => {
                    self.then = Then::End;
                    return Err(error);
                }
                Then::Away => {
                    return Err(Error::refused(
                        "a call for the next row was given up before it ended: begin the query again",
                    ));
                }
            }
        }
        Ok(self.waiting.pop_front())
    }
}

/// Does work on a thread for reads.
async fn on_a_thread<T: Send + 'static>(
    calls: &Calls,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let (reply, answer) = oneshot::channel();
    let job = move |_: &mut worker_pool::Worker| {
        if !reply.is_closed() {
            // Nobody wants it any more: it is closed.
            let _ = reply.send(work());
        }
    };
    calls.reads.submit(calls.next_number()?, Box::new(job));
    answer.await.map_err(|_| worker_pool::no_thread())
}

impl core::fmt::Debug for AsyncRows {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("AsyncRows").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}
