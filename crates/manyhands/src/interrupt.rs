//! Interrupts, from any thread.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use manyhands_sqlite as sqlite;

use crate::connection::Connection;

impl Connection {
    /// A handle with which another thread can interrupt what this connection does or waits for.
    pub fn interrupt_handle(&mut self) -> InterruptHandle {
        self.as_new = false;
        InterruptHandle {
            sqlite: self.sqlite().interrupt_handle(),
            interrupted: Arc::clone(&self.interrupted),
        }
    }
}

/// Interrupts what a connection does or waits for, from any thread.
#[derive(Clone, Debug)]
pub struct InterruptHandle {
    sqlite: sqlite::InterruptHandle,
    interrupted: Arc<AtomicBool>,
}

impl InterruptHandle {
    /// Ends the wait of the connection, or its running statement, with [`crate::Error::is_interrupt`]. A
    /// request that a leader executes at this moment is not interrupted: its answer comes.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
        self.sqlite.interrupt();
    }
}
