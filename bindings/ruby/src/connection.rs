//! A connection, and the right to use it.
//!
//! What always holds:
//! * Who uses a connection has its mutex, one of Ruby's: who waits for it has neither the GVL nor blocks a fiber scheduler.
//! * A callback runs while its connection's call is under way, in the same thread, and may use the connection.
//! * A statement that the garbage collector finds is finalized by the next one who uses the connection: the collector may run in a
//!   thread that must not wait for it.
//! * A connection that was made before `fork()` is not touched in the child.
//! * What is raised in a callback, or while a call waits, is kept until the call has returned, and raised then.

use core::cell::{Cell, RefCell};
use core::ptr;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use magnus::gc::Marker;
use magnus::rb_sys::{AsRawValue, FromRawValue, protect};
use magnus::value::Opaque;
use magnus::{Error, Ruby, Value};

use crate::error::{Failure, refusal};
use crate::ffi::{self, sqlite};
use crate::gvl;
use crate::pace::Attempt;
use crate::signals::Signals;
use crate::worker::{self, Finish};

/// A connection of SQLite's, and what it needs of Ruby.
pub(crate) struct Connection {
    /// Null before it is opened, and after it has gone.
    db: Cell<*mut ffi::sqlite3>,
    /// Whether the engine knows it; else it is SQLite's alone: in memory, temporary.
    is_engines: Cell<bool>,
    /// Whether it is in memory: nothing that it does waits for others.
    is_in_memory: Cell<bool>,
    mutex: Opaque<Value>,
    /// The thread in which a call is under way; 0 for none.
    runs_in: Cell<libc::pthread_t>,
    /// What another thread does on it for a fiber.
    pub(crate) job: Cell<Option<Arc<Finish>>>,
    /// Which process has made it.
    generation: u64,
    pub(crate) signals: Arc<Signals>,
    /// What nobody has any more.
    garbage: Mutex<Vec<Garbage>>,
    statements: Cell<usize>,
    /// It was closed, and goes with its last statement.
    closes: Cell<bool>,
    /// Its statements may only be closed.
    is_discarded: Cell<bool>,
    /// The objects that SQLite has the addresses of.
    roots: RefCell<Vec<Opaque<Value>>>,
    pub(crate) handlers: Handlers,
    pub(crate) statement_timeout: Cell<Option<Duration>>,
    pub(crate) deadline: Cell<Option<Instant>>,
}

// SAFETY: all of it is used with the GVL or by who has the mutex, but for what is made for any thread.
unsafe impl Send for Connection {}
// SAFETY: the same.
unsafe impl Sync for Connection {}

/// What Ruby has no object for any more.
pub(crate) enum Garbage {
    Statement(*mut ffi::sqlite3_stmt),
    Backup(*mut ffi::sqlite3_backup),
}

type Handler = Cell<Option<Opaque<Value>>>;

/// The objects that SQLite's hooks call. Each stays where it is while it is here.
#[derive(Default)]
pub(crate) struct Handlers {
    pub(crate) trace: Handler,
    pub(crate) authorizer: Handler,
    pub(crate) busy: Handler,
}

impl Handlers {
    fn all(&self) -> [&Handler; 3] {
        [&self.trace, &self.authorizer, &self.busy]
    }
}

/// The right to use a connection, until it is dropped.
pub(crate) struct Entered<'a> {
    connection: &'a Arc<Connection>,
    /// In a callback of the connection: somebody below has the mutex.
    is_called_back: bool,
}

impl Connection {
    /// One that is not open. With the GVL.
    pub(crate) fn new(_: &Ruby) -> Connection {
        // SAFETY: with the GVL.
        let mutex = unsafe { rb_sys::rb_mutex_new() };
        // SAFETY: an object of Ruby's, which is marked as long as the connection lives.
        let mutex = unsafe { Value::from_raw(mutex) };
        Connection {
            db: Cell::new(ptr::null_mut()),
            is_engines: Cell::new(false),
            is_in_memory: Cell::new(false),
            mutex: Opaque::from(mutex),
            runs_in: Cell::new(0),
            job: Cell::default(),
            generation: manyhands::driver::fork_generation(),
            signals: Arc::default(),
            garbage: Mutex::default(),
            statements: Cell::new(0),
            closes: Cell::new(false),
            is_discarded: Cell::new(false),
            roots: RefCell::default(),
            handlers: Handlers::default(),
            statement_timeout: Cell::new(None),
            deadline: Cell::new(None),
        }
    }

