//! A shell that writes without pause, one small transaction after the other: after a leader's death it
//! commits hundreds of times before a successor looks.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context, Result};

use crate::shell;

/// A shell at work. Dropping it kills it.
pub struct Hammer {
    process: Child,
    feeder: Option<JoinHandle<()>>,
}

impl Hammer {
    /// Starts it; its rows go to a table of its own.
    pub fn start(database: &Path) -> Result<Hammer> {
        shell::run(database, &["CREATE TABLE IF NOT EXISTS peer (n)"])?;
        let mut process = Command::new("sqlite3")
            .arg("-batch")
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start sqlite3")?;
        let mut stdin = process.stdin.take().context("the shell has a stdin")?;
        let feeder = std::thread::spawn(move || {
            let _ = writeln!(stdin, ".timeout 5000\nPRAGMA synchronous=NORMAL;");
            // Ends when the shell is dead.
            while writeln!(stdin, "INSERT INTO peer VALUES (1);").is_ok() {}
        });
        Ok(Hammer { process, feeder: Some(feeder) })
    }
}

impl Drop for Hammer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(feeder) = self.feeder.take() {
            let _ = feeder.join();
        }
    }
}
