//! The GVL: Ruby's lock, which a thread holds while it executes Ruby code.
//!
//! What always holds:
//! * Nobody waits, for the queue, for a lock, for another thread's call, while it holds the GVL. What may wait runs by [`without`].
//! * Work without the GVL touches no object of Ruby's. What SQLite calls back meanwhile takes the GVL by [`with`].
//! * An interrupt (`Thread#kill`, `Timeout`, a signal) is only looked for where the thread holds the GVL, and what it raises is caught:
//!   nothing unwinds through SQLite.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use magnus::rb_sys::protect;
use magnus::{Error, Ruby};

thread_local! {
    /// Whether this thread has the GVL. It has when Ruby calls.
    static HOLDS: Cell<bool> = const { Cell::new(true) };
}

/// Whether this thread has the GVL.
pub(crate) fn is_held() -> bool {
    HOLDS.get()
}

/// Restores what [`HOLDS`] was, also after a panic.
struct Holds(bool);

impl Holds {
    fn set(holds: bool) -> Holds {
        Holds(HOLDS.replace(holds))
    }
}

impl Drop for Holds {
    fn drop(&mut self) {
        HOLDS.set(self.0);
    }
}

/// A call that is made on the other side of the GVL.
struct Call<F, T> {
    work: Option<F>,
    done: Option<std::thread::Result<T>>,
    holds: bool,
}

impl<F: FnOnce() -> T, T> Call<F, T> {
    fn new(work: F, holds: bool) -> Call<F, T> {
        Call { work: Some(work), done: None, holds }
    }

    fn data(&mut self) -> *mut c_void {
        ptr::from_mut(self).cast()
    }
}

/// # Safety
/// The data is the address of such a call, which nobody else uses.
unsafe extern "C" fn run<F: FnOnce() -> T, T>(data: *mut c_void) -> *mut c_void {
    // SAFETY: `without` and `with` give the address of their call.
    let call = unsafe { &mut *data.cast::<Call<F, T>>() };
    let _holds = Holds::set(call.holds);
    call.done = call.work.take().map(|work| catch_unwind(AssertUnwindSafe(work)));
    ptr::null_mut()
}

/// # Safety
/// The data is the address of an `AtomicBool`.
unsafe extern "C" fn ask(data: *mut c_void) {
    // SAFETY: `without` gives the address of one that outlives the call.
    let asked: &AtomicBool = unsafe { &*data.cast::<AtomicBool>() };
    asked.store(true, Ordering::Relaxed);
}

/// Executes `work` without the GVL. When Ruby wants something of the thread meanwhile, `asked` becomes true, and `work` looks by
/// [`check_interrupts`] what it is.
///
/// # Errors
/// What Ruby raises in the thread before the work has begun.
pub(crate) fn without<T>(asked: &AtomicBool, work: impl FnOnce() -> T) -> Result<T, Error> {
    debug_assert!(is_held(), "only who has the GVL can give it away");
    let mut call = Call::new(work, false);
    loop {
        run_without(&mut call, asked);
        match call.done.take() {
            Some(done) => return Ok(done.unwrap_or_else(|panic| resume_unwind(panic))),
            // Ruby has not begun, since it wants something of this thread first.
            None => check_interrupts()?,
        }
    }
}

fn run_without<F: FnOnce() -> T, T>(call: &mut Call<F, T>, asked: &AtomicBool) {
    asked.store(false, Ordering::Relaxed);
    let flag = ptr::from_ref(asked).cast_mut().cast();
    // Ruby raises nothing when the work is done: its result would be lost. And `ask` may be called by a signal handler. Otherwise Ruby
    // would start a thread for each call that a process with one thread makes, to call it there.
    let flags = (rb_sys::RB_NOGVL_INTR_FAIL | rb_sys::RB_NOGVL_UBF_ASYNC_SAFE) as i32;
    // SAFETY: this thread has the GVL; the call and the flag outlive the work.
    unsafe { rb_sys::rb_nogvl(Some(run::<F, T>), call.data(), Some(ask), flag, flags) };
}

/// Executes `work` with the GVL: what SQLite calls back.
pub(crate) fn with<T>(work: impl FnOnce(&Ruby) -> T) -> T {
    let work = || {
        // SAFETY: this thread has the GVL.
        let ruby = unsafe { Ruby::get_unchecked() };
        work(&ruby)
    };
    if is_held() {
        return work();
    }
    let mut call = Call::new(work, true);
    take_and_run(&mut call);
    match call.done {
        Some(done) => done.unwrap_or_else(|panic| resume_unwind(panic)),
        None => unreachable!("Ruby calls what it is given"),
    }
}

fn take_and_run<F: FnOnce() -> T, T>(call: &mut Call<F, T>) {
    // SAFETY: this thread is Ruby's and has given the GVL away; the call outlives the work.
    unsafe { rb_sys::rb_thread_call_with_gvl(Some(run::<F, T>), call.data()) };
}

/// Does what Ruby wants of this thread, which has the GVL: runs a trap, lets another thread run, raises.
///
/// # Errors
/// What is raised.
pub(crate) fn check_interrupts() -> Result<(), Error> {
    protect(|| {
        // SAFETY: this thread has the GVL, and what is raised is caught.
        unsafe { rb_sys::rb_thread_check_ints() };
        rb_sys::Qnil.into()
    })
    .map(|_| ())
}
