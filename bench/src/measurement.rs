//! One measurement: one engine, one task, fresh processes, a fresh file, and the check that decides whether there is a
//! figure at all.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use super::{
    circumstances::Circumstances,
    crew::{self, Work},
    endless_reader::EndlessReader,
    engine::{Effort, Engine, Tables},
    fairness::Fairness,
    fixture::{self, Told},
    job::{LongJob, Report, Task, count_error},
    latency::Latency,
    usage::WAL_FRAME_BYTES,
    wal_series::{WalSample, WalSeries},
};

/// What is measured: a line of the table, once per engine and repetition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// How the table calls it: `64 threads`.
    pub label: String,
    /// What each process does.
    pub task: Task,
    /// Worker processes.
    pub processes: usize,
}

/// The JSON line.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// Name of the workload.
    pub workload: &'static str,
    /// What was measured.
    pub cell: Cell,
    /// Name of the engine.
    pub engine: &'static str,
    /// Which repetition, from 1.
    pub repetition: usize,
    /// The figures; none if the check failed.
    pub figures: Option<Figures>,
    /// "ok", or why there are no figures.
    pub check: String,
    /// Where and how.
    pub circumstances: Circumstances,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Acknowledged operations per second.
    pub commits_per_s: f64,
    /// The seconds of that rate: the planned ones, or up to the last client's end.
    pub seconds: f64,
    /// All acknowledged operations, late ones included: what the file must hold.
    pub acknowledged: u64,
    /// Refused operations by kind.
    pub errors: BTreeMap<String, u64>,
    /// Median latency in milliseconds; with the following, for those who do not read histograms.
    pub p50_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// 99.9th percentile.
    pub p999_ms: f64,
    /// 99.99th percentile.
    pub p9999_ms: f64,
    /// Longest wait.
    pub max_ms: f64,
    /// All latencies, refused operations included.
    pub latency: Latency,
    /// `storm`: the insert alone. `web`: requests that create.
    pub insert_latency: Option<Latency>,
    /// Rows per second, where an operation writes more than one.
    pub rows_per_s: Option<f64>,
    /// Open loops only: operations that were intended before the end and had not begun by then. Their waiting until then is
    /// in the latencies.
    pub backlog: Option<u64>,
    /// What transactions took beyond running each once.
    pub effort: Effort,
    /// Retries per 100 acknowledged operations.
    pub retries_per_100: f64,
    /// `mixed` only: the long transaction.
    pub long_job: Option<LongJob>,
    /// `endless-reader` only: the reader.
    pub reader: Option<EndlessReader>,
    /// The least-served client's share of the mean.
    pub share_least: Option<f64>,
    /// The most-served client's share of the mean.
    pub share_most: Option<f64>,
    /// `web` only: CPU seconds of the process that sent the requests.
    pub generator_cpu_s: Option<f64>,
    /// CPU seconds of all workers, and of a server; of `web`, of its server alone.
    pub cpu_s: f64,
    /// Peak resident memory of the largest worker, or of a server, all its processes together.
    pub rss_peak_bytes_max: u64,
    /// Sum of the workers' peaks, pages that they share counted in each, and of a server's memory.
    pub rss_peak_bytes_sum: u64,
    /// `clients` and `storm` only: memory of all workers at their end, each shared page counted once.
    pub memory_bytes: Option<u64>,
    /// fsync and fdatasync calls of all workers, or of their server; `None` where nobody counts them.
    pub syncs: Option<u64>,
    /// The same per acknowledged operation.
    pub syncs_per_commit: Option<f64>,
    /// Bytes written to the WAL by all workers per acknowledged operation; `None` where nobody counts them.
    pub wal_bytes_per_commit: Option<f64>,
    /// The WAL's file over time.
    pub wal: Vec<WalSample>,
}

impl Measurement {
    /// Was it not done in time?
    pub fn has_stalled(&self) -> bool {
        self.check.starts_with(crew::STALLED)
    }
}

impl Figures {
    /// What a server used on behalf of its clients.
    fn add_server(&mut self, work: &Work) {
        if let Some(server) = work.server {
            self.cpu_s += server.cpu_s;
            self.syncs = server.syncs;
            let commits = self.acknowledged.max(1) as f64;
            self.syncs_per_commit = server.syncs.map(|syncs| syncs as f64 / commits);
        }
        let memory_bytes = work.server_memory_bytes.unwrap_or_default();
        self.rss_peak_bytes_max = self.rss_peak_bytes_max.max(memory_bytes);
        self.rss_peak_bytes_sum += memory_bytes;
    }
}

