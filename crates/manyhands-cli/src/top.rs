//! `manyhands top`: what goes on in a file: who is there, who writes, who waits and for how long, and what keeps the WAL from being reused.

pub mod words;

pub mod tables;

mod screen;

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
    thread,
    time::Duration,
};

use anyhow::{Result, bail};

use crate::inside::{Inside, files, state::State};

/// What `manyhands top` is given.
#[derive(clap::Args)]
pub struct Arguments {
    /// Database files (default: all that processes have open through Manyhands).
    files: Vec<PathBuf>,
    /// Print what goes on, and end.
    #[arg(long)]
    once: bool,
    /// As JSON, one object for each file.
    #[arg(long, requires = "once")]
    json: bool,
    /// How long the time is that rates are of.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds, requires = "once")]
    seconds: f64,
}

fn seconds(text: &str) -> Result<f64, String> {
    const MAX: f64 = 3600.0;
    let seconds = text.parse().ok().filter(|seconds: &f64| (0.0..=MAX).contains(seconds));
    seconds.ok_or_else(|| format!("a number of seconds from 0 to {MAX} is needed"))
}

/// Shows it.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let paths =
        if arguments.files.is_empty() { files::with_members() } else { arguments.files.clone() };
    if paths.is_empty() {
        bail!(
            "no process has a database open through Manyhands, as far as can be seen from here: name a file, or look as its user or as root"
        );
    }
    // Of those that nobody has named some may be gone already.
    let is_named = !arguments.files.is_empty();
    let opened = paths.iter().map(|path| Inside::of(path)).filter(|it| is_named || it.is_ok());
    let mut looks = opened.collect::<Result<Vec<_>>>()?;
    if !arguments.once {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            bail!("a live screen needs a terminal: add --once, or --once --json");
        }
        return screen::run(&mut looks);
    }
    looks
        .iter_mut()
        .map(Inside::look)
        .filter(|it| is_named || it.is_ok())
        .collect::<Result<Vec<_>>>()?;
    thread::sleep(Duration::from_secs_f64(arguments.seconds));
    let states = looks.iter_mut().map(Inside::look).filter(|it| is_named || it.is_ok());
    let states = states.collect::<Result<Vec<_>>>()?;
    let mut output = io::stdout().lock();
    for (number, state) in states.iter().enumerate() {
        if arguments.json {
            writeln!(output, "{}", serde_json::to_string(state)?)?;
        } else {
            let gap = if number == 0 { "" } else { "\n" };
            write!(output, "{gap}{}", text(state))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// All of it as plain text.
fn text(state: &State) -> String {
    let mut text = words::title(state) + "\n";
    for (name, line) in words::lines(state) {
        text += &format!("{name:<9} {line}\n");
    }
    for (name, table) in [
        ("members", tables::members(state)),
        ("queue", tables::queue(state)),
        ("stock programs", tables::stock(state)),
    ] {
        if !table.rows.is_empty() {
            text += &format!("\n{name}\n{}\n", table.text());
        }
    }
    text
}
