//! Where a statement is executed. Decided from what SQLite's authorizer said while it compiled the
//! statement, never from the SQL text.
//!
//! | statement                                             | outside a transaction | inside a speculative transaction                |
//! |-------------------------------------------------------|-----------------------|------------------------------|
//! | SELECT                                                | own connection        | logged                       |
//! | EXPLAIN, ATTACH, a setting that is read               | own connection        | own connection               |
//! | temp schema, temp tables, another PRAGMA that reads   | own connection        | logged, for local replay     |
//! | INSERT, UPDATE, DELETE that any connection can run    | request               | logged                       |
//! | the same with what only this connection has           | own connection, turn  | logged, for local replay     |
//! | DDL, VACUUM, PRAGMA that writes, attached tables      | own connection, turn  | the transaction takes a turn |
//! | BEGIN IMMEDIATE, BEGIN EXCLUSIVE                      | own connection, turn  | as SQLite                    |
//! | a PRAGMA that would break the queue                   | refused               | refused                      |
//!
//! A speculative transaction is a transaction that writes on its own snapshot (`connection/speculative.rs`). In a transaction that holds
//! the turn, everything runs on the own connection.
//!
//! What the authorizer cannot tell (a collation or a module of the application, a function inside an
//! index or a trigger) shows as an error of the leader, which then demands that the owner executes
//! the request in its own turn.

use std::collections::BTreeSet;

use manyhands_queue::planted;
use manyhands_sqlite::authorizer::{Action, ActionKind};

use crate::statement::built_in::{self, BuiltIn};
use crate::statement::tables::table_key;

/// A statement about transactions; savepoints with their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TransactionStatement {
    Begin,
    Commit,
    Rollback,
    Savepoint(String),
    Release(String),
    RollbackTo(String),
}

impl TransactionStatement {
    fn of(action: &Action<'_>) -> TransactionStatement {
        let name = action.second.unwrap_or_default().to_string();
        match (action.kind, action.first) {
            (ActionKind::Savepoint, Some("RELEASE")) => TransactionStatement::Release(name),
            (ActionKind::Savepoint, Some("ROLLBACK")) => TransactionStatement::RollbackTo(name),
            (ActionKind::Savepoint, _) => TransactionStatement::Savepoint(name),
            (_, Some("COMMIT")) => TransactionStatement::Commit,
            (_, Some("ROLLBACK")) => TransactionStatement::Rollback,
            _ => TransactionStatement::Begin,
        }
    }
}

/// What a statement touches, as the authorizer told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Schemas whose tables are written: `main`, `temp`, names of attached databases.
    pub(crate) writes: BTreeSet<String>,
    /// Tables, indexes, triggers or views are made or changed, outside the temp schema.
    pub(crate) schema: bool,
    /// The same, in the temp schema.
    pub(crate) temp_schema: bool,
    /// A function is called that other connections may not have, or that answers about this session.
    pub(crate) local_function: bool,
    /// It may look at the clock, or draw a random number.
    pub(crate) varies: bool,
    /// Something of the temp schema or of an attached database is read.
    pub(crate) reads_elsewhere: bool,
    /// ATTACH or DETACH.
    pub(crate) attaches: bool,
    /// DETACH.
    pub(crate) detaches: bool,
    /// BEGIN, COMMIT, ROLLBACK, or a savepoint statement.
    pub(crate) transaction: Option<TransactionStatement>,
    /// Tables that are read or written, by triggers and foreign key actions too.
    pub(crate) tables_read: BTreeSet<String>,
    /// See `tables_read`.
    pub(crate) tables_written: BTreeSet<String>,
    /// A trigger or a view does something of it.
    pub(crate) has_trigger: bool,
    /// `changes()`, `total_changes()` or `last_insert_rowid()` is called.
    pub(crate) session_function: bool,
    /// Name and argument of a PRAGMA, the name in lower case.
    pub(crate) pragma: Option<(String, Option<String>)>,
    /// The schema that the PRAGMA names.
    pub(crate) pragma_schema: Option<String>,
    /// The PRAGMA names the temp schema, or an attached database that is no file.
    pub(crate) pragma_of_no_file: bool,
    /// The authorizer was told nothing. That is so for VACUUM, and for CREATE … IF NOT EXISTS and DROP … IF EXISTS where there is
    /// nothing to do: in another schema there may be something.
    pub(crate) silent: bool,
    /// VACUUM INTO: it reads the database, and writes another file.
    pub(crate) copies: bool,
    /// The application's authorizer has left something out.
    pub(crate) left_out: bool,
    /// It may read more than the authorizer was told: SQLite does not tell it of a column that USING or NATURAL compares.
    pub(crate) reads_untold: bool,
}

