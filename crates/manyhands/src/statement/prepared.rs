//! Compiling: what SQLite's authorizer says of a statement decides its route.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use manyhands_queue::planted;
use manyhands_sqlite::authorizer::{Action, ActionKind, Verdict};
use manyhands_sqlite::{self as sqlite, Statement, Step, Value};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::mutex::lock;
use crate::row::Row;
use crate::statement::fingerprint::Fingerprint;
use crate::statement::hooks::Hooks;
use crate::statement::infallible::Infallibility;
use crate::statement::routing::{self, Applied, Compiled, Facts, Route};
use crate::statement::rowid::{Again, Rewriting};
use crate::statement::tables::{Touches, VirtualTables};
use crate::statement::text::is_vacuum_into;

/// A compiled statement, with what is known of it.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) statement: Statement,
    pub(crate) facts: Facts,
    pub(crate) route: Route,
    pub(crate) compiled: Compiled,
    pub(crate) sql: Arc<str>,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) touches: Touches,
    pub(crate) uses: Uses,
    /// `None` when nobody has looked.
    pub(crate) infallibility: Option<Infallibility>,
    /// The names of the tables that it touches, for messages.
    pub(crate) tables: Arc<[String]>,
    /// Keys of the tables whose rows it writes, see `tables::table_key`.
    pub(crate) written: Box<[u64]>,
    /// How it takes new rowids from others than SQLite.
    pub(crate) rewriting: Rewriting,
    /// The columns' names, as of `recompilations`.
    pub(crate) columns: Arc<[String]>,
    recompilations: u32,
}

/// How often a compiled statement was taken to be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uses {
    None,
    Once,
    Again,
    /// The same, and `Prepared::touches` is exact, in the schema of this number.
    Known(Option<i64>),
}

impl Uses {
    /// The same, when what it touches is not known any more.
    pub(crate) fn forget_schema(self) -> Uses {
        if let Uses::Known(_) = self { Uses::Again } else { self }
    }
}

impl Prepared {
    /// Runs the statement to its end, and collects its rows.
    pub(crate) fn fetch_all(&mut self, values: &[Value]) -> Result<Vec<Row>, sqlite::Error> {
        fetch_all(&mut self.statement, &mut self.columns, values)
    }

    /// It is about to be executed.
    pub(crate) fn note_use(&mut self) {
        match self.uses {
            Uses::None => self.uses = Uses::Once,
            Uses::Once => self.uses = Uses::Again,
            Uses::Again | Uses::Known(_) => {}
        }
    }

    /// See [`columns_digest`].
    pub(crate) fn columns_digest(&self) -> u32 {
        columns_digest(&self.columns)
    }

    /// What it touches now.
    pub(crate) fn touches_now(&self) -> Touches {
        if self.is_stale() { Touches::ALL } else { self.touches }
    }

    /// True for a statement whose rows can be shown one by one, since it changes nothing.
    pub(crate) fn only_shows(&self) -> bool {
        self.route == Route::Own && self.facts.changes_nothing() && !self.compiled.explain
    }

    /// True when SQLite has compiled it again since: then it may touch other tables than is known.
    pub(crate) fn is_stale(&self) -> bool {
        self.statement.recompilations() != self.recompilations || self.rewriting.is_stale()
    }

    /// Forgets what follows from the facts in one schema only: it is looked at again.
    pub(crate) fn forget_schema(&mut self) {
        if let Uses::Known(_) = self.uses {
            (self.uses, self.touches) = (Uses::Again, Touches::at_first(&self.facts));
        }
        self.infallibility = None;
    }
}

/// True when SQLite has compiled a statement again once since `recompilations`, for the values that were bound, and has told the
/// same facts as when it was compiled first.
pub(crate) fn has_only_another_plan(
    statement: &Statement,
    recompilations: u32,
    facts: &Facts,
    heard: Facts,
) -> bool {
    statement.is_replanned()
        && statement.recompilations() == recompilations + 1
        && !facts.silent
        && Facts { reads_untold: facts.reads_untold, ..heard } == *facts
}

/// Runs a statement to its end, and collects its rows. `columns` are its columns' names, which change
/// if SQLite compiles it again.
pub(crate) fn fetch_all(
    statement: &mut Statement,
    columns: &mut Arc<[String]>,
    values: &[Value],
) -> Result<Vec<Row>, sqlite::Error> {
    let before = statement.recompilations();
    statement.bind_all(values.iter().map(Value::as_ref))?;
    let mut rows = Vec::new();
    loop {
        let step = statement.step()?;
        // Of an empty result too.
        if rows.is_empty() && statement.recompilations() != before {
            *columns = column_names(statement);
        }
        if step == Step::Done {
            return Ok(rows);
        }
        rows.push(Row::new(Arc::clone(columns), statement.row()));
    }
}

