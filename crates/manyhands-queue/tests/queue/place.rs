//! A queue file in a directory that goes away.

use std::convert::Infallible;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use manyhands_queue::{Deadline, JoinError, JoinOptions, Queue};

/// Nothing here takes as long, but on a machine that is in trouble.
pub const LONG: Duration = Duration::from_secs(20);

pub struct Place {
    pub directory: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("test.db-hands")
    }

    pub fn join(&self) -> Arc<Queue> {
        join(&self.path()).unwrap()
    }

    /// Why joining is refused.
    pub fn refusal(&self) -> JoinError<Infallible> {
        join(&self.path()).expect_err("joining is refused")
    }

    /// Overwrites a part of the file, as a program gone wild would.
    pub fn overwrite(&self, at: u64, bytes: &[u8]) {
        overwrite(&self.path(), at, bytes);
    }

    pub fn inode(&self) -> u64 {
        std::fs::metadata(self.path()).unwrap().ino()
    }
}

pub fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    std::fs::File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

pub fn options() -> JoinOptions {
    JoinOptions {
        program: 3_054_001,
        mode: 0o644,
        owner: rustix::process::geteuid().as_raw(),
        group: rustix::process::getegid().as_raw(),
        deadline: Deadline::after(LONG),
    }
}

pub fn join(path: &Path) -> Result<Arc<Queue>, JoinError<Infallible>> {
    Queue::join(path, &options(), || Ok(()))
}

/// Looks until it is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "still not: {what}");
        std::thread::yield_now();
    }
}
