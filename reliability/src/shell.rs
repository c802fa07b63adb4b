//! Debian's `sqlite3` shell: the peer, and the witness of what is in a file.

use std::path::Path;
use std::process::{Command, Stdio};

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