impl Facts {
    /// Takes note of one action.
    pub(crate) fn note(&mut self, action: &Action<'_>) {
        let elsewhere = action.database.is_some_and(|database| database != "main");
        self.has_trigger |= action.trigger.is_some();
        match action.kind {
            ActionKind::Write => {
                self.writes.insert(action.database.unwrap_or("main").to_string());
                self.tables_written.insert(action.first.unwrap_or_default().to_ascii_lowercase());
            }
            ActionKind::Read => {
                self.reads_elsewhere |= elsewhere;
                self.tables_read.insert(action.first.unwrap_or_default().to_ascii_lowercase());
            }
            ActionKind::Select => {}
            ActionKind::Function => {
                let name = action.second.unwrap_or_default().to_ascii_lowercase();
                match built_in::of(&name) {
                    Some(BuiltIn::Shared) => self.varies |= built_in::varies(&name),
                    Some(BuiltIn::OfSession) => self.session_function = true,
                    // What it executes, on whatever connection, may vary.
                    Some(BuiltIn::Extensions) | None => {
                        (self.local_function, self.varies) = (true, true);
                    }
                }
            }
            ActionKind::Transaction | ActionKind::Savepoint => {
                self.transaction = Some(TransactionStatement::of(action));
            }
            ActionKind::Pragma => {
                self.reads_elsewhere |= elsewhere;
                let name = action.first.unwrap_or_default().to_ascii_lowercase();
                self.pragma = Some((name, action.second.map(str::to_string)));
                self.pragma_schema = action.database.map(str::to_string);
            }
            ActionKind::Attach => self.attaches = true,
            ActionKind::Detach => (self.attaches, self.detaches) = (true, true),
            ActionKind::TempSchema => self.temp_schema = true,
            ActionKind::Schema => self.schema = true,
        }
    }
}

/// True for a text that may join tables by USING or NATURAL.
pub(crate) fn may_read_untold(sql: &str) -> bool {
    let bytes = sql.as_bytes();
    let has = |word: &[u8]| bytes.windows(word.len()).any(|it| it.eq_ignore_ascii_case(word));
    (has(b"using") || has(b"natural")) && !planted("told-of-joins")
}

impl Facts {
    /// True for INSERT, UPDATE and DELETE, which count the rows that they change.
    pub(crate) fn changes_rows(&self) -> bool {
        !self.schema && !self.temp_schema && !self.writes.is_empty()
    }

    /// True for a statement that reads or writes any table.
    pub(crate) fn touches_tables(&self) -> bool {
        !self.tables_read.is_empty() || !self.tables_written.is_empty() || self.reads_untold
    }

    /// Keys of the tables whose rows it writes.
    pub(crate) fn keys_written(&self) -> Box<[u64]> {
        let names = self.tables_written.iter().filter(|_| self.changes_rows());
        names.map(|name| table_key(name)).collect()
    }

    /// True for a statement that only reads what every connection can read.
    pub(crate) fn only_reads(&self) -> bool {
        let elsewhere = self.local_function || self.reads_elsewhere;
        self.changes_nothing() && !elsewhere && self.pragma.is_none()
    }

    /// True for a statement that changes no data, no schema and no transaction.
    pub(crate) fn changes_nothing(&self) -> bool {
        let changes = self.schema || self.temp_schema || self.attaches || !self.writes.is_empty();
        !changes && self.transaction.is_none() && !self.silent
    }

    /// True when a connection is as it was before, after the statement has run on it.
    pub(crate) fn leaves_no_trace(&self) -> bool {
        let sets = match &self.pragma {
            // It is in that mode.
            Some((name, Some(argument))) if name == "journal_mode" => {
                !argument.eq_ignore_ascii_case("wal")
            }
            Some((_, argument)) => argument.is_some(),
            None => false,
        };
        !self.attaches && !self.temp_schema && !sets
    }
}

/// What SQLite says of the compiled statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compiled {
    pub(crate) read_only: bool,
    pub(crate) explain: bool,
}

/// Where a statement is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// On the own connection, without a turn.
    Own,
    /// By the leader; in a transaction on the own connection, holding the turn.
    Request,
    /// On the own connection, holding the turn.
    Turn,
    /// On the own connection, then the session's settings are looked at again.
    Setting,
    /// Not at all; the text says why.
    Refuse(String),
}

