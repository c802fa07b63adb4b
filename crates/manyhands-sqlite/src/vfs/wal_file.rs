//! A -wal file: what the shim does with it, and what the engine does to it behind SQLite's back.
//!
//! For what the engine does, its connection must hold the write lock, so that nobody else writes the file. Readers look
//! only at frames that the wal-index covers.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::time::Instant;

use libsqlite3_sys as ffi;

use super::database_file::{DatabaseFile, OpenWal};
use super::mapped_file::View;
use super::real_file::RealFile;
use super::shim::ShimFile;
use super::wal_appends::Appends;
use super::wal_frame::FRAME_HEADER_BYTES;
use crate::Error;
use crate::planted::planted;

/// The smallest page of a database, in bytes.
const PAGE_BYTES_MIN: usize = 512;

/// The database's file, as its -wal file finds it.
pub(super) struct DatabaseLink(NonNull<DatabaseFile>);

impl DatabaseLink {
    /// # Safety
    /// The file is one of the shim's. It stays open, and where it is, for as long as the link lives. The link is used only in
    /// SQLite's calls for the -wal file, under the mutex of the connection that both files are of.
    pub(super) unsafe fn of(database: NonNull<DatabaseFile>) -> DatabaseLink {
        DatabaseLink(database)
    }

    fn get(&mut self) -> &mut DatabaseFile {
        // SAFETY: it is there, as `of` demands. No call for the database's file goes on while there is one for the -wal file,
        // so nobody else has a reference; and this one ends before the link is used again.
        unsafe { self.0.as_mut() }
    }
}

/// A -wal file. What is on its way there its database's file has, which knows of the locks.
#[repr(C)]
pub(super) struct WalFile {
    /// SQLite looks for them in front.
    _methods: &'static ffi::sqlite3_io_methods,
    real: RealFile,
    database: DatabaseLink,
    /// What is read of it without a system call.
    view: View,
}

impl WalFile {
    /// A file that has just been opened.
    pub(super) fn new(
        methods: &'static ffi::sqlite3_io_methods,
        real: RealFile,
        mut database: DatabaseLink,
    ) -> WalFile {
        database.get().wal = Some(OpenWal { real, appends: Appends::default() });
        WalFile { _methods: methods, real, database, view: View::default() }
    }

    /// Reads a page through the mapping, if it can. SQLite reads a page alone when the wal-index tells where it
    /// is; where it looks how far the file goes, it reads headers, and pages with them.
    fn read_mapped(&mut self, bytes: &mut [MaybeUninit<u8>], offset: i64) -> bool {
        let is_page = bytes.len() >= PAGE_BYTES_MIN && bytes.len().is_power_of_two();
        if !is_page {
            return false;
        }
        let limit = self.database.get().view.limit();
        let real = self.real;
        self.view.copy_page(offset, bytes, limit, || real.status())
    }
}

impl Drop for WalFile {
    fn drop(&mut self) {
        let database = self.database.get();
        database.unpublished.forget();
        database.wal = None;
    }
}

impl ShimFile for WalFile {
    fn real(&self) -> RealFile {
        self.real
    }

    fn read(&mut self, bytes: &mut [MaybeUninit<u8>], offset: i64) -> c_int {
        match self.database.get().flush_wal() {
            ffi::SQLITE_OK if self.read_mapped(bytes, offset) => ffi::SQLITE_OK,
            ffi::SQLITE_OK => self.real.read(bytes, offset),
            code => code,
        }
    }

    fn write(&mut self, bytes: &[u8], offset: i64) -> c_int {
        self.database.get().write_wal(bytes, offset)
    }

    fn truncate(&mut self, bytes: i64) -> c_int {
        let database = self.database.get();
        database.view.look_again();
        match database.flush_wal() {
            ffi::SQLITE_OK => self.real.truncate(bytes),
            code => code,
        }
    }

    fn sync(&mut self, flags: c_int) -> c_int {
        self.database.get().sync_wal(flags)
    }

