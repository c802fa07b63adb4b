//! Descriptors that a stranger has closed: `closefrom(3)` and its like, in a process that has a database open.
//!
//! The locks on them are gone, and their numbers may be other files' by now. SQLite goes on using the numbers. So when
//! that is seen, every connection to the file is *lost*: each lock that it asks for is refused, and without a lock it
//! writes nothing. A later open gets everything anew: to SQLite it is another file ([`Table::losses`] is part
//! of the device number that it is shown), and no number that a lost connection uses is given to it.
//!
//! When it is seen: at an open of the same file; when the kernel gives out a number again that is known here; when
//! somebody asks ([`Table::has_lost`]). Before that, a write lock is refused where its descriptor is another file's.

use std::ffi::CString;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::managed_file::{FileIdentity, is_gone, names, status_of_path};
use super::super::system_calls::{raw_close, raw_open};
use super::super::{fork, record_lock};
use super::{DESCRIPTOR_MIN, ManagedFile, NONE, Role, Table, set_canonical, set_lost};

/// A file was lost, once: until then nobody looks for it.
static ANY_LOST: AtomicBool = AtomicBool::new(false);

/// True when the descriptor does not lead to its file any more.
fn has_gone(number: RawFd, identity: FileIdentity) -> bool {
    is_gone(number, |status| FileIdentity::of(status) == identity)
}

/// How often the descriptors of this file were lost.
pub(in super::super) fn losses(identity: FileIdentity) -> u64 {
    if !ANY_LOST.load(Ordering::Acquire) {
        return 0;
    }
    super::lock().losses.get(&identity).copied().unwrap_or(0)
}

impl Table {
    /// Opens a file, if need be with the descriptor of one that is parked.
    pub(super) fn open(
        &mut self,
        path: &std::ffi::CStr,
        flags: libc::c_int,
        mode: u32,
    ) -> io::Result<RawFd> {
        let descriptor =
            raw_open(path, flags, mode).or_else(|error| match error.raw_os_error() {
                Some(libc::EMFILE | libc::ENFILE) => {
                    self.sweep();
                    raw_open(path, flags, mode)
                }
                _ => Err(error),
            })?;
        self.place_high(descriptor)
    }

    /// What was opened as `descriptor`, under a number that SQLite takes for no other file's.
    pub(super) fn place_high(&mut self, mut descriptor: RawFd) -> io::Result<RawFd> {
        while self.descriptors.contains_key(&descriptor) || self.unmanaged.contains_key(&descriptor)
        {
            self.find_lost(descriptor);
            let is_in_use = self.descriptors.contains_key(&descriptor);
            if !is_in_use && !self.unmanaged.contains_key(&descriptor) {
                break;
            }
            // SAFETY: integers.
            let other = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, DESCRIPTOR_MIN) };
            if other == -1 {
                let error = io::Error::last_os_error();
                raw_close(descriptor)?;
                return Err(error);
            }
            self.occupy(descriptor);
            descriptor = other;
        }
        Ok(descriptor)
    }

    /// Keeps the number of a lost descriptor from others, until SQLite closes it.
    fn occupy(&mut self, descriptor: RawFd) {
        let Some(placeholder) = fork::open_placeholder() else { return };
        fork::occupy(descriptor, placeholder);
        let _ = raw_close(placeholder);
        if let Some(known) = self.descriptors.get_mut(&descriptor) {
            known.role = Role::Lost { occupied: true };
        } else {
            self.unmanaged.insert(descriptor, None);
        }
    }

    /// Looks whether the descriptor with the locks of a file that is about to be opened is there.
    pub(super) fn look_for_loss(&mut self, identity: FileIdentity) {
        let is_lost =
            |file: &ManagedFile| file.live_count > 0 && has_gone(file.canonical, identity);
        if self.files.get(&identity).is_some_and(is_lost) {
            self.find_lost(NONE);
        }
    }

    /// True when connections to this database that were opened after so many `losses` of it are lost.
    pub(in super::super) fn has_lost(&mut self, identity: FileIdentity, losses: u64) -> bool {
        self.look_for_loss(identity);
        let shared_memory = self.files.get(&identity).and_then(|file| {
            let path = CString::new([file.path.to_bytes(), b"-shm"].concat()).ok()?;
            status_of_path(&path, 0).as_ref().map(FileIdentity::of)
        });
        if let Some(shared_memory) = shared_memory {
            self.look_for_loss(shared_memory);
        }
        self.losses.get(&identity).copied().unwrap_or(0) != losses
    }

    /// Finds all files whose descriptors were closed by a stranger; the kernel has given out `reused` again.
    fn find_lost(&mut self, reused: RawFd) {
        for identity in self.files.keys().copied().collect::<Vec<_>>() {
            let Some(file) = self.files.get(&identity) else { continue };
            let is_gone = |number: RawFd| number == reused || has_gone(number, identity);
            let gone: Vec<_> =
                file.descriptors.iter().copied().filter(|number| is_gone(*number)).collect();
            let in_use = file.live_count > 0
                && gone.iter().any(|number| {
                    *number == file.canonical || self.descriptors[number].role == Role::Live
                });
            if in_use {
                // A connection uses its database and its -shm file together.
                let path = file.path.to_bytes();
                let beside = match path.strip_suffix(b"-shm") {
                    Some(database) => database.to_vec(),
                    None => [path, b"-shm"].concat(),
                };
                let is_beside =
                    |file: &ManagedFile| file.path.to_bytes() == beside && file.live_count > 0;
                let other = self.files.iter().find(|(_, file)| is_beside(file));
                let other = other.map(|(identity, _)| *identity);
                self.lose(identity, reused);
                if let Some(other) = other {
                    self.lose(other, reused);
                }
            } else {
                gone.into_iter().for_each(|number| self.forget(number));
            }
        }
    }

    /// No connection to the file may go on. What is still there of it, and unknown to SQLite, is parked.
    fn lose(&mut self, identity: FileIdentity, reused: RawFd) {
        let Some(file) = self.files.remove(&identity) else { return };
        *self.losses.entry(identity).or_default() += 1;
        ANY_LOST.store(true, Ordering::Release);
        let mut kept = Vec::new();
        for number in file.descriptors {
            let is_there = number != reused && !has_gone(number, identity);
            if is_there && number == file.canonical {
                record_lock::release_all(number);
            }
            let known = self.descriptors.get_mut(&number).expect("a file's descriptors are known");
            if known.role == Role::Live {
                known.role = Role::Lost { occupied: false };
                set_lost(number);
            } else if is_there {
                known.role = Role::Parked;
                set_canonical(number, 0);
                kept.push(number);
            } else {
                self.descriptors.remove(&number);
                set_canonical(number, 0);
            }
        }
        if !kept.is_empty() {
            let idle =
                ManagedFile { path: file.path, descriptors: kept, live_count: 0, canonical: NONE };
            self.files.insert(identity, idle);
        }
    }

    /// SQLite closes a lost descriptor: it is parked if it is still there, and left alone if the number is another file's.
    pub(super) fn let_go_of_lost(&mut self, number: RawFd, occupied: bool) {
        let known = self.descriptors.remove(&number).expect("the caller has just seen it");
        set_canonical(number, 0);
        if occupied {
            let _ = raw_close(number);
        } else if names(number, known.file) {
            let parked = super::Descriptor { role: Role::Parked, ..known };
            let path = self.files.get(&known.file).map(|file| file.path.clone());
            // Above no bound, since it was below it before.
            let _ = self.add(number, parked, &path.unwrap_or_default());
        }
    }
}
