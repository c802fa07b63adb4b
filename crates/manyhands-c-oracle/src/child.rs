//! Rounds in a child process, so that a library which crashes or hangs ends the child and not the oracle.
//!
//! The libraries are loaded in the child only. What the parent must know of a dead child stands in shared memory: the round and
//! the action it had reached, and how often each function was called.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::action::Action;
use crate::library::{Api, NAMES};
use crate::plant::Plant;
use crate::round::{Arena, Difference, Verdict};

/// A round takes milliseconds, and its busy timeouts are as short: one that takes seconds hangs.
pub const SECONDS_MAX: u32 = 4;

/// What parent and child share. Only the child that runs writes; the parent reads when it is gone.
pub struct Shared {
    pub seed: &'static AtomicU64,
    pub action: &'static AtomicU64,
    pub agreed: &'static AtomicU64,
    pub went_on: &'static AtomicU64,
    pub our_calls: &'static [AtomicU64],
    pub stock_calls: &'static [AtomicU64],
}

/// Which libraries play, and where.
pub struct Setup {
    pub ours: PathBuf,
    pub stock: PathBuf,
    pub directory: PathBuf,
    pub plant: Option<Plant>,
    pub ignored: Vec<String>,
    pub shared: Shared,
}

/// Why rounds ended early.
pub struct Failure {
    pub seed: u64,
    pub action: usize,
    pub signature: String,
    pub description: String,
}

impl Shared {
    pub fn new() -> Result<Shared, String> {
        let count = 4 + 2 * NAMES.len();
        // SAFETY: a new anonymous mapping takes the place of nothing.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                count * size_of::<AtomicU64>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err("no shared memory".into());
        }
        // SAFETY: the mapping is zeroed, aligned to a page, long enough, and never unmapped.
        let words = unsafe { std::slice::from_raw_parts(memory.cast::<AtomicU64>(), count) };
        let (our_calls, stock_calls) = words[4..].split_at(NAMES.len());
        Ok(Shared {
            seed: &words[0],
            action: &words[1],
            agreed: &words[2],
            went_on: &words[3],
            our_calls,
            stock_calls,
        })
    }
}

impl Setup {
    /// Plays rounds in a child, each given by its seed and its actions, until one fails.
    pub fn play(
        &self,
        rounds: impl Iterator<Item = (u64, Vec<Action>)>,
        seconds_max: u32,
    ) -> Result<Option<Failure>, String> {
        let (reader, writer) = pipe()?;
        // SAFETY: this process has one thread, so the child may go on as the parent would.
        let child = unsafe { libc::fork() };
        if child < 0 {
            return Err("cannot fork".into());
        }
        if child == 0 {
            drop(reader);
            let failed = self.play_here(rounds, seconds_max, File::from(writer));
            // SAFETY: the child ends without the parent's destructors: the directory is the parent's.
            unsafe { libc::_exit(i32::from(failed)) };
        }
        drop(writer);
        let mut report = String::new();
        File::from(reader).read_to_string(&mut report).map_err(|error| error.to_string())?;
        let mut status = 0;
        // SAFETY: the child is this process's own, and nobody else waits for it.
        unsafe { libc::waitpid(child, &mut status, 0) };
        self.failure(status, &report)
    }

    fn failure(&self, status: i32, report: &str) -> Result<Option<Failure>, String> {
        let (signature, description) = if libc::WIFSIGNALED(status) {
            match libc::WTERMSIG(status) {
                libc::SIGALRM => (
                    "it hung".into(),
                    format!("a call did not return within {SECONDS_MAX} seconds\n"),
                ),
                signal => (format!("it died of signal {signal}"), report.to_owned()),
            }
        } else {
            match libc::WEXITSTATUS(status) {
                0 => return Ok(None),
                1 if report.starts_with("cannot") => return Err(report.to_owned()),
                1 => {
                    let (signature, description) = report.split_once('\n').unwrap_or((report, ""));
                    (signature.to_owned(), description.to_owned())
                }
                // A panic of the oracle's own, whose message stands on stderr.
                code => (format!("it ended with {code}"), report.to_owned()),
            }
        };
        let action = usize::try_from(self.shared.action.load(Ordering::Relaxed));
        Ok(Some(Failure {
            seed: self.shared.seed.load(Ordering::Relaxed),
            action: action.expect("rounds are short"),
            signature,
            description,
        }))
    }

    fn play_here(
        &self,
        rounds: impl Iterator<Item = (u64, Vec<Action>)>,
        seconds_max: u32,
        mut report: File,
    ) -> bool {
        let arena = match self.arena() {
            Ok(arena) => arena,
            Err(error) => return tell(&mut report, &format!("cannot begin: {error}")),
        };
        for (seed, actions) in rounds {
            self.shared.seed.store(seed, Ordering::Relaxed);
            // SAFETY: SIGALRM has its default action, which ends this child.
            unsafe { libc::alarm(seconds_max) };
            let reached =
                |number: usize| self.shared.action.store(number as u64, Ordering::Relaxed);
            match arena.play(&actions, reached) {
                Ok(Verdict::Agreed) => self.shared.agreed.fetch_add(1, Ordering::Relaxed),
                Ok(Verdict::WentOn) => self.shared.went_on.fetch_add(1, Ordering::Relaxed),
                Ok(Verdict::Differs(Difference { action, signature, description, .. })) => {
                    self.shared.action.store(action as u64, Ordering::Relaxed);
                    return tell(&mut report, &format!("{signature}\n{description}"));
                }
                Err(error) => return tell(&mut report, &format!("cannot play: {error}")),
            };
        }
        false
    }

    fn arena(&self) -> Result<Arena, String> {
        // The libraries are loaded before, since their names may be relative.
        let ours: &'static Api = Box::leak(Box::new(Api::load(&self.ours, self.shared.our_calls)?));
        let stock: &'static Api =
            Box::leak(Box::new(Api::load(&self.stock, self.shared.stock_calls)?));
        let arena = Arena {
            ours,
            stock,
            directory: self.directory.clone(),
            plant: self.plant,
            ignored: self.ignored.clone(),
        };
        arena.prepare().map_err(|error| error.to_string())?;
        // A relative name in a random text must not touch the user's files.
        std::env::set_current_dir(&self.directory).map_err(|error| error.to_string())?;
        Ok(arena)
    }
}

/// Writes the report; says that the rounds failed.
fn tell(report: &mut File, text: &str) -> bool {
    report.write_all(text.as_bytes()).expect("the parent reads the pipe until its end");
    true
}

fn pipe() -> Result<(OwnedFd, OwnedFd), String> {
    let mut ends: [RawFd; 2] = [-1; 2];
    // SAFETY: the array has room for two descriptors.
    let failed = unsafe { libc::pipe(ends.as_mut_ptr()) };
    if failed != 0 {
        return Err("cannot make a pipe".into());
    }
    // SAFETY: the pipe has just been made, and nothing else owns this end.
    let reader = unsafe { OwnedFd::from_raw_fd(ends[0]) };
    // SAFETY: the same of its other end.
    let writer = unsafe { OwnedFd::from_raw_fd(ends[1]) };
    Ok((reader, writer))
}
