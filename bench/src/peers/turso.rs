//! Turso as its documentation shows concurrent writes: `journal_mode=mvcc`, each transaction in `BEGIN CONCURRENT`, run
//! again by the application when it was refused. Group commit is on, as it is by default.
//!
//! Single statements are put into `BEGIN CONCURRENT` too: alone, they would wait for each other. Isolation is snapshot
//! isolation. One process at a time has the file.

mod block_on;

use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::{
    engine::{Client, Effort, Engine, Opened, Parameter, Refusal, Statements, Tables, Work},
    workload::{Demand, Workload},
};
use anyhow::{Context, Result, ensure};
use turso::{Builder, Connection, Database, Error, Value};

use self::block_on::block_on;
use super::is_for_peers;

/// The engine.
pub struct Turso;

impl Engine for Turso {
    fn name(&self) -> &'static str {
        "turso"
    }

    fn version(&self) -> Result<String, Refusal> {
        Ok(format!("Turso {}", locked_version(include_str!("../../../Cargo.lock"), "turso")?))
    }

    fn is_default(&self, demand: Demand) -> bool {
        // Half of the workers of `claim` are processes, of which only one can have the file.
        !matches!(demand.workload, Workload::Limits | Workload::Claim)
    }

    fn accepts(&self, demand: Demand) -> Result<(), String> {
        match demand.workload {
            Workload::Storm | Workload::Clients => {
                Err("only one process can have the file".to_owned())
            }
            _ => is_for_peers(demand),
        }
    }

    fn prepare(&self, directory: &Path, schema: &str) -> Result<Box<dyn Tables>> {
        let tables = TursoFile { database: directory.join("bench.db") };
        let connection = tables.connect()?;
        block_on(connection.execute_batch(schema)).context("create the tables")?;
        Ok(Box::new(tables))
    }

    fn open(
        &self,
        database: &Path,
        timeout: Duration,
        _label: &str,
    ) -> Result<Box<dyn Opened>, Refusal> {
        let database = open(database).map_err(refusal)?;
        Ok(Box::new(OpenTurso { database, timeout }))
    }
}

/// The version of a package in a lock file: the crate does not tell its own.
fn locked_version<'lock>(lock: &'lock str, package: &str) -> Result<&'lock str, Refusal> {
    lock.split_once(&format!("name = \"{package}\"\nversion = \""))
        .and_then(|(_, rest)| rest.split_once('"'))
        .map(|(version, _)| version)
        .ok_or_else(|| Refusal(format!("{package} is not in the lock file")))
}

fn open(database: &Path) -> Result<Database, Error> {
    let path = database
        .to_str()
        .ok_or_else(|| Error::Misuse("the path of the database is not UTF-8".to_owned()))?;
    block_on(Builder::new_local(path).build())
}

fn connect(database: &Database) -> Result<Connection, Error> {
    let connection = database.connect()?;
    block_on(connection.pragma_update("journal_mode", "'mvcc'"))?;
    block_on(connection.pragma_update("synchronous", "FULL"))?;
    Ok(connection)
}

/// The file, closed, so that the worker can have it.
struct TursoFile {
    database: PathBuf,
}

impl TursoFile {
    fn connect(&self) -> Result<Connection> {
        let database = open(&self.database).context("open the database with Turso")?;
        Ok(connect(&database)?)
    }
}

impl Tables for TursoFile {
    fn database(&self) -> &Path {
        &self.database
    }

    /// Where MVCC writes its commits.
    fn wal(&self) -> PathBuf {
        self.database.with_extension("db-log")
    }

    fn number(&self, sql: &str) -> Result<i64> {
        let connection = self.connect()?;
        Ok(number(&connection, sql, &[])?)
    }

    fn check_integrity(&self) -> Result<()> {
        let connection = self.connect()?;
        let verdict: String = block_on(async {
            let mut statement = connection.prepare("PRAGMA integrity_check(1)").await?;
            statement.query_row(()).await?.get(0)
        })?;
        ensure!(verdict == "ok", "integrity_check: {verdict}");
        Ok(())
    }
}

struct OpenTurso {
    database: Database,
    timeout: Duration,
}

impl Opened for OpenTurso {
    fn connect(&self) -> Result<Box<dyn Client>, Refusal> {
        let connection = connect(&self.database).map_err(refusal)?;
        connection.busy_timeout(self.timeout).map_err(refusal)?;
        Ok(Box::new(TursoClient { connection, timeout: self.timeout }))
    }
}

struct TursoClient {
    connection: Connection,
    timeout: Duration,
}

impl Client for TursoClient {
    fn write(
        &mut self,
        sql: &str,
        parameter: Parameter<'_>,
        effort: &mut Effort,
    ) -> Result<(), Refusal> {
        self.transact(&mut |statements| statements.execute(sql, parameter.as_slice()), effort)
    }

