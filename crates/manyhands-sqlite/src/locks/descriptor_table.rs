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
//! | -1                    | lost: every lock fails   | `lost`, when a stranger has closed descriptors |
//!
//! A lock call needs no mutex: while it runs, its descriptor is live, so its file's canonical
//! descriptor neither changes nor closes. Which thread may use a descriptor is SQLite's affair, and
//! its own mutexes hand the word over with it.
//!
//! The canonical descriptor of a database file is the first one that SQLite gets: our VFS maps such a file from
//! another one ([`for_mapping`]). That of a -shm file, and of a file that another VFS opens, is a second open, which
//! SQLite never gets: SQLite maps its own into memory, a forked child inherits the mapping, a mapping keeps its open file
//! description alive, and an OFD lock lives as long as that. The second open is for writing if the kernel lets us,
//! since a write lock needs that. If not (read-only media, permissions), locks cannot move to another descriptor in one
//! step, so as long as the file is live, an open for writing is refused as for lack of permission; SQLite then opens it for
//! reading.

mod lost;
mod spare;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::c_int;

use super::managed_file::{
    FileIdentity, identity_of, is_gone, is_regular, may_access, may_be_managed, names,
    status_of_descriptor, status_of_path,
};
use super::record_lock::{self, ByteRange, Conflict};
use super::system_calls::{raw_close, raw_open};
use crate::planted::planted;
pub(super) use lost::losses;
pub(super) use spare::descriptors_limit;

/// Descriptor numbers below this can be managed: the kernel's own default bound (`fs.nr_open`). The
/// words above the highest descriptor in use are never touched and cost address space only.
const DESCRIPTORS_MAX: usize = 1 << 20;

/// No descriptor.
const NONE: RawFd = -1;

/// 0 to 2 belong to the standard streams; SQLite closes what it gets there and asks again.
const DESCRIPTOR_MIN: RawFd = 3;

static CANONICAL: [AtomicI32; DESCRIPTORS_MAX] = [const { AtomicI32::new(0) }; DESCRIPTORS_MAX];

/// By canonical descriptor, the inode of its file: see [`is_sound`].
static INODES: [AtomicU64; DESCRIPTORS_MAX] = [const { AtomicU64::new(0) }; DESCRIPTORS_MAX];

static TABLE: Mutex<Table> = Mutex::new(Table::EMPTY);

thread_local! {
    /// The file that is being opened is a database of our VFS.
    static FOR_OUR_VFS: Cell<bool> = const { Cell::new(false) };
}

/// The descriptor on which `descriptor`'s locks are held, or `None` for an unmanaged one; no open descriptor for a lost
/// one. One load of a word that changes only when SQLite opens or closes a file.
pub(super) fn canonical(descriptor: RawFd) -> Option<RawFd> {
    let word = CANONICAL.get(usize::try_from(descriptor).ok()?)?.load(Ordering::Acquire);
    (word != 0).then_some(word)
}

/// False when a canonical descriptor was closed by a stranger, also when another file has its number by now: there a lock
/// would exclude nobody.
pub(super) fn is_sound(canonical: RawFd) -> bool {
    let inode = usize::try_from(canonical).ok().and_then(|number| INODES.get(number));
    inode.is_some_and(|inode| {
        !is_gone(canonical, |status| status.st_ino == inode.load(Ordering::Relaxed))
    })
}

/// Opens a database file for our VFS, which maps it from no canonical descriptor.
pub(super) fn for_our_vfs<T>(open: impl FnOnce() -> T) -> T {
    FOR_OUR_VFS.set(true);
    let opened = open();
    FOR_OUR_VFS.set(false);
    opened
}

/// A descriptor of the same file as a live one which is not canonical, so that a mapping may keep it.
pub(super) fn for_mapping(descriptor: RawFd) -> Option<RawFd> {
    let mut table = lock();
    let known = *table.descriptors.get(&descriptor)?;
    let file = table.files.get(&known.file)?;
    if descriptor != file.canonical {
        return Some(descriptor);
    }
    let may_serve = |other: &&RawFd| {
        let other_known = &table.descriptors[*other];
        **other != file.canonical
            && other_known.access == known.access
            && names(**other, known.file)
    };
    if let Some(other) = file.descriptors.iter().find(may_serve) {
        return Some(*other);
    }
    let (path, file) = (file.path.clone(), known.file);
    let (other, access) = reopen(descriptor, &path, file).ok()?;
    let other = table.place_high(other).ok()?;
    table.add(other, Descriptor { file, access, role: Role::Parked }, &path).ok()?;
    Some(other)
}

