//! Threads that write as fast as they are answered, or at a given pace: all workloads whose clients are threads.

use std::{
    sync::{
        OnceLock,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::{
    claim, endless_reader,
    endless_reader::EndlessReader,
    engine::{Client, Effort, Engine, Opened, Parameter, Refusal},
    fixture::COUNTER_ROWS,
    job::{Job, LongJob, Report, Task},
    long_job,
    pace::Pace,
    tally::{Tally, report},
    transactor::Transactor,
    usage::Usage,
    worker::{sleep_until, wait_for_start},
};
use crate::limits::WRITE_TIMEOUT;

/// The value of the short writes of `mixed`.
const SHORT_VALUE: [u8; 100] = [0x5a; 100];

/// What the clients of the process share.
struct Shift<'job> {
    job: &'job Job,
    opened: &'job dyn Opened,
    /// Set when the long transaction has ended: the clients beside it end too.
    long_job: OnceLock<LongJob>,
    reader: OnceLock<EndlessReader>,
}

/// Runs a task whose clients are threads.
pub fn run(job: &Job, engine: &dyn Engine) -> Result<Report> {
    let label = format!("worker {}", job.member);
    let opened = engine.open(&job.database, WRITE_TIMEOUT, &label).context("open the database")?;
    let shift =
        Shift { job, opened: opened.as_ref(), long_job: OnceLock::new(), reader: OnceLock::new() };
    thread::scope(|scope| {
        let (connected, connections) = channel();
        let mut starts = Vec::new();
        let mut clients = Vec::new();
        for number in 0..job.task.clients() {
            let (start, started) = channel();
            starts.push(start);
            let (shift, connected) = (&shift, connected.clone());
            clients.push(scope.spawn(move || client(shift, number, &connected, &started)));
        }
        drop(connected);
        // Returning early drops the starts, on which the clients wait: they end, and so does this scope.
        for _ in &starts {
            connections.recv().context("a client ended early")?.context("connect")?;
        }
        let start = wait_for_start()?;
        let before = Usage::now();
        for sender in starts {
            sender.send(start).context("a client ended early")?;
        }
        let mut tallies = Vec::new();
        for client in clients {
            match client.join() {
                Ok(outcome) => tallies.extend(outcome?),
                Err(_panic) => bail!("a client panicked"),
            }
        }
        let mut report = report(&tallies, start, &before)?;
        report.long_job = shift.long_job.get().cloned();
        report.reader = shift.reader.get().cloned();
        Ok(report)
    })
}

/// One client, from its connection to its tally; `None` if there was no start, and for the long transaction and the
/// reader, which are no operations of the others' kind.
fn client(
    shift: &Shift<'_>,
    number: usize,
    connected: &Sender<Result<(), Refusal>>,
    started: &Receiver<Instant>,
) -> Result<Option<Tally>> {
    let mut client = match shift.opened.connect() {
        Ok(client) => client,
        Err(refusal) => {
            // It fails only if the others are gone already.
            let _ = connected.send(Err(refusal));
            return Ok(None);
        }
    };
    let client = client.as_mut();
    if connected.send(Ok(())).is_err() {
        return Ok(None);
    }
    let Ok(start) = started.recv() else {
        return Ok(None);
    };
    sleep_until(start);
    let deadline = shift.job.task.seconds().map(|seconds| start + Duration::from_secs_f64(seconds));
    let is_over =
        |now| deadline.map_or_else(|| shift.long_job.get().is_some(), |deadline| now >= deadline);
    let mut tally = Tally::new(deadline);
    match shift.job.task {
        Task::Insert { value_bytes, threads, rate, .. } => {
            let value: Vec<u8> = (0..value_bytes).map(|index| (index ^ number) as u8).collect();
            let pace = Pace::of_client(rate, number, threads, start);
            let rounds = repeat_at(pace, client, &mut tally, is_over, |client, _, effort| {
                insert(client, &value, effort)
            });
            if let (Some(_), Some(deadline)) = (rate, deadline) {
                tally.miss(pace.missed(rounds, deadline), deadline);
            }
        }
        Task::Count { .. } => repeat(client, &mut tally, is_over, |client, round, effort| {
            let id = 1 + (number as i64 + round) % COUNTER_ROWS;
            client.write("UPDATE t SET a = a + 1 WHERE id = ?1", Parameter::Integer(id), effort)
        }),
        Task::Transact { shape, .. } => {
            let seed = shift.job.seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
            let mut transactor = Transactor::new(shape, number, seed);
            repeat(client, &mut tally, is_over, |client, round, effort| {
                transactor.run(client, round, effort)
            });
            tally.ids_read_back = transactor.ids_read_back;
        }
        Task::Mixed { threads, long_job: Some(kind), seconds } if number == threads => {
            // The only one that sets it.
            let _ = shift.long_job.set(long_job::run(client, seconds, kind));
            return Ok(None);
        }
        Task::Mixed { .. } => {
            repeat(client, &mut tally, is_over, |client, _, effort| {
                insert(client, &SHORT_VALUE, effort)
            });
        }
        Task::Claim { threads, .. } => {
            claim::run(client, 1 + (shift.job.member * threads + number) as i64, &mut tally);
        }
        Task::EndlessReader { threads, reader_seconds: Some(seconds), .. } if number == threads => {
            // The only one that sets it.
            let _ = shift.reader.set(endless_reader::run(client, shift.opened, start, seconds));
            return Ok(None);
        }
        Task::EndlessReader { .. } => {
            repeat(client, &mut tally, is_over, |client, _, effort| {
                insert(client, &[0x5a; 1_000], effort)
            });
        }
        Task::Clients { .. }
        | Task::Web { .. }
        | Task::Storm { .. }
        | Task::Physics { .. }
        | Task::Echo => {
            bail!("not a closed loop: {:?}", shift.job.task)
        }
    }
    Ok(Some(tally))
}

fn insert(client: &mut dyn Client, value: &[u8], effort: &mut Effort) -> Result<(), Refusal> {
    client.write("INSERT INTO t(v) VALUES (?1)", Parameter::Blob(value), effort)
}

/// Writes until it is over, as fast as it is answered.
fn repeat(
    client: &mut dyn Client,
    tally: &mut Tally,
    is_over: impl Fn(Instant) -> bool,
    write: impl FnMut(&mut dyn Client, i64, &mut Effort) -> Result<(), Refusal>,
) {
    repeat_at(Pace::Closed, client, tally, is_over, write);
}

/// Writes until it is over; returns how many operations it has begun.
fn repeat_at(
    pace: Pace,
    client: &mut dyn Client,
    tally: &mut Tally,
    is_over: impl Fn(Instant) -> bool,
    mut write: impl FnMut(&mut dyn Client, i64, &mut Effort) -> Result<(), Refusal>,
) -> u64 {
    // In a closed loop the next operation begins where the last one ended, so that no time goes unmeasured.
    let mut ended = Instant::now();
    let mut round = 0;
    while !tally.is_hopeless() {
        let intended = pace.intended(round, ended);
        if is_over(intended.max(ended)) {
            break;
        }
        pace.wait_until(intended);
        let outcome = write(client, round as i64, &mut tally.effort);
        ended = Instant::now();
        tally.note(ended, ended - intended, outcome);
        round += 1;
    }
    round
}
