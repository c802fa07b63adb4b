//! Interrupts, from any thread.
//!
//! `session/interrupt.rs` has the two kinds: interrupts and cancellations. Here is what a connection does about them: a statement that
//! undoes something succeeds after an interrupt, too.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use manyhands_sqlite::Progress;

use crate::Error;
use crate::connection::Connection;
use crate::limits;
use crate::row::Outcome;
use crate::session::interrupt::InterruptHandle;
use crate::statement::prepared::Prepared;
use crate::statement::routing::TransactionStatement;

impl Connection {
    /// A handle with which another thread can interrupt what this connection does or waits for. It does
    /// not keep the connection open.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        self.interrupt.handle(self.sqlite())
    }

    /// See [`ConnectionExt::check_while_waiting`](crate::driver::ConnectionExt::check_while_waiting).
    pub(crate) fn check_while_waiting(&self, check: impl Fn() -> bool + Send + Sync + 'static) {
        self.interrupt.set_check(check);
    }

    /// Called before a statement that undoes something is compiled: it succeeds after an interrupt, too.
    pub(crate) fn outlive_interrupt(&mut self, sql: &str) {
        let is_word = |word: &str, is: &str| word.eq_ignore_ascii_case(is);
        let word = sql.trim_start().get(.."ROLLBACK".len());
        let to_savepoint = || sql.split_whitespace().any(|word| is_word(word, "TO"));
        if word.is_some_and(|word| is_word(word, "ROLLBACK")) && !to_savepoint() {
            self.end_interrupted();
        }
    }

    /// Steps a statement that begins or ends a transaction. If it has ended the transaction, it was not interrupted; and ROLLBACK always
    /// ends it.
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
        self.cursors.interrupt();
        self.blobs.expire();
    }

    /// Rolls back the open transaction. If that fails, closing the connection undoes it.
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

    /// Makes SQLite ask the application's handler after as many instructions as it wants, and the check about as often as
    /// without it.
    pub(crate) fn check_and_ask(
        &self,
        instructions: u32,
        handler: impl Fn() -> Progress + Send + 'static,
    ) {
        let wait = self.session().wait.clone();
        let hooks = Arc::clone(&self.session().compiler.hooks);
        // Of the connection's own statements the application is not asked.
        let handler = move || {
            if hooks.are_for_application() { handler() } else { Progress::Continue }
        };
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
