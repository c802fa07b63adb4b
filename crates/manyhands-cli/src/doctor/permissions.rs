//! Whether whoever may write the database may also write what belongs to it: its -wal, -shm and queue file, and its folder.

use std::{fs::Metadata, os::unix::fs::MetadataExt, path::Path};

use super::{finding::Finding, place::folder};
use crate::{inside::wal::beside, process::QUEUE_SUFFIX};

const CHECK: &str = "permissions";

/// Which of owner, group and others may write.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Writers {
    owner: bool,
    group: bool,
    others: bool,
}

impl Writers {
    fn of(found: &Metadata) -> Self {
        let may = |bits| found.mode() & bits == bits;
        // SQLite and the queue read what they write.
        Self { owner: may(0o600), group: may(0o060), others: may(0o006) }
    }
}

/// Looks at the database, what is beside it, and their folder.
pub fn check(path: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Ok(database) = path.metadata() else {
        return vec![Finding::error(CHECK, "the database is gone", "try again")];
    };
    let writers = Writers::of(&database);
    if !writers.owner && !writers.group && !writers.others {
        findings.push(Finding::error(
            CHECK,
            format!(
                "nobody but root may write {} (mode {:o})",
                path.display(),
                database.mode() & 0o777
            ),
            format!("chmod u+rw {}", path.display()),
        ));
    }
    for suffix in ["-wal", "-shm", QUEUE_SUFFIX] {
        let beside = beside(path, suffix);
        let Ok(found) = beside.symlink_metadata() else { continue };
        findings.extend(unlike(&database, &found, &beside, path));
    }
    findings.extend(closed_folder(&database, path));
    if findings.is_empty() {
        let reason = "whoever may write the database may write what belongs to it";
        findings.push(Finding::ok(CHECK, reason));
    }
    findings
}

/// A file beside the database that some of its writers may not write, or that others may.
fn unlike(database: &Metadata, found: &Metadata, beside: &Path, path: &Path) -> Option<Finding> {
    let (told, base) = (beside.display(), path.display());
    if !found.is_file() {
        let reason = format!("{told} is no regular file");
        return Some(Finding::error(
            CHECK,
            reason,
            format!("remove {told} while nobody has the database open"),
        ));
    }
    let (needed, given) = (Writers::of(database), Writers::of(found));
    let is_owners = found.uid() == database.uid() || needed.others;
    let is_groups = found.gid() == database.gid() || !needed.group;
    let lacks = needed.owner && !given.owner
        || needed.group && !given.group
        || needed.others && !given.others;
    // By its group or for all it may be written all the same.
    let is_open = needed.others && given.others
        || needed.group && given.group && found.gid() == database.gid();
    if lacks || !is_owners && !is_open || !is_groups && !given.others {
        let reason = format!(
            "{told} is of user {} and group {}, mode {:o}; {base} is of user {} and group {}, mode {:o}: some who may write the \
             database may not write it",
            found.uid(),
            found.gid(),
            found.mode() & 0o777,
            database.uid(),
            database.gid(),
            database.mode() & 0o777
        );
        let remedy = format!(
            "chown --reference={base} {told}; chmod --reference={base} {told} (a command as root may have made it)"
        );
        return Some(Finding::error(CHECK, reason, remedy));
    }
    if given.others && !needed.others {
        let reason = format!("everybody may write {told}, and not {base}");
        return Some(Finding::error(CHECK, reason, format!("chmod --reference={base} {told}")));
    }
    None
}

/// A folder in which the database's owner may make no files.
fn closed_folder(database: &Metadata, path: &Path) -> Option<Finding> {
    let folder = folder(path);
    let found = folder.metadata().ok()?;
    let may = |bits| found.mode() & bits == bits;
    let is_root = database.uid() == 0;
    let may_make = is_root
        || found.uid() == database.uid() && may(0o300)
        || found.gid() == database.gid() && may(0o030)
        || may(0o003);
    (!may_make).then(|| {
        let folder = folder.display();
        Finding::error(
            CHECK,
            format!(
                "user {}, whose the database is, may make no files in {folder}: SQLite needs a -wal and a -shm file there",
                database.uid()
            ),
            format!("chown {} {folder}, or give the database a folder of its own", database.uid()),
        )
    })
}
