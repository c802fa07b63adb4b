//! What SQLite appends to the -wal file, on its way there: written with one system call for each commit.
//!
//! SQLite writes each frame with two calls, one for its header and one for its page, some 2 us each: for a
//! batch of 14 pages that is a sixth of its commit. So frames are gathered until the page of a commit frame has
//! come, then written together. And a file that grows costs twice as much to sync as one that is overwritten,
//! since its length and its blocks must be synced too: so where it must grow, it grows by a whole step, of zeros,
//! and the commits after that overwrite. To a recovery zeros are what the rest of an older WAL is: no frame
//! (<https://sqlite.org/fileformat2.html#the_write_ahead_log>, 4.1: the salt differs).
//!
//! | state     | of a write                                   | ways out                                            |
//! |-----------|----------------------------------------------|-----------------------------------------------------|
//! | through   | goes to the file                             | gathering (the write lock is taken)                 |
//! | gathering | is kept, if it follows what was written last | through (a commit frame is written; SQLite writes somewhere else, reads, syncs or truncates), failed |
//! | failed    | fails, as all else that SQLite does with it  | through (the write lock is given back)              |
//!
//! So a transaction is gathered that writes its frames one after the other, and commits: others, whose pages have no
//! room in the cache, fill a sector up, or overwrite what they have written, are written as SQLite does it. So are all
//! where the lock is not taken through the shim: in exclusive mode, where nobody would say that a transaction is over.
//!
//! What always holds: when SQLite has been told that a commit frame is written, it is, and all before it. What is kept
//! otherwise is of no commit, and forgotten with the lock. A write that fails is told as a write that fails, after which
//! SQLite rolls the transaction back; or, where SQLite is doing something else, it fails everything until then.
//!
//! What can go wrong: there is no room for a step. Then the file grows by what was appended, as ever.

use core::ffi::c_int;

use libsqlite3_sys as ffi;

use super::wal_frame::{FRAME_HEADER_BYTES, is_commit};
use crate::planted::planted;
#[cfg(feature = "sync-count")]
use crate::sync_count;

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
pub(crate) trait Target {
    /// Writes all of `bytes` at `offset`; returns SQLite's code.
    fn write(&self, bytes: &[u8], offset: i64) -> c_int;
    /// How long the file is; `None` when that cannot be had.
    fn length(&self) -> Option<i64>;
}

/// What becomes of a write: see the table above.
#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    Through,
    Gathering,
    Failed(c_int),
}

/// Of a -wal file: what SQLite has appended, and the file does not have yet.
#[derive(Default)]
pub(crate) struct Appends {
    state: State,
    gathered: Vec<u8>,
    /// Where the next append goes; `None` before the first since the write lock was taken.
    end: Option<i64>,
    /// While it gathers: the last frame's header was that of a commit.
    is_commit: bool,
    /// How long the file was when it was last looked at, or more.
    file_bytes: i64,
}

impl Appends {
    /// SQLite takes the write lock, or gives it back: what was kept is of a transaction that was rolled back.
    pub(crate) fn begin(&mut self, is_locked: bool) {
        self.state = if is_locked { State::Gathering } else { State::Through };
        self.gathered.clear();
        self.end = None;
        self.is_commit = false;
    }

    /// SQLite writes `bytes` at `offset`. Returns what it is to be told.
    pub(crate) fn write(&mut self, file: &impl Target, bytes: &[u8], offset: i64) -> c_int {
        match self.state {
            State::Gathering if self.end.is_none_or(|end| end == offset) => {
                self.append(file, bytes, offset)
            }
            State::Gathering => match self.end_gathering(file) {
                ffi::SQLITE_OK => file.write(bytes, offset),
                code => code,
            },
            State::Through => file.write(bytes, offset),
            State::Failed(code) => code,
        }
    }

    fn append(&mut self, file: &impl Target, bytes: &[u8], offset: i64) -> c_int {
        if offset == 0 {
            // The WAL begins anew: somebody may have cut the file.
            self.file_bytes = 0;
        }
        self.gathered.extend_from_slice(bytes);
        self.end = Some(offset + bytes.len() as i64);
        let header = <&[u8; FRAME_HEADER_BYTES]>::try_from(bytes);
        let ends_commit = header.is_err() && self.is_commit && !planted("commit-stays-gathered");
        if let Ok(header) = header {
            self.is_commit = is_commit(header);
            #[cfg(feature = "sync-count")]
            sync_count::note_frame();
        }
        if ends_commit {
            return self.end_gathering(file);
        }
        if self.gathered.len() >= GATHERED_BYTES_MAX {
            return self.write_gathered(file);
        }
        ffi::SQLITE_OK
    }

