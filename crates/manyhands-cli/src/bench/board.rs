//! Live figures: a small file in memory where each client keeps its own record, and the command reads them all.
//!
//! ```text
//! record of client n at byte 32 * n, little endian:
//!   0  commits so far
//!   8  errors so far
//!  16  worst wait so far, nanoseconds
//!  24  unused: a write of 24 bytes would be counted as a WAL frame's
//! ```
//! Only its worker writes a record, only the command reads. A torn record shows a wrong figure for a moment on the
//! screen; no result comes from here.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tempfile::NamedTempFile;

use super::job::Job;

const RECORD_BYTES: usize = 32;

/// The command's side.
pub struct Board {
    file: NamedTempFile,
    clients: usize,
}

/// The sum over all clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Acknowledged operations.
    pub commits: u64,
    /// Refused operations.
    pub errors: u64,
    /// The longest wait of any client.
    pub worst: Duration,
}

impl Board {
    /// An empty board. It lies in `/dev/shm` where there is one: on a disk, its writes would disturb the syncs.
    pub fn new(clients: usize) -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let file = NamedTempFile::with_prefix_in("manyhands-board-", directory)?;
        file.as_file().set_len((clients * RECORD_BYTES) as u64)?;
        Ok(Self { file, clients })
    }

    /// Where the workers find it.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The sum over all clients as of now.
    pub fn totals(&self) -> io::Result<Totals> {
        let mut bytes = vec![0; self.clients * RECORD_BYTES];
        self.file.as_file().read_exact_at(&mut bytes, 0)?;
        Ok(bytes.chunks_exact(RECORD_BYTES).fold(Totals::default(), |sum, record| {
            let [commits, errors, worst_ns] = decode(record);
            Totals {
                commits: sum.commits + commits,
                errors: sum.errors + errors,
                worst: sum.worst.max(Duration::from_nanos(worst_ns)),
            }
        }))
    }
}

/// A worker's side: where its clients count, and what it copies to the board from time to time.
///
/// Counting is one store to memory of the client's own, so that showing progress costs nothing measurable.
pub struct Places {
    places: Vec<Place>,
    file: File,
    offset: u64,
}

/// Where one client counts. Aligned so that no two clients share a cache line.
#[derive(Default)]
#[repr(align(128))]
pub struct Place {
    commits: AtomicU64,
    errors: AtomicU64,
    worst_ns: AtomicU64,
}

impl Places {
    /// The records of a worker's clients.
    pub fn open(job: &Job) -> io::Result<Self> {
        let clients = job.task.clients();
        Ok(Self {
            places: (0..clients).map(|_| Place::default()).collect(),
            file: OpenOptions::new().write(true).open(&job.board)?,
            offset: (job.member * clients * RECORD_BYTES) as u64,
        })
    }

    /// The place of one client.
    pub fn place(&self, client: usize) -> &Place {
        &self.places[client]
    }

    /// Copies all to the board.
    pub fn tell(&self) {
        let records: Vec<u8> = self.places.iter().flat_map(Place::record).collect();
        // Only the screen depends on it: a measurement does not fail because its progress could not be shown.
        let _ = self.file.write_all_at(&records, self.offset);
    }
}

impl Place {
    /// Tells what the client did so far.
    pub fn set(&self, totals: Totals) {
        // Relaxed: three figures for a screen, each of which may be from a different moment.
        self.commits.store(totals.commits, Ordering::Relaxed);
        self.errors.store(totals.errors, Ordering::Relaxed);
        let worst_ns = u64::try_from(totals.worst.as_nanos()).unwrap_or(u64::MAX);
        self.worst_ns.store(worst_ns, Ordering::Relaxed);
    }

    fn record(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        for (place, number) in
            bytes.chunks_exact_mut(8).zip([&self.commits, &self.errors, &self.worst_ns])
        {
            place.copy_from_slice(&number.load(Ordering::Relaxed).to_le_bytes());
        }
        bytes
    }
}

fn decode(record: &[u8]) -> [u64; 3] {
    let mut numbers = [0; 3];
    for (number, bytes) in numbers.iter_mut().zip(record.chunks_exact(8)) {
        *number = u64::from_le_bytes(bytes.try_into().expect("chunks of 8 bytes"));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::job::Task;

    /// Commits and errors add up, waits do not: the worst one counts.
    #[test]
    fn totals_over_processes_and_clients() {
        let board = Board::new(2 * 2).expect("a temporary file");
        for (member, ms) in [(0, 5), (1, 7)] {
            let job = Job {
                engine: "stock".to_owned(),
                task: Task::Count { threads: 2, seconds: 1.0 },
                database: "unused".into(),
                board: board.path().to_owned(),
                board_interval_ms: 200,
                member,
                seed: 1,
            };
            let places = Places::open(&job).expect("the board exists");
            places.place(1).set(Totals {
                commits: 10,
                errors: 1,
                worst: Duration::from_millis(ms),
            });
            places.tell();
        }
        let expected = Totals { commits: 20, errors: 2, worst: Duration::from_millis(7) };
        assert_eq!(board.totals().expect("readable"), expected);
    }
}
