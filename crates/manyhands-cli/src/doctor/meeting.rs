//! Whether two processes meet on the file system of a database: whether the lock of one is in the other's way, and what one writes into shared
//! memory the other reads. Tried with a queue of their own, which is what members meet by.

use std::{
    io::{BufRead, BufReader},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use manyhands_queue::{Deadline, JoinOptions, Queue};

use super::{
    finding::Finding,
    place::{Trial, folder},
};
use crate::process::QUEUE_SUFFIX;

const CHECK: &str = "file system";
/// Joining a queue takes less than a millisecond.
const PATIENCE: Duration = Duration::from_secs(10);
/// What the other process says once it leads.
const LEADS: &str = "leads";

/// What `manyhands doctor-probe` is given.
#[derive(clap::Args)]
pub struct Arguments {
    /// The queue file.
    queue: PathBuf,
}

/// The other process: joins, leads, and stays.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let queue = join(&arguments.queue)?;
    let _lead = queue.try_lead("").context("somebody else leads")?;
    println!("{LEADS}");
    // Until the doctor has seen enough.
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(ExitCode::SUCCESS)
}

fn join(path: &Path) -> Result<Arc<Queue>> {
    let folder = folder(path).metadata()?;
    let options = JoinOptions {
        program: u64::from(manyhands_sqlite::version_number().unsigned_abs()),
        mode: 0o600,
        owner: rustix::process::geteuid().as_raw(),
        group: folder.gid(),
        deadline: Deadline::after(PATIENCE),
    };
    Ok(Queue::join(path, &options, || Ok::<_, std::io::Error>(()))?)
}

/// A child that does not outlive the check.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Meets another process on the database's file system.
pub fn check(path: &Path) -> Finding {
    let trial = Trial::beside(path, QUEUE_SUFFIX);
    match meet(&trial.0) {
        Ok(()) => Finding::ok(CHECK, "two processes see each other's locks and shared memory"),
        Err(error) => Finding::error(
            CHECK,
            format!("{error:#}"),
            "put the database into a folder on a local disk that its user may write",
        ),
    }
}

fn meet(path: &Path) -> Result<()> {
    let queue = join(path)?;
    let mut probe = Command::new(std::env::current_exe()?);
    let piped = probe.arg("doctor-probe").arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut other = Other(piped.spawn()?);
    let output = other.0.stdout.take().context("it is piped")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    ensure!(line.trim_end() == LEADS, "another process could not open the same queue");
    ensure!(queue.has_other_members(), "a lock of one process is not seen by another");
    ensure!(
        queue.is_led_by_another(),
        "what one process writes into shared memory is not seen by another"
    );
    drop(other);
    ensure!(!queue.has_other_members(), "the lock of a process outlives it");
    Ok(())
}
