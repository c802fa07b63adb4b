//! What the shim does with a file: what SQLite wants of it is done with the real file, unless the kind of file, a
//! database or a -wal file, has another way.
//!
//! The methods are those of `sqlite3_io_methods`, with references where SQLite passes addresses.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;

use super::real_file::RealFile;

/// A file that SQLite uses through the shim.
pub(super) trait ShimFile {
    /// The file itself, which is open.
    fn real(&self) -> RealFile;

    fn read(&mut self, bytes: &mut [MaybeUninit<u8>], offset: i64) -> c_int {
        self.real().read(bytes, offset)
    }

    fn write(&mut self, bytes: &[u8], offset: i64) -> c_int {
        self.real().write(bytes, offset)
    }

    fn truncate(&mut self, bytes: i64) -> c_int {
        self.real().truncate(bytes)
    }

    fn sync(&mut self, flags: c_int) -> c_int {
        self.real().sync(flags)
    }

    fn size(&mut self) -> Result<i64, c_int> {
        self.real().size()
    }

    fn lock(&mut self, level: c_int) -> c_int {
        self.real().lock(level)
    }

    fn unlock(&mut self, level: c_int) -> c_int {
        self.real().unlock(level)
    }

    fn check_reserved_lock(&mut self) -> Result<c_int, c_int> {
        self.real().check_reserved_lock()
    }

    /// # Safety
    /// `argument` is what the operation takes, and for [`CONTROL`](super::database_file::CONTROL) what that demands.
    unsafe fn file_control(&mut self, operation: c_int, argument: *mut c_void) -> c_int {
        // SAFETY: the caller's argument for the operation, as the real file demands it.
        unsafe { self.real().file_control(operation, argument) }
    }

    fn sector_size(&mut self) -> c_int {
        self.real().sector_size()
    }

    fn device_characteristics(&mut self) -> c_int {
        self.real().device_characteristics()
    }

    fn shm_map(&mut self, region: c_int, bytes: c_int, extend: c_int) -> (c_int, *mut c_void) {
        self.real().shm_map(region, bytes, extend)
    }

    fn shm_lock(&mut self, offset: c_int, count: c_int, flags: c_int) -> c_int {
        self.real().shm_lock(offset, count, flags)
    }

    fn shm_barrier(&mut self) {
        self.real().shm_barrier();
    }

    /// # Safety
    /// SQLite does not use any more what [`ShimFile::shm_map`] has given it.
    unsafe fn shm_unmap(&mut self, delete: c_int) -> c_int {
        // SAFETY: SQLite does not use the regions, and the shim uses none of a file that keeps this method.
        unsafe { self.real().shm_unmap(delete) }
    }

    /// Where a part of the file is mapped; null for one that is to be read.
    fn fetch(&mut self, _offset: i64, _count: c_int) -> *mut c_void {
        ptr::null_mut()
    }

    /// SQLite gives all back that it has fetched: others have committed.
    fn unfetch_all(&mut self) {}
}
