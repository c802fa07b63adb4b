//! A speculative transaction: from BEGIN to COMMIT it reads and writes on its own snapshot, in the page
//! cache of its own connection, and keeps a log of what its caller has seen. `commit.rs` commits it.
//!
//! The transaction moves to its turn in the queue ([`Connection::escalate`]) for what a speculative transaction cannot do (DDL, attached
//! databases), and when its log or page cache exceed their limits. There it goes on as in SQLite alone.

use std::sync::Arc;

use manyhands_queue::{Queue, planted};
use manyhands_sqlite::{Pinned, Transaction, Value, WalIndexHeader, pin};

use crate::Error;
use crate::commit::file::DatabaseFile;
use crate::commit::request::{Counts, Origin, Request, SessionSettings};
use crate::connection::Connection;
use crate::connection::deferred::DeferredWrites;
use crate::connection::turn::fails_in_transaction;
use crate::error::StaleRead;
use crate::row::{Outcome, Tally};
use crate::session::cursor_state::CursorState;
use crate::statement::observe::{Observer, Seen};
use crate::statement::prepared::{self, Prepared, Spared};
use crate::statement::routing::{self, InSpeculation, Route, TransactionStatement};
use crate::transaction::log::{Entry, Log, ShownRows};

/// The open transaction of a connection, while it is speculative.
#[derive(Debug)]
pub(crate) struct Optimistic {
    pub(crate) log: Log,
    /// Its deferred writes.
    pub(crate) deferred_writes: Option<DeferredWrites>,
    /// It is one of mode Auto, see `auto_mode.rs`.
    pub(crate) auto: bool,
    /// It has waited for its turn in vain, and has no snapshot any more.
    pub(crate) detached: bool,
    /// What it has read is no longer so: it can only be ended.
    pub(crate) stale: Option<Arc<StaleRead>>,
    /// Its log does not say all that was seen: it can continue on its own snapshot only.
    pub(crate) incomplete: bool,
    /// The number of the schema, if it was told that something is there, or is not.
    pub(crate) schema: Option<i64>,
    /// Only this connection can replay the log.
    pub(crate) replays_locally: bool,
    /// Something of an attached database was read.
    pub(crate) reads_elsewhere: bool,
    /// `PRAGMA defer_foreign_keys` was on when it began: SQLite forgets that at each ROLLBACK.
    pub(crate) defers_foreign_keys: bool,
    pub(crate) pinned: Pinned,
    /// What the session had counted when it began.
    pub(crate) before: Counts,
    /// Gives new rowids.
    pub(crate) queue: Arc<Queue>,
}

impl Connection {
    /// `begun`, BEGIN or a savepoint, has begun a transaction outside a turn: it goes on speculatively.
    pub(crate) fn begin_optimistic(&mut self, begun: &Prepared, file: &DatabaseFile, auto: bool) {
        self.sqlite().arm_speculation(true);
        let queue = file.queue();
        self.optimistic = Some(Box::new(Optimistic {
            log: core::mem::take(&mut self.log_memory),
            deferred_writes: None,
            auto,
            detached: false,
            stale: None,
            incomplete: false,
            schema: None,
            replays_locally: self.connection_local,
            reads_elsewhere: false,
            defers_foreign_keys: self.connection_local && self.defers_foreign_keys(),
            pinned: Pinned::now(),
            before: self.counts(),
            queue,
        }));
        if let Some(TransactionStatement::Savepoint(_)) = &begun.facts.transaction {
            // The transaction may go back to it.
            self.log(begun, &[], Observer::default().so_far(true), None);
        }
    }

    fn defers_foreign_keys(&self) -> bool {
        let _own = self.own_statements();
        self.sqlite().query_integer("PRAGMA defer_foreign_keys").is_ok_and(|on| on != 0)
    }

