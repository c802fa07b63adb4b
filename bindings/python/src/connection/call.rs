//! The way into the engine: a connection's checks, its mutex, and its calls without the GIL.

use core::sync::atomic::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard, TryLockError};

use manyhands::Error;
use manyhands::driver::ConnectionExt;
use pyo3::prelude::*;

use super::{Connection, OPEN, UNINITIALISED, lock};
use crate::callback::Raised;
use crate::error::{self, InternalError, ProgrammingError};
use crate::exit::{Stays, detached};
use crate::threads::{python_thread, this_thread};

/// Why a call into manyhands gave no result.
pub(super) enum Failure {
    Closed,
    Lent,
    Panicked,
    Failed(Error),
}

impl Failure {
    pub(super) fn to_python(&self, py: Python<'_>) -> PyErr {
        match self {
            Failure::Closed => closed(),
            Failure::Lent => ProgrammingError::new_err(
                "Cannot operate on a connection that is the target of a backup.",
            ),
            Failure::Panicked => InternalError::new_err(
                "manyhands panicked, which is a bug; close this connection and open another",
            ),
            Failure::Failed(error) => error::to_python(py, error),
        }
    }
}

impl Connection {
    /// Calls manyhands without the GIL, after all checks.
    pub(crate) fn call<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut manyhands::Connection) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.check_thread(py)?;
        self.call_from_any_thread(py, work)
    }

    /// The same for what the standard module answers in any thread.
    pub(crate) fn call_from_any_thread<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut manyhands::Connection) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.call_lazily_from_any_thread(py, |connection| {
            connection.begin_lazy()?;
            work(connection)
        })
    }

    /// As `call`, for what leaves a lazy transaction as it is.
    pub(crate) fn call_lazily<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut manyhands::Connection) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.check_thread(py)?;
        self.call_lazily_from_any_thread(py, work)
    }

    /// As `call_from_any_thread`, for the same.
    pub(crate) fn call_lazily_from_any_thread<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut manyhands::Connection) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.enter(py, || Some(lock(&self.engine)), |engine| work(engine).map(Some))?
            .ok_or_else(closed)
    }

    /// The same, but `None` while another thread is inside the engine: who it waits for may wait for this thread.
    pub(crate) fn ask<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut manyhands::Connection) -> Result<T, Error> + Send,
    ) -> PyResult<Option<T>> {
        let free = || match self.engine.try_lock() {
            Ok(engine) => Some(engine),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        self.enter(py, free, |engine| work(engine).map(Some))
    }

    fn enter<'a, T: Send>(
        &'a self,
        py: Python<'_>,
        engine: impl FnOnce() -> Option<MutexGuard<'a, Option<manyhands::Connection>>> + Send,
        work: impl FnOnce(&mut manyhands::Connection) -> Result<Option<T>, Error> + Send,
    ) -> PyResult<Option<T>> {
        self.check_open()?;
        self.check_process()?;
        self.check_no_callback()?;
        let thread = this_thread();
        let (result, raised) = detached(py, || {
            let Some(mut engine) = engine() else { return (Ok(None), None) };
            let lent = self.lent.load(Ordering::Relaxed);
            let Some(open) = engine.as_mut() else {
                return (Err(if lent { Failure::Lent } else { Failure::Closed }), None);
            };
            self.user.store(thread, Ordering::Relaxed);
            // Raised since the last call, by what ended then: nobody asked for it.
            drop(self.raised.take());
            let result = caught(|| work(open));
            self.note(open);
            self.user.store(0, Ordering::Relaxed);
            if matches!(result, Err(Failure::Panicked)) {
                // Dropping what a panic left behind could panic again: it is leaked.
                core::mem::forget(engine.take());
            }
            (result, self.raised.take())
        });
        // Also when the call succeeded: a signal handler's exception came too late to end it.
        raised.map_or_else(|| result.map_err(|failure| failure.to_python(py)), Err)
    }

    /// Notes what is answered while the next call runs.
    fn note(&self, engine: &manyhands::Connection) {
        self.told.in_transaction.store(engine.is_in_transaction(), Ordering::Relaxed);
        let counts = engine.session_counts();
        self.told.total_changes.store(counts.total_changes, Ordering::Relaxed);
    }

    /// Gives the engine away for some work, of many calls, that alone may use it meanwhile.
    pub(crate) fn lend<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut manyhands::Connection) -> PyResult<T>,
    ) -> PyResult<T> {
        let _stays = Stays::here();
        // With all checks but that of the thread, as the standard module, and after all others.
        self.call_from_any_thread(py, |_| Ok(()))?;
        let taken = detached(py, || {
            let taken = lock(&self.engine).take();
            self.lent.store(taken.is_some(), Ordering::Relaxed);
            taken
        });
        let mut taken = taken.ok_or_else(closed)?;
        // What another thread has left lazy since goes first.
        let result = detached(py, || caught(|| taken.begin_lazy()))
            .map_err(|failure| failure.to_python(py))
            .and_then(|()| work(&mut taken));
        detached(py, || {
            let mut engine = lock(&self.engine);
            self.lent.store(false, Ordering::Relaxed);
            if self.state.load(Ordering::Relaxed) == OPEN {
                *engine = Some(taken);
            }
        });
        // By a signal handler, while the work waited with this connection.
        self.raised.take().map_or(result, Err)
    }

    /// Where callbacks leave what the call that they belong to is to raise.
    pub(crate) fn raised(&self) -> Arc<Raised> {
        Arc::clone(&self.raised)
    }

    /// Refuses another thread, a connection that is not open, and one from before `fork()`.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.check_thread(py)?;
        self.check_open()?;
        self.check_process()
    }

    pub(crate) fn check_thread(&self, py: Python<'_>) -> PyResult<()> {
        let owner = self.thread.load(Ordering::Relaxed);
        if owner == 0 || owner == this_thread() {
            return Ok(());
        }
        Err(ProgrammingError::new_err(format!(
            "SQLite objects created in a thread can only be used in that same thread. The object was created \
             in thread id {} and this is thread id {}.",
            self.thread_ident.load(Ordering::Relaxed),
            python_thread(py)?
        )))
    }

    pub(crate) fn check_open(&self) -> PyResult<()> {
        match self.state.load(Ordering::Relaxed) {
            OPEN => Ok(()),
            UNINITIALISED => Err(uninitialised()),
            _ => Err(closed()),
        }
    }

    /// Refuses the thread that is inside the engine already: it would wait for itself.
    pub(super) fn check_no_callback(&self) -> PyResult<()> {
        if self.user.load(Ordering::Relaxed) != this_thread() {
            return Ok(());
        }
        Err(ProgrammingError::new_err("a callback cannot use the connection that calls it"))
    }

    /// True in a child of the process that opened it.
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation.load(Ordering::Relaxed) != manyhands::driver::fork_generation()
    }

    pub(super) fn check_process(&self) -> PyResult<()> {
        if !self.is_inherited() {
            return Ok(());
        }
        Err(ProgrammingError::new_err(
            "this was opened before fork(); a child process must open the database itself",
        ))
    }
}

fn closed() -> PyErr {
    ProgrammingError::new_err("Cannot operate on a closed database.")
}

pub(super) fn uninitialised() -> PyErr {
    ProgrammingError::new_err("Base Connection.__init__ not called.")
}

pub(super) fn caught<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(Failure::Failed),
        Err(_) => Err(Failure::Panicked),
    }
}
