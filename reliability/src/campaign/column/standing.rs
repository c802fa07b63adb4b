//! How far an entry of the column is: the sums of its slices.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::{Entry, Goal, What};
use crate::campaign::results::{self, Finding, Run};

/// An entry, and what was counted of it.
pub struct Standing<'a> {
    pub entry: &'a Entry,
    /// Where the next slice begins.
    pub from: u64,
    /// Those that count: none began before the end of an earlier one, so nothing is counted twice.
    pub slices: Vec<&'a Run>,
    /// Those that do not have what was found in them.
    others: Vec<&'a Run>,
    pub sums: BTreeMap<&'a str, u64>,
}

/// A finding, and the slice that it is of.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    pub run: &'a Run,
    pub finding: &'a Finding,
}

impl Found<'_> {
    /// What was found in another commit may be fixed since.
    pub fn is_of_this_commit(&self) -> bool {
        self.run.commit == results::commit()
    }
}

/// The words of a command that are no numbers: slices of one entry differ in these.
fn shape<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    words.filter(|word| word.parse::<u64>().is_err()).collect()
}

impl<'a> Standing<'a> {
    pub fn new(entry: &'a Entry, seed: u64, runs: &'a [Run]) -> Standing<'a> {
        let command = entry.command(seed, 0);
        let own = shape(command.iter().map(String::as_str));
        let is_own = |run: &&Run| {
            shape(run.command.split(' ')) == own && (run.seed == seed || !entry.is_seeded)
        };
        let (slices, others, sums) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut standing = Standing { entry, from: 0, slices, others, sums };
        for run in runs.iter().filter(is_own) {
            standing.add(run);
        }
        standing
    }

    fn add(&mut self, run: &'a Run) {
        if run.from < self.from || run.next == run.from {
            return self.others.push(run);
        }
        self.from = run.next;
        self.slices.push(run);
        for (name, figure) in &run.figures {
            let sum = self.sums.entry(name).or_default();
            *sum = if is_greatest(name) { *figure.max(sum) } else { *sum + figure };
        }
    }

    fn shares(&self) -> impl Iterator<Item = f64> {
        let share = |goal: &Goal| self.count(goal).0 as f64 / goal.number as f64;
        self.entry.goals.iter().map(move |goal| share(goal).min(1.0))
    }

    /// How far it is, of 1, where it is least far.
    pub fn share(&self) -> f64 {
        self.shares().fold(1.0, f64::min)
    }

    /// How far it is on the whole. A goal that is hard to come to does not keep the other entries waiting.
    pub fn mean_share(&self) -> f64 {
        self.shares().sum::<f64>() / self.entry.goals.len() as f64
    }

    /// What was counted for a goal, and the figure that says so.
    pub fn count(&self, goal: &Goal) -> (u64, &'a str) {
        match goal.what {
            What::Sum(figure) => (self.sums.get(figure).copied().unwrap_or(0), figure),
            What::Least(beginning) => {
                let sums = self.sums.iter().filter(|(name, _)| name.starts_with(beginning));
                let least = sums.min_by_key(|(_, sum)| **sum);
                least.map_or((0, beginning), |(name, sum)| (*sum, *name))
            }
        }
    }

    pub fn findings(&self) -> impl Iterator<Item = Found<'a>> {
        let runs = self.slices.iter().chain(&self.others);
        runs.flat_map(|run| run.findings.iter().map(|finding| Found { run, finding }))
    }

    pub fn seconds(&self) -> f64 {
        self.slices.iter().fold(0.0, |sum, run| sum + run.seconds)
    }

    pub fn commits(&self) -> BTreeSet<&'a str> {
        self.slices.iter().filter_map(|run| run.commit.as_deref()).collect()
    }
}

/// Of such figures the greatest counts, and not the sum.
fn is_greatest(name: &str) -> bool {
    ["_ms", "_kb", "_bytes", "_max"].iter().any(|end| name.ends_with(end))
}
