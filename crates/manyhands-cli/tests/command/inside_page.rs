//! docs/inside.md is right: each field that is printed is in its table, and nothing else is.

use std::{collections::BTreeSet, path::Path, process::Command};

use serde_json::Value as Json;

use crate::{
    MANYHANDS,
    player::{Player, wait_for},
    top::{Place, Stock, printed, state},
};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/inside.md");
    std::fs::read_to_string(path).expect("the page")
}

/// The names of all values, those of a list's objects as `list.name`.
fn names(of: &Json, before: &str, into: &mut BTreeSet<String>) {
    match of {
        Json::Array(items) => items.iter().for_each(|it| names(it, before, into)),
        Json::Object(fields) => {
            for (name, value) in fields {
                let name =
                    if before.is_empty() { name.clone() } else { format!("{before}.{name}") };
                names(value, &name, into);
                into.insert(name);
            }
        }
        _ => {}
    }
}

/// The first column of the table under a heading.
fn documented(heading: &str) -> BTreeSet<String> {
    let page = page();
    let section = page.split("\n## ").find(|it| it.starts_with(heading)).expect("the heading");
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
    let fields = cells.flat_map(|(cell, _)| cell.split(", "));
    fields.map(|field| field.trim_matches('`').to_owned()).collect()
}

/// The commands of its blocks, in a folder with the database, where a process waits that has the number on the page.
#[test]
fn each_command_runs() {
    let place = Place::new();
    let (mut job, mut web) =
        (Player::open(&place.file(), "job"), Player::open(&place.file(), "web"));
    job.does("BEGIN IMMEDIATE");
    job.does("INSERT INTO t VALUES (7)");
    web.begin("INSERT INTO t VALUES (8)");
    wait_for("a waiter", || (state(&place.file())["queue"].as_array()?.len() == 1).then_some(()));
    let page = page();
    let blocks = page.split("```console\n").skip(1).filter_map(|it| it.split_once("\n```"));
    let lines = blocks.flat_map(|(block, _)| block.lines()).filter_map(|it| it.strip_prefix("$ "));
    let folder = place.file();
    let folder = folder.parent().expect("a folder");
    let own = Path::new(MANYHANDS).parent().expect("a folder").display().to_string();
    let path = format!("{own}:{}", std::env::var("PATH").expect("there is one"));
    let mut count = 0;
    for line in lines {
        let line = line.replace("4711", &web.pid().to_string());
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", &line]).current_dir(folder).env("PATH", &path).output();
        let output = output.expect("there is a shell");
        // The doctor warns of the transaction that is open here.
        let expected = if line.contains("doctor") { 2 } else { 0 };
        assert_eq!(output.status.code(), Some(expected), "{line}: {output:?}");
        assert!(output.stderr.is_empty(), "{line}: {output:?}");
        count += 1;
    }
    assert_eq!(count, 6);
    assert!(web.hear().starts_with("error: interrupted: somebody has cancelled"));
    for made in ["copy.db", "completions", "manyhands.1", "manyhands-top.1"] {
        assert!(folder.join(made).metadata().is_ok_and(|it| it.len() > 500), "{made}");
    }
}

#[test]
fn each_check_of_the_doctor_is_documented() {
    let place = Place::new();
    let found = printed(&["doctor", "--json"], &place.file());
    let found = found.lines().map(|line| serde_json::from_str::<Json>(line).expect("JSON"));
    let found: BTreeSet<_> =
        found.map(|it| it["check"].as_str().expect("text").to_owned()).collect();
    assert_eq!(found, documented("Is it healthy?"));
}

#[test]
fn each_field_is_documented() {
    let place = Place::new();
    let (mut job, mut web) =
        (Player::open(&place.file(), "job"), Player::open(&place.file(), "web"));
    job.does("read SELECT a FROM t");
    web.does("INSERT INTO t VALUES (4)");
    let _stock = Stock::open(&place.file(), "BEGIN IMMEDIATE;");
    let mut third = Player::open(&place.file(), "third");
    web.begin("INSERT INTO t VALUES (5)");
    third.begin("INSERT INTO t VALUES (6)");
    let mut found = BTreeSet::new();
    wait_for("all parts", || {
        let now = state(&place.file());
        let is_whole = ["queue", "stock", "members"]
            .iter()
            .all(|it| now[*it].as_array().is_some_and(|it| !it.is_empty()));
        names(&now, "", &mut found);
        (is_whole && !now["write_lock"].is_null() && !now["leader"].is_null()).then_some(())
    });
    // There is no conflict here: its fields are of this struct.
    found.extend(["conflict.pid", "conflict.ago_s", "conflict.statement"].map(str::to_owned));
    let groups = ["rates", "waits", "wal"].map(str::to_owned);
    found.retain(|name| !groups.contains(name));
    assert_eq!(found, documented("As JSON"));
}
