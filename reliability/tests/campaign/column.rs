//! The long column takes days, and every machine stops some time: a run that was killed must go on where it was,
//! count nothing twice and leave nothing out, and have left nothing running. And whoever reads the page must see
//! what was found, also when a slice hung or broke off.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::Beside;

const PATIENCE: Duration = Duration::from_secs(120);

/// Two entries whose numbers are the same each time: 44 bytes in slices of 4, and 2 rounds.
const CHEAP: &[&str] = &[
    "--only",
    "full --rounds 0 --pages 0",
    "--only",
    "environment --case namespaces",
    "--part",
    "50",
];

/// A directory for one column, which also has the directories of its slices.
struct Column(TempDir);

impl Column {
    fn new() -> Column {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("places")).expect("a directory");
        Column(directory)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn start(&self, words: &[&str], commit: &str, planted: Option<&str>) -> Child {
        let mut command = Command::new("python3");
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/campaign.py")).args(words);
        command.arg("--program").arg(env!("CARGO_BIN_EXE_reliability"));
        command.arg("--results").arg(self.path("results")).arg("--page").arg(self.path("page.md"));
        command.env("TMPDIR", self.path("places")).env("MANYHANDS_COMMIT", commit);
        command.env_remove("MANYHANDS_PLANTED").envs(planted.map(|bug| ("MANYHANDS_PLANTED", bug)));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().expect("the program starts")
    }

    fn run(&self, words: &[&str], commit: &str, planted: Option<&str>) -> ExitStatus {
        let mut process = self.start(words, commit, planted);
        let mut status = None;
        wait_until("the column ends", || {
            status = process.try_wait().expect("a child");
            status.is_some()
        });
        status.expect("it has ended")
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path("results")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a line is an object")).collect()
    }

    fn page(&self) -> String {
        std::fs::read_to_string(self.path("page.md")).expect("the page is there")
    }

    /// The places of each campaign's slices, in the order in which they were written.
    fn places(&self) -> BTreeMap<String, Vec<(u64, u64)>> {
        let mut places = BTreeMap::<String, Vec<(u64, u64)>>::new();
        for line in self.lines() {
            let number = |name: &str| line[name].as_u64().expect("a number");
            let campaign = line["campaign"].as_str().expect("a name").to_owned();
            places.entry(campaign).or_default().push((number("from"), number("next")));
        }
        places
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "in {PATIENCE:?} it was not so that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Processes that work in a directory, or write their results there.
fn at_work(directory: &Path) -> usize {
    let directory = directory.to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let words = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    words.filter(|words| String::from_utf8_lossy(words).contains(&directory)).count()
}

#[test]
fn a_column_that_was_killed_ends_as_one_that_was_not() {
    let _beside = Beside::others();
    let (through, broken) = (Column::new(), Column::new());
    assert!(through.run(CHEAP, "one", None).success(), "{}", through.page());
    for lines in [1, 4, 7] {
        let mut process = broken.start(CHEAP, "one", None);
        wait_until("it has more lines", || broken.lines().len() >= lines);
        // In the middle of a slice.
        wait_until("a slice writes", || at_work(&broken.path("places")) > 0);
        process.kill().expect("it can be killed");
        process.wait().expect("a child");
        wait_until("its slice has ended", || at_work(broken.0.path()) == 0);
    }
    assert!(broken.run(CHEAP, "one", None).success(), "{}", broken.page());

    assert_eq!(broken.places(), through.places(), "what was played");
    let bytes = (0..11).map(|slice| (4 * slice, 4 * slice + 4)).collect::<Vec<_>>();
    assert_eq!(broken.places()["full"], bytes);
    let page = broken.page();
    assert!(page.contains("| `full --rounds 0 --pages 0` | 44 of 44 bytes | 100 % |"), "{page}");
    assert!(page.contains("| `environment --case namespaces` | 2 of 2 rounds | 100 % |"), "{page}");
    assert!(page.contains("## Findings\nNone."), "{page}");
    // A column that is complete stays as it is.
    let before = broken.lines();
    assert!(broken.run(CHEAP, "two", None).success());
    assert_eq!(broken.lines(), before);
}

/// A disk that is full is a file system of its own, mounted: it goes, too.
#[test]
fn a_slice_ends_with_the_column_and_leaves_nothing() {
    let _beside = Beside::others();
    let column = Column::new();
    let mut process = column.start(&["--only", "full --rounds 0 --bytes 0"], "one", None);
    let is_mounted = || {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
        mounts.contains(&*column.path("places").to_string_lossy())
    };
    wait_until("the slice is at work", || is_mounted() && at_work(&column.path("places")) > 0);
    process.kill().expect("it can be killed");
    process.wait().expect("a child");
    wait_until("the slice has ended", || at_work(column.0.path()) == 0);
    assert_eq!(column.lines(), [Value::Null; 0], "it went on to its end");
    assert!(!is_mounted());
    let left = std::fs::read_dir(column.path("places")).expect("a directory");
    assert_eq!(left.count(), 0, "directories are left behind");
}

#[test]
fn a_finding_stands_on_the_page_and_fails_the_column() {
    let _beside = Beside::others();
    let column = Column::new();
    let words = ["--only", "kill", "--part", "1000", "--seconds", "1"];
    assert_eq!(column.run(&words, "one", Some("execute-twice")).code(), Some(1));
    let page = column.page();
    let (_, findings) = page.split_once("## Findings\n").expect("a section");
    assert!(findings.contains("are there twice"), "{page}");
    let replay =
        "Replay: `reliability kill --seed 1 --from-round 0 --rounds 1 --deaths 100 --processes 8";
    assert!(findings.contains(replay), "{page}");
    // It is known to later runs of the same program, and history for others.
    let none = ["--only", "kill", "--part", "1000", "--seconds", "0"];
    assert_eq!(column.run(&none, "one", None).code(), Some(1));
    assert_eq!(column.run(&none, "two", None).code(), Some(0));
    assert!(column.page().contains("## Findings of other commits\n"), "{}", column.page());
}

#[test]
fn a_slice_that_hangs_is_a_finding() {
    let _beside = Beside::others();
    let column = Column::new();
    // Its clock jumps for more than two seconds.
    let words = ["--only", "environment --case clock", "--part", "100", "--patience", "1"];
    assert_eq!(column.run(&words, "one", None).code(), Some(1));
    wait_until("nobody is left", || at_work(column.0.path()) == 0);
    let page = column.page();
    assert!(page.contains("did not end within 1 s, and was killed"), "{page}");
    assert!(page.contains("Replay: `reliability environment --case clock --seed 1"), "{page}");
    assert!(page.contains("| 0 of 1 rounds | 0.0000 % |"), "{page}");
}
