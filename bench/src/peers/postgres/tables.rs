//! The database of one measurement, on the command's side.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::engine::{ServerUsage, Tables};
use anyhow::{Context, Result, ensure};
use postgres::{Client, NoTls};

use super::{client::config, dialect, server::Server};

/// How long sessions of workers that have ended may take to end, too.
const FAREWELL_MAX: Duration = Duration::from_secs(10);
const FAREWELL_TICK: Duration = Duration::from_millis(5);

/// A database; dropped with this.
pub struct PostgresTables {
    server: Arc<Server>,
    place: PathBuf,
    client: Mutex<Client>,
}

impl PostgresTables {
    /// A fresh database with these tables, everything on disk and known to the planner, as a while after its creation.
    pub fn create(server: Arc<Server>, schema: &str) -> Result<Self> {
        let name = server.next_database();
        server.connect("postgres")?.batch_execute(&format!("CREATE DATABASE {name}"))?;
        let place = server.sockets().join(&name);
        let mut client = config(&place)
            .context("the place of a database")?
            .connect(NoTls)
            .context("connect to the new database")?;
        client.batch_execute(&dialect::schema(schema)).context("create the tables")?;
        client.batch_execute("VACUUM ANALYZE")?;
        client.batch_execute("CHECKPOINT")?;
        Ok(Self { server, place, client: Mutex::new(client) })
    }

    fn client(&self) -> MutexGuard<'_, Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What sessions did is counted when they end.
    fn wait_for_farewells(&self) -> Result<()> {
        let began = Instant::now();
        let others = "SELECT count(*) FROM pg_stat_activity \
                      WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() \
                      AND datname = current_database()";
        while self.client().query_one(others, &[])?.get::<_, i64>(0) > 0 {
            ensure!(began.elapsed() < FAREWELL_MAX, "sessions do not end");
            thread::sleep(FAREWELL_TICK);
        }
        Ok(())
    }
}

impl Tables for PostgresTables {
    fn database(&self) -> &Path {
        &self.place
    }

    fn number(&self, sql: &str) -> Result<i64> {
        Ok(self.client().query_one(&dialect::statement(sql), &[])?.try_get(0)?)
    }

    /// With PostgreSQL's own checker: each table's rows, each index, and that each row is in it.
    fn check_integrity(&self) -> Result<()> {
        let mut client = self.client();
        client.batch_execute("CREATE EXTENSION IF NOT EXISTS amcheck").context("amcheck")?;
        let indexes = "SELECT bt_index_check(c.oid, true) FROM pg_class c JOIN pg_am a ON a.oid = c.relam \
                       WHERE c.relkind = 'i' AND a.amname = 'btree' AND c.relnamespace = 'public'::regnamespace";
        client.query(indexes, &[]).context("check of the indexes")?;
        let rows = "SELECT c.relname::text, h.msg FROM pg_class c, verify_heapam(c.oid) h \
                    WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace LIMIT 1";
        match client.query_opt(rows, &[]).context("check of the rows")? {
            None => Ok(()),
            Some(row) => anyhow::bail!("{}: {}", row.get::<_, String>(0), row.get::<_, String>(1)),
        }
    }

    fn server_usage(&self, are_workers_gone: bool) -> Option<ServerUsage> {
        if are_workers_gone {
            self.wait_for_farewells().ok()?;
        }
        let syncs = self.client().query_one("SELECT wal_sync FROM pg_stat_wal", &[]);
        Some(ServerUsage {
            cpu_s: self.server.processes().cpu_s(),
            syncs: syncs.ok().and_then(|row| u64::try_from(row.get::<_, i64>(0)).ok()),
        })
    }

    fn server_memory_bytes(&self) -> Option<u64> {
        Some(self.server.processes().memory_bytes())
    }
}

impl Drop for PostgresTables {
    fn drop(&mut self) {
        let Some(name) = self.place.file_name().and_then(|name| name.to_str()) else { return };
        // If it fails, the server goes with its directory at the end of the run. The checkpoint leaves nothing to be
        // written while the next engine is measured.
        if let Ok(mut client) = self.server.connect("postgres") {
            let _ = client.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)"));
            let _ = client.batch_execute("CHECKPOINT");
        }
    }
}
