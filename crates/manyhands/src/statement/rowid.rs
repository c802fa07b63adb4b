//! New rowids for speculative transactions: reserved among all processes, so that two transactions which
//! insert into one table and read their new ids do not collide.
//!
//! An INSERT that leaves the id to SQLite is rewritten (`rewrite.rs`) so that an SQL function gives
//! it. What the function answers depends on where the statement runs:
//!
//! | where                                       | the id                                                |
//! |---------------------------------------------|-------------------------------------------------------|
//! | in a speculative transaction                | reserved, above all that the table has; recorded      |
//! | outside, while ids of the table are reserved| the same, not recorded                                |
//! | when the log is executed again              | the recorded one; if another program has taken it,    |
//! |                                             | a new one                                             |
//!
//! Gaps stay where a transaction was rolled back, as with the sequences of other databases; the last
//! reservations are given back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use manyhands_queue::{Queue, planted};
use manyhands_sqlite::{self as sqlite, Statement, Value};

mod known;
mod table_ids;

use known::{Before, Highest};
pub(crate) use known::{GivenIds, NextId, Recorded};
use table_ids::TableIds;

use crate::mutex::lock;
use crate::statement::hooks::Hooks;
use crate::statement::prepared::column_names;
use crate::statement::rewrite;
use crate::statement::tables::SchemaNumber;

/// The function of a connection that gives ids.
#[derive(Debug, Default)]
pub(crate) struct IdFunction {
    giving: Arc<Mutex<Option<Giving>>>,
    /// How many snapshots the connection has left: another one may have other rows.
    snapshots: u64,
    /// How often the connection has changed a setting: SQLite then compiles all statements again.
    settings: u64,
    /// The open transaction has changed the schema. After a rollback the next schema gets the same number.
    changes_schema: bool,
}

/// What the function needs while a statement runs that calls it.
#[derive(Debug)]
struct Giving {
    queue: Arc<Queue>,
    table: Box<TableIds>,
    /// Recorded ids, to be given again.
    recorded: VecDeque<i64>,
    exclusive: bool,
    /// The highest id that the table has, if that is known.
    highest: Option<i64>,
    given: Vec<i64>,
}

/// An INSERT that takes its new ids from the function.
#[derive(Debug)]
pub(crate) struct InsertWithIds {
    statement: Statement,
    /// `None` while it is lent to the function.
    table: Option<Box<TableIds>>,
    key: u64,
    always_inserts: bool,
    /// Of several rows, one may have been given a higher id than the table had before the statement.
    one_row: bool,
    /// It has run without asking for an id, and no parameter was NULL: it asks only where one is.
    asks_for_null: bool,
    recompilations: u32,
    /// What is known of the statement as it was written is of an older schema.
    is_newer: bool,
    schema: SchemaNumber,
    /// The number of the schema that it was made for; `None` for one that was not committed.
    made_for: Option<i64>,
    /// The settings that it was made with.
    settings: u64,
    /// The snapshot in which it was last seen to fit the schema.
    fits_in: u64,
}

/// What a statement is when it is compiled once more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again {
    /// Other than what is known of it.
    pub(crate) is_newer: bool,
    pub(crate) has_trigger: bool,
}

impl IdFunction {
    /// Makes the function on `connection`.
    pub(crate) fn install(
        connection: &sqlite::Connection,
        hooks: Arc<Hooks>,
    ) -> Result<IdFunction, sqlite::Error> {
        let function = IdFunction::default();
        let giving = Arc::clone(&function.giving);
        connection.create_function("manyhands_new_rowid", Some(0), false, move |_| {
            let _own = hooks.own();
            let mut giving = lock(&giving);
            let giving = giving.as_mut().ok_or("manyhands_new_rowid() is Manyhands' own")?;
            // Without an id of ours SQLite chooses.
            Ok(giving.next()?.map_or(Value::Null, Value::Integer))
        })?;
        Ok(function)
    }

