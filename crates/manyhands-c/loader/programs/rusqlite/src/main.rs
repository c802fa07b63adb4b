//! The worker of Rust's rusqlite; `drivers/programs/README.md` says what a worker does. It knows two of the jobs.

use std::{
    io::stdin,
    time::{Duration, Instant},
};

use rusqlite::{Connection, Result, TransactionBehavior};

fn insert(database: &mut Connection, writer: &str, n: u64) -> Result<()> {
    database.execute_batch(&format!("INSERT INTO event (writer, n) VALUES ({writer}, {n})"))
}

fn read_then_write(database: &mut Connection) -> Result<()> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Deferred)?;
    let count: i64 =
        transaction.query_row("SELECT n FROM counter WHERE id = 1", [], |row| row.get(0))?;
    transaction.execute("UPDATE counter SET n = ?1 WHERE id = 1", [count + 1])?;
    transaction.commit()
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let [_, path, seconds, job, writer] = &words[..] else { panic!("DATABASE SECONDS JOB WRITER") };
    let seconds: f64 = seconds.parse().expect("seconds");
    let mut database = Connection::open(path)?;
    database.busy_timeout(Duration::from_secs(5))?;
    database.pragma_update(None, "synchronous", "FULL")?;
    let sqlite: String = database.query_row("SELECT sqlite_version()", [], |row| row.get(0))?;

    println!("ready");
    stdin().read_line(&mut String::new()).expect("a line");
    let (mut done, mut errors, mut n) = (0, 0, 0);
    let mut first_error = String::new();
    let mut wait = Duration::ZERO;
    let began = Instant::now();
    let mut now = began;
    while now.duration_since(began).as_secs_f64() < seconds {
        let outcome = match job.as_str() {
            "insert" => insert(&mut database, writer, n),
            "read-then-write" => read_then_write(&mut database),
            other => panic!("no job {other}"),
        };
        match outcome {
            Ok(()) => done += 1,
            Err(error) => {
                errors += 1;
                first_error = if first_error.is_empty() { error.to_string() } else { first_error };
            }
        }
        n += 1;
        let before = now;
        now = Instant::now();
        wait = wait.max(now.duration_since(before));
    }
    println!(
        "{{\"done\": {done}, \"errors\": {errors}, \"first_error\": {first_error:?}, \"wait_ms_max\": {}, \"seconds\": {}, \
         \"id_sum\": 0, \"sqlite\": \"{sqlite}\"}}",
        wait.as_secs_f64() * 1000.0,
        now.duration_since(began).as_secs_f64()
    );
    Ok(())
}
