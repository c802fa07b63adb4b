//! Where a target's files lie.

use std::path::{Path, PathBuf};

/// A directory, in memory where there is such a file system. A fuzzer never returns: the directory stays,
/// and the system's cleaning takes it.
pub fn directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let directory = tempfile::Builder::new().prefix("manyhands-fuzz-").tempdir_in(place);
    directory.expect("a directory").keep()
}
