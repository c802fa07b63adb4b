//! `manyhands doctor` finds what was planted, each by its check, and nothing where nothing is wrong.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileExt, PermissionsExt},
    path::Path,
    process::Command,
};

use rustix::process::Signal;
use serde_json::Value as Json;

use crate::{
    MANYHANDS,
    player::{Player, wait_for},
    top::{Place, Stock, state},
};

/// What the doctor has found, and its exit status.
struct Examined {
    findings: Vec<Json>,
    status: Option<i32>,
}

fn doctor(file: &Path) -> Command {
    let mut command = Command::new(MANYHANDS);
    command.arg("doctor").arg(file).env_remove("DATABASE_URL");
    command
}

fn examined(command: &mut Command) -> Examined {
    let output = command.arg("--json").output().expect("it starts");
    let text = String::from_utf8(output.stdout).expect("text");
    let findings = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    Examined { findings, status: output.status.code() }
}

impl Examined {
    /// All that is not well, as `check verdict`.
    fn ill(&self) -> Vec<String> {
        let ill = self.findings.iter().filter(|it| it["verdict"] != "ok");
        let told = |it: &Json| {
            format!(
                "{} {}",
                it["check"].as_str().expect("text"),
                it["verdict"].as_str().expect("text")
            )
        };
        ill.map(told).collect()
    }

    /// These are found, and nothing else; the first has this in its reason, and each has a remedy.
    #[track_caller]
    fn has(&self, expected: &[&str], reason: &str) {
        assert_eq!(self.ill(), expected, "{:#?}", self.findings);
        let ill: Vec<_> = self.findings.iter().filter(|it| it["verdict"] != "ok").collect();
        assert!(ill.iter().all(|it| it["remedy"].as_str().is_some_and(|it| !it.is_empty())));
        let is_told = |it: &&Json| it["reason"].as_str().is_some_and(|it| it.contains(reason));
        assert!(ill.iter().any(is_told), "{reason}: {ill:#?}");
        let errors = ill.iter().any(|it| it["verdict"] == "error");
        assert_eq!(self.status, Some(if errors { 2 } else { 1 }));
    }
}

#[track_caller]
fn finds(file: &Path, expected: &[&str], reason: &str) {
    examined(&mut doctor(file)).has(expected, reason);
}

/// At rest, and while four processes write and one reads.
#[test]
fn a_healthy_database() {
    let place = Place::new();
    let rests = examined(&mut doctor(&place.file()));
    assert_eq!((rests.ill(), rests.status), (Vec::new(), Some(0)), "{:#?}", rests.findings);
    let mut players: Vec<_> = (0..4).map(|_| Player::open(&place.file(), "web")).collect();
    players.iter_mut().for_each(|player| player.begin("storm 600"));
    let works = examined(doctor(&place.file()).arg("--deep"));
    assert_eq!((works.ill(), works.status), (Vec::new(), Some(0)), "{:#?}", works.findings);
    let names: Vec<_> = works.findings.iter().map(|it| it["check"].as_str()).collect();
    assert_eq!(names.len(), 15, "{names:?}");
    drop(players);
    let text = doctor(&place.file()).output().expect("it starts").stdout;
    let text = String::from_utf8(text).expect("text");
    assert!(text.lines().all(|line| line.starts_with("ok ")), "{text}");
}

#[test]
fn what_is_no_database() {
    let place = Place::new();
    finds(&place.file().with_file_name("none.db"), &["file error"], "No such file");
    finds(place.file().parent().expect("a folder"), &["file error"], "is no file");
    let text = place.file().with_file_name("text.db");
    fs::write(&text, "Dear diary, today I wrote a database.").expect("writable");
    finds(&text, &["file error"], "is no SQLite database");
    fs::hard_link(place.file(), place.file().with_file_name("other.db")).expect("a second name");
    finds(&place.file(), &["file error"], "2 names");
}

/// A command as root, a restored backup, a umask: whose files are not everybody's.
#[test]
fn wrong_permissions() {
    let place = Place::new();
    let _player = Player::open(&place.file(), "web");
    let beside = |suffix: &str| {
        let mut path = place.file().into_os_string();
        path.push(suffix);
        path
    };
    let set = |path: &Path, mode| {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("ours");
    };
    for (suffix, mode, reason) in [
        ("-shm", 0o400, "some who may write the database may not write it"),
        ("-wal", 0o666, "everybody may write"),
        ("-hands", 0o400, "some who may write the database may not write it"),
    ] {
        let path = beside(suffix);
        let path = Path::new(&path);
        let before = path.metadata().expect("it is there").permissions();
        set(path, mode);
        finds(&place.file(), &["permissions error"], reason);
        fs::set_permissions(path, before).expect("ours");
    }
    set(&place.file(), 0o444);
    let found = examined(&mut doctor(&place.file()));
    assert!(found.ill().contains(&"permissions error".to_owned()), "{:#?}", found.findings);
}

