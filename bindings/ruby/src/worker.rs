//! Fiber schedulers: a call that may wait is executed by another thread of Ruby's, and its fiber waits for that thread. So the other
//! fibers of its own thread go on.
//!
//! A fiber may never come back: Ruby drops the fibers of a thread that is killed. So a job owns all that it works with, and whoever enters
//! its connection next has it end first ([`settle`]). For the same reason the fiber does not call `Thread#join` or `Queue#pop`: Ruby would
//! have the address of something in its stack.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use magnus::rb_sys::{FromRawValue, protect};
use magnus::value::{BoxValue, ReprValue};
use magnus::{Error, Ruby, Value};

use crate::connection::{Connection, this_thread};
use crate::error::refusal;
use crate::gvl;

/// How long somebody waits at a time for a job that was told to end.
const STEP: Duration = Duration::from_millis(5);

/// Whether this fiber may not block its thread.
pub(crate) fn is_wanted() -> bool {
    // SAFETY: with the GVL.
    let scheduler = unsafe { rb_sys::rb_fiber_scheduler_current() };
    scheduler != rb_sys::Qnil as rb_sys::VALUE
}

/// Whether a job has ended.
#[derive(Default)]
pub(crate) struct Finish {
    has_ended: Mutex<bool>,
    changed: Condvar,
}

impl Finish {
    fn set(&self) {
        *self.has_ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn wait(&self, at_most: Duration) -> bool {
        let has_ended = self.has_ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(has_ended, at_most, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// What another thread does for a fiber.
struct Job<F, T> {
    connection: Arc<Connection>,
    work: Option<F>,
    result: Arc<Mutex<Option<T>>>,
    finish: Arc<Finish>,
    owner: Owner,
}

/// The fiber that waits, and its scheduler.
struct Owner {
    scheduler: BoxValue<Value>,
    fiber: BoxValue<Value>,
}

impl Owner {
    /// This fiber.
    fn current() -> Owner {
        // SAFETY: with the GVL.
        let scheduler = unsafe { rb_sys::rb_fiber_scheduler_current() };
        // SAFETY: an object of Ruby's.
        let scheduler = unsafe { Value::from_raw(scheduler) };
        // SAFETY: with the GVL.
        let fiber = unsafe { rb_sys::rb_fiber_current() };
        // SAFETY: an object of Ruby's.
        let fiber = unsafe { Value::from_raw(fiber) };
        Owner { scheduler: BoxValue::new(scheduler), fiber: BoxValue::new(fiber) }
    }

    fn wake(&self) {
        // A scheduler that was closed may refuse: its fibers do not come back.
        let _: Result<Value, Error> = self.scheduler.funcall("unblock", (*self.fiber, *self.fiber));
    }
}

/// However the thread ends, with the GVL.
impl<F, T> Drop for Job<F, T> {
    fn drop(&mut self) {
        self.finish.set();
        self.owner.wake();
    }
}

/// Has another thread execute `work`, and waits for it as the fiber's scheduler wants.
///
/// # Errors
/// What is raised in this fiber meanwhile: the work ends then as if it were interrupted, and before this returns.
pub(crate) fn execute<T: 'static>(
    ruby: &Ruby,
    connection: &Arc<Connection>,
    work: impl FnOnce() -> T + 'static,
) -> Result<T, Error> {
    let result = Arc::new(Mutex::new(None));
    let finish = Arc::new(Finish::default());
    // Other fibers of this thread are in no callback of the connection.
    let owner = connection.run_in(0);
    connection.job.replace(Some(Arc::clone(&finish)));
    let job = Job {
        connection: Arc::clone(connection),
        work: Some(|result: &Mutex<Option<T>>| *lock(result) = Some(work())),
        result: Arc::clone(&result),
        finish: Arc::clone(&finish),
        owner: Owner::current(),
    };
    let waited = start(job).and_then(|()| block(&finish));
    settle(connection);
    connection.run_in(owner);
    waited?;
    let done = lock(&result).take();
    done.ok_or_else(|| refusal(ruby, "the thread that executed the statement was killed"))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends what another thread still does on this connection for a fiber that waits no more.
pub(crate) fn settle(connection: &Connection) {
    let Some(finish) = connection.job.take() else { return };
    while !finish.wait(Duration::ZERO) {
        connection.signals.stop.store(true, Ordering::Relaxed);
        // Whatever is raised here is raised later: the job uses the connection.
        if let Err(error) = protect(|| pause(&finish)) {
            connection.signals.raise_later(error);
        }
    }
}

/// Has the scheduler execute other fibers until the job has ended.
fn block(finish: &Finish) -> Result<(), Error> {
    let Owner { scheduler, fiber } = Owner::current();
    while !finish.wait(Duration::ZERO) {
        let _: Value = scheduler.funcall("block", (*fiber, ()))?;
    }
    Ok(())
}

/// Starts the thread.
fn start<F: FnOnce(&Mutex<Option<T>>), T>(job: Job<F, T>) -> Result<(), Error> {
    let job: *mut Job<F, T> = Box::into_raw(Box::new(job));
    let thread = protect(|| {
        // SAFETY: with the GVL; the thread takes the job.
        unsafe { rb_sys::rb_thread_create(Some(main::<F, T>), job.cast()) }
    });
    match thread {
        Ok(_) => Ok(()),
        Err(error) => {
            // SAFETY: there is no thread that could have taken it.
            drop(unsafe { Box::from_raw(job) });
            Err(error)
        }
    }
}

/// What the thread executes.
///
/// # Safety
/// The data is the address of a job in a box, which nobody else uses.
unsafe extern "C" fn main<F: FnOnce(&Mutex<Option<T>>), T>(data: *mut c_void) -> rb_sys::VALUE {
    // SAFETY: what `start` has given.
    let mut job = unsafe { Box::from_raw(data.cast::<Job<F, T>>()) };
    job.run();
    drop(job);
    rb_sys::Qnil as rb_sys::VALUE
}

impl<F: FnOnce(&Mutex<Option<T>>), T> Job<F, T> {
    fn run(&mut self) {
        let Some(work) = self.work.take() else { return };
        self.connection.run_in(this_thread());
        // An error says that the thread was killed before it has begun: its owner sees that nothing is done.
        let _ = gvl::without(&self.connection.signals.asked, || work(&self.result));
        self.connection.run_in(0);
    }
}

/// Waits a moment for a job without the GVL.
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
