//! The queue file: found, checked, built or rebuilt, mapped; joined and left.
//!
//! What always holds:
//! * Joining and leaving happen under a lock on one byte of the file, shared for who joins a queue
//!   that lives, exclusive for who builds or removes one. After the lock is held, the path is looked
//!   at again: the file may have been removed while we waited.
//! * The first member finds the file in whatever state and builds it anew: nothing in it outlives its
//!   members. Whoever is not the first finds it complete.
//! * The disk space of what is touched is taken before (`room.rs`), so a full disk is an error and no SIGBUS.
//!
//! What can go wrong: the file belongs to somebody else, or to a newer Manyhands, or lies on a network
//! file system: [`JoinError`] says which. The file may be deleted or overwritten later: see
//! [`Region::is_sound`].

mod build;
mod file_system;
mod identity;

use core::mem::offset_of;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::AtomicBool;
use core::time::Duration;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use manyhands_sigbus::{FaultGuard, Healing};

use self::build::{build, complete, write_zeros_of};
use self::file_system::{refuse_network, refuse_unfit};
use self::identity::{FileIdentity, Verdict, refuse_unsafe, set_owner};
use crate::clock::{self, Deadline};
use crate::crash;
use crate::join::{self, JoinError, JoinOptions};
use crate::layout::{FILE_BYTES, MAGIC, MEMBERS, Shared, layout};
use crate::member::{self, LockKind, MemberFile};
use crate::room::Part;
use crate::sync::Ordering;

/// How often a busy join lock is tried: a join takes some 50 us.
const JOIN_RETRY: Duration = Duration::from_millis(2);

/// How long to wait for another process that gives more slots their room, and how often it is looked for. That takes
/// it a millisecond.
const ROOM_PATIENCE: Duration = Duration::from_millis(100);
/// See [`ROOM_PATIENCE`].
const ROOM_RETRY: Duration = Duration::from_micros(200);

/// So many member numbers are tried before there are more of them.
const MEMBER_TRIES: usize = 64;

/// Where the file says that it is to be left, see `layout.rs`.
const RETIRED_AT: u64 = 40;

/// The mapped file and this process's membership.
#[derive(Debug)]
pub(crate) struct Region {
    shared: NonNull<Shared>,
    /// For the case that somebody truncates the file; taken before the mapping goes.
    guard: Option<FaultGuard>,
    /// Carries the locks. Never mapped: a mapping keeps its open file alive, and a forked child inherits
    /// mappings, so that its parent's locks would outlive the parent.
    file: MemberFile,
    path: PathBuf,
    device: u64,
    inode: u64,
    member: u16,
    /// As this process's own pid namespace counts.
    pid: u32,
    /// See [`Region::is_lost`]. Of this process alone.
    lost: AtomicBool,
    /// See [`Region::lock_room`].
    growing: Mutex<()>,
}

/// See [`Region::lock_room`].
pub(crate) struct RoomLock<'a> {
    region: &'a Region,
    _alone: MutexGuard<'a, ()>,
}

impl Drop for RoomLock<'_> {
    fn drop(&mut self) {
        if !self.region.is_lost() {
            // An error leaves nothing to do: it goes with the descriptor.
            let _ = member::lock_room(&self.region.file, LockKind::None);
        }
    }
}

// SAFETY: the mapping is shared between processes by design: all of it is atomics.
unsafe impl Send for Region {}
// SAFETY: any thread may use atomics at the same time, and the rest of a region is only read.
unsafe impl Sync for Region {}

impl Region {
    pub(crate) fn join<E>(
        path: &Path,
        options: &JoinOptions,
        prepare: impl FnOnce() -> Result<(), E>,
    ) -> Result<Region, JoinError<E>> {
        let system =
            |action| move |source| JoinError::System { action, path: path.to_path_buf(), source };
        let mut kind = LockKind::Shared;
        loop {
            let (file, created) = open(path, options).map_err(system(join::OPEN))?;
            refuse_network(&file, path)?;
            if !wait_for_join_lock(&file, kind, options.deadline).map_err(system("lock"))? {
                return Err(JoinError::TimedOut { path: path.to_path_buf() });
            }
            if !is_at(&file, path).map_err(system("look at"))? {
                continue;
            }
            if let Err(refused) = refuse_unsafe(&file, path, options) {
                if created {
                    // It would be in everybody's way.
                    let _ = std::fs::remove_file(path);
                }
                return Err(refused);
            }
            let others = member::any_other_lives(&file).map_err(system("probe"))?;
            let identity = FileIdentity::read(&file);
            if others {
                match identity.verdict(options) {
                    Verdict::Sound => return Region::enter(file, path),
                    Verdict::OtherVersion => {
                        return Err(JoinError::OtherVersion {
                            path: path.to_path_buf(),
                            layout: identity.layout,
                            program: identity.program,
                        });
                    }
                    // Members of a damaged file leave it as soon as they notice.
                    Verdict::Damaged if kind == LockKind::Exclusive => {
                        std::fs::remove_file(path).map_err(system("remove"))?;
                    }
                    Verdict::Damaged => kind = LockKind::Exclusive,
                }
            } else if kind == LockKind::Exclusive {
                // And if we die here? The next one is the first again.
                let built = build(&file, options).map_err(system("build"));
                let fit =
                    built.and_then(|()| refuse_unfit(&file, path, || open_again(&file, path)));
                let prepared = fit.and_then(|()| prepare().map_err(JoinError::Preparation));
                let complete = prepared.and_then(|()| complete(&file).map_err(system("build")));
                if let Err(error) = complete {
                    // As the last member does: who waits for the lock looks at the path again.
                    if is_at(&file, path).unwrap_or(false) {
                        let _ = std::fs::remove_file(path);
                    }
                    return Err(error);
                }
                return Region::enter(file, path);
            } else {
                kind = LockKind::Exclusive;
            }
        }
    }

