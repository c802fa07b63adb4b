//! Waiting for locks that other SQLite programs hold.

use core::time::Duration;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use manyhands_sqlite::{Connection, Progress};

use crate::limits;
use crate::mutex::lock;
use crate::session::interrupt::Interrupt;

/// How long a connection waits for other SQLite programs. Shared with the connection's busy handler.
///
/// It sleeps for a shorter time between tries than SQLite's own handler, whose sleeps grow to 100 ms: a whole queue waits behind
/// it.
#[derive(Clone, Debug)]
pub(crate) struct BusyWait(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    timeout: Mutex<Duration>,
    interrupt: Mutex<Weak<Interrupt>>,
}

impl BusyWait {
    /// Makes `connection` wait at most `timeout` for a lock.
    pub(crate) fn install(connection: &Connection, timeout: Duration) -> BusyWait {
        let shared = Shared { timeout: Mutex::new(timeout), interrupt: Mutex::default() };
        let wait = BusyWait(Arc::new(shared));
        wait.reinstall(connection);
        wait
    }

    /// Takes its place again, after SQLite has put its own handler there.
    pub(crate) fn reinstall(&self, connection: &Connection) {
        let shared = self.clone();
        let began = Mutex::new(Instant::now());
        connection.set_busy_handler(Some(move |tries| {
            let mut began = lock(&began);
            if tries == 0 {
                *began = Instant::now();
            }
            let left = shared.timeout().saturating_sub(began.elapsed());
            if left.is_zero() || shared.is_interrupted() || shared.is_given_up() {
                return Progress::Stop;
            }
            std::thread::sleep(limits::BUSY_SLEEP.min(left));
            Progress::Continue
        }));
    }

    /// Ends the waits when a connection's application asks for it.
    pub(crate) fn ends_with(&self, interrupt: Weak<Interrupt>) {
        *lock(&self.0.interrupt) = interrupt;
    }

    /// Whether the application's check says that a statement is to end.
    pub(crate) fn is_checked(&self) -> bool {
        self.interrupt().is_some_and(|it| it.is_checked())
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt().is_some_and(|it| it.is_asked())
    }

    fn is_given_up(&self) -> bool {
        self.interrupt().is_some_and(|it| it.gives_up())
    }

    /// `None` while the connection has no user.
    fn interrupt(&self) -> Option<Arc<Interrupt>> {
        lock(&self.0.interrupt).upgrade()
    }

    fn timeout(&self) -> Duration {
        *lock(&self.0.timeout)
    }

    /// Changes how long the next wait may take.
    pub(crate) fn set(&self, timeout: Duration) {
        *lock(&self.0.timeout) = timeout;
    }
}
