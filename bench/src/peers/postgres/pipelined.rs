//! A connection that sends the statements of a transaction without waiting for each: one round trip from BEGIN to
//! COMMIT. For transactions that look at no result before their end.

use std::{collections::HashMap, time::Duration};

use crate::engine::{Client, Effort, Parameter, Refusal, Statements, Work};
use futures_util::future::{join_all, join3};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Config, NoTls, Statement, types::ToSql};

use super::{
    client::{again_if_refused, refusal},
    dialect,
};

pub struct PipelinedClient {
    runtime: Runtime,
    client: tokio_postgres::Client,
    /// By the text that the workload uses.
    prepared: HashMap<String, Statement>,
    timeout: Duration,
}

/// A statement that waits to be sent, with its parameters.
type Queued = (Statement, Vec<Box<dyn ToSql + Sync>>);

/// A transaction that has not been sent yet.
struct Pipeline<'client> {
    client: &'client mut PipelinedClient,
    queue: Vec<Queued>,
}

impl PipelinedClient {
    pub fn connect(config: &Config, timeout: Duration) -> Result<Self, Refusal> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Refusal(error.to_string()))?;
        let (client, connection) = runtime.block_on(config.connect(NoTls)).map_err(refusal)?;
        runtime.spawn(connection);
        Ok(Self { runtime, client, prepared: HashMap::new(), timeout })
    }

    fn attempt(&mut self, work: &mut Work<'_>) -> Result<(), Refusal> {
        let mut pipeline = Pipeline { client: self, queue: Vec::new() };
        work(&mut pipeline)?;
        let queue = pipeline.queue;
        let parameters: Vec<Vec<&(dyn ToSql + Sync)>> =
            queue.iter().map(|(_, values)| values.iter().map(|value| &**value).collect()).collect();
        // They are sent in the order in which they are asked for the first time.
        let statements = queue.iter().zip(&parameters);
        let (begun, done, committed) = self.runtime.block_on(join3(
            self.client.batch_execute("BEGIN"),
            join_all(
                statements.map(|((statement, _), values)| self.client.execute(statement, values)),
            ),
            self.client.batch_execute("COMMIT"),
        ));
        begun.map_err(refusal)?;
        // After a failed statement the server rolls back at COMMIT.
        for outcome in done {
            outcome.map_err(refusal)?;
        }
        committed.map_err(refusal)
    }
}

impl Client for PipelinedClient {
    fn write(
        &mut self,
        sql: &str,
        parameter: Parameter<'_>,
        effort: &mut Effort,
    ) -> Result<(), Refusal> {
        self.transact(&mut |statements| statements.execute(sql, parameter.as_slice()), effort)
    }

    fn transact(&mut self, work: &mut Work<'_>, effort: &mut Effort) -> Result<(), Refusal> {
        again_if_refused(self.timeout, effort, || self.attempt(work))
    }
}

impl Statements for Pipeline<'_> {
    fn execute(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<(), Refusal> {
        let PipelinedClient { runtime, client, prepared, .. } = &mut *self.client;
        let statement = match prepared.get(sql) {
            Some(statement) => statement.clone(),
            None => {
                let text = dialect::statement(sql);
                let statement = runtime.block_on(client.prepare(&text)).map_err(refusal)?;
                prepared.insert(sql.to_owned(), statement.clone());
                statement
            }
        };
        let values = parameters.iter().map(|&parameter| match parameter {
            Parameter::None => Box::new(None::<i64>) as Box<dyn ToSql + Sync>,
            Parameter::Integer(number) => Box::new(number),
            Parameter::Blob(bytes) => Box::new(bytes.to_vec()),
        });
        self.queue.push((statement, values.collect()));
        Ok(())
    }

    fn insert(&mut self, _sql: &str, _parameters: &[Parameter<'_>]) -> Result<i64, Refusal> {
        Err(no_result())
    }

    fn number(&mut self, _sql: &str, _parameters: &[Parameter<'_>]) -> Result<i64, Refusal> {
        Err(no_result())
    }
}

fn no_result() -> Refusal {
    Refusal("a pipeline shows no result before its end".to_owned())
}
