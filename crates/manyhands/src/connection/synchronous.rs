//! `PRAGMA synchronous`: what a connection's commits survive, as SQLite has it for each connection.
//!
//! SQLite would apply this PRAGMA as soon as it compiles it. So the authorizer makes SQLite ignore it
//! ([`crate::statement::routing::applied`]), and another PRAGMA is compiled in its place: `OFF` becomes `NORMAL`, since without a sync no
//! commit could be acknowledged, and no level is below [`crate::Builder::durability_min`]. In a transaction SQLite refuses the replacement
//! as it would refuse the original. A question is answered with the level that was asked for.
//!
//! The level of the schema `main` travels with each request ([`crate::commit::request::SessionSettings`]): a batch is synced if one of its
//! requests asks for that. When a connection is given to its next user, it goes back to the level that it was opened with.

use std::collections::{BTreeMap, BTreeSet};

use manyhands_sqlite::{Step, Transaction, ValueRef};

use crate::Error;
use crate::connection::Connection;
use crate::options::Durability;
use crate::statement::prepared::{Prepared, Spared};
use crate::statement::rewrite::quote;
use crate::statement::routing::{Facts, Route};

/// The levels that the application has asked for, by schema, as SQLite numbers them: 0 for `OFF`, 1 for `NORMAL`, 2 for
/// `FULL`, 3 for `EXTRA`.
pub(crate) type SynchronousLevels = BTreeMap<String, i64>;

/// True for `PRAGMA synchronous`, with or without a level.
pub(crate) fn is_synchronous(facts: &Facts) -> bool {
    facts.pragma.as_ref().is_some_and(|(name, _)| name == "synchronous")
}

impl Durability {
    fn level(self) -> i64 {
        match self {
            Durability::Normal => 1,
            Durability::Full => 2,
        }
    }
}

/// The level that SQLite takes `argument` for (`getSafetyLevel` in its `src/pragma.c`).
fn level_of(argument: &str) -> i64 {
    let number = argument.split(|it: char| !it.is_ascii_digit()).next().unwrap_or_default();
    if !number.is_empty() {
        // It keeps three bits of the next number, and has no level 0.
        let next = number.parse::<i32>().unwrap_or(0).wrapping_add(1) & 7;
        return i64::from(next.max(1)) - 1;
    }
    match argument.to_ascii_lowercase().as_str() {
        "off" | "no" | "false" => 0,
        "full" => 2,
        "extra" => 3,
        _ => 1,
    }
}

impl Connection {
    /// What is executed in the place of `prepared`: the same, unless it is `PRAGMA synchronous` of a database with a queue.
    ///
    /// # Errors
    /// As SQLite fails: in a transaction the level cannot be set.
    pub(crate) fn with_own_synchronous(
        &mut self,
        prepared: Box<Prepared>,
    ) -> Result<Box<Prepared>, Error> {
        let own_affair = prepared.facts.pragma_of_no_file || prepared.compiled.explain;
        if !is_synchronous(&prepared.facts) || own_affair || !self.is_shared() {
            return Ok(prepared);
        }
        let schema = prepared.facts.pragma_schema.clone().unwrap_or_else(|| "main".to_string());
        let argument = prepared.facts.pragma.as_ref().and_then(|(_, argument)| argument.clone());
        match argument {
            Some(argument) => self.set_level(schema, level_of(&argument)),
            None => self.tell_level(&schema, prepared),
        }
    }

    fn set_level(&mut self, schema: String, level: i64) -> Result<Box<Prepared>, Error> {
        let main = schema == "main";
        // An attached database in another mode than WAL is SQLite's alone.
        let least = if main || self.attached.contains_key(&schema) {
            self.settings.durability_min.level()
        } else {
            0
        };
        let applied = level.max(least);
        let mut prepared =
            self.compile_in_place(&format!("PRAGMA {}.synchronous={applied}", quote(&schema)))?;
        prepared.route = Route::Setting;
        // The application's authorizer may have left it out.
        if !prepared.facts.left_out {
            if main {
                // It leaves no trace: the next user of the connection finds the level that it was opened with.
                prepared.facts.pragma = Some(("synchronous".to_string(), None));
                self.session_settings.full = applied >= Durability::Full.level();
            }
            self.synchronous.insert(schema, level);
        }
        Ok(prepared)
    }