/// The route of a statement.
pub(crate) fn route(facts: &Facts, compiled: Compiled) -> Route {
    if compiled.explain || facts.attaches || facts.copies {
        return Route::Own;
    }
    if let Some((name, argument)) = &facts.pragma {
        return route_pragma(facts, name, argument.as_deref(), compiled);
    }
    if facts.transaction.is_some() {
        // BEGIN IMMEDIATE and EXCLUSIVE are the ones that are not read-only.
        return if compiled.read_only { Route::Own } else { Route::Turn };
    }
    if facts.schema || facts.silent {
        return Route::Turn;
    }
    if facts.temp_schema || facts.writes.iter().all(|schema| schema == "temp") {
        // VACUUM, with a comment in the middle of its words.
        let touches_nothing = facts.writes.is_empty() && !facts.temp_schema;
        return if touches_nothing && !compiled.read_only { Route::Turn } else { Route::Own };
    }
    let everywhere_the_same = !facts.local_function
        && !facts.reads_elsewhere
        && facts.writes.iter().all(|schema| schema == "main");
    if everywhere_the_same { Route::Request } else { Route::Turn }
}

/// What becomes of a statement inside a speculative transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InSpeculation {
    /// It runs speculatively, and is logged.
    Logged,
    /// The same; and only this connection can replay the log.
    LoggedForLocalReplay,
    /// The transaction takes its turn first.
    InTurn,
    /// It runs on the own connection and leaves no trace in the database.
    Plain,
}

/// What becomes inside a speculative transaction of a statement whose route is `route`.
pub(crate) fn in_speculation(facts: &Facts, route: &Route, compiled: Compiled) -> InSpeculation {
    if compiled.explain || facts.attaches || facts.copies || matches!(route, Route::Refuse(_)) {
        return InSpeculation::Plain;
    }
    match (&facts.pragma, route) {
        // BEGIN is an error here, COMMIT and ROLLBACK end the speculative transaction: only savepoints come.
        _ if facts.transaction.is_some() => InSpeculation::Logged,
        (Some((name, _)), Route::Setting) if changes_no_result(name) => InSpeculation::Plain,
        (Some((name, _)), Route::Own) if tells_nothing(name) => InSpeculation::Plain,
        (Some(_), Route::Own) => InSpeculation::LoggedForLocalReplay,
        (_, Route::Request) => InSpeculation::Logged,
        (_, Route::Own) if facts.temp_schema || !facts.writes.is_empty() => {
            InSpeculation::LoggedForLocalReplay
        }
        (_, Route::Own) if facts.local_function || facts.reads_elsewhere => {
            InSpeculation::LoggedForLocalReplay
        }
        (_, Route::Own) => InSpeculation::Logged,
        (_, Route::Turn) => {
            let here = |schema: &String| matches!(schema.as_str(), "main" | "temp");
            let rows = facts.changes_rows() && facts.writes.iter().all(here);
            if rows { InSpeculation::LoggedForLocalReplay } else { InSpeculation::InTurn }
        }
        (_, Route::Setting | Route::Refuse(_)) => InSpeculation::InTurn,
    }
}

/// How a PRAGMA works that SQLite applies as soon as it is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    /// It is refused, or another one is compiled in its place (`connection/synchronous.rs`).
    Never,
    /// It changes results, and so must wait until an open speculative transaction has moved to its turn.
    NotSpeculative,
    Anywhere,
}

/// Where the PRAGMA may be applied that the authorizer told of.
pub(crate) fn applied(facts: &Facts) -> Applied {
    let Some((name, argument)) = &facts.pragma else { return Applied::Anywhere };
    let compiled = Compiled { read_only: true, explain: false };
    match route_pragma(facts, name, argument.as_deref(), compiled) {
        Route::Refuse(_) => Applied::Never,
        Route::Setting if name == "synchronous" => Applied::Never,
        Route::Setting if !changes_no_result(name) => Applied::NotSpeculative,
        _ => Applied::Anywhere,
    }
}

/// A setting that changes no result of statements before it, nor of the transaction's others.
fn changes_no_result(pragma: &str) -> bool {
    matches!(pragma, "foreign_keys" | "busy_timeout" | "wal_autocheckpoint" | "cell_size_check")
}

/// True for a setting that changes what statements show that only read.
pub(crate) fn changes_reads(facts: &Facts) -> bool {
    let reads =
        ["case_sensitive_like", "reverse_unordered_selects", "writable_schema", "trusted_schema"];
    matches!(&facts.pragma, Some((name, Some(_))) if reads.contains(&name.as_str()))
}

/// PRAGMAs about the connection that change what statements do, or how long they wait.
const SETTINGS: &[&str] = &[
    "foreign_keys",
    "recursive_triggers",
    "busy_timeout",
    "wal_autocheckpoint",
    "case_sensitive_like",
    "ignore_check_constraints",
    "defer_foreign_keys",
    "writable_schema",
    "legacy_alter_table",
    "trusted_schema",
    "query_only",
    "secure_delete",
    "count_changes",
    "reverse_unordered_selects",
    "cell_size_check",
    "max_page_count",
];

