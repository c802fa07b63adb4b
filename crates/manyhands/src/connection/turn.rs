//! Statements that a connection executes itself, while it holds the turn.

use core::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Instant;

use manyhands_queue::{Count, Deadline, Lead, Queue, crash};
use manyhands_sqlite::{self as sqlite, Value};

use crate::Error;
use crate::commit::external_writers::{lock_ahead, yield_to_external_writers};
use crate::commit::file::{DatabaseFile, FileId};
use crate::commit::queue_client::QueueClient;
use crate::commit::recent;
use crate::commit::registry::FileHandle;
use crate::connection::Connection;
use crate::connection::checkpoint::is_checkpoint;
use crate::limits;
use crate::row::{Outcome, Row, Tally};
use crate::statement::prepared::{self, Prepared};
use crate::statement::routing::{Route, TransactionStatement};
use crate::statement::rowid::{GivenIds, Recorded, Rewriting};
use crate::statement::tables::{TableSet, has_sequence};
use crate::statement::text;

impl Connection {
    /// Executes a statement here while holding the turns of all files that it writes.
    pub(crate) fn step_in_turn(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Result<Outcome, Error> {
        self.take_turns(prepared)?;
        self.note_holder(prepared);
        self.know_tables(prepared);
        // Without the turn it is refused.
        if prepared.facts.transaction.is_none() && !self.is_autocommit() && !self.turns.is_empty() {
            let queue = self.file.as_ref().map(|file| file.queue());
            self.path.note_write(queue.as_deref());
        }
        let outside = self.sqlite().is_autocommit();
        let before = prepared.facts.silent.then(|| self.schema_number());
        let locks = outside && self.lock_ahead_of_others(prepared);
        if locks {
            self.turns.taken_at = Instant::now();
        }
        let result = self.step(prepared, values);
        if locks {
            self.sqlite().give_lock_back();
        }
        let is_known = |number: Option<i64>| number.is_some() && number == self.schema_number();
        let changes_schema = prepared.facts.schema || before.is_some_and(|it| !is_known(it));
        if !outside {
            self.release_turns_without_lock();
        }
        if outside && prepared.facts.transaction.is_some() && !self.sqlite().is_autocommit() {
            self.conflict = None;
            self.adopt_turns_of_blobs();
        }
        if changes_schema {
            self.turns.written = TableSet::ALL;
            if let Some(file) = &self.file {
                // A name may mean another table now.
                file.queue().forget_ids();
            }
        }
        self.let_go_after_transaction();
        result
    }

    /// Takes SQLite's write lock ahead of a statement that begins a transaction with it, if an external writer may commit again and
    /// again. Otherwise SQLite itself waits for the lock.
    fn lock_ahead_of_others(&self, prepared: &Prepared) -> bool {
        let others_commit = match &self.file {
            Some(file) => self.holds(file.id()) && file.has_external_connections(),
            None => self.is_guest(),
        };
        if prepared.compiled.read_only || !others_commit {
            return false;
        }
        let patience = self.settings.timeout.min(limits::BUSY_TRIES_FOR);
        lock_ahead(self.sqlite(), Deadline::after(patience))
    }

    pub(crate) fn schema_number(&self) -> Option<i64> {
        self.session().schema_number()
    }

    /// The same, with the turn of the main database in hand.
    pub(crate) fn step_leading(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
        lead: Lead,
    ) -> Result<Outcome, Error> {
        self.hold(lead)?;
        self.step_in_turn(prepared, values)
    }

    pub(crate) fn hold(&mut self, lead: Lead) -> Result<(), Error> {
        let Some(file) = self.file.clone() else {
            return Err(Error::refused("a database without a queue has no turns"));
        };
        self.hold_of(&file, lead);
        Ok(())
    }

    pub(crate) fn hold_of(&mut self, file: &DatabaseFile, lead: Lead) {
        let is_main = self.file.as_ref().is_some_and(|main| main.id() == file.id());
        if is_main {
            // The commit hook sets it again.
            self.session().frames.store(0, Ordering::Relaxed);
        }
        self.turns.hold(file, lead, is_main);
    }

    /// Gives back the turns of the files that the open transaction has not begun to write: there was nothing to do; or the
    /// snapshot of a transaction that is not speculative is too old, and it will not while it lasts.
    fn release_turns_without_lock(&mut self) {
        let writes = |id: FileId| {
            let main = self.file.as_ref().filter(|it| it.id() == id).map(|_| "main");
            let attached = self.attached.iter().filter(|(_, it)| it.id() == id);
            let mut schemas = attached.map(|(schema, _)| schema.as_str()).chain(main);
            schemas.any(|it| self.sqlite().writes_schema(it))
        };
        let unused: Vec<FileId> = self.turns.files().filter(|&id| !writes(id)).collect();
        unused.into_iter().for_each(|id| self.turns.release_one(id, self.file.as_deref()));
    }

    pub(crate) fn is_query_only(&self) -> Result<bool, sqlite::Error> {
        let _own = self.own_statements();
        Ok(self.sqlite().query_integer("PRAGMA query_only")? != 0)
    }

    /// True for a statement that fails before it asks for a lock, after `PRAGMA query_only = ON`.
    pub(crate) fn refuses_as_query_only(&self, prepared: &Prepared) -> Result<bool, Error> {
        let facts = &prepared.facts;
        let begins = facts.transaction.is_some() && !prepared.compiled.read_only;
        let sets = || facts.pragma.is_some() && !is_checkpoint(facts);
        let writes = facts.changes_rows() || facts.schema || facts.temp_schema || begins;
        Ok(self.connection_local
            && (writes || prepared.route == Route::Turn && sets())
            && self.is_query_only()?)
    }

    /// SQLite says why. BEGIN IMMEDIATE takes the lock before it fails: without a turn, a plain BEGIN fails in its place.
    pub(crate) fn fail_in_transaction(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Result<Outcome, Error> {
        let takes_lock = prepared.facts.transaction.is_some() && self.optimistic.is_some();
        if !takes_lock || self.refuses_as_query_only(prepared)? {
            return self.step(prepared, values);
        }
        let mut plain = self.compile_in_place("BEGIN")?;
        self.step(&mut plain, values)
    }

    /// Takes the turns of all files that a statement writes, in one order for all connections.
    fn take_turns(&mut self, prepared: &Prepared) -> Result<(), Error> {
        let facts = &prepared.facts;
        if self.refuses_as_query_only(prepared)? {
            return Ok(());
        }
        let held = self.file.as_ref().is_some_and(|file| self.holds(file.id()));
        if held && self.attached.is_empty() {
            return Ok(());
        }
        if facts.transaction.is_some() && self.is_autocommit() {
            return self.hold_all(None);
        }
        let attached = facts.writes.iter().filter_map(|schema| self.attached.get(schema));
        // A statement that names no table (DDL, VACUUM) is about the main database.
        let main = facts.writes.is_empty() || facts.schema || facts.writes.contains("main");
        let files = attached.cloned().chain(self.file.clone().filter(|_| main)).collect();
        self.take_turns_of(files, |client| client)
    }

    /// Holds the turns of all files, for BEGIN IMMEDIATE, which locks them all. `lead` is the main database's, if its
    /// turn has come already.
    ///
    /// # Errors
    /// A turn did not come before the deadline. Then none is held that was not before.
    pub(crate) fn hold_all(&mut self, lead: Option<Lead>) -> Result<(), Error> {
        match lead {
            Some(lead) if self.attached.is_empty() => return self.hold(lead),
            // It is taken again: in the one order, the turn of another file may come before it.
            early => drop(early),
        }
        self.hold_all_by(|client| client)
    }

    /// The same, with clients that wait as they are told.
    ///
    /// # Errors
    /// See [`Connection::hold_all`].
    pub(crate) fn hold_all_by(
        &mut self,
        how: impl for<'a> Fn(QueueClient<'a>) -> QueueClient<'a>,
    ) -> Result<(), Error> {
        let files = self.attached.values().cloned().chain(self.file.clone()).collect();
        self.take_turns_of(files, how)
    }

    fn take_turns_of(
        &mut self,
        files: Vec<FileHandle>,
        how: impl for<'a> Fn(QueueClient<'a>) -> QueueClient<'a>,
    ) -> Result<(), Error> {
        let held = self.turns.count();
        let taken = self.take_each_turn(files, how);
        if taken.is_err() {
            self.turns.release_after(held, self.file.as_deref());
        }
        taken
    }

