//! A worker process: the hidden `worker` subcommand. Connects, says that it is ready, waits for the common start, does
//! its task, reports, ends. The conversation is drawn in `job.rs`.

use std::{
    io::{self, BufRead, Write},
    process::{self, ExitCode},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    time::{ClockId, Timespec, clock_gettime},
};

use super::{
    board::Places,
    clients, closed_loop,
    engines::Engines,
    job::{Job, Message, Task},
    physics, storm, web,
};

/// What a worker exits with when the command is gone.
const ABANDONED: i32 = 3;

/// Runs the job that the command gave as JSON, on one of the engines that both know: they are the same program.
pub fn run(job: &str, engines: &Engines) -> Result<ExitCode> {
    let job: Job = serde_json::from_str(job)
        .context("`manyhands worker` is started by bench and demo only")?;
    let engine = engines.find(&job.engine)?;
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
/// From then on a thread beside the clients copies their counts to the board, and ends the process when the command is
/// gone: no worker outlives the command that started it.
pub fn wait_for_start(job: &Job, places: &Arc<Places>) -> Result<Instant> {
    say(&Message::Ready)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).context("read the start line")?;
    if line.is_empty() {
        process::exit(ABANDONED);
    }
    let start_ns: u64 = line.trim().parse().context("the start line is not a number")?;
    let (interval, places) = (Duration::from_millis(job.board_interval_ms), places.clone());
    thread::spawn(move || attend(interval, &places));
    Ok(Instant::now() + Duration::from_nanos(start_ns.saturating_sub(monotonic_ns())))
}

/// Tells the board until stdin, on which nothing more is said, ends.
fn attend(interval: Duration, places: &Places) {
    let stdin = io::stdin();
    let interval =
        Timespec { tv_sec: interval.as_secs() as i64, tv_nsec: i64::from(interval.subsec_nanos()) };
    loop {
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&interval)) {
            Ok(0) => places.tell(),
            Err(Errno::INTR) => (),
            Ok(_) | Err(_) => process::exit(ABANDONED),
        }
    }
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
