//! Local replay: a transaction's own connection executes the log again, in its own turn. It does so at the commit, where a leader cannot
//! replay the log, and when the transaction moves to its turn. What shows now must be what the caller has seen: otherwise that is a
//! conflict, as in `commit/replay.rs`.

use std::sync::Arc;

use manyhands_queue::planted;
use manyhands_sqlite::{self as sqlite, Statement, Value, WalIndexHeader, pin};

use crate::Error;
use crate::commit::recent;
use crate::commit::replay::Taint;
use crate::connection::Connection;
use crate::connection::speculative::Optimistic;
use crate::error::ErrorKind;
use crate::row::{Counted, Outcome};
use crate::statement::observe::{self, Observed, Seen, Shown};
use crate::statement::prepared::Prepared;
use crate::statement::rowid::Recorded;
use crate::statement::tables::TableSet;
use crate::transaction::log::{Entry, Log};

impl Connection {
    /// Executes the log in the own turn, on the own connection, and leaves the transaction open there.
    pub(crate) fn begin_and_replay(
        &mut self,
        optimistic: &Optimistic,
        snapshot: Option<&WalIndexHeader>,
    ) -> Result<(), Error> {
        let _own = self.own_statements();
        self.begin_with_lock(Connection::step)?;
        if optimistic.defers_foreign_keys {
            self.sqlite().execute("PRAGMA defer_foreign_keys = ON")?;
        }
        if optimistic.schema.is_some() && optimistic.schema != self.schema_number() {
            return Err(Error::new(ErrorKind::StaleSnapshot(Arc::default())));
        }
        let now = self.sqlite().wal_index();
        let by_others = self.written_since(snapshot, now.as_ref());
        // Until a statement is executed again whose result may differ, above all one that calls a function of the application.
        let mut is_newest =
            snapshot.is_some() && snapshot == now.as_ref() && !optimistic.reads_elsewhere;
        let mut taint = Taint::new(by_others);
        self.continue_session(optimistic.before);
        for (index, entry) in optimistic.log.entries().iter().enumerate() {
            if is_newest && entry.changes_nothing && entry.counted().asked == 0 {
                continue;
            }
            is_newest &= entry.is_savepoint;
            let pinned = entry.pinned.unwrap_or(optimistic.pinned).for_statement(index as u64);
            let now = {
                let _pin = pin(pinned);
                self.execute_again(optimistic, entry, &mut taint)?
            };
            if let Some(now) = now {
                return Err(self.conflict(optimistic, index, &now));
            }
        }
        Ok(())
    }

    /// Begins with SQLite's write lock a transaction that would begin without it in plain SQLite, which refuses
    /// the lock after `PRAGMA query_only = ON`.
    pub(crate) fn begin_with_lock(
        &mut self,
        step: fn(&mut Connection, &mut Prepared, &[Value]) -> Result<Outcome, Error>,
    ) -> Result<Outcome, Error> {
        let only_reads = self.connection_local && self.is_query_only()?;
        if only_reads {
            self.sqlite().execute("PRAGMA query_only = OFF")?;
        }
        // A database that is attached to itself cannot be locked twice: SQLite takes the lock of the one that is written.
        let begin = if self.is_attached_twice() { "BEGIN" } else { "BEGIN IMMEDIATE" };
        let mut begin = self.take_prepared(begin)?;
        let begun = step(self, &mut begin, &[]);
        self.put_back(begin);
        if only_reads {
            self.sqlite().execute("PRAGMA query_only = ON")?;
        }
        begun
    }