    /// Becomes a member of the complete file, whose join lock is held, and lets go of the lock.
    fn enter<E>(file: MemberFile, path: &Path) -> Result<Region, JoinError<E>> {
        let system =
            |action| move |source| JoinError::System { action, path: path.to_path_buf(), source };
        let shared = map(&file, path).map_err(system("map"))?;
        let metadata = file.metadata().map_err(system("look at"))?;
        // SAFETY: the mapping is this region's, and its users hold atomics, for which any bits are valid. Zeros
        // are not sound (they have no magic word), so the member leaves for a new file as soon as it next looks.
        let guard = unsafe {
            manyhands_sigbus::guard(shared.as_ptr() as usize, FILE_BYTES, Healing::Mapping)
        };
        let mut region = Region {
            shared,
            guard,
            file,
            path: path.to_path_buf(),
            device: metadata.dev(),
            inode: metadata.ino(),
            member: 0,
            pid: std::process::id(),
            lost: AtomicBool::new(false),
            growing: Mutex::new(()),
        };
        let Some(member) = region.enlist().map_err(system("extend"))? else {
            return Err(JoinError::TooManyMembers { path: path.to_path_buf() });
        };
        region.member = member;
        member::lock_joining(&region.file, LockKind::None).map_err(system("unlock"))?;
        crash::point("joined");
        Ok(region)
    }

    /// Takes a free member number. `None` when all are taken.
    fn enlist(&self) -> io::Result<Option<u16>> {
        loop {
            let hint = self.shared().header.hints.0.member.fetch_add(1, Ordering::Relaxed);
            let ready = self.ready(Part::Members);
            let tries = if ready < MEMBERS { MEMBER_TRIES.min(ready) } else { ready };
            for step in 0..tries as u64 {
                let number = (hint.wrapping_add(step) % ready as u64) as u16;
                if member::enlist(&self.file, number)? {
                    return Ok(Some(number));
                }
            }
            if !self.grow(Part::Members)? {
                return Ok(None);
            }
        }
    }

    /// Lets nobody else write zeros until it is dropped.
    pub(crate) fn lock_room(&self) -> io::Result<RoomLock<'_>> {
        if self.is_inherited() || self.is_lost() {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        // The lock below is the process's.
        let alone = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = Deadline::after(ROOM_PATIENCE);
        while !member::lock_room(&self.file, LockKind::Exclusive)? {
            if deadline.has_passed() {
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            std::thread::sleep(ROOM_RETRY);
        }
        Ok(RoomLock { region: self, _alone: alone })
    }

    /// Takes the room of the disk for these, which nobody uses yet. Who calls it has the lock.
    pub(crate) fn write_zeros(&self, part: Part, numbers: Range<usize>) -> io::Result<()> {
        write_zeros_of(&self.file, part, numbers)
    }

    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: the mapping has the size and alignment of `Shared`, any bits are valid atomics,
        // and it lives until `drop`.
        unsafe { self.shared.as_ref() }
    }

    pub(crate) fn member(&self) -> u16 {
        self.member
    }

