//! How long a connection waits for others, and what ends that.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;

use manyhands::driver::ConnectionExt;

use crate::ffi;
use crate::handle::{Data, Handle, interrupt};

/// A busy handler waits as long as it says. Longer than any program runs, and within what a clock can add.
const WITHOUT_END: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

type BusyHandler = Option<unsafe extern "C" fn(*mut c_void, c_int) -> c_int>;

c_api! {
    /// How many milliseconds a connection waits for others; 0 to try once.
    fn sqlite3_busy_timeout(db: *mut ffi::sqlite3, ms: c_int) -> c_int {
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::entered(db) }).filter(|it| !it.is_called_back()) else {
            // SAFETY: the caller has promised what SQLite demands.
            return unsafe { ffi::sqlite3_busy_timeout(db, ms) };
        };
        let timeout = Duration::from_millis(ms.max(0).unsigned_abs().into());
        handle.wait(timeout, None)
    }

    /// Has `handler` asked, about every millisecond, whether to wait on: 0 to give up (<https://sqlite.org/c3ref/busy_handler.html>).
    /// Meanwhile the connection keeps its place in the queue.
    fn sqlite3_busy_handler(db: *mut ffi::sqlite3, handler: BusyHandler, data: *mut c_void) -> c_int {
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::entered(db) }).filter(|it| !it.is_called_back()) else {
            // SAFETY: the caller has promised what SQLite demands.
            return unsafe { ffi::sqlite3_busy_handler(db, handler, data) };
        };
        let Some(handler) = handler else { return handle.wait(Duration::ZERO, None) };
        let (calls, data) = (Arc::clone(&handle.busy_calls), Data(data));
        let gives_up = move || {
            let count = calls.fetch_add(1, Ordering::Relaxed);
            // SAFETY: what the program has promised when it set the handler.
            unsafe { handler(data.get(), c_int::try_from(count).unwrap_or(c_int::MAX)) == 0 }
        };
        handle.wait(WITHOUT_END, Some(Arc::new(gives_up)))
    }

    /// Ends what a connection executes or waits for; from any thread.
    fn sqlite3_interrupt(db: *mut ffi::sqlite3) {
        if !interrupt(db) {
            // SAFETY: the caller has promised what SQLite demands.
            unsafe { ffi::sqlite3_interrupt(db) };
        }
    }
}

/// For bindings in Rust, which end a wait or a long statement where their language wants it: has `check` asked every few milliseconds of
/// a wait, after each signal, and every few thousand instructions of a statement. When it answers true, the call ends with
/// `SQLITE_INTERRUPT`. Only the first check of a connection counts. False for a connection that is SQLite's alone.
///
/// # Safety
/// `db` is null or open.
pub unsafe fn check_while_waiting(
    db: *mut ffi::sqlite3,
    check: impl Fn() -> bool + Send + Sync + 'static,
) -> bool {
    // SAFETY: the caller has promised it.
    let Some(handle) = (unsafe { Handle::entered(db) }) else { return false };
    let set = handle.engine_quietly(|it| {
        it.check_while_waiting(check);
        Ok(())
    });
    set.is_ok()
}

impl Handle {
    fn wait(
        &self,
        timeout: Duration,
        gives_up: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    ) -> c_int {
        let set = self.engine_quietly(|it| {
            it.set_timeout(timeout);
            it.give_up_waiting(gives_up);
            Ok(())
        });
        set.map_or_else(|code| code, |()| ffi::SQLITE_OK)
    }
}
