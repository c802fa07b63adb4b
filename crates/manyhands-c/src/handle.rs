//! What belongs to a connection besides SQLite's own: the engine's connection, and its open statements.

use core::cell::{Cell, RefCell, UnsafeCell};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, Mutex};

use manyhands::driver::{ConnectionExt, fork_generation};
use manyhands::{Connection, Error, InterruptHandle, Outcome};

use crate::ffi;
use crate::hooks::Hooks;
use crate::per_process::PerProcess;
use crate::planted::planted;
use crate::statement::Statement;

/// Where SQLite's connection keeps the address of its handle.
const KEY: *const core::ffi::c_char = c"manyhands".as_ptr();

/// What interrupts each open connection. `sqlite3_interrupt` is called while another thread holds the connection's mutex.
static INTERRUPTS: PerProcess<BTreeMap<usize, InterruptHandle>> =
    PerProcess::new([const { Mutex::new(BTreeMap::new()) }; _]);

/// A connection of ours. All of it is used under SQLite's mutex of the connection.
pub(crate) struct Handle {
    pub(crate) db: *mut ffi::sqlite3,
    /// Of the process that has opened it.
    generation: u64,
    connection: UnsafeCell<Connection>,
    /// How many calls of SQLite or the engine are under way here, each of which may call back.
    depth: Cell<u32>,
    /// The open statements, in the order in which they were prepared.
    pub(crate) statements: RefCell<Vec<*mut Statement>>,
    /// Open blobs and backups.
    pub(crate) others: Cell<u32>,
    /// It was closed by `sqlite3_close_v2`, and goes when the last of these goes.
    pub(crate) closes: Cell<bool>,
    /// What the last INSERT, UPDATE or DELETE has counted.
    pub(crate) counted: RefCell<Option<Outcome>>,
    /// Result codes are extended ones.
    pub(crate) extended: Cell<bool>,
    /// SQL may load extensions, which add to the connection what they like.
    pub(crate) loads_by_sql: Cell<bool>,
    /// BEGIN IMMEDIATE is a plain BEGIN.
    pub(crate) immediate_as_auto: bool,
    /// How often the program's busy handler was called in this wait.
    pub(crate) busy_calls: Arc<AtomicU32>,
    pub(crate) hooks: Hooks,
    /// A connection in memory, whose statements show rows that come from elsewhere.
    rows: Cell<*mut ffi::sqlite3>,
}

/// The right to use a handle: its connection's mutex is held.
pub(crate) struct Entered<'a> {
    pub(crate) handle: &'a Handle,
}

