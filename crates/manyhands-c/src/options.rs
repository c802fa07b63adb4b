//! What a program that cannot say it otherwise says by the environment, or in the URI of a database.
//!
//! | variable | URI parameter | |
//! |---|---|---|
//! | `MANYHANDS_ONLY` | | paths or patterns, with colons between them: other files are SQLite's alone |
//! | `MANYHANDS_TRANSACTION_MODE` | `transaction_mode` | `auto` (the default), `optimistic`, `immediate` |
//! | `MANYHANDS_DURABILITY` | `durability` | `full` (the default), `normal` |
//! | `MANYHANDS_DURABILITY_MIN` | `durability_min` | the least that `PRAGMA synchronous` can choose |
//! | `MANYHANDS_TIMEOUT` | `timeout` | seconds, until the program chooses; 5 if not said |
//! | `MANYHANDS_JOURNAL` | `journal` | `wal` (the default), `keep` |
//! | `MANYHANDS_IMMEDIATE` | `immediate` | `auto`: BEGIN IMMEDIATE is a plain BEGIN |
//!
//! The Python package knows the same ones (`bindings/python/src/options.rs`), but for the first and the last.

use core::time::Duration;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use manyhands::{Builder, Durability, Journal, TransactionMode};

/// Where an option may be found.
pub(crate) struct Options<'a> {
    /// The URI, or empty.
    uri: &'a [u8],
}

impl<'a> Options<'a> {
    /// Of a database that is opened by this name; `is_uri` says whether it is a URI.
    pub(crate) fn of(name: &'a [u8], is_uri: bool) -> Options<'a> {
        Options { uri: if is_uri { name } else { b"" } }
    }

    /// Gives them to a builder.
    ///
    /// # Errors
    /// What is wrong, for a value that has no meaning.
    pub(crate) fn give_to(&self, mut builder: Builder) -> Result<Builder, String> {
        let mode =
            self.find("transaction_mode", "auto, optimistic or immediate", |it| match it {
                "auto" => Some(TransactionMode::Auto),
                "optimistic" => Some(TransactionMode::Optimistic),
                "immediate" => Some(TransactionMode::Immediate),
                _ => None,
            })?;
        builder = builder.transaction_mode(mode.unwrap_or(TransactionMode::Auto));
        let level = |it: &str| match it {
            "full" => Some(Durability::Full),
            "normal" => Some(Durability::Normal),
            _ => None,
        };
        if let Some(durability) = self.find("durability", "full or normal", level)? {
            builder = builder.durability(durability);
        }
        if let Some(durability) = self.find("durability_min", "full or normal", level)? {
            builder = builder.durability_min(durability);
        }
        let seconds = |it: &str| Duration::try_from_secs_f64(it.parse::<f64>().ok()?.max(0.0)).ok();
        if let Some(timeout) = self.find("timeout", "a number of seconds", seconds)? {
            builder = builder.timeout(timeout);
        }
        let journal = self.find("journal", "wal or keep", |it| match it {
            "wal" => Some(Journal::Wal),
            "keep" => Some(Journal::Keep),
            _ => None,
        })?;
        Ok(builder.journal(journal.unwrap_or_default()))
    }

    /// Whether BEGIN IMMEDIATE is to be a plain BEGIN.
    ///
    /// # Errors
    /// What is wrong, for a value that has no meaning.
    pub(crate) fn begins_immediate_as_auto(&self) -> Result<bool, String> {
        let chosen = self.find("immediate", "auto or turn", |it| match it {
            "auto" => Some(true),
            "turn" => Some(false),
            _ => None,
        })?;
        Ok(chosen.unwrap_or(false))
    }

    fn find<T>(
        &self,
        name: &str,
        wanted: &str,
        mean: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let variable = format!("MANYHANDS_{}", name.to_ascii_uppercase());
        let (place, text) = match parameter(self.uri, name.as_bytes()) {
            Some(text) => (format!("the URI's {name}"), text),
            None => match std::env::var(&variable) {
                Ok(text) if !text.is_empty() => (variable, text),
                _ => return Ok(None),
            },
        };
        let meant = mean(&text);
        meant.map(Some).ok_or_else(|| format!("{place} must be {wanted}, and is {text:?}"))
    }
}

/// Whether a file is one of those that MANYHANDS_ONLY names; every file is, where it names none.
pub(crate) fn is_chosen(path: &Path) -> bool {
    let Some(only) = std::env::var_os("MANYHANDS_ONLY").filter(|it| !it.is_empty()) else {
        return true;
    };
    let path = absolute(path);
    only.as_bytes().split(|byte| *byte == b':').filter(|it| !it.is_empty()).any(|pattern| {
        let pattern = absolute(Path::new(OsStr::from_bytes(pattern)));
        pattern == path || matches_pattern(&pattern, &path)
    })
}

/// With symbolic links followed where there is something, so that one file has one name.
fn absolute(path: &Path) -> std::path::PathBuf {
    let followed = path.canonicalize().or_else(|error| {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(error);
        };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        Ok(folder.canonicalize()?.join(name))
    });
    followed.or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_path_buf())
}

