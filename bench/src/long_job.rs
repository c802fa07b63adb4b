//! The long transaction of the workload `mixed`: it reads a large table, computes, and writes the result.
//!
//! It reads the table once, in slices, and computes after each of them, as a report does. It reads no table that the
//! short writers write, so it has no conflict with them but those that an engine invents.

use std::time::Instant;

use super::{
    engine::{Client, Effort, Parameter::Integer},
    fixture::BIG_TABLE_ROWS,
    job::LongJob,
    think::{Think, ThinkKind},
};

/// Slices of the table: one aggregate over each.
const SLICES: i64 = 100;

/// Runs the job once, with `seconds` of thinking; whether it is run again is the engine's matter.
pub fn run(client: &mut dyn Client, seconds: f64, kind: ThinkKind) -> LongJob {
    let think = Think { us: (seconds * 1e6 / SLICES as f64) as u64, kind };
    let rows = BIG_TABLE_ROWS / SLICES;
    let mut effort = Effort::default();
    let began = Instant::now();
    let outcome = client.transact(
        &mut |statements| {
            let mut total = 0;
            for slice in 0..SLICES {
                let range = [Integer(slice * rows + 1), Integer((slice + 1) * rows)];
                total += statements
                    .number("SELECT sum(v) FROM big WHERE id BETWEEN ?1 AND ?2", &range)?;
                think.pass();
            }
            statements.execute("INSERT INTO result(total) VALUES (?1)", &[Integer(total)])
        },
        &mut effort,
    );
    LongJob {
        refusal: outcome.err().map(|refusal| refusal.0),
        retries: effort.retries,
        elapsed_s: began.elapsed().as_secs_f64(),
    }
}
