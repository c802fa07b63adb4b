//! Deferred writes of a speculative transaction: infallible writes of one row, which need not be executed before the commit.
//!
//! What a transaction writes speculatively is executed once more where it takes effect, if others have committed
//! meanwhile. Three kinds of statement can avoid that: an INSERT with an id that the snapshot has no row for, an INSERT that leaves
//! the id to SQLite, for which an id can be reserved, and an UPDATE of the row that has an id. Their caller learns that one row was
//! changed, and its id. If the statement's bytecode can fail with nothing else, and shows nothing else ([`crate::statement::bytecode`]),
//! the statement goes into the log with what its caller has seen, and is executed
//!
//! | when                                                       | where                                      |
//! |------------------------------------------------------------|--------------------------------------------|
//! | the transaction executes another statement, or reads       | speculatively, before that                 |
//! | it moves to its turn                                       | there                                      |
//! | it commits, and nobody else has committed meanwhile        | in the turn that it takes for that         |
//! | it commits, and others have                                | by the leader, with the rest of the log    |
//!
//! What must hold: no statement is executed speculatively before the deferred ones. So everything that a speculative transaction
//! does calls [`Connection::execute_deferred`] first, or moves the transaction to its turn.

use std::sync::Arc;

use manyhands_queue::planted;
use manyhands_sqlite::{Value, WalIndexHeader};

use crate::Error;
use crate::commit::request::Counts;
use crate::connection::Connection;
use crate::connection::speculative::Optimistic;
use crate::limits;
use crate::row::{Outcome, Row, Tally, bytes_of};
use crate::statement::bytecode::NamedRow;
use crate::statement::infallible::{Infallibility, Moment, RowLookup};
use crate::statement::observe::Observer;
use crate::statement::prepared::{Prepared, Uses};
use crate::statement::routing::Route;
use crate::statement::rowid::GivenIds;

/// What the open transaction has logged and not executed.
#[derive(Debug)]
pub(crate) struct DeferredWrites {
    /// The places in the log.
    entries: Vec<usize>,
    added: Added,
    /// The transaction's snapshot, in which they are infallible.
    pub(crate) snapshot: WalIndexHeader,
    /// What the session has counted with them.
    pub(crate) now: Counts,
}

impl DeferredWrites {
    fn of(snapshot: WalIndexHeader, now: Counts) -> DeferredWrites {
        DeferredWrites { entries: Vec::new(), added: Added::default(), snapshot, now }
    }

    /// How many statements it has.
    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }
}

/// The ids of rows that are added, in their order, each with the key of its table.
#[derive(Debug, Default)]
struct Added(Vec<(u64, Vec<i64>)>);

/// The row that a statement adds or changes.
struct OneRow {
    /// The key of its table.
    table: u64,
    id: i64,
    is_added: bool,
    /// Its id, if that was reserved for it.
    given: GivenIds,
}

