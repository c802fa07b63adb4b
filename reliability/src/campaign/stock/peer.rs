//! The shell as a writer and as a checkpointer.

use core::sync::atomic::{AtomicBool, Ordering};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::shell;

/// Writes so many times, and returns how long each success took, in milliseconds.
pub fn write(database: &Path, writes: usize, findings: &mut Vec<String>) -> Vec<f64> {
    let mut took = Vec::new();
    for number in 0..writes {
        let began = Instant::now();
        let insert = format!("INSERT INTO peer VALUES ({number})");
        match shell::run(database, &[".timeout 5000", &insert]) {
            Ok(_) => took.push(began.elapsed().as_secs_f64() * 1e3),
            Err(error) => findings.push(format!("write {number} of the shell: {error}")),
        }
    }
    took
}

/// Checkpoints as a careless program does, and now and then rewrites the whole file. Busy is an answer
/// here; what came of it is told.
pub fn checkpoint_until(stop: &AtomicBool, database: &Path) -> String {
    let (mut truncated, mut busy, mut vacuumed, mut vacuums) = (0, 0, 0, 0);
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..20 {
            match shell::run(database, &[".timeout 300", "PRAGMA wal_checkpoint(TRUNCATE)"]) {
                Ok(answer) if answer.lines().any(|line| line.starts_with("0|")) => truncated += 1,
                _ => busy += 1,
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        vacuums += 1;
        vacuumed += usize::from(shell::run(database, &[".timeout 2000", "VACUUM"]).is_ok());
    }
    format!("checkpointer: {truncated} truncated, {busy} busy; {vacuumed} of {vacuums} vacuums")
}
