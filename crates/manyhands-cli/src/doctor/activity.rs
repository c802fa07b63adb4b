//! What goes on in the file: who holds the turn, who reads without end, who bypasses Manyhands, and with which SQLite.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use super::finding::Finding;
use crate::{
    figure::time,
    inside::state::{Does, Leader, State, Stock},
    process,
    top::words::{bytes, cut, told},
};

/// A WAL of ours is checkpointed at 4 MB.
const WAL_LARGE: u64 = 32 << 20;
/// A turn that is held for longer keeps others waiting.
const TURN_LONG_S: f64 = 5.0;
/// A transaction that does nothing for longer is a forgotten one.
const IDLE_LONG_S: f64 = 1.0;
/// The days of the first version with a WAL, 3.7.0, and of the first without the WAL-reset bug, 3.51.3
/// (<https://sqlite.org/wal.html#walresetbug>).
const RESET_BUG: std::ops::Range<&str> = "2010-07-21".."2026-03-13";

/// Two looks, a second apart.
pub struct Seen {
    pub first: State,
    pub last: State,
}

/// All of it.
pub fn check(path: &Path, seen: &Seen) -> Vec<Finding> {
    let mut findings =
        vec![queue(&seen.last), turn(seen), lock(seen), readers(seen), wal(&seen.last)];
    findings.extend(stock(&seen.last));
    findings.push(replaced(path));
    findings
}

fn queue(state: &State) -> Finding {
    const CHECK: &str = "queue";
    let Some(note) = &state.note else {
        let (members, waiting) = (state.members.len(), state.queue.len());
        return Finding::ok(CHECK, format!("{members} members, {waiting} waiting"));
    };
    if note.contains("another version") {
        let remedy = "use one version everywhere: until then processes of the other one work beside it as guests, through SQLite's own lock";
        return Finding::warning(CHECK, note, remedy);
    }
    if note.contains("damaged") {
        let remedy = "nothing, if it is gone at the next look: its members leave it for a new one. Find out what writes into it";
        return Finding::error(CHECK, note, remedy);
    }
    if note.contains("look as the user") {
        return Finding::warning(CHECK, note, "run it as the user of the application, or as root");
    }
    Finding::ok(CHECK, note)
}

/// A turn that does not end.
fn turn(seen: &Seen) -> Finding {
    const CHECK: &str = "turn";
    let Some(leader) = seen.last.leader.as_ref().filter(|it| is_same(seen, it)) else {
        return Finding::ok(CHECK, "nobody holds it for long");
    };
    let waiting = seen.last.queue.len();
    let who = leader.pid.map_or_else(|| "a process".to_owned(), |pid| format!("process {pid}"));
    let label =
        if leader.label.is_empty() { String::new() } else { format!(" ({})", leader.label) };
    let statement = leader.statement.as_deref().map(cut).unwrap_or_default();
    let held = format!("{who}{label} has held it for {}", time(leader.held_s));
    let pid = leader.pid.unwrap_or_default();
    if leader.is_stopped {
        let reason = format!("{held}, and is stopped by a signal or a debugger; {waiting} wait");
        return Finding::error(CHECK, reason, format!("kill -CONT {pid}, or kill -9 {pid}"));
    }
    if leader.does == Does::Idle && leader.idle_s > Some(IDLE_LONG_S) {
        let idle = time(leader.idle_s.unwrap_or_default());
        let reason = format!(
            "{held}, and its transaction is open and has done nothing for {idle}, after: {statement}; {waiting} wait"
        );
        let remedy = format!(
            "end that transaction in the program: commit it before anything slow, or use transactions of mode auto or optimistic; \
             ending process {pid} undoes it"
        );
        return match waiting {
            0 => Finding::warning(CHECK, reason, remedy),
            _ => Finding::error(CHECK, reason, remedy),
        };
    }
    if leader.held_s > TURN_LONG_S {
        let reason = format!("{held}, and executes: {statement}; {waiting} wait");
        let remedy = format!(
            "give the statement an index, or smaller pieces; `manyhands cancel {pid}` ends it now"
        );
        return Finding::warning(CHECK, reason, remedy);
    }
    Finding::ok(CHECK, held)
}

/// True for one that has led all the time.
fn is_same(seen: &Seen, leader: &Leader) -> bool {
    seen.first
        .leader
        .as_ref()
        .is_some_and(|first| first.pid == leader.pid && leader.held_s > first.held_s)
}