/// Runs one measurement in a fresh directory below `directory`, which is removed afterwards.
///
/// A failed check is part of the result. An `Err` means that nothing could be measured at all.
pub fn measure(
    workload: &'static str,
    cell: &Cell,
    engine: &dyn Engine,
    repetition: usize,
    directory: &Path,
    circumstances: &Circumstances,
) -> Result<Measurement> {
    let place = tempfile::Builder::new().prefix("manyhands-bench-").tempdir_in(directory)?;
    // An engine that cannot prepare its tables takes no figure from the others.
    let outcome = engine
        .prepare(place.path(), &fixture::schema(&cell.task))
        .context("prepare the tables")
        .and_then(|tables| {
            let (task, tables) = (&cell.task, tables.as_ref());
            let mut wal = WalSeries::of(tables.wal());
            let work =
                crew::work(engine, task, cell.processes, tables, repetition as u64, |running| {
                    wal.look(running);
                })?;
            let figures = checked_figures(task, &work, tables)?;
            Ok(Figures { wal: wal.into_samples(), ..figures })
        });
    let (figures, check) = match outcome {
        Ok(figures) => (Some(figures), "ok".to_owned()),
        Err(error) => (None, format!("{error:#}")),
    };
    let (cell, circumstances) = (cell.clone(), circumstances.clone());
    let engine = engine.name();
    Ok(Measurement { workload, cell, engine, repetition, figures, check, circumstances })
}

fn checked_figures(task: &Task, work: &Work, tables: &dyn Tables) -> Result<Figures> {
    let reports = &work.reports;
    let mut figures = figures(task, reports);
    figures.add_server(work);
    let is_in_file = match task {
        // Only the giant transactions of this workload write to the database.
        Task::Physics { limit, .. } => limit.writes_rows(),
        _ => true,
    };
    let told = Told {
        operations: match reports.iter().map(|report| report.rows).sum() {
            Some(rows) => rows,
            None if is_in_file => figures.acknowledged,
            None => 0,
        },
        ids_read_back: reports.iter().map(|report| report.ids_read_back).sum(),
        is_long_job_committed: figures.long_job.as_ref().is_some_and(|job| job.refusal.is_none()),
    };
    fixture::verify(tables, task, &told).context("check after the measurement")?;
    if let Some(reader) = figures.reader.as_ref().filter(|reader| !reader.saw_one_snapshot()) {
        bail!("the reader saw two snapshots in one transaction: last rows {:?}", reader.last_ids);
    }
    ensure!(figures.acknowledged > 0, "nothing was acknowledged; errors: {:?}", figures.errors);
    Ok(figures)
}

