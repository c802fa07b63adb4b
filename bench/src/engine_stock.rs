//! Stock SQLite as a careful Rust application uses it: WAL, busy timeout, cached statements.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, ToSql, ffi::SQLITE_BUSY_SNAPSHOT, types::ToSqlOutput};

use super::{
    built_in::BuiltIn,
    engine::{Client, Effort, Opened, Parameter, Refusal, Statements, Work},
};
use crate::limits::BUSY_PAUSES;

/// SQLITE_BUSY: another writer has the lock.
const LOCKED: &str = "database is locked";
/// SQLITE_BUSY_SNAPSHOT: others have committed since this transaction's first read, whatever they wrote.
const STALE: &str = "database is locked: the snapshot is stale";

struct Stock {
    name: BuiltIn,
    database: PathBuf,
    timeout: Duration,
    application_mutex: Arc<Mutex<()>>,
}

struct StockClient {
    connection: Connection,
    /// `None`: a transaction takes the write lock at its beginning, and waits for it in SQLite.
    retries_within: Option<Duration>,
    application_mutex: Option<Arc<Mutex<()>>>,
}

/// Stock SQLite on the file; nothing is opened before the first connection.
pub fn open(name: BuiltIn, database: &Path, timeout: Duration) -> Box<dyn Opened> {
    Box::new(Stock {
        name,
        database: database.to_owned(),
        timeout,
        application_mutex: Arc::default(),
    })
}

impl Opened for Stock {
    fn connect(&self) -> Result<Box<dyn Client>, Refusal> {
        let connection = Connection::open(&self.database).map_err(refusal)?;
        connection.busy_timeout(self.timeout).map_err(refusal)?;
        if self.name.is_normal() {
            connection.pragma_update(None, "synchronous", "NORMAL").map_err(refusal)?;
        }
        // FULL is what the bundled library starts with (tested below). Asking for it again would make stock read the
        // schema once more in each round of the storm.
        let application_mutex =
            self.name.has_application_mutex().then(|| self.application_mutex.clone());
        let retries_within = (!self.name.is_immediate()).then_some(self.timeout);
        Ok(Box::new(StockClient { connection, retries_within, application_mutex }))
    }
}

impl Client for StockClient {
    fn write(
        &mut self,
        sql: &str,
        parameter: Parameter<'_>,
        _effort: &mut Effort,
    ) -> Result<(), Refusal> {
        let mut statement = self.connection.prepare_cached(sql).map_err(refusal)?;
        let _turn = self.turn();
        let outcome = statement.execute(rusqlite::params_from_iter(parameter.as_slice()));
        outcome.map(|_changes| ()).map_err(refusal)
    }

    fn take(
        &mut self,
        sql: &str,
        parameter: Parameter<'_>,
        _effort: &mut Effort,
    ) -> Result<Option<i64>, Refusal> {
        let mut statement = self.connection.prepare_cached(sql).map_err(refusal)?;
        let _turn = self.turn();
        let mut rows = statement.query((parameter,)).map_err(refusal)?;
        let mut taken = None;
        // To its end, where it commits.
        while let Some(row) = rows.next().map_err(refusal)? {
            taken = Some(row.get(0).map_err(refusal)?);
        }
        Ok(taken)
    }

    fn read(&mut self, work: &mut Work<'_>) -> Result<(), Refusal> {
        self.attempt("BEGIN", work)
    }

    fn transact(&mut self, work: &mut Work<'_>, effort: &mut Effort) -> Result<(), Refusal> {
        let _turn = self.turn();
        let Some(retries_within) = self.retries_within else {
            return self.attempt("BEGIN IMMEDIATE", work);
        };
        let began = Instant::now();
        let mut retries = 0;
        loop {
            let outcome = self.attempt("BEGIN", work);
            let kind = match &outcome {
                Err(Refusal(kind)) if kind == LOCKED || kind == STALE => kind,
                _ => return outcome,
            };
            effort.conflicts += u64::from(kind == STALE);
            // Once at least, so that a transaction longer than the timeout has a second chance too.
            if retries > 0 && began.elapsed() >= retries_within {
                return outcome;
            }
            if kind == LOCKED {
                // SQLite calls no busy handler inside a transaction: the application waits as the handler would.
                thread::sleep(BUSY_PAUSES[retries.min(BUSY_PAUSES.len() - 1)]);
            }
            retries += 1;
            effort.retries += 1;
        }
    }
}

impl StockClient {
    /// The application's mutex, if it has one, locked.
    fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        // The mutex guards no data, so a thread that panicked left nothing half done.
        self.application_mutex
            .as_deref()
            .map(|mutex| mutex.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs and commits a transaction, or rolls it back.
    fn attempt(&self, begin: &str, work: &mut Work<'_>) -> Result<(), Refusal> {
        let mut statements = StockStatements(&self.connection);
        statements.execute(begin, &[])?;
        let outcome = work(&mut statements).and_then(|()| statements.execute("COMMIT", &[]));
        if outcome.is_err() && !self.connection.is_autocommit() {
            statements.execute("ROLLBACK", &[])?;
        }
        outcome
    }
}

struct StockStatements<'connection>(&'connection Connection);

impl Statements for StockStatements<'_> {
    fn execute(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<(), Refusal> {
        let mut statement = self.0.prepare_cached(sql).map_err(refusal)?;
        let outcome = statement.execute(rusqlite::params_from_iter(parameters));
        outcome.map(|_changes| ()).map_err(refusal)
    }

    fn insert(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<i64, Refusal> {
        self.execute(sql, parameters)?;
        Ok(self.0.last_insert_rowid())
    }

    fn number(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<i64, Refusal> {
        let mut statement = self.0.prepare_cached(sql).map_err(refusal)?;
        let parameters = rusqlite::params_from_iter(parameters);
        statement.query_row(parameters, |row| row.get(0)).map_err(refusal)
    }
}

impl ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::None => rusqlite::types::Null.to_sql(),
            Self::Integer(number) => number.to_sql(),
            Self::Blob(bytes) => bytes.to_sql(),
        }
    }
}

fn refusal(error: rusqlite::Error) -> Refusal {
    let code = error.sqlite_error();
    match (error.sqlite_error_code(), code.map(|code| code.extended_code)) {
        (_, Some(SQLITE_BUSY_SNAPSHOT)) => Refusal(STALE.to_owned()),
        (Some(ErrorCode::DatabaseBusy), _) => Refusal(LOCKED.to_owned()),
        _ => Refusal(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The comparison at FULL is only fair if stock really runs at FULL without being told to.
    #[test]
    fn stock_starts_at_full() {
        let connection = Connection::open_in_memory().expect("memory is enough for a connection");
        let synchronous: i64 = connection
            .pragma_query_value(None, "synchronous", |row| row.get(0))
            .expect("every SQLite knows this pragma");
        assert_eq!(synchronous, 2);
    }
}