    /// The rewritten form of `sql`: looked for at the first call, and again when the schema has changed. `again` compiles
    /// the statement as it was written once more. If the application is `asked` what a statement may do, one that does
    /// something else since is not rewritten: then SQLite asks.
    pub(crate) fn rewritten<'a>(
        &self,
        rewriting: &'a mut Rewriting,
        connection: &sqlite::Connection,
        sql: &str,
        asked: bool,
        again: impl FnOnce() -> Option<Again>,
    ) -> Option<&'a mut InsertWithIds> {
        if let Rewriting::Some(insert) = rewriting
            && (insert.settings != self.settings || !insert.fits(self.snapshots))
        {
            *rewriting = Rewriting::Unknown;
        }
        if matches!(rewriting, Rewriting::Unknown) {
            let again = || again().filter(|it| !(asked && it.is_newer));
            *rewriting = InsertWithIds::of(connection, sql, self, again)
                .map_or(Rewriting::None, |insert| Rewriting::Some(Box::new(insert)));
        }
        rewriting.form()
    }

    /// Reserves the id that SQLite will choose for a row, if SQLite chose the one before it and nobody has reserved another since.
    /// Then the table need not be asked, nor the function give the id. [`IdFunction::see`] notes which id SQLite chose.
    ///
    /// Outside a transaction this holds only if nobody has committed since. Between this look and SQLite's lock another program can still
    /// commit. SQLite then chooses another id, and a transaction that has reserved and seen that id conflicts.
    pub(crate) fn reserve_next(
        &self,
        queue: &Queue,
        insert: &InsertWithIds,
        connection: &sqlite::Connection,
    ) -> Option<NextId> {
        let table = insert.table.as_ref()?;
        let (known, before) = (table.known?, Before::of(connection));
        let id = known.id.checked_add(1)?;
        let is_now = known.total_changes == before.total_changes
            && if connection.is_autocommit() {
                known.committed.is_some() && known.committed == connection.speculation_status().live
            } else {
                known.snapshot == self.snapshots
            };
        let reserved = is_now
            && before.last_insert_rowid != id
            && !insert.is_newer
            && !insert.asks_for_null
            && queue.reserve_this_id(table.key, id);
        reserved.then_some(NextId { id, before })
    }

    /// Reserves an id for the row of an INSERT that is executed later: above all ids that the table has, and above `added`, which it
    /// will have by then. `None` when the INSERT may add no row, or several.
    pub(crate) fn reserve(
        &self,
        queue: &Queue,
        insert: &mut InsertWithIds,
        added: Option<i64>,
        connection: &sqlite::Connection,
    ) -> Option<i64> {
        if insert.is_newer || insert.asks_for_null || !insert.always_inserts || !insert.one_row {
            return None;
        }
        let table = insert.table.as_mut()?;
        let (snapshot, total_changes) = (self.snapshots, connection.total_changes());
        let is_now = |it: &Highest| it.snapshot == snapshot && it.total_changes == total_changes;
        let known = match table.known.filter(is_now) {
            Some(known) => known,
            None => Highest { snapshot, committed: None, total_changes, id: table.highest()? },
        };
        if table.is_stale() {
            return None;
        }
        table.known = Some(known);
        queue.reserve_id(table.key, added.map_or(known.id, |added| known.id.max(added)))
    }

    /// The statement that the id was foreseen for has run, as it was written: which ids it was given.
    pub(crate) fn see(
        &self,
        queue: &Queue,
        insert: &mut InsertWithIds,
        NextId { id, before }: NextId,
        connection: &sqlite::Connection,
    ) -> Vec<i64> {
        let is_given = before.last_insert_rowid != id && connection.last_insert_rowid() == id;
        if !is_given {
            queue.give_back_id(insert.key, id);
        }
        if let Some(table) = &mut insert.table {
            table.known = self.highest_after(id, before, connection);
        }
        if is_given { vec![id] } else { Vec::new() }
    }

    /// Runs `insert` by `run`, and tells which ids it was given: the recorded ones first. `connection` is
    /// its own, and tells what it counts.
    pub(crate) fn run<T>(
        &self,
        queue: &Arc<Queue>,
        insert: &mut InsertWithIds,
        recorded: Recorded<'_>,
        connection: Option<&sqlite::Connection>,
        run: impl FnOnce(&mut Statement) -> T,
    ) -> (T, Vec<i64>) {
        let Some(mut table) = insert.table.take() else {
            return (run(&mut insert.statement), Vec::new());
        };
        let before = connection.map(Before::of);
        // Outside a transaction others may have inserted higher ids.
        let inside = connection.is_some_and(|it| !it.is_autocommit());
        let is_now = |known: &Highest| {
            inside
                && known.snapshot == self.snapshots
                && before.is_some_and(|it| it.total_changes == known.total_changes)
        };
        let giving = Giving {
            queue: Arc::clone(queue),
            highest: table.known.take().filter(is_now).map(|known| known.id),
            table,
            recorded: if planted("recorded-ids-forgotten") {
                VecDeque::new()
            } else {
                recorded.ids.iter().copied().collect()
            },
            exclusive: recorded.exclusive,
            given: Vec::new(),
        };
        *lock(&self.giving) = Some(giving);
        let result = run(&mut insert.statement);
        // Taken back also so that the function, which belongs to the connection, does not keep it open.
        let Some(Giving { mut table, given, .. }) = lock(&self.giving).take() else {
            return (result, Vec::new());
        };
        if let (Some(connection), Some(before), &[id], true) =
            (connection, before, &*given, insert.one_row)
        {
            table.known = self.highest_after(id, before, connection);
        }
        insert.table = Some(table);
        (result, given)
    }

    /// What is known of a table after a statement that has inserted this id, perhaps.
    fn highest_after(
        &self,
        id: i64,
        before: Before,
        connection: &sqlite::Connection,
    ) -> Option<Highest> {
        let committed = || {
            let status = connection.speculation_status();
            let (live, locked) = (status.live?, status.locked?);
            // The one commit since the lock was taken is its own.
            (live.change == locked.change.wrapping_add(1)).then_some(live)
        };
        before.has_inserted(id, connection).then(|| Highest {
            snapshot: self.snapshots,
            committed: connection.is_autocommit().then(committed).flatten(),
            total_changes: connection.total_changes(),
            id,
        })
    }

    /// The connection is about to read from another snapshot, or another table by a name. If it is `outside` a
    /// transaction, the last one is over, however it ended.
    pub(crate) fn leave_snapshot(&mut self, outside: bool) {
        self.snapshots += 1;
        self.changes_schema &= !outside;
    }

    /// A number for the snapshot that the connection reads from.
    pub(crate) fn snapshot(&self) -> u64 {
        self.snapshots
    }

    /// The connection has changed a setting.
    pub(crate) fn note_setting(&mut self) {
        self.settings += 1;
    }

    /// How often it has changed one.
    pub(crate) fn settings(&self) -> u64 {
        self.settings
    }

    /// The open transaction is about to change the schema.
    pub(crate) fn note_schema_change(&mut self) {
        self.changes_schema = true;
    }
}

