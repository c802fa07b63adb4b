//! A worker process, which the command starts with `worker` and a job. Connects, says that it is ready, waits for the common start, does
//! its task, reports, ends. The conversation is drawn in `job.rs`.

use std::{
    io::{self, BufRead, Write},
    process::{self, ExitCode},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

use super::{
    clients, closed_loop,
    engines::Engines,
    job::{Job, Message, Task},
    physics, slow_sync, storm, web,
};

/// What the command calls a worker with.
pub const WORKER: &str = "worker";

/// What a worker exits with when the command is gone.
const ABANDONED: i32 = 3;

/// Runs the job that the command gave as JSON, on one of the engines that both know: they are the same program.
pub fn run(job: &str, engines: &Engines) -> Result<ExitCode> {
    let job: Job = serde_json::from_str(job).context("a worker is started by the command only")?;
    let engine = engines.find(&job.engine)?;
    slow_sync::join();
    let outcome = match job.task {
        Task::Insert { .. }
        | Task::Count { .. }
        | Task::Transact { .. }
        | Task::Claim { .. }
        | Task::EndlessReader { .. }
        | Task::Mixed { .. } => closed_loop::run(&job, engine),
        Task::Clients { clients, seconds, rate } => {
            clients::run(&job, engine, clients, seconds, rate)
        }
        Task::Web { ref python, workers, clients, seconds } => {
            web::run(&job, python, workers, clients, seconds)
        }
        Task::Storm { rounds, .. } => storm::run(&job, engine, rounds),
        Task::Physics { limit, seconds } => physics::run(&job, limit, seconds),
        Task::Echo => return physics::echo().map(|()| ExitCode::SUCCESS),
    };
    match outcome {
        Ok(report) => say(&Message::Report(Box::new(report)))?,
        Err(error) => say(&Message::Failed { reason: format!("{error:#}") })?,
    }
    if matches!(job.task, Task::Storm { .. }) {
        // Until the others are done too: a process that ends takes more time than several rounds, on whatever
        // engine. The command kills us, or our stdin ends.
        io::copy(&mut io::stdin(), &mut io::sink()).context("wait for the command")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Says that this worker is ready, and returns the instant at which all workers start.
///
/// From then on a thread beside the clients ends the process when the command is gone: no worker outlives the command that
/// started it.
pub fn wait_for_start() -> Result<Instant> {
    say(&Message::Ready)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).context("read the start line")?;
    if line.is_empty() {
        process::exit(ABANDONED);
    }
    let start_ns: u64 = line.trim().parse().context("the start line is not a number")?;
    thread::spawn(end_with_stdin);
    Ok(Instant::now() + Duration::from_nanos(start_ns.saturating_sub(monotonic_ns())))
}

/// Ends the process when stdin, on which nothing more is said, ends.
fn end_with_stdin() {
    // Whatever was said, or went wrong: the conversation is over.
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    process::exit(ABANDONED);
}

/// The monotonic clock that all processes of the machine share.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps until the common start.
pub fn sleep_until(instant: Instant) {
    thread::sleep(instant.saturating_duration_since(Instant::now()));
}

fn say(message: &Message) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&line).and_then(|()| stdout.flush()).context("the command is gone")
}
