//! The databases that the user has chosen with `--only`, and how the library is told.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use glob::{MatchOptions, Pattern};

/// What the library reads.
pub const VARIABLE: &str = "MANYHANDS_ONLY";
/// What separates paths there.
const SEPARATOR: &str = ":";
/// The first bytes of any database that is not empty.
const HEADER: &[u8] = b"SQLite format 3\0";
/// As in a shell: a star stays within its folder.
const AS_A_SHELL: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Which databases are meant: all, or those that were named.
#[derive(Default)]
pub struct Choice {
    named: Vec<(PathBuf, Pattern)>,
    /// Which files are databases, by name, where nobody has named any.
    known: HashMap<PathBuf, bool>,
}

impl Choice {
    /// Paths become absolute, since children of the command may work in other folders.
    ///
    /// # Errors
    /// A path with a colon, or a pattern that is none.
    pub fn new(only: &[PathBuf]) -> Result<Self> {
        let named = only.iter().map(|path| {
            let path = resolved(path)?;
            let text = path.to_str().with_context(|| format!("{}: not UTF-8", path.display()))?;
            ensure!(!text.contains(SEPARATOR), "{text}: a path for --only must not hold a colon");
            // The library's patterns are those of fnmatch(3), which knows no path of several folders in one star.
            let pattern =
                Pattern::new(&single_stars(text)).with_context(|| format!("--only {text}"))?;
            Ok((path, pattern))
        });
        Ok(Self { named: named.collect::<Result<_>>()?, known: HashMap::new() })
    }

    /// What the environment says already.
    ///
    /// # Errors
    /// A pattern that is none.
    pub fn of_variable(value: &OsStr) -> Result<Self> {
        let paths = std::env::split_paths(value).filter(|path| !path.as_os_str().is_empty());
        Self::new(&paths.collect::<Vec<_>>())
    }

    /// For the environment of the command; `None` where all are meant.
    pub fn variable(&self) -> Option<OsString> {
        let paths: Vec<&OsStr> = self.named.iter().map(|(path, _)| path.as_os_str()).collect();
        (!paths.is_empty()).then(|| paths.join(OsStr::new(SEPARATOR)))
    }

    /// Whether a file that is open is a database which the user means. `openable` is where we can open it.
    pub fn is_meant(&mut self, path: &Path, openable: &Path) -> bool {
        if !self.named.is_empty() {
            return self.is_named(path);
        }
        if self.known.get(path) == Some(&true) {
            return true;
        }
        // An empty file may become a database yet.
        let is_database = has_header(openable);
        if is_database.is_some() {
            self.known.insert(path.to_owned(), is_database == Some(true));
        }
        is_database == Some(true)
    }

    fn is_named(&self, path: &Path) -> bool {
        self.named
            .iter()
            .any(|(named, pattern)| named == path || pattern.matches_path_with(path, AS_A_SHELL))
    }
}

fn single_stars(text: &str) -> String {
    let mut last = None;
    text.chars().filter(|letter| last.replace(*letter) != Some('*') || *letter != '*').collect()
}

/// Absolute, with the links of its folder followed as far as there is one: that is how /proc tells paths.
fn resolved(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).with_context(|| path.display().to_string())?;
    if let Ok(found) = absolute.canonicalize() {
        return Ok(found);
    }
    let folder = absolute.parent().and_then(|folder| folder.canonicalize().ok());
    Ok(match (folder, absolute.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => absolute,
    })
}

/// `None` for a file that is too short to tell.
fn has_header(path: &Path) -> Option<bool> {
    let mut start = [0; HEADER.len()];
    File::open(path).ok()?.read_exact(&mut start).ok()?;
    Some(start == *HEADER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(only: &str, path: &str, expected: bool) {
        let choice = Choice::new(&[only.into()]).expect("a path");
        assert_eq!(choice.is_named(Path::new(path)), expected, "{only} {path}");
    }

    /// A path means itself even where it holds letters of a pattern.
    #[test]
    fn what_a_path_means() {
        check("/nowhere/app.db", "/nowhere/app.db", true);
        check("/nowhere/app.db", "/nowhere/app.db-wal", false);
        check("/nowhere/*.db", "/nowhere/app.db", true);
        check("/nowhere/*.db", "/nowhere/deeper/app.db", false);
        check("/nowhere/**/*.db", "/nowhere/deeper/app.db", true);
        check("/nowhere/**.db", "/nowhere/deeper/app.db", false);
        check("/nowhere/[1].db", "/nowhere/[1].db", true);
        check("/nowhere/[1].db", "/nowhere/1.db", true);
        assert!(Choice::new(&["/a:b".into()]).is_err());
    }

    /// The library is told where the files are, wherever a child of the command works.
    #[test]
    fn what_the_library_is_told() {
        assert_eq!(Choice::new(&[]).expect("nothing").variable(), None);
        let both = Choice::new(&["/nowhere/a.db".into(), "b.db".into()]).expect("paths");
        let here = std::env::current_dir().expect("a folder").canonicalize().expect("a folder");
        let expected = format!("/nowhere/a.db:{}/b.db", here.display());
        assert_eq!(both.variable(), Some(expected.into()));
    }

    /// Where nothing was named, a database is known by its first bytes.
    #[test]
    fn a_database_by_its_header() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("x");
        let mut choice = Choice::default();
        for (bytes, expected) in [(&b""[..], false), (b"SQLite format 3\0...", true)] {
            std::fs::write(&path, bytes).expect("writable");
            assert_eq!(choice.is_meant(&path, &path), expected);
        }
    }
}
