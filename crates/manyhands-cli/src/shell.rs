//! `manyhands shell`: SQLite's own shell, with Manyhands in the place of its library.
//!
//! The shell compares the second at which its library was made with the one that it was built for, and refuses any other. It needs nothing
//! that a later library has not. So the library is told which one to name: the one that stands in the shell's file.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::carrier::{Content, Contents};
use crate::run::library::{self, Library};
use crate::run::resolve;

/// Tells the library what to answer.
const VARIABLE: &str = "MANYHANDS_SOURCE_ID";
/// `2022-12-28 14:03:47 ` and 64 digits.
const DATE_BYTES: usize = 20;
const DIGEST_BYTES: usize = 64;

/// What `manyhands shell` is given.
#[derive(clap::Args)]
pub struct Arguments {
    /// The library to preload, or its folder.
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
    /// SQLite's shell.
    #[arg(long, value_name = "PROGRAM", default_value = "sqlite3")]
    shell: OsString,
    /// What SQLite's shell is given: its options, a database, SQL.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Becomes the shell.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let library = Library::find(arguments.library.as_deref())?;
    let resolved = resolve::resolve(&arguments.shell).context(
        "SQLite's shell: install it (Debian's package sqlite3), or name it with --shell",
    )?;
    let shell = resolved.program();
    let content = Contents::default().read(shell).with_context(|| shell.display().to_string())?;
    if content != Content::NoSqlite {
        bail!(
            "{} has SQLite inside: name a shell that takes libsqlite3.so.0 with --shell",
            shell.display()
        );
    }
    let mut command = Command::new(shell);
    command
        .args(&arguments.arguments)
        .env(library::PRELOAD, library.before(std::env::var_os(library::PRELOAD)))
        .envs(source_id(shell)?.map(|id| (VARIABLE, id)));
    Err(command.exec()).with_context(|| format!("start {}", shell.display()))
}

/// The source id that stands in a file: a date, and the digest of SQLite's sources then
/// (<https://sqlite.org/c3ref/c_source_id.html>).
fn source_id(shell: &Path) -> Result<Option<String>> {
    let bytes = std::fs::read(shell).with_context(|| shell.display().to_string())?;
    Ok(bytes.windows(DATE_BYTES + DIGEST_BYTES).position(is_source_id).and_then(|start| {
        let text = bytes[start..].split(|byte| *byte == 0).next()?;
        std::str::from_utf8(text).ok().map(str::to_owned)
    }))
}

fn is_source_id(bytes: &[u8]) -> bool {
    let (date, digest) = bytes.split_at(DATE_BYTES);
    let as_shape = date.iter().map(|byte| if byte.is_ascii_digit() { b'0' } else { *byte });
    // Who changes the sources writes a word over the digest's end.
    as_shape.eq(*b"0000-00-00 00:00:00 ") && digest.iter().all(u8::is_ascii_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_id_is_a_date_and_a_digest() {
        let digest = "0123456789abcdef".repeat(4);
        for (text, expected) in [
            (format!("2022-12-28 14:03:47 {digest}"), true),
            (format!("2022-12-28 14:03:47 {}alt1", &digest[4..]), true),
            (format!("2022-12-28T14:03:47 {digest}"), false),
            (format!("2022-12-28 14:03:47 {}", digest.replace('0', "-")), false),
        ] {
            assert_eq!(is_source_id(text.as_bytes()), expected, "{text}");
        }
    }
}
