//! What a worker process used: CPU time, memory, syncs, WAL frames. Read by the worker itself, so that neither its start nor its
//! connections count.

use std::fs;

use anyhow::{Context, Result};
use rustix::{
    param::clock_ticks_per_second,
    time::{ClockId, clock_gettime},
};

/// A frame of a WAL: its header, and a page of the size that SQLite gives a new file.
pub const WAL_FRAME_BYTES: u64 = 24 + 4096;

/// Readings that only grow.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    cpu_s: f64,
    syncs: u64,
    wal_frames: u64,
}

impl Usage {
    /// As of now.
    pub fn now() -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Self {
            cpu_s: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            syncs: manyhands_sqlite::sync_count::syncs(),
            wal_frames: manyhands_sqlite::sync_count::wal_frames(),
        }
    }

    /// CPU seconds, user and system, between an earlier reading and this one.
    pub fn cpu_s_since(&self, earlier: &Self) -> f64 {
        self.cpu_s - earlier.cpu_s
    }

    /// Syncs between an earlier reading and this one.
    pub fn syncs_since(&self, earlier: &Self) -> u64 {
        self.syncs - earlier.syncs
    }

    /// WAL frames between an earlier reading and this one.
    pub fn wal_frames_since(&self, earlier: &Self) -> u64 {
        self.wal_frames - earlier.wal_frames
    }
}

/// Peak resident memory of this process.
pub fn rss_peak_bytes() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("read /proc/self/status")?;
    rss_peak_bytes_in(&status).context("no VmHWM in /proc/self/status")
}

/// The same of another process.
pub fn rss_peak_bytes_of(process: u32) -> Result<u64> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    rss_peak_bytes_in(&status).with_context(|| format!("no VmHWM in {path}"))
}

/// CPU seconds of another process so far, user and system.
pub fn cpu_s_of(process: u32) -> Result<f64> {
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let ticks = cpu_ticks_in(&stat).with_context(|| format!("no CPU time in {path}"))?;
    Ok(ticks as f64 / clock_ticks_per_second() as f64)
}

/// Fields 14 and 15 of proc(5); the second is a name in brackets, with any characters.
fn cpu_ticks_in(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(") ")?;
    let mut fields = behind_name.split(' ').skip(14 - 3);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// Memory of a process as of now; of a page that others have too, only its part counts.
pub fn proportional_bytes_of(process: u32) -> Result<u64> {
    let path = format!("/proc/{process}/smaps_rollup");
    let rollup = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    kilobytes_in(&rollup, "Pss:").with_context(|| format!("no Pss in {path}"))
}

fn rss_peak_bytes_in(status: &str) -> Option<u64> {
    kilobytes_in(status, "VmHWM:")
}

fn kilobytes_in(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's format, as documented in proc(5).
    #[test]
    fn peak_memory_from_the_kernels_lines() {
        assert_eq!(
            rss_peak_bytes_in("Name:\tx\nVmHWM:\t    5120 kB\nVmRSS:\t 1 kB\n"),
            Some(5120 * 1024)
        );
        assert_eq!(rss_peak_bytes_in("Name:\tx\n"), None);
    }

    /// As documented in proc(5): a name may hold what looks like its end.
    #[test]
    fn cpu_time_from_the_kernels_line() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 90 0 0 0 40 2 5 6 20 0 1 0";
        assert_eq!(cpu_ticks_in(stat), Some(42));
        assert_eq!(cpu_ticks_in("7"), None);
        assert!(cpu_s_of(std::process::id()).expect("we live") >= 0.0);
    }

    /// Every sync of the process counts, the standard library's too: else a column of zeros would look like a success.
    #[test]
    fn syncs_are_counted() {
        let before = Usage::now();
        tempfile::tempfile().and_then(|file| file.sync_data()).expect("a temporary file");
        assert!(Usage::now().syncs_since(&before) >= 1);
    }

    /// The library's frames are counted where it writes them: the file has as many, behind its header of 32 bytes.
    #[test]
    fn wal_frames_are_counted() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let connection = rusqlite::Connection::open(directory.path().join("x.db")).expect("new");
        connection.execute_batch("PRAGMA journal_mode=WAL").expect("plain SQL");
        let before = Usage::now();
        connection.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES (1)").expect("plain SQL");
        let counted = Usage::now().wal_frames_since(&before);
        let bytes = fs::metadata(directory.path().join("x.db-wal")).expect("it is open").len();
        let frames = (bytes - 32) / WAL_FRAME_BYTES;
        assert!(frames >= 3 && counted >= frames, "{counted} counted, {frames} in the file");
    }

    /// CPU time grows with work.
    #[test]
    fn cpu_time_grows() {
        let before = Usage::now();
        std::hint::black_box(
            (0..1_000_000_u64).fold(0, |sum, number| sum ^ std::hint::black_box(number)),
        );
        assert!(Usage::now().cpu_s_since(&before) > 0.0);
    }
}
