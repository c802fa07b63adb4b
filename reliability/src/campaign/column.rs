//! The long column: every campaign, with numbers that take days, in slices of about a minute.
//!
//! The entry that is least far in proportion has the next slice. A slice is this program again, in a group of
//! processes of its own; when it is over it appends one line to the results (`super::results`), and the page is
//! written anew. So whatever ends this program, Ctrl-C, SIGKILL or the power, takes away one slice at most: started
//! again, it reads the results and goes on where each entry ends.

mod entry;
mod page;
mod slice;
mod standing;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use self::entry::{Entry, entries};
use self::slice::Ended;
use self::standing::Standing;
use super::results;
pub use slice::end_with_stdin;

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// No slice begins after so many seconds; otherwise it ends when all entries have their numbers.
    #[arg(long)]
    seconds: Option<u64>,
    /// What slices have counted: lines are only added, and those that are there count.
    #[arg(long, default_value = "docs/reliability/campaigns.jsonl")]
    results: PathBuf,
    /// Is written after each slice.
    #[arg(long, default_value = "docs/reliability/campaign.md")]
    page: PathBuf,
    /// Another seed is another column.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this entry, for example "kill --hammer"; may be given more than once.
    #[arg(long)]
    only: Vec<String>,
    /// Only a part of the long column: its numbers, and those of a slice, divided by so much.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    part: u64,
    /// Seconds after which a slice hangs: it is killed, and that is a finding. By default each entry has its own.
    #[arg(long)]
    patience: Option<u64>,
}

/// Plays slices. False when there is a finding of this commit.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let (all, began) = (entries(arguments.part), Instant::now());
    for name in &arguments.only {
        let names: Vec<&str> = all.iter().map(|entry| entry.words).collect();
        ensure!(names.contains(&name.as_str()), "there is no entry {name:?}; one of {names:?}");
    }
    let is_chosen = |entry: &Entry| {
        arguments.only.is_empty() || arguments.only.iter().any(|name| name == entry.words)
    };
    let chosen: Vec<Entry> = all.into_iter().filter(is_chosen).collect();
    // Entries that get no more slices in this run, with the reason.
    let mut ended = BTreeMap::<&str, String>::new();
    if !rustix::process::geteuid().is_root() {
        let without = chosen.iter().filter(|entry| entry.needs_root());
        ended.extend(
            without.map(|entry| (entry.words, "cannot be done here: it needs root".to_owned())),
        );
    }
    loop {
        let runs = results::read(&arguments.results)?;
        let standings: Vec<Standing<'_>> =
            chosen.iter().map(|entry| Standing::new(entry, arguments.seed, &runs)).collect();
        page::write(arguments, &standings, &ended)?;
        let in_time = arguments.seconds.is_none_or(|limit| began.elapsed().as_secs() < limit);
        let open = |standing: &&Standing<'_>| {
            standing.share() < 1.0 && !ended.contains_key(standing.entry.words)
        };
        let least = standings.iter().filter(open);
        let least = least.min_by(|one, other| one.mean_share().total_cmp(&other.mean_share()));
        let Some(standing) = least.filter(|_| in_time) else { return Ok(summary(&standings)) };
        let entry = standing.entry;
        let patience = arguments.patience.map_or(entry.patience, Duration::from_secs);
        match slice::play(standing, arguments.seed, &arguments.results, patience)? {
            Ended::Counted if entry.from.is_some() => {}
            Ended::Counted => {
                ended.insert(entry.words, "has run".to_owned());
            }
            Ended::Stopped(reason) => {
                println!("{}: {reason}", entry.words);
                ended.insert(entry.words, reason);
            }
        }
    }
}

/// Says how far all is. False when there is a finding of this commit.
fn summary(standings: &[Standing<'_>]) -> bool {
    let complete = standings.iter().filter(|standing| standing.share() >= 1.0).count();
    let of_this_commit =
        standings.iter().flat_map(Standing::findings).filter(|found| found.is_of_this_commit());
    let findings = of_this_commit.count();
    println!("{complete} of {} entries have their numbers; {findings} findings", standings.len());
    findings == 0
}
