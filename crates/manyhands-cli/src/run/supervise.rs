//! Starts the command, passes signals on to it, and waits for its end.
//!
//! This process adopts the orphans of the command, so that all its descendants stay visible, and reaps them. A signal that
//! the terminal sends reaches the command without us, since it goes to all processes in the foreground.

use std::{fs, io, os::unix::process::ExitStatusExt, process::Command};

use anyhow::{Context, Result};
use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, wait,
    },
};
use signal_hook::{
    consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2},
    iterator::{SignalsInfo, exfiltrator::origin::WithOrigin},
    low_level::siginfo::Cause,
};

/// Signals for the command.
const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
/// As shells have it.
const STATUS_OF_SIGNAL: i32 = 128;
const STATUS_NOT_FOUND: i32 = 127;
const STATUS_NOT_EXECUTABLE: i32 = 126;

/// A command that runs.
pub struct Supervised {
    child: Pid,
    signals: SignalsInfo<WithOrigin>,
}

/// A command that could not be started, and the exit status for that.
pub struct NotStarted {
    pub error: io::Error,
    pub status: i32,
}

impl Supervised {
    /// # Errors
    /// The outer one is the system's, the inner one the command's.
    pub fn start(command: &mut Command) -> Result<Result<Self, NotStarted>> {
        // Before the command can end, or a signal for it can end us.
        let ignored = ignored_signals();
        let watched = PASSED_ON.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let signals = SignalsInfo::new(watched.chain([SIGCHLD])).context("watch signals")?;
        set_child_subreaper(Some(getpid())).context("adopt the command's orphans")?;
        Ok(match command.spawn() {
            Ok(child) => {
                let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                Ok(Self { child: pid.context("the number of a process")?, signals })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(NotStarted { error, status: STATUS_NOT_FOUND })
            }
            Err(error) => Err(NotStarted { error, status: STATUS_NOT_EXECUTABLE }),
        })
    }

    /// Waits for the end of the command, not of its children; answers with its exit status.
    pub fn wait(mut self) -> Result<i32> {
        for origin in self.signals.forever() {
            if origin.signal == SIGCHLD {
                if let Some(status) = reap(self.child)? {
                    return Ok(status);
                }
            } else if origin.cause != Cause::Kernel
                && let Some(signal) = Signal::from_named_raw(origin.signal)
            {
                // It is not reaped yet, so the number is still its own. It may have ended all the same.
                let _ = kill_process(self.child, signal);
            }
        }
        anyhow::bail!("no more signals")
    }
}

/// Reaps all that have ended: the child with its status, if it is among them, and orphans.
fn reap(child: Pid) -> Result<Option<i32>> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == child => return Ok(Some(status_of(status))),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) | Err(Errno::CHILD) => return Ok(None),
            Err(error) => return Err(error).context("wait for the command"),
        }
    }
}

fn status_of(status: WaitStatus) -> i32 {
    let status = std::process::ExitStatus::from_raw(status.as_raw());
    status.code().or_else(|| status.signal().map(|signal| STATUS_OF_SIGNAL + signal)).unwrap_or(1)
}

/// `nohup` and shells have some ignored, and the command is to ignore them too: a handler here would end that.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}
