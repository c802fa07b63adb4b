//! The worker processes of one measurement, seen from the command: hired, started together, heard, dismissed.
//!
//! One thread talks to the workers in turn; the caller's thread looks at the clock. A worker that
//! does not answer in time is killed, which ends the conversation with it. Dropping the crew kills who is left.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{Sender, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{
    engine::{Engine, ServerUsage, Tables},
    job::{Job, Message, Report, Task},
    usage,
    worker::{self, monotonic_ns},
};
use crate::limits::{
    CLAIM_WAIT_MAX, DESCRIPTORS_PER_WORKER, LONG_JOB_STRETCH_MAX, MEMORY_AFTER, OVERTIME_MAX,
    READY_WAIT_MAX, START_LEAD, START_LEAD_PER_PROCESS, STORM_WAIT_MAX, TICK,
};

/// A worker in Python.
const PYTHON_CLIENT: &str = include_str!("storm_client.py");

/// What came back.
#[derive(Debug)]
pub struct Work {
    /// One of each worker.
    pub reports: Vec<Report>,
    /// What a server beside them used from the start to their end.
    pub server: Option<ServerUsage>,
    /// That server's memory in the middle of it.
    pub server_memory_bytes: Option<u64>,
}

/// Lets `processes` workers do `task` on the tables, and returns a report of each. Meanwhile `on_tick` is told now and then how long they
/// have been running.
///
/// # Errors
/// If a worker fails or does not answer. Then nothing is known about what was acknowledged.
pub fn work(
    engine: &dyn Engine,
    task: &Task,
    processes: usize,
    tables: &dyn Tables,
    seed: u64,
    mut on_tick: impl FnMut(Duration),
) -> Result<Work> {
    let jobs = (0..processes).map(|member| Job {
        engine: engine.name().to_owned(),
        task: task.clone(),
        database: tables.database().to_owned(),
        member,
        seed: seed.wrapping_mul(1_000_003).wrapping_add(member as u64),
    });
    let (mut crew, lines) = Crew::hire(jobs)?;
    let hired = Instant::now();
    let (start_sender, starts) = channel();
    let mut server_memory_bytes = None;
    let mut killed_after = None;
    let (reports, before) = thread::scope(|scope| {
        let conversation = scope.spawn(move || converse(lines, task, tables, &start_sender));
        let mut start = None;
        // Once: it makes the kernel walk through the memory of each process.
        let memory_after = task.seconds().map_or(MEMORY_AFTER, |seconds| seconds / 2.0);
        loop {
            let is_over = conversation.is_finished();
            start = start.or_else(|| starts.try_recv().ok());
            let running = start.map(|start| Instant::now().saturating_duration_since(start));
            if let Some(running) = running.filter(|running| !running.is_zero()) {
                on_tick(running);
            }
            let is_late =
                running.map_or(hired.elapsed() > READY_WAIT_MAX, |running| running > longest(task));
            if is_over {
                break;
            }
            if is_late {
                killed_after = killed_after.or(Some(running.unwrap_or_else(|| hired.elapsed())));
                crew.kill();
            }
            if server_memory_bytes.is_none()
                && running.is_some_and(|running| running.as_secs_f64() >= memory_after)
            {
                server_memory_bytes = tables.server_memory_bytes();
            }
            thread::sleep(TICK);
        }
        match conversation.join() {
            Ok(outcome) => match killed_after {
                Some(after) => outcome.with_context(|| stalled(after)),
                None => outcome,
            },
            Err(_panic) => bail!("the conversation with the workers panicked"),
        }
    })?;
    // A server knows what a client did for certain only when that has gone.
    drop(crew);
    let server = before.zip(tables.server_usage(true)).map(|(before, after)| ServerUsage {
        cpu_s: after.cpu_s - before.cpu_s,
        syncs: before.syncs.zip(after.syncs).map(|(before, after)| after - before),
    });
    Ok(Work { reports, server, server_memory_bytes })
}

/// How the error of work that was not done in time begins.
pub const STALLED: &str = "stalled";

fn stalled(after: Duration) -> String {
    format!("{STALLED}: killed after {:.0} s", after.as_secs_f64())
}

fn longest(task: &Task) -> Duration {
    match task {
        Task::Insert { seconds, .. }
        | Task::Count { seconds, .. }
        | Task::Transact { seconds, .. }
        | Task::EndlessReader { seconds, .. }
        | Task::Clients { seconds, .. }
        | Task::Web { seconds, .. }
        | Task::Physics { seconds, .. } => Duration::from_secs_f64(*seconds) + OVERTIME_MAX,
        Task::Mixed { seconds, .. } => {
            Duration::from_secs_f64(*seconds * LONG_JOB_STRETCH_MAX) + OVERTIME_MAX
        }
        Task::Claim { .. } => CLAIM_WAIT_MAX,
        Task::Storm { .. } => STORM_WAIT_MAX,
        Task::Echo => OVERTIME_MAX,
    }
}

