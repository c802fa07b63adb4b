//! Files and SQL that nobody in his right mind would send. What is done with them is in the modules, which
//! the fuzz targets share; here a seed decides instead of coverage, and the inputs that the fuzzer kept come
//! first.

#[path = "../../src/fuzzing/decisions.rs"]
mod decisions;
mod damage;
mod scripts;

use crate::stage::Stage;

/// A database and a WAL with any damage are opened, read and written, or refused with a clear error: no
/// panic, no hang, and nothing is acknowledged that plain SQLite does not find in a file that it calls ok.
#[test]
fn a_damaged_database_is_used_or_refused() {
    let stage = Stage::without_disk();
    let mut patient = damage::Patient::new(stage.directory());
    decisions::seeds("damaged_database").iter().for_each(|bytes| patient.open_damaged(bytes));
    decisions::each(150, 120, |bytes| patient.open_damaged(bytes));
}

/// Any statements in any order, over one connection or three: one gets what plain SQLite gives, three are
/// as if their transactions had come one after the other, and the database is whole.
#[test]
fn any_sql_in_any_order() {
    let stage = Stage::without_disk();
    let mut stand = scripts::Stand::new(stage.directory());
    decisions::seeds("sql").iter().for_each(|bytes| stand.play(bytes));
    decisions::each(200, 200, |bytes| stand.play(bytes));
}
