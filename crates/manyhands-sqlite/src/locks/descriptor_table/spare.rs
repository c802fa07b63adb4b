//! Which descriptors are really closed, and when.
//!
//! Closing drops every POSIX lock of this process on the file. So only those of an idle file are closed, where no other
//! descriptor of the process names it: at once when SQLite has closed its last one, unless the process has very many
//! descriptors to look through; and when many are parked, or the process has no descriptor left.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::RawFd;

use super::super::managed_file::{FileIdentity, identity_of, is_deleted, names};
use super::super::record_lock::{self, ByteRange, Conflict};
use super::super::system_calls::raw_close;
use super::{Descriptor, ManagedFile, Role, Table};

/// To look through more at each close would take longer than to open a database.
const LISTED_MAX: usize = 1024;

/// So many are parked at least before they are looked through, and at most: what is parked takes a sixteenth of what the
/// process may open.
const PARKED_MIN: usize = 4;
/// See [`PARKED_MIN`].
const PARKED_MAX: usize = 256;

impl Table {
    /// Descriptors that are neither live nor carry the locks of a live file.
    pub(in super::super) fn parked_count(&self) -> usize {
        let is_parked = |(descriptor, known): &(&RawFd, &Descriptor)| match known.role {
            Role::Parked | Role::Canonical => {
                let file = &self.files[&known.file];
                file.live_count == 0 || file.canonical != **descriptor
            }
            Role::Live | Role::Lost { .. } => false,
        };
        self.descriptors.iter().filter(is_parked).count()
    }

    /// Really closes the descriptors of idle files that have no name any more: as long as one is open, the file
    /// keeps its room on the disk.
    ///
    /// Nobody can open such a file again by its name. A stock copy may have had it open before: its locks are
    /// seen, and then the file is spared until somebody next looks. One that holds none loses none.
    pub(super) fn close_deleted(&mut self) {
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

    /// Really closes the descriptors of idle files, unless something of this process depends on them.
    pub(super) fn close_unused(&mut self) {
        let known = self.descriptors.len() + self.unmanaged.len();
        if known <= LISTED_MAX
            && let Ok(external) = self.external_files(LISTED_MAX)
        {
            self.close_unless_used(&external);
        }
    }

    /// The same, when many descriptors are parked.
    pub(super) fn sweep_if_many(&mut self) {
        let limit = (descriptors_limit() / 16).clamp(PARKED_MIN, PARKED_MAX);
        if self.parked_count() > limit.max(self.parked_limit) {
            self.sweep();
            self.parked_limit = self.parked_count() * 2;
        }
    }

    /// The same, however long it takes to look. Where it cannot be seen what the process has open, all are spared.
    pub(super) fn sweep(&mut self) {
        if let Ok(external) = self.external_files(usize::MAX) {
            self.close_unless_used(&external);
        }
    }

    /// Really closes the descriptors of idle files that are not `external`. A stock copy that opened one since we looked
    /// is seen by its lock.
    fn close_unless_used(&mut self, external: &BTreeSet<FileIdentity>) {
        let own_pid = std::process::id().cast_signed();
        let idle = self.files.iter().filter(|(_, file)| file.live_count == 0);
        let unused = idle.map(|(identity, _)| *identity).filter(|it| !external.contains(it));
        for identity in unused.collect::<Vec<_>>() {
            match self.conflict_anywhere(identity) {
                Ok(Some(conflict)) if conflict.pid() == Some(own_pid) => {}
                _ => self.close_all_of(identity),
            }
        }
    }

    /// The files that descriptors of this process name which are not in the table; an error when there are more than
    /// `count_max` descriptors.
    fn external_files(&self, count_max: usize) -> io::Result<BTreeSet<FileIdentity>> {
        let mut files = BTreeSet::new();
        let mut look = |descriptor: RawFd| {
            let is_ours = self.descriptors.contains_key(&descriptor)
                || self.unmanaged.contains_key(&descriptor);
            if !is_ours && let Ok(identity) = identity_of(descriptor) {
                files.insert(identity);
            }
        };
        let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
            let numbers = descriptors_limit().min(count_max);
            (0..numbers as RawFd).for_each(look);
            return Ok(files);
        };
        for (count, entry) in entries.enumerate() {
            if count >= count_max {
                return Err(io::Error::other("too many to look through"));
            }
            let name = entry?.file_name();
            if let Some(descriptor) = name.to_str().and_then(|name| name.parse().ok()) {
                look(descriptor);
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
}

/// How many descriptors the process may have.
pub(in super::super) fn descriptors_limit() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}
