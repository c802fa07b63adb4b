//! The benchmark with engines that forget a row that they have acknowledged: the check must find out.
//!
//! Each is one of the real engines, whose clients skip their first write.

use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::Result;
use manyhands_bench::{
    built_in::BuiltIn,
    engine::{Client, Effort, Engine, Opened, Parameter, Refusal, Statements, Tables, Work},
    engines::Engines,
    peers::{postgres, turso::Turso},
    workload::Demand,
};

/// The write that each client skips.
const FORGOTTEN: u64 = 1;

fn main() -> ExitCode {
    let [serializable, ..] = postgres::engines();
    let engines = Engines::built_in()
        .with(Forgetful { name: "forgetful-manyhands", engine: BuiltIn::Manyhands })
        .with(Forgetful { name: "forgetful-stock", engine: BuiltIn::Stock })
        .with(Forgetful { name: "forgetful-turso", engine: Turso })
        .with(Forgetful { name: "forgetful-postgres", engine: serializable })
        .with(Absent);
    manyhands_bench::main(&engines)
}

struct Forgetful<E> {
    name: &'static str,
    engine: E,
}

impl<E: Engine> Engine for Forgetful<E> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> Result<String, Refusal> {
        self.engine.version()
    }

    fn is_default(&self, _demand: Demand) -> bool {
        false
    }

    fn accepts(&self, demand: Demand) -> Result<(), String> {
        self.engine.accepts(demand)
    }

    fn prepare(&self, directory: &Path, schema: &str) -> Result<Box<dyn Tables>> {
        self.engine.prepare(directory, schema)
    }

    fn open(
        &self,
        database: &Path,
        timeout: Duration,
        label: &str,
    ) -> Result<Box<dyn Opened>, Refusal> {
        Ok(Box::new(ForgetfulOpened(self.engine.open(database, timeout, label)?)))
    }
}

struct ForgetfulOpened(Box<dyn Opened>);

impl Opened for ForgetfulOpened {
    fn connect(&self) -> Result<Box<dyn Client>, Refusal> {
        Ok(Box::new(ForgetfulClient { client: self.0.connect()?, writes: 0 }))
    }
}

struct ForgetfulClient {
    client: Box<dyn Client>,
    writes: u64,
}

impl ForgetfulClient {
    fn forgets(&mut self) -> bool {
        self.writes += 1;
        self.writes == FORGOTTEN
    }
}

impl Client for ForgetfulClient {
    fn write(
        &mut self,
        sql: &str,
        parameter: Parameter<'_>,
        effort: &mut Effort,
    ) -> Result<(), Refusal> {
        if self.forgets() { Ok(()) } else { self.client.write(sql, parameter, effort) }
    }

    fn transact(&mut self, work: &mut Work<'_>, effort: &mut Effort) -> Result<(), Refusal> {
        if !self.forgets() {
            return self.client.transact(work, effort);
        }
        // All but the first write of the transaction.
        let mut is_first = true;
        self.client.transact(
            &mut |statements| {
                is_first = true;
                work(&mut ForgetfulStatements { statements, is_first: &mut is_first })
            },
            effort,
        )
    }
}

struct ForgetfulStatements<'transaction> {
    statements: &'transaction mut dyn Statements,
    is_first: &'transaction mut bool,
}

impl Statements for ForgetfulStatements<'_> {
    fn execute(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<(), Refusal> {
        if std::mem::take(self.is_first) {
            return Ok(());
        }
        self.statements.execute(sql, parameters)
    }

    fn insert(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<i64, Refusal> {
        self.statements.insert(sql, parameters)
    }

    fn number(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<i64, Refusal> {
        self.statements.number(sql, parameters)
    }
}

/// An engine that cannot be had.
struct Absent;

impl Engine for Absent {
    fn name(&self) -> &'static str {
        "absent"
    }

    fn version(&self) -> Result<String, Refusal> {
        Err(Refusal("it is not installed".to_owned()))
    }

    fn is_default(&self, _demand: Demand) -> bool {
        true
    }

    fn accepts(&self, _demand: Demand) -> Result<(), String> {
        Ok(())
    }

    fn prepare(&self, _directory: &Path, _schema: &str) -> Result<Box<dyn Tables>> {
        anyhow::bail!("it is not installed")
    }

    fn open(
        &self,
        _database: &Path,
        _timeout: Duration,
        _label: &str,
    ) -> Result<Box<dyn Opened>, Refusal> {
        Err(Refusal("it is not installed".to_owned()))
    }
}
