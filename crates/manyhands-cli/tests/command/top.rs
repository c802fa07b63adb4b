//! `manyhands top` shows what real processes do: who holds the turn, who waits, who reads, and who bypasses Manyhands.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::Signal;
use serde_json::Value as Json;

use crate::{
    MANYHANDS,
    player::{Player, wait_for},
};

/// A database with a table.
pub struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let place = Self { directory: tempfile::tempdir().expect("a directory") };
        let database = manyhands::Database::open(place.file()).expect("opens");
        let mut connection = database.connect().expect("a connection");
        connection.execute("CREATE TABLE t (a)", &[]).expect("a table");
        connection.execute("INSERT INTO t VALUES (1), (2), (3)", &[]).expect("rows");
        place
    }

    pub fn file(&self) -> PathBuf {
        self.directory.path().join("app.db")
    }
}

/// What `manyhands` prints.
pub fn printed(arguments: &[&str], file: &Path) -> String {
    let output = Command::new(MANYHANDS).args(arguments).arg(file).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// What goes on in a file.
pub fn state(file: &Path) -> Json {
    let printed = printed(&["top", "--once", "--json", "--seconds", "0.2"], file);
    serde_json::from_str(&printed).expect("JSON")
}

/// A stock program that has the database open, and a transaction with the write lock or a snapshot.
pub struct Stock(Child);

impl Stock {
    pub fn open(file: &Path, script: &str) -> Self {
        let mut shell = Command::new("sqlite3");
        let piped = shell.arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().expect("the sqlite3 shell is installed");
        let stdin = child.stdin.as_mut().expect("it is piped");
        writeln!(stdin, "{script}\nSELECT 'there';").expect("it listens");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut lines = lines.map_while(Result::ok);
        assert!(lines.any(|line| line == "there"));
        Self(child)
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).expect("a small number")
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A forgotten transaction: the one question is who, for how long, and what it did last.
#[test]
fn who_holds_the_turn_and_who_waits_in_which_order() {
    let place = Place::new();
    let (mut job, mut web) =
        (Player::open(&place.file(), "job"), Player::open(&place.file(), "web"));
    job.does("BEGIN IMMEDIATE");
    job.does("UPDATE t SET a = 7 WHERE a = 1");
    web.begin("INSERT INTO t VALUES (4)");
    let now = wait_for("a waiter", || {
        let now = state(&place.file());
        (now["queue"].as_array().is_some_and(|it| !it.is_empty())).then_some(now)
    });
    let leader = &now["leader"];
    assert_eq!(leader["pid"], job.pid());
    assert_eq!(leader["label"], "job");
    assert_eq!(leader["does"], "idle");
    assert_eq!(leader["statement"], "UPDATE t SET a = 7 WHERE a = 1");
    assert!(leader["held_s"].as_f64() >= leader["idle_s"].as_f64());
    assert_eq!(now["queue"][0]["pid"], web.pid());
    assert_eq!(now["queue"][0]["statement"], "INSERT INTO t VALUES (4)");
    assert_eq!(now["queue"][0]["label"], "web");
    let members = now["members"].as_array().expect("a list");
    let pids: Vec<_> = members.iter().map(|it| it["pid"].as_i64()).collect();
    assert!(pids.contains(&Some(job.pid().into())) && pids.contains(&Some(web.pid().into())));
    let text = printed(&["top", "--once", "--seconds", "0"], &place.file());
    let line = text.lines().find(|line| line.starts_with("leader")).expect("a leader");
    assert!(line.contains(&format!("{} (job: ", job.pid())), "{text}");
    assert!(line.contains("has done nothing for"), "{text}");
    job.does("COMMIT");
    assert_eq!(web.hear(), "ok");
    assert!(state(&place.file())["leader"].is_null());
}

/// In a container the first process has the number 1, and here another.
#[test]
fn a_member_in_a_container_is_found() {
    let place = Place::new();
    let mut inner = Player::open_in_container(&place.file(), "inner");
    inner.does("BEGIN IMMEDIATE");
    let now = state(&place.file());
    let member = &now["members"][0];
    assert_eq!(member["own_pid"], 1, "{now}");
    let pid = member["pid"].as_i64().expect("a number");
    let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("it lives");
    assert!(pid != 1 && command.contains("player::entry"), "{pid} {command}");
    assert!(member["container"].as_str().is_some_and(|it| !it.is_empty()), "{now}");
    assert_eq!(
        (&now["leader"]["pid"], &now["leader"]["label"]),
        (&member["pid"], &member["label"])
    );
}

/// What runs is no forgotten transaction, and a stopped leader is told as one.
#[test]
fn a_running_statement_and_a_stopped_leader() {
    let place = Place::new();
    let mut job = Player::open(&place.file(), "job");
    let slow = "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0";
    job.begin(slow);
    let now = wait_for("the statement", || {
        let now = state(&place.file());
        (now["leader"]["does"] == "statement").then_some(now)
    });
    assert_eq!(now["leader"]["statement"], slow);
    assert_eq!(now["leader"]["is_stopped"], false);
    job.signal(Signal::STOP);
    wait_for("the stop", || (state(&place.file())["leader"]["is_stopped"] == true).then_some(()));
    let text = printed(&["top", "--once", "--seconds", "0"], &place.file());
    assert!(text.contains("STOPPED"), "{text}");
}

/// An endless reader keeps the WAL from being reused; a stock one, too.
#[test]
fn who_keeps_the_wal_from_being_reused() {
    let place = Place::new();
    let (mut reader, mut writer) =
        (Player::open(&place.file(), "report"), Player::open(&place.file(), "web"));
    reader.does("read SELECT a FROM t");
    writer.does("INSERT INTO t VALUES (5)");
    let stock = Stock::open(&place.file(), "BEGIN; SELECT count(*) FROM t;");
    writer.does("INSERT INTO t VALUES (6)");
    let now = state(&place.file());
    let readers = now["wal"]["readers"].as_array().expect("a list");
    assert_eq!(readers.len(), 2, "{now}");
    assert_eq!(readers[0]["pid"], reader.pid());
    assert_eq!(readers[0]["label"], "report");
    assert_eq!(readers[0]["is_stock"], false);
    assert!(readers[0]["frames_behind"].as_u64() > readers[1]["frames_behind"].as_u64());
    assert_eq!(readers[1]["pid"], stock.pid());
    assert_eq!(readers[1]["is_stock"], true);
}

/// A stock program with the write lock, which everybody waits for.
#[test]
fn a_stock_program_is_named_with_its_sqlite() {
    let place = Place::new();
    let mut writer = Player::open(&place.file(), "web");
    assert_eq!(state(&place.file())["stock"].as_array().map(Vec::len), Some(0));
    let stock = Stock::open(&place.file(), "BEGIN IMMEDIATE;");
    writer.begin("INSERT INTO t VALUES (5)");
    let now = wait_for("a leader that waits", || {
        let now = state(&place.file());
        (!now["leader"].is_null()).then_some(now)
    });
    assert_eq!(now["write_lock"]["pid"], stock.pid());
    assert_eq!(now["write_lock"]["is_stock"], true);
    assert_eq!(now["stock"][0]["pid"], stock.pid());
    assert_eq!(now["stock"][0]["is_guest"], false);
    assert!(now["stock"][0]["date"].as_str().is_some_and(|it| it.starts_with("20")), "{now}");
    let text = printed(&["top", "--once", "--seconds", "0"], &place.file());
    assert!(text.contains("holds SQLite's write lock, and the leader waits for it"), "{text}");
    drop(stock);
    assert_eq!(writer.hear(), "ok");
}

/// The figures of a second are those of what was written in it.
#[test]
fn rates_are_those_of_what_was_written() {
    let place = Place::new();
    let mut players: Vec<_> =
        (0..4).map(|at| Player::open(&place.file(), &format!("w{at}"))).collect();
    for player in &mut players {
        player.begin("storm 600");
    }
    let now = wait_for("commits and waits", || {
        let now = state(&place.file());
        let waits = now["waits"]["count"].as_u64();
        (waits > Some(10) && !now["rates"]["batched"].is_null()).then_some(now)
    });
    let rate = |name: &str| now["rates"][name].as_f64().unwrap_or_default();
    let commits = rate("commits_per_s");
    assert!(commits > 0.0);
    assert!((rate("batched") + rate("alone") + rate("in_turn") - 1.0).abs() < 0.01, "{now}");
    assert!(rate("sqlite_commits_per_s") > 0.0 && rate("sync_ms") > 0.0, "{now}");
    let waits = &now["waits"];
    assert!(waits["p50_ms"].as_f64() <= waits["p99_ms"].as_f64());
    assert!(waits["p99_ms"].as_f64() <= waits["max_ms"].as_f64());
    let of_members: f64 = now["members"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["commits_per_s"].as_f64())
        .sum();
    // A request counts when it is committed, and for its member when that has the answer.
    assert!(of_members > commits / 2.0 && of_members < commits * 2.0 + 50.0, "{now}");
}

/// Without a file all are shown that have members; where nobody is, that is said.
#[test]
fn files_with_members_are_found() {
    let place = Place::new();
    let text = printed(&["top", "--once", "--seconds", "0"], &place.file());
    assert!(text.contains("no process has it open through Manyhands"), "{text}");
    let player = Player::open(&place.file(), "there");
    let output = Command::new(MANYHANDS)
        .args(["top", "--once", "--json", "--seconds", "0"])
        .output()
        .expect("it starts");
    let states = String::from_utf8(output.stdout).expect("text");
    let states = states.lines().map(|line| serde_json::from_str::<Json>(line).expect("JSON"));
    let own: Vec<_> =
        states.filter(|it| it["file"] == place.file().to_str().expect("text")).collect();
    assert_eq!(own.len(), 1, "tests beside this one have files of their own");
    assert_eq!(own[0]["members"][0]["pid"], player.pid());
    let live = Command::new(MANYHANDS).arg("top").arg(place.file()).output().expect("it starts");
    assert!(String::from_utf8_lossy(&live.stderr).contains("--once"));
}
