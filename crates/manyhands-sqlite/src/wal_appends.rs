//! What SQLite appends to the -wal file, on its way there: written with one system call for each commit.
//!
//! SQLite writes each frame with two calls, one for its header and one for its page, some 2 us each: for a
//! batch of 14 pages that is a sixth of its commit. So frames are gathered until the page of a commit frame has
//! come, then written together. And a file that grows costs twice as much to sync as one that is overwritten,
//! since its length and its blocks must be synced too: so where it must grow, it grows by a whole step, of zeros,
//! and the commits after that overwrite. To a recovery zeros are what the rest of an older WAL is: no frame
//! (<https://sqlite.org/fileformat2.html#the_write_ahead_log>, 4.1: the salt differs).
//!
//! | SQLite does                                      | then                                                        |
//! |--------------------------------------------------|-------------------------------------------------------------|
//! | it appends behind what it last wrote             | gathered; written if it ends a commit, or is a lot          |
//! | it writes somewhere else                         | what was gathered is written, then this, if it is no append |
//! | it reads, syncs, truncates, asks for the length  | what was gathered is written first                          |
//! | it gives the write lock back, or closes          | what was gathered is of no commit, and forgotten            |
//!
//! What always holds: when SQLite has been told that a commit frame is written, it is, and all before it. A write
//! that fails is told at the latest there, before SQLite publishes anything.
//!
//! What can go wrong: there is no room for a step. Then the file grows by what was appended, as ever.

use core::ffi::c_int;

use libsqlite3_sys as ffi;

use crate::planted::planted;
#[cfg(feature = "sync-count")]
use crate::sync_count;
use crate::unpublished::is_commit;
use crate::vfs::FRAME_HEADER_BYTES;

/// So much is gathered at most, in bytes: 32 frames of 4096.
const GATHERED_BYTES_MAX: usize = 128 << 10;

/// A file shorter than this grows by what is appended: most databases are only written a little.
const STEPPING_BYTES_MIN: i64 = 64 << 10;

/// How far a step reaches behind what is appended, in bytes; for a shorter file as far as that is long. The commit
/// that makes it syncs all of it: a longer one would make its caller wait.
const STEP_BYTES_MAX: i64 = 256 << 10;

/// What a step is written of.
static ZEROS: [u8; STEP_BYTES_MAX as usize] = [0; STEP_BYTES_MAX as usize];

/// The real file, as the appends need it.
pub(crate) trait WalFile {
    /// Writes all of `bytes` at `offset`; returns SQLite's code.
    fn write(&self, bytes: &[u8], offset: i64) -> c_int;
    /// How long the file is; `None` when that cannot be had.
    fn length(&self) -> Option<i64>;
}

/// Of a -wal file: what SQLite has appended, and the file does not have yet.
#[derive(Default)]
pub(crate) struct Appends {
    gathered: Vec<u8>,
    /// Where that goes.
    offset: i64,
    /// How far SQLite has written since it took the write lock: what is written before it is no append.
    end: i64,
    /// The last frame's header was that of a commit.
    is_commit: bool,
    /// How long the file was when it was last looked at, or more.
    file_bytes: i64,
}

impl Appends {
    /// SQLite writes `bytes` at `offset`. Returns what it is to be told.
    pub(crate) fn write(&mut self, file: &impl WalFile, bytes: &[u8], offset: i64) -> c_int {
        if offset != self.gathered_end() {
            let code = self.flush(file);
            if code != ffi::SQLITE_OK {
                return code;
            }
        }
        if offset == 0 {
            // The WAL begins anew; and somebody may have cut the file.
            (self.end, self.file_bytes) = (0, 0);
        }
        let is_append = offset >= self.end;
        self.end = self.end.max(offset + bytes.len() as i64);
        if !is_append {
            return file.write(bytes, offset);
        }
        if self.gathered.is_empty() {
            self.offset = offset;
        }
        self.gathered.extend_from_slice(bytes);
        let header = <&[u8; FRAME_HEADER_BYTES]>::try_from(bytes);
        let ends_commit = header.is_err() && self.is_commit && !planted("commit-stays-gathered");
        if let Ok(header) = header {
            self.is_commit = is_commit(header);
            #[cfg(feature = "sync-count")]
            sync_count::note_frame();
        }
        if ends_commit || self.gathered.len() >= GATHERED_BYTES_MAX {
            return self.flush(file);
        }
        ffi::SQLITE_OK
    }

    fn gathered_end(&self) -> i64 {
        self.offset + self.gathered.len() as i64
    }

