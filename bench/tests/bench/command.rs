//! The benchmark from its arguments to its lines.

use std::{fs, process::Command};

use serde_json::Value;

/// One short run of a workload; returns its JSON lines, all of which have passed their check.
pub fn measured(arguments: &[&str], expected_lines: usize) -> Vec<Value> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new(env!("CARGO_BIN_EXE_manyhands-bench"))
        .args(arguments)
        .arg("--directory")
        .arg(directory.path())
        .output()
        .expect("the command starts");
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let lines: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    assert_eq!(lines.len(), expected_lines, "{stdout}");
    for line in &lines {
        assert_eq!(line["check"], "ok", "{line}");
    }
    // What runs, and a line for each measurement.
    assert!(stderr.lines().count() > expected_lines, "{stderr}");
    let left = fs::read_dir(directory.path()).expect("still there").count();
    assert_eq!(left, 0, "the databases are removed");
    lines
}

/// Twice on stock SQLite.
fn check(arguments: &[&str], expected_lines: usize) -> Vec<Value> {
    let arguments = [arguments, &["--engines", "stock", "--repeat", "2"]].concat();
    measured(&arguments, expected_lines)
}

/// Two cells, two repetitions: four lines, each with its figures and its circumstances.
#[test]
fn threads_give_a_line_per_measurement() {
    let lines = check(&["threads", "--threads", "1,4", "--seconds", "0.2"], 4);
    let figures = &lines[0]["figures"];
    let acknowledged = figures["acknowledged"].as_u64().expect("a number");
    assert!(acknowledged > 0);
    assert!(figures["syncs_per_commit"].as_f64() >= Some(1.0), "FULL syncs each commit: {figures}");
    let wal_bytes = figures["wal_bytes_per_commit"].as_f64().expect("a number");
    assert!((4120.0..10.0 * 4120.0).contains(&wal_bytes), "a commit is a few frames: {wal_bytes}");
    let wal = figures["wal"].as_array().expect("samples");
    assert!(wal[0][1].as_u64() > Some(0), "the WAL has a size while it is written: {figures}");
    assert!(figures["backlog"].is_null(), "a closed loop has none");
    assert!(lines[0]["circumstances"]["cores"].is_u64());
    let pairs = figures["latency"]["histogram_ns"].as_array().expect("pairs");
    let counted: u64 = pairs.iter().filter_map(|pair| pair[1].as_u64()).sum();
    assert!(counted >= acknowledged, "each acknowledgement has its latency");
}

/// Two operations a second are far below what a disk can do; a million are above. What was not begun by the end is in
/// the figures, and the rate is not reached.
#[test]
fn an_open_loop_keeps_its_rate_or_says_what_it_left() {
    let run = |rate| {
        let arguments = ["threads", "--threads", "2", "--seconds", "1", "--rate", rate];
        check(&arguments, 2).remove(0)["figures"].take()
    };
    let slow = run("10");
    assert_eq!((slow["acknowledged"].as_u64(), slow["backlog"].as_u64()), (Some(10), Some(0)));
    let fast = run("1000000");
    let [begun, left] = ["acknowledged", "backlog"].map(|name| fast[name].as_u64());
    assert_eq!(begun.zip(left).map(|(begun, left)| begun + left), Some(1_000_000));
    assert!(fast["p50_ms"].as_f64() > Some(100.0), "half of them waited for long: {fast}");
}

/// A workload without an open loop says so, instead of running as if no rate had been given.
#[test]
fn a_rate_where_there_is_none() {
    let output = Command::new(env!("CARGO_BIN_EXE_manyhands-bench"))
        .args(["orm", "--rate", "10"])
        .output()
        .expect("the command starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("orm has no open loop"), "{stderr}");
}

/// Every process inserts one row per round, and the file holds them all.
#[test]
fn a_storm_acknowledges_every_round() {
    let lines = check(&["storm", "--processes", "3", "--rounds", "2"], 2);
    for line in &lines {
        assert_eq!(line["figures"]["acknowledged"], 6);
    }
}

/// The same with Python's processes, which import the standard module.
#[test]
fn a_storm_of_python_processes() {
    let lines = check(&["storm", "--client", "python", "--processes", "3", "--rounds", "2"], 2);
    assert_eq!(lines[0]["figures"]["acknowledged"], 6);
    assert!(lines[0]["figures"]["syncs"].is_null());
    let memory_bytes =
        lines[0]["figures"]["memory_bytes"].as_u64().expect("the processes were alive");
    assert!(memory_bytes > 3 << 20, "{memory_bytes}");
}

/// An engine that cannot run a workload is refused with the reason, before anything runs.
#[test]
fn a_mutex_cannot_order_processes() {
    let output = Command::new(env!("CARGO_BIN_EXE_manyhands-bench"))
        .args(["storm", "--engines", "stock-mutex"])
        .output()
        .expect("the command starts");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("a mutex of the application cannot order processes"), "{stderr}");
}

/// What every sync of the named engines took, in milliseconds: half of the commits took so long at least.
fn half_of_the_waits_ms(arguments: &[&str], lines: usize) -> Vec<f64> {
    let arguments = [arguments, &["--repeat", "1", "--sync-us", "20000"]].concat();
    let lines = measured(&arguments, lines);
    assert!(lines.iter().all(|line| line["circumstances"]["sync_us"] == 20_000));
    lines.iter().filter_map(|line| line["figures"]["p50_ms"].as_f64()).collect()
}

/// A slower disk is slower for Rust and for Python, for Manyhands and for stock SQLite, and for nobody else.
#[test]
fn syncs_that_take_longer() {
    for (arguments, lines) in [
        (&["threads", "--threads", "1", "--engines", "manyhands,stock"][..], 2),
        (&["storm", "--processes", "1", "--rounds", "5", "--engines", "stock"], 1),
        (
            &[
                "storm",
                "--client",
                "python",
                "--processes",
                "1",
                "--rounds",
                "5",
                "--engines",
                "stock",
            ],
            1,
        ),
    ] {
        let waits = half_of_the_waits_ms(arguments, lines);
        assert!(
            waits.len() == lines && waits.iter().all(|ms| *ms >= 20.0),
            "{arguments:?} {waits:?}"
        );
    }
    let normal = ["threads", "--threads", "1", "--engines", "stock-normal"];
    let waits = half_of_the_waits_ms(&normal, 1);
    assert!(waits[0] < 20.0, "a commit at NORMAL has no sync: {waits:?}");
}
