//! Manyhands as an application uses it: one `Database` per process, one `Connection` per thread, autocommit.

use std::{path::Path, time::Duration};

use manyhands::{Connection, Database, Durability, Error, params};

use super::engine::{Client, Engine, EngineName, Parameter, Refusal};

struct Manyhands {
    database: Database,
}

struct ManyhandsClient {
    connection: Connection,
}

/// Manyhands on the file.
pub fn open(
    name: EngineName,
    database: &Path,
    timeout: Duration,
    label: &str,
) -> Result<Box<dyn Engine>, Refusal> {
    let durability = if name.is_normal() { Durability::Normal } else { Durability::Full };
    let database = Database::builder(database)
        .durability(durability)
        .timeout(timeout)
        .label(label)
        .open()
        .map_err(refusal)?;
    Ok(Box::new(Manyhands { database }))
}

impl Engine for Manyhands {
    fn connect(&self) -> Result<Box<dyn Client>, Refusal> {
        let connection = self.database.connect().map_err(refusal)?;
        Ok(Box::new(ManyhandsClient { connection }))
    }
}

impl Client for ManyhandsClient {
    fn write(&mut self, sql: &str, parameter: Parameter<'_>) -> Result<(), Refusal> {
        match parameter {
            Parameter::None => self.connection.execute(sql, params![]),
            Parameter::Integer(value) => self.connection.execute(sql, params![value]),
            Parameter::Blob(value) => self.connection.execute(sql, params![value.to_vec()]),
        }
        .map(|_outcome| ())
        .map_err(refusal)
    }
}

fn refusal(error: Error) -> Refusal {
    if error.is_timeout() { Refusal("timeout".to_owned()) } else { Refusal(error.to_string()) }
}
