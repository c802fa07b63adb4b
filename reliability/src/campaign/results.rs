//! Figures for the documentation: one JSON object for each line of a file that only grows.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

/// Appends the figures of a campaign; nothing without a file.
pub fn append(
    file: Option<&Path>,
    campaign: &str,
    seed: u64,
    figures: &[(&str, u64)],
) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    let mut line = format!("{{\"campaign\":\"{campaign}\",\"unix_s\":{now},\"seed\":{seed}");
    for (name, figure) in figures {
        line += &format!(",\"{name}\":{figure}");
    }
    let options = &mut std::fs::OpenOptions::new();
    let mut file = options.create(true).append(true).open(file).context("open the results")?;
    writeln!(file, "{line}}}").context("write the results")
}
