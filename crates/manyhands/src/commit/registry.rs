//! Which database files this process has open.
//!
//! All connections of a process to one file share one [`DatabaseFile`]. When the last of them is
//! closed, and no other process has the database open, the shared part is closed too: SQLite then
//! checkpoints the WAL and removes it, and one plain file is left. While other processes have it open
//! there is nothing to tidy up, and the shared part is *parked*, until the process ends: an application that opens and closes a
//! connection for each piece of work finds it again, and does not join the queue anew each time.

use core::ops::Deref;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, Once};
use std::time::Instant;

use manyhands_sqlite::locks;

use crate::Error;
use crate::commit::file::{DatabaseFile, FileId};
use crate::mutex::lock;

/// How many files stay open without a user: each costs a few descriptors. Fewer where the process may open few.
const PARKED_MAX: usize = 16;

/// The open files, the least recently opened first. A list: a process has few.
static OPEN: Mutex<Vec<Arc<DatabaseFile>>> = Mutex::new(Vec::new());

/// One user's share of a file.
#[derive(Debug)]
pub(crate) struct FileHandle(Arc<DatabaseFile>);

/// How many handles a file has.
pub(crate) type Users = AtomicUsize;

/// The file `id`, made by `make` if this process has not got it open.
pub(crate) fn open(
    id: FileId,
    make: impl FnOnce() -> Result<DatabaseFile, Error>,
) -> Result<FileHandle, Error> {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| locks::at_exit(close_parked));
    // A child of a fork must find the list whole and unlocked.
    let forks = locks::hold_off_forks();
    let mut files = lock(&OPEN);
    let parked = |file: &Arc<DatabaseFile>| file.users.load(Ordering::Relaxed) == 0;
    // A file that a child inherited is not its own, and a file whose sync failed is not used again.
    let is_usable =
        |file: &Arc<DatabaseFile>| file.is_usable() && !(file.id() == id && file.is_lost());
    let (kept, mut gone): (Vec<_>, Vec<_>) = files.drain(..).partition(is_usable);
    *files = kept;
    // A file that was deleted or replaced while nobody used it would be taken for the new one, because of its -shm file.
    for stale in files.extract_if(.., |file| parked(file) && !file.is_in_place()) {
        stale.close();
    }
    let place = files.iter().position(|file| file.id() == id);
    let file = match place {
        Some(place) => files.remove(place),
        None => Arc::new(make()?),
    };
    file.users.fetch_add(1, Ordering::Relaxed);
    files.push(Arc::clone(&file));
    let parked_max = (locks::descriptors_limit() / 64).clamp(1, PARKED_MAX);
    while files.iter().filter(|file| parked(file)).count() > parked_max {
        let Some(oldest) = files.iter().position(parked) else { break };
        gone.push(files.remove(oldest));
    }
    drop(files);
    drop(gone);
    drop(forks);
    Ok(FileHandle(file))
}

/// Closes the files that nobody uses. False when there were none.
pub(crate) fn give_way() -> bool {
    let forks = locks::hold_off_forks();
    let mut files = lock(&OPEN);
    let parked =
        |file: &mut Arc<DatabaseFile>| file.is_usable() && file.users.load(Ordering::Acquire) == 0;
    let gone: Vec<_> = files.extract_if(.., parked).collect();
    gone.iter().for_each(|file| file.close());
    drop(files);
    drop(forks);
    !gone.is_empty()
}

/// At the end of the process nobody parks: the last process of all is the one that tidies up.
extern "C" fn close_parked() {
    // Another thread may be in here, and need not ever come out.
    let Ok(mut files) = OPEN.try_lock() else { return };
    let parked = |file: &Arc<DatabaseFile>| file.users.load(Ordering::Acquire) == 0;
    let (parked, used): (Vec<_>, Vec<_>) =
        files.drain(..).filter(|file| file.is_usable()).partition(parked);
    *files = used;
    drop(files);
    parked.iter().for_each(|file| file.close());
}

/// The file at `path`, if this process has it open.
pub(crate) fn find(path: &Path) -> Option<FileHandle> {
    let looked = Instant::now();
    let found = std::fs::metadata(path).ok()?;
    let id = (found.dev(), found.ino());
    let forks = locks::hold_off_forks();
    let files = lock(&OPEN);
    let file = files.iter().find(|file| file.id() == id && file.is_usable() && !file.is_lost())?;
    file.users.fetch_add(1, Ordering::Relaxed);
    if path == file.path() {
        file.note_in_place(looked);
    }
    let handle = FileHandle(Arc::clone(file));
    drop(files);
    drop(forks);
    Some(handle)
}

impl Clone for FileHandle {
    fn clone(&self) -> FileHandle {
        self.0.users.fetch_add(1, Ordering::Relaxed);
        FileHandle(Arc::clone(&self.0))
    }
}

impl Deref for FileHandle {
    type Target = DatabaseFile;

    fn deref(&self) -> &DatabaseFile {
        &self.0
    }
}

impl Drop for FileHandle {
    fn drop(&mut self) {
        if self.0.users.fetch_sub(1, Ordering::AcqRel) != 1 || self.0.is_inherited() {
            return;
        }
        let forks = locks::hold_off_forks();
        let mut files = lock(&OPEN);
        let used_again = self.0.users.load(Ordering::Acquire) != 0;
        if !used_again && self.0.may_close() {
            let place = files.iter().position(|file| Arc::ptr_eq(file, &self.0));
            let last = place.map(|place| files.remove(place));
            drop(files);
            // Closed while no fork goes on, and nobody opens the file at the same time.
            if let Some(last) = last {
                last.close();
            }
        }
        drop(forks);
    }
}
