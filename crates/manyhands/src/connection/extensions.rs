//! Extensions of SQLite: shared libraries whose code runs in the process.
//!
//! Nothing can check that code, so whoever loads it, or lets SQL load it, vouches for it. These functions pass that
//! obligation on to the fence; they are the only unsafe ones of this crate.
//!
//! Other connections do not have the extension: a connection that may have one executes its writes itself.

use std::path::Path;

use crate::Error;
use crate::connection::Connection;

impl Connection {
    /// Allows to load extensions, by [`Connection::load_extension`] and by the SQL function `load_extension()`.
    ///
    /// # Errors
    /// As SQLite fails.
    ///
    /// # Safety
    /// Until [`Connection::disable_load_extension`] is called, each SQL statement that this connection executes may
    /// call `load_extension()`: what [`Connection::load_extension`] demands of a library holds for the ones that these
    /// statements name, those of the triggers and views of its databases included.
    #[expect(unsafe_code, reason = "whoever lets SQL load native code vouches for it")]
    pub unsafe fn enable_load_extension(&mut self) -> Result<(), Error> {
        self.before_change()?;
        // SAFETY: the obligation is the same, and this function's caller has taken it.
        unsafe { self.sqlite().enable_load_extension() }?;
        // What SQL loads then may take the place of anything.
        self.additions.extended = true;
        self.after_change(true);
        Ok(())
    }

    /// Forbids to load extensions, which is the default. What has been loaded stays.
    ///
    /// # Errors
    /// As SQLite fails.
    pub fn disable_load_extension(&mut self) -> Result<(), Error> {
        self.before_change()?;
        self.sqlite().disable_load_extension()?;
        self.after_change(false);
        Ok(())
    }

    /// Loads an extension: a shared library, whose code runs in this process with all its rights. It must
    /// have been allowed before. `entry` is the function in it that SQLite calls; `None` for the usual one.
    ///
    /// ```no_run
    /// let database = manyhands::Database::open("app.db")?;
    /// let mut connection = database.connect()?;
    /// // SAFETY: nothing else is loaded until it is forbidden again, and `spellfix` was built for this SQLite.
    /// unsafe {
    ///     connection.enable_load_extension()?;
    ///     connection.load_extension("./spellfix", None)?;
    /// }
    /// connection.disable_load_extension()?;
    /// # Ok::<(), manyhands::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it is not allowed; when the library cannot be loaded.
    ///
    /// # Safety
    /// The library is an extension for this version of SQLite and for this platform: its initializers, its entry function, and
    /// all that the entry function registers are sound when they are called as SQLite calls them
    /// (<https://sqlite.org/loadext.html>).
    #[expect(unsafe_code, reason = "whoever loads native code vouches for it")]
    pub unsafe fn load_extension(
        &mut self,
        path: impl AsRef<Path>,
        entry: Option<&str>,
    ) -> Result<(), Error> {
        self.before_change()?;
        self.additions.extended = true;
        // SAFETY: the obligation is the same, and this function's caller has taken it.
        unsafe { self.sqlite().load_extension(path.as_ref(), entry) }?;
        self.after_change(true);
        Ok(())
    }
}
