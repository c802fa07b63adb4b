//! Workloads whose operations are transactions of several statements. Each run checks the file against what the clients
//! were told; these tests look at what must hold beyond that.

use serde_json::Value;

use super::command::measured;

/// Half a second on the engines, once; returns a line for each of them.
fn check(arguments: &[&str], engines: &str) -> Vec<Value> {
    let count = engines.split(',').count();
    let fixed = ["--seconds", "0.5", "--repeat", "1", "--engines", engines];
    let lines = measured(&[arguments, &fixed].concat(), count);
    for line in &lines {
        assert!(number(line, "acknowledged") > 0.0, "{line}");
        let errors = line["figures"]["errors"].as_object().expect("by kind");
        assert!(errors.is_empty(), "nobody waits for 5 s here: {errors:?}");
    }
    lines
}

fn number(line: &Value, name: &str) -> f64 {
    line["figures"][name].as_f64().expect("a number")
}

fn retries(line: &Value) -> u64 {
    line["figures"]["effort"]["retries"].as_u64().expect("a number")
}

/// A transaction that was promised its turn needs no second attempt.
fn check_without_retries(arguments: &[&str], engines: &str) {
    for line in check(arguments, engines) {
        assert_eq!(retries(&line), 0, "{line}");
    }
}

const THINK: [&str; 7] = ["think", "--threads", "4", "--think-us", "100", "--think-kind", "busy"];
const TRANSFER: [&str; 7] =
    ["transfer", "--threads", "4", "--think-kind", "wait", "--accounts", "100"];
const COUNTER: [&str; 4] = ["counter", "--in-transaction", "--threads", "4"];
const ORM: [&str; 3] = ["orm", "--threads", "4"];

/// Whoever holds the only right to write from the beginning is never asked to do it again.
#[test]
fn immediate_transactions_are_run_once() {
    for arguments in [&THINK[..], &TRANSFER, &COUNTER, &ORM] {
        check_without_retries(arguments, "stock,stock-mutex-normal,manyhands-immediate");
    }
}

/// What writers of different rows do is nobody else's conflict: not for Manyhands.
#[test]
fn inserts_of_different_rows_do_not_conflict() {
    check_without_retries(&THINK, "manyhands,manyhands-normal");
    let line = &check(&THINK, "manyhands")[0];
    assert_eq!(number(line, "rows_per_s"), 100.0 * number(line, "commits_per_s"));
}

/// Adding one to a row whose value nobody looked at is right whatever others have added.
#[test]
fn the_hot_counter_takes_no_retries() {
    check_without_retries(&COUNTER, "manyhands,manyhands-normal");
}

/// Reads of cold tables, a new id, a hot counter: no conflict that an application would have to know about.
#[test]
fn a_web_request_takes_few_retries() {
    for line in check(&ORM, "manyhands,manyhands-normal") {
        assert!(number(&line, "retries_per_100") <= 100.0, "run at most twice: {line}");
    }
}

/// All transfers are between the same two accounts: no money is lost, and nobody is refused.
#[test]
fn transfers_lose_no_money() {
    for kind in ["busy", "wait"] {
        let arguments = ["transfer", "--threads", "4", "--think-kind", kind, "--accounts", "2"];
        check(&arguments, "manyhands,manyhands-normal,stock");
    }
}

/// Real conflicts are retried within the library, and counted.
#[test]
fn transfers_that_conflict_are_retried() {
    let arguments = ["transfer", "--threads", "4", "--think-kind", "wait", "--accounts", "2"];
    for line in check(&arguments, "manyhands,manyhands-normal") {
        assert!(retries(&line) > 0, "{line}");
        assert_eq!(line["figures"]["effort"]["conflicts"], retries(&line), "{line}");
    }
}

/// SQLite refuses each deferred transaction whose snapshot others have overtaken; the application counts its retries.
#[test]
fn deferred_transactions_are_run_again() {
    let arguments = ["transfer", "--threads", "4", "--think-kind", "wait", "--accounts", "100"];
    let engines = "stock-deferred,stock-deferred-normal";
    let fixed = ["--seconds", "0.5", "--repeat", "1", "--engines", engines];
    for line in measured(&[&arguments[..], &fixed].concat(), 2) {
        assert!(retries(&line) > 0, "{line}");
        assert!(line["figures"]["effort"]["conflicts"].as_u64() > Some(0), "{line}");
    }
}

/// The short writers alone, then beside the long transaction, which is committed or not: either way as it was told.
/// Returns the lines of the latter.
fn mixed(engines: &str) -> Vec<Value> {
    let arguments = ["mixed", "--threads", "2", "--seconds", "0.2", "--long-seconds", "0.5"];
    let fixed = ["--repeat", "1", "--engines", engines];
    let count = engines.split(',').count();
    let lines = measured(&[&arguments[..], &fixed].concat(), 2 * count);
    assert!(lines[..count].iter().all(|line| line["figures"]["long_job"].is_null()));
    lines[count..].to_vec()
}

/// A transaction that holds the turn is committed at its first attempt. (Stock SQLite's may wait for the lock in vain.)
#[test]
fn a_long_job_that_holds_the_turn_is_committed() {
    for line in mixed("manyhands-immediate") {
        let job = &line["figures"]["long_job"];
        assert!(job["refusal"].is_null(), "{job}");
        assert_eq!(job["retries"], 0, "{job}");
    }
}

/// Writers that never pause overtake every snapshot: stock SQLite has no way to commit the long job beside them.
#[test]
fn a_deferred_long_job_is_overtaken() {
    for line in mixed("stock-deferred") {
        let job = &line["figures"]["long_job"];
        assert!(job["retries"].as_u64() > Some(0), "{job}");
    }
}

/// It reads no table that the short writers write: for Manyhands, there is no conflict.
#[test]
fn a_long_job_beside_writers_of_other_tables_is_committed() {
    for line in mixed("manyhands,manyhands-normal") {
        let job = &line["figures"]["long_job"];
        assert!(job["refusal"].is_null(), "{job}");
        assert_eq!(job["retries"], 0, "{job}");
    }
}

/// While it computes, the others write: a hundred times at least, where a turn that is held would let through a few.
#[test]
fn writers_go_on_beside_an_optimistic_long_job() {
    for line in mixed("manyhands,manyhands-normal") {
        assert!(number(&line, "acknowledged") >= 100.0, "{line}");
    }
}

/// How a transaction begins says nothing about a workload without one.
#[test]
fn engines_that_differ_in_transactions_only() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_manyhands-bench"))
        .args(["counter", "--engines", "stock-deferred"])
        .output()
        .expect("the command starts");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("counter has no transactions of several statements"), "{stderr}");
}
