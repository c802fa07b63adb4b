//! What reads or writes a database without a statement: checkpoints, blobs, backups, sessions, databases as bytes.
//!
//! Where they write, SQLite takes its own lock, and the connection its turn before that.

use core::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::collections::BTreeMap;
use std::ptr;
use std::sync::Mutex;

use manyhands::driver::ConnectionExt;
use manyhands::{Connection, ValueRef};

use crate::ffi::{self, ChangeFilter, ConflictHandler, Input, TableFilter};
use crate::handle::{Data, Handle};
use crate::per_process::PerProcess;
use crate::planted::planted;

/// The connections of open blobs and backups, which must not be closed before them.
static OPEN: PerProcess<BTreeMap<usize, Vec<usize>>> =
    PerProcess::new([const { Mutex::new(BTreeMap::new()) }; _]);

/// The backups that have begun to write, and hold SQLite's lock.
static WRITING: PerProcess<Vec<usize>> = PerProcess::new([const { Mutex::new(Vec::new()) }; _]);

c_api! {
    /// Copies the WAL into the database (<https://sqlite.org/c3ref/wal_checkpoint_v2.html>).
    fn sqlite3_wal_checkpoint_v2(
        db: *mut ffi::sqlite3,
        schema: *const c_char,
        mode: c_int,
        frames: *mut c_int,
        copied: *mut c_int,
    ) -> c_int {
        // SAFETY: the caller has promised null or an open connection.
        let handle = unsafe { Handle::entered(db) };
        let name = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"].get(mode.unsigned_abs() as usize);
        let handle = handle.filter(|it| !it.is_called_back() && mode >= 0);
        let (Some(handle), Some(name)) = (handle, name) else {
            // SAFETY: the caller has promised what SQLite demands.
            return unsafe { ffi::sqlite3_wal_checkpoint_v2(db, schema, mode, frames, copied) };
        };
        // SAFETY: the caller has promised a zero-terminated text, or null.
        let schema = unsafe { text_of(schema) }.filter(|it| !it.is_empty());
        let done = handle.engine(|it| it.as_own(|it| checkpoint(it, schema.as_deref(), name)));
        let (is_busy, counts) = match done {
            Ok([busy, in_wal, done]) => (busy != 0, [in_wal, done]),
            Err(code) => return code,
        };
        for (place, count) in [frames, copied].into_iter().zip(counts) {
            if !place.is_null() {
                // SAFETY: the caller's place for a count.
                unsafe { *place = count };
            }
        }
        if is_busy { handle.fail_with(ffi::SQLITE_BUSY, None) } else { handle.succeed(ffi::SQLITE_OK) }
    }

    /// A passive checkpoint.
    fn sqlite3_wal_checkpoint(db: *mut ffi::sqlite3, schema: *const c_char) -> c_int {
        let mode = ffi::SQLITE_CHECKPOINT_PASSIVE;
        // SAFETY: the caller has promised what SQLite demands.
        unsafe { sqlite3_wal_checkpoint_v2(db, schema, mode, ptr::null_mut(), ptr::null_mut()) }
    }

    /// After how many frames the program wants a checkpoint: the engine has its own number.
    fn sqlite3_wal_autocheckpoint(db: *mut ffi::sqlite3, frames: c_int) -> c_int {
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::entered(db) }).filter(|it| !it.is_called_back()) else {
            // SAFETY: the caller has promised what SQLite demands.
            return unsafe { ffi::sqlite3_wal_autocheckpoint(db, frames) };
        };
        // SQLite's own hook takes the place of the program's.
        let own = usize::try_from(frames).ok().filter(|it| *it > 0);
        handle.hooks.wal.replace(own.map(|it| Data(ptr::without_provenance_mut(it))));
        let sql = format!("PRAGMA wal_autocheckpoint={frames}");
        let set = handle.engine_quietly(|it| {
            it.set_wal_hook(None::<fn(u32) -> i32>)?;
            it.as_own(|it| it.execute(&sql, ()))
        });
        set.map_or_else(|code| code, |_| ffi::SQLITE_OK)
    }

    /// Opens a BLOB to read or write parts of it (<https://sqlite.org/c3ref/blob_open.html>).
    fn sqlite3_blob_open(
        db: *mut ffi::sqlite3,
        schema: *const c_char,
        table: *const c_char,
        column: *const c_char,
        rowid: i64,
        flags: c_int,
        blob: *mut *mut ffi::sqlite3_blob,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let open = || unsafe { ffi::sqlite3_blob_open(db, schema, table, column, rowid, flags, blob) };
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::entered(db) }) else { return open() };
        // What is not there needs no turn, nor does what is not in a file that others write.
        // SAFETY: the caller has promised a zero-terminated text, or null.
        let is_temporary =
            unsafe { text_of(schema) }.is_some_and(|it| it.eq_ignore_ascii_case("temp"));
        let none = ptr::null_mut();
        // SAFETY: the caller has promised zero-terminated texts, or null.
        let is_there = || unsafe {
            ffi::sqlite3_table_column_metadata(
                db,
                schema,
                table,
                column,
                ptr::null_mut(),
                ptr::null_mut(),
                none,
                none,
                none,
            )
        };
        let writes = flags != 0 && !is_temporary && handle.nested(is_there) == ffi::SQLITE_OK;
        let code = handle.touch(writes, open);
        if code == ffi::SQLITE_OK {
            // SAFETY: SQLite has put the blob there.
            let opened = unsafe { *blob };
            note_open(opened as usize, &[db]);
        }
        code
    }

    /// Closes a BLOB.
    fn sqlite3_blob_close(blob: *mut ffi::sqlite3_blob) -> c_int {
        // SAFETY: the caller has promised null or an open blob.
        let close = || unsafe { ffi::sqlite3_blob_close(blob) };
        // SAFETY: its connection is open as long as it is.
        unsafe { end_open(blob as usize, close) }
    }

    /// Begins to copy a database into another one (<https://sqlite.org/c3ref/backup_finish.html>).
    fn sqlite3_backup_init(
        to: *mut ffi::sqlite3,
        to_schema: *const c_char,
        from: *mut ffi::sqlite3,
        from_schema: *const c_char,
    ) -> *mut ffi::sqlite3_backup {
        // SAFETY: the caller has promised what SQLite demands.
        let begin = || unsafe { ffi::sqlite3_backup_init(to, to_schema, from, from_schema) };
        // SAFETY: the caller has promised null or an open connection.
        let source = unsafe { Handle::entered(from) };
        let backup = match source {
            Some(source) if !source.is_called_back() => {
                source.engine(|it| it.read_alone(begin)).unwrap_or(ptr::null_mut())
            }
            _ => begin(),
        };
        if !backup.is_null() {
            note_open(backup as usize, &[to, from]);
        }
        backup
    }

    /// Copies so many pages, or all that are left of a negative number.
    fn sqlite3_backup_step(backup: *mut ffi::sqlite3_backup, pages: c_int) -> c_int {
        // SAFETY: the caller has promised an open backup.
        let step = || unsafe { ffi::sqlite3_backup_step(backup, pages) };
        let to = OPEN.lock().get(&(backup as usize)).and_then(|it| it.first().copied());
        let is_writing = WRITING.lock().contains(&(backup as usize));
        let to: *mut ffi::sqlite3 = to.map_or(ptr::null_mut(), |it| it as *mut ffi::sqlite3);
        // SAFETY: the target is open as long as the backup is.
        let target = unsafe { Handle::entered(to) };
        let Some(target) = target.filter(|it| !it.is_called_back() && !is_writing) else { return step() };
        let code = target.engine(|it| it.overwrite_in_turn(step)).unwrap_or_else(|code| code);
        if matches!(code, ffi::SQLITE_OK | ffi::SQLITE_DONE) {
            WRITING.lock().push(backup as usize);
        }
        code
    }

    /// Ends a backup.
    fn sqlite3_backup_finish(backup: *mut ffi::sqlite3_backup) -> c_int {
        WRITING.lock().retain(|it| *it != backup as usize);
        // SAFETY: the caller has promised null or an open backup.
        let finish = || unsafe { ffi::sqlite3_backup_finish(backup) };
        // SAFETY: its connections are open as long as it is.
        unsafe { end_open(backup as usize, finish) }
    }

    /// The bytes of a database's file.
    fn sqlite3_serialize(
        db: *mut ffi::sqlite3,
        schema: *const c_char,
        bytes: *mut i64,
        flags: c_uint,
    ) -> *mut c_uchar {
        // SAFETY: the caller has promised what SQLite demands.
        let read = || unsafe { ffi::sqlite3_serialize(db, schema, bytes, flags) };
        // SAFETY: the caller has promised null or an open connection.
        match (unsafe { Handle::entered(db) }).filter(|it| !it.is_called_back()) {
            Some(handle) => handle.engine(|it| it.read_alone(read)).unwrap_or(ptr::null_mut()),
            None => read(),
        }
    }

    /// Puts a database in memory in the place of one of the connection's.
    fn sqlite3_deserialize(
        db: *mut ffi::sqlite3,
        schema: *const c_char,
        bytes: *mut c_uchar,
        size: i64,
        room: i64,
        flags: c_uint,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let replace = || unsafe { ffi::sqlite3_deserialize(db, schema, bytes, size, room, flags) };
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::entered(db) }).filter(|it| !it.is_called_back()) else {
            return replace();
        };
        // SAFETY: the caller has promised a zero-terminated text, or null.
        let name = unsafe { text_of(schema) }.unwrap_or_else(|| "main".to_string());
        handle.engine(|it| it.replace_database(&name, replace)).unwrap_or_else(|code| code)
    }

    /// Begins to record the changes of a connection, which executes its writes itself from then on.
    fn sqlite3session_create(
        db: *mut ffi::sqlite3,
        schema: *const c_char,
        session: *mut *mut c_void,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let create = || unsafe { ffi::sqlite3session_create(db, schema, session) };
        // SAFETY: the caller has promised null or an open connection.
        match (unsafe { Handle::entered(db) }).filter(|it| !it.is_called_back()) {
            Some(handle) => handle.engine(|it| it.hear_changes(create)).unwrap_or_else(|code| code),
            None => create(),
        }
    }
}

