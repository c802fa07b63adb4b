//! Who dies in a round, and where.

use std::fmt;

use anyhow::{Result, ensure};
use fastrand::Rng;
use manyhands_queue::crash::{POINTS, with_a_batch};

/// Rounds with a random moment, per pass through all points.
const RANDOM_SHARE: u64 = 8;

/// Fates that are no crash point.
const MOMENTS: [&str; 2] = ["random", "all"];

/// How the victims of a round die.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// One, so many milliseconds after all were ready.
    Random { after_ms: u64 },
    /// One, when it passes the point for the count-th time.
    Point { name: &'static str, count: u64 },
    /// One dies with a batch in hand, at `first`; then each of six others at `name`, if it comes
    /// there. One is spared.
    Chain { first: &'static str, count: u64, name: &'static str },
    /// One dies at the point, at its end in order: it is told to stop last. Then heirs come.
    Leaving,
    /// All die, so many milliseconds after all were ready. Then heirs come.
    All { after_ms: u64 },
}

impl Fate {
    /// The fate of a round: a function of seed and number.
    pub fn draw(seed: u64, round: u64, point: Option<&str>) -> Result<Fate> {
        let mut random = Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(round));
        let known = point.is_none_or(|name| MOMENTS.contains(&name) || POINTS.contains(&name));
        ensure!(known, "there is no such point; one of {MOMENTS:?} or {POINTS:?}");
        let place = round % (POINTS.len() as u64 + RANDOM_SHARE);
        let chosen = match point {
            Some(name) => POINTS.iter().find(|point| **point == name).copied(),
            None => POINTS.get(place as usize).copied(),
        };
        Ok(match chosen {
            None if point == Some("all") || point.is_none() && random.u64(0..4) == 0 => {
                Fate::All { after_ms: random.u64(5..250) }
            }
            None => Fate::Random { after_ms: random.u64(5..250) },
            Some("leaving") => Fate::Leaving,
            Some(name @ ("recovering" | "recovered")) => {
                let first = random.choice(with_a_batch()).expect("there are some");
                Fate::Chain { first, count: random.u64(1..30), name }
            }
            Some(name) => {
                let most = match name {
                    "joined" | "before-checkpoint" | "after-checkpoint" => 2,
                    "turn-begun" | "turn-committed" | "first-answered" => 20,
                    "taken" | "executed" => 120,
                    _ => 40,
                };
                Fate::Point { name, count: random.u64(1..most) }
            }
        })
    }

    /// The point's name.
    pub fn name(&self) -> &'static str {
        match self {
            Fate::Random { .. } => "random",
            Fate::Point { name, .. } | Fate::Chain { name, .. } => name,
            Fate::Leaving => "leaving",
            Fate::All { .. } => "all",
        }
    }

    /// True when nobody may be left, and others must open what was left behind.
    pub fn needs_heirs(&self) -> bool {
        matches!(self, Fate::Leaving | Fate::All { .. })
    }

    /// MANYHANDS_CRASH of one writer.
    pub fn crash(&self, number: i64) -> Option<String> {
        match (self, number) {
            (Fate::Point { name, count }, 0) => Some(format!("{name}:{count}")),
            (Fate::Chain { first, count, .. }, 0) => Some(format!("{first}:{count}")),
            (Fate::Chain { name, .. }, 1..7) => Some(format!("{name}:1")),
            (Fate::Leaving, 0) => Some("leaving:1".to_owned()),
            _ => None,
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Random { after_ms } => write!(f, "random after {after_ms} ms"),
            Fate::Point { name, count } => write!(f, "{name}:{count}"),
            Fate::Chain { first, count, name } => write!(f, "{first}:{count}, then {name}"),
            Fate::Leaving => write!(f, "leaving"),
            Fate::All { after_ms } => write!(f, "all after {after_ms} ms"),
        }
    }
}
