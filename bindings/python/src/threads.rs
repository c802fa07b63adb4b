//! Which thread this is, and which one handles signals: Ctrl-C must end a wait.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::callback::Raised;
use crate::connection::lock;

static GET_IDENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static FIND_MAIN_THREAD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// When the module is loaded: nothing can be imported while the interpreter exits.
pub(crate) fn find_functions(py: Python<'_>) -> PyResult<()> {
    GET_IDENT.import(py, "threading", "get_ident")?;
    FIND_MAIN_THREAD.import(py, "threading", "main_thread")?;
    Ok(())
}

/// A number of the calling thread: never 0, and never given again.
pub(crate) fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local!(static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}

/// The thread in which Python handles signals, by [`this_thread`].
static MAIN_THREAD: AtomicU64 = AtomicU64::new(0);

pub(crate) fn note_main_thread(py: Python<'_>) -> PyResult<()> {
    // A child of a fork has another one. Until it is known here, 0 is nobody's.
    static KNOWN: Mutex<(u64, u64)> = Mutex::new((u64::MAX, 0));
    let generation = manyhands::driver::fork_generation();
    let known = *lock(&KNOWN);
    let ident = if known.0 == generation {
        known.1
    } else {
        let main =
            FIND_MAIN_THREAD.import(py, "threading", "main_thread")?.call0()?.getattr("ident")?;
        let ident = main.extract::<Option<u64>>()?.unwrap_or(0);
        *lock(&KNOWN) = (generation, ident);
        ident
    };
    if ident == python_thread(py)? {
        MAIN_THREAD.store(this_thread(), Ordering::Relaxed);
    }
    Ok(())
}

/// Lets Python handle signals while the main thread waits: what a handler raises ends the wait.
pub(crate) fn check_signals(raised: &Arc<Raised>) -> impl Fn() -> bool + Send + Sync + 'static {
    const EVERY: Duration = Duration::from_millis(25);
    let raised = Arc::clone(raised);
    let last = Mutex::new(Instant::now());
    move || {
        if MAIN_THREAD.load(Ordering::Relaxed) != this_thread() {
            return false;
        }
        {
            let mut last = lock(&last);
            if last.elapsed() < EVERY {
                return false;
            }
            *last = Instant::now();
        }
        let handled = Python::attach(|py| py.check_signals());
        match handled {
            Ok(()) => false,
            Err(error) => {
                raised.set(error);
                true
            }
        }
    }
}

/// `threading.get_ident()`.
pub(crate) fn python_thread(py: Python<'_>) -> PyResult<u64> {
    thread_local! {
        static IDENT: Cell<u64> = const { Cell::new(0) };
    }
    if IDENT.get() == 0 {
        IDENT.set(GET_IDENT.import(py, "threading", "get_ident")?.call0()?.extract()?);
    }
    Ok(IDENT.get())
}
