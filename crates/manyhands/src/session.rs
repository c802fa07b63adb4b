//! A session: one SQLite connection with its compiled statements, its counters, its source of new rowids, and its wait for the locks of
//! other programs. An application's connection has one, and so has a leader's executor.

pub(crate) mod busy;
pub(crate) mod cursor_state;
pub(crate) mod idle;
pub(crate) mod interrupt;
pub(crate) mod open_cursors;
pub(crate) mod schema;

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::Arc;

use manyhands_sqlite::{self as sqlite, Progress, SessionCounters};

use crate::limits;
use crate::options::{Durability, Settings};
use crate::session::busy::BusyWait;
use crate::session::schema::KnownSchema;
use crate::statement::cache::StatementCache;
use crate::statement::hooks::{Hooks, OwnStatements};
use crate::statement::prepared::{Compiler, Interrupted, Prepared, Spared, Uses};
use crate::statement::routing::Facts;
use crate::statement::rowid::{IdFunction, InsertWithIds, Rewriting};

/// An SQLite connection with what belongs to it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) sqlite: sqlite::Connection,
    pub(crate) statements: StatementCache,
    pub(crate) compiler: Compiler,
    /// How long the session waits for other SQLite programs, and what ends that wait; both belong to its user.
    pub(crate) wait: BusyWait,
    pub(crate) counters: Arc<SessionCounters>,
    pub(crate) ids: IdFunction,
    /// Frames in the WAL after this connection's last own commit.
    pub(crate) frames: Arc<AtomicU32>,
    /// The schema that it has last looked at.
    pub(crate) schema: KnownSchema,
}

/// See [`Session::listen`].
#[derive(Debug)]
pub(crate) struct Listening {
    before: Interrupted,
    columns: Arc<[String]>,
}

impl Session {
    /// The form of an INSERT that takes its new ids from the function: see [`IdFunction::rewritten`].
    pub(crate) fn insert_with_ids<'a>(
        &self,
        rewriting: &'a mut Rewriting,
        sql: &str,
        known: (&Facts, &[String]),
    ) -> Option<&'a mut InsertWithIds> {
        let again = || self.compiler.compile_again(&self.sqlite, sql, known);
        let asked = self.compiler.hooks.asks_application();
        self.ids.rewritten(rewriting, &self.sqlite, sql, asked, again)
    }

    /// Equips an application's new connection. It waits for nobody until it has a user.
    ///
    /// # Errors
    /// As SQLite fails.
    pub(crate) fn new(
        sqlite: sqlite::Connection,
        settings: &Settings,
    ) -> Result<Session, sqlite::Error> {
        sqlite.set(sqlite::Setting::ForeignKeys, settings.foreign_keys);
        sqlite.disable_load_extension()?;
        if settings.durability != Durability::Full {
            sqlite.execute(settings.durability.pragma())?;
        }
        // In KiB when negative. Until then SQLite keeps what a transaction writes in memory, as a speculative transaction must.
        let spill_kib = settings.speculation_bytes_max / 1024;
        sqlite.execute(&format!("PRAGMA main.cache_spill=-{spill_kib}"))?;
        let session = Session::equip(sqlite)?;
        session.check_while_running();
        Ok(session)
    }

    /// Equips a new connection with what every session has.
    ///
    /// # Errors
    /// As SQLite fails.
    pub(crate) fn equip(sqlite: sqlite::Connection) -> Result<Session, sqlite::Error> {
        let counters = Arc::new(SessionCounters::default());
        sqlite.count_session(&counters)?;
        sqlite.make_repeatable()?;
        let hooks = Arc::<Hooks>::default();
        let ids = IdFunction::install(&sqlite, Arc::clone(&hooks))?;
        let compiler = Compiler::install(&sqlite, hooks);
        let wait = BusyWait::install(&sqlite, Duration::ZERO);
        Ok(Session {
            sqlite,
            statements: StatementCache::new(),
            compiler,
            wait,
            counters,
            ids,
            frames: Arc::default(),
            schema: KnownSchema::default(),
        })
    }

    /// What is compiled and executed until the guard is dropped is the session's own: the application is not asked whether it may.
    pub(crate) fn own_statements(&self) -> OwnStatements {
        self.compiler.hooks.own()
    }

    /// The number of the schema `main` of this moment; `None` when it cannot be read.
    pub(crate) fn schema_number(&self) -> Option<i64> {
        self.compiler.schema_number(&self.sqlite)
    }

    /// Compiles the first statement of `sql`; see [`Compiler::compile`].
    ///
    /// # Errors
    /// As SQLite fails to compile it.
    pub(crate) fn compile(
        &self,
        sql: &str,
        spared: Spared,
    ) -> Result<(Option<Box<Prepared>>, usize), sqlite::Error> {
        self.compiler.compile(&self.sqlite, sql, spared)
    }

    /// Finds out which tables exactly a statement touches that is used again: to look costs more than many a statement.
    pub(crate) fn know_tables(&self, prepared: &mut Prepared) {
        if prepared.uses == Uses::Again {
            self.compiler.know_tables(&self.sqlite, prepared);
        }
    }

    /// Listens to what SQLite asks about a statement that is stepped next, until [`Session::accept_plan`].
    pub(crate) fn listen(&self, prepared: &Prepared) -> Listening {
        let columns = Arc::clone(&prepared.columns);
        Listening { before: self.compiler.listener.begin(), columns }
    }

    /// The statement was stepped, of which SQLite may have made another plan; `may_look` says whether the schema may be read now.
    pub(crate) fn accept_plan(
        &self,
        heard: Listening,
        prepared: &mut Prepared,
        may_look: impl Fn() -> bool,
    ) {
        let is_known_in = |schema| may_look() && self.schema_number() == Some(schema);
        self.compiler.listener.accept_plan(heard.before, &heard.columns, prepared, is_known_in);
    }

    /// Makes SQLite ask the user's check, if there is one, while a statement runs.
    pub(crate) fn check_while_running(&self) {
        let wait = self.wait.clone();
        let handler = move || if wait.is_checked() { Progress::Stop } else { Progress::Continue };
        self.sqlite.set_progress_handler(limits::CHECK_INSTRUCTIONS, Some(handler));
    }

    /// Puts our hook in the place of SQLite's automatic checkpoint.
    pub(crate) fn take_over_checkpoints(&self) {
        let frames = Arc::clone(&self.frames);
        self.sqlite.set_wal_hook(Some(move |count| {
            frames.store(count, Ordering::Relaxed);
            0
        }));
    }

    /// Makes the session's figures those of a new connection.
    pub(crate) fn forget_session(&self) {
        self.sqlite.set_last_insert_rowid(0);
        self.counters.begin_anew(self.sqlite.total_changes());
    }
}
