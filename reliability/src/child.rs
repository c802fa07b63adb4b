//! A writer process, seen from the campaign.
//!
//! A thread listens to its pipe, so that it never waits for us. It dies with the campaign: its stdin
//! then ends. Whatever happens, dropping a [`Child`] kills the process.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::clock::now_ns;
use crate::preload::Preload;

/// How often a wait looks again.
const TICK: Duration = Duration::from_millis(1);

/// What was heard from a process.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    /// Its lines, complete ones only.
    pub lines: Vec<String>,
    /// When its pipe ended.
    pub ended_ns: Option<u64>,
}

/// A running writer process.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    stdin: Option<ChildStdin>,
    transcript: Arc<Mutex<Transcript>>,
    listener: Option<JoinHandle<()>>,
}

fn lock(transcript: &Mutex<Transcript>) -> MutexGuard<'_, Transcript> {
    transcript.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Child {
    /// Executes this program again as a writer, or the one that is given; `crash` is its MANYHANDS_CRASH.
    pub fn spawn(
        program: Option<&Path>,
        arguments: &[String],
        crash: Option<&str>,
        preload: &Preload,
    ) -> Result<Child> {
        let own = || std::env::current_exe().context("find this program");
        let program = program.map_or_else(own, |program| Ok(program.to_owned()))?;
        let mut command = match preload.starter() {
            [] => Command::new(program),
            [starter, words @ ..] => {
                let mut command = Command::new(starter);
                command.args(words).arg(program);
                command
            }
        };
        command.arg("worker").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.env_remove("MANYHANDS_CRASH").envs(preload.variables());
        if let Some(file) = preload.complaints() {
            let file = std::fs::File::create(file).context("make a file for complaints")?;
            command.stderr(file);
        }
        if let Some(crash) = crash {
            command.env("MANYHANDS_CRASH", crash);
        }
        let mut process = command.spawn().context("start a writer process")?;
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().context("a writer has a stdout")?;
        let transcript = Arc::new(Mutex::new(Transcript::default()));
        let heard = Arc::clone(&transcript);
        let listener = std::thread::spawn(move || {
            let mut pipe = BufReader::new(stdout);
            let mut line = String::new();
            // A line that does not end was cut by death, and says nothing.
            while pipe.read_line(&mut line).is_ok() && line.ends_with('\n') {
                lock(&heard).lines.push(line.trim_end().to_owned());
                line.clear();
            }
            lock(&heard).ended_ns = Some(now_ns());
        });
        Ok(Child { process, stdin, transcript, listener: Some(listener) })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.id() as i32).context("a process id is not 0")?;
        kill_process(pid, signal).with_context(|| format!("signal process {}", self.id()))
    }

    /// Says a line to it. One that is dead does not hear it.
    pub fn say(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = writeln!(stdin, "{line}");
        }
    }

    /// What was heard so far.
    pub fn heard<T>(&self, look: impl FnOnce(&Transcript) -> T) -> T {
        look(&lock(&self.transcript))
    }

    /// Waits until a line begins with `beginning`.
    pub fn wait_for(&self, beginning: &str, patience: Duration) -> Result<()> {
        let end = Instant::now() + patience;
        loop {
            let (found, ended) = self.heard(|heard| {
                let found = heard.lines.iter().any(|line| line.starts_with(beginning));
                (found, heard.ended_ns.is_some())
            });
            if found {
                return Ok(());
            }
            if ended || Instant::now() >= end {
                let last = self.heard(|heard| heard.lines.last().cloned());
                bail!("process {} did not say {beginning:?}; its last line: {last:?}", self.id());
            }
            std::thread::sleep(TICK);
        }
    }

    /// Waits until it dies; false when it did not in time.
    pub fn dies_within(&mut self, patience: Duration) -> Result<bool> {
        let end = Instant::now() + patience;
        while self.process.try_wait().context("look at a process")?.is_none() {
            if Instant::now() >= end {
                return Ok(false);
            }
            std::thread::sleep(TICK);
        }
        Ok(true)
    }

    /// Waits for its end, and returns all that it said. One that is late is killed: a finding.
    pub fn finish(&mut self, patience: Duration) -> Result<(Option<ExitStatus>, Transcript)> {
        let in_time = self.dies_within(patience)?;
        if !in_time {
            self.signal(Signal::KILL)?;
        }
        let status = self.process.wait().context("wait for a process")?;
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        Ok((in_time.then_some(status), lock(&self.transcript).clone()))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
