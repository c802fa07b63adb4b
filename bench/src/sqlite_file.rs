//! A database file of SQLite: created before a measurement and checked after it by stock SQLite, whoever wrote it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OpenFlags};

use super::engine::Tables;

/// A file that exists.
pub struct SqliteFile {
    database: PathBuf,
}

impl SqliteFile {
    /// Creates the file, in WAL mode, and its tables.
    pub fn create(database: &Path, schema: &str) -> Result<Self> {
        let connection = Connection::open(database).context("create the database")?;
        connection.pragma_update(None, "journal_mode", "WAL").context("switch to WAL")?;
        let schema = format!("BEGIN; {schema}; COMMIT");
        connection.execute_batch(&schema).context("create the tables")?;
        Ok(Self { database: database.to_owned() })
    }

    /// Each question opens the file anew: nothing that a connection remembers answers it.
    fn connect(&self) -> Result<Connection> {
        Ok(Connection::open_with_flags(&self.database, OpenFlags::SQLITE_OPEN_READ_WRITE)?)
    }
}

impl Tables for SqliteFile {
    fn database(&self) -> &Path {
        &self.database
    }

    fn number(&self, sql: &str) -> Result<i64> {
        Ok(self.connect()?.query_row(sql, (), |row| row.get(0))?)
    }

    fn check_integrity(&self) -> Result<()> {
        let verdict: String =
            self.connect()?.query_row("PRAGMA integrity_check(1)", (), |row| row.get(0))?;
        ensure!(verdict == "ok", "integrity_check: {verdict}");
        Ok(())
    }
}
