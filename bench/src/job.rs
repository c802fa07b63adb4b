//! What the command and a worker process say to each other, one JSON line each.
//!
//! | step | who | line |
//! |---|---|---|
//! | 1 | command | the [`Job`], as the argument behind `worker` |
//! | 2 | worker | [`Message::Ready`] on stdout, when all its clients are connected, or [`Message::Failed`] |
//! | 3 | command | the start, in nanoseconds of the machine's monotonic clock, on the worker's stdin |
//! | 4 | worker | [`Message::Report`] on stdout, then it ends |
//!
//! The end of stdin at any time means that the command is gone: the worker ends at once.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    endless_reader::EndlessReader,
    engine::Effort,
    latency::Latency,
    think::{Think, ThinkKind},
    transactor::THINK_ROWS,
};
use crate::limits::ERROR_KINDS_MAX;

/// All that a worker process needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Name of the engine to write through.
    pub engine: String,
    /// What to do.
    pub task: Task,
    /// The database file; the command has created its tables.
    pub database: PathBuf,
    /// Which of the measurement's processes this is, from 0.
    pub member: usize,
    /// Seed of the pauses.
    pub seed: u64,
}

/// What one worker process does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Task {
    /// Each thread inserts rows as fast as it can.
    Insert {
        /// Threads in this process, one connection each.
        threads: usize,
        /// Size of the inserted value.
        value_bytes: usize,
        /// How long.
        seconds: f64,
        /// Operations that are intended per second; `None`: each thread's next one when the last has ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<f64>,
    },
    /// Each thread adds one to rows that all share.
    Count {
        /// Threads in this process, one connection each.
        threads: usize,
        /// How long.
        seconds: f64,
    },
    /// Each thread runs transactions of several statements, as fast as it can.
    Transact {
        /// Threads in this process, one connection each.
        threads: usize,
        /// What a transaction does.
        shape: Shape,
        /// How long.
        seconds: f64,
    },
    /// Each thread inserts rows as fast as it can, beside one long transaction or alone.
    Mixed {
        /// Threads in this process that insert.
        threads: usize,
        /// How the long transaction thinks; `None` if there is none.
        long_job: Option<ThinkKind>,
        /// How long it thinks: the threads insert until it has ended, or for as long.
        seconds: f64,
    },
    /// Each thread claims jobs until none is left.
    Claim {
        /// Threads in this process, one connection each.
        threads: usize,
        /// Jobs in the table, for all processes together.
        jobs: i64,
    },
    /// Each thread inserts rows as fast as it can, beside a reader that keeps its transaction open, or alone.
    EndlessReader {
        /// Threads in this process that insert.
        threads: usize,
        /// How long the reader reads; `None` if there is none.
        reader_seconds: Option<f64>,
        /// How long the threads insert.
        seconds: f64,
    },
    /// Async tasks of one thread insert rows.
    Clients {
        /// Tasks in this process.
        clients: usize,
        /// How long.
        seconds: f64,
        /// Operations of this process that are intended per second; `None`: each task's next one when the last has ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<f64>,
    },
    /// Threads send requests to a server that they started.
    Web {
        /// The interpreter of the server.
        python: PathBuf,
        /// Processes of the server.
        workers: usize,
        /// Threads in this process, one request at once each.
        clients: usize,
        /// How long.
        seconds: f64,
    },
    /// Open, insert, close, pause, again.
    Storm {
        /// How often.
        rounds: u32,
        /// The interpreter, if the processes are Python's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        python: Option<PathBuf>,
    },
    /// What the machine can do at best.
    Physics {
        /// Which limit.
        limit: Limit,
        /// How long.
        seconds: f64,
    },
    /// The other end of a pipe: sends every byte back.
    Echo,
}

impl Task {
    /// Threads with a tally of their own in one worker process.
    pub fn clients(&self) -> usize {
        match self {
            Self::Insert { threads, .. }
            | Self::Count { threads, .. }
            | Self::Transact { threads, .. }
            | Self::Claim { threads, .. }
            | Self::Web { clients: threads, .. } => *threads,
            Self::EndlessReader { threads, reader_seconds, .. } => {
                threads + usize::from(reader_seconds.is_some())
            }
            // Its tasks share a thread.
            Self::Clients { .. } => 1,
            Self::Mixed { threads, long_job, .. } => threads + usize::from(long_job.is_some()),
            Self::Storm { .. } | Self::Physics { .. } | Self::Echo => 1,
        }
    }

    /// The planned seconds; `None` if the amount of work ends the task.
    pub fn seconds(&self) -> Option<f64> {
        match self {
            Self::Insert { seconds, .. }
            | Self::Count { seconds, .. }
            | Self::Transact { seconds, .. }
            | Self::EndlessReader { seconds, .. }
            | Self::Clients { seconds, .. }
            | Self::Web { seconds, .. }
            | Self::Mixed { seconds, long_job: None, .. } => Some(*seconds),
            Self::Mixed { .. } => None,
            // A giant transaction commits after its time: the rate counts up to the end of the commit.
            Self::Claim { .. } | Self::Storm { .. } | Self::Physics { .. } | Self::Echo => None,
        }
    }

    /// Does a client that is served faster do more? Else shares say nothing.
    pub fn has_shares(&self) -> bool {
        self.seconds().is_some() || matches!(self, Self::Claim { .. })
    }

