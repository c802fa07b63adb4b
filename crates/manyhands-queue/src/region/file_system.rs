//! Whether a file system is one on which processes can meet: whether a lock that one holds is in another's way, and what one
//! writes into a mapping another reads.
//!
//! What other machines write too is refused by its name: there both may work here, and not between machines. What is
//! known to be local is believed. Of all others the first member tries it, between two open files of its own: FUSE has one
//! number for local, shared and remote file systems, and an unknown one may be anything.

use core::ptr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::join::JoinError;
use crate::member::{self, LockKind};

/// Where the trial word is written: in the header's page, where nothing else is.
const TRIAL_AT: usize = 4088;
const PAGE_BYTES: usize = 4096;

/// FUSE, whatever is behind it.
const FUSE: u32 = 0x6573_5546;

/// Numbers of `statfs(2)`: ext4, XFS, Btrfs, tmpfs, overlay, F2FS, ZFS, ramfs.
const LOCAL: [u32; 8] = [
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0x0102_1994,
    0x794C_7630,
    0xF2F5_2010,
    0x2FC1_2FC1,
    0x8584_58F6,
];

/// What FUSE file systems call themselves that are another machine's, after "fuse.".
const REMOTE_FUSE: [&str; 14] = [
    "sshfs",
    "s3fs",
    "glusterfs",
    "ceph",
    "ceph-fuse",
    "rclone",
    "gcsfuse",
    "davfs",
    "davfs2",
    "curlftpfs",
    "smbnetfs",
    "juicefs",
    "blobfuse2",
    "mount-s3",
];

fn number_of<E>(file: &File, path: &Path) -> Result<u32, JoinError<E>> {
    let found = rustix::fs::fstatfs(file).map_err(|source| JoinError::System {
        action: "ask the file system of",
        path: path.to_path_buf(),
        source: source.into(),
    })?;
    Ok(found.f_type as u32)
}

/// Refuses a file system that other machines write too, as far as its name tells.
pub(super) fn refuse_network<E>(file: &File, path: &Path) -> Result<(), JoinError<E>> {
    let number = number_of(file, path)?;
    let mut name = network_file_system(number).map(str::to_owned);
    if number == FUSE {
        name = name.or_else(|| remote_fuse(&mounts(), file.metadata().ok()?.dev()));
    }
    match name {
        Some(file_system) => {
            let _ = std::fs::remove_file(path);
            Err(JoinError::Network { path: path.to_path_buf(), file_system })
        }
        None => Ok(()),
    }
}

/// Refuses a file system on which processes cannot meet. `file` has the join lock, and `again` opens it once more. Only for
/// the first member.
pub(super) fn refuse_unfit<E>(
    file: &File,
    path: &Path,
    again: impl Fn() -> io::Result<File>,
) -> Result<(), JoinError<E>> {
    if LOCAL.contains(&number_of(file, path)?) {
        return Ok(());
    }
    let system = |source| JoinError::System { action: "try", path: path.to_path_buf(), source };
    let (one, other) = (again().map_err(system)?, again().map_err(system)?);
    match what_fails(file, &one, &other) {
        None => Ok(()),
        Some(reason) => Err(JoinError::Unfit { path: path.to_path_buf(), reason }),
    }
}

/// What does not work between open files of one file, of which `locked` has the join lock.
fn what_fails(locked: &File, one: &File, other: &File) -> Option<&'static str> {
    match member::lock_joining(one, LockKind::Shared) {
        Ok(false) => {}
        Ok(true) => {
            let _ = member::lock_joining(one, LockKind::None);
            return Some("a lock is in nobody else's way");
        }
        Err(_) => return Some("it has no locks of open files"),
    }
    let (Ok(written), Ok(read)) = (Page::map(one), Page::map(other)) else {
        return Some("files cannot be mapped and shared");
    };
    // A number that is nowhere by chance.
    let trial = crate::clock::now_ns() | 1;
    written.set(trial);
    let mut in_file = [0; 8];
    let is_read = locked.read_exact_at(&mut in_file, TRIAL_AT as u64).is_ok();
    let is_seen = read.get() == trial && is_read && u64::from_ne_bytes(in_file) == trial;
    written.set(0);
    (!is_seen).then_some("what is written into a mapping is not seen in another")
}

/// The header's page, mapped.
struct Page(*mut libc::c_void);