    fn take(
        &mut self,
        sql: &str,
        parameter: Parameter<'_>,
        effort: &mut Effort,
    ) -> Result<Option<i64>, Refusal> {
        let mut taken = None;
        let run = |statements: &mut TursoStatements<'_>| {
            taken = statements.take(sql, parameter)?;
            Ok(())
        };
        self.again_if_refused(effort, run)?;
        Ok(taken)
    }

    fn read(&mut self, work: &mut Work<'_>) -> Result<(), Refusal> {
        self.attempt(|statements| work(statements))
    }

    fn transact(&mut self, work: &mut Work<'_>, effort: &mut Effort) -> Result<(), Refusal> {
        self.again_if_refused(effort, |statements| work(statements))
    }
}

impl TursoClient {
    fn again_if_refused(
        &self,
        effort: &mut Effort,
        mut run: impl FnMut(&mut TursoStatements<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let began = Instant::now();
        let mut runs = 0_u64;
        loop {
            let outcome = self.attempt(&mut run);
            runs += 1;
            match &outcome {
                Err(Refusal(kind)) if is_retryable(kind) => effort.conflicts += 1,
                _ => return outcome,
            }
            // Once at least, so that a transaction longer than the timeout has a second chance too.
            if runs > 1 && began.elapsed() >= self.timeout {
                return outcome;
            }
            effort.retries += 1;
            thread::yield_now();
        }
    }

    /// Runs and commits a transaction, or rolls it back.
    fn attempt(
        &self,
        mut work: impl FnMut(&mut TursoStatements<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut statements = TursoStatements(&self.connection);
        statements.execute("BEGIN CONCURRENT", &[])?;
        let outcome = work(&mut statements).and_then(|()| statements.execute("COMMIT", &[]));
        if outcome.is_err() && !self.connection.is_autocommit().map_err(refusal)? {
            statements.execute("ROLLBACK", &[])?;
        }
        outcome
    }
}

struct TursoStatements<'connection>(&'connection Connection);

impl TursoStatements<'_> {
    /// Runs a statement to its end; the first column of its first row, if it has one.
    fn take(&self, sql: &str, parameter: Parameter<'_>) -> Result<Option<i64>, Refusal> {
        let taken = block_on(async {
            let mut statement = self.0.prepare_cached(sql).await?;
            let mut rows = statement.query(values(&[parameter])).await?;
            let mut taken = None;
            while let Some(row) = rows.next().await? {
                taken = Some(row.get(0)?);
            }
            Ok(taken)
        });
        taken.map_err(refusal)
    }
}

impl Statements for TursoStatements<'_> {
    fn execute(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<(), Refusal> {
        block_on(async {
            let mut statement = self.0.prepare_cached(sql).await?;
            statement.execute(values(parameters)).await
        })
        .map(|_changes| ())
        .map_err(refusal)
    }

    fn insert(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<i64, Refusal> {
        self.execute(sql, parameters)?;
        Ok(self.0.last_insert_rowid())
    }

    fn number(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<i64, Refusal> {
        number(self.0, sql, parameters).map_err(refusal)
    }
}

fn number(connection: &Connection, sql: &str, parameters: &[Parameter<'_>]) -> Result<i64, Error> {
    block_on(async {
        let mut statement = connection.prepare_cached(sql).await?;
        statement.query_row(values(parameters)).await?.get(0)
    })
}

fn values(parameters: &[Parameter<'_>]) -> Vec<Value> {
    parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::None => Value::Null,
            Parameter::Integer(number) => Value::Integer(*number),
            Parameter::Blob(bytes) => Value::Blob(bytes.to_vec()),
        })
        .collect()
}

/// Errors after which the documentation tells the application to run the transaction again.
const BUSY: &str = "busy";
const CONFLICT: &str = "conflict";

fn is_retryable(kind: &str) -> bool {
    kind == BUSY || kind == CONFLICT
}

fn refusal(error: Error) -> Refusal {
    Refusal(match error {
        Error::Busy(_) => BUSY.to_owned(),
        Error::BusySnapshot(_) => CONFLICT.to_owned(),
        Error::Error(text) if text.to_lowercase().contains("conflict") => CONFLICT.to_owned(),
        error => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report names the version that was built in, not one that somebody wrote down.
    #[test]
    fn version_from_the_lock_file() {
        let lock = "name = \"turso\"\nversion = \"1.2.3\"\n\nname = \"turso_core\"\n";
        assert_eq!(locked_version(lock, "turso"), Ok("1.2.3"));
        assert!(locked_version(lock, "other").is_err());
        assert!(Turso.version().is_ok());
    }

    /// The comparison is only fair if Turso syncs each commit and groups them.
    #[test]
    fn full_and_group_commit() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let database = open(&directory.path().join("test.db")).expect("a new file");
        let connection = connect(&database).expect("the first connection");
        let ask = |sql| number(&connection, sql, &[]).expect("a pragma with a number");
        assert_eq!(ask("PRAGMA synchronous"), 2);
        assert_eq!(ask("PRAGMA mvcc_group_commit"), 1);
        let mode: String = block_on(async {
            connection.prepare("PRAGMA journal_mode").await?.query_row(()).await?.get(0)
        })
        .expect("a pragma with a text");
        assert_eq!(mode, "mvcc");
    }
}
