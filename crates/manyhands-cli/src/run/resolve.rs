//! From the name of a command to the program that the kernel starts for it: PATH, then the interpreters of scripts.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::Read,
    os::unix::{ffi::OsStringExt, fs::PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// As much of a script as the kernel reads (BINPRM_BUF_SIZE).
const FIRST_LINE_BYTES: u64 = 256;
/// Interpreters of interpreters: the kernel follows five.
const INTERPRETERS_MAX: usize = 5;

/// A command's file, and behind it the interpreters that run it.
#[derive(Debug, PartialEq, Eq)]
pub struct Resolved {
    pub command: PathBuf,
    pub interpreters: Vec<PathBuf>,
}

impl Resolved {
    /// What becomes a process.
    pub fn program(&self) -> &Path {
        self.interpreters.last().unwrap_or(&self.command)
    }
}

/// Finds what would be started.
///
/// # Errors
/// There is no such command, or no such interpreter.
pub fn resolve(name: &OsStr) -> Result<Resolved> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let command = find(name, &path)?;
    let mut interpreters = Vec::new();
    let mut script = command.clone();
    while interpreters.len() < INTERPRETERS_MAX
        && let Some(interpreter) = interpreter_of(&script)
    {
        script = find(&interpreter, &path)
            .with_context(|| format!("the interpreter of {}", script.display()))?;
        interpreters.push(script.clone());
    }
    Ok(Resolved { command, interpreters })
}

fn find(name: &OsStr, path: &OsStr) -> Result<PathBuf> {
    let told = name.display();
    if name.as_encoded_bytes().contains(&b'/') {
        let file = PathBuf::from(name);
        return file.is_file().then_some(file).with_context(|| format!("there is no file {told}"));
    }
    let is_executable = |file: &PathBuf| {
        fs::metadata(file)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let mut files = std::env::split_paths(path).map(|folder| folder.join(name));
    files.find(is_executable).with_context(|| format!("there is no command {told}"))
}

/// What a script's first line names; behind `env`, what that is to look for.
fn interpreter_of(script: &Path) -> Option<OsString> {
    let mut start = Vec::new();
    File::open(script).ok()?.take(FIRST_LINE_BYTES).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let first = words.next()?;
    let is_env = Path::new(OsStr::new(std::str::from_utf8(first).ok()?)).file_name()
        == Some(OsStr::new("env"));
    let word = if is_env {
        // `env -S NAME=VALUE program`.
        words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?
    } else {
        first
    };
    Some(OsString::from_vec(word.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(first_line: &str, expected: Option<&str>) {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let script = folder.path().join("script");
        fs::write(&script, format!("{first_line}\nrest")).expect("writable");
        assert_eq!(interpreter_of(&script), expected.map(Into::into), "{first_line}");
    }

    /// Scripts as they begin.
    #[test]
    fn first_lines() {
        check("#!/bin/sh", Some("/bin/sh"));
        check("#! /usr/bin/python3 -u", Some("/usr/bin/python3"));
        check("#!/usr/bin/env node", Some("node"));
        check("#!/usr/bin/env -S LANG=C python3 -u", Some("python3"));
        check("echo", None);
    }

    /// A name is looked for, a path is not; and what is not there is an error.
    #[test]
    fn names_and_paths() {
        let shell = resolve(OsStr::new("sh")).expect("there is a shell");
        assert!(shell.command.is_absolute() && shell.interpreters.is_empty());
        assert_eq!(
            resolve(OsStr::new("/bin/sh")).expect("there is").program(),
            Path::new("/bin/sh")
        );
        for absent in ["manyhands-nonexistent", "./nonexistent"] {
            assert!(resolve(OsStr::new(absent)).is_err());
        }
    }
}
