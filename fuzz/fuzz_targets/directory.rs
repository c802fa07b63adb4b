//! Where a target's files lie.

use std::path::PathBuf;

/// A directory where TMPDIR says. A fuzzer never returns: `fuzz/run.sh`, which names a place in memory, removes it.
pub fn directory() -> PathBuf {
    let directory = tempfile::Builder::new().prefix("manyhands-fuzz-").tempdir();
    directory.expect("a directory").keep()
}
