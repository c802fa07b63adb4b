//! Which descriptors of managed files exist, which are live, and which one is canonical.
//!
//! Two structures:
//! - `Table`, under one mutex: taken when SQLite opens or closes a file, never for a lock.
//! - `CANONICAL`, one word per descriptor number, read without any mutex by each lock call.
//!
//! | word of `CANONICAL`   | meaning                  | set by (all under the mutex)                   |
//! |-----------------------|--------------------------|------------------------------------------------|
//! | 0                     | unmanaged: pass through  | `forget`, `forget_all`, before any real close  |
//! | a descriptor number   | managed: lock on that    | `set_live`, when SQLite gets the descriptor    |
//!
//! A lock call needs no mutex: while it runs, its descriptor is live, so its file's canonical
//! descriptor neither changes nor closes. Which thread may use a descriptor is SQLite's affair, and
//! its own mutexes hand the word over with it.
//!
//! The canonical descriptor is a second open of the file, which SQLite never gets: SQLite maps the
//! -shm file into memory, a forked child inherits the mapping, a mapping keeps its open file
//! description alive, and an OFD lock lives as long as that. It is opened through /proc, which must
//! be mounted, for writing if the kernel lets us, since a write lock needs that. If not (read-only
//! media, permissions), locks cannot move to another descriptor in one step, so as long as the file
//! is live, an open for writing is refused as for lack of permission; SQLite then opens it for
//! reading.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::c_int;

use super::managed_file::{
    FileIdentity, identity_of, is_deleted, is_regular, may_access, may_be_managed, names,
    status_of_descriptor, status_of_path,
};
use super::record_lock::{self, ByteRange, Conflict};
use super::system_calls::{raw_close, raw_open};
use crate::planted::planted;

/// Descriptor numbers below this can be managed: the kernel's own default bound (`fs.nr_open`). The
/// words above the highest descriptor in use are never touched and cost address space only.
const DESCRIPTORS_MAX: usize = 1 << 20;

/// More parked descriptors than this are looked through for some to close: a quarter of the usual
/// limit of 1,024 open files, and enough for 128 databases whose users come and go.
const PARKED_LIMIT: usize = 256;

/// No descriptor.
const NONE: RawFd = -1;

/// 0 to 2 belong to the standard streams; SQLite closes what it gets there and asks again.
const DESCRIPTOR_MIN: RawFd = 3;

static CANONICAL: [AtomicI32; DESCRIPTORS_MAX] = [const { AtomicI32::new(0) }; DESCRIPTORS_MAX];

static TABLE: Mutex<Table> = Mutex::new(Table::EMPTY);

/// The descriptor on which `descriptor`'s locks are held, or `None` for an unmanaged one. One
/// load of a word that changes only when SQLite opens or closes a file.
pub(super) fn canonical(descriptor: RawFd) -> Option<RawFd> {
    let word = CANONICAL.get(usize::try_from(descriptor).ok()?)?.load(Ordering::Acquire);
    (word != 0).then_some(word)
}

pub(super) fn lock() -> MutexGuard<'static, Table> {
    // A panic under this mutex has crossed `extern "C"` and ended the process; only a test can see
    // the poison.
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens as SQLite asks, or hands out a parked descriptor of the same file with the same access.
pub(super) fn open(path: &CStr, flags: c_int, mode: u32) -> io::Result<RawFd> {
    let status = status_of_path(path, flags);
    if !may_be_managed(path, flags, status.as_ref()) {
        return raw_open(path, flags, mode);
    }
    // The mutex is held over the open: a fork in between would give the child a descriptor that
    // nobody knows.
    let mut table = lock();
    let access = flags & libc::O_ACCMODE;
    if let Some(status) = &status
        && may_access(path, access)
        && let Some(result) = table.reuse(FileIdentity::of(status), access)
    {
        return result;
    }
    table.close_deleted();
    occupy_standard_streams();
    let descriptor = raw_open(path, flags, mode)?;
    table.adopt(descriptor, access)
}

/// Parks a managed descriptor; closes any other.
pub(super) fn close(descriptor: RawFd) -> io::Result<()> {
    if canonical(descriptor).is_none() {
        return raw_close(descriptor);
    }
    lock().park(descriptor)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// SQLite has it open.
    Live,
    /// SQLite closed it, or was refused it; it waits for the next open with the same access.
    Parked,
    /// Carries the locks of its file.
    Canonical,
}