    /// What the session has counted, without a question that would count as seen.
    pub(crate) fn counts(&self) -> Counts {
        let deferred_writes = self.optimistic.as_ref().and_then(|it| it.deferred_writes.as_ref());
        deferred_writes.map_or_else(|| self.counts_here(), |kept| kept.now)
    }

    /// The same, by what this connection has executed.
    pub(crate) fn counts_here(&self) -> Counts {
        let total_here = self.sqlite().total_changes();
        Counts {
            changes: self.session().counters.changes(self.sqlite().changes(), total_here),
            total_changes: self.session().counters.total_changes(total_here),
            last_insert_rowid: self.sqlite().last_insert_rowid(),
        }
    }

    /// The transaction is over, or goes on in its turn: this gives the log.
    pub(crate) fn end_optimistic(&mut self) -> Option<Box<Optimistic>> {
        let ended = self.optimistic.take()?;
        self.sqlite().arm_speculation(false);
        if let Some(kept) = ended.deferred_writes.as_ref().filter(|_| !ended.auto) {
            self.continue_session(kept.now);
        }
        Some(ended)
    }

    /// Executes a statement of a speculative transaction.
    pub(crate) fn carry_out_speculatively(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Result<Outcome, Error> {
        match &prepared.facts.transaction {
            Some(TransactionStatement::Commit) => return self.commit_optimistic(prepared),
            Some(TransactionStatement::Release(name)) if self.savepoints.is_transaction(name) => {
                return self.commit_optimistic(prepared);
            }
            Some(TransactionStatement::Rollback) => {
                // A cursor with too many rows fails when it is read on, but the transaction ends.
                let _ = self.drain_cursors();
                self.count_deferred();
                if self.is_autocommit() {
                    // It did not fit into memory, or was interrupted: SQLite has undone it already.
                    self.end_with_transaction();
                    return Ok(Outcome::default());
                }
                return self.end_as_sqlite_does(prepared);
            }
            _ if fails_in_transaction(prepared) => {
                return self.fail_in_transaction(prepared, values);
            }
            _ => {}
        }
        if let Some(deferred) = self.defer(prepared, values) {
            return deferred;
        }
        if let Some(outcome) = self.defer_row(prepared, values) {
            return Ok(outcome);
        }
        self.prepare_transaction(prepared)?;
        let place = routing::in_speculation(&prepared.facts, &prepared.route, prepared.compiled);
        if place != InSpeculation::InTurn {
            self.execute_deferred()?;
        }
        if self.optimistic.is_none() {
            return self.carry_out_here(prepared, values);
        }
        if !prepared.facts.only_reads() {
            self.drain_cursors()?;
        }
        match place {
            InSpeculation::Logged => self.step_logged(prepared, values),
            InSpeculation::LoggedForLocalReplay => {
                self.pristine &= prepared.facts.leaves_no_trace();
                let outcome = self.step_for_local_replay(prepared, values)?;
                self.notice(&prepared.facts)?;
                Ok(outcome)
            }
            InSpeculation::Plain => {
                if prepared.facts.attaches && !prepared.facts.detaches {
                    // What did not compile before may mean something then.
                    self.before_change()?;
                }
                let outcome = self.carry_out_here(prepared, values)?;
                if routing::is_nothing(&prepared.facts) {
                    self.note_nothing_to_do();
                }
                Ok(self.after_deferred(outcome))
            }
            InSpeculation::InTurn if prepared.route == Route::Setting && self.only_reads_yet() => {
                self.set_while_reading(prepared, values)
            }
            InSpeculation::InTurn if self.refuses_as_query_only(prepared)? => {
                self.carry_out_here(prepared, values)
            }
            InSpeculation::InTurn => {
                self.escalate_first()?;
                if prepared.facts.pragma.is_some() {
                    // SQLite applied it at compile time, to the transaction that is over now.
                    let sql = Arc::clone(&prepared.sql);
                    if let (Some(again), _) = self.compile(&sql)? {
                        *prepared = *again;
                    }
                }
                self.carry_out_here(prepared, values)
            }
        }
    }

    /// True in a transaction of mode Auto that is on its snapshot, and has written nothing; and in one that never will.
    fn only_reads_yet(&self) -> bool {
        self.optimistic.as_ref().is_some_and(|it| it.only_reads() || it.auto && it.stale.is_some())
    }

    /// Changes a setting in a transaction of mode Auto that only reads until now: it holds nothing for that.
    fn set_while_reading(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Result<Outcome, Error> {
        let is_stale = self.optimistic.as_ref().is_some_and(|it| it.stale.is_some());
        if routing::changes_reads(&prepared.facts) && !is_stale {
            // What was read would not show the same again.
            self.show_unlogged()?;
        }
        // SQLite applies it when it compiles it.
        let compiled =
            self.session().compiler.compile(self.sqlite(), &prepared.sql, Spared::Refused);
        if let (Some(again), _) = compiled.map_err(|error| self.describe(error))? {
            *prepared = *again;
        }
        let outcome = self.carry_out_here(prepared, values)?;
        let defers_foreign_keys = self.defers_foreign_keys();
        let particular = self.connection_local;
        if let Some(optimistic) = &mut self.optimistic {
            optimistic.replays_locally |= particular;
            optimistic.defers_foreign_keys = defers_foreign_keys;
        }
        Ok(outcome)
    }

    /// The same, and only this connection can replay it.
    pub(crate) fn step_for_local_replay(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Result<Outcome, Error> {
        self.require_local_replay(prepared);
        self.step_logged(prepared, values)
    }

    pub(crate) fn require_local_replay(&mut self, prepared: &Prepared) {
        if let Some(optimistic) = &mut self.optimistic {
            optimistic.replays_locally = true;
            optimistic.reads_elsewhere |= prepared.facts.reads_elsewhere;
        }
    }

    /// Steps a statement speculatively, and logs what comes of it.
    fn step_logged(&mut self, prepared: &mut Prepared, values: &[Value]) -> Result<Outcome, Error> {
        let pinned = self.pin_next();
        let total_before = self.sqlite().total_changes();
        let run = |connection: &mut Connection, prepared: &mut Prepared| {
            let _pin = pinned.map(pin);
            connection.step(prepared, values)
        };
        let mut result = run(self, prepared);
        // In mode Auto SQLite begins the snapshot, with the first statement that reads.
        let goes_on = !self.sqlite().is_autocommit() && !self.is_in_auto_mode();
        if result.is_err() && goes_on && self.sqlite().transaction() == Transaction::None {
            // It failed without a snapshot, for an older schema: its caller must see what the transaction's snapshot shows.
            self.has_newer_schema()?;
            result = run(self, prepared);
        }
        let counts = prepared.facts.changes_rows();
        match &result {
            Ok(outcome) => {
                self.savepoints.note(prepared.facts.transaction.as_ref());
                let mut observer = core::mem::take(&mut self.observer);
                outcome.rows.iter().for_each(|row| observer.row(row.values()));
                self.log(prepared, values, observer.so_far(true), Some(&outcome.tally));
                observer.restart();
                self.observer = observer;
                // One statement in sixteen: to ask costs, and a page cache grows little meanwhile.
                let statements = self.optimistic.as_ref().map_or(0, |it| it.log.entries().len());
                self.keep_within_limits(counts && statements.is_multiple_of(16))?;
            }
            Err(error) => {
                if self.speculation_has_overflowed() {
                    // What OR FAIL has kept must go: the statement runs again. What an INSTEAD OF trigger does is not counted.
                    let counted = self.sqlite().total_changes() != total_before;
                    let undone = !counted && !prepared.facts.has_trigger;
                    self.escalate(undone)?;
                    return self.carry_out_here(prepared, values);
                }
                if self.sqlite().is_autocommit() {
                    // OR ROLLBACK, or RAISE(ROLLBACK): nothing is left of the transaction but the ids that it took.
                    self.log(prepared, values, Observer::default().so_far(true), None);
                } else if let Some(code) = error.code().filter(|code| code.is_result()) {
                    let changes = if counts { self.sqlite().changes() } else { 0 };
                    let tally = Tally::new(changes, self.sqlite().last_insert_rowid());
                    let (seen, sample) = Observer::default().fail(code);
                    self.log(prepared, values, (seen, &sample), Some(&tally));
                }
            }
        }
        result
    }

    /// The pinned clock and seed of the next statement.
    pub(crate) fn pin_next(&mut self) -> Option<Pinned> {
        let optimistic = self.optimistic.as_mut()?;
        if optimistic.auto {
            // As in SQLite, time goes on.
            optimistic.pinned = optimistic.pinned.at_this_moment();
        }
        Some(optimistic.pinned.for_statement(optimistic.log.entries().len() as u64))
    }

    /// Adds a statement to the log, with the rowids that it was given.
    pub(crate) fn log(
        &mut self,
        prepared: &Prepared,
        values: &[Value],
        (seen, sample): (Seen, &[u8]),
        tally: Option<&Arc<Tally>>,
    ) {
        let entry = self.entry(prepared, ShownRows::All(seen), tally);
        if let Some(optimistic) = self.optimistic.as_mut().filter(|it| !it.incomplete) {
            optimistic.log.push(entry, values, sample);
        }
    }

    fn entry(
        &mut self,
        prepared: &Prepared,
        shown: ShownRows,
        tally: Option<&Arc<Tally>>,
    ) -> Entry {
        let (stale, facts) = (prepared.is_stale(), &prepared.facts);
        let touches = prepared.touches_now();
        // In mode Auto a function of the application is not called again for what it has read.
        let calls_application = facts.local_function && self.is_in_auto_mode();
        let reads_only = !stale
            && prepared.compiled.read_only
            && (facts.only_reads()
                || calls_application && facts.changes_nothing() && !facts.reads_elsewhere)
            && facts.pragma.is_none()
            && !facts.session_function;
        Entry {
            columns: prepared::columns_digest(&prepared.columns),
            reads_only: reads_only.then_some(touches.reads),
            changes_nothing: prepared.compiled.read_only && facts.changes_nothing(),
            is_savepoint: facts.transaction.is_some(),
            pinned: self.optimistic.as_ref().filter(|it| it.auto).map(|it| it.pinned),
            calls_application,
            counts: facts.changes_rows(),
            touches,
            tables: Arc::clone(&prepared.tables),
            tally: tally.cloned(),
            given: core::mem::take(&mut self.given_ids),
            ..Entry::new(Arc::clone(&prepared.sql), shown)
        }
    }

    /// The transaction was rolled back: others may have the ids that it has reserved.
    pub(crate) fn give_ids_back(&self, log: &Log) {
        let Some(file) = &self.file else { return };
        let queue = file.queue();
        for entry in log.entries().iter().rev() {
            let given = &entry.given;
            given.ids.iter().rev().for_each(|&id| queue.give_back_id(given.table, id));
        }
    }

    /// A statement of a speculative transaction could not be compiled: its caller has seen that.
    pub(crate) fn log_uncompiled(&mut self, sql: &str, values: &[Value], error: &Error) {
        if self.is_in_auto_mode() && self.sqlite().transaction() == Transaction::None {
            return; // SQLite, too, has looked in no snapshot.
        }
        let Some(optimistic) = self.optimistic.as_mut() else { return };
        let Some(code) = error.code().filter(|code| code.is_result()) else { return };
        if optimistic.incomplete {
            return;
        }
        optimistic.replays_locally = true;
        let (seen, sample) = Observer::default().fail(code);
        // With its values: where it is executed again, it may have been compiled meanwhile.
        let entry = Entry::new(sql.into(), ShownRows::All(seen));
        optimistic.log.push(Entry { changes_nothing: true, ..entry }, values, &sample);
    }

    /// A cursor was opened: what it will have shown by the commit is seen.
    pub(crate) fn log_cursor(
        &mut self,
        prepared: &Prepared,
        values: &[Value],
        cursor: &Arc<CursorState>,
    ) {
        if planted("forget-cursors") {
            return;
        }
        let entry = self.entry(prepared, ShownRows::Cursor(Arc::clone(cursor)), None);
        if let Some(optimistic) = self.optimistic.as_mut().filter(|it| !it.incomplete) {
            optimistic.replays_locally |=
                prepared.facts.local_function || prepared.facts.reads_elsewhere;
            optimistic.log.push(entry, values, &[]);
        }
    }

    /// Moves to the turn a transaction whose log or page cache have become large.
    pub(crate) fn keep_within_limits(&mut self, asks: bool) -> Result<(), Error> {
        let limit = self.settings.speculation_bytes_max;
        let cache = if asks { self.sqlite().cache_bytes() } else { 0 };
        let Some(optimistic) = &mut self.optimistic else { return Ok(()) };
        if optimistic.log.bytes() <= limit / 4 && cache <= limit / 4 * 3 {
            return Ok(());
        }
        if optimistic.auto && optimistic.deferred() == 0 {
            // A transaction that only reads does not queue.
            optimistic.forget_log();
            return Ok(());
        }
        self.escalate(true)
    }

    /// Somebody asks how many rows the last statement has changed.
    pub(crate) fn note_question(&self, what: u8) {
        let Some(optimistic) = &self.optimistic else { return };
        let counts = |entry: &&Entry| what != Tally::CHANGES || entry.counts;
        let mut entries = optimistic.log.entries().iter().rev().filter(counts);
        if let Some(tally) = entries.find_map(|entry| entry.tally.as_ref()) {
            tally.ask(what);
        }
    }

    /// Somebody asks how many rows all statements have changed.
    pub(crate) fn note_question_of_all(&self) {
        let entries = self.optimistic.iter().flat_map(|it| it.log.entries());
        entries.filter_map(|entry| entry.tally.as_ref()).for_each(|it| it.ask(Tally::CHANGES));
    }
}

impl Optimistic {
    /// Its log as a request, to be executed again by the leader.
    pub(crate) fn request(
        &self,
        session: SessionSettings,
        snapshot: &WalIndexHeader,
    ) -> Request<'_> {
        let (change, checksum, pinned) = (snapshot.change, snapshot.checksum, self.pinned);
        let origin = Origin { change, checksum, pinned };
        let mut request = Request::new(session, self.before, Some(origin));
        request.statements.reserve(self.log.entries().len());
        for entry in self.log.entries() {
            let values = self.log.values(entry);
            let statement = request.push_refs(&entry.sql, entry.columns, values);
            statement.seen = Some((entry.seen().into_owned(), entry.counted()));
            statement.reads_only = entry.spared_if_unchanged().map(|tables| tables.0);
            statement.ids.clone_from(&entry.given.ids);
        }
        request
    }

    /// True when COMMIT is not all that is left to do: something was written, if only into a temporary table.
    pub(crate) fn is_to_be_executed(&self) -> bool {
        let writes = |it: &Entry| !it.changes_nothing && !it.is_savepoint;
        self.deferred_writes.is_none() && self.log.entries().iter().any(writes)
    }

    /// True on its snapshot, in mode Auto, with nothing deferred.
    pub(crate) fn only_reads(&self) -> bool {
        self.auto && !self.detached && self.deferred() == 0
    }

    /// True when it has seen, or done, anything that its log says.
    pub(crate) fn has_seen(&self) -> bool {
        !self.log.entries().is_empty() || self.schema.is_some()
    }

    /// What was seen cannot be compared any more.
    pub(crate) fn forget_log(&mut self) {
        self.incomplete = true;
        self.log.clear();
    }
}
