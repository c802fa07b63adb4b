//! The WAL of a file: how long it is, and who reads an older state and so keeps it from being reused. Read from the wal-index and from the
//! kernel's locks; no connection is opened.

use std::{
    collections::HashMap,
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    time::Instant,
};

use manyhands_queue::kernel_locks::{self, FileLock};
use manyhands_sqlite::{WAL_INDEX_TOLD_BYTES, WalIndexHeader, vfs, wal_index_of};

use super::state::{Party, Reader, Wal};
use crate::process::Process;

/// Looks at the WAL of one file again and again.
#[derive(Default)]
pub struct WalLook {
    /// Marks that are held, by number and value: since when, and by whom, once that was asked.
    held: HashMap<(usize, u32), Held>,
}

struct Held {
    since: Instant,
    party: Option<Party>,
}

/// What one look has found.
#[derive(Default)]
pub struct Found {
    pub wal: Wal,
    /// The number of the last commit, by whichever program.
    pub change: Option<u32>,
    /// Who holds SQLite's write lock.
    pub write_lock: Option<FileLock>,
}

/// A file beside the database.
pub fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// The -shm file, with what its beginning says. Its locks are not touched: this process has none there.
fn wal_index(database: &Path) -> Option<(File, WalIndexHeader, [u32; 5], u32)> {
    let file = File::open(beside(database, "-shm")).ok()?;
    let mut bytes = [0; WAL_INDEX_TOLD_BYTES];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let (header, info) = wal_index_of(&bytes)?;
    Some((file, header, info.read_marks, info.backfilled))
}

impl WalLook {
    /// One look. `members` are the processes whose locks have no name; `party` says who one of them is.
    pub fn look(
        &mut self,
        database: &Path,
        members: &[Process],
        party: impl Fn(Process) -> Party,
    ) -> Found {
        let mut found = Found::default();
        found.wal.bytes = fs::metadata(beside(database, "-wal")).map_or(0, |it| it.len());
        let Some((file, header, marks, copied)) = wal_index(database) else { return found };
        let inode = file.metadata().map_or(0, |it| it.ino());
        found.change = Some(header.change);
        found.wal.frames = Some(header.frame_last);
        found.wal.copied = Some(copied);
        let holder = |byte| kernel_locks::holder(&file, byte).ok().flatten();
        found.write_lock = holder(vfs::WRITE_LOCK_BYTE).filter(|it| it.is_exclusive);
        let mut old = Vec::new();
        for (number, mark) in marks.into_iter().enumerate() {
            // Who reads without the WAL has the first, whatever its value: it sees what was copied, and no more is copied while it reads.
            // All ones are not in use.
            let mark = if number == 0 { copied } else { mark };
            let byte = vfs::READ_LOCK_BYTE_FIRST + number as i64;
            if mark < header.frame_last
                && let Some(lock) = holder(byte).filter(|lock| !lock.is_exclusive)
            {
                old.push((number, mark, byte, lock));
            }
        }
        self.held.retain(|known, _| old.iter().any(|it| (it.0, it.1) == *known));
        old.sort_unstable_by_key(|it| it.1);
        for (number, mark, byte, lock) in old {
            let known = self.held.entry((number, mark));
            let is_new = matches!(known, std::collections::hash_map::Entry::Vacant(_));
            let held = known.or_insert_with(|| Held { since: Instant::now(), party: None });
            // Most readers are gone at the next look: these nobody asks for.
            if held.party.is_none() && !is_new {
                held.party = Some(party_of(&lock, inode, byte, members, &party));
            }
            if let Some(party) = &held.party {
                found.wal.readers.push(Reader {
                    party: party.clone(),
                    frames_behind: header.frame_last - mark,
                    age_s: held.since.elapsed().as_secs_f64(),
                });
            }
        }
        found
    }
}

/// Whose lock it is.
pub fn party_of(
    lock: &FileLock,
    inode: u64,
    byte: i64,
    members: &[Process],
    party: impl Fn(Process) -> Party,
) -> Party {
    let by_number = || Process::with_pid(i32::try_from(lock.pid?).ok()?);
    let holds = |process: &&Process| {
        let locks = kernel_locks::of_open_files(process.pid.unsigned_abs(), Some("-shm"));
        locks.iter().any(|lock| lock.is_of_open_file && lock.covers(inode, byte))
    };
    if lock.is_of_open_file {
        return members.iter().find(holds).map(|process| party(*process)).unwrap_or_default();
    }
    match by_number() {
        Some(process) => Party {
            pid: Some(process.pid),
            command: process.command_line(),
            is_stock: true,
            label: String::new(),
        },
        None => Party { is_stock: true, ..Party::default() },
    }
}