impl Giving {
    /// The next id, if one can be given.
    ///
    /// # Errors
    /// The schema has changed: the INSERT was rewritten for another, and could do what it would not do as it was
    /// written. See [`InsertWithIds::was_recompiled`].
    fn next(&mut self) -> Result<Option<i64>, &'static str> {
        let (table, exclusive) = (&mut self.table, self.exclusive);
        let free = |id: &i64| !table.is_taken(*id) && (exclusive || !table.is_used_up(*id));
        let recorded = self.recorded.pop_front().filter(free);
        let id = recorded.or_else(|| {
            let highest = self.highest.take().or_else(|| self.table.highest())?;
            self.queue.reserve_id(self.table.key, highest)
        });
        if self.table.is_stale() {
            return Err("the schema has changed");
        }
        self.given.extend(id);
        Ok(id)
    }
}

impl InsertWithIds {
    /// The rewritten statement; `None` when `sql` is not an INSERT that leaves its id to SQLite.
    fn of(
        connection: &sqlite::Connection,
        sql: &str,
        ids: &IdFunction,
        again: impl FnOnce() -> Option<Again>,
    ) -> Option<InsertWithIds> {
        let mut made_for = None;
        let rewritten = rewrite::rewrite(sql, |schema, name| {
            // Before all else: what comes is of this schema, or of a newer one, which shows at the next look.
            let now = |mut schema: SchemaNumber| Some((schema.now().ok()??, schema));
            made_for = SchemaNumber::of(connection).ok().and_then(now);
            rewrite::table_of(connection, schema, name).ok().flatten()
        })?;
        let (made_for, schema) = made_for?;
        // To look at the table, SQLite has read the schema as it is now: what is known may be of an older one. Of a
        // statement that is not executed itself, SQLite does not tell.
        let Again { is_newer, has_trigger } = again()?;
        let statement = connection.prepare_one(&rewritten.sql).ok()?;
        if has_trigger && rewrite::runs_before_insert(connection, &rewritten.table) {
            return None;
        }
        let table = TableIds::of(connection, &rewritten)?;
        Some(InsertWithIds {
            recompilations: statement.recompilations(),
            is_newer: is_newer && !planted("older-facts"),
            schema,
            made_for: (!ids.changes_schema).then_some(made_for),
            settings: ids.settings,
            fits_in: ids.snapshots,
            statement,
            key: table.key,
            always_inserts: rewritten.always_inserts,
            one_row: rewritten.one_row,
            asks_for_null: false,
            table: Some(Box::new(table)),
        })
    }