/// PRAGMAs about the connection that change how fast it is, or that are without effect here.
const TUNING: &[&str] = &[
    "cache_size",
    "cache_spill",
    "temp_store",
    "mmap_size",
    "threads",
    "journal_size_limit",
    "soft_heap_limit",
    "hard_heap_limit",
    "analysis_limit",
    "automatic_index",
    "full_column_names",
    "short_column_names",
    "encoding",
    "page_size",
    "locking_mode",
    "shrink_memory",
];

/// PRAGMAs that tell nothing of the database's content.
fn tells_nothing(pragma: &str) -> bool {
    SETTINGS.contains(&pragma)
        || does_nothing(pragma)
        || TUNING.contains(&pragma)
        || matches!(pragma, "data_version" | "synchronous" | "journal_mode" | "database_list")
}

fn route_pragma(facts: &Facts, name: &str, argument: Option<&str>, compiled: Compiled) -> Route {
    let argument = argument.map(str::to_ascii_lowercase);
    match (name, argument.as_deref()) {
        (_, None) if compiled.read_only => Route::Own,
        // No other connection has it.
        ("journal_mode" | "locking_mode" | "synchronous", _) if facts.pragma_of_no_file => {
            Route::Own
        }
        ("journal_mode", None | Some("wal")) => Route::Own,
        ("journal_mode", Some(mode)) => Route::Refuse(format!(
            "PRAGMA journal_mode={mode} is refused: Manyhands keeps the database in WAL mode; close it \
             and use the sqlite3 shell to change the mode"
        )),
        ("locking_mode", Some("exclusive")) => Route::Refuse(
            "PRAGMA locking_mode=EXCLUSIVE is refused: nobody else could use the database; use BEGIN \
             IMMEDIATE to hold the turn for one transaction"
                .to_string(),
        ),
        ("synchronous", Some(_)) => Route::Setting,
        (name, Some(_)) if SETTINGS.contains(&name) => Route::Setting,
        (name, _) if TUNING.contains(&name) => Route::Own,
        _ if compiled.read_only => Route::Own,
        _ => Route::Turn,
    }
}

/// Whether a setting that a PRAGMA changed makes the connection connection-local: other connections would execute its writes
/// differently. (`foreign_keys` and `recursive_triggers` travel with
/// each request.)
pub(crate) fn makes_connection_local(pragma: &str) -> bool {
    !matches!(
        pragma,
        "foreign_keys"
            | "recursive_triggers"
            | "busy_timeout"
            | "wal_autocheckpoint"
            | "cell_size_check"
            // It travels with each request too.
            | "synchronous"
            // ALTER TABLE alone goes by it, which runs on its own connection.
            | "legacy_alter_table"
    )
}

/// A PRAGMA that SQLite does not know: it does nothing, and has neither rows nor columns
/// (<https://sqlite.org/pragma.html#syntax>).
pub(crate) const NOTHING: &str = "PRAGMA manyhands_nothing_to_do";

/// True for a statement that stands for one that has nothing to do.
pub(crate) fn is_nothing(facts: &Facts) -> bool {
    matches!(&facts.pragma, Some((name, _)) if does_nothing(name))
}