/// The folder is another user's, so that the application can make no -wal file.
#[test]
fn a_closed_folder() {
    let place = Place::new();
    const NOBODY: u32 = 65_534;
    std::os::unix::fs::chown(place.file(), Some(NOBODY), Some(NOBODY))
        .expect("this test gives a file away: run it as root");
    let folder = place.file();
    let folder = folder.parent().expect("a folder");
    fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).expect("ours");
    finds(&place.file(), &["permissions error"], "may make no files in");
}

/// A file system of its own, as small as it may be.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(size: &str) -> Self {
        let disk = Self(tempfile::tempdir().expect("a directory"));
        let mount = ["-t", "tmpfs", "-o", &format!("size={size}"), "none"];
        let mounted = Command::new("mount").args(mount).arg(disk.0.path()).status();
        assert!(
            mounted.is_ok_and(|it| it.success()),
            "this test mounts a small disk: run it as root"
        );
        disk
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk() {
    let disk = SmallDisk::new("6m");
    let file = disk.0.path().join("app.db");
    manyhands::Database::open(&file)
        .and_then(|database| database.connect()?.execute("CREATE TABLE t (a)", &[]))
        .expect("there is room");
    fs::write(disk.0.path().join("ballast"), vec![1; 4 << 20]).expect("there is room");
    finds(&file, &["space error"], "are free on the disk");
    let mut ballast =
        OpenOptions::new().append(true).open(disk.0.path().join("ballast")).expect("it is there");
    while std::io::Write::write_all(&mut ballast, &[1; 4096]).is_ok() {}
    let found = examined(&mut doctor(&file));
    let ill = found.ill();
    for expected in ["space error", "sync error", "file system error"] {
        assert!(ill.contains(&expected.to_owned()), "{expected}: {:#?}", found.findings);
    }
}

#[test]
fn a_large_wal() {
    let place = Place::new();
    let mut player = Player::open(&place.file(), "web");
    player.does("INSERT INTO t VALUES (4)");
    let mut wal = place.file().into_os_string();
    wal.push("-wal");
    let wal = File::options().write(true).open(wal).expect("there is a WAL");
    wal.set_len(40 << 20).expect("longer");
    finds(&place.file(), &["wal warning"], "41.9 MB");
}

#[test]
fn an_endless_reader() {
    let place = Place::new();
    let (mut report, mut web) =
        (Player::open(&place.file(), "report"), Player::open(&place.file(), "web"));
    report.does("read SELECT a FROM t");
    web.does("INSERT INTO t VALUES (4)");
    let reason = format!("{} (report: ", report.pid());
    finds(&place.file(), &["readers warning"], &reason);
}

#[test]
fn a_forgotten_transaction() {
    let place = Place::new();
    let (mut job, mut web) =
        (Player::open(&place.file(), "job"), Player::open(&place.file(), "web"));
    job.does("BEGIN IMMEDIATE");
    job.does("UPDATE t SET a = 7 WHERE a = 1");
    let reason = format!("process {} (job) has held it for", job.pid());
    finds(&place.file(), &["turn warning"], &reason);
    web.begin("INSERT INTO t VALUES (4)");
    wait_for("a waiter", || (state(&place.file())["queue"].as_array()?.len() == 1).then_some(()));
    finds(&place.file(), &["turn error"], "after: UPDATE t SET a = 7 WHERE a = 1; 1 wait");
}

#[test]
fn a_stopped_leader() {
    let place = Place::new();
    let mut job = Player::open(&place.file(), "job");
    job.does("BEGIN IMMEDIATE");
    job.signal(Signal::STOP);
    finds(&place.file(), &["turn error"], "is stopped by a signal or a debugger");
}

#[test]
fn a_slow_statement() {
    let place = Place::new();
    let mut job = Player::open(&place.file(), "job");
    job.begin("INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0");
    wait_for("five seconds", || {
        (state(&place.file())["leader"]["held_s"].as_f64()? > 5.0).then_some(())
    });
    finds(&place.file(), &["turn warning"], "and executes: INSERT INTO t WITH RECURSIVE");
}

