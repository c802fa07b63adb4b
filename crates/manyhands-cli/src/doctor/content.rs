//! What is in the file: its journal mode, and whether it is whole.

use std::{fs::File, os::unix::fs::FileExt, path::Path};

use manyhands::{Database, params};

use super::finding::Finding;
use crate::inside::wal::beside;

/// Problems that are told of one database.
const TOLD_MAX: usize = 5;

/// The journal mode, as the file says it.
pub fn journal(path: &Path) -> Finding {
    const CHECK: &str = "journal";
    const VERSION_AT: u64 = 18;
    if beside(path, "-journal").metadata().is_ok_and(|it| it.len() > 0) {
        return Finding::error(
            CHECK,
            "there is a -journal file: a program in another journal mode has ended in the middle of a transaction, or is in one",
            "open the database once, by `manyhands exec FILE \"SELECT 1\"`: SQLite rolls it back. Never remove the file by hand",
        );
    }
    let mut versions = [0; 2];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut versions, VERSION_AT));
    match (read, versions) {
        (Err(_), _) => Finding::ok(CHECK, "the database is empty"),
        (Ok(()), [2, 2]) => Finding::ok(CHECK, "WAL"),
        (Ok(()), _) => Finding::warning(
            CHECK,
            "it is not in WAL mode",
            "open it once through Manyhands, or PRAGMA journal_mode = WAL; with journal=\"keep\" it is plain SQLite",
        ),
    }
}

/// What SQLite says of its own file.
pub fn integrity(path: &Path, deep: bool) -> Finding {
    const CHECK: &str = "integrity";
    let check = if deep { "integrity_check" } else { "quick_check" };
    const REMEDY: &str =
        "restore it from a backup; `.recover` of the sqlite3 shell saves what can be read";
    let problems = match problems(path, check, deep) {
        Ok(problems) => problems,
        Err(error) => return Finding::error(CHECK, format!("it cannot be read: {error}"), REMEDY),
    };
    if problems.is_empty() {
        return Finding::ok(CHECK, format!("PRAGMA {check} has found nothing"));
    }
    let more = problems.len().saturating_sub(TOLD_MAX);
    let mut told = problems.into_iter().take(TOLD_MAX).collect::<Vec<_>>().join("; ");
    if more > 0 {
        told += &format!("; and {more} more");
    }
    Finding::error(CHECK, told, REMEDY)
}

fn problems(path: &Path, check: &str, deep: bool) -> Result<Vec<String>, manyhands::Error> {
    // Only to read: it joins nothing, and switches nothing.
    let database = Database::builder(path).read_only(true).open()?;
    let mut connection = database.connect()?;
    let mut problems = Vec::new();
    for row in connection.query(&format!("PRAGMA {check}"), params![])? {
        let told: String = row.get(0)?;
        if told != "ok" {
            problems.push(told);
        }
    }
    if deep {
        for row in connection.query("PRAGMA foreign_key_check", params![])? {
            let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
            problems.push(format!("a row of {table} refers to one of {parent} that is not there"));
        }
    }
    Ok(problems)
}
