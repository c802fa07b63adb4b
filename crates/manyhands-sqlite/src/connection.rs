//! One SQLite connection.

use core::ffi::{CStr, c_char, c_int};
use core::ptr::{self, NonNull};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};

use libsqlite3_sys as ffi;

use crate::callbacks::Callbacks;
use crate::handle::{Handle, Held};
use crate::statement::Statement;
use crate::{Error, ValueRef, locks, vfs};

const MAIN: *const c_char = c"main".as_ptr();

/// How a database file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading and writing; created when it does not exist.
    ReadWriteCreate,
    /// For reading and writing.
    ReadWrite,
    /// For reading.
    ReadOnly,
}

/// The kind of a checkpoint (<https://sqlite.org/c3ref/wal_checkpoint_v2.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointMode {
    /// As much as possible without waiting for anybody.
    Passive,
    /// The same while others commit: they are offered the processor meanwhile.
    Beside,
    /// Everything, and the WAL starts at its beginning again.
    Restart,
    /// As restart, and the file is cut to zero bytes.
    Truncate,
}

/// What a checkpoint left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpointed {
    /// Frames in the WAL.
    pub frames: u32,
    /// Frames of them that are in the database file too.
    pub frames_done: u32,
}

/// What SQLite holds of the main database (<https://sqlite.org/c3ref/c_txn_none.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// No lock.
    None,
    /// A snapshot for reading.
    Read,
    /// The write lock.
    Write,
}

/// A connection to one database file, through the shim VFS.
#[derive(Debug)]
pub struct Connection {
    handle: Arc<Handle>,
}

impl Connection {
    /// Opens a database. `path` may be a `file:` URI (<https://sqlite.org/uri.html>) if `uri` is true.
    ///
    /// # Errors
    /// As `sqlite3_open_v2` fails.
    pub fn open(path: &Path, mode: OpenMode, uri: bool) -> Result<Connection, Error> {
        locks::install()
            .map_err(|error| Error::misuse(&format!("cannot install locks: {error}")))?;
        vfs::register();
        let mut bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec();
        // This SQLite is compiled to take any such name for a URI.
        if !uri && bytes.starts_with(b"file:") {
            bytes.splice(0..0, *b"./");
        }
        let name = CString::new(bytes)
            .map_err(|_| Error::misuse("a database path cannot contain a zero byte"))?;
        let flags = ffi::SQLITE_OPEN_FULLMUTEX
            | if uri { ffi::SQLITE_OPEN_URI } else { 0 }
            | match mode {
                OpenMode::ReadWriteCreate => ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE,
                OpenMode::ReadWrite => ffi::SQLITE_OPEN_READWRITE,
                OpenMode::ReadOnly => ffi::SQLITE_OPEN_READONLY,
            };
        let mut raw = ptr::null_mut();
        // SAFETY: a zero-terminated name, a place for the result, a registered VFS.
        let code =
            unsafe { ffi::sqlite3_open_v2(name.as_ptr(), &raw mut raw, flags, vfs::NAME.as_ptr()) };
        let Some(raw) = NonNull::new(raw) else { return Err(Error::from_code(code)) };
        let handle = Handle::new(raw);
        if code != ffi::SQLITE_OK {
            return Err(handle.error(code));
        }
        let connection = Connection { handle: Arc::new(handle) };
        // Other files SQLite would map by itself.
        if connection.is_ours() {
            let window = vfs::WINDOW_BYTES;
            connection.execute(&format!("PRAGMA main.mmap_size={window}"))?;
        }
        Ok(connection)
    }

    pub(crate) fn raw(&self) -> *mut ffi::sqlite3 {
        self.handle.raw()
    }

    /// SQLite's own connection, for a driver that calls SQLite with it. It is open as long as this value, and belongs to it.
    pub fn as_ptr(&self) -> *mut ffi::sqlite3 {
        self.raw()
    }

    pub(crate) fn handle(&self) -> Arc<Handle> {
        Arc::clone(&self.handle)
    }