/// SQLite's write lock, held by a program that knows no queue.
fn lock(seen: &Seen) -> Finding {
    const CHECK: &str = "write lock";
    let holder = seen.last.write_lock.as_ref();
    match holder
        .filter(|it| seen.first.write_lock.as_ref().is_some_and(|first| first.pid == it.pid))
    {
        Some(party) => Finding::error(
            CHECK,
            format!("{} holds it, and everybody waits", told(party, "a stock program")),
            "end its transaction, or let it write through Manyhands: manyhands run -- COMMAND",
        ),
        None => Finding::ok(CHECK, "no stock program holds it for long"),
    }
}

/// A read that does not end.
fn readers(seen: &Seen) -> Finding {
    const CHECK: &str = "readers";
    let Some(oldest) = seen.last.wal.readers.first() else {
        return Finding::ok(CHECK, "nobody keeps the WAL from being reused");
    };
    let who = told(&oldest.party, "a process");
    let kept = match seen.last.wal.kept_bytes {
        0 => format!("{} frames", oldest.frames_behind),
        kept => bytes(kept),
    };
    Finding::warning(
        CHECK,
        format!(
            "{who} has read an old state for {} at least, and keeps {kept} of the WAL",
            time(oldest.age_s)
        ),
        "end its transaction or cursor; with wal_bytes_limit writers wait for it instead of filling the disk",
    )
}

fn wal(state: &State) -> Finding {
    const CHECK: &str = "wal";
    let reason = format!("{}, {} frames", bytes(state.wal.bytes), state.wal.frames.unwrap_or(0));
    if state.wal.bytes < WAL_LARGE {
        return Finding::ok(CHECK, reason);
    }
    let remedy = match state.wal.readers.is_empty() {
        true => {
            "the next checkpoint uses it again from its beginning; it becomes short when the last process closes the database, or by \
             PRAGMA wal_checkpoint(TRUNCATE)"
        }
        false => "end the reader above: then it is used again from its beginning",
    };
    Finding::warning(CHECK, reason, remedy)
}

/// Programs that have the file open without the queue.
fn stock(state: &State) -> Vec<Finding> {
    const CHECK: &str = "stock";
    if state.stock.is_empty() {
        return vec![Finding::ok(CHECK, "no program bypasses Manyhands")];
    }
    state.stock.iter().map(|stock| bypasses(CHECK, stock)).collect()
}

fn bypasses(check: &'static str, stock: &Stock) -> Finding {
    let who = format!("process {} ({})", stock.pid, cut(&stock.command));
    if stock.is_guest && stock.library.is_none() {
        return Finding::warning(
            check,
            format!("{who} has it open by Manyhands, and is no member of the queue"),
            "it may only read; if not, use one version of Manyhands everywhere",
        );
    }
    let library = stock.library.as_ref().map(|it| it.display().to_string()).unwrap_or_default();
    let date = stock.date.as_deref().unwrap_or("an unknown day");
    let reason = format!("{who} has it open by {library}, SQLite of {date}, without the queue");
    if RESET_BUG.contains(&date) {
        return Finding::error(
            check,
            format!(
                "{reason}, a version with the WAL-reset bug: a commit that meets two checkpoints can damage the database"
            ),
            "use SQLite 3.51.3 or later there, or Manyhands: manyhands run -- COMMAND. A vendor may have repaired an older version",
        );
    }
    let remedy =
        "it is safe, and waits by polling; to let it stand in the queue: manyhands run -- COMMAND";
    Finding::warning(check, reason, remedy)
}

/// Processes that have another file open, which was at this path.
fn replaced(path: &Path) -> Finding {
    const CHECK: &str = "replaced";
    let current = path.metadata().map(|it| it.ino()).unwrap_or_default();
    let has_other = |process: &process::Process| {
        let files = process.written_files().unwrap_or_default();
        files.iter().any(|file| {
            file.path == path && fs::metadata(&file.openable).is_ok_and(|it| it.ino() != current)
        })
    };
    let holders: Vec<_> = process::all()
        .unwrap_or_default()
        .into_iter()
        .filter(has_other)
        .map(|it| it.pid.to_string())
        .collect();
    if holders.is_empty() {
        return Finding::ok(CHECK, "all have the file open that is at this path");
    }
    Finding::error(
        CHECK,
        format!(
            "processes {} have an older file open that was at this path: what they write is not here",
            holders.join(", ")
        ),
        "restart them; replace a database by `manyhands backup` or SQLite's backup, not by mv or cp",
    )
}
