//! Copies of live databases (<https://sqlite.org/backup.html>), and databases as bytes.

use core::ffi::{c_int, c_uint};
use core::ptr::NonNull;
use std::ffi::CString;
use std::sync::Arc;

use libsqlite3_sys as ffi;

use crate::handle::Handle;
use crate::{Connection, Error};

/// How a step of a backup ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupStep {
    /// There are pages left.
    More,
    /// All pages are copied, and committed in the target.
    Done,
    /// Nothing was copied: somebody holds a lock (`SQLITE_BUSY`). Try again later.
    Busy,
    /// Nothing was copied: the source's own connection writes (`SQLITE_LOCKED`). Try again later.
    Locked,
}

impl BackupStep {
    /// SQLite's result code.
    pub fn code(self) -> i32 {
        match self {
            BackupStep::More => ffi::SQLITE_OK,
            BackupStep::Done => ffi::SQLITE_DONE,
            BackupStep::Busy => ffi::SQLITE_BUSY,
            BackupStep::Locked => ffi::SQLITE_LOCKED,
        }
    }
}

/// A backup that goes on. It keeps both connections open.
///
/// The target belongs to the backup until it is finished: SQLite's documentation forbids any other use
/// of its connection. What was copied is undone when the backup is dropped before it is done.
#[derive(Debug)]
pub struct Backup {
    raw: Option<NonNull<ffi::sqlite3_backup>>,
    target: Arc<Handle>,
    source: Arc<Handle>,
}

// SAFETY: both connections are in serialized mode: any thread may use the backup, one at a time.
unsafe impl Send for Backup {}

impl Connection {
    /// Begins to copy a database of `source`, with this schema name, over one of this connection.
    ///
    /// # Errors
    /// When there is no such schema, the two connections are one, or the target is in a transaction.
    pub fn begin_backup(
        &self,
        schema: &str,
        source: &Connection,
        source_schema: &str,
    ) -> Result<Backup, Error> {
        let (schema, source_schema) = (c_name(schema)?, c_name(source_schema)?);
        // SAFETY: two open connections and two zero-terminated names.
        let raw = unsafe {
            ffi::sqlite3_backup_init(
                self.raw(),
                schema.as_ptr(),
                source.raw(),
                source_schema.as_ptr(),
            )
        };
        let Some(raw) = NonNull::new(raw) else {
            return Err(self.handle().last_error());
        };
        Ok(Backup { raw: Some(raw), target: self.handle(), source: source.handle() })
    }

    /// The bytes of a database's file, as they would be on the disk.
    ///
    /// # Errors
    /// When there is no such schema, or it cannot be read.
    pub fn serialize(&self, schema: &str) -> Result<Vec<u8>, Error> {
        let name = c_name(schema)?;
        let mut size = 0;
        // SAFETY: a zero-terminated name and a place for the size.
        let bytes = unsafe { ffi::sqlite3_serialize(self.raw(), name.as_ptr(), &raw mut size, 0) };
        if bytes.is_null() {
            let message = format!("unable to serialize '{schema}'");
            return Err(Error { code: crate::Code(ffi::SQLITE_ERROR), message });
        }
        let count = usize::try_from(size).unwrap_or(0);
        // SAFETY: SQLite says that so many bytes lie there.
        let copy = unsafe { core::slice::from_raw_parts(bytes, count) }.to_vec();
        // SAFETY: SQLite's memory, which was given to the caller.
        unsafe { ffi::sqlite3_free(bytes.cast()) };
        Ok(copy)
    }

