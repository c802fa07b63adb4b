//! Interrupts, from any thread.
//!
//! There are two. An *interrupt* is SQLite's: it ends what runs, and SQLite keeps it until no statement is active, so
//! that a cursor with rows left keeps it, and all statements fail until that is read or dropped. What undoes ends such
//! cursors, and so does not fail. A *cancellation* is ours, for who hands a connection from one caller to the next: it
//! lasts until it is taken back, and cursors that nobody reads meanwhile go on after it.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use manyhands_sqlite::{self as sqlite, Progress};

use crate::Error;
use crate::connection::Connection;
use crate::limits;
use crate::mutex::lock;
use crate::prepared::Prepared;
use crate::routing::TransactionStatement;
use crate::row::Outcome;

impl Connection {
    /// A handle with which another thread can interrupt what this connection does or waits for. It does
    /// not keep the connection open.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        lock(&self.interrupt.running).get_or_insert_with(|| self.sqlite().interrupt_handle());
        InterruptHandle { interrupt: Arc::clone(&self.interrupt) }
    }

    /// Has `check` asked, every few milliseconds and after each signal, while this connection waits for its
    /// turn or for a lock, or runs a statement. When it answers true the call ends with
    /// [`crate::Error::is_interrupt`]. Only the first check that is given counts.
    pub fn check_while_waiting(&self, check: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.interrupt.check.set(Box::new(check));
    }

    /// Before a statement that undoes is compiled: it succeeds after an interrupt too.
    pub(crate) fn outlive_interrupt(&mut self, sql: &str) {
        let is_word = |word: &str, is: &str| word.eq_ignore_ascii_case(is);
        let word = sql.trim_start().get(.."ROLLBACK".len());
        let to_savepoint = || sql.split_whitespace().any(|word| is_word(word, "TO"));
        if word.is_some_and(|word| is_word(word, "ROLLBACK")) && !to_savepoint() {
            self.end_interrupted();
        }
    }

    /// Steps a statement that begins or ends a transaction. What has ended it was not interrupted, and ROLLBACK ends it.
    pub(crate) fn step_past_interrupts(
        &mut self,
        prepared: &mut Prepared,
    ) -> Result<Outcome, Error> {
        let was_open = !self.is_autocommit();
        let undoes = was_open && prepared.facts.transaction == Some(TransactionStatement::Rollback);
        let mut again = 0..limits::INTERRUPTS_OUTLIVED;
        loop {
            match self.step(prepared, &[]) {
                // SQLite asks whether to go on also when it is done.
                Err(error) if was_open && error.is_interrupt() && self.is_autocommit() => {
                    return Ok(Outcome::default());
                }
                Err(error) if undoes && error.is_interrupt() && again.next().is_some() => {
                    self.end_interrupted();
                }
                result => return result,
            }
        }
    }

    /// Ends the statements on which SQLite keeps an interrupt in a transaction: those of cursors, which fail when they
    /// are read on, and of blobs.
    fn end_interrupted(&mut self) {
        if self.is_autocommit() || !self.sqlite().is_interrupted() {
            return;
        }
        self.interrupt_cursors();
        self.expire_blobs();
    }

    /// Rolls back what is open. Closing the connection undoes what cannot be rolled back here.
    pub(crate) fn roll_back_here(&mut self) {
        let _own = self.own_statements();
        for _ in 0..limits::INTERRUPTS_OUTLIVED {
            if self.is_autocommit() {
                break;
            }
            self.end_interrupted();
            let _ = self.sqlite().execute("ROLLBACK");
        }
    }

    /// Has the application's handler asked every so many instructions, and the check about as often as
    /// without it.
    pub(crate) fn check_and_ask(
        &self,
        instructions: u32,
        handler: impl Fn() -> Progress + Send + 'static,
    ) {
        let wait = self.open().wait.clone();
        let passed = AtomicU32::new(0);
        let both = move || {
            if passed.fetch_add(instructions, Ordering::Relaxed) < limits::CHECK_INSTRUCTIONS {
                return handler();
            }
            passed.store(0, Ordering::Relaxed);
            if wait.is_checked() { Progress::Stop } else { handler() }
        };
        self.sqlite().set_progress_handler(instructions, Some(both));
    }
}

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
    /// [`InterruptHandle::resume`]. What is short may succeed all the same. A cursor that is not read meanwhile goes
    /// on after it.
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

/// What a connection shares with its handles.
#[derive(Default)]
pub(crate) struct Interrupt {
    asked: AtomicBool,
    cancelled: AtomicBool,
    /// What runs is no part of the call that was cancelled: rows of cursors that others read.
    spares: AtomicBool,
    check: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
    /// `None` until a handle is made, and after the connection was closed.
    running: Mutex<Option<sqlite::InterruptHandle>>,
}

impl Interrupt {
    /// Whether a statement is to end, since the check says so or by a cancellation.
    pub(crate) fn is_checked(&self) -> bool {
        let cancelled = self.cancelled.load(Ordering::Relaxed);
        cancelled && !self.spares.load(Ordering::Relaxed)
            || self.check.get().is_some_and(|check| check())
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
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt").field("asked", &self.asked).finish_non_exhaustive()
    }
}
