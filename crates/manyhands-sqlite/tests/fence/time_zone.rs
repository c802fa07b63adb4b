//! `'localtime'` is the same only where the zone is.

use std::process::Command;

use manyhands_sqlite::{Connection, OpenMode, zone_digest};

const TOLD: &str = "zone:";

/// Tells its zone's number and a local time; run by the test below in processes of its own.
#[test]
fn a_process_tells_its_zone() {
    let connection = Connection::open(":memory:".as_ref(), OpenMode::ReadWriteCreate, false)
        .expect("a connection");
    let local = connection
        .query_text("select datetime('2026-07-01 00:00:00', 'localtime')")
        .expect("a local time");
    println!("\n{TOLD}{}:{local}", zone_digest());
    assert_eq!(zone_digest(), zone_digest());
}

/// A web server runs in its city's zone, a cron job in UTC: one must not replay the other's local
/// times. Two workers of the web server may.
#[test]
fn processes_in_different_zones_know_it() {
    let told = |zone: Option<&str>| {
        let mut process = Command::new(std::env::current_exe().expect("a test knows its binary"));
        process.args(["time_zone::a_process_tells_its_zone", "--exact", "--nocapture"]);
        match zone {
            Some(zone) => process.env("TZ", zone),
            None => process.env_remove("TZ"),
        };
        let output = process.output().expect("the test binary starts again");
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = output.lines().find_map(|line| line.strip_prefix(TOLD));
        let (digest, local) = line.and_then(|line| line.split_once(':')).expect("it told");
        (digest.to_string(), local.to_string())
    };
    let (city, utc) = (told(Some("CET-1CEST,M3.5.0,M10.5.0/3")), told(Some("UTC0")));
    assert_eq!(city.1, "2026-07-01 02:00:00");
    assert_eq!(utc.1, "2026-07-01 00:00:00");
    assert_ne!(city.0, utc.0);
    assert_eq!(city, told(Some("CET-1CEST,M3.5.0,M10.5.0/3")));
    assert_eq!(told(None), told(None));

    // One name, two files.
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("zone");
    let name = file.to_str().expect("a path in UTF-8");
    std::fs::write(&file, "old rules").expect("a file");
    let old = told(Some(name));
    std::fs::write(&file, "new rules").expect("a file");
    assert_ne!(told(Some(name)).0, old.0);
    assert_eq!(told(Some(&format!(":{name}"))).1, old.1);
}
