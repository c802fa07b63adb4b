//! One process of the workload `clients`: thousands of async tasks, each of which writes as soon as it was answered, or at
//! a given pace.
//!
//! After oldmoe's "The Write Stuff": one thread runs all tasks, as the reactor of a web server does. What an engine offers
//! to tasks is its own matter: Manyhands has a form for them; where there is none, the tasks do what an application would
//! have them do, and hand their transactions to a few threads with a connection each (`pool.rs`).

use std::{
    cell::RefCell,
    process,
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::{
    runtime::Builder,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::LocalSet,
};

use super::{
    engine::{Engine, TaskDatabase},
    job::{Job, Report},
    pace::Pace,
    pool::Pool,
    tally::{Tally, report},
    usage::{Usage, proportional_bytes_of},
    worker::{sleep_until, wait_for_start},
};
use crate::limits::{POOL_CONNECTIONS, WRITE_TIMEOUT};

/// The value that each operation inserts.
const VALUE: [u8; 100] = [0x5a; 100];
/// What each operation does, in a transaction of its own.
const INSERT: &str = "INSERT INTO t(v) VALUES (?1)";

/// What tells a task in an open loop that an instant has come: one message for each of its operations.
type Alarm = UnboundedReceiver<()>;

/// Runs a `Clients` task.
pub fn run(
    job: &Job,
    engine: &dyn Engine,
    clients: usize,
    seconds: f64,
    rate: Option<f64>,
) -> Result<Report> {
    let label = format!("worker {}", job.member);
    let opened = engine.open(&job.database, WRITE_TIMEOUT, &label).context("open the database")?;
    let database: Box<dyn TaskDatabase> = match opened.tasks().context("open the database")? {
        Some(database) => database,
        None => Box::new(Pool::open(opened.as_ref(), POOL_CONNECTIONS).context("connect")?),
    };
    let runtime = Builder::new_current_thread().build().context("start the runtime")?;
    let start = wait_for_start()?;
    let deadline = start + Duration::from_secs_f64(seconds);
    let tally = Rc::new(RefCell::new(Tally::new(Some(deadline))));
    let before = Usage::now();
    sleep_until(start);
    let paces: Vec<Pace> =
        (0..clients).map(|number| Pace::of_client(rate, number, clients, start)).collect();
    let alarms = rate.map(|rate| alarms(rate, clients, start, deadline));
    let mut alarms = alarms.into_iter().flatten();
    let database: Rc<dyn TaskDatabase> = Rc::from(database);
    let served = LocalSet::new().block_on(&runtime, async {
        let tasks: Vec<_> = paces
            .into_iter()
            .map(|pace| {
                let (database, tally) = (database.clone(), tally.clone());
                tokio::task::spawn_local(client(database, tally, pace, alarms.next(), deadline))
            })
            .collect();
        let mut served = Vec::with_capacity(tasks.len());
        for task in tasks {
            served.push(task.await.context("a client panicked")?);
        }
        anyhow::Ok(served)
    })?;
    let tally = Rc::into_inner(tally).context("a client goes on")?.into_inner();
    let mut report = report(&[tally], start, &before)?;
    report.served = served;
    report.proportional_bytes = Some(proportional_bytes_of(process::id())?);
    Ok(report)
}

/// One task; returns how many operations were acknowledged in time.
async fn client(
    database: Rc<dyn TaskDatabase>,
    tally: Rc<RefCell<Tally>>,
    pace: Pace,
    mut alarm: Option<Alarm>,
    deadline: Instant,
) -> u64 {
    let (mut served, mut round) = (0, 0);
    let mut ended = Instant::now();
    loop {
        let intended = pace.intended(round, ended);
        let mut is_over = intended.max(ended) >= deadline || tally.borrow().is_hopeless();
        if let Some(alarm) = alarm.as_mut().filter(|_alarm| !is_over) {
            let is_late = alarm.recv().await.is_none() || Instant::now() >= deadline;
            is_over = is_late;
        }
        if is_over {
            break;
        }
        let outcome = database.write(INSERT, &VALUE).await;
        ended = Instant::now();
        served += u64::from(outcome.is_ok() && ended <= deadline);
        tally.borrow_mut().note(ended, ended - intended, outcome);
        round += 1;
    }
    if alarm.is_some() {
        tally.borrow_mut().miss(pace.missed(round, deadline), deadline);
    }
    served
}

/// One for each task. A thread beside the tasks sends what they wait for: the clock of an async runtime counts
/// milliseconds.
fn alarms(rate: f64, clients: usize, start: Instant, deadline: Instant) -> Vec<Alarm> {
    let (senders, alarms): (Vec<UnboundedSender<()>>, Vec<Alarm>) =
        (0..clients).map(|_client| unbounded_channel()).unzip();
    thread::spawn(move || {
        let pace = Pace::of_client(Some(rate), 0, 1, start);
        for (operation, sender) in (0..).zip(senders.iter().cycle()) {
            let intended = pace.intended(operation, start);
            if intended >= deadline {
                return;
            }
            pace.wait_until(intended);
            // It fails only for a task that has ended before its time, because of its errors.
            let _ = sender.send(());
        }
    });
    alarms
}
