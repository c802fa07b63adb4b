//! Fiber schedulers: a call that may wait is executed by another thread of Ruby's, and its fiber waits for that thread. So the other
//! fibers of its own thread go on.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use magnus::rb_sys::{FromRawValue, protect};
use magnus::value::ReprValue;
use magnus::{Error, Ruby, Value};

use crate::connection::{Connection, this_thread};
use crate::error::refusal;
use crate::gvl;

/// How long an owner who was interrupted waits at a time for its worker, which ends soon.
const STEP: Duration = Duration::from_millis(5);

/// Whether this fiber may not block its thread.
pub(crate) fn is_wanted() -> bool {
    // SAFETY: with the GVL.
    let scheduler = unsafe { rb_sys::rb_fiber_scheduler_current() };
    scheduler != rb_sys::Qnil as rb_sys::VALUE
}

/// Whether the work is done: the worker has let go of everything that its owner has.
#[derive(Default)]
struct Finish {
    is_done: Mutex<bool>,
    changed: Condvar,
}

impl Finish {
    fn set(&self) {
        *self.is_done.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn wait(&self, for_at_most: Duration) -> bool {
        let is_done = self.is_done.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(is_done, for_at_most, |done| !*done);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// What a worker does.
struct Job<'a, F, T> {
    connection: &'a Connection,
    work: F,
    done: &'a mut Option<T>,
    finish: Arc<Finish>,
}

/// Has another thread execute `work`, and waits for it as the fiber's scheduler wants.
///
/// # Errors
/// What is raised in this fiber meanwhile: the work ends then as if it were interrupted, and before this returns.
pub(crate) fn execute<T>(
    ruby: &Ruby,
    connection: &Connection,
    work: impl FnOnce() -> T,
) -> Result<T, Error> {
    let finish = Arc::new(Finish::default());
    let mut done = None;
    let mut job = Some(Job { connection, work, done: &mut done, finish: Arc::clone(&finish) });
    // Other fibers of this thread are in no callback of the connection.
    let owner = connection.run_in(0);
    let joined = run(connection, &mut job, &finish);
    connection.run_in(owner);
    joined?;
    drop(job);
    done.ok_or_else(|| refusal(ruby, "the thread that executed the statement was killed"))
}

/// Starts the thread, and waits until it has let go of the job.
fn run<F: FnOnce() -> T, T>(
    connection: &Connection,
    job: &mut Option<Job<'_, F, T>>,
    finish: &Finish,
) -> Result<(), Error> {
    let data: *mut c_void = ptr::from_mut(job).cast();
    let thread = protect(|| {
        // SAFETY: with the GVL; this function returns when the thread has let go of the job.
        unsafe { rb_sys::rb_thread_create(Some(main::<F, T>), data) }
    })?;
    // SAFETY: a thread of Ruby's.
    let thread = unsafe { Value::from_raw(thread) };
    let joined = thread.funcall::<_, _, Value>("join", ());
    if joined.is_err() {
        connection.signals.stop.store(true, Ordering::Relaxed);
        let lives = || thread.funcall::<_, _, bool>("alive?", ()).unwrap_or(true);
        while !finish.wait(Duration::ZERO) && lives() {
            // Whatever else is raised: the work uses what is this fiber's.
            let _ = protect(|| pause(finish));
        }
    }
    joined.map(|_| ())
}

/// What the thread executes.
///
/// # Safety
/// The data is the address of a job, which nobody else uses.
unsafe extern "C" fn main<F: FnOnce() -> T, T>(data: *mut c_void) -> rb_sys::VALUE {
    // SAFETY: what `run` has given.
    let job = unsafe { &mut *data.cast::<Option<Job<'_, F, T>>>() };
    if let Some(Job { connection, work, done, finish }) = job.take() {
        connection.run_in(this_thread());
        // An error says that the thread was killed before it has begun: its owner sees that nothing is done.
        let _ = gvl::without(&connection.signals.asked, || *done = Some(work()));
        connection.run_in(0);
        finish.set();
    }
    rb_sys::Qnil as rb_sys::VALUE
}

/// Waits a moment for the worker without the GVL.
fn pause(finish: &Finish) -> rb_sys::VALUE {
    /// # Safety
    /// The data is the address of such a finish.
    unsafe extern "C" fn wait(data: *mut c_void) -> *mut c_void {
        // SAFETY: what `pause` has given.
        let finish = unsafe { &*data.cast::<Finish>() };
        finish.wait(STEP);
        ptr::null_mut()
    }
    let data = ptr::from_ref(finish).cast_mut().cast();
    // SAFETY: with the GVL; what is waited for outlives the wait, which ends by itself. The caller catches what is raised.
    unsafe { rb_sys::rb_nogvl(Some(wait), data, None, ptr::null_mut(), 0) };
    rb_sys::Qnil as rb_sys::VALUE
}