    pub(crate) fn now_ns(&self) -> u64 {
        clock::now_ns()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// True while the process of `member` lives.
    pub(crate) fn lives(&self, member: u16) -> bool {
        // An error here would be EBADF or ENOLCK. Not to know is no reason to rob; nor is the answer about another file.
        member == self.member || self.is_lost() || member::lives(&self.file, member).unwrap_or(true)
    }

    /// True while another process is a member. In doubt true.
    pub(crate) fn has_other_members(&self) -> bool {
        self.is_lost() || member::any_other_lives(&self.file).unwrap_or(true)
    }

    /// True when somebody in this process has closed the file's descriptor, and with it this membership: the number
    /// may be another file's by now. It stays so.
    pub(crate) fn is_lost(&self) -> bool {
        if self.is_inherited() || self.lost.load(Ordering::Relaxed) {
            return !self.is_inherited();
        }
        let is_lost = match self.file.metadata() {
            Ok(found) => (found.dev(), found.ino()) != (self.device, self.inode),
            Err(error) => error.raw_os_error() == Some(libc::EBADF),
        };
        if is_lost && !self.lost.swap(true, Ordering::Relaxed) {
            self.file.abandon();
        }
        is_lost
    }

    /// True in a child that got this region from its parent by `fork()`.
    pub(crate) fn is_inherited(&self) -> bool {
        self.file.is_inherited()
    }

    /// False when the file must be left: it was overwritten, or somebody declared it retired, or the membership was lost.
    pub(crate) fn is_sound(&self) -> bool {
        if self.lost.load(Ordering::Relaxed) {
            return false;
        }
        let identity = &self.shared().header.identity.0;
        identity.magic.load(Ordering::Relaxed) == MAGIC
            && identity.layout.load(Ordering::Relaxed) == layout()
            && identity.retired.load(Ordering::Relaxed) == 0
    }

    /// Tells all members to leave for a new file. Also through the descriptor: what is mapped may be memory of
    /// this process alone by now, see `manyhands_sigbus`.
    pub(crate) fn retire(&self) {
        self.shared().header.identity.0.retired.store(1, Ordering::Relaxed);
        if !self.is_inherited() && !self.is_lost() {
            // Who cannot be told finds out by itself.
            let _ = self.file.write_all_at(&1u64.to_ne_bytes(), RETIRED_AT);
        }
    }

    /// True while the path still leads to this file.
    pub(crate) fn is_in_place(&self) -> bool {
        std::fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode))
    }
}

impl Region {
    /// The last member takes the file away. Nobody waits for that: who finds the join lock held has ended its membership
    /// before, and who holds it looks for members once more after it has let go. So one of those who leave at
    /// the same moment sees that it is the last. A process that joins meanwhile does so when it leaves.
    ///
    /// And if we die on the way? The file stays, litter, until the next first member builds it anew.
    fn leave(&self) {
        // An error leaves nothing to do: the lock goes with the descriptor.
        let _ = member::resign(&self.file, self.member);
        for _ in 0..MEMBERS {
            if !matches!(member::lock_joining(&self.file, LockKind::Exclusive), Ok(true)) {
                return;
            }
            if !self.has_other_members() {
                crash::point("leaving");
                if self.is_in_place() {
                    let _ = std::fs::remove_file(&self.path);
                }
                return;
            }
            let _ = member::lock_joining(&self.file, LockKind::None);
            if self.has_other_members() {
                return;
            }
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.is_inherited() {
            return;
        }
        if !self.is_lost() {
            self.leave();
        }
        drop(self.guard.take());
        // SAFETY: the mapping was made by `map` with this length, and nobody can use it any more.
        unsafe { libc::munmap(self.shared.as_ptr().cast(), FILE_BYTES) };
        // The locks go with `file`.
    }
}

/// Opens the file, or creates it if there is none. True if it was created.
fn open(path: &Path, options: &JoinOptions) -> io::Result<(MemberFile, bool)> {
    let open = |create_new| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(create_new)
            .mode(options.mode)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(path)
    };
    let file = loop {
        match open(false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => return Ok((MemberFile::new(result?)?, false)),
        }
        match open(true) {
            // It came into being just now. The last member may remove it just as fast: look again.
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && !options.deadline.has_passed() => {}
            result => break MemberFile::new(result?)?,
        }
    };
    set_owner(&file, options)?;
    Ok((file, true))
}

fn wait_for_join_lock(file: &File, kind: LockKind, deadline: Deadline) -> io::Result<bool> {
    loop {
        if member::lock_joining(file, kind)? {
            return Ok(true);
        }
        if deadline.has_passed() {
            return Ok(false);
        }
        std::thread::sleep(JOIN_RETRY);
    }
}

/// True when `path` still names the open file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The same file, in another open file description: by its number, so that it is no other file; where /proc is not mounted,
/// by its path, if that leads to it still.
fn open_again(file: &File, path: &Path) -> io::Result<File> {
    let open = |path: &Path| {
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path)
    };
    let by_number = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    open(&by_number).or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            return Err(error);
        }
        let again = open(path)?;
        if is_at(&again, path)? && is_at(file, path)? { Ok(again) } else { Err(error) }
    })
}

/// Maps the file through an open file of its own, see [`Region::file`].
pub(crate) fn map(file: &File, path: &Path) -> io::Result<NonNull<Shared>> {
    let file = open_again(file, path)?;
    // SAFETY: a new mapping at an address that the kernel chooses, of a file that was allocated to
    // this length.
    let address = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            FILE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // Without it, the first look at a new file would read all of it ahead: 8 MB of zeros, 4 ms. Only
    // advice, so an error is none.
    // SAFETY: the mapping made above, whole; this advice changes no content.
    unsafe { libc::madvise(address, FILE_BYTES, libc::MADV_RANDOM) };
    // Every member writes to all pages of the header and the ring: one call costs less than two faults for each.
    // Linux 5.14 and later; only advice too.
    // SAFETY: the beginning of the mapping made above; this advice only has its pages ready.
    unsafe { libc::madvise(address, offset_of!(Shared, in_use), libc::MADV_POPULATE_WRITE) };
    Ok(NonNull::new(address.cast()).expect("mmap chose no address for itself but null"))
}
