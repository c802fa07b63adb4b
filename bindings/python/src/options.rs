//! What a connection is opened with besides what `sqlite3` knows, and its timeout.
//!
//! A program that cannot be changed says nothing of it. So each option has four places, and the first that says something is
//! heard: a parameter of the URI, an argument of `connect`, the environment (`MANYHANDS_` and the name in capitals), the
//! default.

use core::time::Duration;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use manyhands::{Builder, Durability, Journal, TransactionMode};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// An argument that may be left out.
pub(crate) enum Choice<T> {
    Open,
    Made(T),
}

impl<'a, 'py, T: FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for Choice<T> {
    type Error = T::Error;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> Result<Choice<T>, T::Error> {
        T::extract(value).map(Choice::Made)
    }
}

/// The arguments of `connect`.
pub(crate) struct Arguments {
    pub(crate) timeout: Choice<f64>,
    pub(crate) label: Choice<String>,
    pub(crate) durability: Choice<String>,
    pub(crate) durability_min: Choice<String>,
    pub(crate) transaction_mode: Choice<String>,
    pub(crate) wal_bytes_limit: Choice<Option<u64>>,
    pub(crate) journal: Choice<String>,
}

/// What was chosen. `None` stands for the engine's default.
pub(crate) struct Options {
    timeout: Option<Duration>,
    label: Option<String>,
    durability: Option<Durability>,
    durability_min: Option<Durability>,
    wal_bytes_limit: Option<u64>,
    journal: Option<Journal>,
    pub(crate) transaction_mode: TransactionMode,
}

impl Options {
    /// # Errors
    /// ValueError for what has no meaning, which says where it was found.
    pub(crate) fn new(arguments: Arguments, path: &Path, uri: bool) -> PyResult<Options> {
        let places = Places { uri: if uri { path.as_os_str().as_bytes() } else { &[] } };
        let durability = |text: String| durability_of(&text);
        Ok(Options {
            timeout: places.find(
                "timeout",
                "a number of seconds",
                arguments.timeout,
                |text| text.parse().ok(),
                duration_of,
            )?,
            label: places.find("label", "a text", arguments.label, Some, Some)?,
            durability: places.find(
                "durability",
                "'full' or 'normal'",
                arguments.durability,
                Some,
                durability,
            )?,
            durability_min: places.find(
                "durability_min",
                "'full' or 'normal'",
                arguments.durability_min,
                Some,
                durability,
            )?,
            wal_bytes_limit: places.find(
                "wal_bytes_limit",
                "a number of bytes",
                arguments.wal_bytes_limit,
                |text| text.parse().ok().map(Some),
                |limit| Some(limit.unwrap_or(u64::MAX)),
            )?,
            journal: places.find(
                "journal",
                "'wal' or 'keep'",
                arguments.journal,
                Some,
                |text| journal_of(&text),
            )?,
            transaction_mode: places
                .find(
                    "transaction_mode",
                    "'auto', 'optimistic' or 'immediate'",
                    arguments.transaction_mode,
                    Some,
                    |text| transaction_mode_of(&text),
                )?
                .unwrap_or(TransactionMode::Auto),
        })
    }

    /// Gives them to a builder.
    pub(crate) fn give_to(self, mut builder: Builder) -> Builder {
        if let Some(timeout) = self.timeout {
            builder = builder.timeout(timeout);
        }
        if let Some(durability) = self.durability {
            builder = builder.durability(durability);
        }
        if let Some(durability) = self.durability_min {
            builder = builder.durability_min(durability);
        }
        builder
            .label(self.label.unwrap_or_default())
            .journal(self.journal.unwrap_or_default())
            .wal_bytes_limit(self.wal_bytes_limit.unwrap_or(u64::MAX))
            .transaction_mode(self.transaction_mode)
    }
}

fn duration_of(seconds: f64) -> Option<Duration> {
    // As in SQLite, a negative timeout is none.
    Duration::try_from_secs_f64(if seconds < 0.0 { 0.0 } else { seconds }).ok()
}

fn durability_of(text: &str) -> Option<Durability> {
    match text {
        "full" => Some(Durability::Full),
        "normal" => Some(Durability::Normal),
        _ => None,
    }
}

fn journal_of(text: &str) -> Option<Journal> {
    match text {
        "wal" => Some(Journal::Wal),
        "keep" => Some(Journal::Keep),
        _ => None,
    }
}

fn transaction_mode_of(text: &str) -> Option<TransactionMode> {
    match text {
        "auto" => Some(TransactionMode::Auto),
        "optimistic" => Some(TransactionMode::Optimistic),
        "immediate" => Some(TransactionMode::Immediate),
        _ => None,
    }
}

/// Where an option may be found.
struct Places<'a> {
    /// Empty without one.
    uri: &'a [u8],
}

impl Places<'_> {
    /// `read` makes an argument of a text, `mean` what is meant by an argument.
    fn find<T, O>(
        &self,
        name: &str,
        wanted: &str,
        argument: Choice<T>,
        read: impl Fn(String) -> Option<T>,
        mean: impl Fn(T) -> Option<O>,
    ) -> PyResult<Option<O>> {
        let variable = format!("MANYHANDS_{}", name.to_ascii_uppercase());
        let (place, argument) = match (parameter_of(self.uri, name), argument) {
            (Some(text), _) => (format!("the URI's {name}"), read(text)),
            (None, Choice::Made(argument)) => (name.to_string(), Some(argument)),
            (None, Choice::Open) => match std::env::var_os(&variable) {
                Some(text) if !text.is_empty() => {
                    (variable, text.into_string().ok().and_then(read))
                }
                _ => return Ok(None),
            },
        };
        let meant = argument.and_then(mean);
        meant.map(Some).ok_or_else(|| PyValueError::new_err(format!("{place} must be {wanted}")))
    }
}

/// A parameter of a `file:` URI (<https://sqlite.org/uri.html>).
fn parameter_of(uri: &[u8], name: &str) -> Option<String> {
    let rest = uri.strip_prefix(b"file:")?;
    let without_fragment = rest.split(|byte| *byte == b'#').next()?;
    let query = without_fragment.splitn(2, |byte| *byte == b'?').nth(1)?;
    let parameters = query.split(|byte| *byte == b'&');
    let mut pairs = parameters.map(|pair| {
        let mut parts = pair.splitn(2, |byte| *byte == b'=');
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    });
    let (_, value) = pairs.find(|(key, _)| *key == name.as_bytes())?;
    Some(String::from_utf8_lossy(&decoded(value)).into_owned())
}

/// Without its percent signs.
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        let byte = (*first == b'%')
            .then(|| behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    decoded
}
