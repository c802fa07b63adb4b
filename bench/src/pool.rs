//! Writes of async tasks on an engine that has no form for them: a few threads with a connection each take the tasks'
//! transactions from one queue, first come, first served.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use tokio::sync::oneshot;

use super::engine::{Answer, Client, Effort, Opened, Parameter, Refusal, TaskDatabase};

/// A task's write, and where its answer goes.
struct Request {
    sql: &'static str,
    value: &'static [u8],
    answer: oneshot::Sender<Result<(), Refusal>>,
}

/// The threads, as the tasks see them; they end when it is dropped.
pub struct Pool {
    requests: Sender<Request>,
}

impl Pool {
    /// A pool of this many connections.
    pub fn open(opened: &dyn Opened, connections: usize) -> Result<Self, Refusal> {
        let (requests, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..connections {
            let (client, queue) = (opened.connect()?, queue.clone());
            thread::spawn(move || serve(client, &queue));
        }
        Ok(Self { requests })
    }
}

impl TaskDatabase for Pool {
    fn write(&self, sql: &'static str, value: &'static [u8]) -> Answer<'_> {
        let (answer, answered) = oneshot::channel();
        // If no thread is left, the answer's end is dropped with the request.
        let _ = self.requests.send(Request { sql, value, answer });
        Box::pin(async {
            answered.await.unwrap_or_else(|_gone| Err(Refusal("a thread panicked".to_owned())))
        })
    }
}

/// One thread: a transaction that holds the right to write from its beginning, where the engine has one.
fn serve(mut client: Box<dyn Client>, queue: &Mutex<Receiver<Request>>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Request { sql, value, answer }) = next else { return };
        let outcome = client.transact(
            &mut |statements| statements.execute(sql, &[Parameter::Blob(value)]),
            &mut Effort::default(),
        );
        // A task waits for its answer until it comes.
        let _ = answer.send(outcome);
    }
}