    fn take_each_turn(
        &mut self,
        mut files: Vec<FileHandle>,
        how: impl for<'a> Fn(QueueClient<'a>) -> QueueClient<'a>,
    ) -> Result<(), Error> {
        files.sort_by_key(|file| file.id());
        files.dedup_by_key(|file| file.id());
        let is_main = |file: &FileHandle| self.file.as_ref().is_some_and(|it| it.id() == file.id());
        if let [file] = &files[..]
            && is_main(file)
            && !self.holds(file.id())
            && let Some(lead) = self.lead_again(file)?
        {
            self.hold_of(file, lead);
            return Ok(());
        }
        for file in files {
            if !self.holds(file.id()) {
                let lead = how(self.client(&file)).take_turn()?;
                self.hold_of(&file, lead);
            }
        }
        Ok(())
    }

    /// Gives the turns back when the transaction has ended, after a checkpoint that is due.
    pub(crate) fn let_go_after_transaction(&mut self) {
        if self.turns.is_empty() || !self.sqlite().is_autocommit() {
            return;
        }
        crash::point("turn-committed");
        self.blobs.expire_those_of_transaction();
        let taken = self.sqlite().speculation_status().locked;
        self.note_turn_commit();
        let held = self.turns.held_for();
        if let Some(file) = &self.file {
            // A statement that still reads holds its snapshot, and with it the WAL.
            if let Some(lead) = self.turns.lead(file.id())
                && self.sqlite().transaction() == sqlite::Transaction::None
            {
                let frames = self.session().frames.load(Ordering::Relaxed);
                let others = lead.next(None).is_some();
                file.checkpoint.after_commit(file, lead.queue(), self.sqlite(), frames, others);
            }
            if self.turns.others_wait() && file.has_external_connections() {
                yield_to_external_writers(file, &file.queue(), self.sqlite(), taken, held);
            }
        }
        // Where a commit is synced, requests had better share the next one.
        self.turns.leave(self.file.as_deref(), !self.session_settings.full);
        if let Some(file) = &self.file {
            file.checkpoint.copy_beside(file);
        }
    }

    pub(crate) fn release_turns(&mut self) {
        self.turns.release_after(0, self.file.as_deref());
    }

    /// Notes the statement for the error of a connection that waits for this turn in vain.
    fn note_holder(&self, prepared: &Prepared) {
        if let Some(file) = self.file.as_ref().filter(|file| self.holds(file.id())) {
            file.holder.note(&prepared.sql);
        }
    }

    /// Tells who looks at the queue what the turn is held for.
    fn tell_statement(&self, prepared: &Prepared) {
        if let Some(file) = &self.file
            && let Some(lead) = self.turns.lead(file.id())
        {
            lead.tell_statement(&prepared.sql);
        }
    }

    /// The statement is over, and the transaction goes on.
    fn tell_idle(&self) {
        if let Some(file) = self.file.as_ref().filter(|_| !self.sqlite().is_autocommit())
            && let Some(lead) = self.turns.lead(file.id())
        {
            lead.tell_idle();
        }
    }

    /// Runs a statement to its end; one that inserts may be given its ids.
    fn fetch(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Result<Vec<Row>, sqlite::Error> {
        self.given_ids.ids.clear();
        let ids = core::mem::take(&mut self.ids_to_give);
        let Some(queue) = self.queue_for_ids(prepared) else { return prepared.fetch_all(values) };
        if ids.is_empty()
            && let Some(result) = self.fetch_as_predicted(prepared, values, &queue)
        {
            return result;
        }
        let counts = self.counts_here();
        let own = self.own_statements();
        let session = self.session_mut();
        if session.sqlite.is_autocommit() {
            session.ids.leave_snapshot(true);
        }
        let insert = session.insert_with_ids(
            &mut prepared.rewriting,
            &prepared.sql,
            (&prepared.facts, &prepared.columns),
        );
        drop(own);
        let Some(insert) = insert.filter(|insert| insert.asks(values)) else {
            return prepared.fetch_all(values);
        };
        if let Some(columns) = insert.newer_columns() {
            prepared.columns = columns;
        }
        let shown = session.compiler.hooks.show(&mut prepared.statement, &prepared.sql, values);
        let here = Some(&session.sqlite);
        let recorded = Recorded { ids: &ids, exclusive: true };
        let (result, given) = session.ids.run(&queue, insert, recorded, here, |statement| {
            let result = prepared::fetch_all(statement, &mut prepared.columns, values);
            statement.reset();
            result
        });
        drop(shown);
        if insert.was_recompiled() && result.as_ref().is_err_and(|error| error.code.is_plain()) {
            // It was rewritten for an older schema.
            self.continue_session(counts);
            return prepared.fetch_all(values);
        }
        insert.note(values, given.len());
        self.note_given(insert.given(given));
        result
    }

    /// Runs an INSERT as it was written, if the id that SQLite will choose is known, and could be reserved.
    fn fetch_as_predicted(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
        queue: &Queue,
    ) -> Option<Result<Vec<Row>, sqlite::Error>> {
        let session = self.session_mut();
        let insert = prepared.rewriting.form()?;
        let foreseen = session.ids.reserve_next(queue, insert, &session.sqlite)?;
        let result = prepared.fetch_all(values);
        let session = self.session_mut();
        let insert = prepared.rewriting.form()?;
        let given = session.ids.see(queue, insert, foreseen, &session.sqlite);
        self.note_given(insert.given(given));
        Some(result)
    }

    /// Notes the ids for the log, if there is one: in a turn there is nothing that could take effect elsewhere.
    fn note_given(&mut self, given: GivenIds) {
        if self.optimistic.is_some() {
            self.given_ids = given;
        }
    }

    /// The queue that gives new rowids, if the statement may need one.
    pub(crate) fn queue_for_ids(&self, prepared: &Prepared) -> Option<Arc<Queue>> {
        // Of the rewritten form the application's authorizer is not asked.
        if prepared.facts.left_out
            || prepared.written.is_empty()
            || matches!(prepared.rewriting, Rewriting::None)
        {
            return None;
        }
        // In mode Auto SQLite chooses an id only where the INSERT takes effect, so that ids become visible in their order.
        if let Some(optimistic) = self.optimistic.as_ref().filter(|it| !it.auto) {
            return Some(Arc::clone(&optimistic.queue));
        }
        let queue = self.file.as_ref()?.queue();
        prepared.written.iter().any(|&key| queue.has_reservations(key)).then_some(queue)
    }

    /// Notes which tables this turn has written, for transactions that read them before.
    fn note_turn_commit(&mut self) {
        if self.session().frames.load(Ordering::Relaxed) == 0 {
            // Nothing was committed here: a newer commit is another connection's.
            return;
        }
        let status = self.sqlite().speculation_status();
        let Some(main) = self.file.as_ref().map(|file| file.id()) else { return };
        let written = self.turns.written;
        // Others are not synced.
        let sync = self.session_settings.full.then(|| self.sqlite().take_sync_time()).flatten();
        if let Some(lead) = self.turns.lead_mut(main) {
            recent::note_commit(lead, status.locked, status.live, written);
            lead.count_own_commit(sync);
            lead.queue().count(Count::Commit);
        }
    }

    /// Steps a statement on the own connection, to its end.
    pub(crate) fn step(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Result<Outcome, Error> {
        let counts = prepared.facts.changes_rows();
        let _calls = self.sqlite().hold();
        let changes_before = if counts { self.sqlite().changes() } else { 0 };
        let outside = self.sqlite().is_autocommit();
        if outside {
            self.session().frames.store(0, Ordering::Relaxed);
        }
        let heard = self.session().listen(prepared);
        self.tell_statement(prepared);
        let mut result = self.fetch(prepared, values);
        self.tell_idle();
        let is_interrupted = result.as_ref().is_err_and(|it| it.code == sqlite::Code::INTERRUPT);
        let committed = outside && self.session().frames.load(Ordering::Relaxed) != 0;
        if is_interrupted && committed && prepared.columns.is_empty() {
            // SQLite asks whether to go on also when it is done.
            result = Ok(Vec::new());
        }
        prepared.statement.reset();
        self.session().accept_plan(heard, prepared, || !self.would_begin_own_snapshot());
        if has_sequence(&prepared.written)
            && let Some(file) = &self.file
        {
            // They may begin anew.
            file.queue().forget_ids();
        }
        // One that could not even be compiled again, for a schema that has changed, counted nothing.
        let ran = match &result {
            Ok(_) => true,
            Err(error) => !error.code.is_plain() || self.sqlite().changes() != changes_before,
        };
        if counts && ran {
            self.session().counters.ran_here();
        }
        if !self.turns.is_empty() {
            self.turns.note_written(prepared.touches_now().writes);
        }
        match result {
            Ok(rows) => {
                let changes = if counts { self.sqlite().changes() } else { 0 };
                let tally = Tally::new(changes, self.sqlite().last_insert_rowid());
                Ok(Outcome { rows, tally })
            }
            Err(error) => {
                if error.code.is_failed_sync()
                    && let Some(file) = &self.file
                {
                    file.fail();
                }
                Err(self.describe(error))
            }
        }
    }
}

/// True for what SQLite refuses in a transaction, whatever others do: nobody waits for that.
pub(crate) fn fails_in_transaction(prepared: &Prepared) -> bool {
    prepared.facts.transaction == Some(TransactionStatement::Begin)
        || prepared.facts.copies
        || prepared.facts.silent && text::is_vacuum(&prepared.sql)
}
