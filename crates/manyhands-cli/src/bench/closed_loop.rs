//! Threads that write as fast as they are answered: the workloads `threads`, `sizes` and `counter`, and the demo.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::{
    board::{Place, Places},
    engine::{Client, Engine, Parameter, Refusal},
    fixture::COUNTER_ROWS,
    job::{Job, Report, Task},
    tally::{Tally, report},
    usage::Usage,
    worker::{sleep_until, wait_for_start},
};
use crate::limits::WRITE_TIMEOUT;

/// What each client does in its loop.
#[derive(Clone, Copy)]
enum Step {
    Insert { value_bytes: usize },
    Count,
}

/// Runs an `Insert` or `Count` task.
pub fn run(job: &Job) -> Result<Report> {
    let (step, threads, seconds) = match job.task {
        Task::Insert { threads, value_bytes, seconds } => {
            (Step::Insert { value_bytes }, threads, seconds)
        }
        Task::Count { threads, seconds } => (Step::Count, threads, seconds),
        Task::Storm { .. } | Task::Physics { .. } | Task::Echo => {
            bail!("not a closed loop: {:?}", job.task)
        }
    };
    let seconds = Duration::from_secs_f64(seconds);
    let label = format!("worker {}", job.member);
    let engine =
        job.engine.open(&job.database, WRITE_TIMEOUT, &label).context("open the database")?;
    let places = Arc::new(Places::open(job).context("open the board")?);
    thread::scope(|scope| {
        let (connected, connections) = channel();
        let mut starts = Vec::new();
        let mut clients = Vec::new();
        for number in 0..threads {
            let (start, started) = channel();
            starts.push(start);
            let place = places.place(number);
            let (engine, connected) = (engine.as_ref(), connected.clone());
            clients.push(
                scope.spawn(move || {
                    client(engine, step, number, place, seconds, &connected, &started)
                }),
            );
        }
        drop(connected);
        // Returning early drops the starts, on which the clients wait: they end, and so does this scope.
        for _ in 0..threads {
            connections.recv().context("a client ended early")?.context("connect")?;
        }
        let start = wait_for_start(job, &places)?;
        let before = Usage::now();
        for sender in starts {
            sender.send(start).context("a client ended early")?;
        }
        let tallies: Option<Vec<Tally>> =
            clients.into_iter().map(|client| client.join().ok().flatten()).collect();
        places.tell();
        report(&tallies.context("a client panicked")?, start, &before)
    })
}

/// One client, from its connection to its tally; `None` if there was no start.
fn client<'places>(
    engine: &dyn Engine,
    step: Step,
    number: usize,
    place: &'places Place,
    seconds: Duration,
    connected: &Sender<Result<(), Refusal>>,
    started: &Receiver<Instant>,
) -> Option<Tally<'places>> {
    let mut client = match engine.connect() {
        Ok(client) => client,
        Err(refusal) => {
            connected.send(Err(refusal)).ok()?;
            return None;
        }
    };
    connected.send(Ok(())).ok()?;
    let start = started.recv().ok()?;
    sleep_until(start);
    let mut tally = Tally::new(place, Some(start + seconds));
    match step {
        Step::Insert { value_bytes } => {
            let value: Vec<u8> = (0..value_bytes).map(|index| (index ^ number) as u8).collect();
            repeat(client.as_mut(), &mut tally, start + seconds, |client, _| {
                client.write("INSERT INTO t(v) VALUES (?1)", Parameter::Blob(&value))
            });
        }
        Step::Count => repeat(client.as_mut(), &mut tally, start + seconds, |client, round| {
            let id = 1 + (number as i64 + round) % COUNTER_ROWS;
            client.write("UPDATE t SET a = a + 1 WHERE id = ?1", Parameter::Integer(id))
        }),
    }
    Some(tally)
}

/// Writes until the deadline.
fn repeat(
    client: &mut dyn Client,
    tally: &mut Tally<'_>,
    deadline: Instant,
    mut write: impl FnMut(&mut dyn Client, i64) -> Result<(), Refusal>,
) {
    let mut began = Instant::now();
    let mut round = 0;
    while began < deadline && !tally.is_hopeless() {
        let outcome = write(client, round);
        let ended = Instant::now();
        tally.note(ended, ended - began, outcome);
        // The next operation begins where this one ended, so that no time goes unmeasured.
        began = ended;
        round += 1;
    }
}
