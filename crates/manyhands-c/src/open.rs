//! Opening and closing a connection.
//!
//! A database file is opened by the engine. What is none, or what the engine cannot write for many, is SQLite's alone: databases in
//! memory, temporary ones, a VFS of the program's own, a shared cache, what is immutable or has no locks.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use manyhands::{Connection, Database, Error};

use crate::execute::text16;
use crate::farewell::note_opened;
use crate::ffi;
use crate::handle::Handle;
use crate::options::{Options, is_chosen, parameter, path_of};

/// What makes a file SQLite's alone.
const ALONE: c_int = ffi::SQLITE_OPEN_MEMORY | ffi::SQLITE_OPEN_SHAREDCACHE;

c_api! {
    /// Opens a database for reading and writing, and creates it (<https://sqlite.org/c3ref/open.html>).
    fn sqlite3_open(name: *const c_char, db: *mut *mut ffi::sqlite3) -> c_int {
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
        // SAFETY: the caller has promised it of the same arguments.
        unsafe { sqlite3_open_v2(name, db, flags, ptr::null()) }
    }

    /// The same for a name in UTF-16; a new database has this encoding.
    fn sqlite3_open16(name: *const c_void, db: *mut *mut ffi::sqlite3) -> c_int {
        // SAFETY: the caller has promised a zero-terminated text.
        let Some(text) = (unsafe { text16(name, -1) }) else {
            // SAFETY: the caller has promised it of the same arguments.
            return unsafe { ffi::sqlite3_open16(name, db) };
        };
        let Ok(text) = std::ffi::CString::new(text) else { return ffi::SQLITE_CANTOPEN };
        // SAFETY: a zero-terminated text, and the caller's place for the result.
        let code = unsafe { sqlite3_open(text.as_ptr(), db) };
        if code == ffi::SQLITE_OK {
            let sql = c"PRAGMA encoding = 'UTF-16'".as_ptr();
            // SAFETY: `sqlite3_open` has put an open connection there.
            let db = unsafe { *db };
            // SAFETY: an open connection; it has no effect on a database that exists.
            unsafe { crate::sqlite3_exec(db, sql, None, ptr::null_mut(), ptr::null_mut()) };
        }
        code
    }

    /// Opens a database as `flags` say, with a VFS of this name (<https://sqlite.org/c3ref/open.html>).
    fn sqlite3_open_v2(
        name: *const c_char,
        db: *mut *mut ffi::sqlite3,
        flags: c_int,
        vfs: *const c_char,
    ) -> c_int {
        // SAFETY: the caller has promised it of the same arguments.
        let stock = || unsafe { ffi::sqlite3_open_v2(name, db, flags, vfs) };
        // SAFETY: the caller has promised a zero-terminated text, or null.
        let Some(place) = (unsafe { Place::of(name, flags, vfs) }) else { return stock() };
        if db.is_null() {
            return stock();
        }
        let opened = match place.open() {
            Ok((connection, immediate_as_auto)) => Handle::open(connection, immediate_as_auto),
            Err(failure) => {
                let code = stock();
                if failure.is_told_by_sqlite(code) {
                    return code;
                }
                // SAFETY: `stock` has put a connection there, or null, where SQLite has no memory.
                let opened = unsafe { *db };
                return failure.tell(opened);
            }
        };
        if flags & ffi::SQLITE_OPEN_EXRESCODE != 0 {
            // SAFETY: it was just opened.
            unsafe { crate::sqlite3_extended_result_codes(opened, 1) };
        }
        // SAFETY: not null, as was looked at, and the caller's place for the result.
        unsafe { *db = opened };
        ffi::SQLITE_OK
    }

    /// Closes a connection without open statements (<https://sqlite.org/c3ref/close.html>).
    fn sqlite3_close(db: *mut ffi::sqlite3) -> c_int {
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::of(db) }) else {
            // SAFETY: the caller has promised it.
            return unsafe { ffi::sqlite3_close(db) };
        };
        if handle.is_used() {
            let text = "unable to close due to unfinalized statements or unfinished backups";
            let entered = handle.enter();
            return entered.fail_with(ffi::SQLITE_BUSY, Some(text));
        }
        // SAFETY: nothing of it is open, and the caller does not use it any more.
        unsafe { handle.close() };
        ffi::SQLITE_OK
    }

    /// Closes a connection; if it has open statements, when the last of them goes.
    fn sqlite3_close_v2(db: *mut ffi::sqlite3) -> c_int {
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::of(db) }) else {
            // SAFETY: the caller has promised it.
            return unsafe { ffi::sqlite3_close_v2(db) };
        };
        handle.closes.set(true);
        // SAFETY: the caller does not use the connection any more.
        unsafe { handle.close_if_unused() };
        ffi::SQLITE_OK
    }

    /// Switches extended result codes on or off.
    fn sqlite3_extended_result_codes(db: *mut ffi::sqlite3, on: c_int) -> c_int {
        // SAFETY: the caller has promised null or an open connection.
        if let Some(handle) = unsafe { Handle::entered(db) } {
            handle.extended.set(on != 0);
            let _ = handle.change(false, || ffi::SQLITE_OK);
        }
        // SAFETY: the caller has promised it.
        unsafe { ffi::sqlite3_extended_result_codes(db, on) }
    }
}

