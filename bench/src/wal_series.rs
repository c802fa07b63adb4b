//! The WAL over time, as anyone can see it from outside: the length of the file, and how often it was begun anew.
//!
//! The length alone does not tell whether the WAL grows: SQLite keeps the file and overwrites it from its beginning after
//! a complete checkpoint, and then counts up a number in the file's header.

use std::{fs::File, os::unix::fs::FileExt, path::PathBuf, time::Duration};

use serde::Serialize;

/// How the header begins, but for the last bit, and where it has its checkpoint sequence number, big endian ("The WAL
/// File Format" in <https://sqlite.org/fileformat2.html>).
const MAGIC: u32 = 0x377F_0682;
const SEQUENCE_AT: usize = 12;
const HEADER_BYTES: usize = 16;

/// The WAL at a moment; in JSON `[ms, bytes, restarts]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "[u64; 3]")]
pub struct WalSample {
    /// Milliseconds since the start.
    pub ms: u64,
    /// Length of the file.
    pub bytes: u64,
    /// The header's checkpoint sequence number: how often the WAL was begun anew.
    pub restarts: u32,
}

impl From<WalSample> for [u64; 3] {
    fn from(sample: WalSample) -> Self {
        [sample.ms, sample.bytes, sample.restarts.into()]
    }
}

/// The WAL of one measurement.
pub struct WalSeries {
    path: PathBuf,
    samples: Vec<WalSample>,
}

impl WalSeries {
    /// The WAL in this file, before its first sample.
    pub fn of(path: PathBuf) -> Self {
        Self { path, samples: Vec::new() }
    }

    /// Looks at the file; no file, as before the first write and after the last close, is no sample.
    pub fn look(&mut self, running: Duration) {
        let Ok(file) = File::open(&self.path) else { return };
        let Ok(bytes) = file.metadata().map(|metadata| metadata.len()) else { return };
        let mut header = [0; HEADER_BYTES];
        // A WAL that has no header yet was never begun anew; another engine's log has no such number.
        let is_begun = file.read_exact_at(&mut header, 0).is_ok();
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let restarts = if is_begun && word(0) & !1 == MAGIC { word(SEQUENCE_AT) } else { 0 };
        self.samples.push(WalSample { ms: running.as_millis() as u64, bytes, restarts });
    }

    /// What was seen.
    pub fn into_samples(self) -> Vec<WalSample> {
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// A WAL grows while a checkpoint cannot complete; after one that could, its length stays and its sequence number
    /// goes up.
    #[test]
    fn growth_and_restart() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let database = directory.path().join("wal.db");
        let mut series = WalSeries::of(directory.path().join("wal.db-wal"));
        series.look(Duration::ZERO);
        let connection = Connection::open(&database).expect("a new file");
        let run = |sql| connection.execute_batch(sql).expect("plain SQL");
        run("PRAGMA journal_mode=WAL; CREATE TABLE t(v)");
        series.look(Duration::from_millis(100));
        run("INSERT INTO t VALUES (randomblob(100000))");
        series.look(Duration::from_millis(200));
        run("PRAGMA wal_checkpoint; INSERT INTO t VALUES (1)");
        series.look(Duration::from_millis(300));
        let samples = series.into_samples();
        let [first, grown, restarted] = samples.as_slice() else { panic!("{samples:?}") };
        assert_eq!((first.ms, grown.ms, restarted.ms), (100, 200, 300));
        assert!(grown.bytes > first.bytes + 100_000, "{samples:?}");
        assert_eq!(restarted.bytes, grown.bytes, "the file is overwritten from its beginning");
        assert_eq!(grown.restarts, first.restarts);
        assert_eq!(restarted.restarts, first.restarts + 1);
    }
}