impl Connection {
    /// Logs a write of the open speculative transaction without executing it, if it is infallible and changes one row, and nothing
    /// else.
    pub(crate) fn defer_row(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Option<Outcome> {
        if !self.may_defer_row(prepared, values) {
            return None;
        }
        self.look_up_row(prepared);
        let row = self.row_of(prepared, values)?;
        let kept = self.optimistic.as_ref()?.deferred_writes.as_ref().map(|kept| kept.snapshot);
        // Without a snapshot (the view of the wal-index could not be made) the transaction does not write speculatively either.
        let snapshot = kept.or_else(|| self.sqlite().speculation_status().snapshot)?;
        let mut now = self.counts();
        (now.changes, now.total_changes) = (1, now.total_changes + 1);
        if row.is_added {
            now.last_insert_rowid = row.id;
        }
        self.given_ids = row.given;
        let tally = Tally::new(1, now.last_insert_rowid);
        let mut rows = Vec::new();
        let mut observer = Observer::default();
        if !prepared.columns.is_empty() {
            rows.push(Row::new(Arc::clone(&prepared.columns), vec![Value::Integer(row.id)]));
            observer.row(rows[0].values());
        }
        self.log(prepared, values, observer.so_far(true), Some(&tally));
        let Optimistic { log, deferred_writes, .. } = &mut **self.optimistic.as_mut()?;
        let kept = deferred_writes.get_or_insert_with(|| DeferredWrites::of(snapshot, now));
        kept.now = now;
        kept.entries.push(log.entries().len() - 1);
        if row.is_added {
            kept.added.insert(row.table, row.id);
        }
        Some(Outcome { rows, tally })
    }

    fn may_defer_row(&self, prepared: &Prepared, values: &[Value]) -> bool {
        let Some(optimistic) = self.optimistic.as_ref().filter(|it| !it.auto && !it.detached)
        else {
            return false;
        };
        matches!(prepared.uses, Uses::Again | Uses::Known(_))
            && !prepared.is_stale()
            && self.has_room_to_defer(optimistic, prepared, values)
    }

    /// True for a statement that any connection can execute, later, and that is not too much to keep until then.
    pub(crate) fn has_room_to_defer(
        &self,
        optimistic: &Optimistic,
        prepared: &Prepared,
        values: &[Value],
    ) -> bool {
        let log = &optimistic.log;
        let bytes = bytes_of(values);
        let kept = optimistic.deferred_writes.as_ref().map_or(0, DeferredWrites::count);
        prepared.route == Route::Request
            // It calls no function, and no setting of this connection alone makes it fail.
            && self.may_travel()
            && !optimistic.replays_locally
            && kept < limits::DEFERRED_WRITES_MAX
            && bytes <= limits::INFALLIBLE_BYTES_MAX
            && log.bytes() + bytes <= self.settings.speculation_bytes_max / 4
            && !self.writes_with_blob()
    }

    /// Finds out whether a statement is infallible, and prepares to look up rows if it writes one.
    fn look_up_row(&mut self, prepared: &mut Prepared) {
        self.forget_infallibility_of_other_settings(prepared);
        if prepared.infallibility.is_none() {
            self.look_at_anew(prepared);
        }
        let Some(infallibility) = &mut prepared.infallibility else { return };
        let Some(infallible) = &mut infallibility.infallible else { return };
        if let (Some(row), None) = (&infallible.row, &infallibility.lookup) {
            let _own = self.own_statements();
            let lookup = RowLookup::of(self.sqlite(), row, infallibility.schema);
            infallibility.lookup = lookup.ok().flatten().map(Box::new);
            if infallibility.lookup.is_none() {
                infallible.row = None;
            }
        }
    }

    /// The row that a statement adds or changes with these values, and no other.
    fn row_of(&mut self, prepared: &mut Prepared, values: &[Value]) -> Option<OneRow> {
        let given_all = values.len() == prepared.statement.parameter_count();
        let Infallibility { schema, infallible, lookup, .. } = prepared.infallibility.as_mut()?;
        let infallible = infallible.as_mut().filter(|it| given_all && it.with(values))?;
        let Some(named) = &infallible.row else {
            let schema = *schema;
            return if infallible.adds_one_row { self.new_row(prepared, schema) } else { None };
        };
        let NamedRow { parameter, is_added, .. } = *named;
        let lookup = lookup.as_mut()?;
        let &Value::Integer(id) = values.get(parameter)? else { return None };
        let optimistic = self.optimistic.as_ref()?;
        let kept = optimistic.deferred_writes.as_ref();
        let executed = optimistic.log.entries().len() - kept.map_or(0, |kept| kept.entries.len());
        let at = Moment { snapshot: self.session().ids.snapshot(), executed };
        let table = lookup.table;
        let is_there = kept.is_some_and(|kept| kept.added.contains(table, id)) || {
            let _own = self.own_statements();
            let found = lookup.finds(id, at);
            if found.is_none() {
                // It is executed instead, and SQLite compiles it again if the schema is the reason.
                infallible.row = None;
            }
            found?
        };
        let is_one = is_there != is_added || planted("deferred-unseen");
        is_one.then(|| OneRow { table, id, is_added, given: GivenIds::default() })
    }

    /// The row of an INSERT that leaves its id to SQLite.
    fn new_row(&mut self, prepared: &mut Prepared, schema: i64) -> Option<OneRow> {
        let Optimistic { queue, deferred_writes, .. } = &**self.optimistic.as_ref()?;
        let session = self.session();
        let _own = session.compiler.hooks.own();
        let known = (&prepared.facts, &*prepared.columns);
        let insert = session.insert_with_ids(&mut prepared.rewriting, &prepared.sql, known)?;
        if !insert.is_of_schema(schema) {
            return None;
        }
        let table = insert.key();
        let added = deferred_writes.as_ref().and_then(|it| it.added.highest(table));
        let id = session.ids.reserve(queue, insert, added, &session.sqlite)?;
        let given = insert.given(vec![id]);
        Some(OneRow { table, id, is_added: true, given })
    }

    /// Executes speculatively what was deferred, before something else is executed there.
    ///
    /// # Errors
    /// As SQLite fails. The transaction is rolled back then: its caller was told that all this was executed.
    pub(crate) fn execute_deferred(&mut self) -> Result<(), Error> {
        // In mode Auto they are executed in the turn only.
        if self.optimistic.as_ref().is_none_or(|it| it.auto || it.deferred_writes.is_none()) {
            return Ok(());
        }
        self.drain_cursors()?;
        match self.step_deferred() {
            Ok(()) => self.keep_within_limits(true),
            // All of the log is executed there.
            Err(_) if self.speculation_has_overflowed() => self.escalate(false),
            Err(error) => {
                self.roll_back_quietly();
                Err(error)
            }
        }
    }

    /// The same, without a check of the limits; also in a transaction that has become SQLite's own.
    pub(crate) fn step_deferred(&mut self) -> Result<(), Error> {
        let Some(kept) = self.optimistic.as_mut().and_then(|it| it.deferred_writes.take()) else {
            return Ok(());
        };
        if planted("deferred-forgotten") {
            return Ok(());
        }
        for place in kept.entries {
            let Some(log) = self.optimistic.as_ref().map(|it| &it.log) else { return Ok(()) };
            let Some(entry) = log.entries().get(place) else { return Ok(()) };
            let tally = entry.tally.clone();
            let sql = Arc::clone(&entry.sql);
            let values: Vec<Value> = log.values(entry).map(Value::from).collect();
            let (then, ids) = (entry.counted(), entry.given.ids.clone());
            let mut prepared = self.take_as_compiled(&sql)?;
            self.ids_to_give = ids;
            let executed = self.step(&mut prepared, &values);
            self.put_back(prepared);
            self.given_ids = GivenIds::default();
            let now = executed?.tally.counted();
            if self.is_in_auto_mode() {
                // Nobody was told.
                tally.into_iter().for_each(|it| it.set(now.changes, now.last_insert_rowid));
            } else if !now.equals(&then) {
                return Err(Error::refused(format!("{sql} was not what it was foreseen to be")));
            }
        }
        Ok(())
    }
}

impl Optimistic {
    /// The statement that was logged last was not executed. `now` is what the session has counted, and `live` the newest
    /// snapshot.
    pub(crate) fn defer_last(&mut self, now: Counts, live: WalIndexHeader, adds_one_row: bool) {
        let place = self.log.entries().len() - 1;
        if let Some(entry) = self.log.last_mut() {
            entry.adds_one_row = adds_one_row;
        }
        self.deferred_writes
            .get_or_insert_with(|| DeferredWrites::of(live, now))
            .entries
            .push(place);
    }
}

impl Added {
    fn insert(&mut self, table: u64, id: i64) {
        let place = self.0.iter().position(|(key, _)| *key == table);
        let place = place.unwrap_or_else(|| {
            self.0.push((table, Vec::new()));
            self.0.len() - 1
        });
        let ids = &mut self.0[place].1;
        ids.insert(ids.partition_point(|&other| other < id), id);
    }

    fn of(&self, table: u64) -> &[i64] {
        self.0.iter().find(|(key, _)| *key == table).map_or(&[], |(_, ids)| ids)
    }

    fn contains(&self, table: u64, id: i64) -> bool {
        self.of(table).binary_search(&id).is_ok()
    }

    fn highest(&self, table: u64) -> Option<i64> {
        self.of(table).last().copied()
    }
}

#[cfg(test)]
mod tests;
