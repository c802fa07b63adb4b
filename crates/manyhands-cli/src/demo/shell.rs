//! Debian's `sqlite3` shell: a program that knows nothing of Manyhands, as reader and as judge.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

/// Between two looks at the live file.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The program.
#[derive(Clone)]
pub struct Shell {
    program: &'static str,
}

impl Shell {
    /// Finds it.
    ///
    /// # Errors
    /// Says which package to install.
    pub fn find() -> Result<Self> {
        let shell = Self { program: "sqlite3" };
        let found = Command::new(shell.program).arg("--version").output();
        found.context("the demo needs the `sqlite3` program: apt-get install sqlite3")?;
        Ok(shell)
    }

    /// Runs one query; the answer has no line end.
    pub fn ask(&self, database: &Path, sql: &str) -> Result<String> {
        let output = Command::new(self.program)
            .args(["-batch", "-cmd", ".timeout 5000"])
            .arg(database)
            .arg(sql)
            .output()
            .with_context(|| format!("run {}", self.program))?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "sqlite3 {sql:?}: {}", complaint.trim());
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// Counts the rows of the live file again and again, until it is dropped.
pub struct LiveReader {
    rows: Arc<AtomicU64>,
    has_looked: Arc<AtomicBool>,
    /// Closing it ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LiveReader {
    /// Begins to look at table `t`.
    pub fn start(shell: Shell, database: PathBuf) -> Self {
        let (rows, has_looked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (stop, stopped) = channel();
        let (seen, looked) = (rows.clone(), has_looked.clone());
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // A look that fails leaves the last one on the screen; the judge's looks at the end may not fail.
                if let Some(count) = shell
                    .ask(&database, "SELECT count(*) FROM t")
                    .ok()
                    .and_then(|rows| rows.parse().ok())
                {
                    seen.store(count, Ordering::Relaxed);
                    looked.store(true, Ordering::Relaxed);
                }
            }
        });
        Self { rows, has_looked, stop: Some(stop), thread: Some(thread) }
    }

    /// The rows that the shell saw last.
    pub fn rows(&self) -> Option<u64> {
        self.has_looked.load(Ordering::Relaxed).then(|| self.rows.load(Ordering::Relaxed))
    }
}

impl Drop for LiveReader {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It does not panic; and if it did, the demo's result does not depend on it.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the program the user reads what to install, not "No such file or directory" alone.
    #[test]
    fn a_missing_program_is_an_error() {
        let absent = Shell { program: "/nonexistent/sqlite3" };
        assert!(absent.ask(Path::new("x.db"), "SELECT 1").is_err());
    }
}
