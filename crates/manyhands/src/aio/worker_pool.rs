//! A worker pool: a bounded number of threads, each with a connection, for jobs in the order of their numbers.

use core::time::Duration;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use manyhands_sqlite as sqlite;
use tokio::sync::oneshot;

use crate::mutex::lock;
use crate::{Connection, Database, Error};

/// How long a thread without work waits for some before it ends. To start one costs less than a sync,
/// and its connection is kept by the file.
pub(crate) const IDLE: Duration = Duration::from_secs(5);

/// What a thread does. It runs to its end, also when nobody waits for it any more, unless it looks.
pub(crate) type Job = Box<dyn FnOnce(&mut Worker) + Send>;

/// What a thread works with.
pub(crate) struct Worker {
    database: Database,
    connection: Option<Connection>,
}

impl Worker {
    pub(crate) fn new(database: &Database) -> Worker {
        Worker { database: database.clone(), connection: None }
    }

    /// A pristine connection.
    pub(crate) fn connection(&mut self) -> Result<&mut Connection, Error> {
        let kept = self.connection.take().and_then(begin_anew);
        let connection = match kept {
            Some(connection) => connection,
            None => self.database.connect()?,
        };
        Ok(self.connection.insert(connection))
    }

    /// Does work that may panic. After a panic the connection is closed, which undoes what it had begun.
    pub(crate) fn attempt<T>(&mut self, work: impl FnOnce(&mut Worker) -> T) -> thread::Result<T> {
        let result = catch_unwind(AssertUnwindSafe(|| work(self)));
        if result.is_err() {
            self.connection = None;
        }
        result
    }
}

/// Makes a connection pristine again, for its next user; `None` when that is not possible.
fn begin_anew(mut connection: Connection) -> Option<Connection> {
    let pristine = connection.pristine
        && connection.restore_durability()
        && connection.turns.is_empty()
        && connection.sqlite().transaction() == sqlite::Transaction::None;
    if pristine {
        connection.session().forget_session();
    }
    pristine.then_some(connection)
}

/// A bounded number of threads for jobs.
pub(crate) struct WorkerPool {
    name: &'static str,
    threads_max: usize,
    database: Database,
    state: Mutex<State>,
    wake_up: Condvar,
}

#[derive(Default)]
struct State {
    jobs: BTreeMap<u64, Job>,
    threads: usize,
    /// How many of them wait for a job.
    idle: usize,
    closed: bool,
}

impl WorkerPool {
    pub(crate) fn new(
        name: &'static str,
        threads_max: usize,
        database: &Database,
    ) -> Arc<WorkerPool> {
        let (state, wake_up) = (Mutex::default(), Condvar::new());
        Arc::new(WorkerPool { name, threads_max, database: database.clone(), state, wake_up })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No job runs under the lock, so nothing panics there.
        lock(&self.state)
    }

    /// Lets a thread do the job, those of lower numbers first.
    pub(crate) fn submit(self: &Arc<WorkerPool>, number: u64, job: Job) {
        let mut state = self.lock();
        state.jobs.insert(number, job);
        let starts = state.jobs.len() > state.idle && state.threads < self.threads_max;
        state.threads += usize::from(starts);
        drop(state);
        if !starts {
            self.wake_up.notify_one();
            return;
        }
        let worker_pool = Arc::clone(self);
        let thread = thread::Builder::new().name(self.name.to_string());
        if thread.spawn(move || worker_pool.work()).is_err() {
            let mut state = self.lock();
            state.threads -= 1;
            // If there is another thread, the job is only late. If there is none, its task learns that the job is gone.
            let lost = if state.threads == 0 { state.jobs.remove(&number) } else { None };
            drop(state);
            drop(lost);
        }
    }

    /// Takes back a job that no thread has begun.
    pub(crate) fn give_up(&self, number: u64) {
        let job = self.lock().jobs.remove(&number);
        drop(job);
    }

    /// Lets the threads end when all is done.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake_up.notify_all();
    }

    fn work(&self) {
        let mut worker = Worker::new(&self.database);
        while let Some(job) = self.next() {
            // The task that waits for it learns that its channel was dropped.
            let _ = worker.attempt(|worker| job(worker));
        }
    }

    /// The next job; `None` when this thread is to end.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some((_, job)) = state.jobs.pop_first() {
                return Some(job);
            }
            if state.closed {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            let (back, waited) =
                self.wake_up.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = back;
            state.idle -= 1;
            if waited.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }
}

/// Does one thing on a thread of its own.
pub(crate) async fn once<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let (reply, answer) = oneshot::channel();
    let thread = thread::Builder::new().name("manyhands-open".to_string());
    let started = thread.spawn(move || reply.send(work()));
    if started.is_err() {
        return Err(no_thread());
    }
    answer.await.unwrap_or_else(|_| Err(no_thread()))
}

pub(crate) fn no_thread() -> Error {
    Error::refused("the system gave no thread to execute this; nothing was written")
}