    /// Writes what was gathered. Returns what SQLite is to be told.
    pub(crate) fn flush(&mut self, file: &impl WalFile) -> c_int {
        if self.gathered.is_empty() {
            return ffi::SQLITE_OK;
        }
        let code = file.write(&self.gathered, self.offset);
        let end = self.gathered_end();
        self.gathered.clear();
        if code == ffi::SQLITE_OK && end > self.file_bytes {
            self.grow(file, end);
        }
        code
    }

    /// The file has just grown to `end`, if it is not longer than it was when it was last looked at.
    fn grow(&mut self, file: &impl WalFile, end: i64) {
        self.file_bytes = file.length().unwrap_or(end);
        let goal = end + end.min(STEP_BYTES_MAX);
        if self.file_bytes > end || end < STEPPING_BYTES_MIN || !may_be_as_long_as(goal) {
            return;
        }
        // Where there is no room for it, there is for what was appended.
        if file.write(&ZEROS[..(goal - end) as usize], end) == ffi::SQLITE_OK {
            self.file_bytes = goal;
        }
    }

    /// The write lock is free, or the file closed: what was gathered is of a transaction that was rolled back.
    pub(crate) fn forget(&mut self) {
        self.gathered.clear();
        self.end = 0;
        self.is_commit = false;
    }
}

