//! Switches and limits of a connection.
//!
//! Other connections have the defaults. So a connection on which something was changed is connection-local: it executes its writes
//! itself.

use manyhands_sqlite::{Limit, Setting};

use crate::Error;
use crate::connection::Connection;

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
            self.after_change(now != before);
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
        self.after_change(self.sqlite().limit(limit) != before);
        Ok(before)
    }
}