    /// False when the statement as it was written does the same: its ids are given by the application.
    /// (Where an expression makes NULL of something else, SQLite then chooses, and may collide.)
    pub(crate) fn asks(&self, values: &[Value]) -> bool {
        !self.asks_for_null || values.contains(&Value::Null)
    }

    /// It has run with these values, and was given so many ids.
    pub(crate) fn note(&mut self, values: &[Value], given: usize) {
        self.asks_for_null = given == 0 && (self.asks_for_null || !values.contains(&Value::Null));
    }

    /// These ids, as those that it was given.
    pub(crate) fn given(&self, ids: Vec<i64>) -> GivenIds {
        GivenIds { table: self.key, ids }
    }

    /// True for one that was rewritten for the schema with this number.
    pub(crate) fn is_of_schema(&self, number: i64) -> bool {
        self.made_for == Some(number)
    }

    /// The key of the table that it inserts into.
    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    /// True when SQLite has compiled it again since, for a schema that it was not rewritten for. If it failed
    /// then, it has done nothing, and is to be executed as it was written.
    pub(crate) fn was_recompiled(&self) -> bool {
        self.statement.recompilations() != self.recompilations
            || self.table.as_ref().is_some_and(|table| table.is_stale())
    }

    /// The columns' names, if they may be others than those that are known.
    pub(crate) fn newer_columns(&self) -> Option<Arc<[String]>> {
        self.is_newer.then(|| column_names(&self.statement))
    }

    /// False when the schema has changed since it was made.
    fn fits(&mut self, snapshot: u64) -> bool {
        if self.fits_in != snapshot && !planted("older-form") {
            // What could not be looked at is looked at again.
            let Ok(Some(now)) = self.schema.now() else { return true };
            if Some(now) != self.made_for {
                return false;
            }
            self.fits_in = snapshot;
        }
        true
    }
}

/// An INSERT's rewritten form: not looked for yet, none, or there.
#[derive(Debug, Default)]
pub(crate) enum Rewriting {
    #[default]
    Unknown,
    None,
    Some(Box<InsertWithIds>),
}

impl Rewriting {
    /// The rewritten form, if there is one.
    pub(crate) fn form(&mut self) -> Option<&mut InsertWithIds> {
        match self {
            Rewriting::Some(insert) => Some(insert),
            _ => None,
        }
    }

    /// True when what is known of the statement may be of an older schema than this form, or the last run of it.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self, Rewriting::Some(insert) if insert.is_newer || insert.was_recompiled())
    }
}