    pub(crate) fn callbacks(&self) -> MutexGuard<'_, Callbacks> {
        self.handle.callbacks()
    }

    pub(crate) fn check(&self, code: c_int) -> Result<(), Error> {
        if code == ffi::SQLITE_OK { Ok(()) } else { Err(self.handle.error(code)) }
    }

    /// True in a child that got this connection from its parent by `fork()`: it must not be used.
    pub fn is_inherited(&self) -> bool {
        self.handle.is_inherited()
    }

    /// Makes calls from other threads wait until it is dropped. Several calls under it cost less than each
    /// for itself: to take SQLite's mutex is a large part of a small call.
    pub fn hold(&self) -> Held {
        Held::of(&self.handle)
    }

    /// Compiles the first statement of `sql`. Returns it, `None` when there is only white space or
    /// comment, and the length of what was compiled in bytes.
    ///
    /// # Errors
    /// As SQLite fails to compile.
    pub fn prepare(&self, sql: &str) -> Result<(Option<Statement>, usize), Error> {
        let count = c_int::try_from(sql.len()).map_err(|_| Error::from_code(ffi::SQLITE_TOOBIG))?;
        let mut raw = ptr::null_mut();
        let mut rest = ptr::null();
        // SAFETY: a text of `count` bytes and places for two results.
        let code = unsafe {
            ffi::sqlite3_prepare_v3(
                self.raw(),
                sql.as_ptr().cast(),
                count,
                ffi::SQLITE_PREPARE_PERSISTENT,
                &raw mut raw,
                &raw mut rest,
            )
        };
        self.check(code)?;
        let used = rest as usize - sql.as_ptr() as usize;
        Ok((NonNull::new(raw).map(|raw| Statement::new(raw, Arc::clone(&self.handle))), used))
    }

    /// Compiles exactly one statement.
    ///
    /// # Errors
    /// As SQLite fails to compile, and `SQLITE_MISUSE` for none or several statements.
    pub fn prepare_one(&self, sql: &str) -> Result<Statement, Error> {
        let (statement, used) = self.prepare(sql)?;
        let statement = statement.ok_or_else(|| Error::misuse("there is no SQL statement"))?;
        if self.prepare(&sql[used..])?.0.is_some() {
            return Err(Error::misuse("more than one SQL statement was given where one is taken"));
        }
        Ok(statement)
    }

    /// Compiles and runs all statements of `sql`; rows are passed over.
    ///
    /// # Errors
    /// As SQLite fails, at the first statement that does.
    pub fn execute(&self, sql: &str) -> Result<(), Error> {
        let mut rest = sql;
        while !rest.is_empty() {
            let (statement, used) = self.prepare(rest)?;
            if let Some(mut statement) = statement {
                while statement.step()? == crate::Step::Row {}
            }
            rest = &rest[used..];
        }
        Ok(())
    }

    /// The first column of the first row of `sql`, as an integer.
    ///
    /// # Errors
    /// As SQLite fails, and `SQLITE_MISUSE` when there is no such integer.
    pub fn query_integer(&self, sql: &str) -> Result<i64, Error> {
        let mut statement = self.prepare_one(sql)?;
        statement.step()?;
        match statement.column(0) {
            ValueRef::Integer(number) => Ok(number),
            _ => Err(Error::misuse("the statement gave no integer")),
        }
    }

    /// The first column of the first row of `sql`, as text.
    ///
    /// # Errors
    /// As SQLite fails, and `SQLITE_MISUSE` when there is no such text.
    pub fn query_text(&self, sql: &str) -> Result<String, Error> {
        let mut statement = self.prepare_one(sql)?;
        statement.step()?;
        match statement.column(0) {
            ValueRef::Text(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            _ => Err(Error::misuse("the statement gave no text")),
        }
    }

    /// True outside a transaction.
    pub fn is_autocommit(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_get_autocommit(self.raw()) != 0 }
    }

    /// What SQLite holds of the main database.
    pub fn transaction(&self) -> Transaction {
        // SAFETY: the connection is open.
        match unsafe { ffi::sqlite3_txn_state(self.raw(), MAIN) } {
            ffi::SQLITE_TXN_WRITE => Transaction::Write,
            ffi::SQLITE_TXN_READ => Transaction::Read,
            _ => Transaction::None,
        }
    }

    /// True when SQLite holds the write lock of the database of this name.
    pub fn writes_schema(&self, schema: &str) -> bool {
        let Ok(schema) = CString::new(schema) else { return false };
        // SAFETY: the connection is open, and the name outlives the call.
        unsafe { ffi::sqlite3_txn_state(self.raw(), schema.as_ptr()) == ffi::SQLITE_TXN_WRITE }
    }

    /// True when SQLite holds the write lock of some database, an attached or a temporary one included.
    pub fn writes(&self) -> bool {
        // SAFETY: the connection is open; null stands for all of its databases.
        unsafe { ffi::sqlite3_txn_state(self.raw(), ptr::null()) == ffi::SQLITE_TXN_WRITE }
    }

    /// Rows changed by the last INSERT, UPDATE or DELETE.
    pub fn changes(&self) -> i64 {
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_changes64(self.raw()) }
    }

    /// Rows changed since the connection was opened, by triggers and foreign key actions too.
    pub fn total_changes(&self) -> i64 {
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_total_changes64(self.raw()) }
    }

    /// The rowid of the last insert.
    pub fn last_insert_rowid(&self) -> i64 {
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_last_insert_rowid(self.raw()) }
    }

    /// Makes [`Connection::last_insert_rowid`] answer `rowid`.
    pub fn set_last_insert_rowid(&self, rowid: i64) {
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_set_last_insert_rowid(self.raw(), rowid) }
    }

    /// True while the transaction violates a deferred foreign key, so that it could not commit now.
    pub fn violates_deferred_foreign_keys(&self) -> bool {
        // In doubt yes: the caller then takes the slow and exact way.
        self.status(ffi::SQLITE_DBSTATUS_DEFERRED_FKS) != Some(0)
    }

    /// Memory that the page caches of the connection take, in bytes.
    pub fn cache_bytes(&self) -> usize {
        self.status(ffi::SQLITE_DBSTATUS_CACHE_USED).unwrap_or(0).unsigned_abs() as usize
    }

    /// A figure about the connection (<https://sqlite.org/c3ref/c_dbstatus_options.html>).
    fn status(&self, which: c_int) -> Option<c_int> {
        let (mut current, mut highest) = (0, 0);
        // SAFETY: the connection is open; two places for results.
        let code = unsafe {
            ffi::sqlite3_db_status(self.raw(), which, &raw mut current, &raw mut highest, 0)
        };
        (code == ffi::SQLITE_OK).then_some(current)
    }

    /// The absolute path of the main database; empty for a database without a file.
    pub fn path(&self) -> PathBuf {
        // SAFETY: the connection is open.
        let name = unsafe { ffi::sqlite3_db_filename(self.raw(), MAIN) };
        if name.is_null() {
            return PathBuf::new();
        }
        // SAFETY: zero-terminated, and alive as long as the connection.
        let name = unsafe { CStr::from_ptr(name) };
        PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(
            name.to_bytes(),
        ))
    }

    /// True when the URI with which it was opened has this parameter, and its value means yes.
    pub fn is_asked_for(&self, parameter: &CStr) -> bool {
        // SAFETY: the connection is open.
        let name = unsafe { ffi::sqlite3_db_filename(self.raw(), MAIN) };
        // SAFETY: null, or a name that SQLite made, with its parameters behind it; and a string.
        unsafe { ffi::sqlite3_uri_boolean(name, parameter.as_ptr(), 0) != 0 }
    }

    /// True when the main database's file is not at its path any more.
    pub fn has_moved(&self) -> bool {
        let mut moved: c_int = 0;
        let argument = (&raw mut moved).cast();
        // SAFETY: the connection is open, and `moved` is where this operation writes.
        let code = unsafe {
            ffi::sqlite3_file_control(self.raw(), MAIN, ffi::SQLITE_FCNTL_HAS_MOVED, argument)
        };
        code == ffi::SQLITE_OK && moved != 0
    }

    /// True when the main database cannot be written by this connection.
    pub fn is_read_only(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_db_readonly(self.raw(), MAIN) == 1 }
    }

    /// Copies frames of the WAL into the database file.
    ///
    /// # Errors
    /// `SQLITE_BUSY` when somebody else is at it, or holds back some frames that the mode insists on.
    pub fn checkpoint(&self, mode: CheckpointMode) -> Result<Checkpointed, Error> {
        self.be_gentle(mode == CheckpointMode::Beside);
        let mode = match mode {
            CheckpointMode::Passive | CheckpointMode::Beside => ffi::SQLITE_CHECKPOINT_PASSIVE,
            CheckpointMode::Restart => ffi::SQLITE_CHECKPOINT_RESTART,
            CheckpointMode::Truncate => ffi::SQLITE_CHECKPOINT_TRUNCATE,
        };
        let (mut frames, mut done) = (0, 0);
        // SAFETY: the connection is open; two places for results.
        let code = unsafe {
            ffi::sqlite3_wal_checkpoint_v2(self.raw(), MAIN, mode, &raw mut frames, &raw mut done)
        };
        self.check(code)?;
        let count = |number: c_int| u32::try_from(number).unwrap_or(0);
        Ok(Checkpointed { frames: count(frames), frames_done: count(done) })
    }

    /// A handle with which another thread can interrupt this connection's statements.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        InterruptHandle { handle: Arc::clone(&self.handle) }
    }

    /// True after an interrupt until no statement is active any more: each that runs fails until then.
    pub fn is_interrupted(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_is_interrupted(self.raw()) != 0 }
    }
}

/// Interrupts the running statements of a connection, from any thread.
#[derive(Clone, Debug)]
pub struct InterruptHandle {
    handle: Arc<Handle>,
}

impl InterruptHandle {
    /// Makes the statements that run now fail with `SQLITE_INTERRUPT`.
    pub fn interrupt(&self) {
        if !self.handle.is_inherited() {
            // SAFETY: the connection is open, since the handle keeps it so; any thread may call this.
            unsafe { ffi::sqlite3_interrupt(self.handle.raw()) };
        }
    }
}
