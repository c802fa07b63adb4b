//! Who dies, and where.

use std::collections::VecDeque;
use std::fmt;

use anyhow::{Result, ensure};
use fastrand::Rng;
use manyhands_queue::crash::{POINTS, with_a_batch};

/// Deaths at a random moment, per pass through all points.
const RANDOM_SHARE: u64 = 4;

/// A leader's commit is on its way there, and its successor has to find out whether it happened: what goes wrong
/// there does so once in hundreds of deaths. They come twice in each pass.
const TWICE: [&str; 5] = ["announced", "frame-written", "synced", "half-published", "sealed"];

/// Fates that are no crash point.
const MOMENTS: [&str; 2] = ["random", "all"];

/// Successors that die while they settle what a dead leader left: one after the other, if they come there.
const SUCCESSORS: usize = 3;

/// How a death comes about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// One process, so many milliseconds after it was started.
    Random { after_ms: u64 },
    /// One, when it passes the point for the count-th time.
    Point { name: &'static str, count: u64 },
    /// One dies at the point, at its end in order: it is told to stop when all others have ended. Then heirs
    /// come.
    Leaving,
    /// All, after so many milliseconds. Then heirs come.
    All { after_ms: u64 },
}

impl Fate {
    /// The fates of a round, `deaths` of them or a few more: a function of seed and number.
    pub fn deal(seed: u64, round: u64, deaths: u64, point: Option<&str>) -> Result<VecDeque<Fate>> {
        let mut random = Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(round));
        let known = point.is_none_or(|name| MOMENTS.contains(&name) || POINTS.contains(&name));
        ensure!(known, "there is no such point; one of {MOMENTS:?} or {POINTS:?}");
        let mut fates = VecDeque::new();
        let pass = (POINTS.len() + TWICE.len()) as u64 + RANDOM_SHARE;
        for index in round * deaths..(round + 1) * deaths {
            let mut points = POINTS.iter().copied();
            let name = match point {
                Some(name) => points.find(|point| *point == name),
                None => points.chain(TWICE).nth((index % pass) as usize),
            };
            match name {
                None if point == Some("all") || point.is_none() && random.u64(0..4) == 0 => {
                    fates.push_back(Fate::All { after_ms: random.u64(5..250) });
                }
                None => fates.push_back(Fate::Random { after_ms: random.u64(5..250) }),
                Some("leaving") => fates.push_back(Fate::Leaving),
                // Only a successor passes them: who comes there first is not known.
                Some(name @ ("recovering" | "recovered")) => {
                    let fate = Fate::Point { name, count: 1 };
                    fates.extend(std::iter::repeat_n(fate, SUCCESSORS));
                }
                Some(name) => {
                    let most = match name {
                        "joined" | "before-checkpoint" | "after-checkpoint" => 2,
                        "block-claimed" | "turn-begun" | "turn-committed" | "first-answered" => 6,
                        "taken" | "executed" => 40,
                        _ => 16,
                    };
                    let fate = Fate::Point { name, count: random.u64(1..most) };
                    // A checkpoint comes after many commits, and is another's most of the time.
                    let times = if name.ends_with("-checkpoint") { 2 } else { 1 };
                    fates.extend(std::iter::repeat_n(fate, times));
                }
            }
        }
        Ok(fates)
    }

    /// The death of a leader that leaves something to settle.
    pub fn with_a_batch(random: &mut Rng) -> Fate {
        let name = random.choice(with_a_batch()).expect("there are some");
        Fate::Point { name, count: random.u64(1..12) }
    }

    /// True when the victim comes to its point only after another's death.
    pub fn is_of_a_successor(&self) -> bool {
        matches!(self, Fate::Point { name: "recovering" | "recovered", .. })
    }

    /// What it is called in the tables.
    pub fn name(&self) -> &'static str {
        match self {
            Fate::Random { .. } => "random",
            Fate::Point { name, .. } => name,
            Fate::Leaving => "leaving",
            Fate::All { .. } => "all",
        }
    }

    /// True when it leaves nobody, so that others must open what was left behind.
    pub fn needs_heirs(&self) -> bool {
        matches!(self, Fate::Leaving | Fate::All { .. })
    }

    /// MANYHANDS_CRASH of the victim.
    pub fn crash(&self) -> Option<String> {
        match self {
            Fate::Point { name, count } => Some(format!("{name}:{count}")),
            Fate::Leaving => Some("leaving:1".to_owned()),
            Fate::Random { .. } | Fate::All { .. } => None,
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Random { after_ms } => write!(f, "random after {after_ms} ms"),
            Fate::Point { name, count } => write!(f, "{name}:{count}"),
            Fate::Leaving => write!(f, "leaving"),
            Fate::All { after_ms } => write!(f, "all after {after_ms} ms"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three of 1,080 deaths after the seal showed a defect, and a run of all points had a dozen of them: it went unseen
    /// for days.
    #[test]
    fn who_dies_with_a_commit_on_its_way_does_so_twice_as_often() {
        let mut dealt = std::collections::BTreeMap::new();
        for round in 0..36 {
            for fate in Fate::deal(1, round, 100, None).expect("dealt") {
                *dealt.entry(fate.name()).or_insert(0) += 1;
            }
        }
        assert!(POINTS.iter().all(|point| dealt[point] >= 100), "{dealt:?}");
        assert_eq!(TWICE.map(|point| dealt[point]), [200; 5], "{dealt:?}");
        assert_eq!(dealt["executed"], 100, "{dealt:?}");
    }
}