/// A number that differs when the columns of a statement differ; 0 for none. It travels with a request, so
/// that a leader that sees a newer schema does not answer with rows of other columns: it is the same in all processes,
/// whatever they were built with.
pub(crate) fn columns_digest(names: &[String]) -> u32 {
    let add = |digest, name: &String| xxh3_64_with_seed(name.as_bytes(), digest);
    if names.is_empty() { 0 } else { names.iter().fold(0, add) as u32 | 1 }
}

pub(crate) fn column_names(statement: &Statement) -> Arc<[String]> {
    (0..statement.column_count())
        .map(|column| statement.column_name(column).unwrap_or_default())
        .collect()
}

/// Which PRAGMAs compile to nothing. SQLite applies many of them as soon as it compiles them; each of
/// these stands for those before it, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Spared {
    #[default]
    None,
    /// Those that are refused.
    Refused,
    /// Settings that change results: in a speculative transaction they must wait for the turn.
    Settings,
    All,
}

/// What the authorizer has told of the statement that is being compiled.
#[derive(Debug, Default)]
struct Heard {
    facts: Facts,
    spared: Spared,
    anything: bool,
    pragmas: usize,
    /// Something else than a PRAGMA.
    others: bool,
}

impl Heard {
    fn note(&mut self, action: &Action<'_>) -> Verdict {
        self.anything = true;
        let is_pragma = action.kind == ActionKind::Pragma;
        self.pragmas += usize::from(is_pragma);
        self.others |= !is_pragma;
        self.facts.note(action);
        let spared = action.kind == ActionKind::Pragma
            && self.spared
                >= match routing::applied(&self.facts) {
                    Applied::Never => Spared::Refused,
                    Applied::NotSpeculative => Spared::Settings,
                    Applied::Anywhere => Spared::All,
                };
        if spared { Verdict::Ignore } else { Verdict::Allow }
    }

    /// True when not all of it is about the statement: a virtual table that SQLite connects to compiles statements of its
    /// own meanwhile, PRAGMAs and writes among them.
    fn is_of_others_too(&self, compiled: Compiled) -> bool {
        let several = self.pragmas > 1 || self.pragmas == 1 && self.others;
        several || compiled.read_only && !compiled.explain && !self.facts.writes.is_empty()
    }
}

/// What a connection's authorizer was told since somebody began to listen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listener(Arc<Mutex<Heard>>);

/// What was heard for an earlier listener, which continues to listen afterwards.
#[derive(Debug)]
pub(crate) struct Interrupted(Heard);

impl Listener {
    /// Listens to what SQLite asks about the statement that is executed next, until [`Listener::accept_plan`]. No other
    /// thread may use the connection meanwhile.
    pub(crate) fn begin(&self) -> Interrupted {
        self.begin_sparing(Spared::None)
    }

    fn begin_sparing(&self, spared: Spared) -> Interrupted {
        let anew = Heard { spared, ..Heard::default() };
        Interrupted(core::mem::replace(&mut *lock(&self.0), anew))
    }

    fn end(&self, before: Interrupted) -> Heard {
        core::mem::replace(&mut *lock(&self.0), before.0)
    }

    /// The statement was executed. If SQLite has compiled it again for another plan, and for nothing else, it is not stale. But the
    /// schema may be newer than the one from which something was derived: `is_known_in` says of its number whether it is
    /// still that one.
    pub(crate) fn accept_plan(
        &self,
        before: Interrupted,
        columns: &[String],
        prepared: &mut Prepared,
        is_known_in: impl Fn(i64) -> bool,
    ) {
        let heard = self.end(before).facts;
        let Prepared { statement, recompilations, facts, .. } = &*prepared;
        if !has_only_another_plan(statement, *recompilations, facts, heard)
            || column_names(statement)[..] != *columns
        {
            return;
        }
        let tables = if let Uses::Known(schema) = prepared.uses { schema } else { None };
        let infallibility = prepared.infallibility.as_ref().map(|it| it.schema);
        if tables.into_iter().chain(infallibility).all(is_known_in) {
            prepared.recompilations += 1;
        }
    }
}

/// Compiles a connection's statements.
#[derive(Debug)]
pub(crate) struct Compiler {
    pub(crate) listener: Listener,
    pub(crate) hooks: Arc<Hooks>,
    virtual_tables: Mutex<VirtualTables>,
    /// There is, or was, more than the schema `main`. SQLite names none where only rows are counted.
    pub(crate) several_schemas: Arc<AtomicBool>,
    /// The schemas of attached databases that are no files.
    pub(crate) no_files: Arc<Mutex<BTreeSet<String>>>,
}

