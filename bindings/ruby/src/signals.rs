//! What ends a call that waits or runs long: Ruby wants something of its thread, or its owner does not wait for it any more.

use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, Ordering};

use magnus::Error;

use crate::gvl;
use crate::pace::Attempt;

/// What ends a call, from another thread or in a callback.
#[derive(Default)]
pub(crate) struct Signals {
    /// Ruby wants something of the thread that executes the call.
    pub(crate) asked: AtomicBool,
    /// The call is to end whatever Ruby wants: its owner does not wait for it any more.
    pub(crate) stop: AtomicBool,
    /// What was raised meanwhile. With the GVL.
    pub(crate) raised: RefCell<Option<Error>>,
    /// A step that keeps the GVL. With the GVL.
    pub(crate) attempt: Attempt,
}

// SAFETY: `raised` and `attempt` are only used with the GVL.
unsafe impl Send for Signals {}
// SAFETY: the same.
unsafe impl Sync for Signals {}

impl Signals {
    /// Asked every few milliseconds of a wait and every few thousand instructions of a statement: whether it is to end.
    pub(crate) fn ends(&self) -> bool {
        if self.stop.load(Ordering::Relaxed) {
            return true;
        }
        if !is_rubys() {
            return false;
        }
        if gvl::is_held() {
            if self.attempt.gives_up() {
                return true;
            }
        } else if !self.asked.swap(false, Ordering::Relaxed) {
            return false;
        }
        gvl::with(|_| match gvl::check_interrupts() {
            Ok(()) => false,
            Err(error) => {
                self.raise_later(error);
                true
            }
        })
    }

    /// Keeps what was raised; the first counts.
    pub(crate) fn raise_later(&self, error: Error) {
        self.raised.borrow_mut().get_or_insert(error);
    }

    /// What was raised; not again.
    pub(crate) fn take(&self) -> Result<(), Error> {
        match self.raised.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// Whether this thread is one of Ruby's.
fn is_rubys() -> bool {
    // SAFETY: may be called in any thread.
    unsafe { rb_sys::ruby_native_thread_p() != 0 }
}
