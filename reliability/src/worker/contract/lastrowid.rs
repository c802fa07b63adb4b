//! A parent is inserted, and with its id a child.

use anyhow::Result;
use manyhands::driver::ConnectionExt;
use manyhands::{Error, params};

use super::Caller;
use crate::campaign::PARENTS;
use crate::worker::{Arguments, say};

/// Inserts `count` parents with a child each.
pub fn adopt(caller: &mut Caller, job: &Arguments) -> Result<()> {
    for sequence in 0..job.count {
        let row = [job.number, sequence as i64];
        if caller.perform(|caller| pair(caller, row))? {
            caller.did += 1;
            say(&format!("ack {sequence}"));
        }
    }
    Ok(())
}

fn pair(caller: &mut Caller, row: [i64; 2]) -> Result<(), Error> {
    let parents = PARENTS[caller.dice.usize(0..PARENTS.len())];
    let begin = ["BEGIN", "BEGIN", "BEGIN", "BEGIN IMMEDIATE", ""][caller.dice.usize(0..5)];
    if !begin.is_empty() {
        caller.execute(begin, &[])?;
    }
    let id = insert_parent(caller, parents, row)?;
    caller.work();
    let [maker, sequence] = row;
    let child =
        format!("INSERT INTO child_of_{parents} (parent, maker, sequence) VALUES (?1, ?2, ?3)");
    caller.execute(&child, params![id, maker, sequence])?;
    if caller.dice.bool() {
        let count = format!("SELECT count(*) FROM child_of_{parents} WHERE parent = ?1");
        let count = caller.number(&count, params![id])?;
        if count != 1 {
            say(&format!("differs {count} children of the new row {id} of {parents}"));
        }
    }
    if !begin.is_empty() {
        caller.execute("COMMIT", &[])?;
    }
    Ok(())
}

fn insert_parent(caller: &mut Caller, parents: &str, row: [i64; 2]) -> Result<i64, Error> {
    let [maker, sequence] = row;
    let sql = format!("INSERT INTO {parents} (maker, sequence) VALUES (?1, ?2)");
    match caller.dice.u8(0..4) {
        0 => caller.number(&format!("{sql} RETURNING id"), params![maker, sequence]),
        1 => {
            caller.execute(&sql, params![maker, sequence])?;
            caller.timed(ConnectionExt::execute_deferred_in_turn)?;
            Ok(caller.connection.last_insert_rowid())
        }
        2 => {
            caller.execute(&sql, params![maker, sequence])?;
            caller.number("SELECT last_insert_rowid()", &[])
        }
        _ => {
            let outcome = caller.execute(&sql, params![maker, sequence])?;
            caller.id_of(&outcome)
        }
    }
}