    /// Takes over the level that the connection had while the database was SQLite's alone.
    ///
    /// # Errors
    /// As SQLite fails.
    pub(crate) fn take_over_level(&mut self, level: i64) -> Result<(), Error> {
        if level != self.settings.durability.level() {
            self.set_level("main".to_string(), level)?;
        }
        Ok(())
    }

    fn tell_level(&self, schema: &str, prepared: Box<Prepared>) -> Result<Box<Prepared>, Error> {
        let Some(level) = self.synchronous.get(schema) else { return Ok(prepared) };
        self.answer_in_place(&format!("SELECT {level} AS synchronous"), prepared)
    }

    /// Compiles what answers a PRAGMA in its place.
    pub(crate) fn answer_in_place(
        &self,
        sql: &str,
        question: Box<Prepared>,
    ) -> Result<Box<Prepared>, Error> {
        let mut answer = self.compile_in_place(sql)?;
        answer.facts = question.facts;
        answer.route = Route::Own;
        Ok(answer)
    }

    pub(crate) fn compile_in_place(&self, sql: &str) -> Result<Box<Prepared>, Error> {
        let compiled = self.session().compile(sql, Spared::None);
        let compiled = compiled.map_err(|error| self.describe(error))?.0;
        compiled.ok_or_else(|| Error::refused("there is no SQL statement"))
    }

    /// As [`Connection::is_plain`], but for the durability.
    pub(crate) fn is_plain_but_for_durability(&self) -> bool {
        self.pristine
            && !self.guarded
            && self.sqlite().transaction() == Transaction::None
            && self.is_autocommit()
            && !self.cursors.are_open()
    }

    /// True when the connection's commits survive what those of a new one do.
    pub(crate) fn has_default_durability(&self) -> bool {
        let default = self.settings.durability.level();
        self.synchronous.get("main").is_none_or(|&level| level == default)
    }

    /// Goes back to the level that the connection was opened with; false when that fails.
    pub(crate) fn restore_durability(&mut self) -> bool {
        if !self.has_default_durability() {
            let _own = self.own_statements();
            let default = self.settings.durability;
            let pragma = format!("PRAGMA main.synchronous={}", default.level());
            if self.sqlite().execute(&pragma).is_err() {
                return false;
            }
            self.session_settings.full = default == Durability::Full;
        }
        self.synchronous.remove("main");
        true
    }

    /// Another database may be attached under the name of one that was detached.
    pub(crate) fn forget_levels_of_detached(&mut self) -> Result<(), Error> {
        if self.synchronous.keys().all(|schema| schema == "main") {
            return Ok(());
        }
        let mut schemas = BTreeSet::new();
        let own = self.own_statements();
        let mut list = self.sqlite().prepare_one("PRAGMA database_list")?;
        while list.step()? == Step::Row {
            if let ValueRef::Text(name) = list.column(1) {
                schemas.insert(String::from_utf8_lossy(name).into_owned());
            }
        }
        drop((list, own));
        self.synchronous.retain(|schema, _| schemas.contains(schema));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::in_memory;

    /// SQLite itself says what it takes each argument for.
    #[test]
    fn levels_are_read_as_sqlite_reads_them() {
        let sqlite = in_memory();
        for argument in [
            "OFF",
            "off",
            "no",
            "false",
            "NORMAL",
            "on",
            "yes",
            "true",
            "FULL",
            "full",
            "EXTRA",
            "0",
            "1",
            "2",
            "3",
            "4",
            "5",
            "6",
            "7",
            "8",
            "9",
            "10",
            "255",
            "256",
            "4294967296",
            "-1",
            "+2",
            "2.5",
            "other",
            "'full'",
            "\"extra\"",
        ] {
            sqlite.execute(&format!("PRAGMA synchronous={argument}")).expect(argument);
            let level = sqlite.query_integer("PRAGMA synchronous").expect("a level");
            // The authorizer is told the text without quotes and without a plus.
            let told = argument.trim_matches(['\'', '"', '+']);
            assert_eq!(level_of(told), level, "{argument}");
        }
    }
}
