//! Finding a compiled statement again, or compiling it.

use std::borrow::Cow;
use std::sync::Arc;

use manyhands_sqlite::{self as sqlite, Value};

use crate::Error;
use crate::connection::Connection;
use crate::connection::nothing_to_do::may_have_nothing_to_do;
use crate::connection::own_answers::has_own_answer;
use crate::connection::synchronous::is_synchronous;
use crate::error::ErrorKind;
use crate::params::Given;
use crate::session::schema::READS_SCHEMA;
use crate::statement::fingerprint::Fingerprint;
use crate::statement::prepared::{Prepared, Spared, Uses};
use crate::statement::rewrite;
use crate::statement::routing::{Route, is_nothing};
use crate::statement::text::{begins_as_a_write, is_begin_concurrent, is_blank};

/// A compiled statement, with a value for each of its parameters.
type Begun<'v> = (Box<Prepared>, Cow<'v, [Value]>);

impl Connection {
    /// What every statement that an application gives comes by: it is found compiled, or compiled, and gets its values.
    ///
    /// # Errors
    /// As SQLite fails to compile it, when there is none in `sql`, or when the values do not fit.
    pub(crate) fn begin_statement<'v>(
        &mut self,
        sql: &str,
        given: &'v Given<'_>,
    ) -> Result<Begun<'v>, Error> {
        let begun = self.begin_statement_if_any(sql, given)?;
        begun.ok_or_else(|| Error::refused("there is no SQL statement"))
    }

    /// The same; `None` when there is no statement in `sql`.
    pub(crate) fn begin_statement_if_any<'v>(
        &mut self,
        sql: &str,
        given: &'v Given<'_>,
    ) -> Result<Option<Begun<'v>>, Error> {
        self.begin_operation()?;
        self.outlive_interrupt(sql);
        let found = self.find_prepared(sql);
        let found = found.inspect_err(|error| self.log_uncompiled(sql, given.in_order(), error))?;
        let Some(prepared) = found else { return Ok(None) };
        match given.for_parameters(|| prepared.statement.parameter_names()) {
            Ok(values) => Ok(Some((prepared, values))),
            Err(error) => {
                self.put_back(prepared);
                Err(error)
            }
        }
    }

    /// See [`ConnectionExt::parameter_names`](crate::driver::ConnectionExt::parameter_names).
    pub(crate) fn parameter_names(&mut self, sql: &str) -> Result<Vec<Option<String>>, Error> {
        // Outside of a lazy transaction, which it does not begin. A PRAGMA does what it does when it is compiled; and that
        // something does not compile is seen in the transaction, which may end by that.
        if let Some(lazy) = self.lazy.take_if(|_| begins_as_a_write(sql)) {
            let names = self.names_of_parameters(sql);
            self.lazy = Some(lazy);
            if names.is_ok() {
                return names;
            }
        }
        self.names_of_parameters(sql)
    }

    fn names_of_parameters(&mut self, sql: &str) -> Result<Vec<Option<String>>, Error> {
        let names = self.look_at_statement(sql, |it| it.statement.parameter_names());
        names.map(Option::unwrap_or_default)
    }

    /// See [`ConnectionExt::declared_types`](crate::driver::ConnectionExt::declared_types).
    pub(crate) fn declared_types(&mut self, sql: &str) -> Result<Vec<Option<String>>, Error> {
        let types = self.look_at_statement(sql, |Prepared { statement, .. }| {
            (0..statement.column_count()).map(|column| statement.declared_type(column)).collect()
        });
        types.map(Option::unwrap_or_default)
    }

    /// See [`ConnectionExt::is_read_only`](crate::driver::ConnectionExt::is_read_only).
    pub(crate) fn is_read_only(&mut self, sql: &str) -> Result<bool, Error> {
        let read_only = self.look_at_statement(sql, |it| it.compiled.read_only);
        read_only.map(|it| it.unwrap_or(true))
    }

    /// What is to be known of a statement that is not executed; `None` when there is none in `sql`.
    fn look_at_statement<T>(
        &mut self,
        sql: &str,
        look: impl FnOnce(&Prepared) -> T,
    ) -> Result<Option<T>, Error> {
        self.begin_operation()?;
        let found = self.look_up(sql).inspect_err(|error| self.log_uncompiled(sql, &[], error));
        let Some(prepared) = found? else { return Ok(None) };
        let known = look(&prepared);
        self.put_back(prepared);
        Ok(Some(known))
    }

    pub(crate) fn take_prepared(&mut self, sql: &str) -> Result<Box<Prepared>, Error> {
        self.find_prepared(sql)?.ok_or_else(|| Error::refused("there is no SQL statement"))
    }

    /// The same; `None` when there is no statement in `sql`.
    pub(crate) fn find_prepared(&mut self, sql: &str) -> Result<Option<Box<Prepared>>, Error> {
        let mut found = self.look_up(sql)?;
        if let Some(prepared) = &mut found {
            prepared.note_use();
            self.know_tables(prepared);
        }
        Ok(found)
    }

    /// The same, for a caller that does not execute it.
    pub(crate) fn look_up(&mut self, sql: &str) -> Result<Option<Box<Prepared>>, Error> {
        let kept = self.take_kept(sql);
        if kept.is_some() {
            return Ok(kept);
        }
        let Some((mut prepared, used)) = self.compile_first(sql)? else { return Ok(None) };
        // It is found again by what the application wrote, white space and comments included; the log has this text, too.
        prepared.sql = sql.into();
        if used != sql.len() {
            prepared.fingerprint = Fingerprint::of(sql);
        }
        if !is_blank(&sql[used..]) {
            return Err(Error::new(ErrorKind::SeveralStatements));
        }
        Ok(Some(prepared))
    }

    /// The first statement of `sql`, for who only looks at it, with the length of its text.
    pub(crate) fn look_up_first(
        &mut self,
        sql: &str,
    ) -> Result<Option<(Box<Prepared>, usize)>, Error> {
        match self.take_kept(sql) {
            Some(kept) => Ok(Some((kept, sql.len()))),
            None => self.compile_first(sql),
        }
    }

    pub(crate) fn compile_first(
        &mut self,
        sql: &str,
    ) -> Result<Option<(Box<Prepared>, usize)>, Error> {
        let is_ours = is_begin_concurrent(sql);
        let (prepared, used) = self.compile(if is_ours { "BEGIN" } else { sql })?;
        let used = if is_ours { sql.len() } else { used };
        Ok(prepared.map(|mut prepared| {
            // What is executed in its place may have another text.
            prepared.sql = sql[..used].into();
            (prepared, used)
        }))
    }

    fn take_kept(&mut self, sql: &str) -> Option<Box<Prepared>> {
        while let Some(prepared) = self.cursors.take_returned() {
            self.put_back(prepared);
        }
        self.session_mut().statements.take(sql)
    }

    /// A statement that has compiled in this transaction before, which stays where it is.
    pub(crate) fn take_as_compiled(&mut self, sql: &Arc<str>) -> Result<Box<Prepared>, Error> {
        if let Some(kept) = self.take_kept(sql) {
            return Ok(kept);
        }
        let compiled = self.compile_for_now(sql)?.0;
        let mut prepared = compiled.ok_or_else(|| Error::refused("there is no SQL statement"))?;
        prepared.sql = Arc::clone(sql);
        Ok(prepared)
    }

    /// A statement is used again, speculatively or in a turn, where the tables that it touches are noted: now it pays to find them out
    /// exactly. That costs more than to send a request.
    pub(crate) fn know_tables(&mut self, prepared: &mut Prepared) {
        let is_noted = self.optimistic.is_some() || !self.turns.is_empty();
        // It costs a read.
        if is_noted && prepared.uses == Uses::Again && !self.would_begin_own_snapshot() {
            self.session().know_tables(prepared);
        }
    }

    /// Compiles the first statement of `sql`; gives it, if there is one, and its length in bytes. That it does not compile
    /// is something to see: a transaction of mode Auto that has deferred writes takes its turn for that.
    ///
    /// # Errors
    /// As SQLite fails to compile it, and see [`Connection::escalate_first`]: the transaction may be over.
    pub(crate) fn compile(&mut self, sql: &str) -> Result<(Option<Box<Prepared>>, usize), Error> {
        let (compiled, used) = match self.compile_for_now(sql) {
            Err(error) if self.has_deferred() && does_not_compile(&error) => {
                self.escalate_first()?;
                self.compile_for_now(sql)?
            }
            compiled => compiled?,
        };
        let compiled = compiled.map(|it| self.with_own_synchronous(it)).transpose()?;
        let compiled = compiled.map(|it| self.with_own_answer(it)).transpose()?;
        let compiled = compiled.map(|it| self.with_nothing_to_do(it)).transpose()?;
        if let Some(prepared) = &compiled {
            // Most settings are made when they are compiled.
            self.pristine &= prepared.facts.leaves_no_trace();
            self.keep_handlers(&prepared.facts);
        }
        Ok((compiled, used))
    }

    /// The same for a statement that changes no setting: the transaction stays where it is, and nothing is noted.
    pub(crate) fn compile_for_now(
        &self,
        sql: &str,
    ) -> Result<(Option<Box<Prepared>>, usize), Error> {
        let compiled = self.compile_for_known_schema(sql);
        let has_failed = self.file.is_some() && compiled.as_ref().is_err_and(does_not_compile);
        // SQLite has compiled it with the schema that it read last: others may have made what it misses, or dropped
        // what is in its way.
        if has_failed && !self.would_begin_snapshot() && self.has_newer_schema()? {
            return self.compile_for_known_schema(sql);
        }
        compiled
    }

    /// Whether a read of our own would begin the snapshot of SQLite's own deferred transaction.
    pub(crate) fn would_begin_own_snapshot(&self) -> bool {
        let is_own = self.optimistic.is_none() && !self.is_autocommit();
        is_own && self.sqlite().transaction() == sqlite::Transaction::None
    }

    /// The same of one that SQLite alone would begin later, too.
    fn would_begin_snapshot(&self) -> bool {
        self.would_begin_own_snapshot()
            || self.is_in_auto_mode() && self.sqlite().transaction() == sqlite::Transaction::None
    }

    /// Whether the schema has changed since SQLite read it; it has been read again then. A transaction that has no
    /// snapshot takes it, and keeps to that schema.
    pub(crate) fn has_newer_schema(&self) -> Result<bool, Error> {
        let _own = self.own_statements();
        let newer = || {
            let mut read = self.sqlite().prepare_one(READS_SCHEMA)?;
            read.step()?;
            let mut is_newer = read.recompilations() > 0;
            for schema in self.attached.keys() {
                let sql = format!("SELECT 1 FROM {}.sqlite_schema LIMIT 1", rewrite::quote(schema));
                let mut read = self.sqlite().prepare_one(&sql)?;
                read.step()?;
                is_newer |= read.recompilations() > 0;
            }
            Ok(is_newer)
        };
        newer().map_err(|error| self.describe(error))
    }

    fn compile_for_known_schema(&self, sql: &str) -> Result<(Option<Box<Prepared>>, usize), Error> {
        let spared = match (&self.optimistic, self.is_shared()) {
            (Some(_), _) => Spared::Settings,
            (None, true) => Spared::Refused,
            (None, false) => Spared::None,
        };
        let compiled = self.session().compile(sql, spared);
        let (compiled, used) = compiled.map_err(|error| self.describe(error))?;
        let stand_in = compiled.as_ref().and_then(|it| self.stand_in(it));
        let Some(stand_in) = stand_in else { return Ok((compiled, used)) };
        let answer = self.session().compile(stand_in, Spared::None);
        let mut answer = answer.map_err(|error| self.describe(error))?.0;
        if let Some(answer) = &mut answer {
            answer.route = Route::Own;
            if let Some((_, argument)) = &mut answer.facts.pragma {
                // All stays as it was.
                *argument = None;
            }
        }
        Ok((answer, used))
    }

    /// What is executed instead of a PRAGMA that would change a mode which cannot be changed: SQLite, too,
    /// answers with the mode that remains (<https://sqlite.org/pragma.html#pragma_journal_mode>).
    fn stand_in(&self, prepared: &Prepared) -> Option<&'static str> {
        if !matches!(prepared.route, Route::Refuse(_))
            || prepared.facts.reads_elsewhere
            || !self.is_shared()
        {
            return None;
        }
        match prepared.facts.pragma.as_ref()?.0.as_str() {
            // So it will be.
            "journal_mode" if self.file.is_none() => Some("SELECT 'wal' AS journal_mode"),
            "journal_mode" => Some("PRAGMA main.journal_mode"),
            "locking_mode" => Some("PRAGMA main.locking_mode"),
            _ => None,
        }
    }

    /// Keeps a compiled statement for its next use.
    pub(crate) fn put_back(&mut self, prepared: Box<Prepared>) {
        if may_be_used_again(&prepared) {
            self.session_mut().statements.put_back(prepared);
        }
    }
}

/// False for a statement that is to be compiled each time that it is executed.
pub(crate) fn may_be_used_again(prepared: &Prepared) -> bool {
    let facts = &prepared.facts;
    // A statement that SQLite has compiled again may touch other tables, and have another route. A setting
    // takes effect when it is compiled. A schema of this name may be a file next time. What is only explained is not executed, and SQLite
    // would not notice that the schema has changed.
    !prepared.is_stale()
        && !prepared.compiled.explain
        && prepared.route != Route::Setting
        && !is_synchronous(facts)
        && !has_own_answer(facts)
        && !is_nothing(facts)
        && !may_have_nothing_to_do(facts)
        && !facts.pragma_of_no_file
}

/// True for an error of the statement, and not of the system.
fn does_not_compile(error: &Error) -> bool {
    error.code().is_some_and(sqlite::Code::is_result)
}