pub(super) fn lock() -> MutexGuard<'static, Table> {
    // A panic under this mutex has crossed `extern "C"` and ended the process; only a test can see
    // the poison.
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens as SQLite asks, or hands out a parked descriptor of the same file with the same access.
pub(super) fn open(path: &CStr, flags: c_int, mode: u32) -> io::Result<RawFd> {
    let status = status_of_path(path, flags);
    // The mutex is held over the open: a fork in between would give the child a descriptor that
    // nobody knows.
    let mut table = lock();
    if !may_be_managed(path, flags, status.as_ref()) {
        let descriptor = table.open(path, flags, mode)?;
        table.unmanaged.insert(descriptor, identity_of(descriptor).ok());
        return Ok(descriptor);
    }
    let access = flags & libc::O_ACCMODE;
    if let Some(status) = &status {
        let identity = FileIdentity::of(status);
        table.look_for_loss(identity);
        if may_access(path, access)
            && let Some(result) = table.reuse(identity, access)
        {
            return result;
        }
    }
    table.close_deleted();
    occupy_standard_streams();
    let descriptor = table.open(path, flags, mode)?;
    table.adopt(descriptor, access, path)
}

/// Parks a managed descriptor; closes any other.
pub(super) fn close(descriptor: RawFd) -> io::Result<()> {
    let mut table = lock();
    if canonical(descriptor).is_some() {
        return table.park(descriptor);
    }
    match table.unmanaged.remove(&descriptor) {
        // A stranger closed it, and another file may have its number.
        Some(Some(identity)) if !names(descriptor, identity) => Ok(()),
        _ => raw_close(descriptor),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// SQLite has it open.
    Live,
    /// SQLite closed it, or was refused it; it waits for the next open with the same access.
    Parked,
    /// Carries the locks of its file, and SQLite has never seen it.
    Canonical,
    /// SQLite has it open, and a stranger has closed it, or the one with its file's locks.
    Lost {
        /// Its number is kept from others.
        occupied: bool,
    },
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
    /// As SQLite opened it last.
    path: CString,
    /// All of them, the canonical one included; without lost ones.
    descriptors: Vec<RawFd>,
    live_count: usize,
    /// Constant while `live_count` > 0. Its role is `Canonical`, or it is one that SQLite has, or had.
    canonical: RawFd,
}

#[derive(Debug)]
pub(super) struct Table {
    files: BTreeMap<FileIdentity, ManagedFile>,
    descriptors: BTreeMap<RawFd, Descriptor>,
    /// What SQLite has open besides, with the file; `None` for one that is lost, and its number kept from others.
    unmanaged: BTreeMap<RawFd, Option<FileIdentity>>,
    /// How often the descriptors of a file were lost: see `lost`.
    losses: BTreeMap<FileIdentity, u64>,
    /// Sweep when more are parked, so that its cost is shared by many closes: see `spare`.
    parked_limit: usize,
}

impl Table {
    const EMPTY: Self = Self {
        files: BTreeMap::new(),
        descriptors: BTreeMap::new(),
        unmanaged: BTreeMap::new(),
        losses: BTreeMap::new(),
        parked_limit: 0,
    };

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

    /// True while SQLite has this file open.
    pub(super) fn is_live(&self, identity: FileIdentity) -> bool {
        self.files.get(&identity).is_some_and(|file| file.live_count > 0)
    }

    /// Empties the table of a forked child, without touching the allocator. `each` gets every
    /// descriptor, and whether SQLite has ever seen it.
    pub(super) fn forget_all(&mut self, mut each: impl FnMut(RawFd, bool)) {
        let table = mem::replace(self, Self::EMPTY);
        for (descriptor, known) in &table.descriptors {
            set_canonical(*descriptor, 0);
            // A lost one may be a stranger's by now.
            if !matches!(known.role, Role::Lost { .. }) && names(*descriptor, known.file) {
                each(*descriptor, known.role != Role::Canonical);
            }
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
    fn adopt(&mut self, descriptor: RawFd, access: c_int, path: &CStr) -> io::Result<RawFd> {
        let Some(status) = status_of_descriptor(descriptor).ok().filter(is_regular) else {
            return Ok(descriptor);
        };
        if descriptor < DESCRIPTOR_MIN {
            return Ok(descriptor);
        }
        let file = FileIdentity::of(&status);
        self.add(descriptor, Descriptor { file, access, role: Role::Parked }, path)?;
        self.make_live(descriptor)?;
        Ok(descriptor)
    }

    fn add(&mut self, descriptor: RawFd, known: Descriptor, path: &CStr) -> io::Result<()> {
        if usize::try_from(descriptor).is_ok_and(|number| number >= DESCRIPTORS_MAX) {
            raw_close(descriptor)?;
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        self.descriptors.insert(descriptor, known);
        let file = self.files.entry(known.file).or_insert_with(|| ManagedFile {
            path: path.to_owned(),
            descriptors: Vec::new(),
            live_count: 0,
            canonical: NONE,
        });
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
        if let Some(old) = self.descriptors.get_mut(&canonical) {
            old.role = Role::Parked;
        }
        let number = if FOR_OUR_VFS.get() && wanted == libc::O_RDWR {
            self.files.get_mut(&identity).expect("it has this descriptor").canonical = descriptor;
            descriptor
        } else {
            let path = self.files[&identity].path.clone();
            let (new, access) = reopen(descriptor, &path, identity)?;
            let new = self.place_high(new)?;
            let known = Descriptor { file: identity, access, role: Role::Canonical };
            self.add(new, known, &path)?;
            new
        };
        INODES[usize::try_from(number).expect("an open descriptor")]
            .store(identity.inode, Ordering::Relaxed);
        Ok(())
    }

    /// Live to parked: what `close` does. The last one of a file takes the file's locks with it, as
    /// POSIX has it.
    fn park(&mut self, descriptor: RawFd) -> io::Result<()> {
        let identity = match self.descriptors.get(&descriptor) {
            Some(&Descriptor { file, role: Role::Live, .. }) => file,
            Some(&Descriptor { role: Role::Lost { occupied }, .. }) => {
                self.let_go_of_lost(descriptor, occupied);
                return Ok(());
            }
            _ => return Err(io::Error::from_raw_os_error(libc::EBADF)),
        };
        self.set_live(descriptor, false);
        if planted("close-descriptors") && descriptor != self.files[&identity].canonical {
            self.forget(descriptor);
            return raw_close(descriptor);
        }
        let file = &self.files[&identity];
        if file.live_count == 0 {
            if is_sound(file.canonical) {
                record_lock::release_all(file.canonical);
            }
            self.close_deleted();
            self.close_unused();
        }
        self.sweep_if_many();
        Ok(())
    }

    /// Removes a descriptor from the table, without closing it.
    fn forget(&mut self, descriptor: RawFd) {
        set_canonical(descriptor, 0);
        let Some(Descriptor { file: identity, .. }) = self.descriptors.remove(&descriptor) else {
            return;
        };
        let file = self.files.get_mut(&identity).expect("a known descriptor has a file");
        assert!(file.canonical != descriptor || file.live_count == 0, "in use: see `lost`");
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
            file.live_count += 1;
        } else {
            file.live_count -= 1;
        }
    }
}

fn set_canonical(descriptor: RawFd, canonical: RawFd) {
    let number = usize::try_from(descriptor).expect("`adopt` takes no negative descriptor");
    CANONICAL[number].store(canonical, Ordering::Release);
}

/// Every lock that is asked for on `descriptor` fails from now on.
fn set_lost(descriptor: RawFd) {
    set_canonical(descriptor, NONE);
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

/// Another open of the same file, for writing if possible: by number, so that it is no other file; where /proc is not
/// mounted, by its path, if that leads to it still.
fn reopen(descriptor: RawFd, path: &CStr, identity: FileIdentity) -> io::Result<(RawFd, c_int)> {
    let by_number = CString::new(format!("/proc/self/fd/{descriptor}"))?;
    let open = |path: &CStr, access| {
        let reopened = raw_open(path, access | libc::O_CLOEXEC, 0)?;
        Ok((reopened, access))
    };
    let open_for_most = |path: &CStr| {
        open(path, libc::O_RDWR).or_else(|error: io::Error| match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => open(path, libc::O_RDONLY),
            _ => Err(error),
        })
    };
    open_for_most(&by_number).or_else(|error: io::Error| {
        if error.raw_os_error() != Some(libc::ENOENT) {
            return Err(error);
        }
        let (reopened, access) = open_for_most(path)?;
        if !names(reopened, identity) {
            raw_close(reopened)?;
            return Err(error);
        }
        Ok((reopened, access))
    })
}
