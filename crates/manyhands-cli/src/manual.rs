//! `manyhands completions` and `manyhands manual`: what a shell and `man` know of the command, from the declaration of its arguments.

use std::{io, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::Shell;

/// What `manyhands completions` is given.
#[derive(clap::Args)]
pub struct CompletionArguments {
    /// The shell.
    shell: Shell,
}

/// What `manyhands manual` is given.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder for the pages, for example /usr/local/share/man/man1.
    folder: PathBuf,
}

/// Prints completions.
pub fn complete(arguments: &CompletionArguments) -> Result<ExitCode> {
    let mut command = declared();
    let name = command.get_name().to_owned();
    clap_complete::generate(arguments.shell, &mut command, name, &mut io::stdout());
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for the command, and one for each thing that it can do.
pub fn write(arguments: &Arguments) -> Result<ExitCode> {
    let folder = &arguments.folder;
    clap_mangen::generate_to(declared(), folder)
        .with_context(|| format!("write manual pages to {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn declared() -> Command {
    crate::CommandLine::command()
}
