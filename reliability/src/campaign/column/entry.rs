//! What the long column consists of.

use std::time::Duration;

use crate::campaign::full::BYTES;
use crate::campaign::{images, planted, planted_bugs};
use crate::model::instances::LARGE;

/// A campaign of the column.
pub struct Entry {
    /// Words of the command line, which are its name.
    pub words: &'static str,
    /// It depends on a seed.
    pub is_seeded: bool,
    /// The option that says where it goes on; none where one run is all.
    pub from: Option<&'static str>,
    /// The option that says how long a slice is, and that.
    pub slice: Option<(&'static str, u64)>,
    /// A slice must lose something: a part of it may not.
    pub must_lose: bool,
    pub goals: Vec<Goal>,
    /// Figures that the page tells beside those of the goals: what is not counted, and controls.
    pub beside: &'static [&'static str],
    /// How long a slice may take before it hangs.
    pub patience: Duration,
}

/// A number to come to.
pub struct Goal {
    pub what: What,
    pub number: u64,
}

/// What is counted.
pub enum What {
    /// The sum of a figure.
    Sum(&'static str),
    /// The least sum of the figures that begin so.
    Least(&'static str),
}

fn sum(figure: &'static str, number: u64) -> Goal {
    Goal { what: What::Sum(figure), number }
}

/// One that goes on with `from`, in slices.
fn entry(
    words: &'static str,
    from: &'static str,
    slice: (&'static str, u64),
    goals: Vec<Goal>,
    beside: &'static [&'static str],
) -> Entry {
    let (from, slice, patience) = (Some(from), Some(slice), Duration::from_secs(900));
    Entry { words, is_seeded: true, from, slice, must_lose: false, goals, beside, patience }
}

/// One that is run once.
fn once(words: &'static str, goal: Goal, beside: &'static [&'static str]) -> Entry {
    let entry = entry(words, "", ("", 0), vec![goal], beside);
    Entry { from: None, slice: None, ..entry }
}

/// All of them; `part` divides the numbers. The order is that of slices while all are equally far.
pub fn entries(part: u64) -> Vec<Entry> {
    let round = "--from-round";
    let rounds = |count| ("--rounds", count);
    let deaths = vec![sum("deaths", 250_000), Goal { what: What::Least("at "), number: 500 }];
    let of_images = vec![sum("distinct", 5_000_000), sum("cut_again", 200_000)];
    let environment = |case| entry(case, round, rounds(10), vec![sum("rounds", 100)], ERRORS);
    let calls = |scene, number| {
        entry(scene, "--from-case", ("--seconds", 25), vec![sum("reached", number)], CALLS)
    };
    let contract = |words, count, figure, number, beside: &'static [&'static str]| {
        entry(words, round, rounds(count), vec![sum(figure, number)], beside)
    };
    let cuts =
        |words, number| entry(words, "--from-cut", ("--cuts", 10), vec![sum("cuts", number)], CUTS);
    let mut all = vec![
        once("planted", sum("planted", planted::count()), &["caught"]),
        once("planted-images", sum("planted", images::planted_count()), &["caught"]),
        entry("kill", round, rounds(10), deaths, DEATHS),
        entry("kill --hammer", round, rounds(6), vec![sum("deaths", 25_000)], DEATHS),
        entry(
            "isolation",
            round,
            ("--transactions", 300_000),
            vec![sum("checked", 500_000_000)],
            &["results", "conflicts", "unknown", "killed"],
        ),
        entry(
            "black-box",
            round,
            ("--transactions", 75_000),
            vec![sum("committed", 20_000_000)],
            &["conflicts", "unknown", "killed"],
        ),
        contract("contract --case polling", 12, "polled", 1_000_000, &["polled_of_the_shell"]),
        contract("contract --case lastrowid", 9, "children", 10_000_000, &["deleted_queue_files"]),
        contract(
            "contract --case checkpoint",
            24,
            "beside_checkpoints",
            1_000_000,
            &["checkpoints"],
        ),
        contract("contract --case readers", 36, "beside_readers", 1_000_000, &["lingered"]),
        contract("contract --case hot-rows", 12, "counted", 10_000_000, GAVE_WAY),
        entry("images", "--from-recording", ("--images", 12_000), of_images, IMAGES),
        calls("nth-call --scene work", 30_000),
        calls("nth-call --scene wal", 15_000),
        calls("nth-call --scene leader", 10_000),
        calls("nth-call --scene queue-file", 5_000),
        cuts("power-cut", 10_000),
        cuts("power-cut --stock FULL", 200),
        Entry { must_lose: true, ..cuts("power-cut --stock NORMAL", 200) },
        entry("full --pages 0 --bytes 0", round, rounds(5), vec![sum("rounds", 50)], ERRORS),
        entry(
            "full --rounds 0 --bytes 0",
            "--from-page",
            ("--pages", 64),
            vec![sum("pages", 256)],
            ERRORS,
        ),
        entry(
            "full --rounds 0 --pages 0",
            "--from-byte",
            ("--bytes", 200),
            vec![sum("bytes", BYTES)],
            ERRORS,
        ),
        environment("environment --case clock"),
        environment("environment --case descriptors"),
        environment("environment --case memory"),
        environment("environment --case namespaces"),
        Entry {
            slice: Some(rounds(4)),
            beside: &["forks", "acknowledged", "errors"],
            ..environment("environment --case fork")
        },
        entry("hostile", round, rounds(8), vec![sum("rounds", 200)], ATTACKS),
        entry("hostile --aimed", round, rounds(8), vec![sum("rounds", 20)], ATTACKS),
        entry("stopped", round, rounds(3), vec![sum("rounds", 100)], &["timeouts", "latest_ms"]),
        Entry {
            is_seeded: false,
            // The first one builds the targets.
            patience: Duration::from_secs(3600),
            ..entry(
                "fuzz",
                "--from-pass",
                ("--passes", 1),
                vec![sum("executions", 1_000_000_000)],
                TARGETS,
            )
        },
        entry(
            "opening --processes 1000",
            round,
            rounds(1),
            vec![sum("rounds", 10)],
            &["processes"],
        ),
        entry(
            "stock --checkpointer",
            round,
            rounds(1),
            vec![sum("rounds", 20)],
            &["writes", "acknowledged"],
        ),
        once(
            "memory",
            sum("writes", 200_000),
            &["connection_kb", "queue_file_bytes", "wal_bytes_max"],
        ),
        Entry {
            is_seeded: false,
            // An instance is explored whole.
            patience: Duration::from_secs(3600),
            ..entry(
                "model --set large",
                "--from-instance",
                ("--instances", 1),
                vec![sum("instances", LARGE.len() as u64)],
                &["states"],
            )
        },
        Entry {
            // Each is tried with several methods and seeds, some of which hang.
            patience: Duration::from_secs(3600),
            ..entry(
                "planted-bugs",
                "--from-bug",
                ("--bugs", 2),
                vec![sum("planted", planted_bugs::count())],
                &["caught"],
            )
        },
    ];
    for entry in all.iter_mut().filter(|entry| entry.from.is_some()) {
        let numbers = entry.goals.iter_mut().map(|goal| &mut goal.number);
        let slice = entry.slice.as_mut().filter(|_| !entry.must_lose);
        for number in numbers.chain(slice.map(|(_, number)| number)) {
            *number = number.div_ceil(part);
        }
    }
    all
}

const DEATHS: &[&str] = &["rounds", "acknowledged"];
const GAVE_WAY: &[&str] = &["gave_way", "gave_way_later", "gave_way_unexpected", "killed"];
const CALLS: &[&str] = &["cases", "acknowledged", "errors"];
const CUTS: &[&str] = &["acknowledged", "with_a_loss", "late", "late_and_gone"];
const ERRORS: &[&str] = &["acknowledged", "errors"];
const ATTACKS: &[&str] =
    &["attacks", "acknowledged", "unknown", "timeouts", "other_errors", "outside"];
/// With the controls: stock SQLite at FULL, which must lose nothing, and at NORMAL, which must.
const IMAGES: &[&str] = &[
    "recordings",
    "stock-full distinct",
    "stock-full bad",
    "stock-normal distinct",
    "stock-normal bad",
    "ours-normal bad",
    "careless-peer bad",
];

const TARGETS: &[&str] = &[
    "bytes executions",
    "insert executions",
    "queue_file executions",
    "request executions",
    "damaged_database executions",
    "sql executions",
];

/// They mount file systems, make control groups and namespaces. `power-cut` says so itself.
const NEED_ROOT: &[&str] =
    &["full", "stopped", "environment --case memory", "environment --case namespaces"];

impl Entry {
    /// Only root can do it.
    pub fn needs_root(&self) -> bool {
        NEED_ROOT.iter().any(|words| self.words.starts_with(words))
    }

    /// The words of a slice, without the program.
    pub fn command(&self, seed: u64, from: u64) -> Vec<String> {
        let mut words: Vec<String> = self.words.split(' ').map(str::to_owned).collect();
        let numbers = [
            self.is_seeded.then_some(("--seed", seed)),
            self.from.map(|option| (option, from)),
            self.slice,
        ];
        for (option, number) in numbers.into_iter().flatten() {
            words.extend([option.to_owned(), number.to_string()]);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::TARGETS;

    /// What a target has executed would be counted, and not told.
    #[test]
    fn every_fuzz_target_has_its_figure() {
        let manifest = include_str!("../../../../fuzz/Cargo.toml");
        let names = manifest.lines().filter_map(|line| line.strip_prefix("name = \""));
        // The first one is the package's.
        let names = names.skip(1).map(|name| format!("{} executions", name.trim_end_matches('"')));
        assert_eq!(names.collect::<Vec<_>>(), TARGETS);
    }
}
