//! Whether a file that is there may be used: by its first words, its owner and permissions.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use crate::join::{JoinError, JoinOptions};
use crate::layout::{FILE_BYTES, MAGIC, layout};

/// Refuses a file that somebody may write who may not write the database. One of ours with other permissions than it
/// should have gets these.
pub(super) fn refuse_unsafe<E>(
    file: &File,
    path: &Path,
    options: &JoinOptions,
) -> Result<(), JoinError<E>> {
    let refuse = |reason| JoinError::Unsafe { path: path.to_path_buf(), reason };
    let metadata = file.metadata().map_err(|source| JoinError::System {
        action: "look at",
        path: path.to_path_buf(),
        source,
    })?;
    if !metadata.is_file() {
        return Err(refuse("it is not a regular file"));
    }
    if metadata.nlink() > 1 {
        return Err(refuse("it has several names (hard links)"));
    }
    // A file that its group, or everybody, may write has its queue from whoever comes first.
    let by_group = options.mode & 0o020 != 0 && metadata.gid() == options.group;
    let by_all = options.mode & 0o002 != 0;
    if metadata.uid() != options.owner && !by_group && !by_all {
        return Err(refuse("it belongs to a user who may not write the database"));
    }
    let mode = metadata.mode() & 0o777;
    let euid = rustix::process::geteuid();
    if mode != options.mode && (euid.is_root() || euid.as_raw() == metadata.uid()) {
        // The database's have changed since. Who has it open keeps it.
        set_owner(file, options).map_err(|source| JoinError::System {
            action: "set the permissions of",
            path: path.to_path_buf(),
            source,
        })?;
    } else if mode & !options.mode != 0 {
        return Err(refuse(
            "its permissions are wider than the database's, and it is another user's",
        ));
    }
    Ok(())
}

/// Gives a file of ours the owner, as far as we may, and the permissions that it should have.
pub(super) fn set_owner(file: &File, options: &JoinOptions) -> io::Result<()> {
    // The umask may have taken bits that the database has.
    file.set_permissions(PermissionsExt::from_mode(options.mode))?;
    if rustix::process::geteuid().is_root() {
        fchown(file, Some(options.owner), Some(options.group))
    } else {
        // Who is of the database's group may do that. Who is not may write the database all the same.
        let _ = fchown(file, None, Some(options.group));
        Ok(())
    }
}

/// Zeros where the kernel tells none, in a container that hides it: then the locks alone say that a file is stale.
pub(super) fn boot_id() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let half =
        |range| digits.get(range).and_then(|part| u64::from_str_radix(part, 16).ok()).unwrap_or(0);
    [half(0..16), half(16..32)]
}

/// The first words of a file that may hold anything.
pub(super) struct FileIdentity {
    bytes: u64,
    magic: u64,
    pub(super) layout: u64,
    pub(super) program: u64,
    boot: [u64; 2],
    retired: u64,
}

pub(super) enum Verdict {
    Sound,
    OtherVersion,
    Damaged,
}

impl FileIdentity {
    pub(super) fn read(file: &File) -> FileIdentity {
        let mut bytes = [0; 48];
        // A shorter file leaves zeros, which are no magic word.
        let _ = file.read_exact_at(&mut bytes, 0);
        let word = |at: usize| {
            u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes of a fixed array"))
        };
        FileIdentity {
            bytes: file.metadata().map_or(0, |metadata| metadata.len()),
            magic: word(0),
            layout: word(8),
            program: word(16),
            boot: [word(24), word(32)],
            retired: word(super::RETIRED_AT as usize),
        }
    }

    pub(super) fn verdict(&self, options: &JoinOptions) -> Verdict {
        let boots = [self.boot, boot_id()];
        let is_of_another_boot = boots[0] != boots[1] && !boots.contains(&[0, 0]);
        if self.magic != MAGIC || is_of_another_boot || self.retired != 0 {
            Verdict::Damaged
        } else if self.layout != layout() || self.program != options.program {
            Verdict::OtherVersion
        } else if self.bytes < FILE_BYTES as u64 {
            Verdict::Damaged
        } else {
            Verdict::Sound
        }
    }
}
