//! What becomes of a thread that is in here when the interpreter exits.
//!
//! A daemon thread that asks for the GIL then does not get it: before Python 3.14, `pthread_exit` ends the thread.
//! The GNU C library does that by unwinding its stack, and ends the process when it comes to a frame of Rust's. So
//! such a thread stays where it is instead, without the GIL, until the process has exited.
//! <https://docs.python.org/3/c-api/init.html#cautions-regarding-runtime-finalization>

use core::marker::PhantomData;

use pyo3::Python;
use pyo3::marker::Ungil;

/// While it lives, its thread stays when Python ends it.
pub(crate) struct Stays {
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Stays {
    pub(crate) fn here() -> Stays {
        handler::enter();
        Stays { _thread: PhantomData }
    }
}

impl Drop for Stays {
    fn drop(&mut self) {
        handler::leave();
    }
}

/// Does some work without the GIL, and takes it again.
pub(crate) fn detached<T: Ungil>(py: Python<'_>, work: impl FnOnce() -> T + Ungil) -> T {
    let _stays = Stays::here();
    py.detach(work)
}

/// When the module is loaded. PyO3 looks, when it first attaches a thread, whether there is an interpreter, and panics if that is
/// exiting; from then on it does not look.
pub(crate) fn attach_once(py: Python<'_>) {
    py.detach(|| Python::attach(|_| ()));
}

/// Cleanup handlers of the kind that the C library has kept for old programs. It compares the address of a
/// handler's record with the frame that it is about to leave, and calls the handler first if that lies above. A
/// record on the heap is outside the stack, and so its handler is called before any frame is left. What
/// `pthread_cleanup_push` of `pthread.h` makes would be called too late.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "no safe crate has these handlers")]
mod handler {
    use core::cell::{Cell, UnsafeCell};
    use core::ffi::{c_int, c_void};
    use core::time::Duration;

    /// `struct _pthread_cleanup_buffer`.
    #[repr(C)]
    struct Record {
        routine: *mut c_void,
        argument: *mut c_void,
        cancel_type: c_int,
        previous: *mut Record,
    }

    unsafe extern "C" {
        fn _pthread_cleanup_push(
            record: *mut Record,
            routine: extern "C" fn(*mut c_void),
            argument: *mut c_void,
        );
        fn _pthread_cleanup_pop(record: *mut Record, execute: c_int);
    }

    struct Handler {
        /// How many `Stays` the thread has. The record is in the C library's list while there are any.
        depth: Cell<u32>,
        record: Box<UnsafeCell<Record>>,
    }

    thread_local! {
        static HANDLER: Handler = Handler {
            depth: Cell::new(0),
            record: Box::new(UnsafeCell::new(Record {
                routine: core::ptr::null_mut(),
                argument: core::ptr::null_mut(),
                cancel_type: 0,
                previous: core::ptr::null_mut(),
            })),
        };
    }

    extern "C" fn stay(_: *mut c_void) {
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }

    // Both do nothing in a thread whose own variables are gone: Python has let go of it.

    pub(super) fn enter() {
        let _ = HANDLER.try_with(|handler| {
            if handler.depth.replace(handler.depth.get() + 1) == 0 {
                // SAFETY: the record lives as long as the thread, and is in no list: the depth was 0.
                unsafe {
                    _pthread_cleanup_push(handler.record.get(), stay, core::ptr::null_mut());
                }
            }
        });
    }

    pub(super) fn leave() {
        let _ = HANDLER.try_with(|handler| {
            handler.depth.set(handler.depth.get() - 1);
            if handler.depth.get() == 0 {
                // SAFETY: `enter` has put it into the list of this thread, which `Stays` does not leave; and what
                // came later is gone, as the frames that it belonged to.
                unsafe {
                    _pthread_cleanup_pop(handler.record.get(), 0);
                }
            }
        });
    }
}

/// Elsewhere the end of a thread unwinds nothing.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod handler {
    pub(super) fn enter() {}
    pub(super) fn leave() {}
}