    /// Puts a database in memory in the place of one, with these bytes as its file's.
    ///
    /// # Errors
    /// When there is no such schema, or it is in use. Bytes that are no database are found out when
    /// they are read.
    pub fn deserialize(&self, schema: &str, bytes: &[u8]) -> Result<(), Error> {
        let name = c_name(schema)?;
        let size = bytes.len() as u64;
        // SAFETY: has no preconditions. None are given for a size of 0.
        let copy = unsafe { ffi::sqlite3_malloc64(size.max(1)) }.cast::<u8>();
        if copy.is_null() {
            return Err(Error::from_code(ffi::SQLITE_NOMEM));
        }
        // SAFETY: there is room for so many bytes, of memory that is new.
        unsafe { copy.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        let flags: c_uint = ffi::SQLITE_DESERIALIZE_FREEONCLOSE as c_uint
            | ffi::SQLITE_DESERIALIZE_RESIZEABLE as c_uint;
        if bytes.get(18..20) == Some(&[2, 2]) {
            // The mark of WAL mode, in which a database in memory cannot be: SQLite says to clear it
            // (https://sqlite.org/c3ref/deserialize.html).
            // SAFETY: `bytes` has so many, and so has its copy.
            let header = unsafe { core::slice::from_raw_parts_mut(copy, 20) };
            header[18..].fill(1);
        }
        let size = size.cast_signed();
        // SAFETY: SQLite owns the memory from here on, also if this fails.
        let code =
            unsafe { ffi::sqlite3_deserialize(self.raw(), name.as_ptr(), copy, size, size, flags) };
        self.check(code)
    }
}

impl Backup {
    /// Copies up to `pages` pages, or all that are left for `None`. When another connection has written
    /// the source since the last step, it begins from the start.
    ///
    /// # Errors
    /// As SQLite fails. The backup cannot go on then.
    pub fn step(&mut self, pages: Option<u32>) -> Result<BackupStep, Error> {
        let Some(raw) = self.raw.filter(|_| !self.is_inherited()) else {
            return Err(Error::misuse("this backup was begun before fork()"));
        };
        let pages = pages.map_or(-1, |it| c_int::try_from(it).unwrap_or(c_int::MAX));
        // SAFETY: the backup goes on.
        match unsafe { ffi::sqlite3_backup_step(raw.as_ptr(), pages) } {
            ffi::SQLITE_OK => Ok(BackupStep::More),
            ffi::SQLITE_DONE => Ok(BackupStep::Done),
            code => match code & 0xFF {
                ffi::SQLITE_BUSY => Ok(BackupStep::Busy),
                ffi::SQLITE_LOCKED => Ok(BackupStep::Locked),
                _ => Err(self.target.error(code)),
            },
        }
    }

    /// Pages that are left, as of the last step.
    pub fn remaining(&self) -> u32 {
        self.raw.map_or(0, |raw| {
            // SAFETY: the backup goes on.
            unsafe { ffi::sqlite3_backup_remaining(raw.as_ptr()) }.unsigned_abs()
        })
    }

    /// Pages of the source, as of the last step.
    pub fn page_count(&self) -> u32 {
        self.raw.map_or(0, |raw| {
            // SAFETY: the backup goes on.
            unsafe { ffi::sqlite3_backup_pagecount(raw.as_ptr()) }.unsigned_abs()
        })
    }

    /// Ends the backup. What was copied is undone if it is not done yet.
    ///
    /// # Errors
    /// As a step has failed before.
    pub fn finish(mut self) -> Result<(), Error> {
        match self.end() {
            ffi::SQLITE_OK => Ok(()),
            code => Err(self.target.error(code)),
        }
    }

    fn is_inherited(&self) -> bool {
        self.target.is_inherited() || self.source.is_inherited()
    }

    fn end(&mut self) -> c_int {
        let inherited = self.is_inherited();
        let Some(raw) = self.raw.take().filter(|_| !inherited) else { return ffi::SQLITE_OK };
        // SAFETY: the backup goes on, and is never used again.
        unsafe { ffi::sqlite3_backup_finish(raw.as_ptr()) }
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        self.end();
    }
}

fn c_name(name: &str) -> Result<CString, Error> {
    CString::new(name).map_err(|_| Error::misuse("a name cannot contain a zero byte"))
}
