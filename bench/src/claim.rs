//! A worker of the job queue `claim`: it claims the first free job, again and again, until none is left.
//!
//! A claim is one statement, so that nobody else can be between its search and its mark.

use std::time::Instant;

use super::{
    engine::{Client, Parameter::Integer},
    tally::Tally,
};

/// Takes the first free job for the owner ?1; no row: there is none.
pub(crate) const CLAIM: &str = "UPDATE jobs SET owner = ?1 \
     WHERE id = (SELECT id FROM jobs WHERE owner IS NULL ORDER BY id LIMIT 1) RETURNING id";

/// Claims jobs for `owner`, whose number is its own among all workers and more than 0.
pub fn run(client: &mut dyn Client, owner: i64, tally: &mut Tally) {
    let mut began = Instant::now();
    while !tally.is_hopeless() {
        let outcome = client.take(CLAIM, Integer(owner), &mut tally.effort);
        let ended = Instant::now();
        match outcome {
            Ok(None) => break,
            Ok(Some(id)) => {
                tally.ids_read_back += id * owner;
                tally.note(ended, ended - began, Ok(()));
            }
            Err(refusal) => tally.note(ended, ended - began, Err(refusal)),
        }
        began = ended;
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::{fixture::schema, job::Task};

    /// The workload is about many workers, not about a search through all jobs that are done.
    #[test]
    fn the_first_free_job_is_found_by_index() {
        let connection = Connection::open_in_memory().expect("memory is enough");
        let task = Task::Claim { threads: 1, jobs: 10 };
        connection.execute_batch(&schema(&task)).expect("plain SQL");
        let mut statement =
            connection.prepare(&format!("EXPLAIN QUERY PLAN {CLAIM}")).expect("it compiles");
        let plan: Vec<String> = statement
            .query_map((1,), |row| row.get("detail"))
            .and_then(Iterator::collect)
            .expect("a plan has rows");
        assert!(plan.iter().any(|step| step.contains("INDEX free_job")), "{plan:?}");
    }
}
