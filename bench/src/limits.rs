//! Every bound of the benchmark, with its reason.

use std::time::Duration;

/// How long workers may take to start and connect: 1,000 processes on 2 busy cores need about 5 s, 1,000
/// Python interpreters about 40 s.
pub const READY_WAIT_MAX: Duration = Duration::from_secs(180);

/// What a timed measurement may take beyond its seconds: a stock writer ends its 5 s busy wait, a leader its batch. An
/// engine that takes longer has stalled, and is not waited for again.
pub const OVERTIME_MAX: Duration = Duration::from_secs(30);

/// The longest storm: 1,000 stock processes with 100 rounds each took 154 s at 650 writes/s.
pub const STORM_WAIT_MAX: Duration = Duration::from_secs(900);

/// The longest that a queue of jobs may take: 20,000 claims by stock SQLite on a disk that syncs 100 times a second.
pub const CLAIM_WAIT_MAX: Duration = Duration::from_secs(300);

/// Connections of the pool that serves a process's async tasks where an engine has no form for them: some frameworks
/// start with 5, others with 10. All but one wait for the writer's lock.
pub const POOL_CONNECTIONS: usize = 5;

/// How long a client of `web` waits for an answer: longer than the server lets one of its workers take.
pub const ANSWER_WAIT_MAX: Duration = Duration::from_secs(40);

/// How long a writer of the storm waits for its turn, as in the article that the workload comes from.
pub const STORM_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a writer waits for its turn elsewhere: the default of rusqlite and of Python's `sqlite3`.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an application waits before it runs a transaction again that found the database locked: SQLite's own busy
/// handler waits as long at its first, second, and later calls.
pub const BUSY_PAUSES: [Duration; 12] = {
    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }
    [ms(1), ms(2), ms(5), ms(10), ms(15), ms(20), ms(25), ms(25), ms(25), ms(50), ms(50), ms(100)]
};

/// How many times its planned seconds a long transaction may take: it is run again once, or computes on half a core.
pub const LONG_JOB_STRETCH_MAX: f64 = 4.0;

/// The longest pause between two rounds of the storm, as in the article.
pub const STORM_PAUSE_MAX: Duration = Duration::from_millis(100);

/// Between "all are ready" and the common start: each process must have read its start line by then.
pub const START_LEAD: Duration = Duration::from_millis(50);

/// What each further process adds to the lead: waking it on a shared core.
pub const START_LEAD_PER_PROCESS: Duration = Duration::from_micros(200);

/// When a server's memory is looked at, in seconds after the start, where no end is planned.
pub const MEMORY_AFTER: f64 = 0.5;

/// How often the command looks at the clock and at the WAL.
pub const TICK: Duration = Duration::from_millis(100);

/// A client that only ever gets errors (disk full, corrupt file) stops instead of spinning.
pub const ERRORS_IN_A_ROW_MAX: u32 = 1_000;

/// Kinds of errors that one worker counts apart; the rest is "other".
pub const ERROR_KINDS_MAX: usize = 16;

/// The highest rate of an open loop: each operation that is missed is counted with its own wait.
pub const RATE_MAX: f64 = 1e7;

/// The longest latency that is told apart from longer ones.
pub const LATENCY_MAX: Duration = Duration::from_secs(600);

/// File descriptors that a worker process costs the command: its stdin and its stdout.
pub const DESCRIPTORS_PER_WORKER: u64 = 2;
