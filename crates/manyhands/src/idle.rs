//! Connections that were closed by the application and are kept for the next one.
//!
//! To open a connection costs SQLite more than a write does: files, locks, built-in functions, the
//! schema. An application that opens one for each piece of work gets a kept one instead. Only a
//! connection that is as new is kept: no PRAGMA with an argument, no function, no temp schema, nothing
//! attached.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use manyhands_sqlite::{self as sqlite, Progress, SessionCounters};

use crate::busy::BusyWait;
use crate::certain::KnownSchema;
use crate::hooks::Hooks;
use crate::ids::{IdFunction, InsertWithIds, Rewriting};
use crate::limits;
use crate::mutex::lock;
use crate::options::{Durability, Settings};
use crate::prepared::{Compiler, Prepared};
use crate::routing::Facts;
use crate::statement_cache::StatementCache;

/// How many a file keeps: each may hold 2 MB of pages.
const KEPT_MAX: usize = 8;

/// An SQLite connection with what belongs to it.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    pub(crate) sqlite: sqlite::Connection,
    pub(crate) statements: StatementCache<Box<Prepared>>,
    /// The statement that was used last: it is often the next one too.
    pub(crate) last: Option<Box<Prepared>>,
    pub(crate) compiler: Compiler,
    /// How long it waits for other SQLite programs, and what ends that: those of its user.
    pub(crate) wait: BusyWait,
    pub(crate) counters: Arc<SessionCounters>,
    pub(crate) ids: IdFunction,
    /// Frames in the WAL after this connection's last own commit.
    pub(crate) frames: Arc<AtomicU32>,
    /// The schema that it has last looked at.
    pub(crate) schema: KnownSchema,
}

impl OpenConnection {
    /// The form of an INSERT that takes its new ids from the function: see [`IdFunction::rewritten`].
    pub(crate) fn insert_with_ids<'a>(
        &self,
        rewriting: &'a mut Rewriting,
        sql: &str,
        known: (&Facts, &[String]),
    ) -> Option<&'a mut InsertWithIds> {
        let again = || self.compiler.compile_again(&self.sqlite, sql, known);
        let asked = self.compiler.hooks.has_authorizer();
        self.ids.rewritten(rewriting, &self.sqlite, sql, asked, again)
    }

    /// Equips a new connection. It waits for nobody until it has a user.
    pub(crate) fn new(
        sqlite: sqlite::Connection,
        settings: &Settings,
    ) -> Result<OpenConnection, sqlite::Error> {
        sqlite.set(sqlite::Setting::ForeignKeys, settings.foreign_keys);
        sqlite.enable_load_extension(false)?;
        if settings.durability != Durability::Full {
            sqlite.execute(settings.durability.pragma())?;
        }
        let counters = Arc::new(SessionCounters::default());
        sqlite.count_session(&counters)?;
        sqlite.make_repeatable()?;
        // In KiB when negative. Until then SQLite keeps what a transaction writes in memory, as a fork must.
        let spill_kib = settings.fork_bytes_max / 1024;
        sqlite.execute(&format!("PRAGMA main.cache_spill=-{spill_kib}"))?;
        let hooks = Arc::<Hooks>::default();
        let ids = IdFunction::install(&sqlite, Arc::clone(&hooks))?;
        let compiler = Compiler::install(&sqlite, hooks);
        let wait = BusyWait::install(&sqlite, Duration::ZERO);
        let (last, frames) = (None, Arc::default());
        let open = OpenConnection {
            sqlite,
            statements: StatementCache::new(),
            last,
            compiler,
            wait,
            counters,
            ids,
            frames,
            schema: KnownSchema::default(),
        };
        open.check_while_running();
        Ok(open)
    }

    /// Has the check of whoever uses it asked while a statement runs, if there is one.
    pub(crate) fn check_while_running(&self) {
        let wait = self.wait.clone();
        let handler = move || if wait.is_checked() { Progress::Stop } else { Progress::Continue };
        self.sqlite.set_progress_handler(limits::CHECK_INSTRUCTIONS, Some(handler));
    }

    /// Puts our hook in the place of SQLite's automatic checkpoint.
    pub(crate) fn take_over_checkpoints(&self) {
        let frames = Arc::clone(&self.frames);
        self.sqlite.set_wal_hook(Some(move |count| frames.store(count, Ordering::Relaxed)));
    }

    /// Makes the session's figures those of a new connection.
    pub(crate) fn forget_session(&self) {
        self.sqlite.set_last_insert_rowid(0);
        self.counters.begin_anew(self.sqlite.total_changes());
    }
}

/// The kept connections of a file, with the settings they were opened with.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections(Mutex<Vec<(Settings, OpenConnection)>>);

impl IdleConnections {
    /// A kept connection with these settings.
    pub(crate) fn take(&self, settings: &Settings) -> Option<OpenConnection> {
        let mut kept = lock(&self.0);
        let place = kept.iter().rposition(|(of, _)| {
            (of.durability, of.foreign_keys, of.fork_bytes_max)
                == (settings.durability, settings.foreign_keys, settings.fork_bytes_max)
        })?;
        Some(kept.remove(place).1)
    }

    /// Keeps a connection that is as new, unless there are enough.
    pub(crate) fn keep(&self, settings: &Settings, connection: OpenConnection) {
        connection.forget_session();
        let mut kept = lock(&self.0);
        if kept.len() < KEPT_MAX {
            kept.push((settings.clone(), connection));
        }
    }

    /// Closes them all; `tidies` says whether the last one of the database removes its WAL.
    pub(crate) fn clear(&self, tidies: bool) {
        for (_, connection) in lock(&self.0).drain(..) {
            if !tidies {
                connection.sqlite.set(sqlite::Setting::NoCheckpointOnClose, true);
            }
        }
    }
}