    /// True when two schemas are one file.
    fn is_attached_twice(&self) -> bool {
        let mut ids: Vec<_> =
            self.attached.values().chain(&self.file).map(|file| file.id()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        ids.len() != count
    }

    /// Executes one statement of the log again. Gives what shows now, if it is something else.
    /// A new error of a deferred write is its caller's to see.
    fn execute_again(
        &mut self,
        optimistic: &Optimistic,
        entry: &Entry,
        taint: &mut Taint,
    ) -> Result<Option<Shown>, Error> {
        let counted_then = entry.counted();
        let spared = entry.spared_if_unchanged().is_some_and(|reads| taint.spares(reads));
        if spared && counted_then.asked == 0 {
            return Ok(None);
        }
        if entry.calls_application && entry.changes_nothing {
            // The application would notice that its functions are called once more.
            return Ok(Some(Shown::default()));
        }
        let auto = optimistic.auto;
        // Nobody was told what comes of it: its error is news.
        let is_news = auto && optimistic.deferred() > 0;
        // The application allowed what it wrote, and nothing else.
        let hooks = Arc::clone(&self.session().compiler.hooks);
        let mut prepared = match hooks.ask(|| self.take_prepared(&entry.sql)) {
            // Without a code: the text did not compile then, and is now the beginning of a script that does.
            Err(error)
                if (!is_news || entry.seen().error.is_some())
                    && error.code().is_none_or(sqlite::Code::is_result) =>
            {
                let seen = Seen { error: error.code().map(|code| code.0), ..Seen::default() };
                let same = seen.error == entry.seen().error;
                return Ok((!same).then(|| Shown { seen, ..Shown::default() }));
            }
            prepared => prepared?,
        };
        if entry.values.len() != prepared.statement.parameter_count() {
            // It did not compile when its parameters were asked for, and does now.
            self.put_back(prepared);
            return Ok(Some(Shown::default()));
        }
        if entry.is_failed_commit() && prepared.facts.transaction.is_some() {
            self.put_back(prepared);
            return Ok(self.commit_again());
        }
        let watched = self.observe_again(&mut prepared, &optimistic.log, entry, *taint)?;
        let counts = prepared.facts.changes_rows();
        if counts {
            self.session().counters.ran_here();
        }
        let touches = prepared.touches_now();
        taint.spread(touches, prepared.facts.session_function);
        if prepared.facts.local_function {
            // A function of the application may return something else each time.
            taint.add(touches.writes);
        }
        self.turns.note_written(touches.writes);
        let noticed = self.notice(&prepared.facts);
        self.put_back(prepared);
        noticed?;
        if self.sqlite().is_autocommit() && !auto {
            // Perhaps it is the same error, but the transaction survived it then.
            let error = Some(sqlite::Code::ABORT_ROLLBACK.0);
            return Ok(Some(Shown { seen: Seen { error, ..Seen::default() }, ..Shown::default() }));
        }
        let shows_the_same = watched.seen == *entry.seen() && !self.sqlite().is_autocommit();
        let is_unseen =
            |error: &sqlite::Error| !error.code.is_result() || is_news && !shows_the_same;
        if let Some(error) = watched.error.filter(is_unseen) {
            return Err(self.describe(error));
        }
        let now = Counted {
            changes: if counts { self.sqlite().changes() } else { 0 },
            last_insert_rowid: self.sqlite().last_insert_rowid(),
            asked: counted_then.asked,
        };
        let same = shows_the_same && counted_then.looks_like(&now)
            || auto && planted("first-write-does-not-compare");
        if !same && !planted("forget-observation-at-home") {
            return Ok(Some(Shown { seen: watched.seen, counted: now, sample: watched.sample }));
        }
        if let Some(tally) = &entry.tally {
            tally.set(now.changes, now.last_insert_rowid);
        }
        Ok(None)
    }

    /// A COMMIT that failed for a deferred foreign key: would it fail again? Gives what shows now, if not.
    fn commit_again(&self) -> Option<Shown> {
        let fails = self.sqlite().violates_deferred_foreign_keys();
        (!fails)
            .then(|| Shown { seen: Seen { to_end: true, ..Seen::default() }, ..Shown::default() })
    }

    /// Steps one statement of the log again, with the ids that it was given.
    fn observe_again(
        &mut self,
        prepared: &mut Prepared,
        log: &Log,
        entry: &Entry,
        taint: Taint,
    ) -> Result<Observed, Error> {
        let watch = |statement: &mut Statement| {
            statement.bind_all(log.values(entry))?;
            Ok(observe::observe_again(statement, &entry.seen()))
        };
        let recorded = Recorded { ids: &entry.given.ids, exclusive: taint.is_known() };
        let queue =
            self.file.as_ref().filter(|_| !entry.given.ids.is_empty()).map(|file| file.queue());
        let session = self.session_mut();
        if let Some(queue) = queue
            && !prepared.facts.left_out
            && let Some(insert) = session.ids.rewritten(
                &mut prepared.rewriting,
                &session.sqlite,
                &entry.sql,
                false,
                || {
                    let known = (&prepared.facts, &*prepared.columns);
                    session.compiler.compile_again(&session.sqlite, &entry.sql, known)
                },
            )
        {
            let (watched, _) = session.ids.run(&queue, insert, recorded, None, watch);
            let is_plain = |error: &sqlite::Error| error.code.is_plain();
            let failed = watched.as_ref().is_ok_and(|it| it.error.as_ref().is_some_and(is_plain));
            if !(failed && insert.was_recompiled()) {
                return watched;
            }
        }
        watch(&mut prepared.statement)
    }

    /// The tables that others have written since a snapshot, as far as is known. Without the turn, others may go on writing.
    pub(crate) fn written_since(
        &self,
        then: Option<&WalIndexHeader>,
        now: Option<&WalIndexHeader>,
    ) -> TableSet {
        let (Some(file), Some(then)) = (&self.file, then) else { return TableSet::ALL };
        recent::written_since(&file.queue(), (then.change, then.checksum), now)
    }
}
