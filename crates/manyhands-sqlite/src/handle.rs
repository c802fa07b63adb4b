//! The raw connection, which a connection and its statements share, and the right to call SQLite with it.

use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libsqlite3_sys as ffi;

use crate::callbacks::Callbacks;
use crate::{Error, locks};

/// The raw connection; closed when the `Connection` and all its statements are gone.
pub(crate) struct Handle {
    raw: NonNull<ffi::sqlite3>,
    callbacks: Mutex<Callbacks>,
    generation: u64,
}

// SAFETY: the connection is in serialized mode (SQLITE_OPEN_FULLMUTEX): any thread may call it. The
// closures are Send, and called under the connection's mutex.
unsafe impl Send for Handle {}
// SAFETY: serialized mode goes for calls at the same time too, and the closures are behind a mutex of their own.
unsafe impl Sync for Handle {}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Handle {
    pub(crate) fn new(raw: NonNull<ffi::sqlite3>) -> Handle {
        Handle { raw, callbacks: Mutex::default(), generation: locks::generation() }
    }

    pub(crate) fn raw(&self) -> *mut ffi::sqlite3 {
        self.raw.as_ptr()
    }

    /// The mutex in which SQLite executes each call on this connection, and its callbacks.
    fn mutex(&self) -> *mut ffi::sqlite3_mutex {
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_db_mutex(self.raw()) }
    }

    /// Makes other threads wait until [`Handle::leave`].
    fn enter(&self) {
        // SAFETY: the connection's own mutex, which a thread may enter several times.
        unsafe { ffi::sqlite3_mutex_enter(self.mutex()) };
    }

    /// Undoes one [`Handle::enter`].
    ///
    /// # Safety
    /// This thread has entered once more than it has left.
    unsafe fn leave(&self) {
        // SAFETY: the connection's own mutex, and this thread has entered it, as the caller has promised.
        unsafe { ffi::sqlite3_mutex_leave(self.mutex()) };
    }

    /// The connection's last error, whose call returned `code`.
    pub(crate) fn error(&self, code: c_int) -> Error {
        // So that no other thread's call replaces the message while it is copied.
        self.enter();
        // SAFETY: the connection is open.
        let error = unsafe { Error::of_connection(self.raw(), code) };
        // SAFETY: entered above.
        unsafe { self.leave() };
        error
    }

    /// The connection's last error, whatever call it was of.
    pub(crate) fn last_error(&self) -> Error {
        // SAFETY: the connection is open.
        let code = unsafe { ffi::sqlite3_errcode(self.raw()) };
        self.error(code)
    }

    /// True in a child that got this connection from its parent by `fork()`.
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation != locks::generation()
    }

    pub(crate) fn callbacks(&self) -> MutexGuard<'_, Callbacks> {
        self.callbacks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SQLite says of a connection that crossed a fork: do not even close it
        // (https://sqlite.org/howtocorrupt.html, 2.6).
        if !self.is_inherited() {
            // SAFETY: the connection is open, and never used again.
            let code = unsafe { ffi::sqlite3_close(self.raw()) };
            assert_eq!(code, ffi::SQLITE_OK, "statements keep their connection open");
        } else {
            // What SQLite still points to must stay.
            core::mem::forget(core::mem::take(&mut *self.callbacks()));
        }
    }
}

/// The right of one thread to call SQLite with a connection; made by [`Connection::hold`](crate::Connection::hold).
#[derive(Debug)]
pub struct Held {
    handle: Arc<Handle>,
    /// The thread that has entered must leave.
    _thread: PhantomData<*const ()>,
}

impl Held {
    pub(crate) fn of(handle: &Arc<Handle>) -> Held {
        handle.enter();
        Held { handle: Arc::clone(handle), _thread: PhantomData }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: `of` has entered, in this thread: a raw pointer keeps the guard from others.
        unsafe { self.handle.leave() };
    }
}
