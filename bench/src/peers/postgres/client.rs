//! A worker's connections.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::engine::{Client, Effort, Opened, Parameter, Refusal, Statements, Work};
use postgres::{Config, Error, NoTls, Row, Statement, error::SqlState, types::ToSql};

use super::{Isolation, dialect, pipelined::PipelinedClient, server::SUPERUSER};

/// Refusals after which the manual tells the application to run the transaction again.
const SERIALIZATION_FAILURE: &str = "serialization failure";
const DEADLOCK: &str = "deadlock";

/// How a worker reaches the database.
pub struct OpenPostgres {
    config: tokio_postgres::Config,
    is_pipelined: bool,
    timeout: Duration,
}

/// The way to a database whose place is named as `sockets/database`.
pub fn config(place: &Path) -> Option<Config> {
    way(place).map(Config::from)
}

fn way(place: &Path) -> Option<tokio_postgres::Config> {
    let (sockets, database): (PathBuf, _) = (place.parent()?.to_owned(), place.file_name()?);
    let mut config = tokio_postgres::Config::new();
    config.host_path(sockets).user(SUPERUSER).dbname(database.to_str()?);
    Some(config)
}

impl OpenPostgres {
    /// Nothing is opened before the first connection. A statement waits for a lock at most `timeout`.
    pub fn new(
        place: &Path,
        isolation: Isolation,
        is_pipelined: bool,
        timeout: Duration,
        label: &str,
    ) -> Result<Self, Refusal> {
        let mut config = way(place)
            .ok_or_else(|| Refusal(format!("{}: not a place of a database", place.display())))?;
        let isolation = match isolation {
            Isolation::Serializable => "serializable",
            // A blank would end the option.
            Isolation::ReadCommitted => "read\\ committed",
        };
        config.application_name(label).options(format!(
            "-c default_transaction_isolation={isolation} -c lock_timeout={}",
            timeout.as_millis()
        ));
        Ok(Self { config, is_pipelined, timeout })
    }
}

impl Opened for OpenPostgres {
    fn connect(&self) -> Result<Box<dyn Client>, Refusal> {
        if self.is_pipelined {
            return Ok(Box::new(PipelinedClient::connect(&self.config, self.timeout)?));
        }
        let config = Config::from(self.config.clone());
        let client = config.connect(NoTls).map_err(refusal)?;
        let statements = PostgresStatements { client, prepared: HashMap::new() };
        Ok(Box::new(PostgresClient { statements, timeout: self.timeout }))
    }
}

struct PostgresClient {
    statements: PostgresStatements,
    timeout: Duration,
}

impl Client for PostgresClient {
    fn write(
        &mut self,
        sql: &str,
        parameter: Parameter<'_>,
        effort: &mut Effort,
    ) -> Result<(), Refusal> {
        let statements = &mut self.statements;
        again_if_refused(self.timeout, effort, || statements.execute(sql, parameter.as_slice()))
    }

    fn take(
        &mut self,
        sql: &str,
        parameter: Parameter<'_>,
        effort: &mut Effort,
    ) -> Result<Option<i64>, Refusal> {
        let statements = &mut self.statements;
        let mut taken = None;
        again_if_refused(self.timeout, effort, || {
            taken = statements.take(sql, parameter)?;
            Ok(())
        })?;
        Ok(taken)
    }

    fn read(&mut self, work: &mut Work<'_>) -> Result<(), Refusal> {
        self.statements.attempt("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", work)
    }

    fn transact(&mut self, work: &mut Work<'_>, effort: &mut Effort) -> Result<(), Refusal> {
        let statements = &mut self.statements;
        again_if_refused(self.timeout, effort, || statements.attempt("BEGIN", work))
    }
}

/// Runs it, and again at once when the server refused it because of others.
pub fn again_if_refused(
    timeout: Duration,
    effort: &mut Effort,
    mut run: impl FnMut() -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let began = Instant::now();
    let mut runs = 0_u64;
    loop {
        let outcome = run();
        runs += 1;
        match &outcome {
            Err(Refusal(kind)) if kind == SERIALIZATION_FAILURE || kind == DEADLOCK => {
                effort.conflicts += 1;
            }
            _ => return outcome,
        }
        // Once at least, so that a transaction longer than the timeout has a second chance too.
        if runs > 1 && began.elapsed() >= timeout {
            return outcome;
        }
        effort.retries += 1;
    }
}

struct PostgresStatements {
    client: postgres::Client,
    /// By the text that the workload uses.
    prepared: HashMap<String, Statement>,
}

impl PostgresStatements {
    /// Runs and commits a transaction, or rolls it back.
    fn attempt(&mut self, begin: &str, work: &mut Work<'_>) -> Result<(), Refusal> {
        self.client.batch_execute(begin).map_err(refusal)?;
        let outcome =
            work(self).and_then(|()| self.client.batch_execute("COMMIT").map_err(refusal));
        if outcome.is_err() {
            // After a refused COMMIT, there is no transaction any more: the server warns, and that is all.
            self.client.batch_execute("ROLLBACK").map_err(refusal)?;
        }
        outcome
    }

    /// The number in the row that a writing statement returns, if it returns one.
    fn take(&mut self, sql: &str, parameter: Parameter<'_>) -> Result<Option<i64>, Refusal> {
        let statement = self.prepared(sql, dialect::statement)?;
        let values = values(&[parameter]);
        let row = self.client.query_opt(&statement, &references(&values)).map_err(refusal)?;
        row.map(|row| row.try_get(0).map_err(refusal)).transpose()
    }

    fn prepared(&mut self, sql: &str, translate: fn(&str) -> String) -> Result<Statement, Refusal> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&translate(sql)).map_err(refusal)?;
        self.prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    fn number(
        &mut self,
        sql: &str,
        translate: fn(&str) -> String,
        parameters: &[Parameter<'_>],
    ) -> Result<i64, Refusal> {
        let statement = self.prepared(sql, translate)?;
        let values = values(parameters);
        let row: Row = self.client.query_one(&statement, &references(&values)).map_err(refusal)?;
        row.try_get(0).map_err(refusal)
    }
}

impl Statements for PostgresStatements {
    fn execute(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<(), Refusal> {
        let statement = self.prepared(sql, dialect::statement)?;
        let values = values(parameters);
        self.client.execute(&statement, &references(&values)).map_err(refusal)?;
        Ok(())
    }

    fn insert(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<i64, Refusal> {
        self.number(sql, dialect::insert, parameters)
    }

    fn number(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<i64, Refusal> {
        self.number(sql, dialect::statement, parameters)
    }
}

fn values<'value>(parameters: &[Parameter<'value>]) -> Vec<Box<dyn ToSql + Sync + 'value>> {
    parameters
        .iter()
        .map(|&parameter| match parameter {
            Parameter::None => Box::new(None::<i64>) as Box<dyn ToSql + Sync>,
            Parameter::Integer(number) => Box::new(number),
            Parameter::Blob(bytes) => Box::new(bytes),
        })
        .collect()
}

fn references<'all>(values: &'all [Box<dyn ToSql + Sync + '_>]) -> Vec<&'all (dyn ToSql + Sync)> {
    values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
}

pub fn refusal(error: Error) -> Refusal {
    Refusal(match error.as_db_error() {
        Some(told) if *told.code() == SqlState::T_R_SERIALIZATION_FAILURE => {
            SERIALIZATION_FAILURE.to_owned()
        }
        Some(told) if *told.code() == SqlState::T_R_DEADLOCK_DETECTED => DEADLOCK.to_owned(),
        Some(told) => told.message().to_owned(),
        None => error.to_string(),
    })
}
