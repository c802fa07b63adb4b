//! The writers of the demo, seen from the demo: started, watched, heard. Those that are left when the crew goes are killed.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::writer::{Engine, Message, Progress, Report};

/// How long writers may take to start and connect: 1,000 processes on 2 busy cores need about 5 s.
const READY_WAIT_MAX: Duration = Duration::from_secs(180);
/// What writers may take beyond their seconds: a stock writer ends its 5 s busy wait, a leader its batch.
const OVERTIME_MAX: Duration = Duration::from_secs(30);
/// How often the screen is drawn.
const TICK: Duration = Duration::from_millis(100);

/// What the screen gets to know while the writers work.
#[derive(Clone, Copy, Debug)]
pub struct Glimpse {
    /// Time since the start; `None` while writers still connect.
    pub running: Option<Duration>,
    /// What all of them have done.
    pub totals: Progress,
}

/// Lets `processes` writers insert into the database, and returns a report of each.
///
/// # Errors
/// If a writer fails or does not answer. Then nothing is known about what was acknowledged.
pub fn work(
    engine: Engine,
    database: &Path,
    processes: usize,
    seconds: f64,
    mut on_tick: impl FnMut(Glimpse),
) -> Result<Vec<Report>> {
    let mut crew = Crew::hire(engine, database, processes, seconds)?;
    let mut progress = vec![Progress::default(); processes];
    let mut reports = Vec::new();
    let mut ready = 0;
    let mut start: Option<Instant> = None;
    let mut answers_until = Instant::now() + READY_WAIT_MAX;
    let mut drawn = Instant::now();
    while reports.len() < processes {
        match crew.messages.recv_timeout(TICK) {
            Ok((_, Some(Message::Ready))) => {
                ready += 1;
                if ready == processes {
                    let now = crew.start()?;
                    answers_until = now + Duration::from_secs_f64(seconds) + OVERTIME_MAX;
                    start = Some(now);
                }
            }
            Ok((writer, Some(Message::Progress(done)))) => progress[writer] = done,
            Ok((writer, Some(Message::Report(report)))) => {
                progress[writer] = report.progress();
                reports.push(report);
            }
            Ok((writer, None)) => bail!("writer {writer} ended without a report"),
            Err(RecvTimeoutError::Timeout) => (),
            Err(RecvTimeoutError::Disconnected) => bail!("nobody listens to the writers"),
        }
        ensure!(Instant::now() < answers_until, "the writers did not answer in time");
        if drawn.elapsed() >= TICK || reports.len() == processes {
            drawn = Instant::now();
            on_tick(Glimpse { running: start.map(|start| drawn - start), totals: sum(&progress) });
        }
    }
    Ok(reports)
}

fn sum(progress: &[Progress]) -> Progress {
    progress.iter().fold(Progress::default(), |sum, one| Progress {
        commits: sum.commits + one.commits,
        errors: sum.errors + one.errors,
        longest_us: sum.longest_us.max(one.longest_us),
    })
}

struct Crew {
    writers: Vec<Child>,
    starts: Vec<ChildStdin>,
    /// What the writers say, each by its number; `None`: it has ended without a report.
    messages: Receiver<(usize, Option<Message>)>,
}

impl Crew {
    fn hire(engine: Engine, database: &Path, processes: usize, seconds: f64) -> Result<Self> {
        let program = std::env::current_exe().context("find this program")?;
        let (sender, messages) = channel();
        let mut crew = Self { writers: Vec::new(), starts: Vec::new(), messages };
        for number in 0..processes {
            let mut writer = Command::new(&program)
                .args(["demo-writer", engine.name()])
                .arg(database)
                .arg(seconds.to_string())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .with_context(|| format!("start writer {number}"))?;
            let (start, said) = (writer.stdin.take(), writer.stdout.take());
            crew.writers.push(writer);
            crew.starts.push(start.context("a writer has a stdin")?);
            let (said, sender) = (said.context("a writer has a stdout")?, sender.clone());
            thread::spawn(move || listen(number, said, &sender));
        }
        Ok(crew)
    }

    fn start(&mut self) -> Result<Instant> {
        for start in &mut self.starts {
            start.write_all(b"\n").context("a writer is gone")?;
        }
        Ok(Instant::now())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for writer in &mut self.writers {
            // Both fail only for a writer that is gone already.
            let _ = writer.kill();
            let _ = writer.wait();
        }
    }
}

/// Passes on what a writer says, up to its report or its end.
fn listen(number: usize, said: ChildStdout, sender: &Sender<(usize, Option<Message>)>) {
    for line in BufReader::new(said).lines() {
        let message = line.ok().and_then(|line| serde_json::from_str(&line).ok());
        let is_last = matches!(message, None | Some(Message::Report(_)));
        // It fails only when nobody waits for reports any more.
        if sender.send((number, message)).is_err() || is_last {
            return;
        }
    }
    let _ = sender.send((number, None));
}
