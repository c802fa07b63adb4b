//! Which schema a session has read.

use manyhands_sqlite::{self as sqlite, WalIndexHeader};

/// Does not begin with an older schema than that of this moment.
pub(crate) const READS_SCHEMA: &str = "SELECT 1 FROM main.sqlite_schema LIMIT 1";

/// The schema that SQLite has read last.
#[derive(Debug, Default)]
pub(crate) struct KnownSchema {
    /// What SQLite has in memory is this one, or a newer one. `None` until somebody needs to know.
    pub(crate) number: Option<i64>,
    /// A state of the database that had this schema, or an older one.
    pub(crate) state: Option<WalIndexHeader>,
}

impl KnownSchema {
    /// Has a new connection read the schema, for its first statement.
    ///
    /// # Errors
    /// As SQLite fails.
    pub(crate) fn read(sqlite: &sqlite::Connection) -> Result<KnownSchema, sqlite::Error> {
        let mut read = sqlite.prepare_one(READS_SCHEMA)?;
        let state = sqlite.speculation_status().live;
        // Reads it again if it has changed in between.
        read.step()?;
        Ok(KnownSchema { number: None, state })
    }
}