/// The figures of all workers together.
pub fn figures(task: &Task, reports: &[Report]) -> Figures {
    let mut latency = Latency::new();
    let mut insert_latency: Option<Latency> = None;
    let mut errors = BTreeMap::new();
    let mut effort = Effort::default();
    for report in reports {
        effort.add(report.effort);
        latency.add(&report.latency);
        if let Some(inserts) = &report.insert_latency {
            insert_latency.get_or_insert_with(Latency::new).add(inserts);
        }
        report.errors.iter().for_each(|(kind, count)| count_error(&mut errors, kind, *count));
    }
    let last_end_s = reports.iter().map(|report| report.elapsed_s).fold(0.0, f64::max);
    let seconds = task.seconds().unwrap_or(last_end_s);
    let in_time: u64 = reports.iter().map(|report| report.acknowledged_in_time).sum();
    let served: Vec<u64> =
        reports.iter().flat_map(|report| report.served.iter().copied()).collect();
    // Where all do the same number of rounds, shares say nothing.
    let fairness = task.has_shares().then(|| Fairness::of(&served)).flatten();
    let acknowledged: u64 = reports.iter().map(|report| report.acknowledged).sum();
    let commits_per_s = if seconds > 0.0 { in_time as f64 / seconds } else { 0.0 };
    let per_commit = |number: u64| number as f64 / acknowledged.max(1) as f64;
    let syncs: Option<u64> = reports.iter().map(|report| report.syncs).sum();
    let wal_frames: Option<u64> =
        reports.iter().filter_map(|report| report.wal_frames).reduce(|sum, frames| sum + frames);
    let ms = |share: f64| latency.quantile(share).as_secs_f64() * 1e3;
    Figures {
        commits_per_s,
        seconds,
        acknowledged,
        errors,
        p50_ms: ms(0.5),
        p90_ms: ms(0.9),
        p99_ms: ms(0.99),
        p999_ms: ms(0.999),
        p9999_ms: ms(0.9999),
        max_ms: latency.max().as_secs_f64() * 1e3,
        latency,
        insert_latency,
        rows_per_s: task.rows_per_operation().map(|rows| rows as f64 * commits_per_s),
        backlog: reports.iter().filter_map(|report| report.backlog).reduce(|sum, one| sum + one),
        effort,
        retries_per_100: 100.0 * effort.retries as f64 / acknowledged.max(1) as f64,
        long_job: reports.iter().find_map(|report| report.long_job.clone()),
        reader: reports.iter().find_map(|report| report.reader.clone()),
        share_least: fairness.map(|fairness| fairness.least),
        share_most: fairness.map(|fairness| fairness.most),
        generator_cpu_s: reports.iter().find_map(|report| report.generator_cpu_s),
        cpu_s: reports.iter().map(|report| report.cpu_s).sum(),
        rss_peak_bytes_max: reports.iter().map(|report| report.rss_peak_bytes).max().unwrap_or(0),
        rss_peak_bytes_sum: reports.iter().map(|report| report.rss_peak_bytes).sum(),
        memory_bytes: reports.iter().map(|report| report.proportional_bytes).sum(),
        syncs,
        syncs_per_commit: syncs.map(per_commit),
        wal_bytes_per_commit: wal_frames.map(|frames| per_commit(frames * WAL_FRAME_BYTES)),
        wal: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::ServerUsage;

    fn report(served: &[u64], elapsed_s: f64) -> Report {
        let mut latency = Latency::new();
        latency.record(Duration::from_millis(2));
        Report {
            acknowledged: served.iter().sum::<u64>() + 1,
            acknowledged_in_time: served.iter().sum(),
            errors: BTreeMap::from([("database is locked".to_owned(), 1)]),
            latency,
            served: served.to_vec(),
            elapsed_s,
            cpu_s: 0.5,
            rss_peak_bytes: 100,
            syncs: Some(3),
            wal_frames: Some(41),
            ..Report::default()
        }
    }

    /// A server's work counts as its clients': their process only asks.
    #[test]
    fn a_server_counts() {
        let mut one = figures(
            &Task::Count { threads: 1, seconds: 1.0 },
            &[report(&[10], 1.0), report(&[10], 1.0)],
        );
        one.add_server(&Work { reports: Vec::new(), server: None, server_memory_bytes: None });
        assert_eq!((one.cpu_s, one.syncs, one.rss_peak_bytes_max), (1.0, Some(6), 100));
        let server = Some(ServerUsage { cpu_s: 2.0, syncs: Some(40) });
        one.add_server(&Work { reports: Vec::new(), server, server_memory_bytes: Some(500) });
        assert_eq!((one.cpu_s, one.syncs), (3.0, Some(40)));
        assert_eq!((one.rss_peak_bytes_max, one.rss_peak_bytes_sum), (500, 700));
    }

    /// Timed work is divided by the planned seconds, a storm by the time until its last client ended.
    #[test]
    fn the_rate_and_its_seconds() {
        let reports = [report(&[10, 30], 7.0), report(&[20, 20], 4.0)];
        let timed = figures(&Task::Count { threads: 2, seconds: 4.0 }, &reports);
        assert_eq!((timed.commits_per_s, timed.acknowledged), (20.0, 82));
        assert_eq!((timed.share_least, timed.share_most), (Some(0.5), Some(1.5)));
        assert_eq!((timed.errors["database is locked"], timed.syncs), (2, Some(6)));
        assert_eq!((timed.rss_peak_bytes_max, timed.rss_peak_bytes_sum), (100, 200));
        assert_eq!(timed.wal_bytes_per_commit, Some(4_120.0));
        let storm = figures(&Task::Storm { rounds: 1, python: None }, &reports);
        assert_eq!((storm.seconds, storm.share_least), (7.0, None));
    }
}
