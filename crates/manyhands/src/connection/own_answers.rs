//! `PRAGMA busy_timeout` and `PRAGMA wal_autocheckpoint`: what they set, and what they answer.
//!
//! SQLite answers with its own settings. Here SQLite neither waits nor checkpoints by itself, so it would answer 0, and programs that check
//! whether their setting was accepted would find that it was not. So another statement is compiled in the question's place, which answers
//! with what was set, or with the default.

use core::time::Duration;

use crate::Error;
use crate::connection::Connection;
use crate::limits;
use crate::statement::prepared::Prepared;
use crate::statement::routing::Facts;

/// The value of the settings that are told here, in SQLite's units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnAnswers {
    /// How many pages of the WAL the application wants to be checkpointed after; 0 for never. It has no effect.
    checkpoint_pages: u32,
}

impl Default for OwnAnswers {
    fn default() -> OwnAnswers {
        OwnAnswers { checkpoint_pages: limits::CHECKPOINT_FRAMES }
    }
}

/// True for a question that is not SQLite's to answer.
pub(crate) fn has_own_answer(facts: &Facts) -> bool {
    matches!(&facts.pragma, Some((name, None)) if matches!(name.as_str(), "busy_timeout" | "wal_autocheckpoint"))
}

/// The number that SQLite takes a PRAGMA's argument for (`sqlite3GetInt32` in its `src/util.c`); `None` for what does not begin
/// with one, or is too large.
fn number_of(argument: &str) -> Option<i32> {
    if let Some(digits) = argument.strip_prefix("0x").or_else(|| argument.strip_prefix("0X")) {
        let end = digits.find(|it: char| !it.is_ascii_hexdigit()).unwrap_or(digits.len());
        return i32::from_str_radix(&digits[..end], 16).ok();
    }
    let digits = argument.trim_start_matches(['-', '+']);
    let sign = argument.len() - digits.len();
    let end = digits.find(|it: char| !it.is_ascii_digit()).unwrap_or(digits.len());
    argument.get(..sign + end).filter(|_| sign <= 1)?.parse().ok()
}

impl Connection {
    /// What is executed in the place of `prepared`: the same, unless it is a question that is not SQLite's to answer.
    ///
    /// # Errors
    /// As SQLite fails to compile a statement.
    pub(crate) fn with_own_answer(&self, prepared: Box<Prepared>) -> Result<Box<Prepared>, Error> {
        if !has_own_answer(&prepared.facts) || prepared.compiled.explain || prepared.facts.left_out
        {
            return Ok(prepared);
        }
        let answer = match prepared.facts.pragma.as_ref().map(|(name, _)| name.as_str()) {
            Some("busy_timeout") => {
                let timeout_ms = self.settings.timeout.as_millis().min(i32::MAX as u128);
                format!("SELECT {timeout_ms} AS timeout")
            }
            // Without a queue SQLite checkpoints, and answers.
            Some("wal_autocheckpoint") if self.file.is_some() || self.driver_steps => {
                format!("SELECT {} AS wal_autocheckpoint", self.own_answers.checkpoint_pages)
            }
            _ => return Ok(prepared),
        };
        self.answer_in_place(&answer, prepared)
    }

    pub(crate) fn set_timeout_to(&mut self, argument: &str) {
        // As in SQLite, a negative timeout is none, and what is no number sets nothing.
        if let Some(timeout_ms) = number_of(argument) {
            self.settings.timeout = Duration::from_millis(timeout_ms.max(0).unsigned_abs().into());
            self.session().wait.set(self.settings.timeout);
        }
    }

    pub(crate) fn note_checkpoint_pages(&mut self, argument: &str) {
        let pages = number_of(argument).unwrap_or(0);
        self.own_answers.checkpoint_pages = pages.max(0).unsigned_abs();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::in_memory;

    /// SQLite itself says what it takes each argument for.
    #[test]
    fn numbers_are_read_as_sqlite_reads_them() {
        let sqlite = in_memory();
        for argument in [
            "0",
            "1",
            "+7",
            "-1",
            "5000",
            "5000.7",
            "'250'",
            "\"250\"",
            "007",
            "0x10",
            "0xffffffff",
            "2147483647",
            "2147483648",
            "99999999999999999999",
            "on",
            "other",
        ] {
            sqlite.execute("PRAGMA busy_timeout=77").expect("a number");
            let query = |sql: &str| sqlite.query_integer(sql).expect(argument);
            // The authorizer is told the text without quotes and without a plus.
            let told =
                number_of(argument.trim_matches(['\'', '"', '+'])).map(|it| it.max(0).into());
            let timeout_ms = query(&format!("PRAGMA busy_timeout={argument}"));
            assert_eq!(told.unwrap_or(77), timeout_ms, "{argument}");
            let pages = query(&format!("PRAGMA wal_autocheckpoint={argument}"));
            assert_eq!(told.unwrap_or(0), pages, "{argument}");
        }
    }
}
