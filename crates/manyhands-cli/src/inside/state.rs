//! What goes on in one file at a moment: what `manyhands top` shows, and says in JSON. `docs/inside.md` tells what each field means.

use serde::Serialize;
use std::path::PathBuf;

/// One database file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct State {
    pub file: PathBuf,
    /// Why nothing is told of members and the queue.
    pub note: Option<String>,
    /// How long the time is that the rates are of.
    pub seconds: f64,
    pub members: Vec<Member>,
    pub leader: Option<Leader>,
    pub write_lock: Option<Party>,
    pub queue: Vec<Waiting>,
    pub rates: Rates,
    pub waits: Waits,
    pub conflict: Option<Conflict>,
    pub wal: Wal,
    pub stock: Vec<Stock>,
}

/// A process that has something to do with the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Party {
    /// `None` for one that cannot be seen from here.
    pub pid: Option<i32>,
    pub label: String,
    pub command: String,
    /// True for another SQLite program, which does not know the queue.
    pub is_stock: bool,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Member {
    /// Its number in the queue.
    pub member: u16,
    /// As /proc has it; `None` for one that cannot be seen from here.
    pub pid: Option<i32>,
    /// As its own table of processes has it.
    pub own_pid: u32,
    pub label: String,
    pub command: String,
    pub container: Option<String>,
    pub age_s: f64,
    pub commits: u64,
    pub commits_per_s: f64,
    pub conflicts: u32,
    /// Requests and turns of it in the queue.
    pub waiting: usize,
    /// For how long the first of these has waited.
    pub waits_s: Option<f64>,
    pub leads: bool,
}

/// The member that leads, or holds the turn.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Leader {
    pub pid: Option<i32>,
    pub label: String,
    pub command: String,
    pub held_s: f64,
    pub does: Does,
    /// What it executes, or has executed last.
    pub statement: Option<String>,
    /// For how long it has executed nothing while it held the turn.
    pub idle_s: Option<f64>,
    /// A signal or a debugger has stopped it.
    pub is_stopped: bool,
}

/// What a leader does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    /// It executes what others have asked for.
    Batch,
    /// It executes a statement of its own.
    Statement,
    /// It holds an open transaction, and executes nothing.
    Idle,
    /// It has just begun, or is about to end.
    #[default]
    Nothing,
}

#[derive(Clone, Debug, Serialize)]
pub struct Waiting {
    /// 1 is the first.
    pub place: usize,
    pub pid: Option<i32>,
    pub label: String,
    pub asks: Asks,
    pub state: Stands,
    pub waits_s: f64,
    /// The first of them; of a turn nobody else knows what it will execute.
    pub statement: Option<String>,
    /// How many.
    pub statements: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Asks {
    /// To be executed by whoever leads.
    Request,
    /// To execute it itself.
    Turn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stands {
    Waits,
    Executes,
    /// It waits for the commit of its batch.
    Executed,
}

/// What has happened in the last [`State::seconds`], for each second; shares are of the commits.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Rates {
    /// Writes and transactions of members.
    pub commits_per_s: f64,
    /// Commits of SQLite, by whichever program: a batch is one. `None` where the WAL cannot be read.
    pub sqlite_commits_per_s: Option<f64>,
    /// Requests in a batch.
    pub batch_size: Option<f64>,
    pub sync_ms: Option<f64>,
    pub syncs_per_s: f64,
    pub conflicts_per_s: f64,
    /// Executed by a leader, in a batch.
    pub batched: Option<f64>,
    /// By connections that found nobody there.
    pub alone: Option<f64>,
    /// By connections that had waited for their turn.
    pub in_turn: Option<f64>,
    pub promoted: Option<f64>,
    pub replayed: Option<f64>,
}

/// How long requests have waited for their commit, and turns for their beginning.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Waits {
    pub count: u64,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub max_ms: Option<f64>,
}

/// The last conflict.
#[derive(Clone, Debug, Serialize)]
pub struct Conflict {
    pub pid: Option<i32>,
    pub ago_s: f64,
    pub statement: String,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Wal {
    /// Bytes of the -wal file; 0 without one.
    pub bytes: u64,
    pub frames: Option<u32>,
    /// How many of them a checkpoint has copied.
    pub copied: Option<u32>,
    /// How much of it a reader kept from being reused at the last checkpoint.
    pub kept_bytes: u64,
    /// Who reads an older state than the newest, the oldest first.
    pub readers: Vec<Reader>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Reader {
    #[serde(flatten)]
    pub party: Party,
    /// How many frames of the WAL are newer than what it reads.
    pub frames_behind: u32,
    /// At least so long.
    pub age_s: f64,
}

/// Another SQLite program that has the file open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stock {
    pub pid: i32,
    pub command: String,
    pub container: Option<String>,
    /// The library or program with SQLite inside, if it is found.
    pub library: Option<PathBuf>,
    /// The day of that SQLite's version.
    pub date: Option<String>,
    /// Manyhands itself, of another version.
    pub is_guest: bool,
}
