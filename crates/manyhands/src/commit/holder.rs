//! The holder of the turn within this process. The queue knows processes, and no threads.
//!
//! A connection that has waited in vain for another one of its process is told which thread that is. And a connection that stays in its
//! thread can give its turn back in that thread only: if another connection waits for that turn in the same thread, it waits for
//! itself.

use std::sync::{Arc, Mutex};

use rustix::thread::{Pid, gettid};

use crate::error::HeldHere;
use crate::limits;
use crate::mutex::lock;

/// The holder of one file's turn, if it is of this process.
#[derive(Debug, Default)]
pub(crate) struct TurnHolder(Mutex<Option<Holding>>);

#[derive(Debug)]
struct Holding {
    thread: Pid,
    /// No other thread uses the connection.
    stays: bool,
    statement: Option<Arc<str>>,
}

impl TurnHolder {
    /// The turn was taken in this thread. `stays` says that its connection is used in no other.
    pub(crate) fn begin(&self, stays: bool) {
        *lock(&self.0) = Some(Holding { thread: gettid(), stays, statement: None });
    }

    /// The holder executes a statement.
    pub(crate) fn note(&self, statement: &Arc<str>) {
        if let Some(holding) = lock(&self.0).as_mut() {
            holding.statement = Some(Arc::clone(statement));
        }
    }

    /// The turn is about to be given back.
    pub(crate) fn end(&self) {
        lock(&self.0).take();
    }

    /// Whether another connection has taken the turn in this thread, and may give it back there only when this one waits no more.
    pub(crate) fn is_this_thread(&self) -> bool {
        lock(&self.0).as_ref().is_some_and(|it| it.thread == gettid())
    }

    /// Whether only this thread can give the turn back.
    pub(crate) fn is_this_thread_alone(&self) -> bool {
        lock(&self.0).as_ref().is_some_and(|it| it.stays && it.thread == gettid())
    }

    pub(crate) fn told(&self) -> Option<HeldHere> {
        let holding = lock(&self.0);
        let holding = holding.as_ref()?;
        let thread = holding.thread.as_raw_nonzero().get();
        let text = holding.statement.as_deref();
        Some(HeldHere {
            thread,
            is_this_thread: holding.thread == gettid(),
            statement: text.map(|it| it.chars().take(limits::STATEMENT_TOLD_MAX).collect()),
        })
    }
}
