//! Where campaigns work: directories that go away by themselves, and what remains of them when their process was
//! killed.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Signal, getpgrp, getpid, kill_process_group};
use tempfile::TempDir;

/// How often a directory is removed in which others may still write.
const TRIES: u32 = 50;

fn prefix(process: u32) -> String {
    format!("reliability-{process}-")
}

/// A directory where TMPDIR says.
pub fn directory() -> Result<TempDir> {
    let directory = tempfile::Builder::new().prefix(&prefix(std::process::id())).tempdir();
    directory.context("make a directory")
}

/// Where a campaign works: a directory on the disk that TMPDIR names, kept when there is a finding.
pub fn place() -> Result<(TempDir, PathBuf)> {
    let directory = directory()?;
    let database = directory.path().join("app.db");
    Ok((directory, database))
}

/// A directory for what is written and read by the thousand: in memory, where there is such a file system.
/// Where TMPDIR names a place in memory, it is there.
pub fn memory_directory() -> Result<TempDir> {
    let memory = Path::new(MEMORY);
    if !memory.is_dir() || std::env::temp_dir().starts_with(memory) {
        return directory();
    }
    let prefix = prefix(std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir_in(memory).context("make a directory")
}

const MEMORY: &str = "/dev/shm";

/// Keeps a directory, under a name that tells that somebody wants it.
pub fn keep(directory: TempDir) -> PathBuf {
    let path = directory.keep();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let kept = path.with_file_name(name.replacen("reliability-", "reliability-kept-", 1));
    if std::fs::rename(&path, &kept).is_ok() { kept } else { path }
}

/// From now on the end of stdin, that is of the script that started this process, ends it, with its processes and directories.
pub fn end_with_stdin() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        clear();
        if getpgrp() == getpid() {
            let _ = kill_process_group(getpgrp(), Signal::KILL);
        }
        std::process::exit(2);
    });
}

/// Takes away the directories of this process, and the file systems in them.
fn clear() {
    let prefix = prefix(std::process::id());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for parent in [&std::env::temp_dir(), Path::new(MEMORY)] {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        for entry in entries.filter(|it| it.file_name().to_string_lossy().starts_with(&prefix)) {
            let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
            for point in points.filter(|point| Path::new(point).starts_with(entry.path())) {
                // Lazily: writers that are about to end still hold files.
                let _ = Command::new("umount").args(["-l", point]).output();
            }
            for _ in 0..TRIES {
                if std::fs::remove_dir_all(entry.path()).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