#[derive(Clone, Copy, Debug)]
struct Descriptor {
    file: FileIdentity,
    /// `O_RDONLY` or `O_RDWR`.
    access: c_int,
    role: Role,
}

#[derive(Debug)]
struct ManagedFile {
    /// All of them, the canonical one included.
    descriptors: Vec<RawFd>,
    live_count: usize,
    /// Constant while `live_count` > 0.
    canonical: RawFd,
}

#[derive(Debug)]
pub(super) struct Table {
    files: BTreeMap<FileIdentity, ManagedFile>,
    descriptors: BTreeMap<RawFd, Descriptor>,
    /// Descriptors with the role `Live`, and files with at least one of them.
    live_count: usize,
    live_files: usize,
    /// Sweep when more are parked: `PARKED_LIMIT`, or twice what the last sweep had to keep, so
    /// that its cost is shared by as many closes.
    parked_limit: usize,
}

impl Table {
    const EMPTY: Self = Self {
        files: BTreeMap::new(),
        descriptors: BTreeMap::new(),
        live_count: 0,
        live_files: 0,
        parked_limit: PARKED_LIMIT,
    };

    /// Neither live nor the canonical descriptor of a live file.
    pub(super) fn parked_count(&self) -> usize {
        self.descriptors.len() - self.live_count - self.live_files
    }

    /// Somebody else's lock in this range of a managed file. What cannot be asked is answered with
    /// "none": a descriptor that a stranger closed, a file system without locks.
    pub(super) fn first_conflict(
        &self,
        identity: FileIdentity,
        range: ByteRange,
    ) -> Option<Conflict> {
        let file = self.files.get(&identity)?;
        record_lock::first_conflict(file.canonical, range).ok().flatten()
    }

    /// Empties the table of a forked child, without touching the allocator. `each` gets every
    /// descriptor, and whether SQLite has ever seen it.
    pub(super) fn forget_all(&mut self, mut each: impl FnMut(RawFd, bool)) {
        let table = mem::replace(self, Self::EMPTY);
        for (descriptor, known) in &table.descriptors {
            set_canonical(*descriptor, 0);
            each(*descriptor, known.role != Role::Canonical);
        }
        mem::forget(table);
    }

    /// Finds a parked descriptor. One that cannot go live now is an error, not a reason to open and
    /// park another.
    fn reuse(&mut self, identity: FileIdentity, access: c_int) -> Option<io::Result<RawFd>> {
        for descriptor in self.files.get(&identity)?.descriptors.clone() {
            let known = self.descriptors[&descriptor];
            if known.role != Role::Parked || known.access != access {
                continue;
            }
            if names(descriptor, identity) {
                return Some(self.make_live(descriptor).map(|()| descriptor));
            }
            // A stranger closed it, and perhaps another file has its number now.
            self.forget(descriptor);
        }
        None
    }

    /// Takes charge of a descriptor that was just opened, if it is one of a regular file.
    fn adopt(&mut self, descriptor: RawFd, access: c_int) -> io::Result<RawFd> {
        let Some(status) = status_of_descriptor(descriptor).ok().filter(is_regular) else {
            return Ok(descriptor);
        };
        if descriptor < DESCRIPTOR_MIN {
            return Ok(descriptor);
        }
        let file = FileIdentity::of(&status);
        self.add(descriptor, Descriptor { file, access, role: Role::Parked })?;
        self.make_live(descriptor)?;
        Ok(descriptor)
    }

