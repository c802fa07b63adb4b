//! What a worker's thread writes into its log: before a COMMIT what was seen, after it how it ended.
//!
//! One file per thread, which only grows: a length of four bytes, then the record. The kernel keeps what
//! a killed process has written; half a record at the end was cut by death.

use std::borrow::Cow;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::call::{Call, Seen};
use super::dice::{Id, Kind};

/// One entry.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Entry<'a> {
    Intent {
        id: Id,
        kind: Kind,
        began_ns: u64,
        calls: Cow<'a, [Call]>,
        seen: Cow<'a, [Seen]>,
    },
    /// Of the intent before it; what autocommits and batches saw, they see here.
    End {
        ns: u64,
        end: End,
        seen: Vec<Seen>,
    },
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// Commit returned success.
    Committed,
    Conflict(String),
    /// Its own wish.
    RolledBack,
    /// Others had changed what it had read, before its first write.
    Stale,
    /// COMMIT violated a constraint.
    Violated(String),
    /// The engine does not know, and says so.
    Unknown,
    /// An error that nobody should see.
    Failed(String),
}

/// A transaction, as its worker tells it.
#[derive(Clone, Debug)]
pub struct Told {
    pub id: Id,
    pub kind: Kind,
    pub began_ns: u64,
    /// When its end was known, and which; `None` when the worker died.
    pub end: Option<(u64, End)>,
    pub calls: Vec<Call>,
    /// One for each call; none at all if it was killed before it looked.
    pub seen: Vec<Seen>,
}

/// A thread's log.
pub struct Log {
    file: File,
    buffer: Vec<u8>,
}

impl Log {
    pub fn create(path: &Path) -> Result<Log> {
        let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
        Ok(Log { file, buffer: Vec::new() })
    }

    pub fn intend(
        &mut self,
        id: Id,
        kind: Kind,
        began_ns: u64,
        calls: &[Call],
        seen: &[Seen],
    ) -> Result<()> {
        let (calls, seen) = (Cow::Borrowed(calls), Cow::Borrowed(seen));
        self.append(&Entry::Intent { id, kind, began_ns, calls, seen })
    }

    pub fn end(&mut self, ns: u64, end: End, seen: Vec<Seen>) -> Result<()> {
        self.append(&Entry::End { ns, end, seen })
    }

    /// Adds a record of any kind.
    pub fn append(&mut self, entry: &impl Serialize) -> Result<()> {
        self.buffer.clear();
        self.buffer.extend([0; 4]);
        let mut buffer = postcard::to_extend(entry, std::mem::take(&mut self.buffer))?;
        let length = u32::try_from(buffer.len() - 4).context("a record is short")?;
        buffer[..4].copy_from_slice(&length.to_le_bytes());
        self.file.write_all(&buffer).context("write the log")?;
        self.buffer = buffer;
        Ok(())
    }
}

/// All records of a log.
pub fn records<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let (mut rest, mut records) = (bytes.as_slice(), Vec::new());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some((record, after)) = after.split_at_checked(length) else { break };
        rest = after;
        records.push(postcard::from_bytes(record).context("a record of the log")?);
    }
    Ok(records)
}

/// All transactions of a log.
pub fn read(path: &Path) -> Result<Vec<Told>> {
    let mut told: Vec<Told> = Vec::new();
    for entry in records(path)? {
        match entry {
            Entry::Intent { id, kind, began_ns, calls, seen } => {
                let (calls, seen) = (calls.into_owned(), seen.into_owned());
                told.push(Told { id, kind, began_ns, end: None, calls, seen });
            }
            Entry::End { ns, end, seen } => {
                let last = told.last_mut().context("an end without an intent")?;
                last.end = Some((ns, end));
                if !seen.is_empty() {
                    last.seen = seen;
                }
            }
        }
    }
    Ok(told)
}
