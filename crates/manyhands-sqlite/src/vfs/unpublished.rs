//! A commit frame that is in the -wal file and was not published: of a commit that failed.
//!
//! SQLite writes the frame, syncs, and then enters it into the wal-index, which may have to grow, and that
//! can fail. SQLite then rolls back, and its caller learns that nothing was written. But the frame is in the
//! file, whole, and the next recovery would find it. So it is erased while the write lock is still held,
//! before anybody is told.
//!
//! What always holds: the frame is erased, or the caller is told what it is told when a sync fails, that
//! the outcome is unknown. A failed sync itself is left alone: nobody is told that nothing was written.

use core::ffi::c_int;

use libsqlite3_sys as ffi;

use super::real_file::RealFile;
use super::wal_appends::Target;
use super::wal_frame::{FRAME_HEADER_BYTES, is_commit};
use crate::planted::planted;

/// Where a frame's page begins: a write at it or before it is of the frame itself.
const PAGE_AT: i64 = FRAME_HEADER_BYTES as i64;

/// Of a database file: its commit frame on the way.
#[derive(Debug, Default)]
pub(crate) struct Unpublished(Option<Frame>);

#[derive(Clone, Copy, Debug)]
struct Frame {
    /// The -wal file, which is open: see [`Unpublished::forget`].
    wal: RealFile,
    /// Where in it the frame starts.
    offset: i64,
}

impl Unpublished {
    /// SQLite is about to write a frame's header to the open -wal file `wal`. Of several commit frames the
    /// first counts: where a write may damage its neighbours (`psow=0`), SQLite repeats the frame up to the
    /// end of the sector, and a recovery reads none after one that is not whole.
    pub(crate) fn note(&mut self, header: &[u8; FRAME_HEADER_BYTES], wal: RealFile, offset: i64) {
        self.0 = if is_commit(header) { self.0.or(Some(Frame { wal, offset })) } else { None };
    }

    /// The frame was published; or its sync has failed; or the -wal file is about to be closed.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    /// A write to the -wal file has failed. Returns what SQLite is to be told.
    pub(crate) fn write_failed(&mut self, code: c_int, offset: i64, count: c_int) -> c_int {
        let of_it = |frame: &Frame| match offset - frame.offset {
            // What the file does not reach is no frame for any recovery.
            0..=PAGE_AT => frame.reaches(offset + i64::from(count)),
            // It is whole, and the one that repeats it is not.
            after => after > 0,
        };
        self.0 = self.0.filter(of_it);
        self.take_back(code)
    }

    /// The commit has failed with `code`, while the write lock is held: makes it true that nothing was
    /// written. Returns what SQLite is to be told.
    pub(crate) fn take_back(&mut self, code: c_int) -> c_int {
        let Some(frame) = self.0.take() else { return code };
        if planted("refused-commit-stays") || frame.erase() {
            code
        } else {
            ffi::SQLITE_IOERR_FSYNC
        }
    }
}

impl Frame {
    /// Overwrites its header with zeros, and syncs.
    fn erase(&self) -> bool {
        let written = Target::write(&self.wal, &[0; FRAME_HEADER_BYTES], self.offset);
        written == ffi::SQLITE_OK && self.wal.sync(ffi::SQLITE_SYNC_NORMAL) == ffi::SQLITE_OK
    }

    fn reaches(&self, end: i64) -> bool {
        self.wal.length().is_none_or(|length| length >= end)
    }
}