impl Handle {
    /// Ties a connection to SQLite's.
    pub(crate) fn open(connection: Connection, immediate_as_auto: bool) -> *mut ffi::sqlite3 {
        let db: *mut ffi::sqlite3 = connection.as_ptr().cast();
        let interrupt = connection.interrupt_handle();
        INTERRUPTS.lock().insert(db as usize, interrupt);
        let handle = Box::into_raw(Box::new(Handle {
            db,
            generation: fork_generation(),
            hooks: Hooks::new(db, connection.application_statements()),
            connection: UnsafeCell::new(connection),
            depth: Cell::new(0),
            statements: RefCell::default(),
            others: Cell::new(0),
            closes: Cell::new(false),
            counted: RefCell::default(),
            extended: Cell::new(false),
            loads_by_sql: Cell::new(false),
            immediate_as_auto,
            busy_calls: Arc::default(),
            rows: Cell::new(ptr::null_mut()),
        }));
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_set_clientdata(db, KEY, handle.cast(), None) };
        // As SQLite has it where it is compiled so: from C, and not from SQL. The engine has switched it off.
        let what = ffi::SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION;
        // SAFETY: the connection is open; a switch and no place for the result.
        unsafe { ffi::sqlite3_db_config(db, what, 1 as c_int, ptr::null_mut::<c_int>()) };
        // What its last user has left.
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_set_errmsg(db, ffi::SQLITE_OK, ptr::null()) };
        db
    }

    /// Gives everything back. The connection is SQLite's to close, or the engine's to keep for its next user.
    ///
    /// # Safety
    /// Nobody uses the handle afterwards; its statements, blobs and backups are gone.
    pub(crate) unsafe fn close(&self) {
        INTERRUPTS.lock().remove(&(self.db as usize));
        // SAFETY: the connection is open.
        if !self.is_inherited() && unsafe { ffi::sqlite3_get_autocommit(self.db) } == 0 {
            // SQLite would roll back, and tell the program. What the engine rolls back it tells nobody.
            self.hooks.tell_rollback();
        }
        if !self.rows.get().is_null() && !self.is_inherited() {
            // SAFETY: ours, and the statements on it are gone.
            unsafe { ffi::sqlite3_close(self.rows.get()) };
        }
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_set_clientdata(self.db, KEY, ptr::null_mut(), None) };
        let handle = ptr::from_ref(self).cast_mut();
        // SAFETY: `open` has made it of a box, and nobody uses it any more.
        drop(unsafe { Box::from_raw(handle) });
    }

    /// The handle of a connection, if it is one of ours.
    ///
    /// # Safety
    /// `db` is null or open, and the handle is not used when the connection is closed.
    pub(crate) unsafe fn of<'a>(db: *mut ffi::sqlite3) -> Option<&'a Handle> {
        if db.is_null() {
            return None;
        }
        // SAFETY: the connection is open.
        let handle = unsafe { ffi::sqlite3_get_clientdata(db, KEY) };
        let handle: *const Handle = handle.cast();
        // SAFETY: `open` has put it there, and `close` takes it away.
        unsafe { handle.as_ref() }
    }

    /// The same, with the connection's mutex.
    ///
    /// # Safety
    /// See [`Handle::of`].
    pub(crate) unsafe fn entered<'a>(db: *mut ffi::sqlite3) -> Option<Entered<'a>> {
        // SAFETY: the caller has promised it.
        unsafe { Handle::of(db) }.map(Handle::enter)
    }

    pub(crate) fn enter(&self) -> Entered<'_> {
        // SAFETY: the connection is open.
        let mutex = unsafe { ffi::sqlite3_db_mutex(self.db) };
        // SAFETY: its own mutex, which a thread may enter several times.
        unsafe { ffi::sqlite3_mutex_enter(mutex) };
        Entered { handle: self }
    }

    /// A result code as the program wants it.
    pub(crate) fn code(&self, code: c_int) -> c_int {
        if self.extended.get() { code } else { code & 0xff }
    }

    /// True in a callback: the engine, or a statement, is under way.
    pub(crate) fn is_called_back(&self) -> bool {
        self.depth.get() > 0
    }

    /// True in a forked child of the process that has opened it. There what has begun is not ended: the locks are the parent's, and another
    /// thread of the parent may hold SQLite's mutexes for ever.
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation != fork_generation() && !planted("c-child-ends-reads")
    }

    /// Fails as the engine does with an inherited connection.
    pub(crate) fn refuse_inherited(&self) -> c_int {
        self.engine(|it| it.read_alone(|| ffi::SQLITE_MISUSE)).unwrap_or_else(|code| code)
    }

    /// Calls SQLite for something that may call back.
    pub(crate) fn nested<T>(&self, work: impl FnOnce() -> T) -> T {
        self.depth.set(self.depth.get() + 1);
        let done = work();
        self.depth.set(self.depth.get() - 1);
        done
    }

    /// Has the engine do something. An error is the connection's last one, and its code is returned.
    ///
    /// # Errors
    /// As the engine fails; `SQLITE_MISUSE` in a callback, where the engine is under way.
    pub(crate) fn engine<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Error>,
    ) -> Result<T, c_int> {
        if self.is_called_back() {
            return Err(self.fail_with(ffi::SQLITE_MISUSE, None));
        }
        self.busy_calls.store(0, Ordering::Relaxed);
        // SAFETY: under the connection's mutex, and not called back: nobody else has this reference.
        let connection = unsafe { &mut *self.connection.get() };
        let done = self.nested(|| catch_unwind(AssertUnwindSafe(|| work(connection))));
        match done {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(self.fail(&error)),
            Err(_) => Err(self.fail_with(ffi::SQLITE_INTERNAL, Some("a panic in Manyhands"))),
        }
    }

    /// The same for what is no call that could succeed in SQLite: the connection's last error stays what it was, unless this fails.
    ///
    /// # Errors
    /// See [`Handle::engine`].
    pub(crate) fn engine_quietly<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Error>,
    ) -> Result<T, c_int> {
        // SAFETY: the connection is open.
        let code = unsafe { ffi::sqlite3_extended_errcode(self.db) };
        let text = self.last_message();
        let done = self.engine(work)?;
        self.tell_again(code, &text);
        Ok(done)
    }

    /// Looks at the engine's connection, which changes nothing. Nothing in a callback, where the engine is under way.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Connection) -> Option<T>) -> Option<T> {
        if self.is_called_back() {
            return None;
        }
        // SAFETY: under the connection's mutex, and not called back: nobody changes it.
        look(unsafe { &*self.connection.get() })
    }

    /// Changes something about SQLite's connection, of which the engine is told; `is_local` says whether others would execute
    /// writes differently.
    pub(crate) fn change(&self, is_local: bool, change: impl FnOnce() -> c_int) -> c_int {
        if self.is_called_back() {
            return change();
        }
        self.engine(|it| it.change_connection(is_local, change)).unwrap_or_else(|code| code)
    }

    /// Makes an error the connection's last one, and gives its code.
    pub(crate) fn fail(&self, error: &Error) -> c_int {
        let code = error.nearest_code().map_or(ffi::SQLITE_ERROR, |it| it.0);
        let own = error.sqlite_message();
        if code & 0xff == ffi::SQLITE_BUSY && own.is_none_or(|it| it.contains("locked")) {
            // Programs compare with exactly this text, which is SQLite's.
            return self.fail_with(code, Some("database is locked"));
        }
        let text = own.map_or_else(|| error.to_string(), str::to_string);
        self.fail_with(code, Some(&text))
    }

    /// The same, with SQLite's own text for the code if there is none.
    pub(crate) fn fail_with(&self, code: c_int, text: Option<&str>) -> c_int {
        let text = text.and_then(|it| CString::new(it).ok());
        let text = text.as_ref().map_or(ptr::null(), |it| it.as_ptr());
        // SAFETY: the connection is open, and the text is zero-terminated or null.
        unsafe { ffi::sqlite3_set_errmsg(self.db, code, text) };
        self.code(code)
    }

    /// A call came to `code`, which is no error.
    pub(crate) fn succeed(&self, code: c_int) -> c_int {
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_set_errmsg(self.db, code, ptr::null()) };
        code
    }

    /// The connection whose statements show rows; null when there is no memory.
    pub(crate) fn rows(&self) -> *mut ffi::sqlite3 {
        if self.rows.get().is_null() {
            let mut rows = ptr::null_mut();
            let flags = ffi::SQLITE_OPEN_READWRITE
                | ffi::SQLITE_OPEN_CREATE
                | ffi::SQLITE_OPEN_MEMORY
                | ffi::SQLITE_OPEN_FULLMUTEX;
            // SAFETY: a name, a place for the result, SQLite's default VFS.
            unsafe {
                ffi::sqlite3_open_v2(c":memory:".as_ptr(), &raw mut rows, flags, ptr::null());
            }
            self.rows.set(rows);
        }
        self.rows.get()
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // SAFETY: the connection is open: it is not closed by who uses it.
        let mutex = unsafe { ffi::sqlite3_db_mutex(self.handle.db) };
        // SAFETY: this thread has entered it.
        unsafe { ffi::sqlite3_mutex_leave(mutex) };
    }
}

impl core::ops::Deref for Entered<'_> {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        self.handle
    }
}

/// Ends what a connection of ours waits for or executes; false for any other.
pub(crate) fn interrupt(db: *mut ffi::sqlite3) -> bool {
    let interrupts = INTERRUPTS.lock();
    let found = interrupts.get(&(db as usize));
    if let Some(interrupt) = found {
        interrupt.interrupt();
    }
    found.is_some()
}

/// A pointer of the program's, which it uses in whatever thread.
#[derive(Clone, Copy)]
pub(crate) struct Data(pub(crate) *mut c_void);

// SAFETY: SQLite, too, gives it back in whatever thread uses the connection.
unsafe impl Send for Data {}
// SAFETY: the same.
unsafe impl Sync for Data {}

impl Data {
    /// The pointer; a method, so that closures capture the whole.
    pub(crate) fn get(self) -> *mut c_void {
        self.0
    }
}
