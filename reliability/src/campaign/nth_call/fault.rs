//! One case: which call, which time, and what is wrong with it.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, ensure};

#[path = "../../../recorder/src/call_names.rs"]
mod call_names;

pub use call_names::CALLS;

const ERRORS: [&str; 7] = ["EIO", "ENOSPC", "EINTR", "EAGAIN", "EMFILE", "ENOMEM", "EACCES"];

/// A case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub call: String,
    /// An error's name, `SHORT` or `KILL`.
    what: String,
    pub nth: u64,
    ever: bool,
}

impl Fault {
    /// The call's place among the counters.
    pub fn index(&self) -> usize {
        CALLS.iter().position(|call| *call == self.call).expect("a call of the list")
    }

    /// What SQLite makes of this fault, beside the usual codes: a database that it cannot open for writing it
    /// opens for reading only (8), a page that the disk does not give is a damaged one (11), and who reads
    /// while a transaction ends for that is told that it ended (4).
    pub fn explains(&self, code: i32) -> bool {
        matches!((self.call.as_str(), code), ("open", 8) | ("pread", 11 | 4))
    }

    /// The process dies.
    pub fn kills(&self) -> bool {
        self.what == "KILL"
    }

    /// No lock ever comes: SQLite tries for 10 s each time.
    pub fn takes_all_locks(&self) -> bool {
        self.call == "fcntl" && self.ever
    }

    /// No memory ever comes, also not in the place of a truncated queue file: SIGBUS ends the process then.
    pub fn takes_all_memory(&self) -> bool {
        self.call == "mmap" && self.ever
    }

    /// Whether the case makes sense: only a dead process cannot be interrupted for ever.
    fn is_sensible(&self) -> bool {
        match (self.call.as_str(), self.what.as_str()) {
            (_, "KILL" | "EINTR") if self.ever => false,
            // SQLite sees a lock that another has, whatever the error; each operation then takes it 10 s.
            ("fcntl", what) if self.ever => what == "EIO",
            // A futex knows only these errors.
            ("futex", what) => matches!(what, "EINTR" | "EAGAIN" | "KILL"),
            (call, "SHORT") => call.ends_with("read") || call.ends_with("write"),
            _ => true,
        }
    }
}

/// Every case of a run in which each call was made so often.
pub fn all(counts: &[u64]) -> Vec<Fault> {
    let mut all = Vec::new();
    for (call, count) in CALLS.iter().zip(counts) {
        for nth in 1..=*count {
            for what in ERRORS.into_iter().chain(["SHORT", "KILL"]) {
                for ever in [false, true] {
                    let (call, what) = ((*call).to_owned(), what.to_owned());
                    all.push(Fault { call, what, nth, ever });
                }
            }
        }
    }
    all.retain(Fault::is_sensible);
    all
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { call, what, nth, ever } = self;
        write!(f, "{call}:{what}:{nth}:{}", if *ever { "ever" } else { "once" })
    }
}

impl FromStr for Fault {
    type Err = Error;

    fn from_str(text: &str) -> Result<Fault, Error> {
        let words: Vec<&str> = text.split(':').collect();
        let [call, what, nth, often] = words[..] else {
            anyhow::bail!("a case is CALL:WHAT:NTH:once or :ever, for example pwrite:EIO:17:once");
        };
        ensure!(CALLS.contains(&call), "no such call; one of {CALLS:?}");
        let known = ERRORS.contains(&what) || what == "SHORT" || what == "KILL";
        ensure!(known, "no such fault; SHORT, KILL or one of {ERRORS:?}");
        ensure!(matches!(often, "once" | "ever"), "once or ever");
        let nth = nth.parse().context("which time")?;
        Ok(Fault { call: call.to_owned(), what: what.to_owned(), nth, ever: often == "ever" })
    }
}
