//! Files and SQL that nobody in his right mind would send. What is done with them is in the modules, which
//! the fuzz targets share; here a seed decides instead of coverage, and the inputs that the fuzzer kept come
//! first.

#[path = "../../src/decisions.rs"]
mod decisions;
mod damage;
mod scripts;

use std::path::Path;

use crate::stage::Stage;

/// Inputs of a fuzz target that are kept with the sources.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let files = std::fs::read_dir(&directory).expect("the target has seeds");
    let read = |file: std::io::Result<std::fs::DirEntry>| {
        std::fs::read(file.expect("an entry").path()).expect("a file")
    };
    files.map(read).collect()
}

/// A database and a WAL with any damage are opened, read and written, or refused with a clear error: no
/// panic, no hang, and nothing is acknowledged that plain SQLite does not find in a file that it calls ok.
#[test]
fn a_damaged_database_is_used_or_refused() {
    let stage = Stage::without_disk();
    let mut patient = damage::Patient::new(stage.directory());
    seeds("damaged_database").iter().for_each(|bytes| patient.open_damaged(bytes));
    decisions::each(150, 120, |bytes| patient.open_damaged(bytes));
}

/// Any statements in any order, over one connection or three: one gets what plain SQLite gives, three are
/// as if their transactions had come one after the other, and the database is whole.
#[test]
fn any_sql_in_any_order() {
    let stage = Stage::without_disk();
    let mut stand = scripts::Stand::new(stage.directory());
    seeds("sql").iter().for_each(|bytes| stand.play(bytes));
    decisions::each(200, 200, |bytes| stand.play(bytes));
}
