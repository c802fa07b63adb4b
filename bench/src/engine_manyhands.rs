//! Manyhands as an application uses it: one `Database` per process, one `Connection` per thread.

use std::{path::Path, time::Duration};

use manyhands::{
    Connection, Database, Durability, Error, Transaction, Value, aio::AsyncDatabase, params,
};

use super::{
    built_in::BuiltIn,
    engine::{Answer, Client, Effort, Opened, Parameter, Refusal, Statements, TaskDatabase, Work},
};

/// The limit for the WAL, where there is one: what a second of writers fills.
const WAL_BYTES_LIMIT: u64 = 16 << 20;

/// Others had committed what a transaction saw differently.
const CONFLICT: &str = "conflict";

struct Manyhands {
    name: BuiltIn,
    database: Database,
}

struct ManyhandsClient {
    connection: Connection,
    is_immediate: bool,
}

struct ManyhandsStatements<'transaction, 'connection>(&'transaction mut Transaction<'connection>);

/// Manyhands on the file.
pub fn open(
    name: BuiltIn,
    database: &Path,
    timeout: Duration,
    label: &str,
) -> Result<Box<dyn Opened>, Refusal> {
    let durability = if name.is_normal() { Durability::Normal } else { Durability::Full };
    let mut builder =
        Database::builder(database).durability(durability).timeout(timeout).label(label);
    if name == BuiltIn::ManyhandsLimited {
        builder = builder.wal_bytes_limit(WAL_BYTES_LIMIT);
    }
    let database = builder.open()?;
    Ok(Box::new(Manyhands { name, database }))
}

impl Opened for Manyhands {
    fn connect(&self) -> Result<Box<dyn Client>, Refusal> {
        let connection = self.database.connect()?;
        Ok(Box::new(ManyhandsClient { connection, is_immediate: self.name.is_immediate() }))
    }

    fn reader(&self) -> Option<String> {
        Some(self.database.statistics()?.wal_reader?.to_string())
    }

    fn tasks(&self) -> Result<Option<Box<dyn TaskDatabase>>, Refusal> {
        Ok(Some(Box::new(ManyhandsTasks(self.database.tokio()?))))
    }
}

/// Manyhands for async tasks.
struct ManyhandsTasks(AsyncDatabase);

impl TaskDatabase for ManyhandsTasks {
    fn write(&self, sql: &'static str, value: &'static [u8]) -> Answer<'_> {
        Box::pin(async move {
            self.0.execute(sql, params![value.to_vec()]).await?;
            Ok(())
        })
    }
}

impl Client for ManyhandsClient {
    fn write(
        &mut self,
        sql: &str,
        parameter: Parameter<'_>,
        _effort: &mut Effort,
    ) -> Result<(), Refusal> {
        match parameter {
            Parameter::None => self.connection.execute(sql, params![]),
            parameter => self.connection.execute(sql, &[value(parameter)]),
        }?;
        Ok(())
    }

    fn take(
        &mut self,
        sql: &str,
        parameter: Parameter<'_>,
        _effort: &mut Effort,
    ) -> Result<Option<i64>, Refusal> {
        let rows = self.connection.query(sql, &[value(parameter)])?;
        Ok(rows.first().map(|row| row.get(0)).transpose()?)
    }

    fn read(&mut self, work: &mut Work<'_>) -> Result<(), Refusal> {
        let mut transaction = self.connection.read_transaction()?;
        work(&mut ManyhandsStatements(&mut transaction))?;
        Ok(transaction.commit()?)
    }

    fn transact(&mut self, work: &mut Work<'_>, effort: &mut Effort) -> Result<(), Refusal> {
        if self.is_immediate {
            let mut transaction = self.connection.begin_immediate()?;
            work(&mut ManyhandsStatements(&mut transaction))?;
            return Ok(transaction.commit()?);
        }
        let mut runs: u64 = 0;
        let outcome = self.connection.run(|transaction| {
            runs += 1;
            work(&mut ManyhandsStatements(transaction))
        });
        // Only a conflict makes `run` run it again.
        let retries = runs.saturating_sub(1);
        let is_in_conflict = matches!(&outcome, Err(Refusal(kind)) if kind == CONFLICT);
        effort.add(Effort { retries, conflicts: retries + u64::from(is_in_conflict) });
        outcome
    }
}

impl Statements for ManyhandsStatements<'_, '_> {
    fn execute(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<(), Refusal> {
        self.0.execute(sql, values(parameters))?;
        Ok(())
    }

    fn insert(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<i64, Refusal> {
        Ok(self.0.execute(sql, values(parameters))?.last_insert_rowid())
    }

    fn number(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<i64, Refusal> {
        let rows = self.0.query(sql, values(parameters))?;
        let row = rows.first().ok_or_else(|| Refusal("no row".to_owned()))?;
        Ok(row.get(0)?)
    }
}

fn values(parameters: &[Parameter<'_>]) -> Vec<Value> {
    parameters.iter().map(|&parameter| value(parameter)).collect()
}

fn value(parameter: Parameter<'_>) -> Value {
    match parameter {
        Parameter::None => Value::Null,
        Parameter::Integer(number) => Value::from(number),
        Parameter::Blob(bytes) => Value::from(bytes.to_vec()),
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(match error {
            error if error.is_timeout() => "timeout".to_owned(),
            // The text tells rows and values: each would be a kind of its own.
            error if error.is_conflict() => CONFLICT.to_owned(),
            error => error.to_string(),
        })
    }
}