fn matches_pattern(pattern: &Path, path: &Path) -> bool {
    let text = |it: &Path| CString::new(it.as_os_str().as_bytes()).ok();
    let (Some(pattern), Some(path)) = (text(pattern), text(path)) else { return false };
    // SAFETY: two zero-terminated texts.
    unsafe { libc::fnmatch(pattern.as_ptr(), path.as_ptr(), libc::FNM_PATHNAME) == 0 }
}

/// A parameter of a `file:` URI (<https://sqlite.org/uri.html>).
pub(crate) fn parameter(uri: &[u8], name: &[u8]) -> Option<String> {
    let rest = uri.strip_prefix(b"file:")?;
    let without_fragment = rest.split(|byte| *byte == b'#').next()?;
    let query = without_fragment.splitn(2, |byte| *byte == b'?').nth(1)?;
    let mut pairs = query.split(|byte| *byte == b'&').map(|pair| {
        let mut parts = pair.splitn(2, |byte| *byte == b'=');
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    });
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    Some(String::from_utf8_lossy(&decoded(value)).into_owned())
}

/// The path of a `file:` URI.
pub(crate) fn path_of(uri: &[u8]) -> Vec<u8> {
    let rest = uri.strip_prefix(b"file:").unwrap_or(uri);
    let end = rest.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(rest.len());
    let path = &rest[..end];
    // An authority is empty or `localhost`.
    let path = match path.strip_prefix(b"//") {
        Some(after) => &after[after.iter().position(|it| *it == b'/').unwrap_or(after.len())..],
        None => path,
    };
    decoded(path)
}

fn decoded(bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        let hex = |digits: &[u8]| u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok();
        match (first, after.get(..2).and_then(hex)) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                rest = &after[2..];
            }
            _ => {
                decoded.push(*first);
                rest = after;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_has_a_path_and_parameters() {
        let uri = b"file:///tmp/a%20b.db?mode=ro&transaction_mode=optimistic#x";
        assert_eq!(path_of(uri), b"/tmp/a b.db");
        assert_eq!(parameter(uri, b"mode").as_deref(), Some("ro"));
        assert_eq!(parameter(uri, b"transaction_mode").as_deref(), Some("optimistic"));
        assert_eq!(parameter(uri, b"timeout"), None);
        assert_eq!(path_of(b"file:a.db"), b"a.db");
        assert_eq!(path_of(b"file://localhost/a.db"), b"/a.db");
    }

    #[test]
    fn patterns_name_files() {
        let matches =
            |pattern: &str, path: &str| matches_pattern(Path::new(pattern), Path::new(path));
        assert!(matches("/srv/*.db", "/srv/app.db"));
        assert!(!matches("/srv/*.db", "/srv/other/app.db"));
        assert!(!matches("/srv/*.db", "/srv/app.sqlite"));
    }
}
