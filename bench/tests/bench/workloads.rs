//! `clients`, `claim` and `endless-reader`: tiny runs, of which each is checked against its file; these tests look at what
//! must hold beyond that.

use serde_json::Value;

use super::command::measured;

/// Once on the engines; returns a line for each of them.
fn check(arguments: &[&str], engines: &str) -> Vec<Value> {
    let fixed = ["--repeat", "1", "--engines", engines];
    measured(&[arguments, &fixed].concat(), engines.split(',').count())
}

fn number(line: &Value, name: &str) -> f64 {
    line["figures"][name].as_f64().unwrap_or_else(|| panic!("{name} is a number: {line}"))
}

/// Tasks by the hundred, in two processes, on the engines' own form for them and on a pool of connections.
#[test]
fn clients_are_tasks_of_processes() {
    let arguments = ["clients", "--processes", "2", "--clients", "200", "--seconds", "0.5"];
    for line in check(&arguments, "manyhands,manyhands-normal,stock-normal") {
        assert!(number(&line, "acknowledged") >= 1.0, "{line}");
        assert!(number(&line, "memory_bytes") > 1e6, "a process is more than a megabyte: {line}");
        assert!(number(&line, "share_least") <= 1.0, "{line}");
    }
}

/// What a fast engine and a slow rate make possible is done to the last operation; nothing is left over.
#[test]
fn clients_in_an_open_loop() {
    let arguments =
        ["clients", "--processes", "2", "--clients", "10", "--seconds", "1", "--rate", "40"];
    for line in check(&arguments, "manyhands,stock-normal") {
        assert_eq!(number(&line, "acknowledged") + number(&line, "backlog"), 40.0, "{line}");
    }
}

/// More than any disk can do: the rest is told.
#[test]
fn clients_that_are_too_slow_say_so() {
    let arguments =
        ["clients", "--processes", "1", "--clients", "10", "--seconds", "0.5", "--rate", "2000000"];
    for line in check(&arguments, "manyhands,stock") {
        assert_eq!(number(&line, "acknowledged") + number(&line, "backlog"), 1e6, "{line}");
        assert!(number(&line, "backlog") > 0.0, "{line}");
    }
}

/// Each job is claimed once, by threads and by processes; who was served how often is told.
#[test]
fn all_jobs_are_claimed() {
    for workers in [["--threads", "4"], ["--processes", "4"]] {
        let arguments = [&["claim", "--jobs", "300"], &workers[..]].concat();
        for line in check(&arguments, "manyhands,manyhands-normal,stock-normal") {
            assert_eq!(number(&line, "acknowledged"), 300.0, "{line}");
            assert!(number(&line, "share_most") >= 1.0, "{line}");
        }
    }
}

/// The reader sees one snapshot beside the writers; until it ends, no checkpoint lets the WAL begin anew.
#[test]
fn a_reader_holds_the_wal() {
    let arguments = ["endless-reader", "--threads", "2", "--seconds", "2"];
    let engines = "manyhands,stock-normal";
    let fixed = ["--repeat", "1", "--engines", engines];
    let lines = measured(&[&arguments[..], &fixed].concat(), 4);
    assert!(lines[..2].iter().all(|line| line["figures"]["reader"].is_null()));
    for line in &lines[2..] {
        let reader = &line["figures"]["reader"];
        assert!(reader["refusal"].is_null(), "{reader}");
        let ended_ms = reader["ended_s"].as_f64().expect("a number") * 1e3;
        let samples = line["figures"]["wal"].as_array().expect("samples");
        // The WAL may begin anew until the reader has begun.
        let beside =
            |sample: &&Value| (500.0..ended_ms).contains(&sample[0].as_f64().unwrap_or(0.0));
        let beside: Vec<&Value> = samples.iter().filter(beside).collect();
        assert!(!beside.is_empty(), "{line}");
        assert!(beside.iter().all(|sample| sample[2] == beside[0][2]), "no restart: {samples:?}");
    }
}

/// With a limit the WAL ends there, the writers wait without an error, and the reader's process is named.
#[test]
fn a_limit_holds_the_writers() {
    let arguments = ["endless-reader", "--threads", "4", "--seconds", "6"];
    let fixed = ["--repeat", "1", "--engines", "manyhands-wal-limit,stock-normal"];
    let lines = measured(&[&arguments[..], &fixed].concat(), 4);
    let limited = &lines[2]["figures"];
    let samples = limited["wal"].as_array().expect("samples");
    let longest = samples.iter().filter_map(|sample| sample[1].as_u64()).max();
    assert!(longest < Some(18 << 20), "{longest:?}");
    let named = limited["reader"]["named"].as_str().expect("it was there");
    assert!(named.starts_with("process ") && named.contains("(worker 0: "), "{named}");
    assert!(lines[3]["figures"]["reader"]["named"].is_null(), "stock SQLite cannot tell");
    assert_eq!(limited["errors"], serde_json::json!({}), "the writers waited");
}

/// A mutex in each of several processes would be one in name only.
#[test]
fn no_application_mutex_between_processes() {
    for workload in ["clients", "claim", "web"] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_manyhands-bench"))
            .args([workload, "--engines", "stock-mutex"])
            .output()
            .expect("the command starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("a mutex of the application cannot order processes"), "{stderr}");
    }
}

/// Debian's interpreter, for which its packages bring gunicorn.
const PYTHON: &str = "/usr/bin/python3";

/// A server with two processes creates posts and shows them; what the clients were told is in the file.
#[test]
fn a_web_server_creates_posts() {
    let arguments =
        ["web", "--python", PYTHON, "--processes", "2", "--clients", "1,4", "--seconds", "0.5"];
    let fixed = ["--repeat", "1", "--engines", "stock-normal"];
    for line in measured(&[&arguments[..], &fixed].concat(), 2) {
        assert!(number(&line, "acknowledged") >= 2.0, "{line}");
        assert!(number(&line, "cpu_s") > 0.0, "the server used the processor: {line}");
        assert!(number(&line, "generator_cpu_s") > 0.0, "{line}");
        assert!(number(&line, "p9999_ms") <= number(&line, "max_ms"), "{line}");
    }
}

/// Without the server's packages there is no figure, and a sentence that says which they are.
#[test]
fn a_server_that_cannot_start_says_what_it_needs() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_manyhands-bench"))
        .args(["web", "--python", "/bin/false", "--clients", "1", "--repeat", "1"])
        .args(["--engines", "stock", "--directory"])
        .arg(directory.path())
        .output()
        .expect("the command starts");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("/bin/false must find the packages gunicorn and manyhands"),
        "{stderr}"
    );
}
