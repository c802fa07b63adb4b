//! Switches, limits and extensions of a connection.
//!
//! Other connections have the defaults. So a connection on which something was changed is connection-local: it executes its writes
//! itself.

use std::path::Path;

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

    /// Allows or forbids to load extensions, by [`Connection::load_extension`] and by the SQL function
    /// `load_extension()`. Default: forbidden.
    ///
    /// # Errors
    /// As SQLite fails.
    pub fn enable_load_extension(&mut self, enabled: bool) -> Result<(), Error> {
        self.before_change()?;
        self.sqlite().enable_load_extension(enabled)?;
        // What SQL loads then may take the place of anything.
        self.additions.extended |= enabled;
        self.after_change(enabled);
        Ok(())
    }

    /// Loads an extension: a shared library, whose code runs in this process with all its rights. It must
    /// have been allowed before. `entry` is the function in it that SQLite calls; `None` for the usual one.
    ///
    /// # Errors
    /// When it is not allowed; when the library cannot be loaded.
    pub fn load_extension(
        &mut self,
        path: impl AsRef<Path>,
        entry: Option<&str>,
    ) -> Result<(), Error> {
        self.before_change()?;
        self.additions.extended = true;
        self.sqlite().load_extension(path.as_ref(), entry)?;
        self.after_change(true);
        Ok(())
    }
}
