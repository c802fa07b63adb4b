//! Producers and a consumer that polls: `WHERE id > last`.

use core::time::Duration;
use std::ops::RangeInclusive;

use anyhow::Result;
use manyhands::driver::ConnectionExt;
use manyhands::{Error, Outcome, params};

use super::{Caller, WORK};
use crate::campaign::TABLES;
use crate::worker::{Arguments, Orders, say};

/// How long a consumer waits where nothing has come.
const PAUSE: Duration = Duration::from_micros(200);

/// The ids of rows that a transaction was told: table, sequence, id.
type Told = Vec<(&'static str, u64, i64)>;

/// The producer of a row, and the row.
struct Maker {
    number: i64,
    sequence: u64,
    told: Told,
}

/// Inserts `count` rows, and some that are taken back, in all the ways in which programs insert.
pub fn produce(caller: &mut Caller, job: &Arguments) -> Result<()> {
    let mut sequence = 0;
    while sequence < job.count {
        let mut maker = Maker { number: job.number, sequence, told: Vec::new() };
        let succeeded = caller.perform(|caller| maker.make(caller))?;
        // What failed may not be there, and its numbers are not given again.
        if succeeded {
            caller.did += maker.sequence - sequence;
            for (table, sequence, id) in &maker.told {
                say(&format!("told {table} {sequence} {id}"));
            }
        }
        sequence = maker.sequence.max(sequence + 1);
    }
    Ok(())
}

impl Maker {
    fn make(&mut self, caller: &mut Caller) -> Result<(), Error> {
        let table = TABLES[caller.dice.usize(0..TABLES.len())];
        match caller.dice.u8(0..11) {
            0 => self.insert(caller, table).map(drop),
            1 => self.insert_and_ask(caller, table),
            2 => self.insert_returning(caller, table),
            3 => self.batch(caller, table),
            4 => self.transaction(caller, "BEGIN", |maker, caller| {
                // Nobody asks: they may be executed with their COMMIT.
                maker.insert(caller, table)?;
                caller.work();
                maker.insert(caller, table).map(drop)
            }),
            5 => self.transaction(caller, "BEGIN", |maker, caller| {
                maker.insert_and_ask(caller, table)?;
                caller.work();
                maker.insert(caller, table).map(drop)
            }),
            6 => self.transaction(caller, "BEGIN", |maker, caller| {
                // The first one is asked for when another one is there.
                let (sequence, first) = maker.insert(caller, table)?;
                maker.insert(caller, TABLES[0])?;
                caller.work();
                let id = caller.id_of(&first)?;
                maker.told.push((table, sequence, id));
                Ok(())
            }),
            7 => self.transaction(caller, "BEGIN", |maker, caller| {
                maker.insert_returning(caller, table)?;
                caller.work();
                maker.insert_and_ask(caller, TABLES[1])
            }),
            8 => self.transaction(caller, "BEGIN IMMEDIATE", |maker, caller| {
                maker.insert_and_ask(caller, table)?;
                caller.work();
                Ok(())
            }),
            9 => self.transaction(caller, "SAVEPOINT outer", |maker, caller| {
                maker.insert_and_ask(caller, table)?;
                caller.work();
                Ok(())
            }),
            _ => self.take_back(caller, table),
        }
    }

    fn transaction(
        &mut self,
        caller: &mut Caller,
        begin: &str,
        write: impl FnOnce(&mut Maker, &mut Caller) -> Result<(), Error>,
    ) -> Result<(), Error> {
        caller.execute(begin, &[])?;
        write(self, caller)?;
        let end = if begin.starts_with("SAVEPOINT") { "RELEASE outer" } else { "COMMIT" };
        caller.execute(end, &[]).map(drop)
    }

    /// The sequence of the row, and what came of it.
    fn insert(&mut self, caller: &mut Caller, table: &str) -> Result<(u64, Outcome), Error> {
        let sequence = self.next();
        let sql = format!("INSERT INTO {table} (producer, sequence) VALUES (?1, ?2)");
        let outcome = caller.execute(&sql, params![self.number, sequence as i64])?;
        Ok((sequence, outcome))
    }

    fn insert_and_ask(&mut self, caller: &mut Caller, table: &'static str) -> Result<(), Error> {
        let (sequence, outcome) = self.insert(caller, table)?;
        // In one of two ways.
        let id = if caller.dice.bool() {
            caller.id_of(&outcome)?
        } else {
            caller.timed(ConnectionExt::execute_deferred_in_turn)?;
            caller.connection.last_insert_rowid()
        };
        self.told.push((table, sequence, id));
        Ok(())
    }

    fn insert_returning(&mut self, caller: &mut Caller, table: &'static str) -> Result<(), Error> {
        let sequence = self.next();
        let sql = format!("INSERT INTO {table} (producer, sequence) VALUES (?1, ?2) RETURNING id");
        let id = caller.number(&sql, params![self.number, sequence as i64])?;
        self.told.push((table, sequence, id));
        Ok(())
    }

    fn batch(&mut self, caller: &mut Caller, table: &'static str) -> Result<(), Error> {
        let (first, second) = (self.next(), self.next());
        let sql = format!("INSERT INTO {table} (producer, sequence) VALUES (?1, ?2)");
        let (one, two) = (params![self.number, first as i64], params![self.number, second as i64]);
        let outcomes = caller.timed(|it| it.batch(&[(&sql, one), (&sql, two)]))?;
        for (sequence, outcome) in [first, second].into_iter().zip(&outcomes) {
            let id = caller.id_of(outcome)?;
            self.told.push((table, sequence, id));
        }
        Ok(())
    }

    /// An id that nobody keeps: the next row may have it.
    fn take_back(&mut self, caller: &mut Caller, table: &str) -> Result<(), Error> {
        caller.execute("BEGIN", &[])?;
        let sql = format!("INSERT INTO {table} (producer, sequence) VALUES (?1, -1)");
        let outcome = caller.execute(&sql, params![self.number])?;
        caller.id_of(&outcome)?;
        std::thread::sleep(WORK);
        caller.execute("ROLLBACK", &[]).map(drop)
    }

    fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence - 1
    }
}

/// Asks for what is new, until `stop`, and once more.
pub fn poll(caller: &mut Caller, orders: &Orders) -> Result<()> {
    let mut seen: [Vec<RangeInclusive<i64>>; TABLES.len()] = Default::default();
    loop {
        let is_last = orders.is_stopped();
        let before = caller.did;
        for (table, seen) in TABLES.iter().zip(&mut seen) {
            caller.perform(|caller| {
                let last = seen.last().map_or(0, |range| *range.end());
                let sql = format!("SELECT id FROM {table} WHERE id > ?1 ORDER BY id");
                for row in caller.query(&sql, params![last])? {
                    caller.did += 1;
                    note(seen, row.get(0)?);
                }
                Ok(())
            })?;
        }
        if is_last {
            break;
        }
        if caller.did == before {
            std::thread::sleep(PAUSE);
        }
    }
    for (table, seen) in TABLES.iter().zip(&seen) {
        for range in seen {
            say(&format!("saw {table} {} {}", range.start(), range.end()));
        }
    }
    Ok(())
}

/// Ids that follow each other are one range.
fn note(seen: &mut Vec<RangeInclusive<i64>>, id: i64) {
    match seen.last_mut() {
        Some(last) if *last.end() + 1 == id => *last = *last.start()..=id,
        _ => seen.push(id..=id),
    }
}