/// Functions that write what a changeset says.
macro_rules! changesets {
    ($($name:ident($($arg:ident: $ty:ty),*);)*) => {
        c_api! {$(
            /// Writes the changes of a changeset (<https://sqlite.org/session/sqlite3changeset_apply.html>).
            fn $name(db: *mut ffi::sqlite3, $($arg: $ty),*) -> c_int {
                // SAFETY: the caller has promised what SQLite demands.
                let apply = || unsafe { ffi::$name(db, $($arg),*) };
                // SAFETY: the caller has promised null or an open connection.
                match unsafe { Handle::entered(db) } {
                    Some(handle) => handle.touch(true, apply),
                    None => apply(),
                }
            }
        )*}
    };
}

changesets! {
    sqlite3changeset_apply(bytes: c_int, changeset: *mut c_void, filter: TableFilter, conflict: ConflictHandler,
        data: *mut c_void);
    sqlite3changeset_apply_v2(bytes: c_int, changeset: *mut c_void, filter: TableFilter, conflict: ConflictHandler,
        data: *mut c_void, rebase: *mut *mut c_void, rebase_bytes: *mut c_int, flags: c_int);
    sqlite3changeset_apply_v3(bytes: c_int, changeset: *mut c_void, filter: ChangeFilter, conflict: ConflictHandler,
        data: *mut c_void, rebase: *mut *mut c_void, rebase_bytes: *mut c_int, flags: c_int);
    sqlite3changeset_apply_strm(input: Input, from: *mut c_void, filter: TableFilter, conflict: ConflictHandler,
        data: *mut c_void);
    sqlite3changeset_apply_v2_strm(input: Input, from: *mut c_void, filter: TableFilter, conflict: ConflictHandler,
        data: *mut c_void, rebase: *mut *mut c_void, rebase_bytes: *mut c_int, flags: c_int);
    sqlite3changeset_apply_v3_strm(input: Input, from: *mut c_void, filter: ChangeFilter, conflict: ConflictHandler,
        data: *mut c_void, rebase: *mut *mut c_void, rebase_bytes: *mut c_int, flags: c_int);
}

