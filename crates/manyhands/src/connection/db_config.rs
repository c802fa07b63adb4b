//! Switches and limits of a connection.
//!
//! Other connections have the defaults. A connection on which something was changed that matters when a write is executed is
//! connection-local: it executes its writes itself. What matters only while a statement is compiled does not: each is compiled on its own
//! connection first, and what that refuses goes nowhere.

use manyhands_sqlite::{Limit, Setting};

use crate::Error;
use crate::connection::Connection;
use crate::limits;

impl Connection {
    /// The state of a switch.
    pub fn setting(&self, setting: Setting) -> bool {
        self.sqlite().setting(setting)
    }

    /// Turns a switch, and tells its state then: SQLite leaves some as they are.
    ///
    /// # Errors
    /// In a transaction that has to move to its turn first: as [`Connection::execute`].
    pub fn set_setting(&mut self, setting: Setting, on: bool) -> Result<bool, Error> {
        self.before_change()?;
        let before = self.sqlite().setting(setting);
        let now = self.sqlite().set(setting, on);
        if setting == Setting::ForeignKeys {
            // It travels with each request.
            self.session_settings.foreign_keys = now;
            self.after_change(false);
        } else {
            self.after_change(now != before && matters_elsewhere(setting));
        }
        Ok(now)
    }

    /// A limit.
    pub fn limit(&self, limit: Limit) -> i32 {
        self.sqlite().limit(limit)
    }

    /// Sets a limit, and tells what it was. One above SQLite's own bound becomes that bound; a negative
    /// one changes nothing.
    ///
    /// # Errors
    /// In a transaction that has to move to its turn first: as [`Connection::execute`].
    pub fn set_limit(&mut self, limit: Limit, value: i32) -> Result<i32, Error> {
        self.before_change()?;
        let before = self.sqlite().set_limit(limit, value);
        let now = self.sqlite().limit(limit);
        self.after_change(now != before && limits_elsewhere(limit, now));
        Ok(before)
    }
}

/// Whether another connection could execute a write differently that this one has compiled.
fn matters_elsewhere(setting: Setting) -> bool {
    !matches!(
        setting,
        // What they forbid is found when a statement is compiled.
        Setting::Defensive
            | Setting::QuotedStringsDml
            | Setting::QuotedStringsDdl
            | Setting::Comments
            // A statement that attaches, makes a table, or explains, never leaves its connection.
            | Setting::AttachCreate
            | Setting::AttachWrite
            | Setting::LegacyAlterTable
            | Setting::LegacyFileFormat
            | Setting::ExplainTriggers
            | Setting::ScanStatus
    )
}

/// The same of a limit. Most are about the text and the program of a statement, and found when it is compiled.
fn limits_elsewhere(limit: Limit, now: i32) -> bool {
    match limit {
        // What is longer does not travel; and no program sets it so high to have less refused.
        Limit::Length => now < limits::LENGTH_LIMIT_KEPT_HERE,
        Limit::LikePatternLength | Limit::TriggerDepth => true,
        _ => false,
    }
}
