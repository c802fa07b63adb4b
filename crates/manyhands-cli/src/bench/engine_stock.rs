//! Stock SQLite as a careful Rust application uses it: WAL, busy timeout, cached statements, autocommit.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode};

use super::engine::{Client, Engine, EngineName, Parameter, Refusal};

struct Stock {
    name: EngineName,
    database: PathBuf,
    timeout: Duration,
    application_mutex: Arc<Mutex<()>>,
}

struct StockClient {
    connection: Connection,
    application_mutex: Option<Arc<Mutex<()>>>,
}

/// Stock SQLite on the file; nothing is opened before the first connection.
pub fn open(name: EngineName, database: &Path, timeout: Duration) -> Box<dyn Engine> {
    Box::new(Stock {
        name,
        database: database.to_owned(),
        timeout,
        application_mutex: Arc::default(),
    })
}

impl Engine for Stock {
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
        Ok(Box::new(StockClient { connection, application_mutex }))
    }
}

impl Client for StockClient {
    fn write(&mut self, sql: &str, parameter: Parameter<'_>) -> Result<(), Refusal> {
        let mut statement = self.connection.prepare_cached(sql).map_err(refusal)?;
        let _turn = self.application_mutex.as_deref().map(|mutex| {
            // The mutex guards no data, so a thread that panicked left nothing half done.
            mutex.lock().unwrap_or_else(PoisonError::into_inner)
        });
        match parameter {
            Parameter::None => statement.execute(()),
            Parameter::Integer(value) => statement.execute((value,)),
            Parameter::Blob(value) => statement.execute((value,)),
        }
        .map(|_changes| ())
        .map_err(refusal)
    }
}

fn refusal(error: rusqlite::Error) -> Refusal {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy) => Refusal("database is locked".to_owned()),
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