/// The processes, without their pipes.
struct Crew {
    workers: Vec<Child>,
}

/// The pipes to one worker.
struct Line {
    member: usize,
    process: u32,
    there: ChildStdin,
    back: BufReader<ChildStdout>,
}

impl Crew {
    fn hire(jobs: impl ExactSizeIterator<Item = Job>) -> Result<(Self, Vec<Line>)> {
        make_room_for_pipes(jobs.len() as u64)?;
        let program = std::env::current_exe().context("find this program")?;
        let mut crew = Self { workers: Vec::new() };
        let mut lines = Vec::new();
        for job in jobs {
            let line = serde_json::to_string(&job)?;
            let mut command = match &job.task {
                Task::Storm { python: Some(python), .. } => {
                    let mut command = Command::new(python);
                    command.args(["-c", PYTHON_CLIENT]);
                    command
                }
                _ => {
                    let mut command = Command::new(&program);
                    command.arg(worker::WORKER);
                    command
                }
            };
            let mut worker = command
                .arg(line)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .with_context(|| format!("start worker {}", job.member))?;
            let (there, back) = (worker.stdin.take(), worker.stdout.take());
            let process = worker.id();
            crew.workers.push(worker);
            lines.push(Line {
                member: job.member,
                process,
                there: there.context("a worker has a stdin")?,
                back: BufReader::new(back.context("a worker has a stdout")?),
            });
        }
        Ok((crew, lines))
    }

    fn kill(&mut self) {
        for worker in &mut self.workers {
            // It fails only for a worker that is gone already.
            let _ = worker.kill();
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.kill();
        for worker in &mut self.workers {
            let _ = worker.wait();
        }
    }
}

/// Waits until all are ready, gives the common start, and listens to the reports. Returns also what a server had used
/// before the start.
fn converse(
    mut lines: Vec<Line>,
    task: &Task,
    tables: &dyn Tables,
    starts: &Sender<Instant>,
) -> Result<(Vec<Report>, Option<ServerUsage>)> {
    for line in &mut lines {
        let message = line.listen()?;
        ensure!(
            matches!(message, Message::Ready),
            "worker {} said {message:?} instead of ready",
            line.member
        );
    }
    let before = tables.server_usage(false);
    let lead = START_LEAD + START_LEAD_PER_PROCESS * u32::try_from(lines.len())?;
    let start = Instant::now() + lead;
    let start_ns = monotonic_ns() + u64::try_from(lead.as_nanos())?;
    for line in &mut lines {
        writeln!(line.there, "{start_ns}")
            .with_context(|| format!("worker {} is gone", line.member))?;
    }
    // It fails only if nobody looks at the clock any more.
    let _ = starts.send(start);
    let reports = lines.iter_mut().map(|line| match line.listen()? {
        Message::Report(report) => Ok(*report),
        message => bail!("worker {} said {message:?} instead of a report", line.member),
    });
    let mut reports = reports.collect::<Result<Vec<_>>>()?;
    if matches!(task, Task::Storm { .. }) {
        // Who is done waits for the others and for the end of its line: to look now costs none of them time.
        for (report, line) in reports.iter_mut().zip(&lines) {
            report.proportional_bytes = usage::proportional_bytes_of(line.process).ok();
        }
    }
    Ok((reports, before))
}

impl Line {
    fn listen(&mut self) -> Result<Message> {
        let mut text = String::new();
        self.back
            .read_line(&mut text)
            .with_context(|| format!("listen to worker {}", self.member))?;
        ensure!(
            !text.is_empty(),
            "worker {} ended, or was killed for being late, without a word",
            self.member
        );
        let message = serde_json::from_str(&text)
            .with_context(|| format!("worker {} said {text:?}", self.member))?;
        match message {
            Message::Failed { reason } => bail!("worker {}: {reason}", self.member),
            message => Ok(message),
        }
    }
}

/// 1,000 workers need more descriptors than the usual soft limit of 1,024.
fn make_room_for_pipes(workers: u64) -> Result<()> {
    const FOR_ALL_ELSE: u64 = 64;
    let needed = workers * DESCRIPTORS_PER_WORKER + FOR_ALL_ELSE;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .with_context(|| format!("{workers} workers need {needed} open files; raise `ulimit -n`"))
}
