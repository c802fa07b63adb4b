//! Switches, limits and extensions of a connection.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use std::ffi::CString;
use std::path::Path;

use libsqlite3_sys as ffi;

use crate::{Code, Connection, Error};

/// An enum whose numbers are SQLite's.
macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $number:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub enum $name { $($(#[$doc])* $variant = ffi::$number,)* }

        impl $name {
            /// All of them, with SQLite's names.
            pub const ALL: &[($name, &str)] = &[$(($name::$variant, stringify!($number)),)*];

            /// The one with this number in SQLite's header.
            pub fn of_number(number: i32) -> Option<$name> {
                $name::ALL.iter().find(|(it, _)| *it as i32 == number).map(|(it, _)| *it)
            }
        }
    };
}

numbered! {
    /// A switch of a connection (<https://sqlite.org/c3ref/c_dbconfig_defensive.html>).
    Setting {
        /// Foreign keys are enforced.
        ForeignKeys = SQLITE_DBCONFIG_ENABLE_FKEY,
        /// Triggers run.
        Triggers = SQLITE_DBCONFIG_ENABLE_TRIGGER,
        /// `fts3_tokenizer()` takes two arguments.
        Fts3Tokenizer = SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER,
        /// Extensions can be loaded by [`Connection::load_extension`].
        LoadExtension = SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION,
        /// Closing the last connection leaves the WAL as it is.
        NoCheckpointOnClose = SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
        /// Plans do not depend on bound values.
        StablePlans = SQLITE_DBCONFIG_ENABLE_QPSG,
        /// EXPLAIN QUERY PLAN shows triggers too.
        ExplainTriggers = SQLITE_DBCONFIG_TRIGGER_EQP,
        /// The next VACUUM makes the database empty.
        ResetDatabase = SQLITE_DBCONFIG_RESET_DATABASE,
        /// SQL that can corrupt the file is refused.
        Defensive = SQLITE_DBCONFIG_DEFENSIVE,
        /// The schema table can be written.
        WritableSchema = SQLITE_DBCONFIG_WRITABLE_SCHEMA,
        /// ALTER TABLE RENAME works as before 3.25.
        LegacyAlterTable = SQLITE_DBCONFIG_LEGACY_ALTER_TABLE,
        /// In DML a text in double quotes may be a string.
        QuotedStringsDml = SQLITE_DBCONFIG_DQS_DML,
        /// In DDL a text in double quotes may be a string.
        QuotedStringsDdl = SQLITE_DBCONFIG_DQS_DDL,
        /// Views work.
        Views = SQLITE_DBCONFIG_ENABLE_VIEW,
        /// New files have the oldest format.
        LegacyFileFormat = SQLITE_DBCONFIG_LEGACY_FILE_FORMAT,
        /// Functions in the schema need not be marked innocuous.
        TrustedSchema = SQLITE_DBCONFIG_TRUSTED_SCHEMA,
        /// Figures about scans are gathered, where SQLite was built for it.
        ScanStatus = SQLITE_DBCONFIG_STMT_SCANSTATUS,
        /// Scans go backwards.
        ReverseScanOrder = SQLITE_DBCONFIG_REVERSE_SCANORDER,
        /// ATTACH may create files.
        AttachCreate = SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE,
        /// ATTACH may open files for writing.
        AttachWrite = SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE,
        /// SQL may have comments.
        Comments = SQLITE_DBCONFIG_ENABLE_COMMENTS,
    }
}

numbered! {
    /// Something that a connection has a limit for (<https://sqlite.org/c3ref/c_limit_attached.html>).
    Limit {
        /// Bytes of a row, a text or a BLOB.
        Length = SQLITE_LIMIT_LENGTH,
        /// Bytes of an SQL statement.
        SqlLength = SQLITE_LIMIT_SQL_LENGTH,
        /// Columns of a table, an index, a result; terms of a clause.
        Columns = SQLITE_LIMIT_COLUMN,
        /// Depth of an expression.
        ExpressionDepth = SQLITE_LIMIT_EXPR_DEPTH,
        /// Terms of a compound SELECT.
        CompoundSelect = SQLITE_LIMIT_COMPOUND_SELECT,
        /// Instructions of a statement.
        Instructions = SQLITE_LIMIT_VDBE_OP,
        /// Arguments of a function.
        FunctionArguments = SQLITE_LIMIT_FUNCTION_ARG,
        /// Attached databases.
        Attached = SQLITE_LIMIT_ATTACHED,
        /// Bytes of a pattern of LIKE or GLOB.
        LikePatternLength = SQLITE_LIMIT_LIKE_PATTERN_LENGTH,
        /// The highest number of a parameter.
        ParameterNumber = SQLITE_LIMIT_VARIABLE_NUMBER,
        /// Depth of triggers that fire each other.
        TriggerDepth = SQLITE_LIMIT_TRIGGER_DEPTH,
        /// Threads that help a statement.
        WorkerThreads = SQLITE_LIMIT_WORKER_THREADS,
    }
}

impl Connection {
    /// The state of a switch.
    pub fn setting(&self, setting: Setting) -> bool {
        self.configure(setting, -1)
    }

    /// Turns a switch, and tells its state then: SQLite leaves some as they are.
    pub fn set(&self, setting: Setting, on: bool) -> bool {
        self.configure(setting, c_int::from(on))
    }

    fn configure(&self, setting: Setting, value: c_int) -> bool {
        let mut now: c_int = 0;
        // SAFETY: these operations take an int and a pointer to an int.
        unsafe { ffi::sqlite3_db_config(self.raw(), setting as c_int, value, &raw mut now) };
        now != 0
    }

    /// A limit.
    pub fn limit(&self, limit: Limit) -> i32 {
        self.limit_to(limit, -1)
    }

    /// Sets a limit, and tells what it was. One above SQLite's own bound becomes that bound; a negative
    /// one changes nothing.
    pub fn set_limit(&self, limit: Limit, value: i32) -> i32 {
        self.limit_to(limit, value)
    }

    fn limit_to(&self, limit: Limit, value: c_int) -> c_int {
        // SAFETY: the connection is open; any number will do.
        unsafe { ffi::sqlite3_limit(self.raw(), limit as c_int, value) }
    }

    /// Allows to load extensions, by [`Connection::load_extension`] and by the SQL function `load_extension()`.
    ///
    /// # Errors
    /// As SQLite fails.
    ///
    /// # Safety
    /// Until [`Connection::disable_load_extension`] is called, each SQL statement that this connection executes may
    /// call `load_extension()`: what [`Connection::load_extension`] demands of a library holds for the ones that these
    /// statements name, those of the triggers and views of its databases included.
    pub unsafe fn enable_load_extension(&self) -> Result<(), Error> {
        // SAFETY: the connection is open. Which libraries SQL loads is the obligation of this function's caller.
        let code = unsafe { ffi::sqlite3_enable_load_extension(self.raw(), 1) };
        self.check(code)
    }

    /// Forbids to load extensions, which is the default.
    ///
    /// # Errors
    /// As SQLite fails.
    pub fn disable_load_extension(&self) -> Result<(), Error> {
        // SAFETY: the connection is open, and to forbid loads nothing.
        let code = unsafe { ffi::sqlite3_enable_load_extension(self.raw(), 0) };
        self.check(code)
    }

    /// Loads an extension: a shared library, whose code runs in this process with all its rights. It must
    /// have been allowed before. `entry` is the function that SQLite calls; `None` for the usual one.
    ///
    /// # Errors
    /// When it is not allowed; when the library cannot be loaded.
    ///
    /// # Safety
    /// The library is an extension for this version of SQLite and for this platform: its initializers, its entry function, and
    /// all that the entry function registers are sound when they are called as SQLite calls them
    /// (<https://sqlite.org/loadext.html>).
    pub unsafe fn load_extension(&self, path: &Path, entry: Option<&str>) -> Result<(), Error> {
        let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
        let zero = |_| Error::misuse("a path or name cannot contain a zero byte");
        let path = CString::new(bytes).map_err(zero)?;
        let entry = entry.map(CString::new).transpose().map_err(zero)?;
        let entry: *const c_char = entry.as_ref().map_or(ptr::null(), |it| it.as_ptr());
        let mut message = ptr::null_mut();
        // SAFETY: zero-terminated texts and a place for the message, which all live through the call. That the
        // library's code is sound is the obligation of this function's caller.
        let code = unsafe {
            ffi::sqlite3_load_extension(self.raw(), path.as_ptr(), entry, &raw mut message)
        };
        if code == ffi::SQLITE_OK {
            return Ok(());
        }
        if message.is_null() {
            return Err(Error::from_code(code));
        }
        // SAFETY: a zero-terminated text of SQLite's.
        let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
        // SAFETY: SQLite's memory, which was given to the caller.
        unsafe { ffi::sqlite3_free(message.cast()) };
        Err(Error { code: Code(code), message: text })
    }
}

/// True when `sql` ends with a whole statement, as far as its words tell
/// (<https://sqlite.org/c3ref/complete.html>).
pub fn is_complete(sql: &str) -> bool {
    // What comes after a zero byte is not SQL.
    let Ok(sql) = CString::new(sql.split('\0').next().unwrap_or_default()) else { return false };
    // SAFETY: a zero-terminated text.
    unsafe { ffi::sqlite3_complete(sql.as_ptr()) == 1 }
}

/// SQLite's version, for example `3.54.1`.
pub fn version() -> &'static str {
    // SAFETY: has no preconditions.
    let text = unsafe { ffi::sqlite3_libversion() };
    // SAFETY: zero-terminated and static.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or_default()
}

/// How SQLite was built for threads (<https://sqlite.org/c3ref/threadsafe.html>): 1, serialized.
pub fn thread_safety() -> i32 {
    // SAFETY: has no preconditions.
    unsafe { ffi::sqlite3_threadsafe() }
}
