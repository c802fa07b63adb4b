//! Calls: from the task to a worker pool or the queue, and what becomes of a call that is dropped.

use core::future::Future;
use core::ops::Deref;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use manyhands_queue::{Deadline, Queue};
use manyhands_sqlite::{OpenMode, Value};
use tokio::sync::oneshot;

use super::known::{Known, KnownStatements, Way, way};
use super::worker_pool::{self, Worker, WorkerPool};
use super::writer::{Write, Writer};
use crate::commit::request::{self, Counts, Request, SessionSettings};
use crate::error::ErrorKind;
use crate::{Database, Error, Outcome, Transaction};

/// Threads for what may wait for a turn. They wait, so they are not bound to the number of processors;
/// each has a connection.
const TURN_THREADS_MAX: usize = 8;

/// What all clones of an [`super::AsyncDatabase`] share. `None` only while it is dropped.
pub(crate) struct Calls(Option<Shared>);

pub(crate) struct Shared {
    database: Database,
    session: SessionSettings,
    pub(crate) reads: Arc<WorkerPool>,
    pub(crate) turns: Arc<WorkerPool>,
    pub(crate) holders: Arc<WorkerPool>,
    /// `None` for a database without a queue.
    writer: Option<Arc<Writer>>,
    /// The queue as it was at the beginning: it knows a child of a fork.
    queue: Option<Arc<Queue>>,
    known: Arc<KnownStatements>,
    number: AtomicU64,
}

/// The statements of a call, kept until it is answered.
pub(crate) struct Statements {
    pub(crate) list: Vec<(String, Vec<Value>)>,
    /// An error tells no index.
    pub(crate) single: bool,
}

impl Statements {
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|(sql, _)| sql.as_str())
    }

    pub(crate) fn borrowed(&self) -> Vec<(&str, &[Value])> {
        self.list.iter().map(|(sql, values)| (sql.as_str(), values.as_slice())).collect()
    }

    /// The error of the statement with this index.
    pub(crate) fn blame(&self, (index, error): (usize, Error)) -> Error {
        if self.single { error } else { error.in_statement(index) }
    }

    /// Executes them on a connection, which waits for its turn if they need it.
    fn execute(&self, worker: &mut Worker) -> Outcomes {
        let connection = worker.connection()?;
        match self.list.as_slice() {
            [(sql, values)] if self.single => connection.execute(sql, values).map(|it| vec![it]),
            _ => connection.batch(&self.borrowed()),
        }
    }
}

/// What statements did, or why they did nothing.
pub(crate) type Outcomes = Result<Vec<Outcome>, Error>;

/// One side of a task's wait. A panic is handed to the task.
pub(crate) type Reply<T> = oneshot::Sender<thread::Result<T>>;