    /// Rows that an operation writes, where that is more than one.
    pub fn rows_per_operation(&self) -> Option<i64> {
        let is_think = matches!(self, Self::Transact { shape: Shape::Think { .. }, .. });
        is_think.then_some(THINK_ROWS)
    }
}

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Shape {
    /// It thinks, and then inserts rows.
    Think {
        /// For how long.
        think: Think,
    },
    /// It reads two balances, thinks, and writes both.
    Transfer {
        /// Accounts to choose from.
        accounts: i64,
        /// For how long.
        think: Think,
    },
    /// It adds one to a row that all share.
    Count,
    /// It reads from tables that nobody writes, inserts a row and reads its id back, adds one to a row that all share.
    Orm,
}

/// A physical limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Append 4 KiB, fdatasync.
    SyncAppend,
    /// Overwrite 4 KiB, fdatasync.
    SyncOverwrite,
    /// Rows of 20 B in one stock transaction.
    GiantSmallRows,
    /// Rows of 1 KB in one stock transaction.
    GiantLargeRows,
    /// A byte to another process and back.
    PipeRoundTrip,
    /// A futex wake-up to another thread and back.
    FutexRoundTrip,
}

impl Limit {
    /// Do its operations add rows to the database?
    pub fn writes_rows(self) -> bool {
        matches!(self, Self::GiantSmallRows | Self::GiantLargeRows)
    }
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
pub enum Message {
    /// All clients are connected and wait for the start.
    Ready,
    /// The work is done.
    Report(Box<Report>),
    /// The work could not be done.
    Failed {
        /// Why.
        reason: String,
    },
}

/// How the long transaction of `mixed` ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LongJob {
    /// Why it was not committed; `None` if it was.
    pub refusal: Option<String>,
    /// How often it was run again.
    pub retries: u64,
    /// From its beginning to its end, all runs.
    pub elapsed_s: f64,
}

/// What a worker did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Operations that the engine acknowledged.
    pub acknowledged: u64,
    /// Those of them that ended within the planned seconds.
    pub acknowledged_in_time: u64,
    /// Operations that it refused, by kind.
    pub errors: BTreeMap<String, u64>,
    /// How long operations took, refused ones included: their clients waited too.
    pub latency: Latency,
    /// `storm`: the insert alone. `web`: requests that create.
    pub insert_latency: Option<Latency>,
    /// What transactions took beyond running each once.
    pub effort: Effort,
    /// `orm`: the sum of id x mark over acknowledged inserts, with the ids that the clients read back. `claim`: of id x owner
    /// over claimed jobs. `web`: of the ids that the server told.
    pub ids_read_back: i64,
    /// `mixed` only: the long transaction.
    pub long_job: Option<LongJob>,
    /// `web` only: how many of the operations were to add a row.
    pub rows: Option<u64>,
    /// `web` only: CPU time of the process that sent the requests; the rest is the server's.
    pub generator_cpu_s: Option<f64>,
    /// `endless-reader` only: the reader.
    pub reader: Option<EndlessReader>,
    /// Acknowledged in time, per client.
    pub served: Vec<u64>,
    /// When the last client ended, in seconds after the start.
    pub elapsed_s: f64,
    /// CPU time of the worker from the start line to the end, user and system.
    pub cpu_s: f64,
    /// Peak resident memory of the worker.
    pub rss_peak_bytes: u64,
    /// Memory of the worker at its end, with pages that it shares with others by its part; `None` where nobody looked.
    pub proportional_bytes: Option<u64>,
    /// Calls of fsync and fdatasync; `None` where nobody counts them.
    pub syncs: Option<u64>,
    /// Open loops only: operations that were intended before the end and had not begun by then.
    pub backlog: Option<u64>,
    /// Frames written to the WAL; `None` where nobody counts them.
    pub wal_frames: Option<u64>,
}

/// Counts one more error; kinds beyond the limit are "other".
pub fn count_error(errors: &mut BTreeMap<String, u64>, kind: &str, count: u64) {
    let is_known = errors.contains_key(kind) || errors.len() < ERROR_KINDS_MAX;
    *errors.entry(if is_known { kind } else { "other" }.to_owned()).or_default() += count;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker gets exactly the job that the command meant.
    #[test]
    fn a_job_survives_its_line() {
        let task = Task::Insert { threads: 8, value_bytes: 1024, seconds: 2.5, rate: None };
        let job = Job {
            engine: "stock-mutex-normal".to_owned(),
            task: task.clone(),
            database: "/data/a b.db".into(),
            member: 7,
            seed: 42,
        };
        let line = serde_json::to_string(&job).expect("a job is plain JSON");
        let received: Job = serde_json::from_str(&line).expect("our own line");
        assert_eq!((received.task, received.engine, received.member), (task, job.engine, 7));
    }

    /// An engine that puts row numbers into its messages must not fill the memory with kinds.
    #[test]
    fn kinds_of_errors_are_bounded() {
        let mut errors = BTreeMap::new();
        (0..100).for_each(|number| count_error(&mut errors, &format!("error {number}"), 1));
        count_error(&mut errors, "error 3", 1);
        assert_eq!(errors.len(), ERROR_KINDS_MAX + 1);
        assert_eq!(errors["error 3"], 2);
        assert_eq!(errors.values().sum::<u64>(), 101);
    }
}
