//! Interrupts, from any thread.
//!
//! There are three kinds. An *interrupt* is SQLite's: it ends the running statements, and lasts until no statement is active. A cursor with
//! rows left keeps it alive, and all statements fail until that cursor is read or dropped. A rollback ends such cursors, and so does
//! not fail. A *cancellation* is ours, for drivers that hand a connection from one caller to the next: it lasts until it is taken back, and
//! cursors that nobody reads meanwhile go on after it. A *cancel* comes from another process, which a person has asked for it: it ends
//! once what was begun before it.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use manyhands_queue::Queue;
use manyhands_sqlite as sqlite;

use crate::Error;
use crate::error::ErrorKind;
use crate::mutex::lock;

/// How often people cancel a process during one operation, at most: more is damage.
const CANCELS_MAX: u32 = 1000;

/// Interrupts what a connection does or waits for, from any thread.
#[derive(Clone, Debug)]
pub struct InterruptHandle {
    interrupt: Arc<Interrupt>,
}

impl InterruptHandle {
    /// Ends the wait of the connection, or its running statement, with [`crate::Error::is_interrupt`]. A
    /// request that a leader executes at this moment is not interrupted: its answer comes. Does nothing
    /// when the connection is closed.
    pub fn interrupt(&self) {
        // Under the lock: a connection that is closed may soon be somebody else's.
        if let Some(running) = &*lock(&self.interrupt.running) {
            self.interrupt.asked.store(true, Ordering::Relaxed);
            running.interrupt();
        }
    }

    /// Ends what the connection does and waits for, and what it begins, with [`crate::Error::is_interrupt`], until
    /// [`InterruptHandle::resume`]. A short statement may still succeed. A cursor that is not read meanwhile goes on after
    /// it.
    pub fn cancel(&self) {
        self.interrupt.cancelled.store(true, Ordering::Relaxed);
    }

    /// Takes back a [`InterruptHandle::cancel`], if there was one.
    pub fn resume(&self) {
        if self.interrupt.cancelled.swap(false, Ordering::Relaxed) {
            self.interrupt.forget();
        }
    }
}

pub(crate) type GivesUp = Arc<dyn Fn() -> bool + Send + Sync>;

/// What a connection shares with its handles.
#[derive(Default)]
pub(crate) struct Interrupt {
    asked: AtomicBool,
    cancelled: AtomicBool,
    /// What runs is no part of the call that was cancelled: rows of cursors that others read.
    spares: AtomicBool,
    check: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
    /// Asked while the connection waits: true to give up, as after the timeout.
    gives_up: Mutex<Option<GivesUp>>,
    has_gives_up: AtomicBool,
    /// Where other processes cancel this one, and how often they had when the operation began.
    cancels: Mutex<Option<Arc<Queue>>>,
    cancels_before: AtomicU32,
    /// The operation was cancelled by another process.
    was_cancelled: AtomicBool,
    /// `None` until a handle is made, and after the connection was closed.
    running: Mutex<Option<sqlite::InterruptHandle>>,
}

impl Interrupt {
    /// A handle of the connection `sqlite`.
    pub(crate) fn handle(self: &Arc<Interrupt>, sqlite: &sqlite::Connection) -> InterruptHandle {
        lock(&self.running).get_or_insert_with(|| sqlite.interrupt_handle());
        InterruptHandle { interrupt: Arc::clone(self) }
    }

    /// Has `check` asked whether to end. Only the first one that is given counts.
    pub(crate) fn set_check(&self, check: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.check.set(Box::new(check));
    }

    /// Whether a statement is to end, since the check says so or by a cancellation.
    pub(crate) fn is_checked(&self) -> bool {
        let cancelled = self.cancelled.load(Ordering::Relaxed);
        cancelled && !self.spares.load(Ordering::Relaxed)
            || self.check.get().is_some_and(|check| check())
            || self.is_cancelled_by_others()
    }

    /// Has other processes cancel the connection's operations in this queue.
    pub(crate) fn watch_cancels(&self, queue: Option<Arc<Queue>>) {
        *lock(&self.cancels) = queue;
    }

    /// An operation begins, after so many cancels.
    pub(crate) fn begin_after_cancels(&self, cancels: u32) {
        self.cancels_before.store(cancels, Ordering::Relaxed);
        self.was_cancelled.store(false, Ordering::Relaxed);
    }

    fn is_cancelled_by_others(&self) -> bool {
        let queue = lock(&self.cancels);
        let Some(queue) = queue.as_ref().filter(|queue| !queue.is_inherited()) else {
            return false;
        };
        let cancels = queue.cancels();
        let more = cancels.wrapping_sub(self.cancels_before.swap(cancels, Ordering::Relaxed));
        // Nobody has cancelled what damage to the file shows.
        if more == 0 || more > CANCELS_MAX || !queue.is_sound() {
            return false;
        }
        self.was_cancelled.store(true, Ordering::Relaxed);
        queue.note_cancelled();
        true
    }

    /// True when another process has ended the operation.
    pub(crate) fn was_cancelled(&self) -> bool {
        self.was_cancelled.load(Ordering::Relaxed)
    }

    /// The error of an operation that was interrupted before it wrote.
    pub(crate) fn error(&self) -> Error {
        let by_others = self.was_cancelled();
        Error::new(if by_others { ErrorKind::Cancelled } else { ErrorKind::Interrupted })
    }

    /// Has `gives_up` asked, about every millisecond of a wait, whether to give up; `None` to wait until the deadline.
    pub(crate) fn set_gives_up(&self, gives_up: Option<GivesUp>) {
        self.has_gives_up.store(gives_up.is_some(), Ordering::Relaxed);
        *lock(&self.gives_up) = gives_up;
    }

    /// Whether somebody is to be asked, while the connection waits, if it gives up.
    pub(crate) fn may_give_up(&self) -> bool {
        self.has_gives_up.load(Ordering::Relaxed)
    }

    /// Asks whether the wait is given up.
    pub(crate) fn gives_up(&self) -> bool {
        if !self.may_give_up() {
            return false;
        }
        // Not under the lock: it may be replaced meanwhile.
        let gives_up = lock(&self.gives_up).clone();
        gives_up.is_some_and(|gives_up| gives_up())
    }

    /// Whether a wait is to end.
    pub(crate) fn is_asked(&self) -> bool {
        if !self.asked.load(Ordering::Relaxed) && self.is_checked() {
            self.ask();
        }
        self.asked.load(Ordering::Relaxed)
    }

    /// The wait of a connection that has no handle is to end.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// From here on, or no longer, a cancellation ends nothing.
    pub(crate) fn spare(&self, spares: bool) {
        self.spares.store(spares, Ordering::Relaxed);
    }

    /// Whether a wait is to end, which it does then.
    pub(crate) fn ends_wait(&self) -> bool {
        self.is_asked() && self.forget()
    }

    /// Whether a wait was to end; a new one is not.
    pub(crate) fn forget(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }

    /// The connection is closed.
    pub(crate) fn close(&self) {
        *lock(&self.running) = None;
        self.watch_cancels(None);
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt").field("asked", &self.asked).finish_non_exhaustive()
    }
}