/// False for a length at which the system would end the process: `RLIMIT_FSIZE`, getrlimit(2).
fn may_be_as_long_as(bytes: i64) -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    limit.is_none_or(|limit| bytes.cast_unsigned() <= limit)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A file that remembers each write, and is full at a length.
    #[derive(Default)]
    struct Disk {
        bytes: RefCell<Vec<u8>>,
        writes: RefCell<Vec<(i64, usize)>>,
        full_at: Option<usize>,
    }

    impl Disk {
        fn writes(&self) -> Vec<(i64, usize)> {
            self.writes.take()
        }

        fn bytes(&self) -> usize {
            self.bytes.borrow().len()
        }
    }

    impl WalFile for Disk {
        fn write(&self, bytes: &[u8], offset: i64) -> c_int {
            self.writes.borrow_mut().push((offset, bytes.len()));
            let (mut file, offset) = (self.bytes.borrow_mut(), offset as usize);
            let end = offset + bytes.len();
            if self.full_at.is_some_and(|full| end > full) {
                return ffi::SQLITE_FULL;
            }
            let length = file.len().max(end);
            file.resize(length, 0);
            file[offset..end].copy_from_slice(bytes);
            ffi::SQLITE_OK
        }

        fn length(&self) -> Option<i64> {
            Some(self.bytes() as i64)
        }
    }

    const PAGE: usize = 4096;
    const FRAME: i64 = (FRAME_HEADER_BYTES + PAGE) as i64;
    const WRITTEN: c_int = ffi::SQLITE_OK;

    fn place(frame: i64) -> i64 {
        32 + frame * FRAME
    }

    /// The two writes of a frame, and what SQLite is told of each.
    fn write_frame(appends: &mut Appends, disk: &Disk, frame: i64, is_last: bool) -> [c_int; 2] {
        let mut header = [7; FRAME_HEADER_BYTES];
        header[4..8].copy_from_slice(&u32::from(is_last).to_be_bytes());
        let page = [frame as u8; PAGE];
        let at = place(frame);
        let first = appends.write(disk, &header, at);
        [first, appends.write(disk, &page, at + FRAME_HEADER_BYTES as i64)]
    }

    /// SQLite writes three frames with seven calls, the file's header among them: one call of the system.
    #[test]
    fn a_commit_is_one_write() {
        let (mut appends, disk) = (Appends::default(), Disk::default());
        assert_eq!(appends.write(&disk, &[1; 32], 0), WRITTEN);
        for frame in 0..3 {
            assert_eq!(disk.writes(), [], "before frame {frame}");
            assert_eq!(write_frame(&mut appends, &disk, frame, frame == 2), [WRITTEN; 2]);
        }
        assert_eq!(disk.writes(), [(0, 32 + 3 * FRAME as usize)]);
        appends.forget();
        assert_eq!(write_frame(&mut appends, &disk, 3, true), [WRITTEN; 2]);
        assert_eq!(disk.writes(), [(place(3), FRAME as usize)]);
    }

    /// A transaction with a full page cache writes frames before its commit, reads them, overwrites one, and computes
    /// the checksums of all behind it again.
    #[test]
    fn what_is_no_append_is_written_at_once_and_in_order() {
        let (mut appends, disk) = (Appends::default(), Disk::default());
        write_frame(&mut appends, &disk, 5, false);
        write_frame(&mut appends, &disk, 6, false);
        let page_of = |frame| place(frame) + FRAME_HEADER_BYTES as i64;
        assert_eq!(appends.write(&disk, &[9; PAGE], page_of(5)), WRITTEN);
        assert_eq!(disk.writes(), [(place(5), 2 * FRAME as usize), (page_of(5), PAGE)]);
        assert_eq!(disk.bytes.borrow()[page_of(5) as usize], 9);
        write_frame(&mut appends, &disk, 7, true);
        assert_eq!(disk.writes(), [(place(7), FRAME as usize)]);
        let mut header = [7; FRAME_HEADER_BYTES];
        header[7] = 1;
        for frame in 6..8 {
            assert_eq!(appends.write(&disk, &header, place(frame)), WRITTEN);
            assert_eq!(disk.writes(), [(place(frame), FRAME_HEADER_BYTES)]);
        }
    }

    /// A sector that a torn write may damage is filled up with copies of the commit frame, and synced in the middle.
    #[test]
    fn all_that_follows_a_commit_frame_is_written_at_once() {
        let (mut appends, disk) = (Appends::default(), Disk::default());
        for frame in 0..2 {
            assert_eq!(write_frame(&mut appends, &disk, frame, true), [WRITTEN; 2]);
            assert_eq!(disk.writes(), [(place(frame), FRAME as usize)]);
        }
        assert_eq!(appends.write(&disk, &[3; 100], place(2)), WRITTEN);
        assert_eq!(disk.writes(), [(place(2), 100)]);
    }

    /// A large transaction does not gather all of itself.
    #[test]
    fn what_is_gathered_is_bounded() {
        let (mut appends, disk) = (Appends::default(), Disk::default());
        for frame in 0..1000 {
            write_frame(&mut appends, &disk, frame, false);
            assert!(appends.gathered.capacity() <= 2 * GATHERED_BYTES_MAX);
        }
        let behind = |(at, length): (i64, usize)| at + length as i64;
        let written = disk.writes().into_iter().map(behind).max();
        assert!(written >= Some(place(1000) - GATHERED_BYTES_MAX as i64));
    }

    /// A transaction that was rolled back had written into the WAL. The next one begins at the same place.
    #[test]
    fn what_was_rolled_back_is_forgotten() {
        let (mut appends, disk) = (Appends::default(), Disk::default());
        write_frame(&mut appends, &disk, 0, false);
        appends.forget();
        assert_eq!(appends.flush(&disk), WRITTEN);
        assert_eq!(disk.writes(), []);
        write_frame(&mut appends, &disk, 0, true);
        assert_eq!(disk.writes(), [(place(0), FRAME as usize)]);
    }

    /// A short file grows by frames, a longer one by steps, and one that does not grow is not looked at.
    #[test]
    fn a_file_that_grows_does_so_by_steps() {
        let (mut appends, disk) = (Appends::default(), Disk::default());
        let mut lengths = Vec::new();
        for frame in 0..400 {
            appends.forget();
            write_frame(&mut appends, &disk, frame, true);
            lengths.push(disk.bytes() as i64);
            assert!(*lengths.last().expect("one") <= 2 * place(frame + 1));
        }
        lengths.dedup();
        assert_eq!(
            lengths[..15],
            std::array::from_fn::<i64, 15, _>(|frame| place(frame as i64 + 1))
        );
        let steps = &lengths[15..];
        assert!((8..14).contains(&steps.len()), "{steps:?}");
        assert!(steps.windows(2).all(|it| it[1] - it[0] <= STEP_BYTES_MAX + FRAME));
        // It begins anew, and is long enough.
        let before = disk.bytes();
        appends.forget();
        assert_eq!(appends.write(&disk, &[1; 32], 0), WRITTEN);
        for frame in 0..300 {
            write_frame(&mut appends, &disk, frame, true);
        }
        assert_eq!(disk.bytes(), before);
    }

    /// A full disk has room for the frames and not for a step: the commit succeeds. When it has none, SQLite is told
    /// with the commit frame, before it publishes anything.
    #[test]
    fn a_full_disk_fails_the_commit_and_no_step() {
        let full_at = Some(place(20) as usize);
        let (mut appends, disk) = (Appends::default(), Disk { full_at, ..Disk::default() });
        for frame in 0..20 {
            assert_eq!(write_frame(&mut appends, &disk, frame, true), [WRITTEN; 2]);
            appends.forget();
        }
        assert_eq!(disk.bytes(), place(20) as usize);
        assert_eq!(write_frame(&mut appends, &disk, 20, true), [WRITTEN, ffi::SQLITE_FULL]);
    }
}
