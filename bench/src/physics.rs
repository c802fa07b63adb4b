//! The workload `limits`: what the machine can do at best, without any engine in the way.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::FileExt,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rusqlite::Connection;
use rustix::thread::futex;

use super::{
    engine::Refusal,
    job::{Job, Limit, Report, Task},
    tally::{Tally, report},
    usage::Usage,
    worker::{self, sleep_until, wait_for_start},
};

const BLOCK: [u8; 4096] = [0x5a; 4096];
/// Overwrites walk over a file of 4 MiB, like a WAL of SQLite's default size.
const OVERWRITE_BLOCKS: u64 = 1024;

/// Runs a `Physics` task.
pub fn run(job: &Job, limit: Limit, seconds: f64) -> Result<Report> {
    match limit {
        Limit::SyncAppend => {
            let file = File::create(job.database.with_extension("append"))?;
            measure(seconds, |round| append(&file, round))
        }
        Limit::SyncOverwrite => {
            let file = OpenOptions::new()
                .create_new(true)
                .write(true)
                .open(job.database.with_extension("overwrite"))?;
            for block in 0..OVERWRITE_BLOCKS {
                file.write_all_at(&BLOCK, block * BLOCK.len() as u64)?;
            }
            file.sync_all()?;
            measure(seconds, |round| append(&file, round % OVERWRITE_BLOCKS))
        }
        Limit::GiantSmallRows => giant_transaction(job, 20, seconds),
        Limit::GiantLargeRows => giant_transaction(job, 1024, seconds),
        Limit::PipeRoundTrip => pipe_round_trip(job, seconds),
        Limit::FutexRoundTrip => futex_round_trip(seconds),
    }
}

/// Sends every byte of stdin back: the other process of the pipe round trip.
pub fn echo() -> Result<()> {
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let mut byte = [0];
    while stdin.read(&mut byte)? == 1 {
        stdout.write_all(&byte)?;
        stdout.flush()?;
    }
    Ok(())
}

fn append(file: &File, block: u64) -> Result<()> {
    file.write_all_at(&BLOCK, block * BLOCK.len() as u64)?;
    Ok(file.sync_data()?)
}

/// Repeats an operation for the given time.
fn measure(seconds: f64, mut operation: impl FnMut(u64) -> Result<()>) -> Result<Report> {
    let start = wait_for_start()?;
    let before = Usage::now();
    sleep_until(start);
    let deadline = start + Duration::from_secs_f64(seconds);
    let mut tally = Tally::new(None);
    let mut began = Instant::now();
    let mut round = 0;
    while began < deadline && !tally.is_hopeless() {
        let outcome = operation(round).map_err(|error| Refusal(format!("{error:#}")));
        let ended = Instant::now();
        tally.note(ended, ended - began, outcome);
        began = ended;
        round += 1;
    }
    report(&[tally], start, &before)
}

/// Rows per second of one transaction; its commit counts as time, not as a row.
fn giant_transaction(job: &Job, value_bytes: usize, seconds: f64) -> Result<Report> {
    let connection = Connection::open(&job.database)?;
    let value = vec![0x5a_u8; value_bytes];
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let mut commit_start = Instant::now();
    let mut report = measure(seconds, |_round| {
        connection.prepare_cached("INSERT INTO t(v) VALUES (?1)")?.execute((&value,))?;
        commit_start = Instant::now();
        Ok(())
    })?;
    connection.execute_batch("COMMIT")?;
    report.elapsed_s += commit_start.elapsed().as_secs_f64();
    Ok(report)
}

fn pipe_round_trip(job: &Job, seconds: f64) -> Result<Report> {
    let echo = Job { task: Task::Echo, ..job.clone() };
    let mut child = Command::new(std::env::current_exe()?)
        .args([worker::WORKER, &serde_json::to_string(&echo)?])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("start the other process")?;
    let mut there = child.stdin.take().context("the child has a stdin")?;
    let mut back = child.stdout.take().context("the child has a stdout")?;
    let report = measure(seconds, |_round| {
        there.write_all(&[1])?;
        Ok(back.read_exact(&mut [0])?)
    });
    // The end of its stdin ends the other process.
    drop(there);
    child.wait()?;
    report
}

/// Two threads wake each other: `turn` is even when this thread may go on, odd when the other one may.
fn futex_round_trip(seconds: f64) -> Result<Report> {
    let turn = AtomicU32::new(0);
    const END: u32 = u32::MAX;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut seen = 0;
            loop {
                seen = wait_for_change(&turn, seen);
                if seen == END {
                    return;
                }
                seen += 1;
                // The end may come meanwhile: it must not be overwritten.
                if turn
                    .compare_exchange(seen - 1, seen, Ordering::AcqRel, Ordering::Acquire)
                    .is_err()
                {
                    return;
                }
                let _ = futex::wake(&turn, futex::Flags::PRIVATE, 1);
            }
        });
        let report = measure(seconds, |_round| {
            let mine = turn.load(Ordering::Acquire);
            turn.store(mine + 1, Ordering::Release);
            futex::wake(&turn, futex::Flags::PRIVATE, 1)?;
            let theirs = wait_for_change(&turn, mine + 1);
            ensure!(theirs == mine + 2, "the other thread answered {theirs} to {mine}");
            Ok(())
        });
        turn.store(END, Ordering::Release);
        let _ = futex::wake(&turn, futex::Flags::PRIVATE, 1);
        report
    })
}

fn wait_for_change(word: &AtomicU32, seen: u32) -> u32 {
    loop {
        let now = word.load(Ordering::Acquire);
        if now != seen {
            return now;
        }
        // Woken, interrupted, or the word changed before the wait: the loop looks again in each case.
        let _ = futex::wait(word, futex::Flags::PRIVATE, seen, None);
    }
}
