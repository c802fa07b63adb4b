//! Debian's `sqlite3` shell: the peer, and the witness of what is in a file.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Runs SQL and dot commands in the shell, and returns what it printed.
///
/// # Errors
/// When the shell reports an error; the text is its own.
pub fn run(database: &Path, commands: &[&str]) -> Result<String> {
    let output = Command::new("sqlite3")
        .args(["-batch", "-bail", "-noheader", "-list"])
        .arg(database)
        .args(commands)
        .stdin(Stdio::null())
        .output()
        .context("start sqlite3; is it installed?")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success() && complaint.is_empty(),
        "sqlite3: {} ({})",
        complaint.trim(),
        output.status
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Makes the tables of a campaign, in WAL mode.
pub fn create(database: &Path) -> Result<()> {
    let script = format!("PRAGMA journal_mode=WAL; {};", crate::entry::SCHEMA.join("; "));
    run(database, &[&script]).map(drop)
}

/// What a [`Session`]'s shell prints behind each answer.
const DONE: &str = "that was all";

/// A shell that is asked one thing after the other. Dropping it kills it.
#[derive(Debug)]
pub struct Session {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Session {
    pub fn start(database: &Path) -> Result<Session> {
        // Its errors among its answers, where they came.
        let mut process = Command::new("sh")
            .args(["-c", "exec sqlite3 -batch -noheader -list \"$0\" 2>&1"])
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start sqlite3")?;
        let input = process.stdin.take().context("the shell has a stdin")?;
        let output = BufReader::new(process.stdout.take().context("the shell has a stdout")?);
        let mut session = Session { process, input, output };
        session.ask(".timeout 20000")?;
        Ok(session)
    }

    /// Its answer, line by line. An error is an answer, too.
    pub fn ask(&mut self, sql: &str) -> Result<Vec<String>> {
        let end = if sql.starts_with('.') { "" } else { ";" };
        write!(self.input, "{sql}{end}\n.print {DONE}\n").context("write to the shell")?;
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let count = self.output.read_line(&mut line).context("read from the shell")?;
            ensure!(count > 0, "the shell ended after {lines:?}");
            let line = line.trim_end_matches('\n').to_owned();
            if line == DONE {
                return Ok(lines);
            }
            lines.push(line);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