    /// SQLite does something else with the file than to write. Returns what it is to be told, if that is an error.
    ///
    /// It may take the error for one of the statement that reads, and commit what was written before: so it stays.
    pub(crate) fn flush(&mut self, file: &impl Target) -> c_int {
        let code = match self.state {
            State::Failed(code) => code,
            _ if self.gathered.is_empty() => return ffi::SQLITE_OK,
            _ => self.end_gathering(file),
        };
        if code != ffi::SQLITE_OK {
            self.state = State::Failed(code);
        }
        code
    }

    fn end_gathering(&mut self, file: &impl Target) -> c_int {
        self.state = State::Through;
        self.write_gathered(file)
    }

    fn write_gathered(&mut self, file: &impl Target) -> c_int {
        let Some(end) = self.end.filter(|_| !self.gathered.is_empty()) else {
            return ffi::SQLITE_OK;
        };
        let code = file.write(&self.gathered, end - self.gathered.len() as i64);
        self.gathered.clear();
        if code == ffi::SQLITE_OK && end > self.file_bytes {
            self.grow(file, end);
        }
        code
    }

    /// The file has just grown to `end`, if it is not longer than it was when it was last looked at.
    fn grow(&mut self, file: &impl Target, end: i64) {
        // To ask for the length costs a system call; and after it, some file systems date the next write exactly, and
        // that date is synced too.
        if end < STEPPING_BYTES_MIN {
            return;
        }
        self.file_bytes = file.length().unwrap_or(end);
        let goal = end + end.min(STEP_BYTES_MAX);
        if self.file_bytes > end || !may_be_as_long_as(goal) {
            return;
        }
        // Where there is no room for it, there is for what was appended.
        if file.write(&ZEROS[..(goal - end) as usize], end) == ffi::SQLITE_OK {
            self.file_bytes = goal;
        }
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

    impl Target for Disk {
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

    /// A file, and a transaction that has just taken the write lock.
    fn stage() -> (Appends, Disk) {
        let mut appends = Appends::default();
        appends.begin(true);
        (appends, Disk::default())
    }

    fn page_of(frame: i64) -> i64 {
        place(frame) + FRAME_HEADER_BYTES as i64
    }

    /// SQLite writes three frames with seven calls, the file's header among them: one call of the system.
    #[test]
    fn a_commit_is_one_write() {
        let (mut appends, disk) = stage();
        assert_eq!(appends.write(&disk, &[1; 32], 0), WRITTEN);
        for frame in 0..3 {
            assert_eq!(disk.writes(), [], "before frame {frame}");
            assert_eq!(write_frame(&mut appends, &disk, frame, frame == 2), [WRITTEN; 2]);
        }
        assert_eq!(disk.writes(), [(0, 32 + 3 * FRAME as usize)]);
        appends.begin(false);
        appends.begin(true);
        assert_eq!(write_frame(&mut appends, &disk, 3, true), [WRITTEN; 2]);
        assert_eq!(disk.writes(), [(place(3), FRAME as usize)]);
    }

    /// A transaction with a full page cache writes frames before its commit, overwrites one, and computes the checksums
    /// of all behind it again.
    #[test]
    fn from_the_first_that_is_no_append_on_all_is_written_at_once() {
        let (mut appends, disk) = stage();
        write_frame(&mut appends, &disk, 5, false);
        write_frame(&mut appends, &disk, 6, false);
        assert_eq!(appends.write(&disk, &[9; PAGE], page_of(5)), WRITTEN);
        assert_eq!(disk.writes(), [(place(5), 2 * FRAME as usize), (page_of(5), PAGE)]);
        assert_eq!(disk.bytes.borrow()[page_of(5) as usize], 9);
        write_frame(&mut appends, &disk, 7, true);
        assert_eq!(disk.writes(), [(place(7), FRAME_HEADER_BYTES), (page_of(7), PAGE)]);
    }

    /// The same of one that reads what it has written.
    #[test]
    fn what_is_read_was_written_before() {
        let (mut appends, disk) = stage();
        write_frame(&mut appends, &disk, 5, false);
        assert_eq!(appends.flush(&disk), WRITTEN);
        assert_eq!(disk.writes(), [(place(5), FRAME as usize)]);
        write_frame(&mut appends, &disk, 6, true);
        assert_eq!(disk.writes(), [(place(6), FRAME_HEADER_BYTES), (page_of(6), PAGE)]);
    }

    /// A sector that a torn write may damage is filled up with copies of the commit frame, the last of which is written in
    /// two pieces: one may be as long as a header.
    #[test]
    fn all_that_follows_a_commit_frame_is_written_at_once() {
        let (mut appends, disk) = stage();
        assert_eq!(write_frame(&mut appends, &disk, 0, true), [WRITTEN; 2]);
        assert_eq!(disk.writes(), [(place(0), FRAME as usize)]);
        for (at, bytes) in [(0, FRAME_HEADER_BYTES), (24, PAGE - FRAME_HEADER_BYTES), (4096, 24)] {
            assert_eq!(appends.write(&disk, &vec![0; bytes], place(1) + at), WRITTEN);
            assert_eq!(disk.writes(), [(place(1) + at, bytes)]);
        }
    }

    /// In exclusive mode SQLite takes no lock, and nobody says that a transaction was rolled back.
    #[test]
    fn without_the_lock_all_is_written_at_once() {
        let (mut appends, disk) = stage();
        appends.begin(false);
        write_frame(&mut appends, &disk, 0, false);
        assert_eq!(disk.writes(), [(place(0), FRAME_HEADER_BYTES), (page_of(0), PAGE)]);
    }

    /// A large transaction does not gather all of itself.
    #[test]
    fn what_is_gathered_is_bounded() {
        let (mut appends, disk) = stage();
        for frame in 0..1000 {
            write_frame(&mut appends, &disk, frame, false);
            assert!(appends.gathered.capacity() <= 2 * GATHERED_BYTES_MAX);
        }
        let writes = disk.writes();
        let last = writes.last().map(|&(at, length)| at + length as i64);
        assert!(last >= Some(place(1000) - GATHERED_BYTES_MAX as i64));
        assert!(writes.len() < 60, "of 32 frames each, and steps");
    }

    /// A transaction that was rolled back had written into the WAL. The next one begins at the same place.
    #[test]
    fn what_was_rolled_back_is_forgotten() {
        let (mut appends, disk) = stage();
        write_frame(&mut appends, &disk, 0, false);
        appends.begin(false);
        assert_eq!(appends.flush(&disk), WRITTEN);
        appends.begin(true);
        assert_eq!(disk.writes(), []);
        write_frame(&mut appends, &disk, 0, true);
        assert_eq!(disk.writes(), [(place(0), FRAME as usize)]);
    }

    /// A short file grows by frames, a longer one by steps, and one that does not grow is not looked at.
    #[test]
    fn a_file_that_grows_does_so_by_steps() {
        let (mut appends, disk) = stage();
        let mut lengths = Vec::new();
        for frame in 0..400 {
            appends.begin(true);
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
        appends.begin(true);
        assert_eq!(appends.write(&disk, &[1; 32], 0), WRITTEN);
        for frame in 0..300 {
            write_frame(&mut appends, &disk, frame, true);
            appends.begin(true);
        }
        assert_eq!(disk.bytes(), before);
    }

    /// A full disk has room for the frames and not for a step: the commit succeeds. When it has none, SQLite is told
    /// with the commit frame, before it publishes anything.
    #[test]
    fn a_full_disk_fails_the_commit_and_no_step() {
        let (mut appends, mut disk) = stage();
        disk.full_at = Some(place(20) as usize);
        for frame in 0..20 {
            assert_eq!(write_frame(&mut appends, &disk, frame, true), [WRITTEN; 2]);
            appends.begin(true);
        }
        assert_eq!(disk.bytes(), place(20) as usize);
        assert_eq!(write_frame(&mut appends, &disk, 20, true), [WRITTEN, ffi::SQLITE_FULL]);
    }

    /// SQLite was told that frames are written; then it reads one, and the disk is full. It may roll that statement back
    /// alone, and commit the rest, when there is room again.
    #[test]
    fn what_has_failed_fails_until_the_transaction_ends() {
        let (mut appends, mut disk) = stage();
        write_frame(&mut appends, &disk, 5, false);
        disk.full_at = Some(0);
        assert_eq!(appends.flush(&disk), ffi::SQLITE_FULL);
        disk.full_at = None;
        assert_eq!(appends.flush(&disk), ffi::SQLITE_FULL);
        assert_eq!(write_frame(&mut appends, &disk, 6, true), [ffi::SQLITE_FULL; 2]);
        appends.begin(false);
        assert_eq!(appends.flush(&disk), WRITTEN);
        appends.begin(true);
        assert_eq!(write_frame(&mut appends, &disk, 5, true), [WRITTEN; 2]);
    }
}