    fn add(&mut self, descriptor: RawFd, known: Descriptor) -> io::Result<()> {
        if usize::try_from(descriptor).is_ok_and(|number| number >= DESCRIPTORS_MAX) {
            raw_close(descriptor)?;
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        if self.descriptors.contains_key(&descriptor) {
            // The kernel gave the number out again, so a stranger closed ours.
            self.forget(descriptor);
        }
        self.descriptors.insert(descriptor, known);
        let new = || ManagedFile { descriptors: Vec::new(), live_count: 0, canonical: NONE };
        let file = self.files.entry(known.file).or_insert_with(new);
        file.descriptors.push(descriptor);
        if known.role == Role::Canonical {
            file.canonical = descriptor;
        }
        Ok(())
    }

    /// Parked to live. Fails, and leaves it parked, where its locks could not be held.
    fn make_live(&mut self, descriptor: RawFd) -> io::Result<()> {
        let Descriptor { file: identity, access, role } = self.descriptors[&descriptor];
        assert_eq!(role, Role::Parked, "descriptor {descriptor} is handed out twice");
        if self.files[&identity].live_count == 0 {
            self.choose_canonical(identity, descriptor)?;
        }
        let canonical = self.files[&identity].canonical;
        if access == libc::O_RDWR && self.descriptors[&canonical].access != libc::O_RDWR {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        self.set_live(descriptor, true);
        Ok(())
    }

    /// Keeps the canonical descriptor of an idle file, or opens one from `descriptor` if there is
    /// none that serves.
    fn choose_canonical(&mut self, identity: FileIdentity, descriptor: RawFd) -> io::Result<()> {
        let wanted = self.descriptors[&descriptor].access;
        let canonical = self.files[&identity].canonical;
        if canonical != NONE && !names(canonical, identity) {
            self.forget(canonical);
        } else if canonical != NONE {
            let access = self.descriptors[&canonical].access;
            if access == libc::O_RDWR || wanted != libc::O_RDWR {
                return Ok(());
            }
        }
        let (new, access) = reopen(descriptor)?;
        if let Some(old) = self.descriptors.get_mut(&canonical) {
            old.role = Role::Parked;
        }
        self.add(new, Descriptor { file: identity, access, role: Role::Canonical })
    }

    /// Live to parked: what `close` does. The last one of a file takes the file's locks with it, as
    /// POSIX has it.
    fn park(&mut self, descriptor: RawFd) -> io::Result<()> {
        let known = self.descriptors.get(&descriptor);
        let Some(&Descriptor { file: identity, role: Role::Live, .. }) = known else {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        };
        self.set_live(descriptor, false);
        if planted("close-descriptors") && descriptor != self.files[&identity].canonical {
            self.forget(descriptor);
            return raw_close(descriptor);
        }
        let file = &self.files[&identity];
        if file.live_count == 0 {
            record_lock::release_all(file.canonical);
            self.close_deleted();
        }
        if self.parked_count() > self.parked_limit {
            self.sweep();
            self.parked_limit = PARKED_LIMIT.max(self.parked_count() * 2);
        }
        Ok(())
    }

    /// Really closes the descriptors of idle files that have no name any more: as long as one is open, the file
    /// keeps its room on the disk.
    ///
    /// Nobody can open such a file again by its name. A stock copy may have had it open before: its locks are
    /// seen, and then the file is spared until somebody next looks. One that holds none loses none.
    fn close_deleted(&mut self) {
        let is_gone = |(identity, file): &(&FileIdentity, &ManagedFile)| {
            file.live_count == 0 && is_deleted(file.canonical, **identity)
        };
        let gone = self.files.iter().filter(is_gone).map(|(identity, _)| *identity);
        for identity in gone.collect::<Vec<_>>() {
            if matches!(self.conflict_anywhere(identity), Ok(None)) {
                self.close_all_of(identity);
            }
        }
    }

    /// Really closes the descriptors of files on which nothing of this process depends any more.
    ///
    /// Closing drops every POSIX lock of this process on the file, so a file is spared when another
    /// descriptor of the process names it, or, for a stock copy that opened it since we looked,
    /// when the process is seen to hold a lock. Without /proc all are spared.
    fn sweep(&mut self) {
        let Ok(foreign) = self.foreign_files() else { return };
        let is_idle = |file: &ManagedFile| file.live_count == 0;
        let idle = self
            .files
            .iter()
            .filter(|(identity, file)| is_idle(file) && !foreign.contains(identity));
        for identity in idle.map(|(identity, _)| *identity).collect::<Vec<_>>() {
            let own_pid = std::process::id().cast_signed();
            match self.conflict_anywhere(identity) {
                Ok(Some(conflict)) if conflict.pid() == Some(own_pid) => {}
                _ => self.close_all_of(identity),
            }
        }
    }

    /// The files that descriptors of this process name which are not in the table.
    fn foreign_files(&self) -> io::Result<BTreeSet<FileIdentity>> {
        let mut files = BTreeSet::new();
        for entry in std::fs::read_dir("/proc/self/fd")? {
            let name = entry?.file_name();
            let Some(descriptor) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if !self.descriptors.contains_key(&descriptor)
                && let Ok(identity) = identity_of(descriptor)
            {
                files.insert(identity);
            }
        }
        Ok(files)
    }

    fn conflict_anywhere(&self, identity: FileIdentity) -> io::Result<Option<Conflict>> {
        record_lock::first_conflict(self.files[&identity].canonical, ByteRange::WHOLE_FILE)
    }

    fn close_all_of(&mut self, identity: FileIdentity) {
        let file = &self.files[&identity];
        assert_eq!(file.live_count, 0, "a file with live descriptors must not be closed");
        for descriptor in file.descriptors.clone() {
            let is_still_ours = names(descriptor, identity);
            // First forgotten, then closed: the kernel may give the number to another thread at
            // once.
            self.forget(descriptor);
            if is_still_ours {
                // An error of close leaves nothing to do: the descriptor is gone either way.
                let _ = raw_close(descriptor);
            }
        }
    }

    /// Removes a descriptor from the table, without closing it.
    fn forget(&mut self, descriptor: RawFd) {
        set_canonical(descriptor, 0);
        if self.descriptors[&descriptor].role == Role::Live {
            self.set_live(descriptor, false);
        }
        let Some(Descriptor { file: identity, .. }) = self.descriptors.remove(&descriptor) else {
            return;
        };
        let file = self.files.get_mut(&identity).expect("a known descriptor has a file");
        assert!(
            file.canonical != descriptor || file.live_count == 0,
            "somebody closed descriptor {descriptor}, which carries the locks of an open database"
        );
        if file.canonical == descriptor {
            file.canonical = NONE;
        }
        file.descriptors.retain(|other| *other != descriptor);
        if file.descriptors.is_empty() {
            self.files.remove(&identity);
        }
    }

    /// The one place where a descriptor becomes live, or ceases to be.
    fn set_live(&mut self, descriptor: RawFd, live: bool) {
        let known = self.descriptors.get_mut(&descriptor).expect("the caller has just seen it");
        let file = self.files.get_mut(&known.file).expect("a known descriptor has a file");
        let (before, after) =
            if live { (Role::Parked, Role::Live) } else { (Role::Live, Role::Parked) };
        assert_eq!(known.role, before, "descriptor {descriptor} is not what it should be");
        known.role = after;
        if live {
            set_canonical(descriptor, file.canonical);
            self.live_files += usize::from(file.live_count == 0);
            file.live_count += 1;
            self.live_count += 1;
        } else {
            self.live_count -= 1;
            file.live_count -= 1;
            self.live_files -= usize::from(file.live_count == 0);
        }
    }
}

fn set_canonical(descriptor: RawFd, canonical: RawFd) {
    let number = usize::try_from(descriptor).expect("`adopt` takes no negative descriptor");
    CANONICAL[number].store(canonical, Ordering::Release);
}

/// Gives /dev/null to those of descriptors 0 to 2 that are closed, so that a database never gets
/// one.
fn occupy_standard_streams() {
    for stream in 0..DESCRIPTOR_MIN {
        // SAFETY: integers.
        let closed = unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1;
        if closed {
            // The lowest free number is this one. If it cannot be had, `adopt` and SQLite cope.
            let _ = raw_open(c"/dev/null", libc::O_RDWR, 0);
        }
    }
}

/// Another open of the same file, for writing if possible: by number, so that it is no other file.
fn reopen(descriptor: RawFd) -> io::Result<(RawFd, c_int)> {
    let path = CString::new(format!("/proc/self/fd/{descriptor}"))?;
    let open = |access| {
        let reopened = raw_open(&path, access | libc::O_CLOEXEC, 0)?;
        Ok((reopened, access))
    };
    open(libc::O_RDWR).or_else(|error: io::Error| match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => open(libc::O_RDONLY),
        _ => Err(error),
    })
}
