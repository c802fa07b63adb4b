//! `manyhands cancel`: ends what a process waits for or executes in a database. The process itself notices, by a word in shared memory; no signal
//! is sent that could end it.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::{
    figure::time,
    inside::{Inside, files, state::Does},
    process::Process,
};

/// A waiter notices within 150 ms, a statement after a few thousand instructions: who has not noticed by then does nothing.
const NOTICED_WITHIN: Duration = Duration::from_secs(1);
/// And who has noticed, has noticed all by then.
const SETTLED_AFTER: Duration = Duration::from_millis(300);
/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What `manyhands cancel` is given.
#[derive(clap::Args)]
pub struct Arguments {
    /// The process, as `manyhands top` shows it.
    pid: i32,
    /// The database file (default: all that it has open through Manyhands).
    file: Option<PathBuf>,
}

/// Exit status: 0 if something was cancelled, 1 if there was nothing to cancel.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let pid = arguments.pid;
    let paths = arguments.file.clone().map_or_else(files::with_members, |file| vec![file]);
    let (mut is_member, mut cancelled) = (false, 0);
    for path in paths {
        // Of those that nobody has named some may be gone already.
        let count = match cancel_in(&path, pid) {
            Err(_) if arguments.file.is_none() => continue,
            count => count?,
        };
        is_member |= count.is_some();
        cancelled += count.unwrap_or(0);
    }
    if !is_member {
        let place = arguments.file.as_ref().map(|it| it.display().to_string());
        let place = place.unwrap_or_else(|| "any database".to_owned());
        let what = match Process::with_pid(pid) {
            Some(process) => format!("process {pid} ({})", process.command_line()),
            None => format!("process {pid}, which is not there,"),
        };
        bail!(
            "{what} has not opened {place} through Manyhands: only such a process can be cancelled; end another one's transaction in its program"
        );
    }
    Ok(if cancelled > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How many operations were cancelled; `None` if the process is no member there.
fn cancel_in(path: &Path, pid: i32) -> Result<Option<u32>> {
    let mut inside = Inside::of(path)?;
    let before = inside.look()?;
    let Some(member) = before.members.iter().find(|it| it.pid == Some(pid)) else {
        return Ok(None);
    };
    let seen = inside.cancelled(member.member);
    inside.cancel(member.member);
    let began = Instant::now();
    let (mut count, mut changed) = (0, began);
    while if count == 0 {
        began.elapsed() < NOTICED_WITHIN
    } else {
        changed.elapsed() < SETTLED_AFTER
    } {
        thread::sleep(LOOK_EVERY);
        let now = inside.cancelled(member.member).wrapping_sub(seen);
        if now != count {
            (count, changed) = (now, Instant::now());
        }
    }
    let label =
        if member.label.is_empty() { String::new() } else { format!(" ({})", member.label) };
    let told = format!("{}: process {pid}{label}", path.display());
    if count > 0 {
        let operations = if count == 1 { "operation" } else { "operations" };
        println!("{told}: {count} {operations} cancelled");
        return Ok(Some(count));
    }
    let stopped = Process::with_pid(pid).is_some_and(Process::is_stopped);
    let idle = before.leader.filter(|it| it.pid == Some(pid) && it.does == Does::Idle);
    if stopped {
        println!(
            "{told} is stopped, and notices nothing: kill -CONT {pid} lets it go on, kill -9 {pid} ends it"
        );
    } else if let Some(idle) = idle {
        println!(
            "{told} executes nothing: its transaction is open, and has done nothing for {}. Only the program can end it; to end the \
             process undoes it: kill {pid}",
            time(idle.idle_s.unwrap_or_default())
        );
    } else {
        println!("{told} waits for nothing and executes nothing");
    }
    Ok(Some(0))
}