    /// Tells the garbage collector of every object that is needed. They do not move: SQLite has their addresses.
    pub(crate) fn mark(&self, marker: &Marker) {
        marker.mark(self.mutex);
        for root in &*self.roots.borrow() {
            marker.mark(*root);
        }
        for handler in self.handlers.all().into_iter().filter_map(Cell::get) {
            marker.mark(handler);
        }
        if let Some(value) = self.signals.raised.borrow().as_ref().and_then(Error::value) {
            marker.mark(value);
        }
    }

    /// Keeps an object alive, and where it is.
    pub(crate) fn keep(&self, value: Value) {
        self.roots.borrow_mut().push(Opaque::from(value));
    }

    /// Lets go of an object that was kept. With the GVL, or in the garbage collector.
    pub(crate) fn let_go(&self, value: Opaque<Value>) {
        let mut roots = self.roots.borrow_mut();
        let is_it = |it: &Opaque<Value>| address(*it) == address(value);
        if let Some(place) = roots.iter().rposition(is_it) {
            roots.swap_remove(place);
        }
    }

    /// From here on its statements may only be closed.
    pub(crate) fn discard(&self) {
        self.is_discarded.set(true);
    }

    pub(crate) fn is_discarded(&self) -> bool {
        self.is_discarded.get() || self.is_inherited()
    }

    /// Whether the process has forked since it was made.
    pub(crate) fn is_inherited(&self) -> bool {
        manyhands::driver::fork_generation() != self.generation
    }

    /// Waits until nobody else uses it. SQLite's connection may have gone meanwhile.
    ///
    /// # Errors
    /// What Ruby raises in the thread while it waits.
    pub(crate) fn enter<'a>(self: &'a Arc<Self>, ruby: &Ruby) -> Result<Entered<'a>, Error> {
        if self.is_inherited() {
            return Err(refusal(ruby, "cannot use a connection that was inherited by fork()"));
        }
        let this_thread = this_thread();
        if self.runs_in.get() == this_thread {
            return Ok(Entered { connection: self, is_called_back: true });
        }
        let mutex = ruby.get_inner(self.mutex).as_raw();
        // SAFETY: a mutex of Ruby's, with the GVL.
        if unsafe { rb_sys::rb_mutex_trylock(mutex) } == rb_sys::Qfalse as rb_sys::VALUE {
            protect(|| {
                // SAFETY: the same; what is raised is caught.
                unsafe { rb_sys::rb_mutex_lock(mutex) }
            })?;
        }
        worker::settle(self);
        self.runs_in.set(this_thread);
        self.signals.stop.store(false, Ordering::Relaxed);
        let entered = Entered { connection: self, is_called_back: false };
        entered.finalize_garbage();
        Ok(entered)
    }

    /// Something that the garbage collector has found.
    pub(crate) fn throw_away(&self, garbage: Garbage) {
        self.garbage.lock().unwrap_or_else(PoisonError::into_inner).push(garbage);
    }

    /// Whether SQLite's connection is there: not before it is opened, nor while the garbage collector has it closed.
    pub(crate) fn is_there(&self) -> bool {
        !self.db.get().is_null()
    }

    /// Whether it was closed, or never opened.
    pub(crate) fn is_closed(&self) -> bool {
        self.closes.get() || self.db.get().is_null()
    }

    /// Ends what is under way, whoever executes it. With the GVL: nobody closes the connection meanwhile.
    pub(crate) fn interrupt(&self) {
        sqlite!(sqlite3_interrupt(self.db.get()));
    }

    /// A file was attached, which others may write.
    pub(crate) fn attach(&self) {
        self.is_in_memory.set(false);
    }

    /// The thread that executes a call for its owner.
    pub(crate) fn run_in(&self, thread: libc::pthread_t) -> libc::pthread_t {
        self.runs_in.replace(thread)
    }
}

/// What tells an object from the others.
fn address(value: Opaque<Value>) -> rb_sys::VALUE {
    // SAFETY: only the address is taken.
    unsafe { Ruby::get_unchecked() }.get_inner(value).as_raw()
}

/// What tells this thread from the others.
pub(crate) fn this_thread() -> libc::pthread_t {
    // SAFETY: has no preconditions.
    unsafe { libc::pthread_self() }
}