impl Handle {
    /// True while statements, blobs or backups of it are open.
    fn is_used(&self) -> bool {
        !self.statements.borrow().is_empty() || self.others.get() > 0
    }

    /// Closes it after `sqlite3_close_v2`, when nothing of it is open any more.
    ///
    /// # Safety
    /// The caller uses neither the handle nor the connection afterwards; and holds the mutex no more.
    pub(crate) unsafe fn close_if_unused(&self) {
        if self.closes.get() && !self.is_used() {
            // SAFETY: nothing of it is open, and the program has closed it.
            unsafe { self.close() };
        }
    }
}

/// A database file that the engine is to open.
struct Place<'a> {
    name: &'a [u8],
    is_uri: bool,
    flags: c_int,
}

/// Why the engine could not open a database.
enum Failure {
    Engine(Error),
    /// An option has no meaning.
    Option(String),
    Panic,
}

impl<'a> Place<'a> {
    /// `None` for what is SQLite's alone.
    ///
    /// # Safety
    /// `name` and `vfs` are zero-terminated texts, or null.
    unsafe fn of(name: *const c_char, flags: c_int, vfs: *const c_char) -> Option<Place<'a>> {
        if name.is_null() || flags & ALONE != 0 || !vfs.is_null() {
            return None;
        }
        // One of the three ways of opening: SQLite tells who says something else.
        if !matches!(flags & 7, 1 | 2 | 6) {
            return None;
        }
        // SAFETY: the caller has promised it.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        // This SQLite takes every such name for a URI, as Linux distributions build it.
        let is_uri = name.starts_with(b"file:");
        let path = if is_uri { path_of(name) } else { name.to_vec() };
        if path.is_empty() || path == b":memory:" {
            return None;
        }
        if is_uri {
            let says = |parameter_name: &[u8], values: &[&str]| {
                parameter(name, parameter_name).is_some_and(|it| values.contains(&it.as_str()))
            };
            let yes = &["1", "yes", "true", "on"];
            if says(b"mode", &["memory"])
                || says(b"cache", &["shared"])
                || says(b"immutable", yes)
                || says(b"nolock", yes)
                || parameter(name, b"vfs").is_some()
            {
                return None;
            }
        }
        let path = Path::new(OsStr::from_bytes(&path));
        // SQLite refuses it.
        let is_refused = flags & ffi::OPEN_NOFOLLOW != 0 && path.is_symlink();
        (!is_refused && !path.is_dir() && is_chosen(path)).then_some(Place { name, is_uri, flags })
    }

    fn open(&self) -> Result<(Connection, bool), Failure> {
        let options = Options::of(self.name, self.is_uri);
        let builder = Database::builder(Path::new(OsStr::from_bytes(self.name)))
            .uri(self.is_uri)
            .create(self.flags & ffi::SQLITE_OPEN_CREATE != 0)
            .read_only(self.flags & ffi::SQLITE_OPEN_READONLY != 0);
        let builder = options.give_to(builder).map_err(Failure::Option)?;
        let immediate_as_auto = options.begins_immediate_as_auto().map_err(Failure::Option)?;
        let opened = std::panic::catch_unwind(|| builder.open().and_then(|it| it.connect()));
        let opened = opened.map_err(|_| Failure::Panic)?;
        let connection = opened.map_err(Failure::Engine)?;
        let path = if self.is_uri { path_of(self.name) } else { self.name.to_vec() };
        note_opened(Path::new(OsStr::from_bytes(&path)));
        Ok((connection, immediate_as_auto))
    }
}

impl Failure {
    /// True when SQLite itself tells what is wrong: at once, with `code`, or when the file is read, as a file that is no database.
    fn is_told_by_sqlite(&self, code: c_int) -> bool {
        let Failure::Engine(error) = self else { return false };
        let of_content =
            [ffi::SQLITE_NOTADB, ffi::SQLITE_CORRUPT, ffi::SQLITE_READONLY, ffi::SQLITE_ERROR];
        let is_of_content = error.code().is_some_and(|it| of_content.contains(&it.primary()));
        code != ffi::SQLITE_OK || is_of_content
    }

    /// Makes it the error of a connection that was opened only to tell it.
    fn tell(&self, db: *mut ffi::sqlite3) -> c_int {
        let (code, text) = match self {
            Failure::Engine(error) => {
                (error.nearest_code().map_or(ffi::SQLITE_CANTOPEN, |it| it.0), error.to_string())
            }
            Failure::Option(text) => (ffi::SQLITE_MISUSE, text.clone()),
            Failure::Panic => (ffi::SQLITE_INTERNAL, "a panic in Manyhands".to_string()),
        };
        if let Ok(text) = std::ffi::CString::new(text)
            && !db.is_null()
        {
            // SAFETY: SQLite has opened it.
            unsafe { ffi::sqlite3_set_errmsg(db, code, text.as_ptr()) };
        }
        code & 0xff
    }
}