/// True for the PRAGMA that does nothing.
pub(crate) fn does_nothing(pragma: &str) -> bool {
    NOTHING.strip_prefix("PRAGMA ") == Some(pragma)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITING: Compiled = Compiled { read_only: false, explain: false };
    const READING: Compiled = Compiled { read_only: true, explain: false };

    fn writes(schemas: &[&str]) -> Facts {
        Facts {
            writes: schemas.iter().map(|&schema| schema.to_string()).collect(),
            ..Facts::default()
        }
    }

    fn pragma(name: &str, argument: Option<&str>) -> Facts {
        Facts { pragma: Some((name.to_string(), argument.map(str::to_string))), ..Facts::default() }
    }

    #[test]
    fn each_class_of_statement_has_its_route() {
        let check = |facts: Facts, compiled, expected| {
            assert_eq!(route(&facts, compiled), expected, "{facts:?}")
        };
        check(Facts::default(), READING, Route::Own);
        check(writes(&["main"]), WRITING, Route::Request);
        check(writes(&["temp"]), WRITING, Route::Own);
        check(writes(&["main", "temp"]), WRITING, Route::Turn);
        check(writes(&["other"]), WRITING, Route::Turn);
        check(Facts { local_function: true, ..writes(&["main"]) }, WRITING, Route::Turn);
        check(Facts { reads_elsewhere: true, ..writes(&["main"]) }, WRITING, Route::Turn);
        check(Facts { schema: true, ..writes(&["main"]) }, WRITING, Route::Turn);
        check(Facts { temp_schema: true, ..writes(&["temp"]) }, WRITING, Route::Own);
        check(Facts { silent: true, ..Facts::default() }, WRITING, Route::Turn); // VACUUM
        check(Facts::default(), WRITING, Route::Turn); // VACUUM INTO printf('copy')
        check(Facts { silent: true, ..Facts::default() }, READING, Route::Turn);
        check(writes(&["main"]), Compiled { read_only: false, explain: true }, Route::Own);
        check(
            Facts { transaction: Some(TransactionStatement::Begin), ..Facts::default() },
            READING,
            Route::Own,
        );
        check(
            Facts { transaction: Some(TransactionStatement::Begin), ..Facts::default() },
            WRITING,
            Route::Turn,
        );
        check(Facts { attaches: true, ..Facts::default() }, WRITING, Route::Own);
    }

    #[test]
    fn each_class_of_statement_has_its_place_in_a_fork() {
        let check = |facts: Facts, compiled, expected| {
            let route = route(&facts, compiled);
            assert_eq!(in_speculation(&facts, &route, compiled), expected, "{facts:?}");
        };
        check(Facts::default(), READING, InSpeculation::Logged);
        check(
            Facts { local_function: true, ..Facts::default() },
            READING,
            InSpeculation::LoggedForLocalReplay,
        );
        check(
            Facts { reads_elsewhere: true, ..Facts::default() },
            READING,
            InSpeculation::LoggedForLocalReplay,
        );
        check(writes(&["main"]), WRITING, InSpeculation::Logged);
        check(writes(&["temp"]), WRITING, InSpeculation::LoggedForLocalReplay);
        check(writes(&["other"]), WRITING, InSpeculation::InTurn);
        check(
            Facts { local_function: true, ..writes(&["main"]) },
            WRITING,
            InSpeculation::LoggedForLocalReplay,
        );
        check(Facts { schema: true, ..writes(&["main"]) }, WRITING, InSpeculation::InTurn);
        check(
            Facts { temp_schema: true, ..writes(&["temp"]) },
            WRITING,
            InSpeculation::LoggedForLocalReplay,
        );
        check(Facts { silent: true, ..Facts::default() }, READING, InSpeculation::InTurn); // VACUUM
        check(
            writes(&["main"]),
            Compiled { read_only: false, explain: true },
            InSpeculation::Plain,
        );
        check(Facts { attaches: true, ..Facts::default() }, WRITING, InSpeculation::Plain);
        check(pragma("user_version", Some("5")), WRITING, InSpeculation::InTurn);
        check(pragma("user_version", None), READING, InSpeculation::LoggedForLocalReplay);
        check(pragma("cache_size", Some("-4000")), READING, InSpeculation::Plain);
        check(pragma("table_info", Some("t")), READING, InSpeculation::LoggedForLocalReplay);
        check(pragma("foreign_keys", Some("on")), READING, InSpeculation::Plain);
        check(pragma("recursive_triggers", Some("on")), READING, InSpeculation::InTurn);
    }

    #[test]
    fn pragmas_have_theirs() {
        let check = |name, argument, compiled, expected| {
            assert_eq!(route(&pragma(name, argument), compiled), expected, "{name}={argument:?}");
        };
        check("table_info", Some("t"), READING, Route::Own);
        check("journal_mode", None, WRITING, Route::Own);
        check("journal_mode", Some("WAL"), WRITING, Route::Own);
        check("user_version", Some("5"), WRITING, Route::Turn);
        check("foreign_keys", Some("on"), READING, Route::Setting);
        check("cache_size", Some("-4000"), READING, Route::Own);
        check("wal_checkpoint", None, WRITING, Route::Turn);
        for (name, argument) in [("journal_mode", "delete"), ("locking_mode", "exclusive")] {
            let refused = route(&pragma(name, Some(argument)), READING);
            assert!(matches!(refused, Route::Refuse(_)), "{name}={argument}: {refused:?}");
            let own = Facts { pragma_of_no_file: true, ..pragma(name, Some(argument)) };
            assert_eq!(route(&own, READING), Route::Own, "{name}={argument} in the temp schema");
        }
        check("synchronous", Some("off"), READING, Route::Setting);
        assert_eq!(applied(&pragma("synchronous", Some("off"))), Applied::Never);
    }
}