impl Drop for Connection {
    /// Nobody has it any more.
    fn drop(&mut self) {
        let db = self.db.replace(ptr::null_mut());
        if db.is_null() || self.is_inherited() {
            return;
        }
        let garbage = self.garbage.get_mut().unwrap_or_else(PoisonError::into_inner);
        for garbage in garbage.drain(..) {
            match garbage {
                Garbage::Statement(statement) => sqlite!(sqlite3_finalize(statement)),
                Garbage::Backup(backup) => sqlite!(sqlite3_backup_finish(backup)),
            };
        }
        if !self.closes.get() {
            sqlite!(sqlite3_close_v2(db));
        }
    }
}

impl Entered<'_> {
    /// SQLite's connection.
    ///
    /// # Errors
    /// It is not open.
    pub(crate) fn db(&self, ruby: &Ruby) -> Result<*mut ffi::sqlite3, Error> {
        if self.connection.db.get().is_null() {
            return Err(refusal(ruby, "cannot use a closed database"));
        }
        Ok(self.connection.db.get())
    }

    /// Executes what may wait. With a fiber scheduler, another thread executes it.
    ///
    /// # Errors
    /// What was raised meanwhile.
    pub(crate) fn wait<T: 'static>(
        &self,
        ruby: &Ruby,
        work: impl FnOnce() -> T + 'static,
    ) -> Result<T, Error> {
        let done = if worker::is_wanted() {
            worker::execute(ruby, self.connection, work)?
        } else {
            gvl::without(&self.connection.signals.asked, work)?
        };
        self.connection.signals.take()?;
        Ok(done)
    }

    /// Executes what waits for nobody and is short, with the GVL.
    ///
    /// # Errors
    /// What a callback has raised.
    pub(crate) fn at_once<T>(&self, work: impl FnOnce() -> T) -> Result<T, Error> {
        let done = work();
        self.connection.signals.take()?;
        Ok(done)
    }

    /// Opens SQLite's connection by `open`, which gives a result code and the connection.
    ///
    /// # Errors
    /// As SQLite fails.
    pub(crate) fn open(
        &self,
        ruby: &Ruby,
        open: impl FnOnce(&mut *mut ffi::sqlite3) -> i32 + 'static,
    ) -> Result<(), Error> {
        let (code, db) = self.wait(ruby, || {
            let mut db = ptr::null_mut();
            let code = open(&mut db);
            (code, db)
        })?;
        if code != ffi::SQLITE_OK {
            let failure = failure(db, code);
            sqlite!(sqlite3_close_v2(db));
            return Err(failure.raise(ruby));
        }
        self.connection.db.set(db);
        let signals = Arc::clone(&self.connection.signals);
        let check = move || signals.ends();
        // SAFETY: the connection is open.
        self.connection.is_engines.set(unsafe { ffi::check_while_waiting(db, check) });
        let name = sqlite!(sqlite3_db_filename(db, c"main".as_ptr()));
        // SAFETY: a zero-terminated text, or null.
        let is_in_memory = name.is_null() || unsafe { *name } == 0;
        self.connection.is_in_memory.set(is_in_memory);
        if !self.connection.is_engines.get() {
            self.watch_progress();
        }
        Ok(())
    }

    /// Has SQLite ask whether a statement is to end, for a connection that is its alone or has a timeout for statements. The engine
    /// asks of itself, and has a connection that asks besides execute its writes alone.
    pub(crate) fn watch_progress(&self) {
        let connection = self.connection;
        let db = connection.db.get();
        let data = Arc::as_ptr(connection).cast_mut().cast();
        if !connection.is_engines.get() || connection.statement_timeout.get().is_some() {
            sqlite!(sqlite3_progress_handler(db, INSTRUCTIONS, Some(progress), data));
        } else {
            sqlite!(sqlite3_progress_handler(db, 0, None, ptr::null_mut()));
        }
    }

    /// Closes SQLite's connection; with statements, when the last of them goes.
    ///
    /// # Errors
    /// What was raised meanwhile.
    pub(crate) fn close(&self, ruby: &Ruby) -> Result<(), Error> {
        let connection = self.connection;
        let db = connection.db.get();
        if connection.closes.replace(true) || db.is_null() {
            return Ok(());
        }
        if connection.statements.get() == 0 {
            connection.db.set(ptr::null_mut());
        }
        self.wait(ruby, move || sqlite!(sqlite3_close_v2(db)))?;
        Ok(())
    }

    /// A statement was prepared.
    pub(crate) fn add_statement(&self) {
        self.connection.statements.set(self.connection.statements.get() + 1);
    }

    /// Finalizes a statement, and tells of SQLite that the connection has gone with the last one.
    pub(crate) fn finalize(&self, statement: *mut ffi::sqlite3_stmt) {
        let connection = self.connection;
        sqlite!(sqlite3_finalize(statement));
        connection.statements.set(connection.statements.get().saturating_sub(1));
        if connection.closes.get() && connection.statements.get() == 0 {
            connection.db.set(ptr::null_mut());
        }
    }

    fn finalize_garbage(&self) {
        let mut garbage = self.connection.garbage.lock().unwrap_or_else(PoisonError::into_inner);
        let found = core::mem::take(&mut *garbage);
        drop(garbage);
        for garbage in found {
            match garbage {
                Garbage::Statement(statement) => self.finalize(statement),
                Garbage::Backup(backup) => {
                    sqlite!(sqlite3_backup_finish(backup));
                }
            }
        }
    }

    /// Whether a statement may have to wait for others: one in memory never does, nor does one of a transaction that holds the
    /// turn.
    pub(crate) fn may_wait(&self) -> bool {
        if self.connection.is_in_memory.get() {
            return false;
        }
        let db = self.connection.db.get();
        let is_open = sqlite!(sqlite3_get_autocommit(db)) == 0;
        !(is_open && sqlite!(sqlite3_txn_state(db, ptr::null())) == ffi::SQLITE_TXN_WRITE)
    }

    /// Whether a statement that only reads may have to wait for others: the first one of a transaction may take the turn.
    pub(crate) fn read_may_wait(&self) -> bool {
        if !self.connection.is_engines.get() {
            return !self.connection.is_in_memory.get();
        }
        sqlite!(sqlite3_get_autocommit(self.connection.db.get())) == 0 && self.may_wait()
    }

    pub(crate) fn attempt(&self) -> &Attempt {
        &self.connection.signals.attempt
    }

    /// Whether a query that was ended may begin again without anybody seeing it: outside of transactions, and without a trace.
    pub(crate) fn may_begin_again(&self) -> bool {
        let is_outside = sqlite!(sqlite3_get_autocommit(self.connection.db.get())) != 0;
        is_outside && self.connection.handlers.trace.get().is_none()
    }

    /// What the connection's last call has failed with.
    pub(crate) fn failure(&self, code: i32) -> Failure {
        failure(self.connection.db.get(), code)
    }

    /// Raises what a code of SQLite's stands for.
    ///
    /// # Errors
    /// Whenever the code is an error.
    pub(crate) fn check(&self, ruby: &Ruby, code: i32) -> Result<(), Error> {
        if code == ffi::SQLITE_OK { Ok(()) } else { Err(self.failure(code).raise(ruby)) }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.is_called_back {
            return;
        }
        self.connection.runs_in.set(0);
        let ruby = Ruby::get().expect("who has the mutex is a thread of Ruby's");
        let mutex = ruby.get_inner(self.connection.mutex).as_raw();
        // SAFETY: this fiber has locked it.
        unsafe { rb_sys::rb_mutex_unlock(mutex) };
    }
}

fn failure(db: *mut ffi::sqlite3, code: i32) -> Failure {
    let text = sqlite!(sqlite3_errmsg(db));
    // SAFETY: a zero-terminated text.
    let text = unsafe { core::ffi::CStr::from_ptr(text) };
    Failure { code, text: text.to_string_lossy().into_owned(), sql: None }
}

/// How many instructions of a statement pass between two looks.
const INSTRUCTIONS: i32 = 4000;

/// SQLite calls it while a statement runs: 0 to go on.
///
/// # Safety
/// The data is the address of the connection, which is in a call.
unsafe extern "C" fn progress(data: *mut ffi::c_void) -> i32 {
    // SAFETY: what `watch_progress` has given.
    let connection = unsafe { &*data.cast::<Connection>() };
    if let Some(timeout) = connection.statement_timeout.get() {
        let now = Instant::now();
        let deadline = connection.deadline.get().unwrap_or(now + timeout);
        connection.deadline.set(Some(deadline));
        if now > deadline {
            return 1;
        }
    }
    i32::from(connection.signals.ends())
}