impl Compiler {
    /// Listens to the authorizer of `connection` from now on.
    pub(crate) fn install(connection: &sqlite::Connection, hooks: Arc<Hooks>) -> Compiler {
        let listener = Listener::default();
        let listening = Arc::clone(&listener.0);
        let several_schemas = Arc::new(AtomicBool::new(false));
        let several = Arc::clone(&several_schemas);
        let no_files = Arc::<Mutex<BTreeSet<String>>>::default();
        let without_file = Arc::clone(&no_files);
        let asked = Arc::clone(&hooks);
        connection.set_authorizer(Some(move |action: &Action<'_>| {
            let mut heard = lock(&listening);
            if action.kind == ActionKind::Read && action.database.is_none() {
                heard.facts.reads_elsewhere |= several.load(Ordering::Relaxed);
            }
            if action.kind == ActionKind::Pragma {
                let is_no_file = |it: &str| it == "temp" || lock(&without_file).contains(it);
                heard.facts.pragma_of_no_file = action.database.is_some_and(is_no_file);
            }
            let ours = heard.note(action);
            drop(heard);
            if ours == Verdict::Ignore {
                // What we leave out leaves nothing to be asked about; all else the application decides.
                return ours;
            }
            let verdict = asked.verdict(action);
            lock(&listening).facts.left_out |= verdict == Verdict::Ignore;
            verdict
        }));
        Compiler { listener, hooks, virtual_tables: Mutex::default(), several_schemas, no_files }
    }

    /// Compiles a statement once more, and compares it with what is known of it.
    pub(crate) fn compile_again(
        &self,
        connection: &sqlite::Connection,
        sql: &str,
        (facts, columns): (&Facts, &[String]),
    ) -> Option<Again> {
        let now = self.compile(connection, sql, Spared::Refused).ok()?.0?;
        let is_newer = now.facts != *facts || *now.columns != *columns;
        Some(Again { is_newer, has_trigger: now.facts.has_trigger })
    }

    /// An extension may have brought a module, and with it a table.
    pub(crate) fn forget_virtual_tables(&self) {
        *lock(&self.virtual_tables) = VirtualTables::default();
    }

    /// Finds out which tables exactly a statement touches.
    pub(crate) fn know_tables(&self, connection: &sqlite::Connection, prepared: &mut Prepared) {
        let mut schema = None;
        if prepared.facts.touches_tables() {
            let _own = self.hooks.own();
            let mut virtual_tables = lock(&self.virtual_tables);
            prepared.touches = Touches::ALL;
            if let Ok((tables, number)) = virtual_tables.now(connection) {
                (prepared.touches, schema) = (Touches::of(&prepared.facts, tables), number);
            }
        }
        prepared.uses = Uses::Known(schema);
    }

    /// The number of the schema `main` of this moment; `None` when it cannot be read.
    pub(crate) fn schema_number(&self, connection: &sqlite::Connection) -> Option<i64> {
        let _own = self.hooks.own();
        lock(&self.virtual_tables).schema_number(connection).ok()?
    }

    /// Compiles the first statement of `sql`. Returns it, if there is one, and its length in bytes.
    pub(crate) fn compile(
        &self,
        connection: &sqlite::Connection,
        sql: &str,
        spared: Spared,
    ) -> Result<(Option<Box<Prepared>>, usize), sqlite::Error> {
        let listen = || {
            let _calls = connection.hold();
            let before = self.listener.begin_sparing(spared);
            let compiled = connection.prepare(sql);
            (compiled, self.listener.end(before))
        };
        let compiled_of = |statement: &Statement| Compiled {
            read_only: statement.is_read_only(),
            explain: statement.is_explain(),
        };
        let (mut compiled, mut heard) = listen();
        if let Ok((Some(statement), _)) = &compiled
            && heard.is_of_others_too(compiled_of(statement))
            && !planted("heard-once")
        {
            // Now the virtual table is connected.
            (compiled, heard) = listen();
        }
        let Heard { mut facts, anything, .. } = heard;
        let (statement, used) = compiled?;
        let Some(statement) = statement else { return Ok((None, used)) };
        let compiled = compiled_of(&statement);
        facts.copies = !compiled.read_only && is_vacuum_into(&sql[..used]);
        facts.silent = !anything && !compiled.explain && !facts.copies;
        facts.reads_untold = routing::may_read_untold(&sql[..used]);
        let names: BTreeSet<&String> = facts.tables_read.union(&facts.tables_written).collect();
        let prepared = Box::new(Prepared {
            route: routing::route(&facts, compiled),
            compiled,
            sql: sql[..used].into(),
            fingerprint: Fingerprint::of(&sql[..used]),
            touches: Touches::at_first(&facts),
            uses: Uses::None,
            infallibility: None,
            tables: names.into_iter().cloned().collect(),
            written: facts.keys_written(),
            rewriting: Rewriting::default(),
            columns: column_names(&statement),
            recompilations: statement.recompilations(),
            statement,
            facts,
        });
        Ok((Some(prepared), used))
    }
}

#[cfg(test)]
mod tests {
    use super::columns_digest;

    /// It was Rust's default hash, which may be another one in a program that was built with another version of Rust: each
    /// would have executed the other's statements with rows in their owners' turns.
    #[test]
    fn the_digest_of_columns_is_the_same_in_all_programs() {
        let digest = |names: &[&str]| {
            columns_digest(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(digest(&[]), 0);
        assert_eq!(digest(&["id", "body"]), 2_866_087_953);
        assert_ne!(digest(&["id", "body"]), digest(&["body", "id"]));
        assert_ne!(digest(&["id", "body"]), digest(&["idb", "ody"]));
    }
}
