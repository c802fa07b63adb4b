//! When a connection is asked what its statements have counted: `rowcount` and `lastrowid`.
//!
//! Usually when the program asks, since to ask can cost the turn. But a program may ask in another thread than the one that
//! executes: an asyncio wrapper executes in a thread of its own, and reads `rowcount` in its event loop, where the task
//! runs that holds the turn. To wait there would be to wait for itself. So where that may come, the turn is taken before
//! a statement, as SQLite takes its lock, and the answer is known when the statement has been executed.

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use manyhands::driver::ConnectionExt;
use manyhands::{Error, Outcome};
use pyo3::prelude::*;

use crate::connection::Connection;
use crate::threads::this_thread;

/// A program of this process has asked in another thread than the one that had executed.
static ASKED_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// A connection's choice.
#[derive(Default)]
pub(crate) struct Counting(AtomicU8);

const UNLESS_ASKED_ELSEWHERE: u8 = 0;
const AT_ONCE: u8 = 1;
const LATER: u8 = 2;

impl Counting {
    /// Of a connection that is opened.
    pub(crate) fn begin(&self, py: Python<'_>, check_same_thread: bool) {
        let at_once = !check_same_thread || is_wrapped(py).unwrap_or(false);
        self.0.store(if at_once { AT_ONCE } else { UNLESS_ASKED_ELSEWHERE }, Ordering::Relaxed);
    }

    /// Whether what a statement counts is asked for when it has been executed.
    pub(crate) fn is_at_once(&self) -> bool {
        match self.0.load(Ordering::Relaxed) {
            UNLESS_ASKED_ELSEWHERE => ASKED_ELSEWHERE.load(Ordering::Relaxed),
            chosen => chosen == AT_ONCE,
        }
    }

    /// A question about a statement that the thread `executed_by` has executed, and whose answer was not asked for then.
    pub(crate) fn note_question(&self, executed_by: u64) {
        let unknown = self.0.load(Ordering::Relaxed) == UNLESS_ASKED_ELSEWHERE;
        if unknown && executed_by != this_thread() {
            ASKED_ELSEWHERE.store(true, Ordering::Relaxed);
        }
    }
}

/// Whether it is aiosqlite that opens a connection: it executes in a thread, asks in its loop, and leaves `check_same_thread`
/// as it is.
fn is_wrapped(py: Python<'_>) -> PyResult<bool> {
    // Between its call and this one are `connect`, and what a factory adds.
    const FRAMES_MAX: usize = 5;
    let sys = py.import("sys")?;
    if !sys.getattr("modules")?.contains("aiosqlite")? {
        return Ok(false);
    }
    let mut frame = sys.call_method0("_getframe")?;
    for _ in 0..FRAMES_MAX {
        let module = frame.getattr("f_globals")?.get_item("__name__")?;
        if module.extract::<String>()?.starts_with("aiosqlite") {
            return Ok(true);
        }
        frame = frame.getattr("f_back")?;
    }
    Ok(false)
}

#[pymethods]
impl Connection {
    /// For those who ask in the thread that executes, although they hand connections from thread to thread.
    fn _count_later(&self) {
        self.counting.0.store(LATER, Ordering::Relaxed);
    }
}

/// What a statement counted.
pub(crate) struct Counted {
    pub(crate) changes: u64,
    pub(crate) last_insert_rowid: i64,
}

impl Counted {
    /// `None` where it may still change: in an optimistic transaction, where the question alone would count as seen.
    pub(crate) fn now(
        engine: &mut manyhands::Connection,
        outcome: &Outcome,
    ) -> Result<Option<Counted>, Error> {
        if !engine.is_executed() {
            return Ok(None);
        }
        let changes = engine.changes_of(outcome)?;
        let last_insert_rowid = engine.last_insert_rowid_of(outcome)?;
        Ok(Some(Counted { changes, last_insert_rowid }))
    }
}