    fn size(&mut self) -> Result<i64, c_int> {
        match self.database.get().flush_wal() {
            ffi::SQLITE_OK => self.real.size(),
            code => Err(code),
        }
    }
}

impl DatabaseFile {
    /// Writes what SQLite has appended to the -wal file, before something else is done with it.
    fn flush_wal(&mut self) -> c_int {
        match &mut self.wal {
            Some(wal) if !planted("gathered-is-overlooked") => wal.appends.flush(&wal.real),
            _ => ffi::SQLITE_OK,
        }
    }

    fn write_wal(&mut self, bytes: &[u8], offset: i64) -> c_int {
        let Some(wal) = self.wal.as_mut().filter(|_| !self.speculation.refuses_write()) else {
            return ffi::SQLITE_IOERR_WRITE;
        };
        let header = <[u8; FRAME_HEADER_BYTES]>::try_from(bytes).ok();
        if let Some(header) = header {
            // The writer, whose connection this is, is the only one to change the counter.
            let live = || self.speculation.status().live;
            let change = || live().map_or(0, |header| header.change);
            self.announcements.header(header, offset, change);
            self.unpublished.note(&header, wal.real, offset);
        }
        let code = wal.appends.write(&wal.real, bytes, offset);
        if code != ffi::SQLITE_OK {
            self.announcements.forget();
            return self.unpublished.write_failed(code, offset, bytes.len() as c_int);
        }
        if header.is_none() {
            self.announcements.page_written();
        }
        code
    }

    fn sync_wal(&mut self, flags: c_int) -> c_int {
        let Some(real) = self.wal.as_ref().map(|wal| wal.real) else { return ffi::SQLITE_OK };
        if planted("no-sync-of-the-wal") {
            return ffi::SQLITE_OK;
        }
        let code = match self.flush_wal() {
            ffi::SQLITE_OK => {
                let began = Instant::now();
                let code = real.sync(flags);
                self.sync_time = Some(began.elapsed());
                code
            }
            code => code,
        };
        if code == ffi::SQLITE_OK {
            self.announcements.synced();
        } else {
            self.announcements.forget();
            // Its caller is told that the outcome is unknown.
            self.unpublished.forget();
        }
        code
    }

    /// Reads the header of the frame that starts at `offset` of the -wal file; `None` when the file ends before it.
    pub(crate) fn wal_frame_header(
        &mut self,
        offset: u64,
    ) -> Result<Option<[u8; FRAME_HEADER_BYTES]>, Error> {
        let Some(real) = self.wal.as_ref().map(|wal| wal.real) else { return Ok(None) };
        let mut header = [MaybeUninit::new(0); FRAME_HEADER_BYTES];
        let code = match self.flush_wal() {
            ffi::SQLITE_OK => real.read(&mut header, offset.cast_signed()),
            code => code,
        };
        match code {
            // SAFETY: written with zeros above.
            ffi::SQLITE_OK => Ok(Some(header.map(|byte| unsafe { byte.assume_init() }))),
            ffi::SQLITE_IOERR_SHORT_READ => Ok(None),
            // What cannot be read may be there.
            code => Err(Error::from_code(code)),
        }
    }

    /// Overwrites the header of that frame with zeros: no recovery finds the frame, nor one behind it.
    pub(crate) fn erase_wal_frame(&mut self, offset: u64) -> Result<(), Error> {
        if self.wal.is_none() {
            return Err(Error::misuse("the connection has no WAL to erase from"));
        }
        let code = match self.write_wal(&[0; FRAME_HEADER_BYTES], offset.cast_signed()) {
            ffi::SQLITE_OK => self.flush_wal(),
            code => code,
        };
        if code == ffi::SQLITE_OK { Ok(()) } else { Err(Error::from_code(code)) }
    }

    /// Syncs the -wal file, if there is one.
    pub(crate) fn sync_wal_now(&mut self) -> Result<(), Error> {
        let code = self.sync_wal(ffi::SQLITE_SYNC_NORMAL);
        if code == ffi::SQLITE_OK { Ok(()) } else { Err(Error::from_code(code)) }
    }
}
