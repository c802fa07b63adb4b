//! Writers that are a C program over the library in the place of libsqlite3 (`c/`, which `--writer` names). They write beside this program's
//! own, with the same orders and lines, so that the same judges look into the file.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::worker::{Act, Arguments};

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// From now on every second writer is this program.
pub fn choose(program: PathBuf) {
    // Once, by the command line.
    let _ = PROGRAM.set(program);
}

/// The program, if there is one.
pub fn chosen() -> Option<&'static Path> {
    PROGRAM.get().map(PathBuf::as_path)
}

/// The program that does a job, where it is not this one: processes of odd numbers, and the one that forks.
pub fn of(job: &Arguments) -> Option<&'static Path> {
    let plays = match job.act {
        Act::Mix | Act::Storm | Act::Hold | Act::Ask | Act::Lists => job.number % 2 != 0,
        Act::Fork => true,
        _ => false,
    };
    chosen().filter(|_| plays)
}

/// The words of a command line that choose it.
pub fn words() -> String {
    chosen().map(|program| format!(" --writer {}", program.display())).unwrap_or_default()
}
