//! Nobody stands still because of another: writers while the WAL is cut off all the time, and beside readers that stay in
//! their transactions.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use fastrand::Rng;
use rustix::process::Signal;

use super::{Said, Scene};
use crate::shell::Session;
use crate::worker::{Act, CHECKPOINT_EVERY};

const SCHEMA: &str = "
    CREATE TABLE counter (id INTEGER PRIMARY KEY, n);
    INSERT INTO counter SELECT value, 0 FROM json_each('[1,2,3,4,5,6,7,8]');";

/// The number of the first reader, and of who checkpoints, among the processes.
const READER: i64 = 90;
const CHECKPOINTER: i64 = 99;

/// How long turns are taken: longer than the shortest timeout.
const TURNS_FOR: Duration = Duration::from_secs(4);

/// How many readers stay in their transactions.
const READERS: i64 = 2;

pub fn play_checkpoint(scene: &mut Scene<'_>) -> Result<()> {
    scene.make(SCHEMA)?;
    let (stop, by_shell, database) =
        (AtomicBool::new(false), scene.is_other_way(), scene.database.clone());
    let own = if by_shell { None } else { Some(scene.start(Act::Truncate, CHECKPOINTER, 0)?) };
    let crew = scene.crew(Act::Touch)?;
    let (said, of_shell) = std::thread::scope(|scope| {
        let shell = by_shell.then(|| scope.spawn(|| truncate_until(&stop, &database)));
        let said = scene.finish(crew);
        stop.store(true, Ordering::Relaxed);
        (said, shell.map(|it| it.join().expect("the shell's thread panicked")))
    });
    let mut checkpoints = 0;
    if let Some((count, slowest)) = of_shell.transpose()? {
        checkpoints += count;
        if slowest >= scene.timeout() {
            scene.findings.push(format!("a checkpoint of the shell took {slowest:.1?}"));
        }
    }
    if let Some(own) = own {
        checkpoints += scene.stop(own)?.number("did");
    }
    compare_sums(scene, &said?, "beside_checkpoints")?;
    scene.add("checkpoints", checkpoints);
    Ok(())
}

pub fn play_readers(scene: &mut Scene<'_>) -> Result<()> {
    scene.make(SCHEMA)?;
    let readers = (0..READERS)
        .map(|number| scene.start(Act::Linger, READER + number, 0))
        .collect::<Result<Vec<_>>>()?;
    let crew = scene.crew(Act::Touch)?;
    let said = scene.finish(crew)?;
    for reader in readers {
        let lingered = scene.stop(reader)?.number("did");
        scene.add("lingered", lingered);
    }
    compare_sums(scene, &said, "beside_readers")
}

pub fn play_turns(scene: &mut Scene<'_>) -> Result<()> {
    scene.make(SCHEMA)?;
    let mut dice = Rng::with_seed(scene.seed);
    let crew = scene.crew(Act::TakeTurns)?;
    let end = Instant::now() + TURNS_FOR;
    while Instant::now() < end {
        // In the middle of its transaction, or with the place reserved for it.
        let stopped = &crew[dice.usize(0..crew.len())].child;
        stopped.signal(Signal::STOP)?;
        std::thread::sleep(Duration::from_millis(dice.u64(0..40)));
        stopped.signal(Signal::CONT)?;
        std::thread::sleep(Duration::from_millis(dice.u64(0..200)));
    }
    let said = crew.into_iter().map(|writer| scene.stop(writer)).collect::<Result<Vec<_>>>()?;
    for of in said.iter().filter(|it| it.number("did") == 0) {
        scene.findings.push(format!("process {} never had a turn", of.number));
    }
    compare_sums(scene, &said, "turns")
}

/// Each transaction that was acknowledged has counted up once.
fn compare_sums(scene: &mut Scene<'_>, said: &[Said], figure: &'static str) -> Result<()> {
    let acknowledged: u64 = said.iter().map(|said| said.number("ack")).sum();
    let sum = scene.ask_number("SELECT sum(n) FROM counter")?;
    scene.expect_equal("the sum of the counters", sum, acknowledged);
    scene.add(figure, acknowledged);
    Ok(())
}

/// How many checkpoints there were, and how long the longest took.
fn truncate_until(stop: &AtomicBool, database: &Path) -> Result<(u64, Duration)> {
    let mut shell = Session::start(database)?;
    let (mut count, mut slowest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        shell.ask("PRAGMA wal_checkpoint(TRUNCATE)")?;
        slowest = slowest.max(began.elapsed());
        count += 1;
        std::thread::sleep(CHECKPOINT_EVERY);
    }
    Ok((count, slowest))
}
