//! The reader of the workload `endless-reader`: it reads once, keeps its transaction open beside the writers, and reads
//! again before it ends.
//!
//! As long as it is there, no checkpoint can complete beyond what it sees, and the WAL grows: that is SQLite's way, and
//! what the workload is to show.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{
    engine::{Client, Opened, Refusal},
    worker::sleep_until,
};

const LAST_ID: &str = "SELECT coalesce(max(id), 0) FROM t";

/// How the reader fared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndlessReader {
    /// Why its transaction failed; `None` if it did not.
    pub refusal: Option<String>,
    /// When it ended, in seconds after the start.
    pub ended_s: f64,
    /// The last row as it saw it at the beginning of its transaction, and at the end.
    pub last_ids: [i64; 2],
    /// Who keeps the WAL from being reused, as the engine says shortly before the reader ends; `None` where an engine
    /// cannot tell, or nobody does.
    #[serde(default)]
    pub named: Option<String>,
}

impl EndlessReader {
    /// Did it see the same all the time?
    pub fn saw_one_snapshot(&self) -> bool {
        self.refusal.is_some() || self.last_ids[0] == self.last_ids[1]
    }
}

/// Reads from now until `seconds` after `start`.
pub fn run(
    client: &mut dyn Client,
    opened: &dyn Opened,
    start: Instant,
    seconds: f64,
) -> EndlessReader {
    let mut last_ids = [0; 2];
    let mut named = None;
    let outcome = client.read(&mut |statements| {
        last_ids[0] = statements.number(LAST_ID, &[])?;
        sleep_until(start + Duration::from_secs_f64(seconds));
        named = opened.reader();
        last_ids[1] = statements.number(LAST_ID, &[])?;
        Ok(())
    });
    EndlessReader {
        refusal: outcome.err().map(|Refusal(kind)| kind),
        ended_s: start.elapsed().as_secs_f64(),
        last_ids,
        named,
    }
}
