//! PostgreSQL on a local socket, with the settings that it comes with (`fsync=on`, `synchronous_commit=on`), but for the
//! number of connections. One server for a whole run, a fresh database for each measurement.
//!
//! `postgres` runs everything at serializable, and its client runs again what the server refused, as its manual says.
//! `postgres-read-committed` is its default, for workloads whose invariant holds there: it never refuses.
//! `postgres-pipelined` is the same, and sends the statements of a transaction without waiting for each.

mod client;

mod pipelined;

mod dialect;

mod keeper;

mod processes;

mod server;

mod tables;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{
    engine::{Engine, Opened, Refusal, Tables},
    workload::{Demand, Workload},
};
use anyhow::{Context, Result};

use self::{client::OpenPostgres, server::Server, tables::PostgresTables};
pub use self::{keeper::KEEPER, keeper::keep};
use super::is_for_peers;

/// What a transaction is promised about those beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// As if transactions ran one after the other.
    Serializable,
    /// Each statement sees what was committed before it.
    ReadCommitted,
}

/// An engine.
pub struct Postgres {
    isolation: Isolation,
    is_pipelined: bool,
    /// Started when the first table is prepared, stopped when the last engine goes.
    server: Arc<Mutex<Option<Arc<Server>>>>,
}

/// The engines; they share a server.
pub fn engines() -> [Postgres; 3] {
    let server = Arc::default();
    let engine = |isolation, is_pipelined| {
        let server = Arc::clone(&server);
        Postgres { isolation, is_pipelined, server }
    };
    [
        engine(Isolation::Serializable, false),
        engine(Isolation::ReadCommitted, false),
        engine(Isolation::ReadCommitted, true),
    ]
}

impl Engine for Postgres {
    fn name(&self) -> &'static str {
        match self.isolation {
            _ if self.is_pipelined => "postgres-pipelined",
            Isolation::Serializable => "postgres",
            Isolation::ReadCommitted => "postgres-read-committed",
        }
    }

    fn version(&self) -> Result<String, Refusal> {
        server::Programs::find()
            .and_then(|programs| programs.version())
            .map_err(|error| Refusal(format!("{error:#}")))
    }

    fn can_be_in(&self, directory: &Path) -> Result<(), Refusal> {
        server::can_reach(directory).map_err(|error| Refusal(format!("{error:#}")))
    }

    fn is_default(&self, demand: Demand) -> bool {
        match self.isolation {
            _ if self.is_pipelined => demand.workload == Workload::Think,
            // A queue of jobs is PostgreSQL's at its default level, which skips what others have locked.
            Isolation::Serializable => {
                !matches!(demand.workload, Workload::Limits | Workload::Claim)
            }
            // Where it differs most, and both give the right result.
            Isolation::ReadCommitted => {
                matches!(demand.workload, Workload::Counter | Workload::Claim)
            }
        }
    }

    fn accepts(&self, demand: Demand) -> Result<(), String> {
        match (demand.workload, self.isolation) {
            (workload, _) if self.is_pipelined && workload != Workload::Think => {
                Err("its transactions look at no result before their end".to_owned())
            }
            (Workload::Transfer, Isolation::ReadCommitted) => {
                Err("two transfers at once would lose money".to_owned())
            }
            _ => is_for_peers(demand),
        }
    }

    fn prepare(&self, directory: &Path, schema: &str) -> Result<Box<dyn Tables>> {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let server = match &*server {
            Some(running) => Arc::clone(running),
            None => {
                // Beside the directory of this measurement, since it outlives it.
                let directory = directory.parent().context("a measurement has a directory")?;
                server.insert(Arc::new(Server::start(directory)?)).clone()
            }
        };
        Ok(Box::new(PostgresTables::create(server, schema)?))
    }

    fn open(
        &self,
        database: &Path,
        timeout: Duration,
        label: &str,
    ) -> Result<Box<dyn Opened>, Refusal> {
        Ok(Box::new(OpenPostgres::new(
            database,
            self.isolation,
            self.is_pipelined,
            timeout,
            label,
        )?))
    }
}
