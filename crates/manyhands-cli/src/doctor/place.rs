//! The place of a database: its file and name, its disk's speed and room.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::finding::Finding;
use crate::{figure::time, inside::wal::beside, process::QUEUE_SUFFIX, top::words::bytes};

/// With this every database begins, but for an empty one.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// How many syncs are timed.
const SYNCS: usize = 15;
/// As much as a small commit writes.
const COMMIT_BYTES: usize = 4120;
/// A commit that takes longer keeps a person waiting.
const SYNC_SLOW: Duration = Duration::from_millis(50);
/// With less a commit may fail at any moment; with less than that it is soon so.
const ROOM_MIN: u64 = 2 << 20;
/// See [`ROOM_MIN`].
const ROOM_FEW: u64 = 32 << 20;

/// The real path of a database that can be read.
pub fn file(given: &Path) -> Result<(PathBuf, Finding), Finding> {
    const CHECK: &str = "file";
    let told = given.display();
    let fails = |reason: String, remedy: &str| Finding::error(CHECK, reason, remedy);
    let path = given
        .canonicalize()
        .map_err(|error| fails(format!("{told}: {error}"), "give the path of a database file"))?;
    let found = path
        .metadata()
        .map_err(|error| fails(format!("{told}: {error}"), "look as a user who may read it"))?;
    if !found.is_file() {
        return Err(fails(format!("{told} is no file"), "give the path of a database file"));
    }
    let mut magic = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(16).read_to_end(&mut magic));
    read.map_err(|error| fails(format!("{told}: {error}"), "look as a user who may read it"))?;
    if !magic.is_empty() && magic != MAGIC {
        let remedy =
            "restore it from a backup, if it was one (an encrypted database looks like this, too)";
        return Err(fails(format!("{told} is no SQLite database"), remedy));
    }
    if found.nlink() > 1 {
        let reason = format!(
            "{told} has {} names (hard links): programs that open it by different ones have different -wal files, and destroy it",
            found.nlink()
        );
        return Ok((path, fails(reason, "leave one name: find DIR -samefile FILE shows them")));
    }
    let size = bytes(found.len());
    let finding = Finding::ok(CHECK, format!("{}, {size}", path.display()));
    Ok((path, finding))
}

/// The folder of a database.
pub fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// A file beside the database that goes away, however its check ends.
pub struct Trial(pub PathBuf);

impl Trial {
    pub fn beside(path: &Path, suffix: &str) -> Self {
        let name = format!(".manyhands-doctor-{}{suffix}", std::process::id());
        Self(folder(path).join(name))
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // An error leaves nothing to do: where it cannot be removed, it could not be made.
        let _ = fs::remove_file(&self.0);
    }
}

/// How long a sync takes.
pub fn sync(path: &Path) -> Finding {
    const CHECK: &str = "sync";
    let trial = Trial::beside(path, "");
    let times = match time_syncs(&trial.0) {
        Ok(times) => times,
        Err(error) => {
            let reason = format!("no file can be written in {}: {error}", folder(path).display());
            return Finding::error(CHECK, reason, "make room, or give the user the folder");
        }
    };
    let median = times[times.len() / 2];
    let reason = format!(
        "a commit of 4 KB is on the disk after {}: one after the other that is at most {:.0} commits/s, and many at once share one sync",
        time(median.as_secs_f64()),
        1.0 / median.as_secs_f64().max(1e-9)
    );
    if median > SYNC_SLOW {
        let remedy =
            "use a faster disk; or durability \"normal\", if a power cut may take the last commits";
        return Finding::warning(CHECK, reason, remedy);
    }
    Finding::ok(CHECK, reason)
}

fn time_syncs(path: &Path) -> io::Result<Vec<Duration>> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        file.write_all(&[1; COMMIT_BYTES])?;
        let began = Instant::now();
        file.sync_data()?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}

/// How much room is left.
pub fn space(path: &Path) -> Finding {
    const CHECK: &str = "space";
    let found = match rustix::fs::statvfs(folder(path)) {
        Ok(found) => found,
        Err(error) => return Finding::error(CHECK, error.to_string(), "look at the mount"),
    };
    let free = found.f_bavail * found.f_frsize;
    let reason = format!("{} are free on the disk", bytes(free));
    let remedy = "make room: a commit needs it for the WAL, and a checkpoint for the database";
    if free < ROOM_MIN {
        return Finding::error(CHECK, reason, remedy);
    }
    if found.f_files != 0 && found.f_favail == 0 {
        return Finding::error(CHECK, "no more files can be made on the disk (inodes)", remedy);
    }
    let own = ["-wal", "-shm", QUEUE_SUFFIX].iter().map(|it| beside(path, it));
    let own: u64 = own.filter_map(|it| it.metadata().ok()).map(|it| it.blocks() * 512).sum();
    if free < ROOM_FEW.min(own * 4).max(ROOM_MIN * 2) {
        return Finding::warning(CHECK, reason, remedy);
    }
    Finding::ok(CHECK, reason)
}
