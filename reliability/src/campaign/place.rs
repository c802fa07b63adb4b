//! Where campaigns work: directories that go away by themselves and are named after their process.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

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