impl Calls {
    pub(crate) fn new(database: &Database) -> Result<Arc<Calls>, Error> {
        database.enter()?;
        if !database.may_have_a_queue() && database.mode != OpenMode::ReadOnly {
            return Err(Error::refused(
                "an async database is a file that many connections write: this one is in memory, temporary, \
                 or can only be read; open the last with `read_only(true)`",
            ));
        }
        let processors = thread::available_parallelism().map_or(2, usize::from);
        let known = Arc::new(KnownStatements::new());
        Ok(Arc::new(Calls(Some(Shared {
            session: SessionSettings::of(&database.settings),
            reads: WorkerPool::new("manyhands-read", processors + 2, database),
            turns: WorkerPool::new("manyhands-turn", TURN_THREADS_MAX, database),
            // As many as there are turns.
            holders: WorkerPool::new("manyhands-hold", usize::MAX, database),
            writer: database.file().cloned().map(|file| Writer::new(file, database, &known)),
            queue: database.file().map(|file| file.queue()),
            database: database.clone(),
            known,
            number: AtomicU64::new(0),
        }))))
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// The number of a new call.
    ///
    /// # Errors
    /// In a child of a fork, which has none of the threads.
    pub(crate) fn next_number(&self) -> Result<u64, Error> {
        if self.is_inherited() {
            return Err(Error::new(ErrorKind::Forked));
        }
        Ok(self.number.fetch_add(1, Ordering::Relaxed))
    }

    /// Begins to execute statements.
    pub(crate) fn call(
        self: &Arc<Calls>,
        statements: &[(&str, &[Value])],
        single: bool,
    ) -> Result<Pending<Outcomes>, Error> {
        let (call, pending) = self.begin(statements, single)?;
        match self.known.all(call.statements.texts()) {
            Some(known) if way(&known, single) != Way::Read => self.send(call, &known),
            Some(_) => self.reads.submit(call.number, Box::new(move |it| call.execute(it))),
            None => {
                let calls = Arc::clone(self);
                let learn = move |worker: &mut Worker| calls.learn_and_send(call, worker);
                self.reads.submit(pending.number, Box::new(learn));
            }
        }
        Ok(pending)
    }

    fn begin(
        self: &Arc<Calls>,
        statements: &[(&str, &[Value])],
        single: bool,
    ) -> Result<(Call, Pending<Outcomes>), Error> {
        let number = self.next_number()?;
        let (reply, answer) = oneshot::channel();
        let owned = |(sql, values): &(&str, &[Value])| (sql.to_string(), values.to_vec());
        let list = statements.iter().map(owned).collect();
        let call = Call {
            number,
            statements: Statements { list, single },
            began: Instant::now(),
            deadline: Deadline::after(self.database.settings.timeout),
            reply,
        };
        Ok((call, Pending { calls: Arc::clone(self), number, answer, done: false }))
    }

    /// On a thread for reads: compiles the statements, and sends the call where it belongs.
    fn learn_and_send(&self, call: Call, worker: &mut Worker) {
        if call.reply.is_closed() {
            return;
        }
        let learned = worker
            .connection()
            .map_err(|error| (0, error))
            .and_then(|connection| self.known.learn_all(connection, call.statements.texts()));
        match learned {
            Ok(known) if way(&known, call.statements.single) == Way::Read => call.execute(worker),
            Ok(known) => self.send(call, &known),
            Err(error) => {
                let error = call.statements.blame(error);
                call.answer(Err(error));
            }
        }
    }

    /// Sends a call that writes to the queue, or to the pool in which it can wait for its turn.
    fn send(&self, call: Call, known: &[Known]) {
        let travels = way(known, call.statements.single) == Way::Request;
        if let Some(writer) = self.writer.as_ref().filter(|_| travels) {
            let mut request = Request::new(self.session, Counts::default(), None);
            for (known, (sql, values)) in known.iter().zip(&call.statements.list) {
                request.push(sql, known.columns_digest(), values);
            }
            let mut bytes = Vec::new();
            if request::encode(&request, &mut bytes).is_some() {
                bytes.shrink_to_fit();
                let columns = known.iter().map(|known| Arc::clone(&known.columns)).collect();
                writer.submit(Box::new(Write { call, bytes, columns }));
                return;
            }
        }
        let (number, file) = (call.number, self.database.file().cloned());
        let in_turn = move |worker: &mut Worker| {
            if call.deadline.has_passed() {
                let leader = file.and_then(|file| file.queue().leader());
                let waited = call.began.elapsed();
                let error = ErrorKind::TimedOut { waited, leader, here: None, ahead: 0 };
                call.answer(Err(Error::new(error)));
            } else {
                call.execute(worker);
            }
        };
        self.turns.submit(number, Box::new(in_turn));
    }

    /// Runs a function in a transaction.
    pub(crate) fn run<T, E>(
        self: &Arc<Calls>,
        mut work: impl FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<Pending<Result<T, E>>, Error>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let number = self.next_number()?;
        let (reply, answer) = oneshot::channel();
        let job = move |worker: &mut Worker| {
            if !reply.is_closed() {
                let result = worker.attempt(|worker| worker.connection()?.run(&mut work));
                // Nobody waits for it any more.
                let _ = reply.send(result);
            }
        };
        self.turns.submit(number, Box::new(job));
        Ok(Pending { calls: Arc::clone(self), number, answer, done: false })
    }
}

impl Deref for Calls {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.0.as_ref().expect("there until it is dropped")
    }
}

impl Drop for Calls {
    /// Closing the last connection of a file checkpoints it, which must not happen on the thread of a task.
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        if shared.is_inherited() {
            // Its threads are the parent's, and so may be its locks.
            core::mem::forget(shared);
            return;
        }
        let thread = thread::Builder::new().name("manyhands-close".to_string());
        // Without a thread it is closed here after all.
        let _ = thread.spawn(move || drop(shared));
    }
}

impl Shared {
    fn is_inherited(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.is_inherited())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for worker_pool in [&self.reads, &self.turns, &self.holders] {
            worker_pool.close();
        }
        if let Some(writer) = &self.writer {
            writer.close();
        }
    }
}

/// What a task wants done, on its way.
pub(crate) struct Call {
    /// The order of the calls.
    pub(crate) number: u64,
    pub(crate) statements: Statements,
    pub(crate) began: Instant,
    pub(crate) deadline: Deadline,
    pub(crate) reply: Reply<Outcomes>,
}

impl Call {
    fn execute(self, worker: &mut Worker) {
        if !self.reply.is_closed() {
            let result = worker.attempt(|worker| self.statements.execute(worker));
            // Nobody waits for it any more.
            let _ = self.reply.send(result);
        }
    }

    pub(crate) fn answer(self, result: Outcomes) {
        // Nobody waits for it any more.
        let _ = self.reply.send(Ok(result));
    }
}

/// The task's side of a call. Dropping it gives the call up.
pub(crate) struct Pending<T> {
    calls: Arc<Calls>,
    number: u64,
    answer: oneshot::Receiver<thread::Result<T>>,
    done: bool,
}

impl<T, E: From<Error>> Future for Pending<Result<T, E>> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, E>> {
        let answer = Pin::new(&mut self.answer).poll(context);
        self.done = answer.is_ready();
        answer.map(|answer| match answer {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => Err(E::from(worker_pool::no_thread())),
        })
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if self.done || self.calls.is_inherited() {
            return;
        }
        // This comes before the look into every place: a call on its way from one place to the next sees it.
        self.answer.close();
        self.calls.reads.give_up(self.number);
        self.calls.turns.give_up(self.number);
        if let Some(writer) = &self.calls.writer {
            writer.give_up(self.number);
        }
    }
}