impl Page {
    fn map(file: &File) -> io::Result<Page> {
        if file.metadata()?.len() < PAGE_BYTES as u64 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let address =
            unsafe { libc::mmap(ptr::null_mut(), PAGE_BYTES, access, flags, file.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Page(address))
        }
    }

    fn word(&self) -> *mut u64 {
        // SAFETY: inside the page, and aligned.
        unsafe { self.0.cast::<u8>().add(TRIAL_AT) }.cast()
    }

    fn set(&self, word: u64) {
        // SAFETY: inside the mapping, and nobody else uses it: the file has no members yet.
        unsafe { self.word().write_volatile(word) };
    }

    fn get(&self) -> u64 {
        // SAFETY: inside the mapping, where any bits are a number.
        unsafe { self.word().read_volatile() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length.
        unsafe { libc::munmap(self.0, PAGE_BYTES) };
    }
}

fn mounts() -> String {
    std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
}

/// The name of a FUSE file system that is another machine's, by the device of a file on it, from a text like
/// /proc/self/mountinfo.
fn remote_fuse(mounts: &str, device: u64) -> Option<String> {
    let device = format!("{}:{}", libc::major(device), libc::minor(device));
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&device))?;
    let name = line.split_once(" - ")?.1.split(' ').next()?.strip_prefix("fuse.")?;
    REMOTE_FUSE.contains(&name).then(|| name.to_owned())
}

/// The name of a file system that other machines write too, by its number in `statfs(2)`.
fn network_file_system(number: u32) -> Option<&'static str> {
    Some(match number {
        0x6969 => "NFS",
        0x517B => "SMB",
        0xFF53_4D42 => "CIFS",
        0xFE53_4D42 => "SMB2",
        0x5346_414F | 0x6B41_4653 => "AFS",
        0x00C3_6400 => "Ceph",
        0x0102_1997 => "9P",
        0x0BD0_0BD0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x7461_636F => "OCFS2",
        0x0116_1970 => "GFS2",
        0x7375_7245 => "Coda",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_refused_by_name() {
        assert_eq!(network_file_system(0x6969), Some("NFS"));
        assert_eq!(network_file_system(0xFF53_4D42), Some("CIFS"));
        assert_eq!(network_file_system(0xEF53), None, "ext4");
        assert_eq!(network_file_system(0x0102_1994), None, "tmpfs");
    }

    #[test]
    fn fuse_is_refused_where_its_mount_says_that_it_is_another_machines() {
        let mounts = "22 1 0:19 / /proc rw - proc proc rw\n\
                      40 22 0:51 / /mnt/a rw,nosuid - fuse.sshfs me@host: rw,user_id=0\n\
                      41 22 0:52 / /mnt/b rw shared:9 - fuseblk /dev/sdb1 rw\n\
                      42 22 0:53 / /mnt/c rw - virtiofs share rw\n";
        let found = |minor| remote_fuse(mounts, libc::makedev(0, minor));
        assert_eq!(found(51).as_deref(), Some("sshfs"));
        assert_eq!([found(52), found(53), found(54), found(19)], [const { None }; 4]);
    }

    /// A trial that cannot fail would be none: files of different names stand for a file system that does not do it.
    #[test]
    fn what_does_not_work_is_noticed() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = |name: &str| {
            let file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(directory.path().join(name))
                .expect("opens");
            file.set_len(PAGE_BYTES as u64).expect("a page");
            file
        };
        let locked = open("a");
        assert!(member::lock_joining(&locked, LockKind::Exclusive).expect("locks"));
        assert_eq!(what_fails(&locked, &open("a"), &open("a")), None);
        let fails = |one: &str, other: &str| what_fails(&locked, &open(one), &open(other));
        assert!(fails("b", "a").is_some_and(|text| text.contains("lock")));
        assert!(fails("a", "b").is_some_and(|text| text.contains("mapping")));
        File::options()
            .write(true)
            .open(directory.path().join("a"))
            .expect("opens")
            .set_len(0)
            .expect("cut");
        let again = || {
            File::options().read(true).write(true).open(directory.path().join("a")).expect("opens")
        };
        assert!(
            what_fails(&locked, &again(), &again()).is_some_and(|text| text.contains("mapped"))
        );
        let mut word = [1; 8];
        open("a").read_exact_at(&mut word, TRIAL_AT as u64).expect("reads");
        assert_eq!(word, [0; 8], "nothing is left of it");
    }
}