/// Debian's SQLite may have the WAL-reset bug or not: its day decides.
#[test]
fn a_stock_program_that_writes() {
    let place = Place::new();
    let _player = Player::open(&place.file(), "web");
    let reads = Stock::open(&place.file(), "SELECT count(*) FROM t;");
    let found = examined(&mut doctor(&place.file()));
    let date = state(&place.file())["stock"][0]["date"].as_str().expect("a day").to_owned();
    let has_bug = ("2010-07-21".."2026-03-13").contains(&date.as_str());
    let expected = if has_bug { "stock error" } else { "stock warning" };
    let reason = if has_bug { "a version with the WAL-reset bug" } else { "without the queue" };
    found.has(&[expected], reason);
    drop(reads);
    let writes = Stock::open(&place.file(), "BEGIN IMMEDIATE;");
    let reason = format!("stock program {} (sqlite3 ", writes.pid());
    finds(&place.file(), &["write lock error", expected], &reason);
}

/// Another build draws the queue file otherwise; a program gone wild writes over it.
#[test]
fn a_queue_of_another_version_and_a_damaged_one() {
    const LAYOUT_AT: u64 = 8;
    let place = Place::new();
    let _player = Player::open(&place.file(), "web");
    let mut queue = place.file().into_os_string();
    queue.push("-hands");
    let queue = File::options().write(true).open(queue).expect("there is a queue");
    queue.write_all_at(&7u64.to_ne_bytes(), LAYOUT_AT).expect("ours");
    let found = examined(&mut doctor(&place.file()));
    // Without its queue the member is one that bypasses it.
    found.has(&["queue warning", "stock warning"], "queue layout 7");
    queue.write_all_at(&[7; 8], 0).expect("ours");
    let found = examined(&mut doctor(&place.file()));
    found.has(&["queue error", "stock warning"], "damaged");
}

#[test]
fn a_damaged_database() {
    let place = Place::new();
    let run = |sql: &str| {
        let database = manyhands::Database::open(place.file()).expect("opens");
        database.connect().and_then(|mut it| it.execute_script(sql)).expect("executes");
    };
    run("CREATE TABLE item (id INTEGER PRIMARY KEY, name); CREATE INDEX by_name ON item (name);
         CREATE TABLE part (item REFERENCES item);
         INSERT INTO item (name) VALUES ('lamp'), ('desk'); INSERT INTO part VALUES (99)");
    let found = examined(doctor(&place.file()).arg("--deep"));
    found.has(&["integrity error"], "a row of part refers to one of item that is not there");
    assert_eq!(examined(&mut doctor(&place.file())).ill(), Vec::<String>::new());
    run("DELETE FROM part");
    // One letter of the table, and not of its index.
    let mut bytes = fs::read(place.file()).expect("readable");
    let lamp = bytes.windows(4).position(|it| it == b"lamp").expect("it is there");
    bytes[lamp] = b'd';
    fs::write(place.file(), &bytes).expect("writable");
    examined(doctor(&place.file()).arg("--deep")).has(&["integrity error"], "missing from index");
    // And a page of zeros.
    let file = File::options().write(true).open(place.file()).expect("ours");
    file.write_all_at(&[0; 4096], 4096).expect("writable");
    finds(&place.file(), &["integrity error"], "");
}

#[test]
fn a_database_that_was_replaced() {
    let place = Place::new();
    let player = Player::open(&place.file(), "web");
    let copy = place.file().with_file_name("copy.db");
    fs::copy(place.file(), &copy).expect("readable");
    fs::rename(&copy, place.file()).expect("one folder");
    let found = examined(&mut doctor(&place.file()));
    let reason = format!("processes {} have an older file open", player.pid());
    assert!(found.ill().contains(&"replaced error".to_owned()), "{:#?}", found.findings);
    let is_told = |it: &Json| it["reason"].as_str().is_some_and(|it| it.contains(&reason));
    assert!(found.findings.iter().any(is_told), "{:#?}", found.findings);
}

#[test]
fn journals() {
    let place = Place::new();
    let old = place.file().with_file_name("old.db");
    let made = Command::new("sqlite3").arg(&old).arg("CREATE TABLE t (a)").status();
    assert!(made.expect("the sqlite3 shell is installed").success());
    finds(&old, &["journal warning"], "not in WAL mode");
    let mut journal = place.file().into_os_string();
    journal.push("-journal");
    fs::write(journal, "left behind").expect("writable");
    finds(&place.file(), &["journal error"], "there is a -journal file");
}

#[test]
fn a_setting_that_leads_past_manyhands() {
    let place = Place::new();
    let url = format!("sqlite:///{}", place.file().display());
    let found = examined(doctor(&place.file()).env("DATABASE_URL", url));
    found.has(&["settings warning"], "DATABASE_URL is sqlite:///");
}