impl Handle {
    /// Calls SQLite for something that reads, or writes, without a statement.
    fn touch(&self, writes: bool, work: impl FnOnce() -> c_int) -> c_int {
        if self.is_called_back() {
            return work();
        }
        let done = if writes {
            self.engine(|it| it.work_in_turn(work))
        } else {
            self.engine(|it| it.read_alone(work))
        };
        done.unwrap_or_else(|code| code)
    }
}

/// Whether others were in the way, the frames in the WAL, and those of them that are in the database.
fn checkpoint(
    connection: &mut Connection,
    schema: Option<&str>,
    mode: &str,
) -> Result<[c_int; 3], manyhands::Error> {
    let schema = schema.map(|it| format!("\"{}\".", it.replace('"', "\"\""))).unwrap_or_default();
    let sql = format!("PRAGMA {schema}wal_checkpoint({mode})");
    let counts = |row: &manyhands::RowView<'_>| {
        let count = |column| match row.value(column) {
            ValueRef::Integer(count) => c_int::try_from(count).unwrap_or(-1),
            _ => -1,
        };
        Ok([0, 1, 2].map(count))
    };
    connection.query_row(&sql, (), counts)
}

/// Notes that something of these connections is open: they are not closed before it.
fn note_open(what: usize, connections: &[*mut ffi::sqlite3]) {
    OPEN.lock().insert(what, connections.iter().map(|it| *it as usize).collect());
    for &db in connections {
        // SAFETY: an open connection.
        if let Some(handle) = unsafe { Handle::of(db) } {
            handle.others.set(handle.others.get() + 1);
        }
    }
}

