//! Writers that know nothing of Manyhands: the sqlite3 shell plays the same script, in SQLite's own
//! transactions.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::{Arguments, Orders, say};
use crate::clock::now_ns;
use crate::entry::{Kind, Operation, own_table};
use crate::shell::Session;

/// Every so many operations, a checkpoint.
const CHECKPOINT_EVERY: u32 = 12;

/// Others have their turn, too.
const PAUSE: Duration = Duration::from_millis(1);

/// Plays the writer's script.
pub fn write(job: &Arguments, orders: &Orders) -> Result<()> {
    let mut shell = start(job)?;
    let mut dice = Rng::with_seed(job.seed ^ job.number.unsigned_abs());
    let mut operation = Operation { writer: job.number * 100, sequence: 0 };
    while !orders.is_stopped() && (job.count == 0 || operation.sequence < job.count as i64) {
        operation.sequence += 1;
        perform(&mut shell, operation, job.seed)?;
        if dice.u32(0..CHECKPOINT_EVERY) == 0 {
            let mode = dice.choice(["PASSIVE", "FULL", "RESTART", "TRUNCATE"]).unwrap_or("FULL");
            // Busy is an answer, too.
            shell.ask(&format!("PRAGMA wal_checkpoint({mode})"))?;
        }
        std::thread::sleep(PAUSE);
    }
    drop(shell);
    say("end");
    Ok(())
}

/// Writes what nobody counts, and restarts the WAL all the time.
pub fn be_careless(job: &Arguments, orders: &Orders) -> Result<()> {
    let mut shell = start(job)?;
    shell.ask("CREATE TABLE IF NOT EXISTS peer (n)")?;
    while !orders.is_stopped() {
        shell.ask("PRAGMA wal_checkpoint(RESTART)")?;
        // The first to write after it is the one that starts the WAL at its beginning.
        shell.ask("INSERT INTO peer VALUES (1)")?;
        std::thread::sleep(PAUSE);
    }
    drop(shell);
    say("end");
    Ok(())
}

fn start(job: &Arguments) -> Result<Session> {
    let mut shell = Session::start(&job.database)?;
    shell.ask(&format!("PRAGMA synchronous={}", job.synchronous))?;
    say("ready");
    Ok(shell)
}

fn perform(shell: &mut Session, operation: Operation, seed: u64) -> Result<()> {
    let kind = operation.kind(seed);
    let (mut value, mut trouble) = (None, String::new());
    for sql in statements(operation, kind, seed) {
        let lines = shell.ask(&sql)?;
        if lines.iter().any(|line| line.contains("rror")) {
            trouble = lines.join(" ");
            break;
        }
        if let Some(line) = lines.first() {
            value = Some(line.parse::<i64>().with_context(|| format!("{sql}: {lines:?}"))?);
        }
    }
    let Operation { writer, sequence } = operation;
    let now = now_ns();
    if trouble.is_empty() {
        let value = value.map_or("-".to_owned(), |value| value.to_string());
        say(&format!("ack {now} {writer} {sequence} {value}"));
        return Ok(());
    }
    shell.ask("ROLLBACK")?;
    ensure!(matches!(kind, Kind::Refused | Kind::RefusedPair), "the shell: {trouble}");
    say(&format!("refused {now} {writer} {sequence}"));
    Ok(())
}

fn statements(operation: Operation, kind: Kind, seed: u64) -> Vec<String> {
    let Operation { writer, sequence } = operation;
    let insert = |part: i64, value: &str, payload: &str| {
        let (high, low) = operation.id(seed, part);
        format!(
            "INSERT INTO entry SELECT {writer}, {sequence}, {part}, {high}, {low}, {value}, {payload}"
        )
    };
    let plain = |part| insert(part, "NULL", "NULL");
    let count = |counter: i64| {
        let returning = if kind == Kind::Blind { "" } else { " RETURNING n" };
        format!("UPDATE counter SET n = n + 1 WHERE id = {counter}{returning}")
    };
    let violate = format!("INSERT INTO counter VALUES (1, {sequence})");
    let body = match (kind, kind.counter()) {
        (Kind::Insert, _) => return vec![plain(0)],
        (Kind::Refused, _) => return vec![violate],
        (Kind::BareCount, _) => return vec![count(2)],
        (Kind::Large, _) => {
            let (bytes, letter) = operation.payload(seed);
            let text = format!("'{}'", String::from(letter).repeat(bytes));
            return vec![insert(0, "NULL", &text)];
        }
        (Kind::RefusedPair, _) => vec![plain(0), violate],
        (Kind::Schema, _) => {
            vec![format!("DROP TABLE IF EXISTS own_{writer}"), own_table(operation), plain(0)]
        }
        (_, Some(counter)) => {
            let value = format!("(SELECT n FROM counter WHERE id = {counter})");
            let rows = (0..kind.parts()).map(|part| insert(part, &value, "NULL"));
            core::iter::once(count(counter)).chain(rows).collect()
        }
        (_, None) => vec![plain(0), plain(1)],
    };
    let begin = core::iter::once("BEGIN IMMEDIATE".to_owned());
    begin.chain(body).chain(core::iter::once("COMMIT".to_owned())).collect()
}