/// Closes something that was open.
///
/// # Safety
/// Its connections are open.
unsafe fn end_open(what: usize, close: impl FnOnce() -> c_int) -> c_int {
    let own = OPEN.lock().remove(&what);
    let inherited = || OPEN.find_inherited(|open| open.get(&what).cloned());
    let (connections, is_own) = match own {
        Some(connections) => (connections, true),
        None => inherited()
            .filter(|_| !planted("c-child-ends-reads"))
            .map_or_else(|| (Vec::new(), true), |connections| (connections, false)),
    };
    let mut code = None;
    // A parent's stays as it is.
    let mut close = is_own.then_some(close);
    if let Some(&first) = connections.first() {
        // SAFETY: the caller has promised it.
        if let Some(handle) = unsafe { Handle::entered(first as *mut ffi::sqlite3) } {
            code = close.take().map(|close| handle.nested(close));
        }
    }
    let code = close.map(|close| close()).or(code).unwrap_or(ffi::SQLITE_OK);
    for db in connections {
        // SAFETY: the caller has promised it.
        if let Some(handle) = unsafe { Handle::of(db as *mut ffi::sqlite3) } {
            handle.others.set(handle.others.get().saturating_sub(1));
            // SAFETY: nothing else is done with it here.
            unsafe { handle.close_if_unused() };
        }
    }
    code
}

/// # Safety
/// `text` is null or zero-terminated.
unsafe fn text_of(text: *const c_char) -> Option<String> {
    // SAFETY: the caller has promised it.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
